//! How far a partition may run before it has heard from the others. Pure: no clock, no thread.
//!
//! Every partition tells what it has yet to do ([`Report`]). Taken together, at one moment, the
//! reports bound everything that is still to happen: it follows from an event that a partition has,
//! from a frame that one has sent and the other not yet taken, or from a frame that comes from
//! outside. So nothing reaches a partition earlier than the earliest of these plus the delay of the
//! links on the way, and until then it may run ([`Course::limit`]): conservative synchronisation as
//! in Chandy and Misra 1979, with a lower bound on all time stamps (Mattern 1993) in the place of
//! null messages, so that partitions with nothing to do need not answer.
//!
//! A partition that gets the CPU late holds back the others, and so does not distort their queues.
//! One that sleeps does not: as long as nothing waits for it outside, it has read everything until
//! now ([`Report::asleep`]).

use std::collections::VecDeque;

use ebb_units::{Duration, Instant};

/// Links between partitions count as this slow at least, should a configuration make them faster:
/// frames may then be late by as much, and partitions do not creep forward in smaller steps.
pub(crate) const LEAST_LOOKAHEAD: Duration = Duration::from_micros(1);

/// What a partition tells the others. All of it is true at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Nothing of what it has is due before.
    pub next: Instant,
    /// What came from outside before is among what it has.
    pub read_until: Instant,
    /// It wakes up as soon as anything comes from outside.
    pub asleep: bool,
    /// It has ended, takes nothing and sends nothing.
    pub done: bool,
    /// For each partition.
    pub toward: Vec<Toward>,
}

/// What a partition has to do with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Toward {
    /// No link there is faster.
    pub lookahead: Duration,
    /// Frames sent there so far.
    pub sent: u64,
    /// The earliest arrival of those that may not have been taken there.
    pub in_flight: Instant,
    /// Frames from there that are among what it has, or were.
    pub taken: u64,
}

impl Report {
    /// Before anything has happened.
    pub fn new(partitions: usize) -> Self {
        let toward = Toward {
            lookahead: LEAST_LOOKAHEAD,
            sent: 0,
            in_flight: Instant::FAR_FUTURE,
            taken: 0,
        };
        Self {
            next: Instant::ZERO,
            read_until: Instant::ZERO,
            asleep: false,
            done: false,
            toward: vec![toward; partitions],
        }
    }

    /// What it holds others back by.
    pub fn earliest(&self) -> Instant {
        match self.done {
            true => Instant::FAR_FUTURE,
            false => self.next.min(self.read_until),
        }
    }
}

/// Until when a partition may run: exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub until: Instant,
    /// The partition whose next step would move it.
    pub by: usize,
    /// From that one's earliest to here.
    pub distance: Duration,
}

/// One partition's book of what it sent and took, and its way to its limit.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    own: usize,
    report: Report,
    /// For each partition, batches sent there: the count after the batch, its earliest arrival.
    unacknowledged: Vec<VecDeque<(u64, Instant)>>,
    distances: Distances,
}

impl Course {
    pub fn new(own: usize, partitions: usize) -> Self {
        Self {
            own,
            report: Report::new(partitions),
            unacknowledged: vec![VecDeque::new(); partitions],
            distances: Distances::default(),
        }
    }

    pub fn set_lookahead(&mut self, lookahead: &[Duration]) {
        for (toward, delay) in self.report.toward.iter_mut().zip(lookahead) {
            toward.lookahead = (*delay).max(LEAST_LOOKAHEAD);
        }
    }

    /// Frames from another partition are among what this one has.
    pub fn took(&mut self, from: usize, frames: usize) {
        self.report.toward[from].taken += frames as u64;
    }

    /// Frames were sent to another partition; none of them arrives before `earliest`.
    pub fn sent(&mut self, to: usize, frames: usize, earliest: Instant) {
        let toward = &mut self.report.toward[to];
        toward.sent += frames as u64;
        toward.in_flight = toward.in_flight.min(earliest);
        self.unacknowledged[to].push_back((toward.sent, earliest));
    }

    /// Forgets what the others have taken.
    pub fn acknowledge(&mut self, reports: &[Report]) {
        for (to, batches) in self.unacknowledged.iter_mut().enumerate() {
            let taken = reports[to].toward[self.own].taken;
            let before = batches.len();
            while batches.front().is_some_and(|(count, _)| *count <= taken) {
                batches.pop_front();
            }
            if batches.len() < before {
                let rest = batches.iter().map(|(_, earliest)| *earliest);
                self.report.toward[to].in_flight = rest.min().unwrap_or(Instant::FAR_FUTURE);
            }
        }
    }

    /// What is to be told, after what was taken and sent so far.
    pub fn report(&mut self, next: Instant, read_until: Instant, asleep: bool) -> &Report {
        self.report.next = next;
        self.report.read_until = read_until;
        self.report.asleep = asleep;
        &self.report
    }

    pub fn report_end(&mut self) -> &Report {
        self.report.done = true;
        &self.report
    }

    /// Until when this partition may run, given what the others tell at one moment, and its own last
    /// report.
    pub fn limit(&mut self, reports: &[Report]) -> Limit {
        self.distances.update(reports);
        // Frames that were sent after it last looked are there when they arrive.
        let mut limit = Limit {
            until: in_flight(reports, self.own),
            by: self.own,
            distance: Duration::ZERO,
        };
        for by in 0..reports.len() {
            let distance = self.distances.between(by, self.own);
            let until = earliest(reports, by) + distance;
            if until < limit.until {
                limit = Limit {
                    until,
                    by,
                    distance,
                };
            }
        }
        limit
    }
}

/// Nothing happens at a partition before, frames on their way to it included.
fn earliest(reports: &[Report], at: usize) -> Instant {
    let report = &reports[at];
    match report.done {
        true => Instant::FAR_FUTURE,
        false => report.earliest().min(in_flight(reports, at)),
    }
}

/// The earliest arrival of frames that were sent to a partition and that it has not taken.
fn in_flight(reports: &[Report], to: usize) -> Instant {
    let towards = reports.iter().map(|report| report.toward[to]);
    let under_way = towards
        .zip(&reports[to].toward)
        .filter(|(toward, own)| toward.sent > own.taken)
        .map(|(toward, _)| toward.in_flight);
    under_way.min().unwrap_or(Instant::FAR_FUTURE)
}

/// The shortest way from each partition to each, over any number of others; to itself, the shortest
/// way round.
#[derive(Clone, Debug, Default)]
struct Distances {
    /// What the distances were made of.
    lookahead: Vec<Duration>,
    distances: Vec<Duration>,
    partitions: usize,
}

impl Distances {
    fn between(&self, from: usize, to: usize) -> Duration {
        self.distances[from * self.partitions + to]
    }

    fn update(&mut self, reports: &[Report]) {
        let rows = reports.iter().flat_map(|report| &report.toward);
        let lookahead = rows.map(|toward| toward.lookahead);
        if lookahead.clone().eq(self.lookahead.iter().copied()) {
            return;
        }
        let count = reports.len();
        self.partitions = count;
        self.lookahead = lookahead.collect();
        let mut distances = self.lookahead.clone();
        for own in 0..count {
            distances[own * count + own] = Duration::MAX;
        }
        // Floyd and Warshall; there are few partitions, and delays change hardly ever.
        for over in 0..count {
            for from in 0..count {
                for to in 0..count {
                    let way = distances[from * count + over] + distances[over * count + to];
                    let known = &mut distances[from * count + to];
                    *known = way.min(*known);
                }
            }
        }
        self.distances = distances;
    }
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
