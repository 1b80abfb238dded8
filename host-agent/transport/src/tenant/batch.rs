//! Void frames: a NIC that sends back to back keeps the times of departures when the gaps are
//! frames as well, which the first switch drops.

use ebb_units::{BitRate, Duration, Instant};
use ebb_wire::VoidFrame;

use super::guarantee::WIRE_OVERHEAD_BYTES;
use super::pacer::{Departure, VmPacer};

/// The shortest Ethernet frame, on the wire: 84 bytes.
pub const MIN_VOID_BYTES: u64 = VoidFrame::LEAST_BYTES as u64 + WIRE_OVERHEAD_BYTES;
/// The longest frame without tags, on the wire.
const MAX_VOID_BYTES: u64 = 1_538;

/// A frame of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot<P> {
    /// When its first bit is on the wire.
    pub starts: Instant,
    /// Bytes on the wire, with FCS, preamble and gap.
    pub wire_bytes: u64,
    /// Index of its VM, and the packet with the time at which it conformed. None: a void frame.
    pub content: Option<(usize, Departure<P>)>,
}

/// Makes batches for the NIC that several VMs of a host share. A packet starts at its departure or
/// later, never before.
#[derive(Clone, Copy, Debug)]
pub struct Batcher {
    link: BitRate,
    /// Time of a batch on the wire, to within the shortest void frame.
    window: Duration,
    /// The longest frame, on the wire.
    frame_bytes: u64,
    /// The wire is busy until then.
    free_at: Instant,
}

impl Batcher {
    /// A batcher for a link; `window`: time of a batch on it; `frame_bytes`: the longest packet, on
    /// the wire.
    pub fn new(link: BitRate, window: Duration, frame_bytes: u64) -> Self {
        Batcher {
            link,
            window,
            frame_bytes: frame_bytes.max(MAX_VOID_BYTES),
            free_at: Instant::ZERO,
        }
    }

    /// When the last batch has left, and the next one is to be made.
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Appends the batch that starts at `now`, or when the last one ends, to `slots`: none when
    /// nothing waits. It ends where no full frame would fit; while packets wait for later times,
    /// void frames fill it up to there.
    pub fn fill<K: Copy + Ord, P>(
        &mut self,
        now: Instant,
        pacers: &mut [VmPacer<K, P>],
        slots: &mut Vec<Slot<P>>,
    ) {
        let start = now.max(self.free_at);
        let end = start + self.window;
        self.free_at = start;
        while let Some((at, vm)) = first(pacers) {
            let latest_end = at.max(self.free_at) + self.link.time_for(self.frame_bytes);
            if latest_end > end {
                let frames = self.link.bytes_in(end.since(self.free_at)) / MAX_VOID_BYTES;
                self.idle(frames * MAX_VOID_BYTES, slots);
                return;
            }
            let Some(departure) = pacers[vm].poll(at) else {
                return;
            };
            self.idle(self.room_until(at), slots);
            self.push(departure.wire_bytes, Some((vm, departure)), slots);
        }
    }

    /// Bytes that pass until `at`, rounded up.
    fn room_until(&self, at: Instant) -> u64 {
        let gap = at.since(self.free_at);
        let bytes = self.link.bytes_in(gap);
        bytes + u64::from(self.link.time_for(bytes) < gap)
    }

    /// Void frames of `bytes` in all, of nearly equal size; of [`MIN_VOID_BYTES`] at least, unless
    /// there is no gap.
    fn idle<P>(&mut self, bytes: u64, slots: &mut Vec<Slot<P>>) {
        if bytes == 0 {
            return;
        }
        let bytes = bytes.max(MIN_VOID_BYTES);
        let frames = bytes.div_ceil(MAX_VOID_BYTES);
        for n in 0..frames {
            self.push(bytes * (n + 1) / frames - bytes * n / frames, None, slots);
        }
    }

    fn push<P>(
        &mut self,
        wire_bytes: u64,
        content: Option<(usize, Departure<P>)>,
        slots: &mut Vec<Slot<P>>,
    ) {
        slots.push(Slot {
            starts: self.free_at,
            wire_bytes,
            content,
        });
        self.free_at += self.link.time_for(wire_bytes);
    }
}

/// The pacer whose next packet leaves first, and when; of equal ones the first.
fn first<K: Copy + Ord, P>(pacers: &[VmPacer<K, P>]) -> Option<(Instant, usize)> {
    pacers
        .iter()
        .enumerate()
        .filter_map(|(vm, pacer)| Some((pacer.next_departure()?, vm)))
        .filter(|(at, _)| *at < Instant::FAR_FUTURE)
        .min()
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
