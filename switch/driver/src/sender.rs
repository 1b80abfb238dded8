//! A thread that sends for another thread.
//!
//! Most of the cost of sending is the kernel's work at the other end, since a veth delivers in the
//! time of its sender. So a thread with many frames hands them over, in one parcel for all its
//! interfaces, and goes on with its switches. The parcel comes back with the memory of the frames
//! and with what was dropped. A thread sends few frames itself, because that costs less than waking
//! another thread, unless others are still under way: the frames of an interface leave in order.
//!
//! Both ways are lock-free queues that allocate nothing (`std::sync::mpsc` with a bound is an
//! array, and locks only to wake a thread that sleeps). If too much is under way the thread waits.
//! Meanwhile it reads nothing, so what comes waits in the receive rings or is dropped there and
//! counted.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::batch::Batch;
use crate::line::Line;

/// Most parcels under way. Together with [`MOST_FRAMES`] it bounds the queues: a sender may stand
/// still for 50 ms at 160,000 frames/s before it holds up anybody.
const MOST_PARCELS: usize = 128;
/// Most frames under way.
const MOST_FRAMES: usize = 8192;
/// Fewer frames than this are sent by the thread that has them.
const FEW_FRAMES: usize = 16;

/// A batch and the interface it is for; `line` is `None` if that never had a batch.
#[derive(Debug, Default)]
pub(crate) struct Addressed {
    /// The socket to send through.
    pub line: Option<Arc<Line>>,
    /// The frames.
    pub batch: Batch,
}

/// One batch for each interface of a thread, some of them empty.
pub(crate) type Parcel = Vec<Addressed>;

/// The near end of a sending thread.
pub(crate) struct Sender {
    /// Parcels to send.
    parcels: SyncSender<Parcel>,
    /// Parcels that were sent.
    sent: Receiver<Parcel>,
    /// The thread, to be joined.
    thread: JoinHandle<()>,
    /// Parcels handed over that have not come back.
    parcels_under_way: usize,
    /// Frames in these parcels.
    frames_under_way: usize,
}

impl Sender {
    /// Starts the thread, which calls `prepare` once and `send` with each parcel.
    pub fn start(
        name: String,
        prepare: impl FnOnce() + Send + 'static,
        mut send: impl FnMut(&mut Parcel) + Send + 'static,
    ) -> io::Result<Self> {
        let (parcels, to_send) = sync_channel::<Parcel>(MOST_PARCELS);
        // This queue holds as many parcels as there are, so the thread never waits for room.
        let (back, sent) = sync_channel(MOST_PARCELS);
        let work = move || {
            prepare();
            for mut parcel in to_send {
                send(&mut parcel);
                if back.send(parcel).is_err() {
                    return;
                }
            }
        };
        Ok(Self {
            parcels,
            sent,
            thread: thread::Builder::new().name(name).spawn(work)?,
            parcels_under_way: 0,
            frames_under_way: 0,
        })
    }

    /// Whether this many frames are worth handing over, or have to wait for earlier ones.
    pub fn wants(&self, frames: usize) -> bool {
        frames >= FEW_FRAMES || self.parcels_under_way > 0
    }

    /// Hands over a parcel, which is sent after all earlier ones. It returns at once unless too
    /// much is under way. Parcels that come back meanwhile go to `take_back`. False means that the
    /// thread has failed; `finish` then says why.
    #[must_use]
    pub fn send(&mut self, parcel: Parcel, mut take_back: impl FnMut(Parcel)) -> bool {
        let frames = frames_of(&parcel);
        while self.parcels_under_way == MOST_PARCELS
            || (self.parcels_under_way > 0 && self.frames_under_way + frames > MOST_FRAMES)
        {
            match self.sent.recv() {
                Ok(parcel) => take_back(self.arrived(parcel)),
                Err(_) => return false,
            }
        }
        self.parcels_under_way += 1;
        self.frames_under_way += frames;
        self.parcels.send(parcel).is_ok()
    }

    /// A parcel that was sent; `None` if none has come back.
    pub fn poll(&mut self) -> Option<Parcel> {
        let parcel = self.sent.try_recv().ok()?;
        Some(self.arrived(parcel))
    }

    /// Counts a parcel that came back.
    fn arrived(&mut self, parcel: Parcel) -> Parcel {
        self.parcels_under_way -= 1;
        self.frames_under_way -= frames_of(&parcel);
        parcel
    }

    /// Waits until everything is sent, and ends the thread. If it panicked, the panic is propagated.
    pub fn finish(self, take_back: impl FnMut(Parcel)) {
        drop(self.parcels);
        self.sent.into_iter().for_each(take_back);
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// How many frames a parcel holds.
fn frames_of(parcel: &Parcel) -> usize {
    parcel.iter().map(|part| part.batch.len()).sum()
}

#[cfg(test)]
#[path = "sender_tests.rs"]
mod tests;
