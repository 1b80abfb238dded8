//! The token bucket and the rate it runs at.

use ebb_units::{Duration, Instant};

use super::PacerParams;

/// Safety net of the look-ahead: a rate that starts at zero needs a few hundred updates at most to
/// release a packet with sensible parameters.
const MAX_LOOK_AHEAD: usize = 100_000;

/// Small and `Copy`, so that the future can be computed on a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// R, bytes per second.
    rate: f64,
    /// Bytes that may leave now. Negative after a packet larger than the bucket.
    tokens: f64,
    /// The state is that of this time.
    now: Instant,
    next_update: Instant,
    /// M_r so far.
    received_bytes: u64,
    period: Duration,
    eta: f64,
    beta: f64,
    depth: f64,
}

impl Bucket {
    pub(super) fn new(params: &PacerParams) -> Self {
        let period = Duration::from_nanos(params.update_period_ns);
        Bucket {
            rate: 0.0,
            tokens: f64::from(params.bucket_bytes),
            now: Instant::ZERO,
            next_update: Instant::ZERO + period,
            received_bytes: 0,
            period,
            eta: params.eta,
            beta: params.beta_hz,
            depth: f64::from(params.bucket_bytes),
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.now
    }

    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    pub(super) fn on_received(&mut self, bytes: usize) {
        self.received_bytes += bytes as u64;
    }

    /// Adds the tokens of the time until `to`, during which the rate does not change.
    fn fill(&mut self, to: Instant) {
        self.tokens = (self.tokens + self.rate * to.since(self.now).as_secs_f64()).min(self.depth);
        self.now = self.now.max(to);
    }

    /// HULL equation (4), at `next_update`.
    fn update(&mut self, backlog_bytes: u64) {
        self.fill(self.next_update);
        let measured = self.received_bytes as f64 / self.period.as_secs_f64();
        self.rate =
            (1.0 - self.eta) * self.rate + self.eta * measured + self.beta * backlog_bytes as f64;
        self.received_bytes = 0;
        self.next_update += self.period;
    }

    /// When the tokens suffice for `bytes` at the present rate; a packet larger than the bucket
    /// leaves when the bucket is full.
    fn ready_at(&self, bytes: usize) -> Instant {
        let missing = (bytes as f64).min(self.depth) - self.tokens;
        if missing <= 0.0 {
            self.now
        } else if self.rate > 0.0 {
            // Rounded up, so that the tokens are there when the time has come.
            self.now + Duration::from_secs_f64(missing / self.rate) + Duration::from_picos(1)
        } else {
            Instant::FAR_FUTURE
        }
    }

    /// Goes on to the departure of a head packet of `bytes`, with its update periods on the way:
    /// each recomputes the departure, so that a packet is not stuck behind a rate near zero.
    /// Returns false, at `limit`, if the packet does not leave by then.
    pub(super) fn advance_to_departure(
        &mut self,
        bytes: usize,
        backlog_bytes: u64,
        limit: Instant,
    ) -> bool {
        loop {
            let ready = self.ready_at(bytes);
            if ready.min(self.next_update) > limit {
                self.fill(limit);
                return false;
            }
            if ready <= self.next_update {
                self.fill(ready);
                self.tokens -= bytes as f64;
                return true;
            }
            self.update(backlog_bytes);
        }
    }

    /// When a head packet of `bytes` will leave if nothing else happens.
    pub(super) fn departure(mut self, bytes: usize, backlog_bytes: u64) -> Instant {
        for _ in 0..MAX_LOOK_AHEAD {
            let ready = self.ready_at(bytes);
            if ready <= self.next_update {
                return ready;
            }
            self.update(backlog_bytes);
        }
        self.now
    }

    /// Goes on to `now` without backlog. After the update that takes M_r, the rate only decays:
    /// R (1-eta)^n, and the tokens of those n periods are a geometric sum.
    pub(super) fn advance_idle(&mut self, now: Instant) {
        if self.next_update <= now {
            self.update(0);
        }
        let periods = now.since(self.now).as_picos() / self.period.as_picos();
        if self.next_update <= now && periods > 0 {
            let remaining = (1.0 - self.eta).powf(periods as f64);
            let seconds = self.period.as_secs_f64();
            // The rate of the period now running is in force first, then the decayed ones.
            let earned = self.rate * seconds * (1.0 - remaining) / self.eta;
            self.tokens = (self.tokens + earned).min(self.depth);
            self.rate *= remaining;
            let passed = self.period * periods;
            self.now += passed;
            self.next_update += passed;
        }
        self.fill(now);
    }
}
