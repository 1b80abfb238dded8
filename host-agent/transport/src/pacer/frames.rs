//! The pacer for traffic that is not ours: Ethernet frames that pass between a host and its link.
//!
//! ```text
//!   host ── handle_outgoing ──► Pass: send it now │ Held: poll() has it when its time has come │ Dropped
//!   host ◄── handle_incoming ── the link            (looked at for ECN-Echo, never delayed)
//! ```
//!
//! Paced frames are those that the transports of this crate have paced: TCP segments with payload,
//! of flows that ECN-Echo has associated. All else passes. Unlike our own TCP, a host cannot be held
//! back, so a frame that does not fit into the FIFO is dropped, as HULL's hardware drops it.

use std::net::Ipv4Addr;

use ebb_units::Instant;
use ebb_wire::{EthernetHeader, Ipv4Header, Protocol, TcpFlags, TcpGlance};

use super::{Admission, Pacer, PacerCounters, PacerParams};
use crate::buffers::BufferPool;

/// One direction of a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpFlow {
    /// Address and port of the sender.
    pub source: (Ipv4Addr, u16),
    /// Address and port of the receiver.
    pub destination: (Ipv4Addr, u16),
}

impl TcpFlow {
    fn reversed(self) -> TcpFlow {
        TcpFlow {
            source: self.destination,
            destination: self.source,
        }
    }
}

/// Treatment of an outgoing frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Send it now.
    Pass,
    /// The pacer has copied it; [`FramePacer::poll`] gives it back in its time.
    Held,
    /// The FIFO is full: it is lost.
    Dropped,
}

/// Counters of frames since the pacer was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounters {
    /// Frames from the host, and their bytes.
    pub outgoing_frames: u64,
    /// Bytes of the frames from the host.
    pub outgoing_bytes: u64,
    /// Frames to the host.
    pub incoming_frames: u64,
    /// Incoming segments with ECN-Echo.
    pub ecn_echoes: u64,
    /// Frames that the pacer held.
    pub held_frames: u64,
    /// Frames for which the FIFO had no room.
    pub dropped_frames: u64,
}

/// Fields of a frame that the pacer reads.
struct Glance {
    flow: TcpFlow,
    flags: TcpFlags,
    payload_bytes: usize,
    /// Length of the IPv4 packet.
    packet_bytes: usize,
}

impl Glance {
    /// None: not a TCP segment in an IPv4 packet that is no fragment.
    fn at(frame: &[u8]) -> Option<Glance> {
        let ethernet = EthernetHeader::parse(frame).ok()?;
        if ethernet.header.ethertype != EthernetHeader::IPV4 {
            return None;
        }
        let ip = Ipv4Header::parse(ethernet.payload).ok()?;
        if ip.header.protocol != Protocol::TCP {
            return None;
        }
        let tcp = TcpGlance::read(ip.payload)?;
        Some(Glance {
            flow: TcpFlow {
                source: (ip.header.src, tcp.source_port),
                destination: (ip.header.dst, tcp.destination_port),
            },
            flags: tcp.flags,
            payload_bytes: tcp.payload_bytes,
            // Parsing has checked that as many bytes are there.
            packet_bytes: usize::from(u16::from_be_bytes([
                ethernet.payload[2],
                ethernet.payload[3],
            ])),
        })
    }
}

/// The pacer of a host that knows nothing of it.
#[derive(Debug)]
pub struct FramePacer {
    pacer: Pacer<TcpFlow, Vec<u8>>,
    buffers: BufferPool,
    counters: FrameCounters,
}

impl FramePacer {
    /// A pacer without associations. `seed`: of the draws by which flows are associated.
    pub fn new(params: &PacerParams, seed: u64) -> Self {
        FramePacer {
            pacer: Pacer::new(params, seed),
            buffers: BufferPool::default(),
            counters: FrameCounters::default(),
        }
    }

    /// Counters since it was made.
    pub fn counters(&self) -> FrameCounters {
        self.counters
    }

    /// Counters of its pacer.
    pub fn pacer_counters(&self) -> PacerCounters {
        self.pacer.counters()
    }

    /// Q of equation (4).
    pub fn backlog_bytes(&self) -> u64 {
        self.pacer.backlog_bytes()
    }

    /// R of equation (4), as of `now`.
    pub fn rate_bytes_per_second(&mut self, now: Instant) -> f64 {
        self.pacer.rate_bytes_per_second(now)
    }

    /// The host sends `frame`.
    pub fn handle_outgoing(&mut self, now: Instant, frame: &[u8]) -> Verdict {
        self.counters.outgoing_frames += 1;
        self.counters.outgoing_bytes += frame.len() as u64;
        let Some(glance) = Glance::at(frame) else {
            return Verdict::Pass;
        };
        // FIN or RST must not overtake the data before it. A pure ACK may: it speaks of the other
        // direction.
        let ends = glance.flags.contains(TcpFlags::FIN) || glance.flags.contains(TcpFlags::RST);
        let follows = ends && self.pacer.holds(glance.flow);
        if glance.payload_bytes == 0 && !follows {
            return Verdict::Pass;
        }
        // The frame is copied only if it stays.
        let empty = self.buffers.take();
        let verdict =
            self.pacer
                .enqueue_with(now, glance.packet_bytes, glance.flow, empty, |buffer| {
                    buffer.extend_from_slice(frame);
                });
        match verdict {
            Admission::Queued => {
                self.counters.held_frames += 1;
                Verdict::Held
            }
            Admission::Pass(buffer) => {
                self.buffers.put(buffer);
                Verdict::Pass
            }
            Admission::Full(buffer) => {
                self.buffers.put(buffer);
                self.counters.dropped_frames += 1;
                Verdict::Dropped
            }
        }
    }

    /// `frame` is on its way to the host.
    pub fn handle_incoming(&mut self, now: Instant, frame: &[u8]) {
        self.counters.incoming_frames += 1;
        let Some(glance) = Glance::at(frame) else {
            return;
        };
        // In a SYN the flag negotiates (RFC 3168 6.1.1).
        let echo = TcpFlags::ACK | TcpFlags::ECE;
        if glance.flags.contains(echo) && !glance.flags.contains(TcpFlags::SYN) {
            self.counters.ecn_echoes += 1;
            self.pacer.on_ecn_echo(now, glance.flow.reversed());
        }
    }

    /// The next frame whose time has come by `now`, exchanged for the storage of `frame`. False:
    /// there is none, and `frame` is as it was.
    pub fn poll(&mut self, now: Instant, frame: &mut Vec<u8>) -> bool {
        let Some(released) = self.pacer.poll(now) else {
            return false;
        };
        self.buffers.put(std::mem::replace(frame, released));
        true
    }

    /// When [`Self::poll`] has the next frame. None: no frame is held.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.pacer.next_deadline()
    }
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
