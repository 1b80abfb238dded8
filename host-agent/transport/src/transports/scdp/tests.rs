//! SCDP over the network of `crate::testing`.

use ebb_units::Duration;
use ebb_wire::{EbbFlags, PacketType};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
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
            Fate::Trim.when(trim)
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
        Fate::Trim.when(hit)
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
                Fate::Trim.when(is_symbol(header) && n % trim_every == 0)
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
    // The answer to the pull for the last symbol is most urgent again.
    assert_eq!(symbols.last(), Some(&0));
}

#[test]
fn a_lost_symbol_is_replaced_after_the_timeout() {
    let mut net = network(2);
    net.fate = Box::new(|_, header| Fate::Drop.when(is_symbol(header) && header.symbol == 3));
    net.send(0, 1, 100 * SYMBOL);
    net.run();
    let (sent, received) = net.pair(0, 1);
    assert_eq!(sent.counters.packets_sent, 103);
    // 3 ms at 1 Gbit/s, and the first timeout: later symbols have shown that it is lost.
    assert_eq!(received.counters.timeouts, 1);
    assert!(received.duration_ns < 14_000_000, "{received:?}");
    assert_eq!(received.counters.decodes, 1);
}

#[test]
fn a_lost_end_is_asked_for_after_one_timeout() {
    for lost in [1, 5, WINDOW] {
        let mut net = network(2);
        net.fate = Box::new(move |_, header| {
            let at_end = u64::from(header.symbol) >= 100 - lost && header.symbol < 100;
            Fate::Drop.when(is_symbol(header) && at_end)
        });
        net.send(0, 1, 100 * SYMBOL);
        net.run();
        let (sent, received) = net.pair(0, 1);
        // Those lost, and two beyond K.
        assert_eq!(sent.counters.packets_sent, 100 + lost + 2);
        assert_eq!(received.counters.timeouts, 1);
        assert!(received.duration_ns < 14_000_000, "{received:?}");
    }
}

#[test]
fn lost_repair_symbols_are_asked_for_after_one_timeout() {
    let mut net = network(2);
    let mut repairs = 0;
    net.fate = Box::new(move |_, header| {
        let repair = header.flags.contains(EbbFlags::REPAIR);
        repairs += u32::from(repair);
        match () {
            () if repair => Fate::Drop.when((2..6).contains(&repairs)),
            () => Fate::Trim.when(is_symbol(header) && header.symbol % 10 == 0),
        }
    });
    net.send(0, 1, 100 * SYMBOL);
    net.run();
    let (sent, received) = net.pair(0, 1);
    assert_eq!(sent.counters.packets_sent, 100 + 10 + 4 + 2);
    assert_eq!(received.counters.timeouts, 1);
    assert!(received.duration_ns < 14_000_000, "{received:?}");
}

#[test]
fn lost_pulls_are_made_up_for_by_later_ones() {
    let mut net = network(2);
    let mut pulls = 0;
    net.fate = Box::new(move |_, header| {
        let pull = header.packet_type == PacketType::Pull;
        pulls += u32::from(pull);
        // The last one, the 189th, confirms.
        Fate::Drop.when(pull && pulls % 4 == 2)
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
            Fate::Drop.when(confirms && confirmations == 1)
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
fn a_receiver_holds_a_bounded_number_of_blocks() {
    let params = ScdpParams {
        block_symbols: 4,
        max_open_blocks: 3,
        ..ScdpParams::default()
    };
    let mut net = with_params(2, params);
    // Block 0 cannot complete for a while: all its symbols are trimmed at first.
    net.fate =
        Box::new(|n, header| Fate::Trim.when(is_symbol(header) && header.block == 0 && n < 20));
    net.send(0, 1, 200 * SYMBOL);
    net.run();
    net.pair(0, 1);
}
