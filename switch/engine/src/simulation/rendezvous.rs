//! Where the threads of a simulation meet between two windows.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use ebb_units::Instant;

use super::Work;
use crate::network::{Crossing, Host, Partition};

/// How often a waiting thread looks before it yields: a window takes microseconds, and being woken
/// takes longer.
const SPINS: u32 = 2000;
/// How often it yields before it sleeps: the threads that it waits for may have no processor.
const YIELDS: u32 = 50;

/// State that the threads share.
pub(super) struct Rendezvous {
    /// The number of threads.
    parties: usize,
    /// How many of them wait at the barrier.
    arrived: AtomicUsize,
    /// How often the barrier has opened.
    generation: AtomicUsize,
    /// How many threads sleep at the barrier, or are about to.
    asleep: AtomicUsize,
    sleep: Mutex<()>,
    awake: Condvar,
    /// For each partition, its next event in picoseconds.
    next: Vec<AtomicU64>,
    /// For each partition, its packet hops and its events so far.
    work: Vec<[AtomicU64; 2]>,
    /// Start of the window that is being run, in picoseconds.
    started: AtomicU64,
    /// Whether the run is to end.
    stop: AtomicBool,
    /// Whether a thread has panicked.
    broken: AtomicBool,
    /// Frames from one partition to another, at index `from * parties + to`.
    mailboxes: Vec<Mutex<Vec<Crossing>>>,
}

impl Rendezvous {
    /// A rendezvous of this many threads.
    pub fn new(parties: usize) -> Self {
        let mailboxes = (0..parties * parties).map(|_| Mutex::new(Vec::new()));
        Self {
            parties,
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            asleep: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            awake: Condvar::new(),
            next: (0..parties).map(|_| AtomicU64::new(0)).collect(),
            work: (0..parties).map(|_| Default::default()).collect(),
            started: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            mailboxes: mailboxes.collect(),
        }
    }

    /// Publishes when a partition has its next event; `None`: it has none.
    pub fn post(&self, partition: usize, next: Option<Instant>) {
        let next = next.unwrap_or(Instant::FAR_FUTURE);
        self.next[partition].store(next.as_picos(), Ordering::Relaxed);
    }

    /// Publishes what a partition has done so far.
    pub fn post_work(&self, partition: usize, work: Work) {
        let [hops, events] = &self.work[partition];
        hops.store(work.packet_hops, Ordering::Relaxed);
        events.store(work.events, Ordering::Relaxed);
    }

    /// Work of all partitions at their last reports.
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

    /// Ends the run when the threads meet next.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Start of the window that is being run, or of the one before.
    pub fn last_start(&self) -> Instant {
        Instant::from_picos(self.started.load(Ordering::Relaxed))
    }

    /// Waits for all threads, then returns the time of the first event of all partitions; `None` at
    /// the end.
    pub fn agree(&self) -> Option<Instant> {
        self.wait();
        if self.broken.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let next = self.next.iter().map(|n| n.load(Ordering::Relaxed)).min()?;
        self.started.store(next, Ordering::Relaxed);
        Some(Instant::from_picos(next))
    }

    /// Gives the frames of a partition to the others, and takes theirs.
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

    /// A barrier, which also ends when a thread has panicked.
    fn wait(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.parties {
            self.arrived.store(0, Ordering::Relaxed);
            self.generation.fetch_add(1, Ordering::SeqCst);
            self.wake();
            return;
        }
        for turn in 0..SPINS + YIELDS {
            if self.has_opened(generation) {
                return;
            }
            if turn < SPINS {
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
        self.sleep_until_opened(generation);
    }

    /// Whether the barrier of a generation no longer holds its threads.
    fn has_opened(&self, generation: usize) -> bool {
        self.generation.load(Ordering::SeqCst) != generation || self.broken.load(Ordering::SeqCst)
    }

    /// Who opens the barrier changes the generation and then looks for sleepers; a sleeper is counted
    /// and then looks at the generation. So one of them sees the other.
    fn sleep_until_opened(&self, generation: usize) {
        self.asleep.fetch_add(1, Ordering::SeqCst);
        let held = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        let woken = self
            .awake
            .wait_while(held, |()| !self.has_opened(generation));
        drop(woken.unwrap_or_else(PoisonError::into_inner));
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst) > 0 {
            let _held = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
            self.awake.notify_all();
        }
    }

    /// The guard that a thread must hold while it runs a partition.
    pub fn guard(&self) -> Guard<'_> {
        Guard(self)
    }
}

/// Frees the other threads if its thread panics.
pub(super) struct Guard<'a>(&'a Rendezvous);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.broken.store(true, Ordering::SeqCst);
            self.0.wake();
        }
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "threads sleep when others are late by the clock"
)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Longer than a thread spins and yields.
    const LATE: Duration = Duration::from_millis(20);

    #[test]
    fn threads_that_sleep_are_woken() {
        let rendezvous = Rendezvous::new(3);
        thread::scope(|scope| {
            for number in 0..3 {
                let rendezvous = &rendezvous;
                scope.spawn(move || {
                    for turn in 0..9 {
                        if turn % 3 == number {
                            thread::sleep(LATE);
                        }
                        rendezvous.wait();
                    }
                });
            }
        });
        assert_eq!(rendezvous.generation.load(Ordering::SeqCst), 9);
        assert_eq!(rendezvous.asleep.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_panic_wakes_those_that_wait_for_its_thread() {
        let rendezvous = Rendezvous::new(2);
        thread::scope(|scope| {
            let waits = scope.spawn(|| rendezvous.wait());
            let panics = scope.spawn(|| {
                let _guard = rendezvous.guard();
                thread::sleep(LATE);
                panic!("a partition");
            });
            assert!(panics.join().is_err());
            waits.join().expect("woken");
        });
    }
}
