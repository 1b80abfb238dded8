//! pFabric's senders whose switches tell of drops: probes, how much goes again, and what claims can do.

use std::collections::BTreeMap;

use ebb_units::{Duration, Instant};

use super::congestion::pfabric::{algorithm_of, params_of};
use super::testing::{Fate, Network, notification};
use super::*;
use crate::transports::Suite;

const MSS: u64 = 1460;

fn suite() -> Suite {
    let mut suite = Suite::default();
    suite.pfabric.notified = true;
    suite
}

/// A network that tells of a drop after 15 us; the timer expires after 250.
fn network() -> Network {
    let mut net = Network::new(algorithm_of(&suite()), params_of(&suite()));
    net.notification_delay = Some(Duration::from_micros(15));
    net
}

fn sender(net: &Network) -> SenderCounters {
    net.pairs[0].left.statistics().sender
}

/// Segments of pair 0 with payload: when, from which byte, how much.
fn data(net: &Network) -> Vec<(Instant, u32, usize)> {
    let sent = net.sent.iter().filter(|(_, s)| !s.payload.is_empty());
    sent.map(|(at, s)| (*at, s.seq, s.payload.len())).collect()
}

#[test]
fn what_was_dropped_goes_again_once_a_probe_is_answered() {
    let mut net = network();
    net.forward.fate = Box::new(|n, _| Fate::Drop.when(n == 5));
    net.transfer(40 * MSS);
    net.run_and_check();
    let counters = sender(&net);
    assert_eq!((counters.timeouts, counters.loss_episodes), (0, 1));
    assert_eq!(
        (counters.retransmitted, counters.fast_retransmitted),
        (2, 2)
    );
    let data = data(&net);
    let place = data.iter().position(|(_, _, bytes)| *bytes == 1);
    let probe = data[place.expect("a probe")];
    let copies: Vec<_> = data
        .iter()
        .filter(|(_, seq, bytes)| seq.wrapping_add(*bytes as u32) == probe.1.wrapping_add(1))
        .collect();
    let [original, _, again] = copies[..] else {
        panic!("{copies:?}");
    };
    assert_eq!((original.1, original.2), (again.1, again.2));
    // The network tells 15 us after the packet would have been there.
    let (asked, waited) = (probe.0.since(original.0), again.0.since(probe.0));
    let round_trip = Duration::from_micros(40);
    assert!(asked < Duration::from_micros(250) && waited >= round_trip);
    assert!(waited < Duration::from_micros(250), "{waited}");
}

#[test]
fn one_goes_again_at_first_and_twice_as_many_with_each_round_trip() {
    let mut net = network();
    net.forward.fate = Box::new(|n, _| match n {
        1..=12 => Fate::Drop,
        _ => Fate::Pass,
    });
    net.transfer(12 * MSS);
    net.run_and_check();
    assert_eq!(sender(&net).timeouts, 0);
    let data = data(&net);
    let after = |at: usize| data[at].0.since(data[at - 1].0) >= Duration::from_micros(20);
    let rounds: Vec<usize> = (13..data.len()).filter(|at| after(*at)).collect();
    // A probe, then 1, 2, 4 and what is left.
    let sizes: Vec<usize> = rounds.windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!(sizes[..3], [1, 2, 4], "{rounds:?}");
    assert_eq!(data.len(), 12 + 1 + 12);
}

#[test]
fn a_probe_that_is_dropped_is_sent_again_and_no_timeout_comes() {
    for times in 1..=4 {
        let mut net = network();
        let mut left = times;
        net.forward.fate = Box::new(move |n, segment| {
            let probe = segment.payload.len() == 1 && left > 0;
            left -= u32::from(probe);
            Fate::Drop.when(probe || n == 5)
        });
        net.transfer(40 * MSS);
        net.run_and_check();
        let counters = sender(&net);
        assert_eq!(counters.timeouts, 0, "{times}");
        assert_eq!(counters.retransmitted, u64::from(times) + 2);
    }
}

#[test]
fn control_packets_go_again_at_once() {
    for which in 0..3 {
        let mut net = network();
        let mut left = 1;
        let fate = move |_: u64, segment: &Segment<'_>| {
            let is_it = match which {
                0 => segment.flags.syn,
                1 => segment.flags.fin && segment.payload.is_empty(),
                _ => segment.sequence_length() == 0,
            };
            let drops = is_it && left > 0;
            left -= u32::from(drops);
            Fate::Drop.when(drops)
        };
        net.forward.fate = Box::new(fate);
        net.transfer(0);
        net.run_and_check();
        let pair = &net.pairs[0];
        let statistics = [&pair.left, pair.right.as_ref().unwrap()].map(|c| c.statistics());
        assert_eq!(statistics.map(|s| s.sender.timeouts), [0, 0], "{which}");
    }
}

/// Eight senders begin at the same time, over a queue that holds 10 packets, so that no round trip is as
/// long as the timeout.
fn incast(tells: bool) -> Network {
    let mut net = network();
    net.notification_delay = tells.then_some(Duration::from_micros(40));
    net.forward.capacity_bytes = 15_000;
    for _ in 0..8 {
        net.transfer(60_000);
    }
    // An ACK of a repeated FIN may find its receiver gone, whose RST then ends TIME-WAIT early.
    net.run();
    for pair in &net.pairs {
        assert_eq!(pair.received, pair.expected);
        assert!(pair.left.stream_acked_at().is_some());
    }
    net
}

#[test]
fn an_incast_that_is_told_of_has_fewer_timeouts() {
    let timeouts = |net: &Network| -> u64 {
        let all = net.pairs.iter();
        all.map(|pair| pair.left.statistics().sender.timeouts).sum()
    };
    let (told, untold) = (incast(true), incast(false));
    assert!(told.forward.drops > 0);
    let (few, many) = (timeouts(&told), timeouts(&untold));
    assert!(few < many / 2, "{few} {many}");
}

#[test]
fn claims_about_every_packet_cost_one_probe_per_round_trip_and_no_more_segments() {
    let mut net = network();
    net.notification_delay = None;
    net.transfer(200_000);
    for us in (0..4_000).step_by(13) {
        let now = Instant::from_micros(us);
        net.run_until(now);
        if net.pairs[0].left.stream_acked_at().is_some() {
            break;
        }
        let latest = net.sent.iter().rev().take(30);
        let claims: Vec<_> = latest.map(|(_, segment)| notification(segment)).collect();
        for claim in claims {
            net.pairs[0]
                .left
                .handle_message(now, &Message::Dropped(claim));
        }
    }
    net.run_and_check();
    let round_trip = Duration::from_micros(40);
    let mut again: BTreeMap<(u32, usize), Vec<Instant>> = BTreeMap::new();
    let mut probes = Vec::new();
    for (at, seq, bytes) in data(&net) {
        match bytes {
            1 => probes.push(at),
            _ => again.entry((seq, bytes)).or_default().push(at),
        }
    }
    assert!(!probes.is_empty(), "the claims were heard");
    let apart = |times: &[Instant]| times.windows(2).all(|t| t[1].since(t[0]) >= round_trip);
    assert!(apart(&probes), "{probes:?}");
    // The first claim may be at once; after that a round trip passes.
    assert!(again.values().all(|times| apart(&times[1..])));
}

/// Whoever claims drops of a peer that is gone cannot keep a connection alive.
#[test]
fn claims_do_not_keep_a_connection_to_nobody() {
    let params = TcpParams {
        max_retries: 3,
        ..params_of(&suite())
    };
    let mut net = Network::new(algorithm_of(&suite()), params);
    net.forward.fate = Box::new(|n, _| if n < 20 { Fate::Pass } else { Fate::Drop });
    net.notification_delay = Some(Duration::from_micros(5));
    net.transfer(400_000);
    // 4 timeouts, and before each some notifications that put it off by as much.
    net.run_until(Instant::from_micros(100_000));
    let failure = net.pairs[0].left.failure();
    let expected = Some(Failure::RetransmissionTimeout { retries: 3 });
    assert_eq!(failure, expected);
}

#[test]
fn nothing_but_the_timer_is_heard_unless_it_is_asked_for() {
    let mut net = Network::new(
        algorithm_of(&Suite::default()),
        params_of(&Suite::default()),
    );
    net.notification_delay = Some(Duration::from_micros(15));
    net.forward.fate = Box::new(|n, _| Fate::Drop.when(n == 5));
    net.transfer(40 * MSS);
    net.run_and_check();
    assert_eq!((sender(&net).timeouts, sender(&net).retransmitted), (1, 1));
}
