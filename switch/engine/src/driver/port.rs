//! One external port on one Linux interface.

use std::io;

use ebb_packet_io::{MAX_FRAME_BYTES, PacketSocket, ReceiveBuffers, SendError};
use ebb_units::Instant;
use tracing::{info, warn};

use super::capture::{Capture, Direction};
use super::clock::RealtimeOffset;
use crate::drops::DropReason;
use crate::fabric::{Endpoint, Fabric};

/// Batches read from one port before the others get their turn.
const BATCHES_PER_TURN: usize = 8;

pub(super) struct InterfacePort {
    at: Endpoint,
    /// Names switch, port and interface in messages.
    label: String,
    socket: PacketSocket,
    capture: Option<Capture>,
    to_send: Vec<Vec<u8>>,
    state: State,
    readable: bool,
    warned_checksum: bool,
    warned_too_long: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Up,
    /// The interface exists and is down; it may come back.
    Down,
    /// The interface does not exist any more, and the socket is of no more use.
    Gone,
}

impl InterfacePort {
    pub(super) fn new(
        at: Endpoint,
        label: String,
        socket: PacketSocket,
        capture: Option<Capture>,
    ) -> Self {
        Self {
            at,
            label,
            socket,
            capture,
            to_send: Vec::new(),
            state: State::Up,
            readable: false,
            warned_checksum: false,
            warned_too_long: false,
        }
    }

    pub(super) fn at(&self) -> Endpoint {
        self.at
    }

    pub(super) fn socket(&self) -> &PacketSocket {
        &self.socket
    }

    /// Whether the socket is worth polling.
    pub(super) fn is_present(&self) -> bool {
        self.state != State::Gone
    }

    pub(super) fn note_events(&mut self, readable: bool, failed: bool) {
        self.readable |= readable;
        if failed {
            // Reading the error clears it; otherwise poll would return at once for ever.
            if let Ok(Some(error)) | Err(error) = self.socket.take_error() {
                self.note_error(&error);
            }
        }
    }

    /// Injects what has arrived. Returns the time up to which everything has been read.
    pub(super) fn receive(
        &mut self,
        fabric: &mut Fabric,
        buffers: &mut ReceiveBuffers,
        now: Instant,
        realtime: RealtimeOffset,
    ) -> Instant {
        if !std::mem::take(&mut self.readable) {
            return now;
        }
        let mut latest = Instant::ZERO;
        for _ in 0..BATCHES_PER_TURN {
            let batch = match self.socket.receive_batch(buffers) {
                Ok(batch) => batch,
                Err(error) => {
                    self.note_error(&error);
                    return now;
                }
            };
            self.note_up();
            for frame in batch.iter() {
                let arrived = frame.realtime_ns.map_or(now, |ns| realtime.to_instant(ns));
                // The two clocks are read one after the other, and one of them may be stepped.
                latest = latest.max(arrived.min(now));
                if frame.checksum_missing && !std::mem::replace(&mut self.warned_checksum, true) {
                    warn!(
                        "{}: frames arrive without L4 checksum, hosts will \
                         discard them; turn the offload off at the other end: \
                         ethtool -K INTERFACE tx off",
                        self.label
                    );
                }
                let ns = frame.realtime_ns.unwrap_or(realtime.to_realtime_ns(now));
                self.record(Direction::In, ns, frame.bytes);
                fabric.inject(latest, self.at, frame.bytes.to_vec());
            }
            self.count_too_long(fabric, batch.too_long);
            if batch.drained {
                return now;
            }
        }
        // More is waiting, all of it later than what was read.
        self.readable = true;
        latest
    }

    /// A capture that cannot be written ends; the switch goes on.
    fn record(&mut self, direction: Direction, realtime_ns: u64, frame: &[u8]) {
        let recorded = self
            .capture
            .as_mut()
            .map(|capture| capture.record(direction, realtime_ns, frame));
        if let Some(Err(e)) = recorded {
            warn!("{}: packet capture stopped: {e}", self.label);
            self.capture = None;
        }
    }

    fn count_too_long(&mut self, fabric: &mut Fabric, frames: usize) {
        if frames == 0 {
            return;
        }
        if !std::mem::replace(&mut self.warned_too_long, true) {
            warn!(
                "{}: frames longer than {} bytes are dropped; if the other end \
                 segments in \"hardware\", turn that off: ethtool -K INTERFACE tso off gso off",
                self.label, MAX_FRAME_BYTES
            );
        }
        self.drop_frames(fabric, DropReason::FrameTooLong, frames as u64, 0);
    }

    pub(super) fn queue_frame(&mut self, frame: Vec<u8>) {
        self.to_send.push(frame);
    }

    /// Sends what is queued. What the interface does not take is dropped and counted.
    pub(super) fn send(&mut self, fabric: &mut Fabric, realtime_ns: u64) {
        let frames = std::mem::take(&mut self.to_send);
        let mut rest = frames.as_slice();
        while let Some(first) = rest.first() {
            if self.state == State::Gone {
                let bytes = rest.iter().map(|f| f.len() as u64).sum();
                self.drop_frames(fabric, DropReason::PortDown, rest.len() as u64, bytes);
                break;
            }
            match self.socket.send_batch(rest.iter().map(Vec::as_slice)) {
                Ok(sent) => {
                    self.note_up();
                    self.capture_sent(&rest[..sent], realtime_ns);
                    rest = &rest[sent..];
                }
                Err(error) => {
                    let reason = self.note_send_error(error);
                    self.drop_frames(fabric, reason, 1, first.len() as u64);
                    rest = &rest[1..];
                }
            }
        }
        // Keeps the allocation.
        self.to_send = frames;
        self.to_send.clear();
    }

    fn capture_sent(&mut self, frames: &[Vec<u8>], realtime_ns: u64) {
        for frame in frames {
            self.record(Direction::Out, realtime_ns, frame);
        }
    }

    pub(super) fn flush_capture(&mut self) {
        if let Some(Err(e)) = self.capture.as_mut().map(Capture::flush) {
            warn!("{}: packet capture stopped: {e}", self.label);
            self.capture = None;
        }
    }

    pub(super) fn read_kernel_drops(&mut self, fabric: &mut Fabric) {
        match self.socket.take_kernel_drops() {
            Ok(0) | Err(_) => {}
            Ok(drops) => self.drop_frames(fabric, DropReason::KernelDrop, drops, 0),
        }
    }

    fn drop_frames(&self, fabric: &mut Fabric, reason: DropReason, packets: u64, bytes: u64) {
        let port = self.at.port;
        fabric.with_switch(self.at.switch, |switch| {
            switch.count_interface_drop(port, reason, packets, bytes);
        });
    }

    fn note_send_error(&mut self, error: SendError) -> DropReason {
        match error {
            SendError::Full | SendError::QueueFull => return DropReason::InterfaceBusy,
            SendError::TooLong => return DropReason::FrameTooLong,
            SendError::Malformed => return DropReason::FrameTooShort,
            SendError::Down => self.note_error(&io::Error::from_raw_os_error(libc::ENETDOWN)),
            SendError::Other(error) => self.note_error(&error),
        }
        DropReason::PortDown
    }

    fn note_error(&mut self, error: &io::Error) {
        let state = if self.socket.interface_exists() {
            State::Down
        } else {
            State::Gone
        };
        if self.state == state {
            return;
        }
        self.state = state;
        let what = match state {
            State::Gone => "has vanished; restart the switch when it is back",
            _ => "is down",
        };
        warn!("{}: {what} ({error})", self.label);
    }

    fn note_up(&mut self) {
        if self.state == State::Down {
            self.state = State::Up;
            info!("{}: is up again", self.label);
        }
    }
}
