//! DCTCP: reduces the window in proportion to the fraction of marked bytes (RFC 8257; HULL 2.2).

use super::{Acknowledgment, Algorithm, CongestionControl, EcnMode, Window};
use crate::tcp::{entry, make};
use crate::transports::Entry;

pub(crate) const ENTRY: Entry = entry("dctcp", 7004, |host, suite| {
    make(
        host,
        "dctcp",
        DCTCP,
        &suite.tcp,
        suite.pacer_if(suite.tcp.paced),
    )
});

/// DCTCP, with `dctcp_gain` and `dctcp_initial_alpha` of the parameters.
pub const DCTCP: Algorithm = Algorithm {
    ecn: EcnMode::Accurate,
    priority_ecn: EcnMode::Accurate,
    start: |params, window| {
        let (gain, alpha) = (params.dctcp_gain, params.dctcp_initial_alpha);
        Box::new(Dctcp::new(window, gain, alpha))
    },
    ..Algorithm::BASE
};

/// The state of one connection.
#[derive(Clone, Debug)]
struct Dctcp {
    window: Window,
    /// g: the weight of the newest observation window, 0 to 1.
    gain: f64,
    /// The estimate of the fraction of marked bytes, 0 to 1.
    alpha: f64,
    /// The current observation window ends when this is acknowledged (DCTCP.WindowEnd).
    window_end: u64,
    acked_bytes: u64,
    marked_bytes: u64,
}

impl Dctcp {
    fn new(window: Window, gain: f64, initial_alpha: f64) -> Self {
        Dctcp {
            window,
            gain,
            alpha: initial_alpha,
            window_end: 0,
            acked_bytes: 0,
            marked_bytes: 0,
        }
    }

    /// RFC 8257 3.3, steps 1 to 8.
    fn observe(&mut self, ack: &Acknowledgment) {
        self.acked_bytes += ack.acked_bytes;
        if ack.ece {
            self.marked_bytes += ack.acked_bytes;
        }
        if ack.una <= self.window_end || self.acked_bytes == 0 {
            return;
        }
        let fraction = self.marked_bytes as f64 / self.acked_bytes as f64;
        self.alpha = (1.0 - self.gain) * self.alpha + self.gain * fraction;
        self.window_end = ack.next;
        self.acked_bytes = 0;
        self.marked_bytes = 0;
    }
}

/// RFC 8257 3.5: loss is answered as by any conventional TCP.
impl CongestionControl for Dctcp {
    fn on_ack(&mut self, ack: &Acknowledgment) -> bool {
        self.observe(ack);
        if self.window.must_reduce(ack) {
            // RFC 8257 3.3, step 9. An ACK that ends an observation window reduces by the new alpha.
            let reduced = self.window.bytes() as f64 * (1.0 - self.alpha / 2.0);
            self.window.reduce_to(reduced as u64);
            self.window.note_reduction(ack.next);
            return true;
        }
        if !ack.ece && !ack.in_recovery && ack.window_limited {
            self.window.grow(ack);
        }
        false
    }

    fn window(&self) -> &Window {
        &self.window
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    fn marked_fraction(&self) -> Option<f64> {
        Some(self.alpha)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::TcpParams;

    const MSS: u64 = 1000;
    const G: f64 = 1.0 / 16.0;

    fn dctcp() -> Dctcp {
        Dctcp::new(Window::new(&TcpParams::default(), MSS), G, 1.0)
    }

    /// Acknowledges `segments` one by one, the first `marked` of them with ECE, with
    /// `segments - 1` more in flight: so that exactly `segments` ACKs make an observation window.
    fn one_window(dctcp: &mut Dctcp, una: &mut u64, segments: u64, marked: u64) {
        for i in 0..segments {
            *una += MSS;
            dctcp.on_ack(&Acknowledgment {
                una: *una,
                next: *una + (segments - 1) * MSS,
                flight_bytes: segments * MSS,
                ece: i < marked,
                ..Acknowledgment::of(MSS)
            });
        }
    }

    #[test]
    fn alpha_follows_the_recurrence() {
        let mut dctcp = dctcp();
        let mut una = 1;
        // RFC 8257 3.3 starts WindowEnd at SND.UNA: the first ACK is a window of its own.
        dctcp.on_ack(&Acknowledgment {
            una: 1 + MSS,
            next: 1 + 10 * MSS,
            flight_bytes: 10 * MSS,
            ..Acknowledgment::of(MSS)
        });
        una += MSS;
        let mut alpha = 1.0 - G;
        assert_eq!(dctcp.marked_fraction(), Some(alpha));
        for marked in [10, 5, 0, 3, 10, 1, 0, 0, 7] {
            one_window(&mut dctcp, &mut una, 10, marked);
            alpha = (1.0 - G) * alpha + G * (marked as f64 / 10.0);
            assert_eq!(
                dctcp.marked_fraction(),
                Some(alpha),
                "after a window with {marked} of 10 marked"
            );
        }
    }

    /// The same vectors hold for the formula that the kernel's DCTCP is compared with (host-agent/kernel).
    #[test]
    fn alpha_is_that_of_the_shared_vectors() {
        let text = include_str!("../../../../../kernel/alpha_vectors.json");
        let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
        let mut dctcp = dctcp();
        let mut una = 0;
        for (i, ack) in vectors["acks"].as_array().unwrap().iter().enumerate() {
            let (acked, flight) = (ack[0].as_u64().unwrap(), ack[2].as_u64().unwrap());
            una += acked;
            dctcp.observe(&Acknowledgment {
                una,
                next: una + flight,
                flight_bytes: flight,
                ece: ack[1].as_bool().unwrap(),
                ..Acknowledgment::of(acked)
            });
            let error = dctcp.alpha - ack[3].as_f64().unwrap();
            assert!(error.abs() < 1e-9, "ACK {i}: {error}");
        }
    }

    #[test]
    fn reduces_by_half_of_alpha_once_per_window() {
        let mut dctcp = Dctcp {
            alpha: 0.5,
            window_end: u64::MAX,
            ..dctcp()
        };
        let mark = Acknowledgment {
            una: 1001,
            next: 10_001,
            flight_bytes: 10 * MSS,
            ece: true,
            ..Acknowledgment::of(MSS)
        };
        assert!(dctcp.on_ack(&mark));
        assert_eq!(dctcp.window().bytes(), 7500);
        assert!(!dctcp.on_ack(&Acknowledgment {
            una: 10_001,
            next: 18_001,
            ..mark
        }));
        assert!(dctcp.on_ack(&Acknowledgment {
            una: 11_001,
            next: 18_001,
            ..mark
        }));
        assert_eq!(dctcp.window().bytes(), 5625);
    }

    #[test]
    fn never_below_two_segments() {
        let mut dctcp = dctcp();
        let mut una = 1;
        for _ in 0..20 {
            one_window(&mut dctcp, &mut una, 3, 3);
        }
        assert_eq!(dctcp.window().bytes(), 2 * MSS);
    }

    #[test]
    fn loss_halves_what_is_in_flight() {
        let mut dctcp = Dctcp {
            alpha: 0.0,
            ..dctcp()
        };
        dctcp.on_loss(8 * MSS, 10_001);
        assert_eq!(dctcp.window().bytes(), 4 * MSS);
        dctcp.on_timeout(4 * MSS, 10_001, true);
        assert_eq!(dctcp.window().bytes(), MSS);
    }
}
