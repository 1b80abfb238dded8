//! Segments in flight and their fate: the SACK scoreboard of RFC 6675.

use std::collections::VecDeque;

use ebb_units::Instant;

/// A segment between SND.UNA and SND.NXT, kept with the boundaries it was first sent with.
#[derive(Clone, Copy, Debug)]
struct Sent {
    start: u64,
    end: u64,
    sent_at: Instant,
    sacked: bool,
    lost: bool,
    /// Sent again since it was last found lost.
    retransmitted: bool,
    /// Sent more than once: of no use as a round-trip sample (Karn).
    ambiguous: bool,
}

impl Sent {
    fn len(&self) -> u64 {
        self.end - self.start
    }
    /// Bytes of this segment that RFC 6675's SetPipe() counts: each copy that may still arrive.
    /// After a retransmission the lost original no longer counts.
    fn pipe(&self) -> u64 {
        if !self.sacked && (!self.lost || self.retransmitted) {
            self.len()
        } else {
            0
        }
    }
    fn sacked_bytes(&self) -> u64 {
        if self.sacked { self.len() } else { 0 }
    }
    fn needs_retransmission(&self) -> bool {
        self.lost && !self.sacked && !self.retransmitted
    }
}

/// Change by an acknowledgment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Update {
    /// When the latest-sent segment among those newly delivered left, unless it is ambiguous.
    pub(crate) sample_sent_at: Option<Instant>,
    /// Bytes newly SACKed.
    pub(crate) sacked_bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    /// In order of offset, contiguous.
    segments: VecDeque<Sent>,
    pipe: u64,
    /// Bytes waiting for retransmission.
    lost_bytes: u64,
    /// Bytes SACKed.
    sacked_bytes: u64,
    /// Everything before this index has been considered for retransmission.
    scan_from: usize,
    /// Highest SACKed offset (exclusive).
    highest_sacked: u64,
}

impl Scoreboard {
    /// Without allocation until there is more than this in flight (at most 64 in advance).
    pub(crate) fn with_room_for(segments: u32) -> Self {
        Scoreboard {
            segments: VecDeque::with_capacity(segments.min(64) as usize),
            ..Scoreboard::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// RFC 6675 SetPipe(): bytes believed to be in the network.
    pub(crate) fn pipe(&self) -> u64 {
        self.pipe
    }

    /// Bytes that have been SACKed and not acknowledged.
    pub(crate) fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    /// Records new data `[start, end)`, which must continue what is recorded.
    pub(crate) fn on_sent(&mut self, start: u64, end: u64, now: Instant) {
        debug_assert!(self.segments.back().is_none_or(|last| last.end == start));
        self.segments.push_back(Sent {
            start,
            end,
            sent_at: now,
            sacked: false,
            lost: false,
            retransmitted: false,
            ambiguous: false,
        });
        self.pipe += end - start;
    }

    /// Applies a change to segment `index` and keeps the sums right.
    fn change(&mut self, index: usize, apply: impl FnOnce(&mut Sent)) {
        let segment = &mut self.segments[index];
        let (pipe, waiting) = (segment.pipe(), segment.needs_retransmission());
        let sacked = segment.sacked_bytes();
        apply(segment);
        self.pipe = self.pipe - pipe + segment.pipe();
        self.sacked_bytes = self.sacked_bytes - sacked + segment.sacked_bytes();
        match (waiting, segment.needs_retransmission()) {
            (false, true) => {
                self.lost_bytes += segment.len();
                self.scan_from = self.scan_from.min(index);
            }
            (true, false) => self.lost_bytes -= segment.len(),
            _ => {}
        }
    }

    /// RFC 6675 Update(): cumulative acknowledgment `una` and SACK `blocks`.
    pub(crate) fn on_ack(&mut self, una: u64, blocks: &[(u64, u64)]) -> Update {
        let mut update = Update::default();
        let mut latest: Option<Sent> = None;
        let mut delivered = |segment: &Sent| {
            if latest.is_none_or(|l| l.sent_at <= segment.sent_at) {
                latest = Some(*segment);
            }
        };
        while let Some(first) = self.segments.front().copied() {
            if first.end > una {
                break;
            }
            if !first.sacked {
                delivered(&first);
            }
            self.pipe -= first.pipe();
            self.sacked_bytes -= first.sacked_bytes();
            if first.needs_retransmission() {
                self.lost_bytes -= first.len();
            }
            self.segments.pop_front();
            self.scan_from = self.scan_from.saturating_sub(1);
        }
        for &(start, end) in blocks {
            let from = self.segments.partition_point(|s| s.start < start);
            for index in from..self.segments.len() {
                let segment = self.segments[index];
                if segment.end > end {
                    break;
                }
                if !segment.sacked {
                    delivered(&segment);
                    update.sacked_bytes += segment.len();
                    self.change(index, |s| s.sacked = true);
                    self.highest_sacked = self.highest_sacked.max(segment.end);
                }
            }
        }
        update.sample_sent_at = latest.filter(|s| !s.ambiguous).map(|s| s.sent_at);
        update
    }

    /// RFC 6675 IsLost(): marks every segment above which `threshold` separate ranges, or more than
    /// `threshold - 1` segments' worth of bytes, have been SACKed. Returns true if a segment was
    /// newly marked.
    pub(crate) fn mark_lost(&mut self, threshold: u32, mss: u64) -> bool {
        let enough = u64::from(threshold - 1) * mss;
        let (mut above, mut ranges, mut in_range) = (0, 0, false);
        let mut marked = false;
        let top = self
            .segments
            .partition_point(|s| s.start < self.highest_sacked);
        for index in (0..top).rev() {
            let segment = self.segments[index];
            if segment.sacked {
                above += segment.len();
                ranges += u32::from(!in_range);
            } else if (above > enough || ranges >= threshold) && !segment.lost {
                self.change(index, |s| s.lost = true);
                marked = true;
            }
            in_range = segment.sacked;
        }
        marked
    }

    /// The end of the segment that begins at `start`. None: no copy of one can be in the network.
    pub(crate) fn in_flight(&self, start: u64) -> Option<u64> {
        let index = self.segments.partition_point(|s| s.start < start);
        let segment = self.segments.get(index)?;
        let in_flight =
            segment.start == start && !segment.sacked && !segment.needs_retransmission();
        in_flight.then_some(segment.end)
    }

    /// Whether the segment that begins at `start` has been SACKed.
    pub(crate) fn is_sacked(&self, start: u64) -> bool {
        let index = self.segments.partition_point(|s| s.start < start);
        let segment = self.segments.get(index);
        segment.is_some_and(|s| s.start == start && s.sacked)
    }

    /// The first segment is lost, whatever SACK says (NewReno: third duplicate or partial ACK).
    /// Returns false if it was already known.
    pub(crate) fn mark_first_lost(&mut self) -> bool {
        match self.segments.front() {
            Some(first) if !first.lost => {
                self.change(0, |s| s.lost = true);
                true
            }
            _ => false,
        }
    }

    /// The retransmission timer expired: whatever was not SACKed counts as lost, again.
    pub(crate) fn on_timeout(&mut self) {
        // A receiver may drop what it has SACKed (RFC 2018 8). If the first segment is SACKed but
        // was not acknowledged cumulatively, it has: believe none of it.
        let reneged = self.segments.front().is_some_and(|s| s.sacked);
        for index in 0..self.segments.len() {
            self.change(index, |s| {
                s.sacked &= !reneged;
                s.lost = !s.sacked;
                s.retransmitted = false;
            });
        }
        if reneged {
            self.highest_sacked = 0;
        }
    }

    /// RFC 6675 NextSeg() rule 1: the first lost segment that has not been sent again.
    pub(crate) fn next_lost(&mut self) -> Option<(u64, u64)> {
        if self.lost_bytes == 0 {
            return None;
        }
        while self.scan_from < self.segments.len() {
            let segment = &self.segments[self.scan_from];
            if segment.needs_retransmission() {
                return Some((segment.start, segment.end));
            }
            self.scan_from += 1;
        }
        None
    }

    /// The segment that starts at `start` has been sent again.
    pub(crate) fn on_retransmitted(&mut self, start: u64, now: Instant) {
        let index = self.segments.partition_point(|s| s.start < start);
        if self.segments.get(index).is_some_and(|s| s.start == start) {
            self.change(index, |s| {
                s.retransmitted = true;
                s.ambiguous = true;
                s.sent_at = now;
            });
        }
    }
}

#[cfg(test)]
#[path = "scoreboard_tests.rs"]
mod tests;
