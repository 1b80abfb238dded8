//! The pacers that the bridge can have.

use ebb_transport::pacer::{FramePacer, Verdict};
use ebb_transport::tenant::{GuaranteedFrames, Outcome};
use ebb_units::Instant;
use serde::Serialize;

/// A pacer of the frames from inside.
pub trait Shaper {
    /// A frame from inside. True: it leaves at once; else the pacer has copied or dropped it.
    fn passes(&mut self, now: Instant, frame: &[u8]) -> bool;

    /// Whether it paces every frame from inside. Then a frame that the kernel left for hardware to
    /// segment, and that is not TCP, must not bypass it.
    fn paces_all(&self) -> bool;

    /// A frame from outside. True: it was for the pacer, and goes no further.
    fn handle_incoming(&mut self, now: Instant, frame: &[u8]) -> bool;

    /// The next frame that is due by `now`, exchanged for the storage of `frame`. False: there is
    /// none.
    fn poll(&mut self, now: Instant, frame: &mut Vec<u8>) -> bool;

    /// When [`Self::poll`] has the next frame. None: no frame is held.
    fn next_deadline(&self) -> Option<Instant>;

    /// The counters, for programs and for people.
    fn report(&mut self, now: Instant) -> Report;
}

/// The pacer's part of the counters that are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum Report {
    /// HULL's.
    Hull {
        /// TCP segments with data of flows that were not associated.
        undelayed_segments: u64,
        /// Segments that went through the FIFO.
        paced_segments: u64,
        dropped_fifo_full: u64,
        ecn_echoes: u64,
        /// ECN-Echoes that associated their flow, or did so again.
        associations: u64,
        /// The most bytes that the FIFO held.
        max_backlog_bytes: u64,
        backlog_bytes: u64,
        /// R, the rate of the token bucket.
        rate_bps: u64,
    },
    /// A tenant's guarantee. Bytes are those on the wire.
    Guarantee {
        paced_frames: u64,
        paced_bytes: u64,
        dropped_queue_full: u64,
        /// The most bytes that waited.
        max_backlog_bytes: u64,
        backlog_bytes: u64,
        /// 0 without `void_frames` in its file.
        void_frames: u64,
        void_bytes: u64,
        /// Messages to pacers of other VMs; 0 without `hose` in its file.
        messages: u64,
    },
}

impl Report {
    pub fn for_people(&self) -> String {
        match *self {
            Report::Hull {
                undelayed_segments,
                paced_segments,
                dropped_fifo_full,
                ecn_echoes,
                associations,
                max_backlog_bytes,
                rate_bps,
                ..
            } => format!(
                "paced {paced_segments} segments, undelayed {undelayed_segments}; \
                 {associations} associations by {ecn_echoes} ECN-Echoes; \
                 dropped {dropped_fifo_full} (FIFO full); FIFO at most {max_backlog_bytes} bytes; \
                 rate {:.1} Mbit/s",
                rate_bps as f64 / 1e6
            ),
            Report::Guarantee {
                paced_frames,
                paced_bytes,
                dropped_queue_full,
                max_backlog_bytes,
                void_frames,
                void_bytes,
                messages,
                ..
            } => format!(
                "paced {paced_frames} frames, {paced_bytes} bytes on the wire; \
                 dropped {dropped_queue_full} (queue full); queue at most {max_backlog_bytes} bytes; \
                 {void_frames} void frames, {void_bytes} bytes; {messages} messages"
            ),
        }
    }
}

impl Shaper for FramePacer {
    fn passes(&mut self, now: Instant, frame: &[u8]) -> bool {
        self.handle_outgoing(now, frame) == Verdict::Pass
    }

    fn paces_all(&self) -> bool {
        false
    }

    fn handle_incoming(&mut self, now: Instant, frame: &[u8]) -> bool {
        FramePacer::handle_incoming(self, now, frame);
        false
    }

    fn poll(&mut self, now: Instant, frame: &mut Vec<u8>) -> bool {
        FramePacer::poll(self, now, frame)
    }

    fn next_deadline(&self) -> Option<Instant> {
        FramePacer::next_deadline(self)
    }

    fn report(&mut self, now: Instant) -> Report {
        let (frames, pacer) = (self.counters(), self.pacer_counters());
        Report::Hull {
            undelayed_segments: pacer.passed_packets,
            paced_segments: frames.held_frames,
            dropped_fifo_full: frames.dropped_frames,
            ecn_echoes: frames.ecn_echoes,
            associations: pacer.associations,
            max_backlog_bytes: pacer.max_backlog_bytes,
            backlog_bytes: self.backlog_bytes(),
            rate_bps: (self.rate_bytes_per_second(now) * 8.0) as u64,
        }
    }
}

impl Shaper for GuaranteedFrames {
    fn passes(&mut self, now: Instant, frame: &[u8]) -> bool {
        match self.handle_outgoing(now, frame) {
            Outcome::Held | Outcome::Dropped => false,
        }
    }

    fn paces_all(&self) -> bool {
        true
    }

    fn handle_incoming(&mut self, now: Instant, frame: &[u8]) -> bool {
        GuaranteedFrames::handle_incoming(self, now, frame)
    }

    fn poll(&mut self, now: Instant, frame: &mut Vec<u8>) -> bool {
        GuaranteedFrames::poll(self, now, frame)
    }

    fn next_deadline(&self) -> Option<Instant> {
        GuaranteedFrames::next_deadline(self)
    }

    fn report(&mut self, _now: Instant) -> Report {
        let counters = self.counters();
        Report::Guarantee {
            paced_frames: counters.held_frames,
            paced_bytes: counters.held_bytes,
            dropped_queue_full: counters.dropped_frames,
            max_backlog_bytes: counters.max_backlog_bytes,
            backlog_bytes: self.backlog_bytes(),
            void_frames: counters.void_frames,
            void_bytes: counters.void_bytes,
            messages: counters.messages,
        }
    }
}
