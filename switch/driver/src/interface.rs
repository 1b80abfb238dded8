//! An external port: a host of the network that is a Linux interface.

use std::io;
use std::sync::Arc;

use ebb_engine::drive::Late;
use ebb_engine::{DropReason, Host, Network, NodeId, NodePort};
use ebb_packet_io::{
    Audience, MAX_FRAME_BYTES, PacketSocket, ReceiveRing, ReceivedFrame, SocketOptions,
};
use ebb_pipeline::Frames;
use ebb_units::Instant;
use tracing::{info, warn};

use crate::DriverError;
use crate::batch::Batch;
use crate::clock::{Clock, RealtimeOffset};
use crate::inbox::Inbox;
use crate::line::{Dropped, Line};
use crate::pressure::{Credit, Pressure};
use crate::sender::Addressed;

/// Frames read from one interface before the others get their turn.
const FRAMES_PER_TURN: usize = 256;

/// A Linux interface as a host of the network: what it receives enters at the time at which the
/// kernel received it, what arrives at it is sent in batches.
pub struct Interface {
    name: String,
    line: Arc<Line>,
    reception: Reception,
    /// What is received comes through it, not through the queue of the socket.
    ring: Option<ReceiveRing>,
    to_send: Batch,
    /// Came before those, and could not be sent.
    held: Batch,
    /// Batches that another thread is to send.
    handed_over: usize,
    pressure: Pressure,
    /// It may take frames again.
    has_room: bool,
    /// Credit was used since it was last granted.
    credit_used: bool,
    review_due: bool,
    /// Whether its room is waited for.
    waits_for_room: bool,
    drops: Vec<Dropped>,
    late: Late,
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
        let label = format!("{switch}, port {}, interface {interface}", at.port);
        let (socket, ring) =
            open(interface, reception, &label).map_err(|reason| DriverError::Interface {
                switch: switch.into(),
                port: at.port,
                interface: interface.into(),
                remedy: remedy(&reason),
                reason,
            })?;
        let node = network.add_host(Self {
            name: interface.into(),
            line: Arc::new(Line::new(label, socket)),
            reception,
            ring,
            to_send: Batch::default(),
            held: Batch::default(),
            handed_over: 0,
            pressure: Pressure::new(),
            has_room: false,
            credit_used: false,
            review_due: false,
            waits_for_room: false,
            drops: Vec::new(),
            late: Late::default(),
            readable: false,
            warned_checksum: false,
            warned_too_long: false,
        });
        network.connect(NodePort { node, port: 0 }, at)?;
        Ok(node)
    }

    pub(crate) fn line(&self) -> &Arc<Line> {
        &self.line
    }

    pub(crate) fn note_events(&mut self, readable: bool, has_room: bool, failed: bool) {
        self.readable |= readable;
        self.has_room |= has_room || failed;
        if failed {
            // Reading the error clears it; otherwise poll would return at once for ever.
            if let Ok(Some(error)) | Err(error) = self.line.socket().take_error() {
                self.line.note_error(&error);
            }
        }
    }

    /// Looks whether the interface is still there, and opens it anew if it was deleted and is there
    /// again: true if it did.
    pub(crate) fn reopen(&mut self) -> bool {
        self.line.look_for_interface();
        if self.line.is_present() || self.handed_over > 0 {
            return false;
        }
        // Why it cannot be opened is known: it was told that it has gone.
        let Ok((socket, ring)) = open(&self.name, self.reception, self.line.label()) else {
            return false;
        };
        info!("{}: is there again", self.line.label());
        self.line = Arc::new(Line::new(self.line.label().into(), socket));
        self.ring = ring;
        (self.readable, self.waits_for_room) = (true, false);
        true
    }

    /// Reads what has arrived. Returns the time up to which everything has been read.
    pub(crate) fn read(
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
        self.late.wakeup = frames.first().map(|(arrived, _)| now.since(*arrived));
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
    pub(crate) fn to_send(&self) -> usize {
        self.to_send.len()
    }

    /// Sends them, unless it has to wait for room.
    pub(crate) fn send(&mut self, memory: &mut Frames, clock: Clock) {
        if !self.pressure.is_blocked() && self.handed_over == 0 {
            self.send_all(memory, clock);
        }
    }

    fn send_all(&mut self, memory: &mut Frames, clock: Clock) {
        let mut batch = std::mem::take(&mut self.to_send);
        if !self.held.is_empty() {
            self.held.append(&mut batch);
            std::mem::swap(&mut self.held, &mut batch);
        }
        if !batch.is_empty() {
            self.line.send(&mut batch, clock);
            self.settle(&mut batch, memory);
        }
        // It is empty, and its memory is used again.
        self.to_send = batch;
    }

    /// Has them sent elsewhere, through the same line, unless it has to wait for room.
    pub(crate) fn hand_over(&mut self, part: &mut Addressed) {
        if self.is_pressed() || self.to_send.is_empty() {
            return;
        }
        self.handed_over += 1;
        std::mem::swap(&mut self.to_send, &mut part.batch);
        if !matches!(&part.line, Some(line) if Arc::ptr_eq(line, &self.line)) {
            part.line = Some(self.line.clone());
        }
    }

    /// What was handed over has been sent, or is left.
    pub(crate) fn take_back(&mut self, batch: &mut Batch, memory: &mut Frames) {
        if !batch.is_empty() {
            self.handed_over -= 1;
            self.settle(batch, memory);
        }
    }

    /// Takes notice of what became of a batch, and keeps what is left of it.
    fn settle(&mut self, batch: &mut Batch, memory: &mut Frames) {
        let done = batch.clear_done(memory, &mut self.late.departures);
        self.pressure.took(done as u64);
        self.credit_used |= done > 0;
        if batch
            .drops
            .iter()
            .any(|drop| drop.reason == DropReason::InterfaceBusy)
        {
            self.pressure.refused(self.unsent_bytes());
            self.limit_unsent();
        }
        self.drops.append(&mut batch.drops);
        if !batch.is_empty() {
            self.pressure.block();
            self.held.append(batch);
        }
    }

    /// Whether it is slower than what is to be sent.
    pub(crate) fn is_pressed(&self) -> bool {
        !self.pressure.is_free()
    }

    /// The kernel takes no more for now.
    pub(crate) fn is_blocked(&self) -> bool {
        self.pressure.is_blocked()
    }

    /// Whether the port is to be told anew what it may send.
    pub(crate) fn wants_credit(&self) -> bool {
        self.is_pressed() && !self.is_blocked() && (self.credit_used || self.review_due)
    }

    /// Sends what was left if there is room again, and tells what the port may send if that changes.
    pub(crate) fn relieve(&mut self, memory: &mut Frames, clock: Clock) -> Option<Credit> {
        if self.handed_over > 0 {
            return None;
        }
        if self.is_blocked() {
            // If the interface is gone, frames are dropped instead.
            if !std::mem::take(&mut self.has_room) && self.line.is_present() {
                return None;
            }
            self.pressure.relieve(self.unsent_bytes());
            self.limit_unsent();
            self.line.unblock();
            self.send_all(memory, clock);
            if !self.held.is_empty() {
                return None;
            }
        } else if !self.wants_credit() {
            return None;
        }
        self.credit_used = false;
        if std::mem::take(&mut self.review_due) {
            self.pressure.review();
        }
        let credit = self.pressure.grant(self.unsent_bytes());
        self.limit_unsent();
        Some(credit)
    }

    /// Whether to wait for room, if that has changed since the last call.
    pub(crate) fn take_waits_for_room(&mut self) -> Option<bool> {
        let waits = self.is_blocked();
        let changed = waits != std::mem::replace(&mut self.waits_for_room, waits);
        changed.then_some(waits)
    }

    /// Has the port's credit looked at even if none of it came here: frames may have been lost on a
    /// faulty link. To be called about every second.
    pub(crate) fn review_credit(&mut self) {
        self.review_due = true;
    }

    fn unsent_bytes(&self) -> usize {
        // An interface that is gone holds nothing.
        self.line.socket().unsent_bytes().unwrap_or(0)
    }

    fn limit_unsent(&self) {
        // Without the permission the system's limit holds, which is a bound, too.
        let _ = self.line.socket().limit_unsent(self.pressure.bound_bytes());
    }

    /// Drops what could not be sent: nobody will.
    pub(crate) fn abandon(&mut self) {
        self.held.append(&mut self.to_send);
        let left = std::mem::take(&mut self.held);
        if !left.is_empty() {
            let bytes = left.frames.iter().map(|frame| frame.len() as u64).sum();
            self.drop_frames(DropReason::InterfaceBusy, left.len() as u64, bytes);
        }
    }

    /// Exchanges what was noted of lateness, for something empty.
    pub(crate) fn exchange_late(&mut self, late: &mut Late) {
        std::mem::swap(&mut self.late, late);
    }

    pub(crate) fn read_kernel_drops(&mut self) {
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
    pub(crate) fn take_drops(&mut self) -> Vec<Dropped> {
        std::mem::take(&mut self.drops)
    }
}

impl Host for Interface {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, now: Instant, frame: Vec<u8>) {
        self.to_send.push(now, frame);
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

fn open(
    interface: &str,
    reception: Reception,
    label: &str,
) -> io::Result<(PacketSocket, Option<ReceiveRing>)> {
    // Promiscuous; frames carry the time of their arrival, so that a process that gets the CPU late
    // still sees when they came.
    let options = SocketOptions {
        audience: Audience::Everyone,
        timestamps: true,
        ..SocketOptions::default()
    };
    let socket = PacketSocket::open(interface, &options)?;
    socket.limit_unsent(Pressure::new().bound_bytes())?;
    let ring = match reception {
        Reception::Calls => None,
        Reception::Ring { bytes } => ReceiveRing::map(&socket, bytes)
            .inspect_err(|error| {
                warn!("{label}: no mapped ring, frames are read by system calls: {error}");
            })
            .ok(),
    };
    Ok((socket, ring))
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
