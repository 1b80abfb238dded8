//! One direction of a shared ring: frames from one producer to one consumer, in another process.
//!
//! ```text
//!  head | tail | wanted | lost      a cache line each; the consumer writes tail and wanted, the producer the others
//!  data: record, record, ..         head and tail count bytes that were ever written and read
//!  record: length: 4 | length on the wire: 4 | time: 8 | frame, to a multiple of 16 bytes
//! ```
//! A record is contiguous: one of the length [`PADDING`] fills the end of the data where the next one does not fit.
//!
//! Neither side believes the other. Each keeps its own count to itself, accepts the other's only in its possible range,
//! and copies a record out before it parses it. A peer that writes nonsense gives garbage for frames, as it may anyway,
//! or [`Broken`]. No call loops for longer than the data that were there when it began.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use thiserror::Error;

use super::memory::SharedMemory;
use crate::offload::Offload;
use crate::{MAX_FRAME_BYTES, Received, ReceivedFrame};

/// Bytes in front of the data of a direction.
const COUNTERS_BYTES: usize = 4 * LINE_BYTES;
const LINE_BYTES: usize = 64;
const HEAD_AT: usize = 0;
const TAIL_AT: usize = LINE_BYTES;
const WANTED_AT: usize = 2 * LINE_BYTES;
const LOST_AT: usize = 3 * LINE_BYTES;
/// Bytes in front of a frame; records begin at multiples of it.
const RECORD_BYTES: usize = 16;
/// The length of a record without a frame, up to the end of the data.
const PADDING: u32 = u32::MAX;
/// The data of a direction: at least so much that a frame fits wherever the last one ended.
pub(crate) const LEAST_DATA_BYTES: usize = 1 << 15;

/// The other side has broken the rules of the ring, which is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the other end of the shared ring breaks its rules")]
pub(crate) struct Broken;

/// A direction in shared memory.
#[derive(Clone, Debug)]
pub(crate) struct Direction {
    memory: Arc<SharedMemory>,
    /// Where its counters begin, a multiple of [`LINE_BYTES`].
    at: usize,
    /// Length of the data, a power of two.
    data_bytes: usize,
}

impl Direction {
    /// Bytes of memory of a direction: its counters and this much data.
    pub fn total_bytes(data_bytes: usize) -> usize {
        COUNTERS_BYTES + data_bytes
    }

    /// The direction at a place of the memory.
    ///
    /// # Panics
    /// If it is not all in the memory, or `data_bytes` is no power of two or too small.
    pub fn new(memory: Arc<SharedMemory>, at: usize, data_bytes: usize) -> Self {
        assert!(data_bytes.is_power_of_two() && data_bytes >= LEAST_DATA_BYTES);
        assert!(at.is_multiple_of(LINE_BYTES));
        memory.at(at, Self::total_bytes(data_bytes));
        Direction {
            memory,
            at,
            data_bytes,
        }
    }

    fn counter(&self, at: usize) -> &AtomicU64 {
        let counter = self.memory.at(self.at + at, size_of::<AtomicU64>());
        // SAFETY: in the mapping, which lives as long as `self`; aligned, as `at` is a multiple of a cache line in a
        // page; and both sides use it as an atomic only.
        unsafe { AtomicU64::from_ptr(counter.cast()) }
    }

    fn wanted(&self) -> &AtomicU32 {
        let wanted = self.memory.at(self.at + WANTED_AT, size_of::<AtomicU32>());
        // SAFETY: as `counter`.
        unsafe { AtomicU32::from_ptr(wanted.cast()) }
    }

    /// Where in the data the byte of this number is, and how many follow it to the end.
    fn place(&self, number: u64) -> (usize, usize) {
        let offset = number as usize & (self.data_bytes - 1);
        (offset, self.data_bytes - offset)
    }

    /// Copies into the data, which no wrap interrupts.
    fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.data(offset, bytes.len());
        // SAFETY: `data` has checked the place; `bytes` is no part of the mapping, to which there are no references.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Copies out of the data. What a peer writes meanwhile may be in the copy or not.
    fn read(&self, offset: usize, bytes: &mut [u8]) {
        let from = self.data(offset, bytes.len());
        // SAFETY: as `write`; any bytes are good.
        unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
    }

    fn data(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(offset <= self.data_bytes && bytes <= self.data_bytes - offset);
        self.memory.at(self.at + COUNTERS_BYTES + offset, bytes)
    }
}

/// Numbers in front of a frame.
#[derive(Clone, Copy)]
struct Record {
    frame_bytes: u32,
    wire_bytes: u32,
    realtime_ns: u64,
}

impl Record {
    fn emit(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..4].copy_from_slice(&self.frame_bytes.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.wire_bytes.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.realtime_ns.to_ne_bytes());
        bytes
    }

    fn parse(bytes: [u8; RECORD_BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, time @ ..] = bytes;
        Record {
            frame_bytes: u32::from_ne_bytes([a, b, c, d]),
            wire_bytes: u32::from_ne_bytes([e, f, g, h]),
            realtime_ns: u64::from_ne_bytes(time),
        }
    }
}

/// Bytes of a record with a frame of this length.
fn record_bytes(frame_bytes: usize) -> usize {
    RECORD_BYTES + frame_bytes.next_multiple_of(RECORD_BYTES)
}

/// The end that writes.
#[derive(Debug)]
pub(crate) struct Producer {
    direction: Direction,
    /// Bytes written, of which the consumer knows `published`.
    head: u64,
    published: u64,
    /// Bytes that the consumer had read when this was last looked at.
    tail: u64,
    lost: u64,
}

impl Producer {
    /// The producer of a direction that is new.
    pub fn new(direction: Direction) -> Self {
        Producer {
            direction,
            head: 0,
            published: 0,
            tail: 0,
            lost: 0,
        }
    }

    /// Writes a frame for the next [`publish`](Self::publish); false: there is no room for it.
    pub fn push(
        &mut self,
        frame: &[u8],
        wire_bytes: usize,
        realtime_ns: u64,
    ) -> Result<bool, Broken> {
        let needed = record_bytes(frame.len());
        let (offset, to_end) = self.direction.place(self.head);
        let padding = if needed > to_end { to_end } else { 0 };
        if !self.has_room(padding + needed)? {
            return Ok(false);
        }
        let record = Record {
            frame_bytes: PADDING,
            wire_bytes: 0,
            realtime_ns: 0,
        };
        if padding > 0 {
            self.direction.write(offset, &record.emit());
            self.head += padding as u64;
        }
        let (offset, _) = self.direction.place(self.head);
        let record = Record {
            frame_bytes: frame.len() as u32,
            wire_bytes: wire_bytes as u32,
            realtime_ns,
        };
        self.direction.write(offset, &record.emit());
        self.direction.write(offset + RECORD_BYTES, frame);
        self.head += needed as u64;
        Ok(true)
    }

    fn has_room(&mut self, bytes: usize) -> Result<bool, Broken> {
        let size = self.direction.data_bytes as u64;
        let end = self.head + bytes as u64;
        if end - self.tail <= size {
            return Ok(true);
        }
        let tail = self.direction.counter(TAIL_AT).load(Ordering::Acquire);
        // The consumer reads forward, and not what it was not given.
        if tail < self.tail || tail > self.published {
            return Err(Broken);
        }
        self.tail = tail;
        Ok(end - tail <= size)
    }

    /// Gives the consumer what was written; true: it sleeps and is to be woken.
    pub fn publish(&mut self) -> bool {
        if self.published == self.head {
            return false;
        }
        self.published = self.head;
        let head = self.direction.counter(HEAD_AT);
        head.store(self.head, Ordering::Release);
        // Either the consumer finds the frames when it looks a last time, or we find that it wants to be woken.
        fence(Ordering::SeqCst);
        let wanted = self.direction.wanted();
        wanted.load(Ordering::Relaxed) != 0 && wanted.swap(0, Ordering::Relaxed) != 0
    }

    /// Lets the consumer know of frames that were not pushed, as there was no room.
    pub fn count_lost(&mut self, frames: u64) {
        self.lost = self.lost.wrapping_add(frames);
        let lost = self.direction.counter(LOST_AT);
        lost.store(self.lost, Ordering::Relaxed);
    }
}

/// The end that reads.
#[derive(Debug)]
pub(crate) struct Consumer {
    direction: Direction,
    /// Bytes read.
    tail: u64,
    /// The count of lost frames that has been reported already.
    lost: u64,
    /// A copy of the frame that is handed over.
    frame: Box<[u8]>,
}

impl Consumer {
    /// The consumer of a direction that is new.
    pub fn new(direction: Direction) -> Self {
        Consumer {
            direction,
            tail: 0,
            lost: 0,
            frame: vec![0; MAX_FRAME_BYTES].into(),
        }
    }

    /// Hands over what is there, at most so many frames, in order.
    pub fn receive(
        &mut self,
        most: usize,
        take: &mut dyn FnMut(ReceivedFrame<'_>),
    ) -> Result<Received, Broken> {
        let head = self.direction.counter(HEAD_AT).load(Ordering::Acquire);
        let (there, size) = (head.wrapping_sub(self.tail), self.direction.data_bytes);
        if there > size as u64 || !there.is_multiple_of(RECORD_BYTES as u64) {
            return Err(Broken);
        }
        let mut received = Received::default();
        while self.tail != head && received.frames < most {
            let (offset, to_end) = self.direction.place(self.tail);
            let left = to_end.min((head - self.tail) as usize);
            let mut record = [0; RECORD_BYTES];
            self.direction.read(offset, &mut record);
            let record = Record::parse(record);
            if record.frame_bytes == PADDING {
                if left < to_end {
                    return Err(Broken);
                }
                self.tail += to_end as u64;
                continue;
            }
            let bytes = record.frame_bytes as usize;
            if bytes > MAX_FRAME_BYTES || record_bytes(bytes) > left {
                return Err(Broken);
            }
            let frame = &mut self.frame[..bytes];
            self.direction.read(offset + RECORD_BYTES, frame);
            self.tail += record_bytes(bytes) as u64;
            take(ReceivedFrame {
                bytes: frame,
                wire_bytes: bytes.max(record.wire_bytes as usize),
                realtime_ns: Some(record.realtime_ns),
                checksum_missing: false,
                offload: Offload::NONE,
            });
            received.frames += 1;
        }
        let tail = self.direction.counter(TAIL_AT);
        tail.store(self.tail, Ordering::Release);
        received.drained = self.tail == head;
        Ok(received)
    }

    /// Asks to be woken by the next frame, or no longer.
    pub fn want_wake_up(&self, wanted: bool) {
        let flag = self.direction.wanted();
        flag.store(wanted.into(), Ordering::Relaxed);
    }

    /// Whether frames wait. To be asked after [`want_wake_up`](Self::want_wake_up) and a fence (`SeqCst`) and before
    /// going to sleep.
    pub fn has_frames(&self) -> bool {
        let head = self.direction.counter(HEAD_AT).load(Ordering::Acquire);
        head != self.tail
    }

    /// Frames that the producer had no room for, since the last call, by its own word.
    pub fn take_lost(&mut self) -> u64 {
        let lost = self.direction.counter(LOST_AT).load(Ordering::Relaxed);
        lost.wrapping_sub(std::mem::replace(&mut self.lost, lost))
    }
}

#[cfg(test)]
#[path = "spsc_tests.rs"]
mod tests;
