//! The pacer between the connections of a host and its interface (`hull`).

use ebb_nic::DscpSet;
use ebb_units::Instant;

use crate::buffers::BufferPool;
use crate::pacer::{Admission, Pacer, PacerCounters};
use crate::transport::{FlowId, PacketKind, TxInfo};

/// Offset of the byte with DSCP and ECN in an IPv4 header.
const DSCP_AT: usize = 1;

/// The pacer of a host, if it has one. Its packets are stored with the flow id of their connection.
pub(super) struct Paced {
    pacer: Option<Pacer<FlowId, (FlowId, Vec<u8>)>>,
}

impl Paced {
    pub(super) fn new(pacer: Option<Pacer<FlowId, (FlowId, Vec<u8>)>>) -> Self {
        Paced { pacer }
    }

    /// Counters of the pacer. None: there is no pacer.
    pub(super) fn counters(&self) -> Option<PacerCounters> {
        self.pacer.as_ref().map(Pacer::counters)
    }

    /// Whether there is room for a packet of a connection. Nothing is dropped between TCP and the
    /// pacer: a connection waits for the FIFO.
    pub(super) fn has_room(&mut self, now: Instant, id: FlowId, bytes: usize) -> bool {
        let pacer = self.pacer.as_mut();
        pacer.is_none_or(|pacer| pacer.has_room(now, id, bytes))
    }

    /// Offers a packet. True: the pacer has taken it out of `packet`.
    pub(super) fn takes(
        &mut self,
        now: Instant,
        info: &TxInfo,
        packet: &mut Vec<u8>,
        buffers: &mut BufferPool,
    ) -> bool {
        let (PacketKind::Data, Some(pacer)) = (info.kind, &mut self.pacer) else {
            return false;
        };
        let bytes = packet.len();
        let paced = std::mem::replace(packet, buffers.take());
        match pacer.enqueue(now, (info.flow, paced), bytes, info.flow) {
            Admission::Queued => true,
            Admission::Pass((_, passed)) | Admission::Full((_, passed)) => {
                buffers.put(std::mem::replace(packet, passed));
                false
            }
        }
    }

    /// The next packet that the pacer releases. One of a class that is not wanted stays, and so do those
    /// behind it: the pacer is one FIFO.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        wanted: DscpSet,
        packet: &mut Vec<u8>,
        buffers: &mut BufferPool,
    ) -> Option<TxInfo> {
        let pacer = self.pacer.as_mut()?;
        let (_, first) = pacer.next_ready(now)?;
        if !wanted.contains(first[DSCP_AT] >> 2) {
            return None;
        }
        let (flow, paced) = pacer.poll(now)?;
        buffers.put(std::mem::replace(packet, paced));
        Some(TxInfo {
            flow,
            kind: PacketKind::Data,
        })
    }

    /// An ECN-Echo arrived on a connection.
    pub(super) fn on_ecn_echo(&mut self, now: Instant, id: FlowId) {
        if let Some(pacer) = &mut self.pacer {
            pacer.on_ecn_echo(now, id);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if let Some(pacer) = &mut self.pacer {
            pacer.handle_timeout(now);
        }
    }

    /// Deadline of the pacer. A packet that waits only for the NIC has none.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let pacer = self.pacer.as_ref().filter(|pacer| !pacer.has_ready());
        pacer.and_then(Pacer::next_deadline)
    }

    #[cfg(test)]
    pub(super) fn pacer(&mut self) -> &mut Pacer<FlowId, (FlowId, Vec<u8>)> {
        self.pacer.as_mut().expect("a host with a pacer")
    }
}
