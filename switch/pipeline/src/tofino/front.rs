//! Metadata in front of a packet, which the parsers of ingress and egress read.

use ebb_units::Instant;

use super::blocks::{RESUBMITTED_BYTES, Tofino, low, nanoseconds};
use crate::outcome::*;

impl Tofino {
    /// Bytes in front of a packet at the parser of ingress.
    pub(super) fn ingress_front(
        &self,
        now: Instant,
        input: &IngressInput,
        of_port: &[u8],
    ) -> Front {
        let resubmitted = input.preserved.as_ref();
        let resubmitted = resubmitted.filter(|p| p.field_list == RESUBMITTED_BYTES);
        let flag = u64::from(resubmitted.is_some()) << 63;
        let port = u64::from(input.ingress_port & 0x1ff) << 48;
        let mut front = Front::default();
        front.put(flag | port | nanoseconds(now) & low(48), 8);
        let most = self.port_metadata_bytes();
        let behind = &mut front.bytes[8..8 + most];
        match resubmitted {
            Some(p) => behind
                .iter_mut()
                .zip(&p.words)
                .for_each(|(to, word)| *to = *word as u8),
            None => behind.iter_mut().zip(of_port).for_each(|(to, b)| *to = *b),
        }
        front.length += most;
        front
    }

    /// Bytes in front of a packet at the parser of egress. `arrived` is its length at ingress in bytes, with FCS.
    pub(super) fn egress_front(&self, input: &EgressInput, deflected: bool, arrived: u32) -> Front {
        let (depth, time) = match self.generation {
            1 => (low(19), low(18)),
            _ => (low(19), low(32)),
        };
        let mut front = Front::default();
        front.put(u64::from(input.egress_port & 0x1ff), 2);
        front.put(u64::from(input.enq_qdepth) & depth, 3);
        front.put(u64::from(input.congestion[0] & 3), 1);
        front.put(nanoseconds(input.enq_timestamp) & time, 4);
        front.put(u64::from(input.deq_qdepth) & depth, 3);
        front.put(u64::from(input.congestion[1] & 3), 1);
        front.put(0, 1);
        front.put(input.deq_timedelta.as_nanos() & time, 4);
        front.put(u64::from(input.egress_rid), 2);
        front.put(0, 1);
        front.put(u64::from(input.queue_id), 1);
        front.put(0, 1);
        front.put(u64::from(deflected), 1);
        front.put(u64::from(arrived) & low(16), 2);
        if self.generation == 2 {
            front.put(0, 1);
        }
        front
    }
}

/// Most bytes of metadata in front of a packet.
const MAX_FRONT_BYTES: usize = 32;

/// Metadata in front of a packet.
#[derive(Default)]
pub(super) struct Front {
    pub bytes: [u8; MAX_FRONT_BYTES],
    pub length: usize,
}

impl Front {
    /// Adds the low bytes of a number.
    fn put(&mut self, value: u64, bytes: usize) {
        let end = self.length + bytes;
        self.bytes[self.length..end].copy_from_slice(&value.to_be_bytes()[8 - bytes..]);
        self.length = end;
    }
}
