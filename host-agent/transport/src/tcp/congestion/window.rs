//! Slow start and congestion avoidance (RFC 5681 3.1).

use super::super::params::TcpParams;

/// The congestion window and the slow-start threshold, in bytes.
#[derive(Clone, Debug)]
pub struct Window {
    size: u64,
    slow_start_threshold: u64,
    /// Bytes acknowledged in congestion avoidance that have not yet enlarged the window.
    credit: u64,
    mss: u64,
    min: u64,
    max: u64,
}

impl Window {
    pub fn new(params: &TcpParams, mss_bytes: u64) -> Self {
        let max = u64::from(params.max_window_packets) * mss_bytes;
        Window {
            size: u64::from(params.initial_window_packets) * mss_bytes,
            // RFC 5681 3.1: the initial threshold is arbitrarily high.
            slow_start_threshold: max,
            credit: 0,
            mss: mss_bytes,
            min: u64::from(params.min_window_packets) * mss_bytes,
            max,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.size
    }

    pub fn slow_start_threshold_bytes(&self) -> u64 {
        self.slow_start_threshold
    }

    pub fn in_slow_start(&self) -> bool {
        self.size < self.slow_start_threshold
    }

    /// Grows for `acked` newly acknowledged bytes. Bytes are counted rather than ACKs (RFC 3465,
    /// L = 2 segments), so that delayed ACKs do not slow the growth.
    pub fn grow(&mut self, acked: u64) {
        if self.in_slow_start() {
            self.size += acked.min(2 * self.mss);
        } else {
            self.credit += acked;
            if self.credit >= self.size {
                self.credit -= self.size;
                self.size += self.mss;
            }
        }
        self.size = self.size.min(self.max);
    }

    /// Continues in congestion avoidance from `bytes`, or from the smallest window allowed.
    pub fn reduce_to(&mut self, bytes: u64) {
        self.slow_start_threshold = bytes.max(self.min);
        self.size = self.slow_start_threshold;
        self.credit = 0;
    }

    /// RFC 5681 equation (4): half of what is in flight.
    pub fn halve(&mut self, flight_bytes: u64) {
        self.reduce_to(flight_bytes / 2);
    }

    /// RFC 5681 3.1: the loss window is one segment.
    pub fn collapse(&mut self, flight_bytes: u64, first: bool) {
        if first {
            self.slow_start_threshold = (flight_bytes / 2).max(self.min);
        }
        self.size = self.mss;
        self.credit = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn window() -> Window {
        Window::new(&TcpParams::default(), MSS)
    }

    #[test]
    fn slow_start_doubles_per_window_even_with_delayed_acks() {
        let mut w = window();
        for _ in 0..5 {
            w.grow(2 * MSS);
        }
        assert_eq!(w.bytes(), 20 * MSS);
    }

    #[test]
    fn congestion_avoidance_adds_one_segment_per_window() {
        let mut w = window();
        w.reduce_to(10 * MSS);
        for _ in 0..5 {
            w.grow(2 * MSS);
        }
        assert_eq!(w.bytes(), 11 * MSS);
        for _ in 0..5 {
            w.grow(2 * MSS);
        }
        assert_eq!(w.bytes(), 11 * MSS);
        w.grow(MSS);
        assert_eq!(w.bytes(), 12 * MSS);
    }

    #[test]
    fn reductions_stop_at_the_minimum_and_growth_at_the_maximum() {
        let mut w = window();
        w.halve(3 * MSS);
        assert_eq!(w.bytes(), 2 * MSS);
        w.collapse(100 * MSS, true);
        assert_eq!((w.bytes(), w.slow_start_threshold_bytes()), (MSS, 50 * MSS));
        w.collapse(MSS, false);
        assert_eq!(w.slow_start_threshold_bytes(), 50 * MSS);
        let mut w = window();
        for _ in 0..10_000 {
            w.grow(2 * MSS);
        }
        assert_eq!(w.bytes(), 1256 * MSS);
    }
}
