//! Many blocks at a time: decoding elsewhere, back-pressure, sharing the link, closing.

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, PacketType};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::record::{Role, Status};
use crate::testing::{Fate, Network, PortParams, address, ebb_packet};
use crate::{FlowId, JobResult};

const SYMBOL: u64 = 1432;

fn with_params(hosts: usize, params: ScdpParams) -> Network {
    let make = move |config| ScdpHost::new(config, params.clone());
    Network::new(hosts, PortParams::default(), make)
}

fn network(hosts: usize) -> Network {
    with_params(hosts, ScdpParams::default())
}

fn is_symbol(header: &EbbHeader) -> bool {
    header.packet_type == PacketType::Symbol
}

/// One symbol of every block is trimmed.
fn one_of_each_block(header: &EbbHeader) -> Fate {
    Fate::Trim.when(is_symbol(header) && header.symbol == 17)
}

/// Encoders are made at once.
fn slow_decoder(
    mut takes: impl FnMut() -> Duration + 'static,
) -> Box<dyn FnMut(&JobResult) -> Duration> {
    Box::new(move |result| match result.role() {
        Role::Sender => Duration::ZERO,
        Role::Receiver => takes(),
    })
}

/// The flow at the receiver, host 1.
fn receiver_flow(net: &Network) -> FlowId {
    net.delivered.keys().find(|(host, _)| *host == 1).unwrap().1
}

fn delivered(net: &Network) -> usize {
    net.delivered.values().map(Vec::len).sum()
}

#[test]
fn decodings_come_back_late_and_in_any_order_without_stopping_the_pulls() {
    let mut durations = Vec::new();
    for slow in [false, true] {
        let mut net = network(2);
        net.fate = Box::new(|_, header| one_of_each_block(header));
        if slow {
            let mut rng = SmallRng::seed_from_u64(5);
            // Up to eight blocks' time.
            net.job_takes =
                slow_decoder(move || Duration::from_micros(rng.random_range(1..10_000)));
        }
        net.send(0, 1, 2000 * SYMBOL);
        net.run();
        let (sent, received) = net.pair(0, 1);
        assert_eq!((net.jobs, sent.counters.encodes), (40, 20));
        assert_eq!(received.counters.decodes, 20);
        assert_eq!(sent.counters.packets_sent, 2000 + 20 * 3);
        assert_eq!((sent.counters.timeouts, received.counters.timeouts), (0, 0));
        durations.push(received.duration_ns);
    }
    // Only the last blocks are waited for.
    assert!(durations[1] < durations[0] + 11_000_000, "{durations:?}");
}

#[test]
fn with_all_open_blocks_at_the_decoder_nothing_more_is_asked_for_and_nobody_gives_up() {
    let params = ScdpParams {
        max_open_blocks: 4,
        ..ScdpParams::default()
    };
    let mut net = with_params(2, params);
    net.fate = Box::new(|_, header| one_of_each_block(header));
    // Longer than any side waits for a silent peer.
    net.job_takes = slow_decoder(|| Duration::from_millis(900));
    net.send(0, 1, 1000 * SYMBOL);
    net.run_until(Instant::from_micros(890_000));
    assert_eq!(delivered(&net), 0);
    let highest = net.log.iter().map(|(_, _, h)| h).filter(|h| is_symbol(h));
    assert!(highest.map(|h| h.block).max().unwrap() <= 4);
    net.run();
    let (sent, received) = net.pair(0, 1);
    assert_eq!(received.counters.decodes, 10);
    assert_eq!(
        sent.counters.packets_sent - sent.counters.retransmitted,
        1030
    );
}

#[test]
fn a_receiver_of_a_group_is_not_detached_for_decoding_slowly() {
    let mut net = network(4);
    net.fate_to = Box::new(|host, header| match host {
        2 => one_of_each_block(header),
        _ => Fate::Pass,
    });
    // Twice `straggler_timeout_ns`, but far fewer blocks at a time than may be open.
    net.job_takes = slow_decoder(|| Duration::from_millis(15));
    net.send_to_all(3000 * SYMBOL);
    net.run();
    assert!(net.detached.is_empty());
    for host in 1..4 {
        net.finished(Role::Receiver, 0, host);
    }
}

#[test]
fn a_paused_receiver_asks_for_nothing_and_neither_side_gives_up() {
    let mut net = network(2);
    net.send(0, 1, 2000 * SYMBOL);
    net.run_until(Instant::from_micros(3000));
    let flow = receiver_flow(&net);
    let now = net.now;
    net.transport(1).set_paused(now, flow, true);
    // Packets under way still arrive.
    net.run_until(now + Duration::from_millis(1));
    let (got, pulls) = (delivered(&net), highest_pull(&net));
    net.run_until(now + Duration::from_millis(5000));
    assert_eq!((delivered(&net), highest_pull(&net)), (got, pulls));
    assert!(net.records.is_empty());
    let now = net.now;
    net.transport(1).set_paused(now, flow, false);
    net.inject(1, &[]);
    net.run();
    let (sent, received) = net.pair(0, 1);
    assert_eq!(received.counters.decodes, 0);
    assert_eq!(received.counters.timeouts, 0);
    assert_eq!(received.counters.pulls_sent, 2000 - 12);
    let asked = sent.counters.retransmitted;
    assert!((10..100).contains(&asked), "{asked} questions in 5 s");
}

fn highest_pull(net: &Network) -> u32 {
    let pulls = net.log.iter().map(|(_, _, h)| h);
    let pulls = pulls.filter(|h| h.packet_type == PacketType::Pull);
    pulls.map(|h| h.pull).max().unwrap_or(0)
}

#[test]
fn pausing_before_the_first_pull_and_often_does_no_harm() {
    let mut net = network(2);
    net.send(0, 1, 500 * SYMBOL);
    while net.delivered.is_empty() {
        let now = net.now;
        net.run_until(now + Duration::from_micros(1));
    }
    let flow = receiver_flow(&net);
    for round in 0..40 {
        let now = net.now;
        net.transport(1).set_paused(now, flow, round % 2 == 0);
        net.inject(1, &[]);
        let ms = if round < 4 { 700 } else { 1 };
        net.run_until(now + Duration::from_millis(ms));
    }
    net.run();
    let (_, received) = net.pair(0, 1);
    assert_eq!(received.counters.decodes, 0);
    assert_eq!(received.counters.pulls_sent, 500 - 12);
}

#[test]
fn a_many_to_one_flow_can_be_paused_before_anybody_sends() {
    let mut net = network(3);
    let flow = net.expect(1, &[0, 2]);
    let now = net.now;
    net.transport(1).set_paused(now, flow, true);
    net.send_part(1, &[0, 2], 0, 500 * SYMBOL);
    net.send_part(1, &[0, 2], 1, 500 * SYMBOL);
    net.run_until(Instant::from_micros(3_000_000));
    assert_eq!(highest_pull(&net), 0);
    assert!(net.records.is_empty());
    let now = net.now;
    net.transport(1).set_paused(now, flow, false);
    net.inject(1, &[]);
    net.run();
    let (_, received) = net.pair(0, 1);
    assert_eq!(received.counters.pulls_sent, 500 - 12);
}

#[test]
fn both_ends_know_how_far_they_are() {
    let mut net = network(2);
    let flow = net.send(0, 1, 1000 * SYMBOL);
    let mut last = (0, 0);
    for _ in 0..100 {
        let now = net.now;
        net.run_until(now + Duration::from_micros(100));
        let got = delivered(&net) as u64;
        let Some(here) = net.transport(0).progress(flow) else {
            break;
        };
        assert_eq!(here.total_bytes, Some(1000 * SYMBOL));
        let there = match got {
            0 => 0,
            _ => {
                let flow = receiver_flow(&net);
                net.transport(1).progress(flow).unwrap().done_bytes
            }
        };
        assert_eq!(there, got);
        assert!(here.done_bytes <= there && there - here.done_bytes <= 100 * SYMBOL);
        assert!((here.done_bytes, there) >= last);
        last = (here.done_bytes, there);
    }
    assert!(last.0 > 500 * SYMBOL, "{last:?}");
    net.run();
    assert_eq!(net.transport(0).progress(flow), None);
}

/// Jain's index of the pulls that sessions of one host sent in an interval.
#[test]
fn pulls_of_equal_sessions_are_shared_out_evenly() {
    for sessions in [2, 5, 12] {
        let mut net = network(sessions + 1);
        for sender in 0..sessions {
            net.send(sender, sessions, 6_000_000);
        }
        net.run_until(Instant::from_micros(2_000));
        let from = net.log.len();
        net.run_until(Instant::from_micros(30_000));
        let mut pulls = std::collections::BTreeMap::new();
        for (_, _, header) in &net.log[from..] {
            if header.packet_type == PacketType::Pull {
                *pulls.entry(header.destination_port).or_insert(0.0) += 1.0;
            }
        }
        let shares: Vec<f64> = pulls.into_values().collect();
        assert_eq!(shares.len(), sessions);
        let (sum, squares) = shares
            .iter()
            .fold((0.0, 0.0), |(sum, squares), n| (sum + n, squares + n * n));
        let jain = sum * sum / (sessions as f64 * squares);
        assert!(jain >= 0.99, "{jain} {shares:?}");
        assert!(sum > 2000.0, "{sum}");
    }
}

#[test]
fn a_host_short_of_memory_takes_one_block_of_each_flow_at_a_time() {
    let params = ScdpParams {
        max_buffer_bytes: 200 * SYMBOL,
        ..ScdpParams::default()
    };
    let mut net = with_params(4, params);
    net.fate = Box::new(|_, header| one_of_each_block(header));
    // Longer than a block, so that there would be many.
    net.job_takes = slow_decoder(|| Duration::from_millis(10));
    for sender in 0..3 {
        net.send(sender, 3, 600 * SYMBOL);
    }
    net.run();
    for sender in 0..3 {
        net.pair(sender, 3);
    }
}

#[test]
fn an_ended_session_is_forgotten_only_after_it_has_lingered() {
    let mut net = network(2);
    net.send(0, 1, 50 * SYMBOL);
    net.run_until(Instant::from_micros(5_000));
    let (_, received) = net.pair(0, 1);
    assert!(!net.transport(0).is_active());
    assert!(net.transport(1).is_active());
    // A late symbol is answered and opens nothing.
    let first = net.log.iter().find(|(_, _, h)| is_symbol(h)).unwrap().2;
    let late = |net: &mut Network| {
        let before = net.log.len();
        let payload = vec![0; usize::from(first.payload_bytes)];
        net.inject(1, &ebb_packet(address(0), address(1), 10, &first, &payload));
        let now = net.now;
        net.run_until(now + Duration::from_micros(50));
        net.log[before..]
            .first()
            .map(|(_, _, h)| (h.packet_type, h.flags))
    };
    assert_eq!(late(&mut net), Some((PacketType::Pull, EbbFlags::FIN)));
    assert_eq!(net.delivered.len(), 1);
    let linger = Duration::from_nanos(ScdpParams::default().linger_ns);
    let ended = Instant::from_nanos(received.finished_at_ns);
    net.run_until(ended + linger);
    assert!(net.transport(1).is_active());
    net.run();
    assert!(!net.transport(1).is_active());
    assert!(net.now > ended + linger);
}

#[test]
fn every_symbol_of_the_window_opens_the_session_alone() {
    for survivor in 0..12 {
        let mut net = network(2);
        net.fate = Box::new(move |n, _| match n {
            n if n < 12 && n != survivor => Fate::Drop,
            _ => Fate::Pass,
        });
        net.send(0, 1, 100 * SYMBOL);
        net.run();
        let (sent, _) = net.pair(0, 1);
        // The eleven, two more, and one or two questions.
        assert!(sent.counters.packets_sent <= 100 + 11 + 2 + 2);
    }
}

#[test]
fn the_entropy_of_every_packet_is_drawn_anew() {
    let mut net = network(2);
    net.send(0, 1, 500 * SYMBOL);
    net.run();
    for packet_type in [PacketType::Symbol, PacketType::Pull] {
        let of_type = net
            .log
            .iter()
            .filter(|(_, _, h)| h.packet_type == packet_type);
        let mut entropies: Vec<u16> = of_type.map(|(_, _, h)| h.entropy).collect();
        let all = entropies.len();
        entropies.sort_unstable();
        entropies.dedup();
        // 500 of 65536: two of them are alike now and then.
        assert!(
            entropies.len() * 100 > all * 97,
            "{} of {all}",
            entropies.len()
        );
    }
}

#[test]
fn a_thousand_sessions_at_once_all_end_well() {
    let mut net = network(3);
    for n in 0..1000 {
        net.send(n % 2, 2, 20 * SYMBOL);
    }
    net.run();
    assert_eq!(net.records.len(), 2000);
    let bad = net
        .records
        .iter()
        .find(|(_, _, r)| r.status != Status::Finished);
    assert!(bad.is_none(), "{bad:#?}");
}
