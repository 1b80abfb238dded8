//! What the algorithms do to a shared queue, and that alpha is what RFC 8257 says.

use ebb_units::{Duration, Instant};

use super::testing::Network;
use super::*;

const K: u64 = 30_000;

/// `flows` long transfers through one 1 Gbit/s queue that marks above K and holds 300 kB.
fn long_flows(algorithm: Algorithm, flows: usize, bytes: u64) -> Network {
    let mut net = Network::new(algorithm, TcpParams::default());
    net.forward.mark_above_bytes = K;
    net.forward.capacity_bytes = 300_000;
    for _ in 0..flows {
        net.transfer(bytes);
    }
    net
}

#[test]
fn dctcp_holds_the_queue_near_k_and_reno_fills_it() {
    let settled = Instant::from_micros(10_000);
    let mut mean = Vec::new();
    for algorithm in [Algorithm::Dctcp, Algorithm::RenoEcn, Algorithm::Reno] {
        let mut net = long_flows(algorithm, 2, 6_000_000);
        net.run_until(Instant::from_micros(80_000));
        mean.push(net.forward.mean_depth(settled));
        let longest = net
            .forward
            .depths
            .iter()
            .filter(|d| d.0 >= settled)
            .map(|d| d.1)
            .max();
        match algorithm {
            Algorithm::Dctcp => {
                assert_eq!(net.forward.drops, 0);
                assert!(longest < Some(2 * K), "{longest:?}");
                // Throughput does not suffer: the queue never runs dry once settled.
                let sent: usize = net.pairs.iter().map(|pair| pair.received.len()).sum();
                assert!(
                    sent as f64 > 0.93 * 10e6 * 1460.0 / 1514.0,
                    "{sent} bytes in 80 ms"
                );
            }
            Algorithm::RenoEcn => assert_eq!(net.forward.drops, 0),
            Algorithm::Reno => {
                assert!(net.forward.drops > 0);
                assert!(longest > Some(290_000), "{longest:?}");
            }
        }
    }
    let [dctcp, reno_ecn, reno] = mean[..] else {
        panic!()
    };
    assert!(
        (0.5 * K as f64..1.5 * K as f64).contains(&dctcp),
        "mean queue {dctcp}"
    );
    assert!(reno_ecn < 1.5 * K as f64, "mean queue {reno_ecn}");
    assert!(reno > 4.0 * dctcp, "reno {reno}, dctcp {dctcp}");
}

#[test]
fn flows_share_the_link_fairly() {
    for algorithm in [Algorithm::Dctcp, Algorithm::RenoEcn] {
        let mut net = long_flows(algorithm, 2, 30_000_000);
        // The second comes when the first has settled.
        net.pairs[1].start_at = Instant::from_micros(10_000);
        net.run_until(Instant::from_micros(60_000));
        let before: Vec<_> = net.pairs.iter().map(|pair| pair.received.len()).collect();
        net.run_until(Instant::from_micros(120_000));
        let share: Vec<_> = net
            .pairs
            .iter()
            .zip(before)
            .map(|(pair, b)| (pair.received.len() - b) as f64)
            .collect();
        let jain = (share[0] + share[1]).powi(2) / (2.0 * (share[0].powi(2) + share[1].powi(2)));
        assert!(jain > 0.97, "{algorithm:?}: {share:?}");
    }
}

/// Alpha and the once-per-window reduction, recomputed from the ACKs as they are on the wire.
#[test]
fn the_alpha_trace_equals_the_recurrence_of_rfc_8257() {
    let mut net = long_flows(Algorithm::Dctcp, 2, 4_000_000);
    net.run_and_check();
    let g = TcpParams::default().dctcp_gain;
    let (mut alpha, mut una, mut window_end) = (1.0, 1, 0);
    let (mut acked, mut marked) = (0, 0);
    let mut expected = Vec::new();
    for &(_, ack, next, ece) in &net.acks {
        let bytes: u64 = ack - una;
        una = ack;
        acked += bytes;
        marked += if ece { bytes } else { 0 };
        if ack > window_end && acked > 0 {
            alpha = (1.0 - g) * alpha + g * (marked as f64 / acked as f64);
            window_end = next;
            (acked, marked) = (0, 0);
            expected.push(alpha);
        }
    }
    let mut seen: Vec<f64> = net
        .trace
        .iter()
        .filter_map(|&(_, alpha, _)| alpha)
        .collect();
    seen.dedup();
    expected.insert(0, 1.0);
    expected.dedup();
    assert!(expected.len() > 100, "{}", expected.len());
    assert_eq!(seen, expected);
    // Steady state: few marks, a small alpha.
    assert!(
        expected.last().is_some_and(|alpha| *alpha < 0.6),
        "{:?}",
        expected.last()
    );
}

#[test]
fn marked_bytes_are_echoed_exactly_with_delayed_acks() {
    let mut net = long_flows(Algorithm::Dctcp, 2, 2_000_000);
    net.run_and_check();
    for index in 0..2 {
        let right = net.pairs[index]
            .right
            .as_ref()
            .unwrap()
            .statistics()
            .receiver;
        assert!(right.ce_packets > 0);
    }
    let ce = net.pairs[0]
        .right
        .as_ref()
        .unwrap()
        .statistics()
        .receiver
        .ce_packets;
    let (mut una, mut marked) = (1, 0);
    for &(_, ack, _, ece) in &net.acks {
        marked += if ece { ack - una } else { 0 };
        una = ack;
    }
    // All segments are full but the last.
    assert_eq!(marked.div_ceil(1460), ce);
}

#[test]
fn windows_never_fall_below_two_segments_and_the_link_stays_busy() {
    // Eight flows of two segments each are more than 40 us at 1 Gbit/s hold: all are at the floor.
    let mut net = long_flows(Algorithm::Dctcp, 8, 1_000_000);
    net.forward.mark_above_bytes = 3_000;
    net.run_and_check();
    let floor = net
        .trace
        .iter()
        .map(|&(_, _, window)| window)
        .filter(|&w| w > 0)
        .min();
    assert_eq!(floor, Some(2 * 1460));
    assert!(net.now < Instant::ZERO + Duration::from_millis(120));
}
