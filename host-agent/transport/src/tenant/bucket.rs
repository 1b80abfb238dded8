//! A token bucket that is computed instead of drained.

use ebb_units::{BitRate, Instant};

/// Units of the tokens: at 1 bit/s, one of them comes per picosecond, so that no rate is rounded.
const UNITS_PER_BYTE: u128 = 8_000_000_000_000;

/// A token bucket. Its times never go back.
#[derive(Clone, Copy, Debug)]
pub struct VirtualBucket {
    /// Refill. Zero: none.
    rate: BitRate,
    /// Units.
    depth: u128,
    /// Units that the bucket lacks at `at`. More than `depth`: debt, after a packet that is larger
    /// than the bucket.
    missing: u128,
    at: Instant,
}

impl VirtualBucket {
    /// A full bucket of `depth_bytes`.
    pub fn full(rate: BitRate, depth_bytes: u64) -> Self {
        VirtualBucket {
            rate,
            depth: u128::from(depth_bytes) * UNITS_PER_BYTE,
            missing: 0,
            at: Instant::ZERO,
        }
    }

    /// Rate at which the bucket fills.
    pub fn rate(&self) -> BitRate {
        self.rate
    }

    /// No tokens are missing at `now`.
    pub fn is_full(&self, now: Instant) -> bool {
        self.missing_at(now) == 0
    }

    /// The first time, `now` or later, at which a packet of `bytes` conforms; one that is larger
    /// than the bucket does when the bucket is full. [`Instant::FAR_FUTURE`]: never at this rate.
    pub fn conforms_at(&self, now: Instant, bytes: u64) -> Instant {
        let now = now.max(self.at);
        let wanted = (u128::from(bytes) * UNITS_PER_BYTE).min(self.depth);
        let short = (self.missing_at(now) + wanted).saturating_sub(self.depth);
        if short == 0 {
            return now;
        }
        if self.rate.is_zero() {
            return Instant::FAR_FUTURE;
        }
        let wait = short.div_ceil(u128::from(self.rate.as_bps()));
        let at = u128::from(now.as_picos()) + wait;
        u64::try_from(at).map_or(Instant::FAR_FUTURE, Instant::from_picos)
    }

    /// A packet of `bytes` leaves at `at`.
    pub fn take(&mut self, at: Instant, bytes: u64) {
        self.advance(at);
        self.missing += u128::from(bytes) * UNITS_PER_BYTE;
    }

    /// Refills at `rate` from `now` on.
    pub fn set_rate(&mut self, now: Instant, rate: BitRate) {
        self.advance(now);
        self.rate = rate;
    }

    fn advance(&mut self, to: Instant) {
        self.missing = self.missing_at(to);
        self.at = self.at.max(to);
    }

    fn missing_at(&self, at: Instant) -> u128 {
        let refilled = u128::from(at.since(self.at).as_picos()) * u128::from(self.rate.as_bps());
        self.missing.saturating_sub(refilled)
    }
}

#[cfg(test)]
mod tests {
    use ebb_units::Duration;
    use proptest::prelude::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn a_bucket_gives_its_depth_at_once_and_then_its_rate() {
        let mut bucket = VirtualBucket::full(BitRate::from_mbps(1_000), 3_000);
        let now = Instant::from_micros(5);
        for _ in 0..2 {
            assert_eq!(bucket.conforms_at(now, 1_500), now);
            bucket.take(now, 1_500);
        }
        let next = bucket.conforms_at(now, 1_500);
        assert_eq!(next.since(now), Duration::from_micros(12));
    }

    #[test]
    fn a_packet_larger_than_the_bucket_waits_until_it_is_full_and_leaves_a_debt() {
        let mut bucket = VirtualBucket::full(BitRate::from_mbps(8), 1_000);
        assert_eq!(bucket.conforms_at(Instant::ZERO, 2_500), Instant::ZERO);
        bucket.take(Instant::ZERO, 2_500);
        // 8 Mbit/s are a byte per microsecond.
        let full = bucket.conforms_at(Instant::ZERO, 2_500);
        assert_eq!(full, Instant::from_micros(2_500));
        assert_eq!(
            bucket.conforms_at(Instant::ZERO, 1),
            Instant::from_micros(1_501)
        );
    }

    #[test]
    fn without_a_rate_only_what_is_there_leaves() {
        let mut bucket = VirtualBucket::full(BitRate::from_bps(0), 1_500);
        bucket.take(Instant::ZERO, 1_000);
        let late = Instant::from_micros(1_000_000);
        assert_eq!(bucket.conforms_at(late, 500), late);
        assert_eq!(bucket.conforms_at(late, 501), Instant::FAR_FUTURE);
        bucket.set_rate(late, BitRate::from_mbps(8));
        assert_eq!(
            bucket.conforms_at(late, 501),
            late + Duration::from_micros(1)
        );
    }

    /// P(W <= t) of an M/D/1 queue with unit service time (Erlang's formula): the waiting time of
    /// a message is what the bucket lacks when it arrives.
    fn waits_at_most(load: f64, t: f64) -> f64 {
        let mut factorial = 1.0;
        let mut sum = 0.0;
        for k in 0..=t.floor() as i32 {
            factorial *= f64::from(k.max(1));
            let x = load * (f64::from(k) - t);
            sum += x.powi(k) / factorial * (-x).exp();
        }
        (1.0 - load) * sum
    }

    /// Thesis, table 5.1: messages of M bytes arrive as a Poisson process of average rate B at a
    /// bucket of b messages with rate r B, and those late for which the bucket has too few tokens.
    #[test]
    fn late_messages_are_those_of_an_m_d_1_queue() {
        const MESSAGE_BYTES: u64 = 1_500;
        const MESSAGES: u32 = 400_000;
        let service = Duration::from_micros(12);
        for burst in [1_u64, 3, 5, 7, 9] {
            for tenths in [14_u64, 18, 22, 26, 30] {
                let mut random = SmallRng::seed_from_u64(burst * 100 + tenths);
                let load = 10.0 / tenths as f64;
                let mut bucket =
                    VirtualBucket::full(BitRate::from_mbps(1_000), burst * MESSAGE_BYTES);
                let mut now = Instant::ZERO;
                let mut late = 0_u32;
                for _ in 0..MESSAGES {
                    let gap = -(1.0 - random.random::<f64>()).ln() / load;
                    now += Duration::from_secs_f64(gap * service.as_secs_f64());
                    let leaves = bucket.conforms_at(now, MESSAGE_BYTES);
                    late += u32::from(leaves > now);
                    bucket.take(leaves, MESSAGE_BYTES);
                }
                let share = f64::from(late) / f64::from(MESSAGES);
                let expected = 1.0 - waits_at_most(load, (burst - 1) as f64);
                // Four standard deviations of independent arrivals, times 8 for their correlation.
                let allowed = 4.0 * (8.0 * expected / f64::from(MESSAGES)).sqrt() + 1e-4;
                assert!(
                    (share - expected).abs() < allowed,
                    "burst {burst}, {tenths}/10 B: {share} late, {expected} expected"
                );
            }
        }
    }

    proptest! {
        /// Over every span between two departures, no more than depth + rate * time leaves.
        #[test]
        fn what_leaves_keeps_to_the_arrival_curve(
            rate_bps in 1_000_000_u64..100_000_000_000,
            depth in 1_538_u64..100_000,
            packets in prop::collection::vec((84_u64..=1_538, 0_u64..2_000_000), 1..60),
        ) {
            let mut bucket = VirtualBucket::full(BitRate::from_bps(rate_bps), depth);
            let mut now = Instant::ZERO;
            let mut sent: Vec<(Instant, u64)> = Vec::new();
            for (bytes, pause_ps) in packets {
                now = bucket.conforms_at(now + Duration::from_picos(pause_ps), bytes);
                bucket.take(now, bytes);
                sent.push((now, bytes));
            }
            for first in 0..sent.len() {
                let mut total = 0_u128;
                for (at, bytes) in &sent[first..] {
                    total += u128::from(*bytes);
                    let span = u128::from(at.since(sent[first].0).as_picos());
                    let curve = u128::from(depth) * UNITS_PER_BYTE + span * u128::from(rate_bps);
                    prop_assert!(total * UNITS_PER_BYTE <= curve);
                }
            }
        }
    }
}
