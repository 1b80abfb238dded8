//! An external port: a Linux interface as a host of the network.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use ebb_engine::drive::Late;
use ebb_engine::{DropReason, Host, Network, NodeId, NodePort};
use ebb_packet_io::{
    MAX_FRAME_BYTES, PacketSocket, ReceiveMode, ReceiveRing, ReceivedFrame, RingListener,
    SocketOptions,
};
use ebb_pipeline::Frames;
use ebb_units::Instant;
use tracing::{info, warn};

use crate::DriverError;
use crate::batch::{Batch, Dropped};
use crate::clock::{Clock, RealtimeOffset};
use crate::inbox::Inbox;
use crate::line::Line;
use crate::pressure::{Credit, Pressure};
use crate::ring::Ring;
use crate::sender::Addressed;

/// Most frames that are read from one interface before the others have their turn.
const FRAMES_PER_TURN: usize = 256;
/// Most rings at one interface: each is a process of its host.
const MOST_RINGS: usize = 16;

/// A Linux interface as a host of the network. What it receives enters the network at the time at
/// which the kernel received it; what arrives at it is sent in batches.
pub struct Interface {
    /// Name of the interface.
    name: String,
    /// Its socket, shared with the thread that sends.
    line: Arc<Line>,
    /// How frames come from the kernel.
    reception: Reception,
    /// The mapped ring through which frames come; `None` if they come by system calls.
    ring: Option<ReceiveRing>,
    /// Where processes of the host get rings; `None`: nowhere.
    listener: Option<RingListener>,
    /// Rings of processes of the host, which get the frames that they want; all others go through the interface.
    rings: Vec<Ring>,
    /// The number of the last ring.
    last_ring: u32,
    /// Frames that have arrived at the interface and are to be sent.
    to_send: Batch,
    /// Frames that came before `to_send` and that the kernel did not take.
    held: Batch,
    /// How many batches a sending thread still has.
    handed_over: usize,
    /// Whether the kernel takes what there is, and how much the port may send.
    pressure: Pressure,
    /// Whether the kernel may take frames again.
    has_room: bool,
    /// Whether frames have been sent since the port last got credit.
    credit_used: bool,
    /// Whether the credit is to be reviewed though none was used.
    review_due: bool,
    /// Whether epoll waits for room in the socket.
    waits_for_room: bool,
    /// Frames dropped since [`take_drops`](Self::take_drops).
    drops: Vec<Dropped>,
    /// How late frames were since [`exchange_late`](Self::exchange_late).
    late: Late,
    /// Whether frames may wait in the kernel.
    readable: bool,
    /// Whether the warning about missing checksums was given.
    warned_checksum: bool,
    /// Whether the warning about long frames was given.
    warned_too_long: bool,
}

/// How frames come from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    /// By system calls, from the queue of the socket.
    Calls,
    /// From a mapped ring of this size, which keeps frames for a thread that comes late, one in
    /// each [`RING_SLOT_BYTES`](ebb_packet_io::RING_SLOT_BYTES). If no ring can be mapped, by
    /// system calls.
    Ring {
        /// Size of the ring.
        bytes: usize,
    },
}

impl Interface {
    /// Connects a port of a switch to a Linux interface, which becomes a node of the network under
    /// its own name.
    pub fn attach(
        network: &mut Network<Interface>,
        at: NodePort,
        interface: &str,
        reception: Reception,
    ) -> Result<NodeId, DriverError> {
        Self::attach_with_rings(network, at, interface, reception, None)
    }

    /// The same; processes of the host may also share rings with this process, which they get at a socket of the
    /// interface's name in the folder `rings`.
    pub fn attach_with_rings(
        network: &mut Network<Interface>,
        at: NodePort,
        interface: &str,
        reception: Reception,
        rings: Option<&Path>,
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
        let listen = |folder: &Path| {
            let path = folder.join(interface);
            RingListener::bind(&path).map_err(|reason| DriverError::Rings { path, reason })
        };
        let listener = rings.map(listen).transpose()?;
        let node = network.add_host(Self {
            name: interface.into(),
            line: Arc::new(Line::new(label, socket)),
            reception,
            ring,
            listener,
            rings: Vec::new(),
            last_ring: 0,
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

    /// The socket and the state of the interface.
    pub(crate) fn line(&self) -> &Arc<Line> {
        &self.line
    }

    /// Takes note of what epoll reported about the socket.
    pub(crate) fn note_events(&mut self, readable: bool, has_room: bool, failed: bool) {
        self.readable |= readable;
        self.has_room |= has_room || failed;
        if failed {
            // Reading the error clears it; otherwise epoll would report it for ever.
            if let Ok(Some(error)) | Err(error) = self.line.socket().take_error() {
                self.line.note_error(&error);
            }
        }
    }

    /// Looks whether the interface still exists, and opens it anew if it was deleted and has come
    /// back; true if it did.
    pub(crate) fn reopen(&mut self) -> bool {
        self.line.look_for_interface();
        if self.line.is_present() || self.handed_over > 0 {
            return false;
        }
        // The reason of a failure is known: it was reported that the interface has gone.
        let Ok((socket, ring)) = open(&self.name, self.reception, self.line.label()) else {
            return false;
        };
        info!("{}: is there again", self.line.label());
        self.line = Arc::new(Line::new(self.line.label().into(), socket));
        self.ring = ring;
        (self.readable, self.waits_for_room) = (true, false);
        true
    }

    /// Where processes of the host get rings; `None`: nowhere.
    pub(crate) fn listener(&self) -> Option<&RingListener> {
        self.listener.as_ref()
    }

    /// Gives a process that waits for one a ring; returns its number, and the descriptor that becomes readable when
    /// there is something in it.
    pub(crate) fn accept(&mut self, now: Instant) -> Option<(u32, BorrowedFd<'_>)> {
        let ring = match self.listener.as_ref()?.accept() {
            Ok(ring) => ring?,
            Err(error) => {
                warn!("{}: no ring for a process: {error}", self.line.label());
                if is_want(&error) {
                    // The process still waits, and would wake this thread without end.
                    self.listener = None;
                }
                return None;
            }
        };
        if self.rings.len() == MOST_RINGS {
            warn!(
                "{}: no ring for a further process, {MOST_RINGS} have one",
                self.line.label()
            );
            return None;
        }
        self.last_ring += 1;
        self.rings.push(Ring::new(ring, self.last_ring, now));
        let ring = self.rings.last()?;
        Some((ring.number(), ring.as_fd()))
    }

    /// Obeys what a process says about its ring, that of this number.
    pub(crate) fn note_ring(&mut self, number: u32) {
        let mut rings = self.rings.iter_mut();
        if let Some(ring) = rings.find(|ring| ring.number() == number) {
            ring.read_messages();
        }
        self.close_failed_rings();
    }

    /// Closes the rings whose processes have ended or broken their rules. What was for them goes through the
    /// interface from then on.
    fn close_failed_rings(&mut self) {
        let label = self.line.label();
        self.rings.retain(|ring| match ring.failure() {
            None => true,
            Some(error) if error.kind() == io::ErrorKind::InvalidData => {
                warn!("{label}: the ring of a process is closed: {error}");
                false
            }
            // It has ended.
            Some(_) => false,
        });
    }

    /// Has processes wake this thread with their next frames.
    pub(crate) fn want_wake_up(&self) {
        self.rings.iter().for_each(Ring::want_wake_up);
    }

    /// Whether a process of the host has a ring.
    pub(crate) fn has_rings(&self) -> bool {
        !self.rings.is_empty()
    }

    /// Whether frames wait in a ring.
    pub(crate) fn ring_has_frames(&self) -> bool {
        self.rings.iter().any(Ring::has_frames)
    }

    /// Reads frames into `inbox`. Returns the time up to which everything has been read.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        realtime: RealtimeOffset,
        inbox: &mut Inbox,
    ) -> Instant {
        let mut read_until = self.read_interface(now, realtime, inbox);
        if self.rings.is_empty() {
            return read_until;
        }
        for ring in &mut self.rings {
            let until = ring.read(now, realtime, inbox, &mut self.late.wakeup);
            read_until = read_until.min(until);
        }
        self.close_failed_rings();
        read_until
    }

    fn read_interface(
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
            // The two clocks are read one after the other, and CLOCK_REALTIME may be stepped.
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
        // More frames wait, all of them later than those read.
        self.readable = true;
        latest
    }

    /// Counts frames that were too long to be received, and warns at the first.
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

    /// Writes what is for rings.
    pub(crate) fn send_to_rings(&mut self, memory: &mut Frames, clock: Clock) {
        if self.rings.is_empty() {
            return;
        }
        for ring in &mut self.rings {
            ring.send(memory, clock, &mut self.late.departures);
        }
        self.close_failed_rings();
    }

    /// How many frames are to be sent.
    pub(crate) fn to_send(&self) -> usize {
        self.to_send.len()
    }

    /// Sends these frames, unless the interface has to wait for room.
    pub(crate) fn send(&mut self, memory: &mut Frames, clock: Clock) {
        if !self.pressure.is_blocked() && self.handed_over == 0 {
            self.send_all(memory, clock);
        }
    }

    /// Sends what was held back, then what is new.
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
        // The batch is empty now; its memory is used again.
        self.to_send = batch;
    }

    /// Moves the frames to be sent into `part` for a sending thread, unless the interface has to
    /// wait for room.
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

    /// Takes back a batch that was handed over, with the frames that the kernel did not take.
    pub(crate) fn take_back(&mut self, batch: &mut Batch, memory: &mut Frames) {
        if !batch.is_empty() {
            self.handed_over -= 1;
            self.settle(batch, memory);
        }
    }

    /// Takes note of what became of a batch, and keeps what is left of it.
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

    /// Whether the interface is slower than what is to be sent, so that its port needs credit.
    pub(crate) fn is_pressed(&self) -> bool {
        !self.pressure.is_free()
    }

    /// Whether the kernel takes no more frames for now.
    pub(crate) fn is_blocked(&self) -> bool {
        self.pressure.is_blocked()
    }

    /// Whether the port should get new credit.
    pub(crate) fn wants_credit(&self) -> bool {
        self.is_pressed() && !self.is_blocked() && (self.credit_used || self.review_due)
    }

    /// Sends what was left if there is room again. Returns what the port may send from now on, or
    /// `None` if that does not change.
    pub(crate) fn relieve(&mut self, memory: &mut Frames, clock: Clock) -> Option<Credit> {
        if self.handed_over > 0 {
            return None;
        }
        if self.is_blocked() {
            // If the interface is gone, its frames are dropped instead.
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

    /// Whether to wait for room; `None` if that has not changed since the last call.
    pub(crate) fn take_waits_for_room(&mut self) -> Option<bool> {
        let waits = self.is_blocked();
        let changed = waits != std::mem::replace(&mut self.waits_for_room, waits);
        changed.then_some(waits)
    }

    /// Has the credit of the port reviewed even if none was used here, because frames may have been
    /// lost on a faulty link. To be called about every second.
    pub(crate) fn review_credit(&mut self) {
        self.review_due = true;
    }

    /// Bytes that the kernel holds for the interface, as it counts them.
    fn unsent_bytes(&self) -> usize {
        // An interface that is gone holds nothing.
        self.line.socket().unsent_bytes().unwrap_or(0)
    }

    /// Tells the kernel how much it may hold.
    fn limit_unsent(&self) {
        // Without the permission the system's limit holds, which also is a bound.
        let _ = self.line.socket().limit_unsent(self.pressure.bound_bytes());
    }

    /// Drops the frames that could not be sent, when nobody will send them any more.
    pub(crate) fn abandon(&mut self) {
        self.held.append(&mut self.to_send);
        let left = std::mem::take(&mut self.held);
        if !left.is_empty() {
            let bytes = left.frames.iter().map(|frame| frame.len() as u64).sum();
            self.drop_frames(DropReason::InterfaceBusy, left.len() as u64, bytes);
        }
    }

    /// Exchanges what is known of lateness for the (empty) `late`.
    pub(crate) fn exchange_late(&mut self, late: &mut Late) {
        std::mem::swap(&mut self.late, late);
    }

    /// Counts the frames that the kernel dropped for want of room.
    pub(crate) fn read_kernel_drops(&mut self) {
        match self.line.socket().take_kernel_drops() {
            Ok(0) | Err(_) => {}
            Ok(drops) => self.drop_frames(DropReason::KernelDrop, drops, 0),
        }
    }

    /// Notes frames dropped here.
    fn drop_frames(&mut self, reason: DropReason, packets: u64, bytes: u64) {
        self.drops.push(Dropped {
            reason,
            packets,
            bytes,
        });
    }

    /// The frames dropped since the last call.
    pub(crate) fn take_drops(&mut self) -> Vec<Dropped> {
        std::mem::take(&mut self.drops)
    }
}

/// Whether this process or the machine has no descriptor or memory left.
fn is_want(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let wants = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS];
    Errno::from_io_error(error).is_some_and(|error| wants.contains(&error))
}

impl Host for Interface {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, now: Instant, frame: Vec<u8>) {
        let mut rings = self.rings.iter_mut();
        match rings.find(|ring| ring.wants(&frame)) {
            None => self.to_send.push(now, frame),
            Some(ring) if !ring.wants_mac_control(&frame) => ring.push(now, frame),
            // MAC control frames go to all rings that want them, and to the interface.
            Some(_) => {
                let rings = self.rings.iter_mut();
                for ring in rings.filter(|ring| ring.wants_mac_control(&frame)) {
                    ring.push(now, frame.clone());
                }
                self.to_send.push(now, frame);
            }
        }
    }

    fn wake(&mut self, _: Instant) {}

    /// There is none: frames are injected as they are read.
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

/// Opens the socket of an interface and, if asked for, its ring; `label` names it in messages.
fn open(
    interface: &str,
    reception: Reception,
    label: &str,
) -> io::Result<(PacketSocket, Option<ReceiveRing>)> {
    // The socket is promiscuous. Frames carry the time of their arrival, so that a process that
    // gets the CPU late still sees when they came.
    let options = SocketOptions {
        receive_mode: ReceiveMode::Promiscuous,
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

/// Remedy for a failure to open an interface.
fn remedy(reason: &io::Error) -> &'static str {
    match reason.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => {
            "create it first (ip link), in the network namespace the switch runs in"
        }
        Some(libc::EPERM | libc::EACCES) => "run as root or with CAP_NET_RAW and CAP_NET_ADMIN",
        _ => "see `ip link` for its state",
    }
}
