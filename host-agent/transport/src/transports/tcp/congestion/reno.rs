//! Reno: halves the window on loss (RFC 5681), and on ECN-Echo where that was negotiated (RFC 3168).

use super::{Acknowledgment, Algorithm, CongestionControl, EcnMode, Window};
use crate::tcp::feedback::FeedbackSet;
use crate::tcp::{entry, make};
use crate::transports::Entry;

pub(crate) const ENTRY: Entry = entry("reno", 7002, |host, suite| {
    make(
        host,
        "reno",
        RENO,
        &suite.tcp,
        suite.pacer_if(suite.tcp.paced),
    )
});

impl Algorithm {
    /// Reno without ECN and without feedback, for algorithms that say only in what they differ.
    pub const BASE: Algorithm = Algorithm {
        ecn: EcnMode::Off,
        priority_ecn: EcnMode::Off,
        start: |_, window| Box::new(Reno::new(window)),
        feedback: FeedbackSet::NONE,
    };
}

/// Reno without ECN: losses are all it sees.
pub const RENO: Algorithm = Algorithm::BASE;

/// The state of one connection.
#[derive(Clone, Debug)]
pub(in super::super) struct Reno {
    window: Window,
    /// The network reorders and does not lose: duplicate ACKs say nothing.
    is_reordered: bool,
}

impl Reno {
    pub(in super::super) fn new(window: Window) -> Self {
        Reno {
            window,
            is_reordered: false,
        }
    }

    /// Reno without fast retransmit and fast recovery: only the timer finds losses.
    pub(in super::super) fn over_reordering_paths(window: Window) -> Self {
        Reno {
            is_reordered: true,
            ..Reno::new(window)
        }
    }
}

impl CongestionControl for Reno {
    fn on_ack(&mut self, ack: &Acknowledgment) -> bool {
        if self.window.must_reduce(ack) {
            // RFC 3168 6.1.2: as for a loss, but nothing is retransmitted.
            self.window.halve(ack.flight_bytes);
            self.window.note_reduction(ack.next);
            return true;
        }
        if !ack.ece && !ack.in_recovery && ack.window_limited {
            self.window.grow(ack);
        }
        false
    }

    fn on_recovered(&mut self, window_bytes: u64, next: u64) {
        self.window.reduce_to(window_bytes);
        self.window.note_reduction(next);
    }

    fn duplicate_ack_threshold(&self, configured: u32) -> Option<u32> {
        (!self.is_reordered).then_some(configured)
    }

    fn window(&self) -> &Window {
        &self.window
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::params::TcpParams;
    use super::*;

    const MSS: u64 = 1000;

    fn ack(una: u64, next: u64, ece: bool) -> Acknowledgment {
        Acknowledgment {
            una,
            next,
            flight_bytes: next - una + MSS,
            ece,
            ..Acknowledgment::of(MSS)
        }
    }

    #[test]
    fn ecn_echo_halves_once_per_window() {
        let mut reno = Reno::new(Window::new(&TcpParams::default(), MSS));
        assert!(reno.on_ack(&ack(1001, 11_001, true)));
        assert_eq!(reno.window().bytes(), 5500);
        // The same window of data: ECE is repeated until CWR arrives.
        assert!(!reno.on_ack(&ack(6001, 15_001, true)));
        assert!(!reno.on_ack(&ack(11_001, 16_001, true)));
        assert_eq!(reno.window().bytes(), 5500);
        assert!(reno.on_ack(&ack(11_002, 16_001, true)));
        assert_eq!(reno.window().bytes(), (16_001 - 11_002 + MSS) / 2);
    }

    #[test]
    fn a_window_that_was_not_used_does_not_grow() {
        let mut reno = Reno::new(Window::new(&TcpParams::default(), MSS));
        reno.on_ack(&Acknowledgment {
            window_limited: false,
            ..ack(1001, 2001, false)
        });
        assert_eq!(reno.window().bytes(), 10 * MSS);
        reno.on_ack(&ack(1001, 2001, false));
        assert_eq!(reno.window().bytes(), 11 * MSS);
    }

    #[test]
    fn recovery_neither_grows_nor_reduces_again() {
        let mut reno = Reno::new(Window::new(&TcpParams::default(), MSS));
        reno.on_loss(20 * MSS, 30_001);
        assert_eq!(reno.window().bytes(), 10 * MSS);
        for ece in [false, true] {
            let in_recovery = Acknowledgment {
                in_recovery: true,
                ..ack(15_001, 30_001, ece)
            };
            assert!(!reno.on_ack(&in_recovery));
        }
        assert_eq!(reno.window().bytes(), 10 * MSS);
    }
}
