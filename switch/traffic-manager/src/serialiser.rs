//! The serialiser of a port: one frame at a time at the rate of the link, and only as many as the
//! link accepts.

use ebb_units::{BitRate, Duration, Instant};

use crate::config::Profile;

/// The time during which one frame occupies the serialiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// When the first bit leaves.
    pub start: Instant,
    /// When the last bit has left.
    pub end: Instant,
    /// When the last bit arrives at the other end of the link.
    pub arrival: Instant,
}

/// The serialiser and the link behind it.
#[derive(Debug, Default)]
pub(crate) struct Serialiser {
    /// End of the last transmission.
    free_at: Instant,
    /// Frames that the link still accepts; `None` means no limit.
    credit: Option<u64>,
    /// Rate of the profile; zero means no limit.
    rate: BitRate,
    /// Rate of the link behind the port where that is lower; `None` if it is not.
    rate_limit: Option<BitRate>,
    /// Bytes that each frame costs on the wire beyond its own.
    overhead: u64,
    /// Propagation delay.
    delay: Duration,
    /// Sum of the transmission times since the statistics began.
    busy: Duration,
}

impl Serialiser {
    /// Takes over a profile, from the next frame on.
    pub(crate) fn configure(&mut self, profile: &Profile) {
        self.rate = profile.rate_bps;
        self.delay = Duration::from_nanos(profile.delay_ns);
        self.overhead = profile.frame_overhead_bytes;
    }

    /// See [`TrafficManager::limit_rate`](crate::TrafficManager::limit_rate).
    pub(crate) fn limit_rate(&mut self, limit: Option<BitRate>) {
        self.rate_limit = limit;
    }

    /// See [`TrafficManager::set_credit`](crate::TrafficManager::set_credit).
    pub(crate) fn set_credit(&mut self, now: Instant, credit: Option<u64>) {
        if self.credit == Some(0) && credit != Some(0) {
            // Without credit the link was not free until now.
            self.free_at = self.free_at.max(now);
        }
        self.credit = credit;
    }

    /// The lower of the rates of profile and link; zero means no limit.
    #[inline]
    pub(crate) fn rate(&self) -> BitRate {
        match self.rate_limit {
            Some(limit) if self.rate.is_zero() || limit < self.rate => limit,
            _ => self.rate,
        }
    }

    /// Bytes that a frame of `len` bytes takes on the wire.
    #[inline]
    pub(crate) fn wire_bytes(&self, len: u64) -> u64 {
        len + self.overhead
    }

    /// Propagation delay.
    pub(crate) fn delay(&self) -> Duration {
        self.delay
    }

    /// Sum of the transmission times since the statistics began.
    pub(crate) fn busy(&self) -> Duration {
        self.busy
    }

    /// Sets the statistics to zero.
    pub(crate) fn reset_statistics(&mut self) {
        self.busy = Duration::ZERO;
    }

    /// Whether the link accepts a frame.
    #[inline]
    pub(crate) fn has_credit(&self) -> bool {
        self.credit != Some(0)
    }

    /// Whether a frame that is there at this time leaves at once.
    #[inline]
    pub(crate) fn is_free(&self, now: Instant) -> bool {
        self.free_at <= now && self.has_credit()
    }

    /// The earliest start of a frame that is there from `ready` on, if the link accepts it.
    #[inline]
    pub(crate) fn start_of(&self, ready: Instant) -> Instant {
        ready.max(self.free_at)
    }

    /// Sends a frame of `len` bytes, from `start` or when the link is free.
    #[inline]
    pub(crate) fn send(&mut self, start: Instant, len: u64) -> Transmission {
        let start = self.start_of(start);
        let time = self.rate().time_for(self.wire_bytes(len));
        self.free_at = start + time;
        self.credit = self.credit.map(|frames| frames.saturating_sub(1));
        self.busy += time;
        Transmission {
            start,
            end: self.free_at,
            arrival: self.free_at + self.delay,
        }
    }
}
