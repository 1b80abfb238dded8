//! A ring that a host shares with this process: a second way between the host and its port, beside the interface.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use ebb_packet_io::{ReceivedFrame, SwitchRing};
use ebb_pipeline::Frames;
use ebb_units::{Duration, Instant};

use crate::batch::Batch;
use crate::clock::{Clock, RealtimeOffset};
use crate::inbox::Inbox;

/// Most frames that are read from one ring before others have their turn.
const FRAMES_PER_TURN: usize = 128;

/// A ring and what is to be sent over it.
pub(crate) struct Ring {
    ring: SwitchRing,
    /// Number by which epoll tells of it, which no other ring of the interface had.
    number: u32,
    /// Frames that have arrived for the host and are to be written.
    to_send: Batch,
    /// Up to when everything has been read.
    read_until: Instant,
    /// Why the ring is of no more use. `None`: it is.
    failure: Option<io::Error>,
}

impl Ring {
    /// A ring that a host got at this time.
    pub fn new(ring: SwitchRing, number: u32, now: Instant) -> Self {
        Self {
            ring,
            number,
            to_send: Batch::default(),
            read_until: now,
            failure: None,
        }
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Why it has to be closed. `None`: it has not.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Whether the host wants this frame.
    pub fn wants(&self, frame: &[u8]) -> bool {
        self.ring.filter().kept(frame).is_some()
    }

    /// Whether the host wants this frame, as every host at the port that obeys MAC control frames.
    pub fn wants_mac_control(&self, frame: &[u8]) -> bool {
        self.ring.filter().wants_mac_control(frame)
    }

    /// Takes a frame that should be sent at `due`.
    pub fn push(&mut self, due: Instant, frame: Vec<u8>) {
        self.to_send.push(due, frame);
    }

    /// Reads frames into `inbox`, and adds to `late` how long the first one has waited. Returns the time up to which
    /// everything has been read.
    pub fn read(
        &mut self,
        now: Instant,
        realtime: RealtimeOffset,
        inbox: &mut Inbox,
        late: &mut Option<Duration>,
    ) -> Instant {
        let Inbox { frames, memory, .. } = inbox;
        let first = frames.len();
        // The host says when it has written a frame: after all that were read before, and not in the future.
        let mut latest = self.read_until;
        let mut take = |frame: ReceivedFrame<'_>| {
            let written = frame.realtime_ns.map_or(now, |ns| realtime.to_instant(ns));
            latest = latest.max(written.min(now));
            let mut copy = memory.take(frame.bytes.len());
            copy.extend_from_slice(frame.bytes);
            frames.push((latest, copy));
        };
        let received = self.ring.receive(FRAMES_PER_TURN, &mut take);
        let wait = frames.get(first).map(|(arrived, _)| now.since(*arrived));
        *late = (*late).max(wait);
        self.read_until = match received {
            Ok(received) if !received.drained => latest,
            Ok(_) => now,
            Err(error) => {
                self.failure = Some(error);
                now
            }
        };
        self.read_until
    }

    /// Writes what is to be sent, gives its memory back and adds to `late` how late it was. Frames for which there is
    /// no room are lost, as they are where the buffer of a socket is full, and the host can count them.
    pub fn send(&mut self, memory: &mut Frames, clock: Clock, late: &mut Vec<Duration>) {
        if self.to_send.is_empty() {
            return;
        }
        let written = self
            .to_send
            .frames
            .iter()
            .try_for_each(|frame| self.ring.write(frame));
        if let Err(error) = written {
            self.failure = Some(error);
        }
        self.ring.flush();
        self.to_send.finish(self.to_send.len(), clock.now());
        self.to_send.clear_done(memory, late);
    }

    /// Has the host wake this thread with its next frame.
    pub fn want_wake_up(&self) {
        self.ring.want_wake_up();
    }

    /// Whether frames wait to be read.
    pub fn has_frames(&self) -> bool {
        self.ring.has_frames()
    }

    /// Obeys what the host says.
    pub fn read_messages(&mut self) {
        if let Err(error) = self.ring.read_messages() {
            self.failure = Some(error);
        }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}
