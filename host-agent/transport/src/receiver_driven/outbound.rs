//! Departures: answers, pulls and data, in this order, and how they become packets.

use ebb_nic::DscpSet;
use ebb_units::Instant;
use ebb_wire::{EbbFlags, EbbHeader, Ecn, Ipv4Header, Protocol};
use rand::Rng;

use super::ResetReason;
use super::path::Path;
use super::session::{Ending, ReceiverDriven, ReceiverSession, SenderSession};
use super::session_table::SessionTable;
use crate::transport::{FlowId, PacketKind, TxInfo};

/// Whether a pull says all that an earlier one of its session says: to the same sender, and about the same block.
fn says_all_of(pull: &EbbHeader, earlier: &EbbHeader) -> bool {
    (pull.sender, pull.block) == (earlier.sender, earlier.block)
}

impl<S: ReceiverDriven> SessionTable<S> {
    /// The next packet of a class that is wanted: answers first, then pulls at the pace of the link,
    /// then data. A bare packet of a sender leaves when data may, and waits in the NIC for its class.
    pub(super) fn outbound(
        &mut self,
        now: Instant,
        wanted: DscpSet,
        packet: &mut Vec<u8>,
    ) -> Option<TxInfo> {
        let control = wanted.contains(self.config.dscp.control);
        let data = wanted.contains(self.data_dscp());
        loop {
            if control && let Some((flow, path, header)) = self.control.pop_front() {
                self.emit(&path, header, false, packet);
                return Some(TxInfo {
                    flow,
                    kind: PacketKind::Control,
                });
            }
            if control && let Some(info) = self.poll_pull(now, packet) {
                return Some(info);
            }
            if data && let Some(info) = self.poll_data(now, packet) {
                return Some(info);
            }
            // A sender that cannot read its object has left a RESET behind.
            if !control || self.control.is_empty() {
                return None;
            }
        }
    }

    /// The next pull that is due and that its session still wants. Where the driver is late several are due at a time:
    /// those of a session are one packet then, as its counter is cumulative.
    fn poll_pull(&mut self, now: Instant, packet: &mut Vec<u8>) -> Option<TxInfo> {
        while let Some(flow) = self.pulls.pop(now) {
            let Some(open) = self.receivers.get_mut(&flow) else {
                continue;
            };
            let header = open.state.next_pull(now);
            open.state.counters().pulls_sent += u64::from(header.is_some());
            self.timers.set(open.timer, flow, open.state.deadline());
            let Some(header) = header else { continue };
            let mut of_flow = self.control.iter_mut().rev().filter(|(of, ..)| *of == flow);
            match of_flow.next() {
                Some((.., last)) if says_all_of(&header, last) => *last = header,
                _ => {
                    let path = open.path_of(&header);
                    self.control.push_back((flow, path, header));
                }
            }
        }
        let (flow, path, header) = self.control.pop_front()?;
        self.emit(&path, header, false, packet);
        Some(TxInfo {
            flow,
            kind: PacketKind::Control,
        })
    }

    /// A packet of the sender whose turn it is.
    fn poll_data(&mut self, now: Instant, packet: &mut Vec<u8>) -> Option<TxInfo> {
        while let Some(flow) = self.ready.pop_front() {
            let Some(open) = self.senders.get_mut(&flow) else {
                continue;
            };
            open.ready = false;
            if !open.state.can_send() {
                continue;
            }
            self.payload.clear();
            match open.state.next_packet(now, &mut self.payload) {
                Ok(header) => {
                    let counters = open.state.counters();
                    counters.packets_sent += 1;
                    counters.payload_bytes_sent += self.payload.len() as u64;
                    counters.retransmitted +=
                        u64::from(header.flags.contains(EbbFlags::RETRANSMIT));
                    counters.repair_symbols += u64::from(header.flags.contains(EbbFlags::REPAIR));
                    let header = EbbHeader {
                        priority: open.priority.unwrap_or(0),
                        ..header
                    };
                    let path = open.path;
                    self.after_sender(now, flow);
                    let whole = !header.flags.contains(EbbFlags::TRIMMED);
                    self.emit(&path, header, whole, packet);
                    return Some(TxInfo {
                        flow,
                        kind: PacketKind::Data,
                    });
                }
                Err(error) => self.cannot_read(now, flow, &error),
            }
        }
        None
    }

    /// Ends a flow whose object cannot be read any further.
    pub(super) fn cannot_read(&mut self, now: Instant, flow: FlowId, error: &std::io::Error) {
        let reason = format!("cannot read the object to be sent: {error}");
        let reset = Some(ResetReason::Aborted);
        self.end_sender(now, flow, Ending::Failed(reason), reset);
    }

    /// The class of packets with payload.
    fn data_dscp(&self) -> u8 {
        match S::IS_SCAVENGER {
            true => self.config.dscp.scavenger,
            false => self.config.dscp.trimmable,
        }
    }

    /// Writes the packet that carries `header`.
    fn emit(&mut self, path: &Path, header: EbbHeader, with_payload: bool, packet: &mut Vec<u8>) {
        let header = EbbHeader {
            source_port: path.local_port,
            destination_port: path.peer.port(),
            session: path.session,
            entropy: self.rng.random(),
            ..header
        };
        let to = *path.peer.ip();
        let header = EbbHeader {
            // The low half names the group; the high half is the same for all of 239.x/16.
            multicast_group: if to.is_multicast() {
                u32::from(to) as u16
            } else {
                0
            },
            ..header
        };
        let payload: &[u8] = if with_payload { &self.payload } else { &[] };
        let dscp = if with_payload {
            self.data_dscp()
        } else {
            self.config.dscp.control
        };
        packet.clear();
        Ipv4Header::new(self.config.address, to, Protocol::EBB, dscp, Ecn::NotEct)
            .emit(EbbHeader::BYTES + payload.len(), packet);
        header.emit(payload, packet);
    }
}
