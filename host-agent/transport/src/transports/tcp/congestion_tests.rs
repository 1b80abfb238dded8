//! Effects of the algorithms on a shared queue, and alpha by RFC 8257.

use std::cell::RefCell;
use std::rc::Rc;

use ebb_units::{Duration, Instant};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::congestion::{Acknowledgment, CongestionControl, Window};
use super::congestion::{DCTCP, RENO, RENO_ECN};
use super::testing::{Fate, Network};
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
    for algorithm in [DCTCP, RENO_ECN, RENO] {
        let mut net = long_flows(algorithm.clone(), 2, 6_000_000);
        net.run_until(Instant::from_micros(80_000));
        mean.push(net.forward.mean_depth(settled));
        let longest = net
            .forward
            .depths
            .iter()
            .filter(|d| d.0 >= settled)
            .map(|d| d.1)
            .max();
        match algorithm.ecn {
            EcnMode::Accurate => {
                assert_eq!(net.forward.drops, 0);
                assert!(longest < Some(2 * K), "{longest:?}");
                // Throughput does not suffer: the queue never runs dry once settled.
                let sent: usize = net.pairs.iter().map(|pair| pair.received.len()).sum();
                assert!(
                    sent as f64 > 0.93 * 10e6 * 1460.0 / 1514.0,
                    "{sent} bytes in 80 ms"
                );
            }
            EcnMode::Classic => assert_eq!(net.forward.drops, 0),
            EcnMode::Off => {
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
    for algorithm in [DCTCP, RENO_ECN] {
        let mut net = long_flows(algorithm.clone(), 2, 30_000_000);
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
        assert!(jain > 0.97, "{share:?}");
    }
}

/// A transfer over a link that marks data segments at random, with the marks: by offset, the range
/// of each data segment and whether it was marked.
fn randomly_marked(seed: u64) -> (Network, Vec<(u64, u64, bool)>) {
    let mut net = Network::new(DCTCP, TcpParams::default());
    let marks = Rc::new(RefCell::new(Vec::new()));
    let noted = marks.clone();
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut at = 1;
    // Spells of heavy and of light marking.
    let mut probability = 0.5;
    net.forward.fate = Box::new(move |_, segment| {
        if segment.payload.is_empty() {
            return Fate::Pass;
        }
        if rng.random_bool(0.005) {
            probability = [0.0, 0.02, 0.2, 0.9][rng.random_range(0..4)];
        }
        let marked = rng.random_bool(probability);
        let end = at + u64::from(segment.sequence_length());
        noted.borrow_mut().push((at, end, marked));
        at = end;
        Fate::Mark.when(marked)
    });
    net.transfer(3_000_000);
    net.run_and_check();
    assert_eq!(net.pairs[0].left.statistics().sender.retransmitted, 0);
    let marks = marks.take();
    (net, marks)
}

/// RFC 8257 3.3 computed from what the network marked, not from what the receiver echoed: over every
/// observation window, F is the fraction of bytes that travelled in marked segments, and alpha is
/// (1 - g) alpha + g F. And the window is cut at most once per window of data, by alpha / 2.
#[test]
fn the_alpha_trace_is_the_recurrence_over_the_marks_of_the_network() {
    let g = TcpParams::default().dctcp_gain;
    for seed in 0..12 {
        let (net, marks) = randomly_marked(seed);
        let marked_bytes = |from: u64, to: u64| -> u64 {
            let in_window =
                |&&(start, _, marked): &&(u64, u64, bool)| marked && (from..to).contains(&start);
            marks
                .iter()
                .filter(in_window)
                .map(|(start, end, _)| end - start)
                .sum()
        };
        let (mut alpha, mut from, mut window_end) = (1.0, 1, 0);
        let mut expected = vec![alpha];
        for &(_, ack, next, _) in &net.acks {
            // With ACKs as they are, a window ends where an ACK does.
            if ack > window_end && ack > from {
                let fraction = marked_bytes(from, ack) as f64 / (ack - from) as f64;
                alpha = (1.0 - g) * alpha + g * fraction;
                expected.push(alpha);
                (from, window_end) = (ack, next);
            }
        }
        let mut seen: Vec<f64> = net
            .trace
            .iter()
            .filter_map(|&(_, alpha, _)| alpha)
            .collect();
        seen.dedup();
        expected.dedup();
        assert!(
            expected.len() > 80,
            "seed {seed}: {} windows",
            expected.len()
        );
        assert_eq!(seen, expected, "seed {seed}");

        let mut reduced_until = 0;
        let mut reductions = 0;
        for pair in net.trace.windows(2) {
            let [(_, _, before), (at, alpha, after)] = pair else {
                unreachable!()
            };
            if after >= before {
                continue;
            }
            reductions += 1;
            // Several ACKs may have arrived at one instant; the reduction belongs to one of them.
            let mut acks = net.acks.iter().filter(|(time, ..)| time == at);
            let (_, _, next, _) = acks
                .find(|(_, ack, _, ece)| *ece && *ack > reduced_until)
                .unwrap_or_else(|| panic!("seed {seed}: cut at {at:?}, twice in a window"));
            reduced_until = *next;
            let cut = *before as f64 * (1.0 - alpha.unwrap() / 2.0);
            assert_eq!(*after, (cut as u64).max(2 * 1460), "seed {seed} at {at:?}");
        }
        assert!(reductions > 20, "seed {seed}: {reductions}");
    }
}

#[test]
fn marked_bytes_are_echoed_exactly_with_delayed_acks() {
    let mut net = long_flows(DCTCP, 2, 2_000_000);
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
    let mut net = long_flows(DCTCP, 8, 1_000_000);
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

/// An algorithm that exists only here: a constant window, no losses found by reordering, and the
/// network's word for those there are. What a DeTail or FastLane variant needs, and the core does
/// not know of it.
const CONSTANT: Algorithm = Algorithm {
    start: |_, mut window| {
        window.reduce_to(6 * 1460);
        Box::new(Constant(window))
    },
    ..Algorithm::BASE
};

#[derive(Debug)]
struct Constant(Window);

impl CongestionControl for Constant {
    fn on_ack(&mut self, _: &Acknowledgment) -> bool {
        false
    }
    fn on_loss(&mut self, _: u64, _: u64) {
        panic!("nothing is taken for a loss");
    }
    fn on_timeout(&mut self, _: u64, _: u64, _: bool) {}
    fn on_idle(&mut self) {}
    fn duplicate_ack_threshold(&self, _: u32) -> Option<u32> {
        None
    }
    fn window(&self) -> &Window {
        &self.0
    }
    fn window_mut(&mut self) -> &mut Window {
        &mut self.0
    }
}

#[test]
fn another_algorithm_needs_nothing_but_itself() {
    for sack in [true, false] {
        let params = TcpParams {
            sack,
            ..TcpParams::default()
        };
        let mut net = Network::new(CONSTANT, params);
        // Every eleventh segment comes after the ten that follow it: deep reordering.
        net.forward.fate = Box::new(|n, _| match n % 11 {
            3 => Fate::Late(Duration::from_micros(120)),
            _ => Fate::Pass,
        });
        net.transfer(500_000);
        net.run_and_check();
        let sender = net.pairs[0].left.statistics().sender;
        assert_eq!(
            (sender.retransmitted, sender.loss_episodes),
            (0, 0),
            "sack {sack}"
        );
        let windows: Vec<u64> = net
            .trace
            .iter()
            .map(|entry| entry.2)
            .filter(|w| *w > 0)
            .collect();
        assert_eq!(windows, [6 * 1460]);
        // The same reordering costs Reno retransmissions: the test can fail.
        net = Network::new(
            RENO,
            TcpParams {
                sack,
                ..TcpParams::default()
            },
        );
        net.forward.fate = Box::new(|n, _| match n % 11 {
            3 => Fate::Late(Duration::from_micros(120)),
            _ => Fate::Pass,
        });
        net.transfer(500_000);
        net.run_and_check();
        assert!(net.pairs[0].left.statistics().sender.retransmitted > 0);
    }
}
