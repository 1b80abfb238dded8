//! Where the threads of a simulation meet between two windows.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use ebb_units::Instant;

use super::Work;
use crate::network::{Crossing, Host, Partition};

/// Looks before a waiting thread gives way to others: a window takes microseconds, being woken more.
const SPINS: u32 = 2000;

pub(super) struct Rendezvous {
    parties: usize,
    arrived: AtomicUsize,
    generation: AtomicUsize,
    /// Each partition's next event.
    next: Vec<AtomicU64>,
    work: Vec<[AtomicU64; 2]>,
    /// Start of the window that is being run.
    started: AtomicU64,
    stop: AtomicBool,
    /// A thread has panicked.
    broken: AtomicBool,
    /// Frames from one partition to another: `from * parties + to`.
    mailboxes: Vec<Mutex<Vec<Crossing>>>,
}

impl Rendezvous {
    pub fn new(parties: usize) -> Self {
        let mailboxes = (0..parties * parties).map(|_| Mutex::new(Vec::new()));
        Self {
            parties,
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            next: (0..parties).map(|_| AtomicU64::new(0)).collect(),
            work: (0..parties).map(|_| Default::default()).collect(),
            started: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            mailboxes: mailboxes.collect(),
        }
    }

    /// Says when a partition's next event is.
    pub fn post(&self, partition: usize, next: Option<Instant>) {
        let next = next.unwrap_or(Instant::FAR_FUTURE);
        self.next[partition].store(next.as_picos(), Ordering::Relaxed);
    }

    pub fn post_work(&self, partition: usize, work: Work) {
        let [hops, events] = &self.work[partition];
        hops.store(work.packet_hops, Ordering::Relaxed);
        events.store(work.events, Ordering::Relaxed);
    }

    /// What all partitions have done, as of the last time they told.
    pub fn work(&self) -> Work {
        let sum = |which: usize| {
            let counts = self.work.iter().map(|w| w[which].load(Ordering::Relaxed));
            counts.sum()
        };
        Work {
            packet_hops: sum(0),
            events: sum(1),
        }
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Start of the window before, or of the one being run.
    pub fn last_start(&self) -> Instant {
        Instant::from_picos(self.started.load(Ordering::Relaxed))
    }

    /// Waits for all, then says when the first event of any partition is. `None`: the end.
    pub fn agree(&self) -> Option<Instant> {
        self.wait();
        if self.broken.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let next = self.next.iter().map(|n| n.load(Ordering::Relaxed)).min()?;
        self.started.store(next, Ordering::Relaxed);
        Some(Instant::from_picos(next))
    }

    /// Gives the partition's frames to the other partitions and takes theirs.
    pub fn exchange<H: Host>(&self, number: usize, partition: &mut Partition<H>) {
        for to in (0..self.parties).filter(|to| *to != number) {
            let crossing = partition.take_crossing(to);
            *self.mailbox(number, to) = crossing;
        }
        self.wait();
        for from in (0..self.parties).filter(|from| *from != number) {
            let crossing = std::mem::take(&mut *self.mailbox(from, number));
            partition.accept(crossing);
        }
    }

    fn mailbox(&self, from: usize, to: usize) -> std::sync::MutexGuard<'_, Vec<Crossing>> {
        let mailbox = self.mailboxes[from * self.parties + to].lock();
        // A thread that panics holds no mailbox.
        mailbox.unwrap_or_else(PoisonError::into_inner)
    }

    /// A barrier. Ends at once when a thread has panicked.
    fn wait(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.parties {
            self.arrived.store(0, Ordering::Relaxed);
            self.generation.fetch_add(1, Ordering::Release);
            return;
        }
        let mut spins = 0;
        while self.generation.load(Ordering::Acquire) == generation
            && !self.broken.load(Ordering::Relaxed)
        {
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }

    /// To be held while a partition runs.
    pub fn guard(&self) -> Guard<'_> {
        Guard(self)
    }
}

/// Frees the others if its thread panics.
pub(super) struct Guard<'a>(&'a Rendezvous);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.broken.store(true, Ordering::Relaxed);
        }
    }
}
