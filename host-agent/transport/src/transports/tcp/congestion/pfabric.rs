//! pFabric's hosts: full speed from the first packet on, because switches serve and drop by what is left
//! of each flow (Alizadeh et al., "pFabric: Minimal Near-Optimal Datacenter Transport", SIGCOMM 2013,
//! section 4.3; with the timeout of Zats, "Achieving Consistent Latencies in Datacenter Networks",
//! section 6.6.1; `docs/pfabric.md`).

use ebb_units::Instant;
use ebb_wire::remaining_code;
use serde::{Deserialize, Serialize};

use super::{Acknowledgment, Algorithm, CongestionControl, Window};
use crate::tcp::fastlane::Bound;
use crate::tcp::feedback::{Feedback, FeedbackSet, Next, Reaction};
use crate::tcp::segment::Segment;
use crate::tcp::sender::Sender;
use crate::tcp::{TcpParams, entry, make};
use crate::transports::{Entry, Suite};

pub(crate) const ENTRY: Entry = entry("pfabric", 7010, |host, suite| {
    let params = params_of(suite);
    let algorithm = algorithm_of(suite);
    let pacer = suite.pacer_if(params.paced);
    make(host, "pfabric", algorithm, &params, pacer)
});

/// Section `pfabric` of the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PfabricParams {
    /// Retransmission timeout, which is never backed off: about three round trips of an idle network.
    pub rto_ns: u64,
    /// Window that a flow begins with, in segments: what the path holds.
    pub window_packets: u32,
    /// Number of timeouts in a row after which the sender probes the path with single bytes.
    pub probe_after_timeouts: u32,
    /// Whether switches notify senders of drops, in the class `fastlane.notification_dscp`: a dropped packet is sent
    /// again when a probe has been answered, without waiting for the timeout.
    pub notified: bool,
}

impl Default for PfabricParams {
    fn default() -> Self {
        PfabricParams {
            rto_ns: 250_000,
            window_packets: 12,
            probe_after_timeouts: 5,
            notified: false,
        }
    }
}

impl PfabricParams {
    pub fn validate(&self) -> Result<(), String> {
        let PfabricParams {
            rto_ns,
            window_packets,
            probe_after_timeouts,
            notified: _,
        } = *self;
        // An hour, so that multiples of it cannot overflow.
        if !(1_000..=3_600_000_000_000).contains(&rto_ns) {
            return Err(format!(
                "pfabric.rto_ns is {rto_ns}: expected 1000 to 3600000000000"
            ));
        }
        if !(1..=65_535).contains(&window_packets) {
            return Err(format!(
                "pfabric.window_packets is {window_packets}: expected 1 to 65535"
            ));
        }
        if probe_after_timeouts == 0 {
            return Err("pfabric.probe_after_timeouts is 0: expected 1 or more".into());
        }
        Ok(())
    }

    /// The algorithm of a host that takes no notifications of drops.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm_after(&FeedbackSet::NONE)
    }

    /// The algorithm with `feedback`, which comes before its own.
    fn algorithm_after(&self, feedback: &FeedbackSet) -> Algorithm {
        Algorithm {
            start: |_, window| Box::new(Pfabric { window }),
            feedback: feedback.with(ShortestFirst {
                probe_after_timeouts: self.probe_after_timeouts,
            }),
            ..Algorithm::BASE
        }
    }
}

/// The algorithm of `pfabric`, with notifications of drops if its parameters ask for them.
pub(in super::super) fn algorithm_of(suite: &Suite) -> Algorithm {
    let feedback = match suite.pfabric.notified {
        true => FeedbackSet::NONE.with(suite.fastlane.notifications(Bound::Probed)),
        false => FeedbackSet::NONE,
    };
    suite.pfabric.algorithm_after(&feedback)
}

/// Host and switches serve the flow with the least remaining bytes first; switches read those from the
/// packets (section 4.1).
#[derive(Clone, Copy, Debug)]
struct ShortestFirst {
    /// [`PfabricParams::probe_after_timeouts`]
    probe_after_timeouts: u32,
}

impl Feedback for ShortestFirst {
    fn reaction(&self) -> Option<Box<dyn Reaction>> {
        Some(Box::new(*self))
    }

    fn stamp(&self, remaining_bytes: u64, segment: &mut Segment<'_>) {
        segment.id = remaining_code(remaining_bytes);
    }

    fn serves_shortest_first(&self) -> bool {
        true
    }
}

impl Reaction for ShortestFirst {
    /// After several timeouts in a row packets have little hope: one byte per timeout asks whether they
    /// get through (section 4.3, probe mode).
    fn next_transmission(&mut self, now: Instant, sender: &mut Sender) -> Next {
        if sender.retries() < self.probe_after_timeouts || !sender.has_in_flight() {
            return Next::Usual;
        }
        match sender.take_retransmit_now() {
            true => Next::Send(sender.probe(sender.una(), now)),
            false => Next::Nothing,
        }
    }
}

/// Parameters of the TCP of `pfabric`: SACK, an acknowledgment per packet, one timeout for all, and
/// as many of them as fit into the patience with a silent peer.
pub(in super::super) fn params_of(suite: &Suite) -> TcpParams {
    let PfabricParams {
        rto_ns,
        window_packets,
        ..
    } = suite.pfabric;
    let tcp = &suite.tcp;
    let idle_timeout_ns = tcp.idle_timeout_ns.max(2 * rto_ns);
    let timeouts = u32::try_from(idle_timeout_ns / rto_ns).unwrap_or(u32::MAX);
    TcpParams {
        sack: true,
        ack_every_packets: 1,
        initial_window_packets: window_packets,
        initial_threshold_packets: window_packets.max(tcp.min_window_packets),
        max_window_packets: tcp.max_window_packets.max(window_packets),
        min_rto_ns: rto_ns,
        initial_rto_ns: rto_ns,
        max_rto_ns: rto_ns,
        max_retries: tcp.max_retries.max(timeouts),
        idle_timeout_ns,
        ..tcp.clone()
    }
}

/// The state of one connection. Only the timer finds losses, and only it makes the window smaller.
#[derive(Clone, Debug)]
struct Pfabric {
    window: Window,
}

impl CongestionControl for Pfabric {
    fn on_ack(&mut self, ack: &Acknowledgment) -> bool {
        if ack.window_limited {
            self.window.grow(ack);
        }
        false
    }

    /// Never called: [`Self::duplicate_ack_threshold`] lets nothing but the timer find a loss.
    fn on_loss(&mut self, _flight_bytes: u64, _next: u64) {}

    /// Section 4.3: slow start, up to half of the window that there was.
    fn on_timeout(&mut self, _flight_bytes: u64, _next: u64, _first: bool) {
        self.window.collapse(self.window.bytes(), true);
    }

    fn duplicate_ack_threshold(&self, _configured: u32) -> Option<u32> {
        None
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
    use super::*;

    const MSS: u64 = 1_000;

    fn start() -> Pfabric {
        let params = params_of(&Suite::default());
        Pfabric {
            window: Window::new(&params, MSS),
        }
    }

    #[test]
    fn a_flow_begins_with_what_the_path_holds_and_adds_a_segment_per_window() {
        let mut flow = start();
        assert_eq!(flow.window().bytes(), 12 * MSS);
        for _ in 0..12 {
            flow.on_ack(&Acknowledgment::of(MSS));
        }
        assert_eq!(flow.window().bytes(), 13 * MSS);
    }

    #[test]
    fn each_timeout_halves_the_threshold_and_slow_start_leads_there() {
        let mut flow = start();
        let state = |flow: &Pfabric| {
            let window = flow.window();
            (
                window.bytes() / MSS,
                window.slow_start_threshold_bytes() / MSS,
            )
        };
        flow.on_timeout(3 * MSS, 0, true);
        assert_eq!(state(&flow), (1, 6), "whatever is in flight");
        for _ in 0..5 {
            flow.on_ack(&Acknowledgment::of(MSS));
        }
        assert_eq!(state(&flow), (6, 6));
        flow.on_ack(&Acknowledgment::of(MSS));
        assert_eq!(state(&flow), (6, 6), "a segment per window from here on");
        flow.on_timeout(MSS, 0, true);
        assert_eq!(state(&flow), (1, 3));
        flow.on_timeout(MSS, 0, false);
        assert_eq!(state(&flow), (1, 2), "the least");
    }

    #[test]
    fn timeouts_fit_whatever_they_are() {
        for rto_ns in [1_000, 250_000, 10_000_000_000] {
            let mut suite = Suite::default();
            suite.pfabric.rto_ns = rto_ns;
            suite.pfabric.window_packets = 2_000;
            let params = params_of(&suite);
            assert_eq!(params.validate(), Ok(()), "{rto_ns}");
            assert_eq!((params.min_rto_ns, params.max_rto_ns), (rto_ns, rto_ns));
            let patience = u64::from(params.max_retries) * rto_ns;
            assert!(patience <= params.idle_timeout_ns.max(28 * rto_ns));
        }
    }

    #[test]
    fn parameters_that_cannot_be_are_refused_by_name() {
        let refused = |change: fn(&mut PfabricParams)| {
            let mut params = PfabricParams::default();
            change(&mut params);
            params.validate().unwrap_err()
        };
        assert!(refused(|p| p.rto_ns = 0).contains("pfabric.rto_ns is 0"));
        assert!(refused(|p| p.window_packets = 0).contains("pfabric.window_packets is 0"));
        assert!(refused(|p| p.probe_after_timeouts = 0).contains("probe_after_timeouts is 0"));
    }
}
