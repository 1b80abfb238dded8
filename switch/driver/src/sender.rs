//! A thread that sends for another one.
//!
//! Most of what sending costs is the kernel's work at the other end: a veth delivers in the time of
//! its sender. So a thread with many frames hands them over, one parcel for all its interfaces, and
//! goes on with its switches. The parcel comes back with the memory of the frames and with what was
//! dropped. Few frames it sends itself, for less than it costs to wake another thread, unless others
//! are still under way: frames of an interface leave in order.
//!
//! Both ways are lock-free queues that allocate nothing (`std::sync::mpsc` with a bound is an array,
//! and locks only to wake who sleeps). If too much is under way the thread waits: then it reads
//! nothing either, and what comes waits in the receive rings or is dropped there and counted.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::batch::Batch;
use crate::line::Line;

/// Parcels and frames under way at most, so that their queues have an end. A sender that stands still
/// for 50 ms holds up nobody at 160,000 frames/s.
const MOST_PARCELS: usize = 128;
const MOST_FRAMES: usize = 8192;
/// Fewer are sent by the thread that has them.
const FEW_FRAMES: usize = 16;

/// A batch, and the interface that it is for; none if it never had one.
#[derive(Debug, Default)]
pub(crate) struct Addressed {
    pub line: Option<Arc<Line>>,
    pub batch: Batch,
}

/// A batch for each interface of a thread.
pub(crate) type Parcel = Vec<Addressed>;

pub(crate) struct Sender {
    parcels: SyncSender<Parcel>,
    sent: Receiver<Parcel>,
    thread: JoinHandle<()>,
    parcels_under_way: usize,
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
        // As many fit as there are: the thread never waits for room.
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

    /// Whether so many frames are worth handing over, or have to wait for others.
    pub fn wants(&self, frames: usize) -> bool {
        frames >= FEW_FRAMES || self.parcels_under_way > 0
    }

    /// Sends a parcel after all earlier ones, and returns at once if few are under way. Parcels that
    /// come back meanwhile go to `take_back`. False: the thread has failed, which `finish` tells.
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

    /// A parcel that was sent.
    pub fn poll(&mut self) -> Option<Parcel> {
        let parcel = self.sent.try_recv().ok()?;
        Some(self.arrived(parcel))
    }

    fn arrived(&mut self, parcel: Parcel) -> Parcel {
        self.parcels_under_way -= 1;
        self.frames_under_way -= frames_of(&parcel);
        parcel
    }

    /// Has everything sent and ends the thread. A panic of it goes on here.
    pub fn finish(self, take_back: impl FnMut(Parcel)) {
        drop(self.parcels);
        self.sent.into_iter().for_each(take_back);
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

fn frames_of(parcel: &Parcel) -> usize {
    parcel.iter().map(|part| part.batch.len()).sum()
}

#[cfg(test)]
#[path = "sender_tests.rs"]
mod tests;
