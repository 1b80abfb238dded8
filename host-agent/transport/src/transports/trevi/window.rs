//! How many requests a receiver has pending with one sender. The texts ask for less when round trips
//! grow and when more is lost (thesis, section 4.4.4), and give no law; this one is LEDBAT's (RFC 6817,
//! section 2.4), in packets, with the slow start of LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus, 4.4).

use ebb_units::{Duration, Instant};

use super::params::TreviParams;

#[derive(Debug)]
pub struct Window {
    size: f64,
    most: f64,
    gain: f64,
    /// Queueing to aim at, as a share of the base round trip, and at least.
    target_share: f64,
    least_target: Duration,
    /// Share of requests without answer above which the window is halved.
    loss_threshold: f64,
    base: BaseRtt,
    is_slow_start: bool,
    /// Requests answered and expired since the last look at losses.
    answered: u32,
    lost: u32,
}

impl Window {
    pub fn new(params: &TreviParams) -> Self {
        Window {
            size: f64::from(params.request_window_packets),
            most: f64::from(params.max_request_window_packets),
            gain: params.gain,
            target_share: params.target_queueing,
            least_target: Duration::from_nanos(params.min_target_queueing_ns),
            loss_threshold: params.loss_threshold,
            base: BaseRtt::new(Duration::from_nanos(params.base_rtt_period_ns)),
            is_slow_start: true,
            answered: 0,
            lost: 0,
        }
    }

    /// Requests that may be pending.
    pub fn requests(&self) -> usize {
        self.size as usize
    }

    /// An answer came in time.
    pub fn answered(&mut self, now: Instant, rtt: Duration) {
        let base = self.base.update(now, rtt).as_nanos() as f64;
        let target = (base * self.target_share).max(self.least_target.as_nanos() as f64);
        let queueing = rtt.as_nanos() as f64 - base;
        self.is_slow_start &= queueing < 0.75 * target;
        if self.is_slow_start {
            self.size += 1.0;
        } else {
            let off_target = ((target - queueing) / target).max(-1.0);
            self.size += self.gain * off_target / self.size;
        }
        self.size = self.size.clamp(1.0, self.most);
        self.answered += 1;
        self.look_at_losses();
    }

    /// Requests have expired.
    pub fn expired(&mut self, requests: u32) {
        self.lost += requests;
        self.look_at_losses();
    }

    /// One of those was only late.
    pub fn was_late(&mut self) {
        self.lost = self.lost.saturating_sub(1);
        self.answered += 1;
    }

    /// Once a window: halves it if too many were lost.
    fn look_at_losses(&mut self) {
        let all = self.answered + self.lost;
        if f64::from(all) < self.size {
            return;
        }
        if f64::from(self.lost) > self.loss_threshold * f64::from(all) {
            self.is_slow_start = false;
            self.size = (self.size / 2.0).max(1.0);
        }
        (self.answered, self.lost) = (0, 0);
    }
}

/// The least round trip of the last one to two periods.
#[derive(Debug)]
struct BaseRtt {
    period: Duration,
    until: Option<Instant>,
    last: Duration,
    this: Duration,
}

impl BaseRtt {
    fn new(period: Duration) -> Self {
        BaseRtt {
            period,
            until: None,
            last: Duration::MAX,
            this: Duration::MAX,
        }
    }

    fn update(&mut self, now: Instant, rtt: Duration) -> Duration {
        if self.until.is_none_or(|until| until <= now) {
            self.until = Some(now + self.period);
            (self.last, self.this) = (self.this, Duration::MAX);
        }
        self.this = self.this.min(rtt);
        self.this.min(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_micros(us)
    }

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// Base round trip 100 us: the target is 50.
    fn window() -> Window {
        let mut window = Window::new(&TreviParams {
            request_window_packets: 10,
            max_request_window_packets: 100,
            min_target_queueing_ns: 24_000,
            ..TreviParams::default()
        });
        window.answered(at(0), us(100));
        window
    }

    fn after_slow_start() -> Window {
        let mut window = window();
        window.answered(at(1), us(138));
        window
    }

    #[test]
    fn slow_start_doubles_in_a_round_trip_until_queues_build() {
        let mut window = window();
        for _ in 0..9 {
            window.answered(at(1), us(110));
        }
        assert_eq!(window.requests(), 20);
        window.answered(at(1), us(138));
        let size = window.size;
        window.answered(at(1), us(100));
        assert!(window.size - size < 0.06, "{}", window.size - size);
    }

    #[test]
    fn a_window_of_answers_at_the_base_adds_a_packet_and_at_the_target_none() {
        let mut window = after_slow_start();
        let size = window.size;
        for _ in 0..window.requests() {
            window.answered(at(1), us(100));
        }
        assert!(
            (window.size - size - 1.0).abs() < 0.15,
            "{}",
            window.size - size
        );
        let size = window.size;
        for _ in 0..50 {
            window.answered(at(1), us(150));
        }
        assert_eq!(window.size, size);
    }

    #[test]
    fn long_queues_take_a_packet_a_window_at_most_and_leave_one() {
        let mut window = after_slow_start();
        let size = window.size;
        for _ in 0..window.requests() {
            window.answered(at(1), us(100_000));
        }
        assert!((size - window.size - 1.0).abs() < 0.15);
        for _ in 0..1000 {
            window.answered(at(1), us(100_000));
        }
        assert_eq!(window.requests(), 1);
    }

    #[test]
    fn losses_above_the_threshold_halve_once_a_window() {
        let mut window = after_slow_start();
        window.size = 40.0;
        (window.answered, window.lost) = (0, 0);
        window.expired(2);
        for _ in 0..38 {
            window.answered(at(1), us(150));
        }
        assert_eq!(
            window.requests(),
            40,
            "two of forty are within the threshold"
        );
        window.expired(30);
        assert_eq!(window.requests(), 40);
        window.expired(10);
        assert_eq!(window.requests(), 20);
    }

    #[test]
    fn what_was_only_late_was_not_lost() {
        let mut window = after_slow_start();
        window.size = 40.0;
        (window.answered, window.lost) = (0, 0);
        window.expired(4);
        for _ in 0..3 {
            window.was_late();
        }
        for _ in 0..36 {
            window.answered(at(1), us(150));
        }
        assert_eq!(window.requests(), 40);
    }

    #[test]
    fn it_stays_within_its_bounds() {
        let mut window = window();
        for _ in 0..1000 {
            window.answered(at(1), us(100));
        }
        assert_eq!(window.requests(), 100);
    }

    /// A path that becomes longer is not taken for a queue for ever.
    #[test]
    fn the_base_is_forgotten_after_two_periods() {
        let mut base = BaseRtt::new(us(1000));
        assert_eq!(base.update(at(0), us(50)), us(50));
        assert_eq!(base.update(at(999), us(80)), us(50));
        assert_eq!(base.update(at(1000), us(80)), us(50));
        assert_eq!(base.update(at(2000), us(80)), us(80));
    }
}
