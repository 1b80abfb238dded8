//! A network under a virtual clock: a discrete-event simulation that runs on several cores and has
//! the same result on any number of them.
//!
//! All partitions run through a window as long as the shortest delay between two of them without
//! hearing from each other, and then hand over frames. This is conservative synchronisation (Chandy
//! and Misra 1979) with bounded lag (Lubachevsky 1989).

mod rendezvous;

use std::ops::{Deref, DerefMut};
use std::thread;

use ebb_units::{Duration, Instant};

use crate::network::{Cut, Network, Partition};
use rendezvous::Rendezvous;

pub use crate::network::{Host, NodeId, NodePort, Work};

/// A [`Network`] and a virtual clock.
pub struct Simulation<H> {
    network: Network<H>,
    /// How many threads were asked for.
    threads: usize,
}

impl<H: Host> Simulation<H> {
    /// A network without nodes, on one thread.
    pub fn new() -> Self {
        Self {
            network: Network::new(),
            threads: 1,
        }
    }

    /// Spreads the nodes over at most `threads` threads; fewer are used if links without delay keep
    /// nodes together. To be called when all nodes are there.
    pub fn spread(&mut self, threads: usize) {
        self.threads = threads;
        self.network.spread(
            threads,
            Cut {
                least_delay: Duration::from_picos(1),
                hosts: true,
            },
        );
    }

    /// Lets everything happen that is due before `end`, or until `stop` returns true. `stop` is
    /// asked first, and then now and then, with the time reached and the work done. The clock then shows `end`, or
    /// where it stopped.
    pub fn run_until(&mut self, end: Instant, stop: impl FnMut(Instant, Work) -> bool + Send) {
        self.network.deliver();
        self.network.measure();
        if self.network.lookahead().is_zero() {
            // A link between two threads has lost its delay since they were spread.
            self.spread(self.threads);
        }
        let reached = match self.network.partitions().len() {
            1 => self.run_alone(end, stop),
            _ => self.run_together(end, stop),
        };
        self.network.set_now(reached);
        self.network.flush_captures();
    }

    /// Runs a single partition on this thread. Returns the time reached.
    fn run_alone(&mut self, end: Instant, mut stop: impl FnMut(Instant, Work) -> bool) -> Instant {
        let mut rounds = 0u64;
        while let Some(next) = self.network.next_event().filter(|next| *next < end) {
            if rounds.is_multiple_of(ASK_EVERY) && stop(next, self.network.work()) {
                return next;
            }
            for partition in self.network.partitions() {
                partition.take_turn(next, end);
            }
            rounds += 1;
        }
        end
    }

    /// Runs each partition on a thread of its own. They agree on every window, and hand over frames
    /// between two windows. Returns the time reached.
    fn run_together(
        &mut self,
        end: Instant,
        stop: impl FnMut(Instant, Work) -> bool + Send,
    ) -> Instant {
        let window = self.network.lookahead();
        let partitions = self.network.partitions();
        let meeting = &Rendezvous::new(partitions.len());
        let mut stop = Some(stop);
        thread::scope(|scope| {
            let runs: Vec<_> = partitions
                .iter_mut()
                .enumerate()
                .map(|(number, partition)| {
                    let ask = if number == 0 { stop.take() } else { None };
                    scope.spawn(move || run_partition(partition, number, meeting, window, end, ask))
                })
                .collect();
            // A panic of a partition is propagated.
            let reached = runs.into_iter().map(|run| match run.join() {
                Ok(reached) => reached,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            reached.min().unwrap_or(end)
        })
    }
}

impl<H> Deref for Simulation<H> {
    type Target = Network<H>;

    fn deref(&self) -> &Network<H> {
        &self.network
    }
}

impl<H> DerefMut for Simulation<H> {
    fn deref_mut(&mut self) -> &mut Network<H> {
        &mut self.network
    }
}

impl<H: Host> Default for Simulation<H> {
    fn default() -> Self {
        Self::new()
    }
}

/// Windows between two calls of `stop`.
const ASK_EVERY: u64 = 1024;

/// Runs one partition until `end`; `stop` is `None` for all partitions but the first.
fn run_partition<H: Host>(
    partition: &mut Partition<H>,
    number: usize,
    meeting: &Rendezvous,
    window: Duration,
    end: Instant,
    mut stop: Option<impl FnMut(Instant, Work) -> bool>,
) -> Instant {
    // If a partition panics, the others must not wait for it.
    let _leaving = meeting.guard();
    let mut rounds = 0u64;
    loop {
        let asked = rounds.is_multiple_of(ASK_EVERY);
        meeting.post(number, partition.next_event());
        if asked {
            meeting.post_work(number, partition.work());
        }
        // The others' work is that of their last report, which is good enough for a
        // progress bar.
        if asked
            && let Some(stop) = &mut stop
            && stop(meeting.last_start(), meeting.work())
        {
            meeting.stop();
        }
        let Some(next) = meeting.agree() else {
            return meeting.last_start();
        };
        if next >= end {
            return end;
        }
        partition.run((next + window).min(end));
        meeting.exchange(number, partition);
        rounds += 1;
    }
}
