//! Outcome of the transfers of a run: counts, completion times, jobs.

use std::collections::BTreeMap;

use ebb_workload::{Open, Part};
use serde::Serialize;
use serde_json::{Value, json};

use super::summary::{Completions, Spread};

/// How many transfers of one part ended how.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Counts {
    pub finished: u64,
    pub failed: u64,
    /// No end was seen before the run was over.
    pub unfinished: u64,
    /// They waited for another transfer, which failed.
    pub not_started: u64,
    /// Bytes of content of those that finished.
    pub content_bytes: u64,
}

/// When a transfer that this host started began and ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    pub started_at_ns: u64,
    pub finished_at_ns: u64,
}

#[derive(Default, Debug)]
pub struct Results {
    /// Transfers that this host started.
    started: Counts,
    /// Transfers that other hosts fetched from this one.
    served: Counts,
    /// Transfers that other hosts sent to this one.
    received: Counts,
    /// Sizes of transfers that this host started and their times, from when they were offered.
    completions: Completions,
    /// How long after it was offered each of these started, in ns.
    late_ns: Vec<f64>,
    /// Jobs of which not all transfers have ended, by number.
    jobs: BTreeMap<u64, Job>,
    jobs_finished: u64,
    jobs_failed: u64,
    job_times: Completions,
    /// Content that fetches and other hosts brought here.
    content_bytes_here: u64,
    /// When the last of it was complete, in ns of CLOCK_MONOTONIC.
    last_received_ns: u64,
}

/// A job that has ended in part. It ends as a whole only if every transfer of it concerns this host.
#[derive(Debug)]
struct Job {
    transfers_left: u64,
    /// When its first transfer was offered, in ns of CLOCK_MONOTONIC. `None`: another host started it.
    offered_at_ns: Option<u64>,
    finished_at_ns: u64,
    bytes: u64,
    good: bool,
}

impl Results {
    /// A transfer has ended at `at_ns`; `times`: of one that this host started and that went well.
    pub fn ended(&mut self, open: &Open, good: bool, at_ns: u64, times: Option<Times>) {
        let bytes = open.transfer.bytes;
        let counts = self.counts(open.part);
        if good {
            counts.finished += 1;
            counts.content_bytes += bytes;
        } else {
            counts.failed += 1;
        }
        let is_for_us = match open.part {
            Part::Start => open.transfer.initiator() == open.transfer.destinations[0],
            Part::Receive => true,
            Part::Serve => false,
        };
        let end_ns = times.map_or(at_ns, |times| times.finished_at_ns);
        if good && is_for_us {
            self.content_bytes_here += bytes;
            self.last_received_ns = self.last_received_ns.max(end_ns);
        }
        if good
            && let (Some(times), Some(offered)) = (times, open.offered_at_ns)
            && open.part == Part::Start
        {
            self.completions
                .add(bytes, times.finished_at_ns.saturating_sub(offered));
            self.late_ns
                .push(times.started_at_ns.saturating_sub(offered) as f64);
        }
        self.job(open, good, end_ns);
    }

    /// A transfer will never start.
    pub fn not_started(&mut self, open: &Open) {
        self.counts(open.part).not_started += 1;
    }

    /// The run is over.
    pub fn rest(&mut self, open: &[Open]) {
        for open in open {
            self.counts(open.part).unfinished += 1;
        }
    }

    /// Whether everything went well.
    pub fn is_good(&self) -> bool {
        [self.started, self.served, self.received]
            .iter()
            .all(|counts| counts.failed + counts.unfinished + counts.not_started == 0)
    }

    fn counts(&mut self, part: Part) -> &mut Counts {
        match part {
            Part::Start => &mut self.started,
            Part::Serve => &mut self.served,
            Part::Receive => &mut self.received,
        }
    }

    fn job(&mut self, open: &Open, good: bool, end_ns: u64) {
        let transfer = &open.transfer;
        let job = self.jobs.entry(transfer.job).or_insert(Job {
            transfers_left: transfer.job_transfers,
            offered_at_ns: None,
            finished_at_ns: 0,
            bytes: 0,
            good: true,
        });
        if transfer.id == transfer.job && open.part == Part::Start {
            job.offered_at_ns = open.offered_at_ns;
        }
        job.transfers_left -= 1;
        job.good &= good;
        job.bytes += transfer.bytes;
        job.finished_at_ns = job.finished_at_ns.max(end_ns);
        if job.transfers_left > 0 {
            return;
        }
        if let Some(job) = self.jobs.remove(&transfer.job)
            && let Some(offered_at_ns) = job.offered_at_ns
        {
            if job.good {
                self.jobs_finished += 1;
                let fct_ns = job.finished_at_ns.saturating_sub(offered_at_ns);
                self.job_times.add(job.bytes, fct_ns);
            } else {
                self.jobs_failed += 1;
            }
        }
    }

    /// One JSON object: `docs/workloads.md`. Goodput counts from `epoch_ns`.
    pub fn summary(&self, link_rate_bps: f64, base_rtt_ns: u64, epoch_ns: u64) -> Value {
        let classes = |times: &Completions| times.classes(link_rate_bps, base_rtt_ns);
        let elapsed_ns = self.last_received_ns.saturating_sub(epoch_ns);
        let goodput_bps = match elapsed_ns {
            0 => None,
            _ => Some(self.content_bytes_here as f64 * 8e9 / elapsed_ns as f64),
        };
        let mut late_ns = self.late_ns.clone();
        json!({
            "started": self.started,
            "served": self.served,
            "received": self.received,
            "late": Spread::of(&mut late_ns).map(|spread| spread.to_json("_ns")),
            "fct": self.completions.spread().map(|spread| spread.to_json("_ns")),
            "classes": classes(&self.completions),
            "jobs": {
                "finished": self.jobs_finished,
                "failed": self.jobs_failed,
                "fct": self.job_times.spread().map(|spread| spread.to_json("_ns")),
                "classes": classes(&self.job_times),
            },
            "content_bytes_received": self.content_bytes_here,
            "goodput_bps": goodput_bps,
        })
    }
}

#[cfg(test)]
#[path = "results_tests.rs"]
mod tests;
