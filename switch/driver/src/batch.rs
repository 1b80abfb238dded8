//! Frames on their way out through one interface, and the outcome of sending them.

use ebb_engine::DropReason;
use ebb_pipeline::Frames;
use ebb_units::{Duration, Instant};

/// Frames that are sent together. An attempt to send deals with the first `done` of them.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The frames, in the order in which they leave.
    pub frames: Vec<Vec<u8>>,
    /// When each frame should leave; [`HELD`] for those that an interface held back.
    due: Vec<Instant>,
    /// Number of frames, from the first, that the last attempt sent or dropped.
    done: usize,
    /// When that attempt ended.
    done_at: Instant,
    /// Frames that the last attempt dropped, by reason.
    pub drops: Vec<Dropped>,
}

/// Due time of a frame that the interface held back: the switch is not late with it.
const HELD: Instant = Instant::FAR_FUTURE;

/// Frames that never got in or out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Reason of the drop.
    pub reason: DropReason,
    /// Number of the frames.
    pub packets: u64,
    /// Sum of their lengths; 0 if the kernel does not report it.
    pub bytes: u64,
}

impl Batch {
    /// Whether there are no frames.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The number of frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Adds a frame that should leave at `due`.
    pub fn push(&mut self, due: Instant, frame: Vec<u8>) {
        self.frames.push(frame);
        self.due.push(due);
    }

    /// Records that the first `done` frames have been sent or dropped, at this time.
    pub fn finish(&mut self, done: usize, at: Instant) {
        (self.done, self.done_at) = (done, at);
    }

    /// Whether the last attempt has left frames.
    pub fn is_left(&self) -> bool {
        self.done < self.frames.len()
    }

    /// Removes the frames that were sent or dropped, gives their memory back, and adds the lateness of
    /// each to `late`. Returns their number. The others stay and count as held back from now on.
    pub fn clear_done(&mut self, memory: &mut Frames, late: &mut Vec<Duration>) -> usize {
        let done = std::mem::take(&mut self.done);
        let on_time = self.due.drain(..done).filter(|due| *due != HELD);
        late.extend(on_time.map(|due| self.done_at.since(due)));
        self.frames.drain(..done).for_each(|f| memory.give(f));
        self.due.fill(HELD);
        done
    }

    /// Adds the frames of a later batch, which is empty afterwards.
    pub fn append(&mut self, later: &mut Batch) {
        self.frames.append(&mut later.frames);
        self.due.append(&mut later.due);
        self.drops.append(&mut later.drops);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_interface_holds_back_is_not_late() {
        let at = Instant::from_micros;
        let (mut memory, mut late) = (Frames::default(), Vec::new());
        let mut batch = Batch::default();
        for number in 1..=3 {
            batch.push(at(10 * u64::from(number)), vec![number]);
        }
        assert!(batch.is_left());
        batch.finish(2, at(25));
        assert_eq!(batch.clear_done(&mut memory, &mut late), 2);
        assert_eq!(late, [15, 5].map(Duration::from_micros));
        late.clear();

        let mut later = Batch::default();
        later.push(at(90), vec![4]);
        batch.append(&mut later);
        assert_eq!(
            (batch.frames.as_slice(), later.len()),
            (&[vec![3], vec![4]][..], 0)
        );
        batch.finish(2, at(100));
        assert!(!batch.is_left());
        assert_eq!(batch.clear_done(&mut memory, &mut late), 2);
        assert_eq!(late, [Duration::from_micros(10)]);
    }
}
