//! Links that are down, slow, lossy or corrupting, and hosts at them.

use ebb_engine::LinkState;
use ebb_engine::simulation::{NodeId, NodePort};
use ebb_transport::{Role, TransportKind};
use serde_json::json;

use super::*;

/// From the first host to the second, over one switch, when the host's link is so.
fn lone_with(transport: &str, bytes: u64, state: LinkState) -> Outcome {
    let topology = Topology::path(1);
    let network = with(topology.network(transport), "transfers", lone(bytes, 0, 2));
    topology.run_with(network, 1, |run| {
        let host = run.simulation.hosts().next().map(|(id, _)| id).unwrap();
        let end = NodePort {
            node: host,
            port: 0,
        };
        run.simulation.set_link(end, state).unwrap();
    })
}

#[test]
fn the_nic_of_a_host_has_the_rate_of_its_link() {
    let slow = LinkState {
        rate_bps: Some(RATE_BPS / 10),
        ..LinkState::default()
    };
    let outcome = lone_with("ndp", 5000, slow);
    outcome.assert_good();
    // 4 packets: 3 full ones and the rest, in frames. The switch is faster and holds none up.
    let stream = outcome.sender(0).record.stream_bytes;
    let frames = stream + 4 * (14 + 20 + 48);
    let last = stream - 3 * 1432 + 14 + 20 + 48;
    let arrived = outcome.receiver(0).record.finished_at_ns;
    assert_eq!(arrived, frames * 80 + DELAY_NS + last * 8 + DELAY_NS);
    // Another rate for a while leaves no trace.
    let normal = lone_with("ndp", 5000, LinkState::default());
    assert!(normal.receiver(0).record.finished_at_ns < arrived / 5);
}

#[test]
fn what_a_link_loses_or_corrupts_is_sent_again() {
    for transport in TransportKind::ALL {
        for state in [
            LinkState {
                loss: 0.02,
                ..LinkState::default()
            },
            LinkState {
                corrupt: 0.02,
                ..LinkState::default()
            },
        ] {
            let outcome = lone_with(transport.name(), 500_000, state);
            // Whole and right: no wrong bit gets through.
            outcome.assert_good();
            let sender = &outcome.sender(0).record.counters;
            let again = sender.retransmitted + sender.repair_symbols;
            // Trevi's symbols are all alike: none is sent again.
            assert_eq!(
                again > 0,
                transport != TransportKind::Trevi,
                "{transport} {state:?}"
            );
        }
    }
}

#[test]
fn over_a_link_that_is_down_nothing_comes() {
    let down = LinkState {
        up: false,
        ..LinkState::default()
    };
    let outcome = lone_with("scdp", 5000, down);
    assert_eq!(outcome.of(Role::Receiver, 0).len(), 0);
    assert!(outcome.sender(0).record.status != ebb_transport::Status::Finished);
    assert!(outcome.drops > 0, "counted as link-down");
}

#[test]
fn queues_are_sampled_at_the_same_times_whatever_the_clock_does() {
    let sample = |pieces: u64| {
        let topology = Topology::star(4);
        let to_one = |id: u64| {
            json!({
                "id": id, "start_ns": 0, "bytes": 100_000,
                "sources": [format!("h{}", id + 2)], "destinations": ["h1"],
            })
        };
        let transfers = json!([to_one(0), to_one(1), to_one(2)]);
        let mut built = topology.build(with(topology.network("ndp"), "transfers", transfers));
        let every = ebb_units::Duration::from_micros(10);
        built
            .simulation
            .sample_queues(NodeId(0), &[(1, 0), (1, 7)], every);
        let (mut run, _) = Run::new(built).unwrap();
        let mut samples = Vec::new();
        for piece in 1..=pieces {
            let until = Instant::from_nanos(2_000_000 / pieces * piece);
            while run.simulation.now() < until {
                run.advance(until, |_, _| false);
                samples.extend(run.simulation.take_queue_samples());
            }
        }
        samples
    };
    let at_once = sample(1);
    assert_eq!(at_once.len(), 2 * 201);
    let deepest = at_once.iter().map(|s| s.depth.packets).max();
    assert!(deepest >= Some(7), "{deepest:?}");
    assert!(at_once == sample(8), "other samples in pieces");
}
