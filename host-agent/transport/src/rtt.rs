//! Round-trip time and retransmission timeout (RFC 6298).

use ebb_units::Duration;

/// SRTT, RTTVAR, and the RTO with its backoff.
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    /// SRTT. None: nothing has been measured.
    smoothed: Option<Duration>,
    minimum: Option<Duration>,
    /// RTTVAR.
    variation: Duration,
    /// The RTO without backoff; `max_rto` bounds it where it is read ([`Self::doubled`]).
    rto: Duration,
    /// How often the timer has expired since the last measurement.
    backoffs: u32,
    min_rto: Duration,
    max_rto: Duration,
}

impl RttEstimator {
    /// The timeout before anything has been measured, and its bounds.
    pub(crate) fn new(initial: Duration, shortest: Duration, longest: Duration) -> Self {
        RttEstimator {
            smoothed: None,
            minimum: None,
            variation: Duration::ZERO,
            rto: initial,
            backoffs: 0,
            min_rto: shortest,
            max_rto: longest,
        }
    }

    /// Takes a measurement R'. The caller keeps Karn's rule: never of a retransmitted segment.
    pub(crate) fn sample(&mut self, rtt: Duration) {
        let (smoothed, variation) = match self.smoothed {
            // RFC 6298 (2.2)
            None => (rtt, rtt.mul_div(1, 2)),
            // RFC 6298 (2.3): beta = 1/4, alpha = 1/8; RTTVAR uses the old SRTT.
            Some(old) => {
                let error = old.saturating_sub(rtt) + rtt.saturating_sub(old);
                (
                    old.mul_div(7, 8) + rtt.mul_div(1, 8),
                    self.variation.mul_div(3, 4) + error.mul_div(1, 4),
                )
            }
        };
        self.smoothed = Some(smoothed);
        self.minimum = Some(self.minimum.map_or(rtt, |minimum| minimum.min(rtt)));
        self.variation = variation;
        // The clock granularity G of RFC 6298 is a picosecond here.
        self.rto = (smoothed + variation * 4).max(self.min_rto);
        self.backoffs = 0;
    }

    /// RFC 6298 (5.5): doubles the timeout; a new measurement undoes it.
    pub(crate) fn back_off(&mut self) {
        self.backoffs += 1;
    }

    pub(crate) fn rto(&self) -> Duration {
        self.doubled(self.backoffs)
    }

    /// The timeout without the backoff of retransmissions, doubled `times` times: what the persist
    /// timer takes (RFC 9293 3.8.6.1).
    pub(crate) fn doubled(&self, times: u32) -> Duration {
        (self.rto * (1 << times.min(32))).min(self.max_rto)
    }

    /// The shortest round trip that has been measured.
    pub(crate) fn minimum(&self) -> Option<Duration> {
        self.minimum
    }

    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimator() -> RttEstimator {
        let ms = Duration::from_millis;
        RttEstimator::new(ms(10), ms(10), ms(160))
    }

    #[test]
    fn follows_the_equations_of_rfc_6298() {
        let mut rtt = RttEstimator {
            min_rto: Duration::from_micros(1),
            ..estimator()
        };
        assert_eq!(rtt.rto(), Duration::from_millis(10));
        rtt.sample(Duration::from_micros(800));
        // SRTT = R, RTTVAR = R/2, RTO = R + 4 * R/2
        assert_eq!(rtt.rto(), Duration::from_micros(2400));
        rtt.sample(Duration::from_micros(1600));
        // RTTVAR = 3/4*400 + 1/4*800 = 500, SRTT = 7/8*800 + 1/8*1600 = 900
        assert_eq!(rtt.smoothed(), Some(Duration::from_micros(900)));
        assert_eq!(rtt.rto(), Duration::from_micros(2900));
    }

    #[test]
    fn never_below_the_minimum() {
        let mut rtt = estimator();
        rtt.sample(Duration::from_micros(50));
        assert_eq!(rtt.rto(), Duration::from_millis(10));
    }

    #[test]
    fn backs_off_to_the_maximum_until_the_next_sample() {
        let mut rtt = estimator();
        let mut seen = Vec::new();
        for _ in 0..6 {
            seen.push(rtt.rto().as_micros() / 1000);
            rtt.back_off();
        }
        assert_eq!(seen, [10, 20, 40, 80, 160, 160]);
        for _ in 0..100 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), Duration::from_millis(160));
        rtt.sample(Duration::from_micros(50));
        assert_eq!(rtt.rto(), Duration::from_millis(10));
    }
}
