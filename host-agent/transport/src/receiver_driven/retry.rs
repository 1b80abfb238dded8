//! The backstop for what trimming cannot save: lost headers, lost pulls, a peer that vanished.

use ebb_units::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub struct RetryParams {
    pub rto: Duration,
    pub max_rto: Duration,
    /// Timeouts after which no more than a sign of life is asked for.
    pub max_retries: u32,
    /// A peer is not given up before it has been silent for so long: its processor may be busy.
    pub give_up: Duration,
}

impl RetryParams {
    /// How long a silent peer is waited for in all.
    pub fn patience(&self) -> Duration {
        self.retries_take().max(self.give_up)
    }

    /// The time of all timeouts in which something is tried again.
    pub fn retries_take(&self) -> Duration {
        let rising = self.max_retries.min(32);
        let risen: Duration = (0..=rising).map(|n| self.interval_after(n)).sum();
        risen + self.max_rto * u64::from(self.max_retries - rising)
    }

    fn interval_after(&self, silent: u32) -> Duration {
        (self.rto * (1u64 << silent.min(32))).min(self.max_rto)
    }
}

/// Counts timeouts between signs of life of the peer; each waits twice as long as the last.
#[derive(Clone, Debug)]
pub struct Retry {
    params: RetryParams,
    /// Timeouts since the peer was last heard.
    silent: u32,
    last_heard: Instant,
    last_timeout: Instant,
}

impl Retry {
    pub fn new(now: Instant, params: RetryParams) -> Self {
        Retry {
            params,
            silent: 0,
            last_heard: now,
            last_timeout: now,
        }
    }

    /// A counter with the same parameters for another session, which begins now.
    pub fn restarted(&self, now: Instant) -> Self {
        Retry::new(now, self.params)
    }

    pub fn heard(&mut self, now: Instant) {
        self.silent = 0;
        self.last_heard = now;
    }

    /// Timeouts since the peer was last heard.
    pub fn silent(&self) -> u32 {
        self.silent
    }

    pub fn last_heard(&self) -> Instant {
        self.last_heard
    }

    pub fn max_retries(&self) -> u32 {
        self.params.max_retries
    }

    /// How long to wait now.
    pub fn interval(&self) -> Duration {
        self.params.interval_after(self.silent)
    }

    /// The longest of all intervals.
    pub fn longest_interval(&self) -> Duration {
        self.params.max_rto
    }

    /// The deadline of something that has waited since `since`. After a first timeout the backed
    /// off interval counts from the last one.
    pub fn deadline(&self, since: Instant) -> Instant {
        let since = if self.silent == 0 {
            since
        } else {
            since.max(self.last_timeout)
        };
        since + self.interval()
    }

    /// When a peer that has had to say something since `since` has been silent for as long as all
    /// retries take. For sessions that have nothing to retry.
    pub fn give_up_at(&self, since: Instant) -> Instant {
        self.last_heard.max(since) + self.params.patience()
    }

    /// Notes that a deadline has passed, and returns whether to try again; false: the peer is given
    /// up.
    pub fn expired(&mut self, now: Instant) -> bool {
        self.silent += 1;
        self.last_timeout = now;
        self.silent <= self.params.max_retries || now < self.last_heard + self.params.give_up
    }

    /// Whether all retries have been in vain. What can still come then is what the peer has not got
    /// round to.
    pub fn is_exhausted(&self) -> bool {
        self.silent > self.params.max_retries
    }

    /// How many packets ask a silent peer for a sign of life now: with each timeout one more, on
    /// another path. After all retries one, or, so that forged packets earn no more than the
    /// documented number, none if it never showed that it gets ours.
    pub fn copies(&self, most: u32, verified: bool) -> u32 {
        match self.is_exhausted() {
            true => u32::from(verified),
            false => self.silent.min(most),
        }
    }

    /// For the record of a flow that has failed.
    pub fn gave_up_reason(&self, now: Instant) -> String {
        format!(
            "the peer is silent: nothing heard for {} and {} timeouts",
            now.since(self.last_heard),
            self.silent
        )
    }
}
