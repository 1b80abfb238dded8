//! How far a partition may run before it has heard from the others. It uses neither clock nor
//! threads.
//!
//! Every partition publishes what it has yet to do ([`Report`]). Together, as of one moment, the
//! reports bound everything that is still to happen: it follows from an event that a partition has,
//! from a frame that one has sent and another has not yet taken, or from a frame that comes from
//! outside. So nothing reaches a partition before the earliest of these plus the delay of the links
//! on the way, and until then it may run ([`Course::limit`]). This is conservative synchronisation
//! as in Chandy and Misra 1979, with a lower bound on all time stamps (Mattern 1993) in place of
//! null messages, so that partitions with nothing to do need not answer.
//!
//! A partition that gets the CPU late holds back the others and so does not distort their queues.
//! One that sleeps holds back nobody: as long as nothing waits for it outside, it has read
//! everything until now ([`Report::asleep`]).

use std::collections::VecDeque;

use ebb_units::{Duration, Instant};

/// The least delay that links between partitions count with, should a configuration make them
/// faster. Frames may then be late by this much, but partitions do not creep forward in tiny steps.
pub(crate) const LEAST_LOOKAHEAD: Duration = Duration::from_micros(1);

/// Report of a partition to the others; all of it is true at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// No event that the partition has is due before this time.
    pub next: Instant,
    /// All frames that came from outside before this time are among its events.
    pub read_until: Instant,
    /// Whether it sleeps, and wakes up as soon as anything comes from outside.
    pub asleep: bool,
    /// Whether it has ended: then it takes and sends nothing.
    pub done: bool,
    /// Its relation to each partition, by number.
    pub toward: Vec<Toward>,
}

/// The relation of one partition to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Toward {
    /// The shortest delay of the links there; [`Duration::MAX`] without links.
    pub lookahead: Duration,
    /// How many frames have been sent there.
    pub sent: u64,
    /// The earliest arrival of those frames that may not have been taken there.
    pub in_flight: Instant,
    /// How many frames from there have been taken.
    pub taken: u64,
}

impl Report {
    /// The report before anything has happened.
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

    /// The time before which this partition causes nothing elsewhere.
    pub fn earliest(&self) -> Instant {
        match self.done {
            true => Instant::FAR_FUTURE,
            false => self.next.min(self.read_until),
        }
    }
}

/// How far a partition may run, and who keeps it from going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// The partition may run what is due before this time.
    pub until: Instant,
    /// Number of the partition whose progress would move the limit.
    pub by: usize,
    /// Least time from an event at that partition to its effect here.
    pub distance: Duration,
}

/// Frames that one partition has sent and taken, and how its limit follows from the reports of all.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    /// Number of the partition.
    own: usize,
    /// Its report, as it will be posted next.
    report: Report,
    /// For each partition, the batches sent there and not known to be taken: frames sent up to and
    /// including the batch, and the earliest arrival of its frames.
    unacknowledged: Vec<VecDeque<(u64, Instant)>>,
    /// The shortest ways between partitions.
    distances: Distances,
}

impl Course {
    /// The course of partition `own` of `partitions`, before anything has happened.
    pub fn new(own: usize, partitions: usize) -> Self {
        Self {
            own,
            report: Report::new(partitions),
            unacknowledged: vec![VecDeque::new(); partitions],
            distances: Distances::default(),
        }
    }

    /// Takes over the shortest delay to each partition.
    pub fn set_lookahead(&mut self, lookahead: &[Duration]) {
        for (toward, delay) in self.report.toward.iter_mut().zip(lookahead) {
            toward.lookahead = (*delay).max(LEAST_LOOKAHEAD);
        }
    }

    /// Notes that frames from another partition have been taken.
    pub fn took(&mut self, from: usize, frames: usize) {
        self.report.toward[from].taken += frames as u64;
    }

    /// Notes that frames were sent to another partition; none arrives before `earliest`.
    pub fn sent(&mut self, to: usize, frames: usize, earliest: Instant) {
        let toward = &mut self.report.toward[to];
        toward.sent += frames as u64;
        toward.in_flight = toward.in_flight.min(earliest);
        self.unacknowledged[to].push_back((toward.sent, earliest));
    }

    /// Forgets the batches that the others have taken.
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

    /// The report to post, given what was taken and sent so far.
    pub fn report(&mut self, next: Instant, read_until: Instant, asleep: bool) -> &Report {
        self.report.next = next;
        self.report.read_until = read_until;
        self.report.asleep = asleep;
        &self.report
    }

    /// The last report.
    pub fn report_end(&mut self) -> &Report {
        self.report.done = true;
        &self.report
    }

    /// Until when this partition may run, given all reports of one moment, its own last one among
    /// them.
    pub fn limit(&mut self, reports: &[Report]) -> Limit {
        self.distances.update(reports);
        // Frames that were sent after this partition last took some will be there when they arrive.
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

/// Nothing happens before this time at partition `at`, frames on their way to it included.
fn earliest(reports: &[Report], at: usize) -> Instant {
    let report = &reports[at];
    match report.done {
        true => Instant::FAR_FUTURE,
        false => report.earliest().min(in_flight(reports, at)),
    }
}

/// The earliest arrival of the frames that were sent to a partition and that it has not taken.
fn in_flight(reports: &[Report], to: usize) -> Instant {
    let towards = reports.iter().map(|report| report.toward[to]);
    let under_way = towards
        .zip(&reports[to].toward)
        .filter(|(toward, own)| toward.sent > own.taken)
        .map(|(toward, _)| toward.in_flight);
    under_way.min().unwrap_or(Instant::FAR_FUTURE)
}

/// The shortest way from each partition to each other one, over any number of others; from one to
/// itself, the shortest way round.
#[derive(Clone, Debug, Default)]
struct Distances {
    /// The delays that the distances were computed from.
    lookahead: Vec<Duration>,
    /// Distance of each pair, at index `from * partitions + to`.
    distances: Vec<Duration>,
    /// The number of partitions.
    partitions: usize,
}

impl Distances {
    /// The shortest way between two partitions.
    fn between(&self, from: usize, to: usize) -> Duration {
        self.distances[from * self.partitions + to]
    }

    /// Computes the distances anew if the delays in the reports have changed.
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
        // Floyd-Warshall: there are few partitions, and delays hardly ever change.
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
