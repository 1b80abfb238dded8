//! The metadata in front of a packet, which the parsers of ingress and egress read.

use ebb_units::Instant;

use super::blocks::{RESUBMITTED_BYTES, Tofino, low, nanoseconds};
use crate::front::Front;
use crate::outcome::*;

/// Bytes of metadata of egress; those of Tofino 2 have one more.
const EGRESS_BYTES: usize = 27;

impl Tofino {
    /// Puts bytes in front of a packet at the parser of ingress, and no others.
    pub(super) fn ingress_front(
        &self,
        now: Instant,
        input: &IngressInput,
        of_port: &[u8],
        front: &mut Front,
    ) {
        let resubmitted = input.preserved.as_ref();
        let resubmitted = resubmitted.filter(|p| p.field_list == RESUBMITTED_BYTES);
        let flag = u64::from(resubmitted.is_some()) << 63;
        let port = u64::from(input.ingress_port & 0x1ff) << 48;
        front.clear();
        let (first, behind) = front
            .metadata(8 + self.port_metadata_bytes())
            .split_at_mut(8);
        put(first, flag | port | nanoseconds(now) & low(48));
        match resubmitted {
            Some(p) => behind
                .iter_mut()
                .zip(&p.words)
                .for_each(|(to, word)| *to = *word as u8),
            None => behind.iter_mut().zip(of_port).for_each(|(to, b)| *to = *b),
        }
    }

    /// Puts metadata in front of a packet at the parser of egress. `arrived` is its length at ingress in bytes, with
    /// FCS.
    pub(super) fn egress_front(
        &self,
        input: &EgressInput,
        deflected: bool,
        arrived: u32,
        front: &mut Front,
    ) {
        let (depth, time) = match self.generation {
            1 => (low(19), low(18)),
            _ => (low(19), low(32)),
        };
        let more = usize::from(self.generation == 2);
        let (b, _) = front
            .metadata(EGRESS_BYTES + more)
            .split_at_mut(EGRESS_BYTES);
        put(&mut b[..2], u64::from(input.egress_port & 0x1ff));
        put(&mut b[2..5], u64::from(input.enq_qdepth) & depth);
        b[5] = input.congestion[0] & 3;
        put(&mut b[6..10], nanoseconds(input.enq_timestamp) & time);
        put(&mut b[10..13], u64::from(input.deq_qdepth) & depth);
        put(&mut b[13..15], u64::from(input.congestion[1] & 3) << 8);
        put(&mut b[15..19], input.deq_timedelta.as_nanos() & time);
        put(&mut b[19..22], u64::from(input.egress_rid) << 8);
        put(&mut b[22..24], u64::from(input.queue_id) << 8);
        b[24] = u8::from(deflected);
        put(&mut b[25..27], u64::from(arrived) & low(16));
    }
}

/// Sets bytes to the low bytes of a number.
#[inline]
fn put(to: &mut [u8], value: u64) {
    let bytes = value.to_be_bytes();
    to.copy_from_slice(&bytes[bytes.len() - to.len()..]);
}
