//! Transfers over networks that drop and tell.

use ebb_units::{BitRate, Duration, Instant};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::super::testing::{Fate, FateOf, Network};
use super::super::{RENO, Segment, SenderCounters, TcpParams};
use super::*;

/// The least time in which the timer can find a loss.
const MIN_RTO: Duration = Duration::from_millis(10);

fn params() -> TcpParams {
    TcpParams {
        sack: false,
        ..TcpParams::default()
    }
}

fn algorithm(scatter: bool) -> Algorithm {
    let params = FastlaneParams {
        scatter,
        ..FastlaneParams::default()
    };
    params.algorithm()
}

/// A network that tells of a drop after 15 us.
fn network(scatter: bool) -> Network {
    let mut net = Network::new(algorithm(scatter), params());
    net.notification_delay = Some(Duration::from_micros(15));
    net
}

fn left(net: &Network) -> SenderCounters {
    net.pairs[0].left.statistics().sender
}

/// Drops what `is_it` says, the first `times`.
fn drop_first(times: u32, is_it: fn(&Segment<'_>) -> bool) -> FateOf {
    let mut left = times;
    Box::new(move |_, segment| {
        if left > 0 && is_it(segment) {
            left -= 1;
            return Fate::Drop;
        }
        Fate::Pass
    })
}

#[test]
fn control_packets_go_again_at_once() {
    let is_bare_ack = |s: &Segment<'_>| s.sequence_length() == 0;
    for times in 1..=3 {
        for forward in [true, false] {
            for which in 0..3 {
                let is_it = match which {
                    0 => |s: &Segment<'_>| s.flags.syn,
                    1 => |s: &Segment<'_>| s.flags.fin && s.payload.is_empty(),
                    _ => is_bare_ack,
                };
                let mut net = network(true);
                let link = if forward {
                    &mut net.forward
                } else {
                    &mut net.backward
                };
                link.fate = drop_first(times, is_it);
                // An object of no bytes has a FIN without payload.
                net.transfer(0);
                net.run_and_check();
                let pair = &net.pairs[0];
                let statistics = [&pair.left, pair.right.as_ref().unwrap()].map(|c| c.statistics());
                let timeouts = statistics.map(|s| s.sender.timeouts);
                assert_eq!(timeouts, [0, 0], "{times} {forward} {which}");
                let acked_at = pair.left.stream_acked_at().unwrap();
                assert!(acked_at < Instant::ZERO + MIN_RTO, "{acked_at:?}");
            }
        }
    }
}

#[test]
fn a_dropped_packet_goes_again_a_round_trip_later_and_the_window_halves() {
    for scatter in [true, false] {
        let mut net = network(scatter);
        net.forward.fate = Box::new(|n, _| Fate::Drop.when(n == 40));
        net.transfer(500_000);
        net.run_and_check();
        let sender = left(&net);
        assert_eq!(
            (sender.retransmitted, sender.loss_episodes, sender.timeouts),
            (1, 1, 0),
            "scatter {scatter}"
        );
        let windows: Vec<u64> = net.trace.iter().map(|entry| entry.2).collect();
        let cuts: Vec<_> = windows
            .windows(2)
            .filter(|w| w[1] < w[0] && w[1] > 0)
            .collect();
        assert_eq!(cuts.len(), 1, "{cuts:?}");
        assert_eq!(cuts[0][1], cuts[0][0] / 1460 / 2 * 1460);
    }
}

/// Eight senders begin at the same time, over a queue that holds 30 packets.
fn incast(algorithm: Algorithm, tells: bool) -> Network {
    let mut net = Network::new(algorithm, params());
    net.notification_delay = tells.then_some(Duration::from_micros(40));
    net.forward.capacity_bytes = 45_000;
    for _ in 0..8 {
        net.transfer(100_000);
    }
    net.run_and_check();
    net
}

#[test]
fn an_incast_that_is_told_of_has_no_timeout() {
    let timeouts = |net: &Network| -> u64 {
        let all = net.pairs.iter();
        all.map(|pair| pair.left.statistics().sender.timeouts).sum()
    };
    let baseline = incast(RENO, false);
    assert!(timeouts(&baseline) > 0, "the test can fail");
    for scatter in [true, false] {
        let net = incast(algorithm(scatter), true);
        assert!(net.forward.drops > 0);
        assert_eq!(timeouts(&net), 0, "scatter {scatter}");
        assert!(net.now < baseline.now);
    }
}

/// Drops and delays, each with its probability.
fn disorder(seed: u64, drops: f64, delays: f64) -> FateOf {
    let mut rng = SmallRng::seed_from_u64(seed);
    Box::new(move |_, _| match rng.random::<f64>() {
        p if p < drops => Fate::Drop,
        p if p < drops + delays => Fate::Late(Duration::from_micros(rng.random_range(0..300))),
        _ => Fate::Pass,
    })
}

#[test]
fn reordering_is_not_loss_and_every_drop_that_is_told_is_repaired_without_the_timer() {
    for seed in 0..16 {
        let mut net = network(true);
        net.forward.fate = disorder(seed, 0.03, 0.3);
        net.transfer(300_000);
        net.run();
        let pair = &net.pairs[0];
        assert!(pair.received == pair.expected, "seed {seed}");
        let sender = left(&net);
        assert_eq!(sender.timeouts, 0, "seed {seed}");
        // As many as were dropped, and no more: nothing that only came late was sent again.
        assert_eq!(sender.retransmitted, net.forward.drops, "seed {seed}");
    }
}

#[test]
fn notifications_that_are_lost_leave_it_to_the_timer() {
    for scatter in [true, false] {
        for seed in 0..8 {
            let mut net = network(scatter);
            net.notification_delay = None;
            net.forward.fate = disorder(seed, 0.03, 0.1);
            net.backward.fate = disorder(seed + 100, 0.03, 0.1);
            net.transfer(100_000);
            net.run();
            let pair = &net.pairs[0];
            assert!(pair.received == pair.expected, "seed {seed}");
        }
    }
}

#[test]
fn under_flow_hashing_duplicate_acks_find_what_was_not_told() {
    let mut net = network(false);
    net.notification_delay = None;
    net.forward.fate = Box::new(|n, _| Fate::Drop.when(n == 40));
    net.transfer(500_000);
    net.run_and_check();
    let sender = left(&net);
    assert_eq!((sender.retransmitted, sender.timeouts), (1, 0));
}

#[test]
fn packets_that_keep_being_dropped_hold_back_the_others() {
    // A queue that holds four packets at a tenth of the senders' rate.
    let mut net = network(true);
    net.forward.rate = BitRate::from_mbps(100);
    net.forward.capacity_bytes = 6_100;
    net.transfer(200_000);
    net.run_and_check();
    let sender = left(&net);
    assert_eq!(sender.timeouts, 0);
    // Without the bound each drop would make a drop: it ends with less than two for each packet.
    assert!(net.forward.drops < 2 * 137, "{} drops", net.forward.drops);
}

#[test]
fn the_window_grows_by_what_has_arrived_out_of_order() {
    let params = FastlaneParams::default();
    let mut notified = Notified::new(params.notifications(Bound::Falling(params.bound)));
    // The receiver has all before 1000, 2000 to 2999 and 4000 to 4999; the ACKs come in disorder.
    let mut ack = |advances, option, flight| {
        notified.inflate(advances, Some(option), flight);
        notified.inflation_bytes()
    };
    assert_eq!(ack(false, 1000, 4000), Some(1000));
    assert_eq!(ack(false, 2000, 4000), Some(2000));
    assert_eq!(ack(false, 1000, 4000), Some(2000), "an older one came late");
    assert_eq!(ack(true, 1000, 2000), Some(1000));
    // Nobody has more than was sent.
    assert_eq!(ack(false, u32::MAX, 2000), Some(2000));
    assert_eq!(ack(true, 0, 2000), Some(0));
}

#[test]
fn every_ack_says_how_much_is_out_of_order() {
    let mut net = network(true);
    net.notification_delay = None;
    net.forward.fate = Box::new(|n, _| match n {
        2 => Fate::Late(Duration::from_millis(2)),
        _ => Fate::Pass,
    });
    let mut last = 0;
    net.backward.fate = Box::new(move |_, segment| {
        let bytes = segment.options.out_of_order_bytes;
        if !segment.flags.syn {
            let bytes = bytes.expect("on every ACK");
            assert!(bytes == 0 || bytes > last && bytes % 1460 == 0, "{bytes}");
            last = bytes;
        }
        Fate::Pass
    });
    net.transfer(14 * 1460);
    net.run();
    assert!(net.pairs[0].received == net.pairs[0].expected);
    let full = net
        .sent
        .iter()
        .all(|(_, s)| s.options.out_of_order_bytes.is_none() || s.payload.is_empty());
    assert!(full, "it would not fit beside a full payload");
}

#[test]
fn a_parameter_that_cannot_be_is_refused_by_name() {
    assert_eq!(FastlaneParams::default().validate(), Ok(()));
    let bad = [
        FastlaneParams {
            notification_dscp: 64,
            ..FastlaneParams::default()
        },
        FastlaneParams {
            round_trip_ns: 0,
            ..FastlaneParams::default()
        },
    ];
    let errors = bad.map(|params| params.validate().unwrap_err());
    assert!(errors[0].contains("fastlane.notification_dscp is 64"));
    assert!(errors[1].contains("fastlane.round_trip_ns is 0"));
}
