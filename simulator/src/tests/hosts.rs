//! Hosts that take their time, and one that is not honest.

use serde_json::json;

use super::*;

/// When a lone object of this many bytes is there.
fn arrives(bytes: u64, packet_ns: u64, at_once: u64) -> u64 {
    let topology = Topology::path(1);
    let network = with(topology.network("ndp"), "transfers", lone(bytes, 1000, 2));
    let network = with(network, "packet_ns", packet_ns.into());
    let outcome = topology.run(with(network, "packets_at_once", at_once.into()));
    outcome.assert_good();
    outcome.receiver(0).record.finished_at_ns
}

#[test]
fn a_packet_is_taken_after_the_time_that_the_host_needs() {
    let at_once = arrives(1000, 0, 16);
    assert_eq!(arrives(1000, 5000, 16), at_once + 5000);
    assert_eq!(arrives(1000, 5000, 1), at_once + 5000);
    // Ten packets come every 12 us, so that the last of them waits for nine that take 24 us.
    let (few, many) = (arrives(14_000, 24_000, 1), arrives(14_000, 24_000, 16));
    assert!(few > many + 9 * 11_000, "{few} {many}");
}

#[test]
fn made_up_notifications_take_their_share_of_the_link_and_no_more() {
    let topology = Topology {
        queue_packets: 1000,
        ..Topology::star(3)
    };
    let run = |every_ns: u64, stop_ns: u64| {
        let transfers = lone(500_000, 1000, 2);
        let network = with(topology.network("fastlane"), "transfers", transfers);
        let forgeries = json!([{
            "host": "h3",
            "targets": ["h1", "h2"],
            "every_ns": every_ns,
            "stop_ns": stop_ns,
            "dscp": 56,
        }]);
        let outcome = topology.run(with(network, "forgeries", forgeries));
        outcome.assert_good();
        let sender = &outcome.sender(0).record;
        assert_eq!(sender.counters.retransmitted, 0, "they name no flow");
        outcome.receiver(0).record.finished_at_ns
    };
    let honest = run(1000, 0);
    // Half of them go to the receiver: 54 bytes every 2 us are a fifth of its link.
    let slowed = run(1000, 1_000_000_000);
    assert!(
        slowed > honest * 115 / 100 && slowed < honest * 135 / 100,
        "{honest} {slowed}"
    );
    let shortly = run(1000, 1_000_000);
    assert!(honest < shortly && shortly < slowed);
}

/// Somebody who sees packets makes their senders send them again, but not without bounds, and each of
/// them still arrives.
#[test]
fn notifications_of_packets_that_there_are_are_believed_within_bounds() {
    let topology = Topology {
        queue_packets: 1000,
        ..Topology::star(3)
    };
    let run = |every_ns: u64| {
        let transfers = lone(500_000, 1000, 2);
        let network = with(topology.network("fastlane"), "transfers", transfers);
        let forgeries = json!([{
            "host": "h3",
            "targets": ["h1"],
            "every_ns": every_ns,
            "stop_ns": 1_000_000_000,
            "dscp": 56,
            "overhears_after_ns": 10_000,
        }]);
        let outcome = topology.run(with(network, "forgeries", forgeries));
        outcome.assert_good();
        let sender = &outcome.sender(0).record;
        (sender.counters.retransmitted, sender.counters.packets_sent)
    };
    let (few, many) = (run(500_000), run(1_000));
    assert!(few.0 > 0, "they were believed");
    let once = many.1 - many.0;
    assert!(
        many.0 > few.0 && many.0 <= 2 * once,
        "two per segment at most: {few:?} {many:?}"
    );
}

#[test]
fn forgeries_that_cannot_be_are_refused_by_name() {
    let topology = Topology::star(3);
    let good = json!({
        "host": "h3", "targets": ["h1"], "every_ns": 1, "stop_ns": 9, "dscp": 56,
    });
    let mut bad = vec![json!([good, good])];
    for (key, value) in [
        ("host", json!("h9")),
        ("targets", json!(["h1", "h9"])),
        ("targets", json!([])),
        ("every_ns", json!(0)),
        ("dscp", json!(64)),
    ] {
        bad.push(json!([with(good.clone(), key, value)]));
    }
    for forgeries in bad {
        let network = with(topology.network("fastlane"), "forgeries", forgeries);
        let network: Network = serde_json::from_value(network).expect("a network");
        let error = network.build().err().expect("refused").to_string();
        assert!(error.starts_with("forgeries"), "{error}");
    }
}
