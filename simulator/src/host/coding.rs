//! The coding work that a transport hands out. It is done at once, and its result is delivered when
//! a processor of the given speed would have it.

use std::collections::VecDeque;

use ebb_transport::{Job, JobResult, TransportKind};
use ebb_units::{BitRate, Instant};

/// A processor that takes one job after the other.
pub struct Coding {
    /// How fast it works in bits per second; 0 means that jobs take no time.
    rate: BitRate,
    /// When it will have done all jobs.
    free_at: Instant,
    /// Results that have not been delivered, when they are to be, and to which transport.
    done: VecDeque<(Instant, TransportKind, JobResult)>,
}

impl Coding {
    /// An idle processor of this speed.
    pub fn new(rate: BitRate) -> Self {
        Coding {
            rate,
            free_at: Instant::ZERO,
            done: VecDeque::new(),
        }
    }

    /// Takes a job of a transport.
    pub fn start(&mut self, now: Instant, transport: TransportKind, job: Job) {
        let time = self.rate.time_for(job.bytes() as u64);
        self.free_at = self.free_at.max(now) + time;
        let mut result = job.run();
        // The time that it took here does not count: it is another machine's, and differs every
        // time.
        result.cpu_time = time;
        self.done.push_back((self.free_at, transport, result));
    }

    /// The next result that is ready by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<(TransportKind, JobResult)> {
        if self.done.front()?.0 > now {
            return None;
        }
        let (_, transport, result) = self.done.pop_front()?;
        Some((transport, result))
    }

    /// When the next result is ready.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.done.front().map(|(at, ..)| *at)
    }
}
