//! An external port: a host of the network that is a Linux interface.

use std::io;
use std::sync::Arc;

use ebb_packet_io::{
    Audience, MAX_FRAME_BYTES, PacketSocket, ReceiveRing, ReceivedFrame, SocketOptions,
};
use ebb_pipeline::Frames;
use ebb_units::Instant;
use tracing::warn;

use super::DriverError;
use super::clock::RealtimeOffset;
use super::inbox::Inbox;
use super::line::{Dropped, Line};
use super::sender::Batch;
use crate::drops::DropReason;
use crate::network::{Host, Network, NodeId, NodePort};

/// Frames read from one interface before the others get their turn.
const FRAMES_PER_TURN: usize = 256;

/// A Linux interface as a host of the network: what it receives enters at the time at which the
/// kernel received it, what arrives at it is sent in batches.
pub struct Interface {
    name: String,
    line: Arc<Line>,
    /// What is received comes through it, not through the queue of the socket.
    ring: Option<ReceiveRing>,
    to_send: Vec<Vec<u8>>,
    drops: Vec<Dropped>,
    readable: bool,
    warned_checksum: bool,
    warned_too_long: bool,
}

/// How frames come from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    /// By system calls, from the queue of the socket.
    Calls,
    /// From a mapped ring of this size, which holds frames for a thread that comes late: one in
    /// [`RING_SLOT_BYTES`](ebb_packet_io::RING_SLOT_BYTES). Where there can be none, by system calls.
    Ring { bytes: usize },
}

impl Interface {
    /// Puts a port of a switch on a Linux interface. The interface becomes a node of the network, with
    /// its own name.
    pub fn attach(
        network: &mut Network<Interface>,
        at: NodePort,
        interface: &str,
        reception: Reception,
    ) -> Result<NodeId, DriverError> {
        let switch = network.name(at.node);
        // Promiscuous; frames carry the time of their arrival, so that a process that gets the CPU
        // late still sees when they came.
        let options = SocketOptions {
            audience: Audience::Everyone,
            timestamps: true,
            ..SocketOptions::default()
        };
        let socket =
            PacketSocket::open(interface, &options).map_err(|reason| DriverError::Interface {
                switch: switch.into(),
                port: at.port,
                interface: interface.into(),
                remedy: remedy(&reason),
                reason,
            })?;
        let label = format!("{switch}, port {}, interface {interface}", at.port);
        let ring = match reception {
            Reception::Calls => None,
            Reception::Ring { bytes } => ReceiveRing::map(&socket, bytes)
                .inspect_err(|error| {
                    warn!("{label}: no mapped ring, frames are read by system calls: {error}");
                })
                .ok(),
        };
        let node = network.add_host(Self {
            name: interface.into(),
            line: Arc::new(Line::new(label, socket)),
            ring,
            to_send: Vec::new(),
            drops: Vec::new(),
            readable: false,
            warned_checksum: false,
            warned_too_long: false,
        });
        network.connect(NodePort { node, port: 0 }, at)?;
        Ok(node)
    }

    pub(super) fn line(&self) -> &Arc<Line> {
        &self.line
    }

    pub(super) fn note_events(&mut self, readable: bool, failed: bool) {
        self.readable |= readable;
        if failed {
            // Reading the error clears it; otherwise poll would return at once for ever.
            if let Ok(Some(error)) | Err(error) = self.line.socket().take_error() {
                self.line.note_error(&error);
            }
        }
    }

    /// Reads what has arrived. Returns the time up to which everything has been read.
    pub(super) fn read(
        &mut self,
        now: Instant,
        realtime: RealtimeOffset,
        inbox: &mut Inbox,
    ) -> Instant {
        if !std::mem::take(&mut self.readable) {
            return now;
        }
        let mut latest = Instant::ZERO;
        let mut checksum_missing = false;
        let Inbox {
            buffers,
            frames,
            memory,
        } = inbox;
        let take = |frame: ReceivedFrame<'_>| {
            let arrived = frame.realtime_ns.map_or(now, |ns| realtime.to_instant(ns));
            // The two clocks are read one after the other, and one of them may be stepped.
            latest = latest.max(arrived.min(now));
            checksum_missing |= frame.checksum_missing;
            let mut copy = memory.take(frame.bytes.len());
            copy.extend_from_slice(frame.bytes);
            frames.push((latest, copy));
        };
        let socket = self.line.socket();
        let received = match &mut self.ring {
            Some(ring) => ring.receive(socket, FRAMES_PER_TURN, take),
            None => socket.receive(buffers, FRAMES_PER_TURN, take),
        };
        if checksum_missing && !std::mem::replace(&mut self.warned_checksum, true) {
            warn!(
                "{}: frames arrive without L4 checksum, hosts will discard them; turn the \
                 offload off at the other end: ethtool -K INTERFACE tx off",
                self.line.label()
            );
        }
        let received = match received {
            Ok(received) => received,
            Err(error) => {
                self.line.note_error(&error);
                return now;
            }
        };
        if received.frames > 0 || self.ring.is_none() {
            self.line.note_up();
        }
        self.count_too_long(received.too_long);
        if received.drained {
            return now;
        }
        // More is waiting, all of it later than what was read.
        self.readable = true;
        latest
    }

    fn count_too_long(&mut self, frames: usize) {
        if frames == 0 {
            return;
        }
        if !std::mem::replace(&mut self.warned_too_long, true) {
            warn!(
                "{}: frames longer than {} bytes are dropped; if the other end \
                 segments in \"hardware\", turn that off: ethtool -K INTERFACE tso off gso off",
                self.line.label(),
                MAX_FRAME_BYTES
            );
        }
        self.drop_frames(DropReason::FrameTooLong, frames as u64, 0);
    }

    /// How many frames are to be sent.
    pub(super) fn to_send(&self) -> usize {
        self.to_send.len()
    }

    /// Sends them.
    pub(super) fn send(&mut self, memory: &mut Frames) {
        self.line.send(&self.to_send, &mut self.drops);
        self.to_send.drain(..).for_each(|frame| memory.give(frame));
    }

    /// Has them sent elsewhere, through the same line.
    pub(super) fn hand_over(&mut self, batch: &mut Batch) {
        std::mem::swap(&mut self.to_send, &mut batch.frames);
    }

    /// What was handed over has been sent.
    pub(super) fn take_back(&mut self, batch: &mut Batch, memory: &mut Frames) {
        let frames = batch.frames.drain(..);
        frames.for_each(|frame| memory.give(frame));
        self.drops.append(&mut batch.drops);
    }

    pub(super) fn read_kernel_drops(&mut self) {
        match self.line.socket().take_kernel_drops() {
            Ok(0) | Err(_) => {}
            Ok(drops) => self.drop_frames(DropReason::KernelDrop, drops, 0),
        }
    }

    fn drop_frames(&mut self, reason: DropReason, packets: u64, bytes: u64) {
        self.drops.push(Dropped {
            reason,
            packets,
            bytes,
        });
    }

    /// What was dropped since the last call.
    pub(super) fn take_drops(&mut self) -> Vec<Dropped> {
        std::mem::take(&mut self.drops)
    }
}

impl Host for Interface {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, _: Instant, frame: Vec<u8>) {
        self.to_send.push(frame);
    }

    fn wake(&mut self, _: Instant) {}

    /// Its frames are injected as they are read.
    fn next_wake(&self) -> Option<Instant> {
        None
    }

    fn poll_transmit(&mut self, _: Instant) -> Option<(Instant, Vec<u8>)> {
        None
    }

    fn is_passive(&self) -> bool {
        true
    }
}

fn remedy(reason: &io::Error) -> &'static str {
    match reason.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => {
            "create it first (ip link), in the network namespace the switch runs in"
        }
        Some(libc::EPERM | libc::EACCES) => "run as root or with CAP_NET_RAW and CAP_NET_ADMIN",
        _ => "see `ip link` for its state",
    }
}
