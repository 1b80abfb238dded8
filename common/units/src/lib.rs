//! Units shared by every core: time in picoseconds, rates in bit/s, sizes in bytes.
//!
//! The cores never read a clock. Time is an argument, an integer count of picoseconds since an
//! epoch that the caller chooses (process start, `CLOCK_MONOTONIC` zero, the start of a
//! simulation). Picoseconds, because one byte at 100 Gbit/s takes 80 ps: with nanoseconds the
//! serialisation time of a short frame would be rounded by a tenth.

pub mod buckets;

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

use serde::{Deserialize, Serialize};

const PS_PER_NS: u64 = 1_000;
const PS_PER_US: u64 = 1_000_000;
const PS_PER_MS: u64 = 1_000_000_000;
const PS_PER_S: u64 = 1_000_000_000_000;

/// A point in time: picoseconds since the caller's epoch. 64 bits reach 213 days.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Instant(u64);

/// A span of time in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Duration(u64);

/// A rate in bit/s. As the value of a configured limit, zero means that there is none.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BitRate(u64);

impl Instant {
    /// The instant at which the clock begins.
    pub const ZERO: Instant = Instant(0);
    /// Later than anything that happens.
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    /// The earliest of the times that are there. `None`: none is. For deadlines that are computed for every packet: it
    /// is faster than an iterator over them.
    #[inline]
    pub fn earliest<const N: usize>(times: [Option<Instant>; N]) -> Option<Instant> {
        let mut first = None;
        for time in times {
            first = match (first, time) {
                (Some(a), Some(b)) => Some(if b < a { b } else { a }),
                (one, None) | (None, one) => one,
            };
        }
        first
    }

    /// This many picoseconds after the beginning.
    pub const fn from_picos(ps: u64) -> Self {
        Instant(ps)
    }
    /// This many nanoseconds after the beginning.
    pub const fn from_nanos(ns: u64) -> Self {
        Instant(ns * PS_PER_NS)
    }
    /// This many microseconds after the beginning.
    pub const fn from_micros(us: u64) -> Self {
        Instant(us * PS_PER_US)
    }
    /// Picoseconds since the beginning.
    pub const fn as_picos(self) -> u64 {
        self.0
    }
    /// Whole nanoseconds, rounded down.
    pub const fn as_nanos(self) -> u64 {
        self.0 / PS_PER_NS
    }
    /// Whole microseconds, rounded down: what v1model's 48-bit timestamps carry.
    pub const fn as_micros(self) -> u64 {
        self.0 / PS_PER_US
    }
    /// The time since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// No time.
    pub const ZERO: Duration = Duration(0);
    /// Longest duration: 213 days.
    pub const MAX: Duration = Duration(u64::MAX);

    /// A duration in picoseconds.
    pub const fn from_picos(ps: u64) -> Self {
        Duration(ps)
    }
    /// A duration in nanoseconds.
    pub const fn from_nanos(ns: u64) -> Self {
        Duration(ns * PS_PER_NS)
    }
    /// A duration in microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Duration(us * PS_PER_US)
    }
    /// A duration in milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Duration(ms * PS_PER_MS)
    }
    /// A duration in seconds.
    pub const fn from_secs(s: u64) -> Self {
        Duration(s * PS_PER_S)
    }
    /// From seconds as a float, rounded to the nearest picosecond. Negative becomes zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Duration((s * PS_PER_S as f64).round().max(0.0) as u64)
    }
    /// Picoseconds.
    pub const fn as_picos(self) -> u64 {
        self.0
    }
    /// Whole nanoseconds, rounded down.
    pub const fn as_nanos(self) -> u64 {
        self.0 / PS_PER_NS
    }
    /// Whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / PS_PER_US
    }
    /// Seconds with their fraction.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }
    /// Whether it is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// The difference, or zero if `other` is longer.
    pub const fn saturating_sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
    /// `self * numerator / denominator` in 128-bit arithmetic, rounded down.
    pub const fn mul_div(self, numerator: u64, denominator: u64) -> Duration {
        Duration((self.0 as u128 * numerator as u128 / denominator as u128) as u64)
    }
}

impl BitRate {
    /// A rate in bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        BitRate(bps)
    }
    /// A rate in megabits per second.
    pub const fn from_mbps(mbps: u64) -> Self {
        BitRate(mbps * 1_000_000)
    }
    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// Whether it is zero: no limit, as the value of a configured limit.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// Time that `bytes` take on the wire at this rate, rounded up to the picosecond.
    /// A zero rate means an infinitely fast wire.
    pub const fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::ZERO;
        }
        // 64 bits suffice up to 2.3 MB, so for every frame; a division of 128 bits is several times slower.
        match bytes.checked_mul(8 * PS_PER_S) {
            Some(bit_picos) => Duration(bit_picos.div_ceil(self.0)),
            None => {
                Duration((bytes as u128 * 8 * PS_PER_S as u128).div_ceil(self.0 as u128) as u64)
            }
        }
    }
    /// Number of whole bytes that pass in `time` at this rate.
    pub const fn bytes_in(self, time: Duration) -> u64 {
        (time.0 as u128 * self.0 as u128 / (8 * PS_PER_S as u128)) as u64
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    /// Saturates at [`Instant::FAR_FUTURE`].
    fn add(self, d: Duration) -> Instant {
        Instant(self.0.saturating_add(d.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, d: Duration) -> Instant {
        Instant(self.0.saturating_sub(d.0))
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, d: Duration) -> Duration {
        Duration(self.0.saturating_add(d.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub for Duration {
    type Output = Duration;
    fn sub(self, d: Duration) -> Duration {
        Duration(self.0.saturating_sub(d.0))
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, d: Duration) {
        *self = *self - d;
    }
}

impl Mul<u64> for Duration {
    type Output = Duration;
    fn mul(self, n: u64) -> Duration {
        Duration(self.0.saturating_mul(n))
    }
}

impl Sum for Duration {
    fn sum<I: Iterator<Item = Duration>>(iter: I) -> Duration {
        iter.fold(Duration::ZERO, Add::add)
    }
}

impl From<std::time::Duration> for Duration {
    fn from(d: std::time::Duration) -> Self {
        Duration((d.as_nanos() * u128::from(PS_PER_NS)).min(u128::from(u64::MAX)) as u64)
    }
}

impl From<Duration> for std::time::Duration {
    /// Rounds up to the nanosecond, so that a sleep never ends before the deadline.
    fn from(d: Duration) -> Self {
        std::time::Duration::from_nanos(d.0.div_ceil(PS_PER_NS))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t={}", Duration(self.0))
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ps = self.0;
        match ps {
            0..PS_PER_NS => write!(f, "{ps}ps"),
            PS_PER_NS..PS_PER_US => write!(f, "{}ns", ps as f64 / PS_PER_NS as f64),
            PS_PER_US..PS_PER_MS => write!(f, "{}us", ps as f64 / PS_PER_US as f64),
            PS_PER_MS..PS_PER_S => write!(f, "{}ms", ps as f64 / PS_PER_MS as f64),
            _ => write!(f, "{}s", ps as f64 / PS_PER_S as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_frame_at_1_gbps_takes_12_us() {
        assert_eq!(
            BitRate::from_mbps(1000).time_for(1500),
            Duration::from_micros(12)
        );
    }

    #[test]
    fn a_byte_at_100_gbps_is_not_rounded() {
        assert_eq!(BitRate::from_mbps(100_000).time_for(1).as_picos(), 80);
    }

    #[test]
    fn serialisation_time_is_rounded_up() {
        assert_eq!(
            BitRate::from_bps(3).time_for(1).as_picos(),
            2_666_666_666_667
        );
    }

    #[test]
    fn bytes_in_is_the_inverse_of_time_for() {
        let rate = BitRate::from_bps(20_000_000);
        for bytes in [0, 1, 64, 1500, 9000] {
            assert_eq!(rate.bytes_in(rate.time_for(bytes)), bytes);
        }
    }

    #[test]
    fn sleeps_are_never_too_short() {
        let d: std::time::Duration = Duration::from_picos(1).into();
        assert_eq!(d.as_nanos(), 1);
    }

    #[test]
    fn the_earliest_of_times_that_may_be_none() {
        let at = |ns| Some(Instant::from_nanos(ns));
        assert_eq!(Instant::earliest([]), None);
        assert_eq!(Instant::earliest([None, None]), None);
        assert_eq!(Instant::earliest([None, at(7), None]), at(7));
        assert_eq!(Instant::earliest([at(3), None, at(2), at(4)]), at(2));
    }

    #[test]
    fn time_saturates_instead_of_wrapping() {
        assert_eq!(
            Instant::FAR_FUTURE + Duration::from_secs(1),
            Instant::FAR_FUTURE
        );
        assert_eq!(Instant::ZERO.since(Instant::from_nanos(5)), Duration::ZERO);
    }
}
