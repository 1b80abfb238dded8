//! Slow start and congestion avoidance (RFC 5681 3.1).

use super::super::params::TcpParams;
use super::Acknowledgment;

/// The congestion window and the slow-start threshold, in bytes.
#[derive(Clone, Debug)]
pub struct Window {
    size: u64,
    slow_start_threshold: u64,
    /// Bytes acknowledged in congestion avoidance that have not yet enlarged the window.
    credit: u64,
    mss: u64,
    initial: u64,
    min: u64,
    max: u64,
    /// No second reduction for ECN before this is acknowledged: once per window (RFC 3168 6.1.2).
    reduced_until: u64,
}

impl Window {
    /// The initial window of a connection with this segment size.
    pub fn new(params: &TcpParams, mss_bytes: u64) -> Self {
        let max = u64::from(params.max_window_packets) * mss_bytes;
        let initial = u64::from(params.initial_window_packets) * mss_bytes;
        Window {
            size: initial,
            slow_start_threshold: (u64::from(params.initial_threshold_packets) * mss_bytes)
                .min(max),
            credit: 0,
            mss: mss_bytes,
            initial,
            min: u64::from(params.min_window_packets) * mss_bytes,
            max,
            reduced_until: 0,
        }
    }

    /// Whether an acknowledgment calls for a reduction: it echoes a mark, and the window has not been
    /// reduced since the marked packet left.
    pub fn must_reduce(&self, ack: &Acknowledgment) -> bool {
        ack.ece && !ack.in_recovery && ack.una > self.reduced_until
    }

    /// Notes a reduction; `next` is SND.NXT.
    pub fn note_reduction(&mut self, next: u64) {
        self.reduced_until = next;
    }

    /// Size of the window.
    pub fn bytes(&self) -> u64 {
        self.size
    }

    /// Slow-start threshold.
    pub fn slow_start_threshold_bytes(&self) -> u64 {
        self.slow_start_threshold
    }

    /// Whether the window is below the slow-start threshold.
    pub fn in_slow_start(&self) -> bool {
        self.size < self.slow_start_threshold
    }

    /// Grows for newly acknowledged bytes. Bytes are counted rather than ACKs (RFC 3465, L = 2
    /// segments, but 1 after a timeout), so that delayed ACKs do not slow the growth.
    pub fn grow(&mut self, ack: &Acknowledgment) {
        let acked = ack.acked_bytes;
        if self.in_slow_start() {
            let segments = if ack.after_timeout { 1 } else { 2 };
            self.size += acked.min(segments * self.mss);
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

    /// RFC 5681 4.1: after a pause the network is unknown again; no burst of an old window.
    pub fn restart(&mut self) {
        self.size = self.size.min(self.initial);
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
    fn after_a_timeout_slow_start_counts_one_segment_per_ack() {
        let mut w = window();
        w.collapse(20 * MSS, true);
        w.grow(&Acknowledgment {
            after_timeout: true,
            ..Acknowledgment::of(5 * MSS)
        });
        assert_eq!(w.bytes(), 2 * MSS);
        w.grow(&Acknowledgment::of(5 * MSS));
        assert_eq!(w.bytes(), 4 * MSS);
    }

    #[test]
    fn a_restart_begins_with_the_initial_window_and_keeps_the_threshold() {
        let mut w = window();
        w.reduce_to(50 * MSS);
        w.restart();
        assert_eq!(
            (w.bytes(), w.slow_start_threshold_bytes()),
            (10 * MSS, 50 * MSS)
        );
        w.collapse(MSS, false);
        w.restart();
        assert_eq!(w.bytes(), MSS, "never larger than it was");
    }

    #[test]
    fn slow_start_doubles_per_window_even_with_delayed_acks() {
        let mut w = window();
        for _ in 0..5 {
            w.grow(&Acknowledgment::of(2 * MSS));
        }
        assert_eq!(w.bytes(), 20 * MSS);
    }

    #[test]
    fn congestion_avoidance_adds_one_segment_per_window() {
        let mut w = window();
        w.reduce_to(10 * MSS);
        for _ in 0..5 {
            w.grow(&Acknowledgment::of(2 * MSS));
        }
        assert_eq!(w.bytes(), 11 * MSS);
        for _ in 0..5 {
            w.grow(&Acknowledgment::of(2 * MSS));
        }
        assert_eq!(w.bytes(), 11 * MSS);
        w.grow(&Acknowledgment::of(MSS));
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
            w.grow(&Acknowledgment::of(2 * MSS));
        }
        assert_eq!(w.bytes(), 1256 * MSS);
    }
}
