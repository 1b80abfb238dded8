//! A lone flow takes the time of the closed form, to the nanosecond: what the frames take on every
//! link (store and forward) and the propagation, nothing else.

use ebb_transport::{Role, TransportKind};
use serde_json::{Value, json};

use super::*;

const IPV4: u64 = 20;
const EBB_HEADER: u64 = 48;
const START_NS: u64 = 12_345;

fn frame_ns(ip_bytes: u64) -> u64 {
    (ip_bytes + ETHERNET) * 8 * 1_000_000_000 / RATE_BPS
}

/// From the first bit of the first of some frames leaving a host to the last bit of the last one
/// arriving at another one with this many switches between. All frames but the last are of one size,
/// and the last is not larger: at each switch it waits for the one before it.
fn train_ns(full: u64, ip_bytes: u64, last_ip_bytes: u64, switches: u64) -> u64 {
    let propagation = (switches + 1) * DELAY_NS;
    match full {
        0 => (switches + 1) * frame_ns(last_ip_bytes) + propagation,
        _ => (full + switches) * frame_ns(ip_bytes) + frame_ns(last_ip_bytes) + propagation,
    }
}

fn envelope_bytes() -> u64 {
    // The name of transfer 0 of a list.
    46 + "w0000000000000000-0".len() as u64
}

fn run(transport: &str, bytes: u64, switches: usize, params: Value) -> (u64, u64, Outcome) {
    let topology = Topology::path(switches);
    let mut network = topology.network(transport);
    network["transfers"] = lone(bytes, START_NS, 2);
    for (section, values) in params.as_object().unwrap() {
        network["params"][section] = values.clone();
    }
    let outcome = topology.run(network);
    outcome.assert_good();
    assert_eq!(outcome.drops, 0);
    let times = |role| {
        let ended = outcome.of(role, 0)[0];
        ended.record.finished_at_ns - START_NS
    };
    (times(Role::Receiver), times(Role::Sender), outcome)
}

#[test]
fn ndp() {
    let payload = MTU - IPV4 - EBB_HEADER;
    for switches in [1, 2, 3, 5] {
        for bytes in [1, 1000, 4 * payload - envelope_bytes(), 10_000, 1_000_000] {
            let stream = bytes + envelope_bytes();
            let full = (stream - 1) / payload;
            let last = stream - full * payload + IPV4 + EBB_HEADER;
            let hops = switches as u64;
            // The initial window lasts for longer than a round trip, so that pulls come in time.
            let window = json!({"ndp": {"initial_window_packets": 30}});
            let (arrived, confirmed, outcome) = run("ndp", bytes, switches, window);
            let expected = train_ns(full, MTU, last, hops);
            assert_eq!(arrived, expected, "{switches} switches, {bytes} bytes");
            let answer = train_ns(0, 0, IPV4 + EBB_HEADER, hops);
            assert_eq!(confirmed, expected + answer, "{switches} switches, {bytes}");
            let sender = outcome.sender(0);
            assert_eq!(sender.record.stream_bytes, stream);
            assert_eq!(sender.record.counters.payload_bytes_sent, stream);
            assert_eq!(sender.record.started_at_ns, START_NS);
        }
    }
}

#[test]
fn scdp() {
    let payload = MTU - IPV4 - EBB_HEADER;
    for switches in [1, 2, 3, 5] {
        for bytes in [1, 1000, 10_000, 1_000_000] {
            let stream = bytes + envelope_bytes();
            let full = (stream - 1) / payload;
            let last = stream - full * payload + IPV4 + EBB_HEADER;
            let window = json!({"scdp": {"initial_window_packets": 30}});
            let (arrived, _, outcome) = run("scdp", bytes, switches, window);
            let expected = train_ns(full, MTU, last, switches as u64);
            assert_eq!(arrived, expected, "{switches} switches, {bytes} bytes");
            assert_eq!(outcome.receiver(0).record.counters.decodes, 0);
        }
    }
}

#[test]
fn tcp() {
    for transport in ["reno", "dctcp"] {
        for switches in [1, 2, 3, 5] {
            for bytes in [1, 1000, 10_000, 1_000_000] {
                let window = json!({"tcp": {
                    "initial_window_packets": 1000, "max_window_packets": 1000,
                }});
                let (arrived, _, outcome) = run(transport, bytes, switches, window);
                // Maximum segment size, window scale, SACK permitted.
                let syn_options = 12;
                let payload = MTU - IPV4 - 20;
                let stream = bytes + envelope_bytes();
                let full = (stream - 1) / payload;
                let last = stream - full * payload + IPV4 + 20;
                let hops = switches as u64;
                let handshake = 2 * train_ns(0, 0, IPV4 + 20 + syn_options, hops);
                let expected = handshake + train_ns(full, MTU, last, hops);
                assert_eq!(
                    arrived, expected,
                    "{transport} {switches} switches, {bytes}"
                );
                assert_eq!(outcome.sender(0).record.counters.retransmitted, 0);
            }
        }
    }
}

#[test]
fn every_transport_takes_at_least_that() {
    for transport in TransportKind::ALL {
        let (arrived, confirmed, _) = run(transport.name(), 100_000, 3, json!({}));
        let bytes = 100_000 + envelope_bytes();
        assert!(arrived > train_ns(0, 0, bytes, 0), "{transport}");
        assert!(confirmed > arrived, "{transport}");
    }
}
