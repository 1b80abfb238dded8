//! SCDP over the network of `crate::testing`.

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, PacketType};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::record::{Role, Status};
use crate::testing::{Fate, Network, PortParams};

const SYMBOL: u64 = 1432;
const WINDOW: u64 = 12;

fn network(hosts: usize) -> Network {
    with_params(hosts, ScdpParams::default())
}

fn with_params(hosts: usize, params: ScdpParams) -> Network {
    let make = move |config| ScdpHost::new(config, params.clone());
    Network::new(hosts, PortParams::default(), make)
}

fn is_symbol(header: &EbbHeader) -> bool {
    header.packet_type == PacketType::Symbol
}

#[test]
fn without_trims_pulls_are_k_less_the_window_and_nothing_is_decoded() {
    for packets in [1, 2, 12, 13, 50, 99, 100, 101, 250, 700] {
        let mut net = network(2);
        net.send(0, 1, packets * SYMBOL);
        net.run();
        let (sent, received) = net.pair(0, 1);
        assert_eq!(sent.counters.packets_sent, packets);
        assert_eq!(sent.counters.repair_symbols, 0);
        assert_eq!(received.counters.pulls_sent, packets.saturating_sub(WINDOW));
        assert_eq!(received.counters.decodes, 0);
        assert_eq!((sent.counters.timeouts, received.counters.timeouts), (0, 0));
    }
}

#[test]
fn with_t_trims_a_block_costs_k_plus_2_plus_t() {
    for (packets, trims) in [
        (1, 1),
        (5, 5),
        (12, 3),
        (50, 1),
        (50, 10),
        (100, 30),
        (100, 100),
    ] {
        let mut net = network(2);
        let mut trimmed = 0;
        net.fate = Box::new(move |_, header| {
            let trim = is_symbol(header) && trimmed < trims;
            trimmed += u64::from(trim);
            if trim { Fate::Trim } else { Fate::Pass }
        });
        net.send(0, 1, packets * SYMBOL);
        net.run();
        let (sent, received) = net.pair(0, 1);
        let window = WINDOW.min(packets);
        assert_eq!(received.counters.trimmed, trims, "{packets} {trims}");
        assert_eq!(
            sent.counters.packets_sent,
            packets + 2 + trims,
            "{packets} {trims}"
        );
        assert_eq!(received.counters.pulls_sent, packets + 2 + trims - window);
        assert_eq!(received.counters.decodes, 1);
        assert_eq!((sent.counters.timeouts, received.counters.timeouts), (0, 0));
        assert_eq!(received.counters.duplicates, 0);
    }
}

#[test]
fn every_block_with_a_loss_costs_two_symbols_more() {
    let mut net = network(2);
    // One symbol of each of the blocks 0, 3 and 6 of seven.
    net.fate = Box::new(|_, header| {
        let hit = is_symbol(header) && header.block % 3 == 0 && header.symbol == 17;
        if hit { Fate::Trim } else { Fate::Pass }
    });
    net.send(0, 1, 700 * SYMBOL - 100);
    net.run();
    let (sent, received) = net.pair(0, 1);
    assert_eq!(received.counters.decodes, 3);
    assert_eq!(sent.counters.packets_sent, 700 + 3 * 3);
    assert_eq!(sent.counters.repair_symbols, 9);
    assert_eq!(received.counters.pulls_sent, 709 - WINDOW);
    assert_eq!((sent.counters.timeouts, received.counters.timeouts), (0, 0));
}

#[test]
fn odd_sizes_arrive_whole_also_when_decoded() {
    for bytes in [
        0,
        1,
        SYMBOL - 1,
        SYMBOL + 1,
        100 * SYMBOL + 1,
        250 * SYMBOL - 7,
    ] {
        for trim_every in [7, 1_000_000] {
            let mut net = network(2);
            net.fate = Box::new(move |n, header| {
                if is_symbol(header) && n % trim_every == 0 {
                    Fate::Trim
                } else {
                    Fate::Pass
                }
            });
            net.send(0, 1, bytes);
            net.run();
            let (_, received) = net.pair(0, 1);
            assert_eq!(received.stream_bytes, bytes);
            assert!(received.counters.decodes > 0);
        }
    }
}

#[test]
fn levels_fall_with_the_bytes_sent() {
    let mut net = network(2);
    net.send(0, 1, 1_200_000);
    net.run();
    let symbols: Vec<u8> = net
        .log
        .iter()
        .map(|(_, _, h)| h)
        .filter(|h| is_symbol(h))
        .map(|h| h.level)
        .collect();
    assert_eq!(symbols.iter().position(|&level| level == 1), Some(7)); // 10 KB / 1432
    assert_eq!(symbols.iter().position(|&level| level == 2), Some(70));
    assert_eq!(symbols.iter().position(|&level| level == 3), Some(699));
    // What answers the pull for the last symbol is most urgent again.
    assert_eq!(symbols.last(), Some(&0));
}

#[test]
fn a_lost_symbol_is_replaced_after_the_timeout() {
    let mut net = network(2);
    net.fate = Box::new(|_, header| {
        if is_symbol(header) && header.symbol == 3 {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    net.send(0, 1, 100 * SYMBOL);
    net.run();
    let (sent, received) = net.pair(0, 1);
    assert_eq!(sent.counters.packets_sent, 103);
    assert!(received.counters.timeouts >= 1);
    assert_eq!(received.counters.decodes, 1);
}

#[test]
fn a_wholly_lost_window_is_recovered() {
    let mut net = network(2);
    net.fate = Box::new(|n, _| if n < 12 { Fate::Drop } else { Fate::Pass });
    net.send(0, 1, 100 * SYMBOL);
    net.run();
    let (sent, _) = net.pair(0, 1);
    // The eleven that the receiver never heard of, the probe, and the overhead.
    assert!(
        sent.counters.packets_sent <= 100 + 12 + 2 + 2,
        "{}",
        sent.counters.packets_sent
    );
}

#[test]
fn lost_pulls_are_made_up_for_by_later_ones() {
    let mut net = network(2);
    let mut pulls = 0;
    net.fate = Box::new(move |_, header| {
        let pull = header.packet_type == PacketType::Pull;
        pulls += u32::from(pull);
        // The last one, the 189th, confirms.
        if pull && pulls % 4 == 2 {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    net.send(0, 1, 200 * SYMBOL);
    net.run();
    let (sent, received) = net.pair(0, 1);
    assert_eq!(sent.counters.packets_sent, 200);
    assert_eq!(received.counters.decodes, 0);
}

#[test]
fn duplicated_and_reordered_pulls_never_make_the_sender_send_more() {
    let mut net = network(2);
    let mut rng = SmallRng::seed_from_u64(3);
    net.fate = Box::new(move |n, header| match header.packet_type {
        PacketType::Pull if n % 2 == 0 => Fate::Duplicate,
        PacketType::Pull => Fate::Late(Duration::from_micros(rng.random_range(0..200))),
        _ => Fate::Pass,
    });
    net.send(0, 1, 300 * SYMBOL);
    net.run();
    let (sent, received) = net.pair(0, 1);
    assert_eq!(sent.counters.packets_sent, 300);
    assert_eq!(sent.counters.pulls_received, received.counters.pulls_sent);
}

#[test]
fn a_lost_confirmation_is_asked_for() {
    for packets in [5, 50] {
        let mut net = network(2);
        let mut confirmations = 0;
        net.fate = Box::new(move |_, header| {
            let confirms = header.packet_type == PacketType::Pull
                && header.flags.contains(EbbFlags::FIN)
                && header.block == 1;
            confirmations += u32::from(confirms);
            if confirms && confirmations == 1 {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
        net.send(0, 1, packets * SYMBOL);
        net.run();
        let (sent, received) = net.pair(0, 1);
        assert_eq!((sent.counters.timeouts, received.counters.timeouts), (1, 0));
        assert_eq!(sent.counters.packets_sent, packets + 1);
        assert_eq!(
            net.records.len(),
            2,
            "the probe opened a session: {:#?}",
            net.records
        );
    }
}

#[test]
fn any_mixture_of_loss_trims_duplicates_and_reordering_ends_well() {
    for seed in 0..30 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut net = network(2);
        net.fate = Box::new(move |_, header| match rng.random_range(0..100) {
            0..3 => Fate::Drop,
            3..8 if is_symbol(header) => Fate::Trim,
            8..12 => Fate::Duplicate,
            12..30 => Fate::Late(Duration::from_micros(rng.random_range(1..300))),
            _ => Fate::Pass,
        });
        net.send(0, 1, 250 * SYMBOL + seed);
        net.run();
        net.pair(0, 1);
        assert_eq!(net.records.len(), 2, "seed {seed}");
    }
}

#[test]
fn an_incast_of_eight_has_no_timeout_and_loses_nothing() {
    let mut net = network(9);
    for sender in 0..8 {
        net.send(sender, 8, 100_000);
    }
    net.run();
    assert!(
        net.ports[8].trims > 50,
        "{} trims: no incast",
        net.ports[8].trims
    );
    assert_eq!(net.ports[8].drops, 0);
    let mut last = 0;
    for sender in 0..8 {
        let (sent, received) = net.pair(sender, 8);
        let (t, lossy) = (received.counters.trimmed, received.counters.trimmed > 0);
        assert_eq!((sent.counters.timeouts, received.counters.timeouts), (0, 0));
        assert_eq!(
            sent.counters.packets_sent,
            70 + t + if lossy { 2 } else { 0 }
        );
        last = last.max(received.finished_at_ns);
    }
    assert!(last < 8_000_000, "{last}");
}

#[test]
fn flows_to_one_receiver_share_its_link_fairly() {
    let mut net = network(6);
    for sender in 0..5 {
        net.send(sender, 5, 4_000_000);
    }
    net.run_until(Instant::from_micros(50_000));
    let bytes: Vec<f64> = net.delivered.values().map(|b| b.len() as f64).collect();
    let sum: f64 = bytes.iter().sum();
    let jain = sum * sum / (bytes.len() as f64 * bytes.iter().map(|b| b * b).sum::<f64>());
    assert_eq!(bytes.len(), 5);
    assert!(jain > 0.98, "{jain} {bytes:?}"); // delivered in whole blocks
    assert!(sum * 8.0 / 0.05 > 0.85e9, "{sum}");
}

#[test]
fn a_peer_that_vanishes_gives_a_failed_record_on_the_other_side() {
    for (vanishes, role) in [(1, Role::Sender), (0, Role::Receiver)] {
        let mut net = network(2);
        net.send(0, 1, 1_000_000);
        net.run_until(Instant::from_micros(2_000));
        net.unplug(vanishes);
        net.run();
        let record = &net
            .records
            .iter()
            .find(|(_, _, r)| r.role == role)
            .unwrap()
            .2;
        assert!(
            matches!(&record.status, Status::Failed(why) if why.contains("silent")),
            "{record:#?}"
        );
        assert!(net.now < Instant::from_micros(4_900_000), "{:?}", net.now);
        assert!(!net.transport(0).is_active() && !net.transport(1).is_active());
    }
}

#[test]
fn a_receiver_holds_a_bounded_number_of_blocks() {
    let params = ScdpParams {
        block_symbols: 4,
        max_open_blocks: 3,
        ..ScdpParams::default()
    };
    let mut net = with_params(2, params);
    // Block 0 cannot complete for a while: all its symbols are trimmed at first.
    net.fate = Box::new(|n, header| {
        if is_symbol(header) && header.block == 0 && n < 20 {
            Fate::Trim
        } else {
            Fate::Pass
        }
    });
    net.send(0, 1, 200 * SYMBOL);
    net.run();
    net.pair(0, 1);
}
