//! All parts of a workload in one order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::arrivals::{ArrivalTimes, Starters};
use crate::error::Error;
use crate::hosts::Hosts;
use crate::patterns::{self, Draft, JobDraws, JobPattern, PatternDraws};
use crate::sizes::SizeDistribution;
use crate::spec::{Traffic, Workload};
use crate::transfer::{After, Moment, Transfer};

/// Transfers that arrive at one instant are all in memory. As many as all-to-all of 2048 hosts has.
const MOST_AT_ONCE: f64 = 4_194_304.0;
/// The most expected transfers of one part. Simulating them takes months, counting them seconds.
const MOST_TRANSFERS: f64 = 100_000_000.0;

/// The transfers of a workload, by start time; those of the same time by id.
///
/// It holds the transfers of jobs that have arrived but not started, and nothing else, however long
/// the schedule is.
pub struct Schedule {
    hosts: Hosts,
    parts: Vec<Part>,
    /// The next arrival of each part that has one, earliest first; then by part.
    arrivals: BinaryHeap<Reverse<(u64, usize)>>,
    waiting: BinaryHeap<Reverse<ByStart>>,
    next_id: u64,
}

impl Workload {
    /// All transfers, in the order of their start.
    pub fn schedule(&self) -> Result<Schedule, Error> {
        Schedule::new(self)
    }
}

struct Part {
    name: Arc<str>,
    times: ArrivalTimes,
    /// Who starts the arrival that is in the queue.
    starters: Starters,
    pattern: Box<dyn JobPattern>,
    size: SizeDistribution,
    draws: PatternDraws,
    priority: u8,
}

impl Part {
    fn new(
        workload: &Workload,
        traffic: &Traffic,
        hosts: &Hosts,
        place: &str,
    ) -> Result<Self, Error> {
        if traffic.priority > 7 {
            return Err(Error::at(
                place,
                format!("priority is {}, expected 0 to 7", traffic.priority),
            ));
        }
        traffic.size.check(&format!("{place} size"))?;
        let pattern = patterns::resolve(&traffic.pattern, hosts, &traffic.name, workload.seed)?;
        let times = ArrivalTimes::new(
            traffic,
            &*pattern,
            place,
            workload.seed,
            workload.link_rate_bps,
            workload.duration_ns,
        )?;
        check_transfers(place, &*pattern, &times)?;
        Ok(Self {
            name: traffic.name.as_str().into(),
            times,
            starters: Starters::Each { rounds: 1 },
            pattern,
            size: traffic.size.clone(),
            draws: PatternDraws::new(workload.seed, &traffic.name),
            priority: traffic.priority,
        })
    }
}

/// A digit too many in a count or a time would fill the memory, or never end.
fn check_transfers(
    place: &str,
    pattern: &dyn JobPattern,
    times: &ArrivalTimes,
) -> Result<(), Error> {
    let per_job = pattern.transfers_per_job() as f64;
    for (number, most, of_what) in [
        (times.jobs_at_once(), MOST_AT_ONCE, "at one instant"),
        (times.expected_jobs(), MOST_TRANSFERS, "in all"),
    ] {
        let transfers = number * per_job;
        if transfers > most {
            return Err(Error::at(
                place,
                format!("{transfers:.0} transfers {of_what}, expected at most {most:.0}"),
            ));
        }
    }
    Ok(())
}

impl Schedule {
    pub(crate) fn new(workload: &Workload) -> Result<Self, Error> {
        if !(workload.link_rate_bps > 0.0 && workload.link_rate_bps.is_finite()) {
            return Err(Error::at(
                "link_rate_bps",
                format!("is {}, expected above 0", workload.link_rate_bps),
            ));
        }
        if workload.traffic.is_empty() {
            return Err(Error::at("traffic", "none; add [[traffic]]"));
        }
        let hosts = Hosts::new(workload.hosts.clone(), &workload.groups, workload.seed)?;
        let mut schedule = Self {
            hosts,
            parts: Vec::new(),
            arrivals: BinaryHeap::new(),
            waiting: BinaryHeap::new(),
            next_id: 0,
        };
        for traffic in &workload.traffic {
            let place = format!("traffic {}", traffic.name);
            if schedule
                .parts
                .iter()
                .any(|part| *part.name == *traffic.name)
            {
                return Err(Error::at(
                    place,
                    "there are two of this name; they would draw the same random numbers",
                ));
            }
            let part = Part::new(workload, traffic, &schedule.hosts, &place)?;
            schedule.parts.push(part);
            schedule.expect_arrival(schedule.parts.len() - 1);
        }
        Ok(schedule)
    }

    /// The hosts of the workload.
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    fn expect_arrival(&mut self, index: usize) {
        let part = &mut self.parts[index];
        if let Some((at_ns, starters)) = part.times.next() {
            part.starters = starters;
            self.arrivals.push(Reverse((at_ns, index)));
        }
    }

    /// Makes the jobs of the earliest arrival.
    fn arrive(&mut self, at_ns: u64, index: usize) {
        match self.parts[index].starters {
            Starters::One(starter) => {
                self.start_job(at_ns, index, starter, None);
            }
            Starters::Each { rounds } => {
                for starter in 0..self.parts[index].pattern.starters() {
                    let mut before = None;
                    for _ in 0..rounds {
                        before = Some(self.start_job(at_ns, index, starter, before));
                    }
                }
            }
        }
        self.expect_arrival(index);
    }

    /// `before`: the transfer whose end it waits for. Returns the id of its first transfer.
    fn start_job(&mut self, at_ns: u64, index: usize, starter: usize, before: Option<u64>) -> u64 {
        let part = &mut self.parts[index];
        let drafts = part.pattern.job(
            starter,
            &mut JobDraws {
                hosts: &self.hosts,
                size: &part.size,
                draws: &mut part.draws,
            },
        );
        let job = self.next_id;
        let job_transfers = drafts.len() as u64;
        self.next_id += job_transfers;
        let name = part.name.clone();
        let priority = part.priority;
        let transfers = drafts.into_iter().zip(job..).map(|(draft, id)| {
            let Draft {
                offset_ns,
                kind,
                sources,
                destinations,
                bytes,
                connection,
                after,
            } = draft;
            let after = after.map(|after| After {
                transfer: job + after.index as u64,
                moment: after.moment,
                delay_ns: after.delay_ns,
                serial: after.serial,
            });
            Transfer {
                id,
                job,
                job_transfers,
                traffic: name.clone(),
                start_ns: at_ns.saturating_add(offset_ns),
                kind,
                sources,
                destinations,
                bytes,
                priority,
                connection,
                after: after.or(before.map(|transfer| After {
                    transfer,
                    moment: Moment::Finished,
                    delay_ns: 0,
                    serial: false,
                })),
            }
        });
        self.waiting
            .extend(transfers.map(|transfer| Reverse(ByStart(transfer))));
        job
    }
}

impl Iterator for Schedule {
    type Item = Transfer;

    fn next(&mut self) -> Option<Transfer> {
        // A later arrival cannot start earlier; at the same time its id is larger.
        while let Some(&Reverse((at_ns, index))) = self.arrivals.peek() {
            match self.waiting.peek() {
                Some(Reverse(ByStart(first))) if first.start_ns <= at_ns => break,
                _ => {
                    self.arrivals.pop();
                    self.arrive(at_ns, index);
                }
            }
        }
        self.waiting
            .pop()
            .map(|Reverse(ByStart(transfer))| transfer)
    }
}

/// A transfer ordered by start, then id.
struct ByStart(Transfer);

impl ByStart {
    fn key(&self) -> (u64, u64) {
        (self.0.start_ns, self.0.id)
    }
}

impl PartialEq for ByStart {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for ByStart {}

impl PartialOrd for ByStart {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByStart {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
