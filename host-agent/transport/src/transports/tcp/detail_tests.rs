//! DeTail's hosts: reordering is never loss, and losses still end.

use ebb_units::{Duration, Instant};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::testing::{Fate, FateOf, Network};
use super::*;

/// The section `tcp` as `detail` changes it.
fn params() -> TcpParams {
    TcpParams {
        sack: false,
        min_rto_ns: 200_000_000,
        initial_rto_ns: 200_000_000,
        max_rto_ns: 800_000_000,
        ..TcpParams::default()
    }
}

/// Delays a share of the segments, each by up to `most`.
fn shuffled(seed: u64, share: f64, most: Duration) -> FateOf {
    let mut rng = SmallRng::seed_from_u64(seed);
    Box::new(move |_, _| {
        if rng.random_bool(share) {
            Fate::Late(Duration::from_nanos(rng.random_range(0..most.as_nanos())))
        } else {
            Fate::Pass
        }
    })
}

/// Runs to the end and checks that every object has arrived and is known to have. A packet that
/// comes late enough finds no connection any more, and the RST in answer ends a TIME-WAIT (RFC 1337).
fn run_and_check(net: &mut Network) {
    net.run();
    for (index, pair) in net.pairs.iter().enumerate() {
        assert!(pair.received == pair.expected, "object {index} differs");
        assert!(
            pair.left.stream_acked_at().is_some(),
            "sender {index}: {:?}",
            pair.left.failure()
        );
    }
}

#[test]
fn nothing_is_sent_again_whatever_the_order() {
    for seed in 0..24 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut net = Network::new(DETAIL, params());
        let share = rng.random_range(0.05..0.9);
        // From a few packets to the whole window late; always less than the timeout.
        let most = Duration::from_micros(rng.random_range(50..20_000));
        net.forward.fate = shuffled(seed, share, most);
        net.backward.fate = shuffled(seed + 1000, share, most);
        for bytes in [1, 9_000, 300_000] {
            net.transfer(bytes);
        }
        run_and_check(&mut net);
        for pair in &net.pairs {
            let sender = pair.left.statistics().sender;
            let again = (sender.retransmitted, sender.loss_episodes, sender.timeouts);
            assert_eq!(again, (0, 0, 0), "seed {seed}");
        }
    }
}

#[test]
fn duplicate_acknowledgments_do_not_enlarge_what_is_in_flight() {
    let mut net = Network::new(DETAIL, params());
    // The first data segment comes last: all others make duplicate ACKs.
    net.forward.fate = Box::new(|n, segment| match (n, segment.payload.is_empty()) {
        (0..3, false) => Fate::Late(Duration::from_millis(20)),
        _ => Fate::Pass,
    });
    net.transfer(200_000);
    net.run_until(Instant::from_micros(15_000));
    let window = u64::from(params().initial_window_packets) * 1460;
    let sent: usize = net.sent.iter().map(|(_, s)| s.payload.len()).sum();
    assert_eq!(sent as u64, window);
    run_and_check(&mut net);
    assert_eq!(net.pairs[0].left.statistics().sender.retransmitted, 0);
}

#[test]
fn a_loss_waits_for_the_timer_and_the_object_arrives() {
    let mut net = Network::new(DETAIL, params());
    net.forward.fate = Box::new(|n, _| Fate::Drop.when(n == 30));
    net.transfer(300_000);
    run_and_check(&mut net);
    let sender = net.pairs[0].left.statistics().sender;
    assert_eq!((sender.timeouts, sender.loss_episodes), (1, 0));
    assert!(net.now > Instant::ZERO + Duration::from_millis(200));
}

#[test]
fn random_losses_with_reordering_end_too() {
    for seed in 0..8 {
        let mut net = Network::new(DETAIL, params());
        let mut rng = SmallRng::seed_from_u64(seed);
        net.forward.fate = Box::new(move |_, _| match rng.random_range(0..100) {
            0..3 => Fate::Drop,
            3..30 => Fate::Late(Duration::from_micros(rng.random_range(0..500))),
            30..33 => Fate::Duplicate,
            _ => Fate::Pass,
        });
        net.transfer(200_000);
        run_and_check(&mut net);
    }
}

#[test]
fn marks_slow_low_priority_only() {
    let reductions = |has_priority| {
        let algorithm = DETAIL.for_priority(has_priority);
        let mut net = Network::new(algorithm, params());
        net.forward.mark_above_bytes = 64_000;
        net.transfer(3_000_000);
        run_and_check(&mut net);
        let marks = net.forward.marks;
        (marks, net.pairs[0].left.statistics().sender.ece_acks)
    };
    let (marks, echoes) = reductions(false);
    assert!(marks > 0 && echoes > 0, "{marks} marks, {echoes} echoes");
    assert_eq!(reductions(true), (0, 0));
}
