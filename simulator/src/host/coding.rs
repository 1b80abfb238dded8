//! The work that a transport gives away: done at once, and its result is there when a processor of
//! the given speed would have it.

use std::collections::VecDeque;

use ebb_transport::{Job, JobResult};
use ebb_units::{BitRate, Instant};

/// One processor, which takes one job after the other.
pub struct Coding {
    /// 0: it needs no time.
    rate: BitRate,
    free_at: Instant,
    done: VecDeque<(Instant, JobResult)>,
}

impl Coding {
    pub fn new(rate: BitRate) -> Self {
        Coding {
            rate,
            free_at: Instant::ZERO,
            done: VecDeque::new(),
        }
    }

    pub fn start(&mut self, now: Instant, job: Job) {
        let time = self.rate.time_for(job.bytes() as u64);
        self.free_at = self.free_at.max(now) + time;
        let mut result = job.run();
        // Not what it took here: that is another machine's, and another one every time.
        result.cpu_time = time;
        self.done.push_back((self.free_at, result));
    }

    /// The next result that is there by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<JobResult> {
        if self.done.front()?.0 > now {
            return None;
        }
        self.done.pop_front().map(|(_, result)| result)
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.done.front().map(|(at, _)| *at)
    }
}
