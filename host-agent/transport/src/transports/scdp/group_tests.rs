//! One-to-many over the network of `crate::testing`. Host 0 sends, all others receive.

use std::collections::BTreeMap;
use std::sync::Arc;

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, PacketType};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::record::{FlowRecord, GroupSummary, Role, Status};
use crate::testing::{Fate, Network, PortParams, address};

const SYMBOL: u64 = 1432;
const WINDOW: u64 = 12;

fn network(hosts: usize) -> Network {
    let make = |config| ScdpHost::new(config, ScdpParams::default());
    Network::new(hosts, PortParams::default(), make)
}

fn is_symbol(header: &EbbHeader) -> bool {
    header.packet_type == PacketType::Symbol
}

#[test]
fn without_trims_every_symbol_is_sent_once_and_pulled_by_all() {
    for packets in [1, 12, 13, 100, 350] {
        let mut net = network(4);
        net.send_to_all(packets * SYMBOL);
        net.run();
        let sent = net.group_record();
        assert_eq!(sent.status, Status::Finished);
        assert_eq!(sent.counters.packets_sent, packets);
        assert_eq!(sent.counters.unneeded, 0);
        for received in net.receivers(1..4) {
            assert_eq!(received.counters.pulls_sent, packets.saturating_sub(WINDOW));
            assert_eq!(received.counters.decodes, 0);
            assert_eq!(received.counters.unneeded, 0);
            assert_eq!(received.counters.timeouts, 0);
        }
        assert_eq!(net.records.len(), 4);
        assert!((0..4).all(|i| !net.transport(i).is_active()));
    }
}

#[test]
fn packets_say_that_they_are_of_a_group_and_the_window_is_most_urgent() {
    let mut net = network(3);
    net.send_to_all(100 * SYMBOL);
    net.run();
    let symbols = || net.log.iter().filter(|(_, _, h)| is_symbol(h));
    for (n, (_, _, header)) in symbols().enumerate() {
        assert!(header.flags.contains(EbbFlags::MULTICAST));
        assert_eq!(header.multicast_group, 1);
        assert_eq!(header.flags.contains(EbbFlags::SYN), n < 12);
    }
    let levels: Vec<u8> = symbols().map(|(_, _, h)| h.level).collect();
    assert_eq!(levels[..12], [0; 12]);
    assert_eq!(levels[12], 1);
}

#[test]
fn what_one_receiver_lost_costs_it_k_plus_2_plus_t_and_is_unneeded_by_the_others() {
    let (packets, trims) = (100, 10);
    let mut net = network(4);
    let mut trimmed = 0;
    net.fate_to = Box::new(move |host, header| {
        let trim = host == 1 && is_symbol(header) && trimmed < trims;
        trimmed += u64::from(trim);
        Fate::Trim.when(trim)
    });
    net.send_to_all(packets * SYMBOL);
    net.run();
    let sent = net.group_record();
    assert_eq!(sent.status, Status::Finished);
    assert_eq!(sent.counters.packets_sent, packets + 2 + trims);
    // The others had finished before the first repair symbol left.
    assert_eq!(sent.counters.unneeded, 2 * (2 + trims));
    let received = net.receivers(1..4);
    let pulls: Vec<u64> = received.iter().map(|r| r.counters.pulls_sent).collect();
    let full = packets - WINDOW;
    assert_eq!(pulls, [full + 2 + trims, full, full]);
    assert_eq!(received[0].counters.decodes, 1);
    assert_eq!(received[1].counters.decodes, 0);
    assert_eq!(received[0].counters.unneeded, 0);
}

#[test]
fn in_the_middle_of_an_object_unneeded_symbols_are_pulled_like_others() {
    let mut net = network(3);
    // Host 1 loses of block 0, host 2 of block 2, of five.
    net.fate_to = Box::new(|host, header| {
        let of = [0, 0, 2][host];
        let hit = host > 0 && is_symbol(header) && header.block == of && header.symbol < 8;
        Fate::Trim.when(hit)
    });
    net.send_to_all(500 * SYMBOL - 9);
    net.run();
    let sent = net.group_record();
    assert_eq!(sent.counters.packets_sent, 500 + 2 * (8 + 2));
    for received in net.receivers(1..3) {
        assert_eq!(received.counters.unneeded, 10);
        assert_eq!(received.counters.trimmed, 8);
        assert_eq!(received.counters.decodes, 1);
        assert_eq!(received.counters.pulls_sent, 520 - WINDOW);
        assert_eq!(received.counters.timeouts, 0);
    }
}

/// No symbol reaches the switch before all receivers that are still served have pulled it.
fn assert_never_ahead_of_the_slowest(net: &Network, receivers: usize, blocks: u32) {
    let mut pulled: BTreeMap<_, u64> = (1..=receivers).map(|i| (address(i), 0)).collect();
    let mut sent = 0;
    for (_, src, header) in &net.log {
        if is_symbol(header) {
            sent += u64::from(!header.flags.contains(EbbFlags::RETRANSMIT));
            let least = pulled.values().min();
            if let Some(least) = least {
                assert!(sent <= WINDOW + least, "{sent} sent, {least} pulled");
            }
        } else if header.packet_type == PacketType::Pull && header.block == blocks {
            pulled.remove(src);
        } else if let Some(counter) = pulled.get_mut(src) {
            *counter = (*counter).max(header.pull.into());
        }
    }
}

#[test]
fn reordered_duplicated_and_lost_pulls_never_let_the_sender_run_ahead() {
    for seed in 0..5 {
        let mut net = network(4);
        let mut rng = SmallRng::seed_from_u64(seed);
        net.fate = Box::new(move |_, header| match rng.random_range(0..10) {
            _ if is_symbol(header) || header.block == 3 => Fate::Pass,
            0..4 => Fate::Late(Duration::from_micros(rng.random_range(0..200))),
            4..6 => Fate::Duplicate,
            6 => Fate::Drop,
            _ => Fate::Pass,
        });
        // Host 1 is farther away, so it pulls later.
        net.fate_to = Box::new(|host, header| match host {
            1 if is_symbol(header) => Fate::Late(Duration::from_micros(400)),
            _ => Fate::Pass,
        });
        net.send_to_all(300 * SYMBOL);
        net.run();
        let sent = net.group_record();
        assert_eq!(sent.counters.packets_sent, 300, "seed {seed}");
        net.receivers(1..4);
        assert_never_ahead_of_the_slowest(&net, 3, 3);
    }
}

#[test]
fn the_slowest_receiver_sets_the_pace() {
    // Host 3 is also busy with a flow from host 4, so its pulls come half as often.
    let mut net = network(5);
    net.send(4, 3, 20_000_000);
    net.run_until(Instant::from_micros(500));
    net.send_to(&[1, 2, 3], 2_000_000);
    net.run_until(Instant::from_micros(15_000));
    let got = |host: usize| -> u64 {
        let of = |&(&(h, _), _): &(&(usize, crate::FlowId), &Vec<u8>)| h == host;
        let bytes = net.delivered.iter().filter(of).map(|(_, b)| b.len() as u64);
        bytes.sum()
    };
    // Within the bounds of the window and of a block.
    let (one, two) = (got(1), got(2));
    assert!(one.abs_diff(two) <= 115 * SYMBOL, "{one} {two}");
    assert!(one < 1_300_000, "{one}: not held back");
    assert!(one > 500_000, "{one}: nothing arrives");
}

#[test]
fn any_mixture_of_loss_trims_and_reordering_gives_all_the_same_bytes() {
    for seed in 0..8 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut net = network(4);
        net.fate_to = Box::new(move |_, header| match rng.random_range(0..100) {
            0..2 => Fate::Drop,
            2..8 if is_symbol(header) => Fate::Trim,
            8..10 => Fate::Duplicate,
            10..30 => Fate::Late(Duration::from_micros(rng.random_range(1..300))),
            _ => Fate::Pass,
        });
        net.send_to_all(450 * SYMBOL + seed);
        net.run();
        net.receivers(1..4);
        assert_eq!(net.group_record().status, Status::Finished, "seed {seed}");
        let opened = net.delivered.len();
        assert_eq!(opened, 3, "seed {seed}: a session was opened twice");
    }
}

/// Records of the flows that stragglers were given.
fn of_stragglers(net: &Network) -> Vec<FlowRecord> {
    let is_straggler = |flow| net.detached.iter().any(|(f, _)| *f == flow);
    let records = net.records.iter();
    records
        .filter(|(host, flow, _)| *host == 0 && is_straggler(*flow))
        .map(|(_, _, record)| record.clone())
        .collect()
}

#[test]
fn a_straggler_is_detached_and_finished_with_repair_symbols_of_its_own() {
    let mut net = network(4);
    // Host 3 loses 40 copies in a row without a trace: more than the window.
    let mut copies = 0;
    net.fate_to = Box::new(move |host, header| {
        copies += u32::from(host == 3 && is_symbol(header));
        let lost = host == 3 && (150..190).contains(&copies);
        Fate::Drop.when(lost)
    });
    net.send_to_all(1000 * SYMBOL);
    net.run();
    let received = net.receivers(1..4);
    let sent = net.group_record();
    assert_eq!(sent.status, Status::Finished);
    let summary = GroupSummary {
        receivers: 3,
        receivers_finished: 2,
        receivers_detached: 1,
    };
    assert_eq!(sent.group, Some(summary));
    assert_eq!(net.detached.len(), 1);
    assert_eq!(*net.detached[0].1.ip(), address(3));
    let alone = &of_stragglers(&net)[0];
    assert_eq!(alone.status, Status::Finished);
    // Only repair symbols, but for the one that asks for a sign of life.
    let counters = alone.counters;
    assert_eq!(
        counters.packets_sent,
        counters.repair_symbols + counters.retransmitted
    );
    assert!(counters.repair_symbols > 0);
    // The others waited for the timeout and shared the link with the straggler (12 ms each), no
    // longer, and took nothing for lost meanwhile.
    for other in &received[..2] {
        assert!(other.duration_ns < 20_000_000 + 26_000_000, "{other:#?}");
        assert_eq!(other.counters.decodes, 0);
    }
    assert_eq!(sent.counters.packets_sent, 1000);
}

/// Symbols for its group complete blocks that its own sender does not know of.
#[test]
fn a_straggler_that_comes_back_while_the_group_goes_on_is_finished_too() {
    for late_ms in [25, 120] {
        let mut net = network(4);
        let mut copies = 0;
        net.fate_to = Box::new(move |host, header| {
            copies += u32::from(host == 3 && is_symbol(header));
            // A process that did not run.
            let late = host == 3 && (150..500).contains(&copies);
            if late {
                Fate::Late(Duration::from_millis(late_ms))
            } else {
                Fate::Pass
            }
        });
        net.send_to_all(2000 * SYMBOL);
        net.run();
        net.receivers(1..4);
        assert_eq!(net.group_record().status, Status::Finished);
        for alone in of_stragglers(&net) {
            assert_eq!(alone.status, Status::Finished, "{late_ms} ms");
            let sent = alone.counters.packets_sent;
            // No more than an object of its own would have taken.
            assert!(sent < 2000, "{late_ms} ms: {sent} sent");
        }
    }
}

#[test]
fn a_detached_receiver_pulls_for_what_came_to_it_alone_and_for_nothing_else() {
    use crate::receiver_driven::{Outbox, ReceiverSession};
    let now = Instant::from_micros(1);
    let packet = |flags: EbbFlags, block: u32, symbol: u32| EbbHeader {
        flags,
        block,
        symbol,
        pull: 2,
        object_bytes: 80,
        symbol_bytes: 10,
        block_symbols: 4,
        payload_bytes: 10,
        ..EbbHeader::new(PacketType::Symbol, 0, 0)
    };
    let group = EbbFlags::MULTICAST;
    let params = ScdpParams::default();
    let first = packet(group | EbbFlags::SYN, 0, 0);
    let mut receiver = receiver::Receiver::open(now, &params, crate::FlowId(1), 1, &first).unwrap();
    let mut arrives = |header: EbbHeader, whole: bool| {
        let mut out = Outbox::default();
        let payload = whole.then_some([0; 10]);
        receiver.handle_data(now, &header, payload.as_ref().map(|p| &p[..]), &mut out);
        for _ in 0..out.pulls {
            receiver.next_pull(now);
        }
        (out.pulls, receiver.counters().unneeded)
    };
    for symbol in 0..4 {
        assert_eq!(arrives(packet(group, 0, symbol), true), (1, 0));
    }
    // Symbols of the block that is complete: by the group for others, then for us, but too late.
    assert_eq!(
        arrives(packet(group | EbbFlags::REPAIR, 0, 4), true),
        (1, 1)
    );
    assert_eq!(arrives(packet(EbbFlags::REPAIR, 0, 1 << 20), true), (1, 2));
    // Gifts, whole and trimmed.
    assert_eq!(arrives(packet(group, 1, 0), true), (0, 2));
    assert_eq!(arrives(packet(group, 1, 1), false), (0, 2));
}

#[test]
fn a_receiver_that_missed_the_beginning_is_finished_alone() {
    let mut net = network(3);
    let mut copies = 0;
    net.fate_to = Box::new(move |host, header| {
        copies += u32::from(host == 2 && is_symbol(header));
        Fate::Drop.when(host == 2 && copies <= 12)
    });
    net.send_to_all(300 * SYMBOL);
    net.run();
    net.receivers(1..3);
    assert_eq!(net.group_record().status, Status::Finished);
    assert_eq!(of_stragglers(&net)[0].status, Status::Finished);
}

#[test]
fn a_receiver_that_vanishes_stops_nobody_else() {
    for (bytes, after_us) in [(1_000_000, 2_000), (1_000_000, 0), (5_000, 0)] {
        let mut net = network(4);
        net.send_to_all(bytes);
        net.run_until(Instant::from_micros(after_us));
        net.unplug(2);
        net.run();
        for host in [1, 3] {
            net.finished(Role::Receiver, 0, host);
        }
        let group = net.group_record();
        let of_it = match &of_stragglers(&net)[..] {
            [alone] => {
                assert_eq!(group.status, Status::Finished);
                alone.clone()
            }
            // Nobody had to wait for it, so it was never detached.
            [] => group,
            more => panic!("{more:#?}"),
        };
        let Status::Failed(why) = &of_it.status else {
            panic!("{of_it:#?}")
        };
        assert!(why.contains("silent"), "{why}");
        assert!(of_it.group.is_none() || why.contains("10.0.0.4"), "{why}");
        assert!((0..4).all(|i| i == 2 || !net.transport(i).is_active()));
    }
}

#[test]
fn a_receiver_that_refuses_the_object_is_named_and_the_others_finish() {
    for bytes in [5_000, 300_000] {
        let mut net = network(3);
        net.send_to_all(bytes);
        net.refuse_content_at = Some(1);
        net.run();
        net.finished(Role::Receiver, 0, 2);
        let sent = net.group_record();
        let Status::Failed(why) = &sent.status else {
            panic!("{sent:#?}")
        };
        assert!(why.contains("10.0.0.3") && why.contains("refused"), "{why}");
    }
}

#[test]
fn a_host_that_was_not_asked_is_refused() {
    // The network takes the group to host 3 as well, of whom the sender was told nothing.
    let mut net = network(4);
    net.send_to(&[1, 2], 300 * SYMBOL);
    net.groups.values_mut().for_each(|m| m.push(3));
    net.run();
    net.receivers(1..3);
    assert_eq!(net.group_record().counters.packets_sent, 300);
    let stranger = net.records.iter().find(|(host, ..)| *host == 3);
    assert!(matches!(stranger.unwrap().2.status, Status::Failed(_)));
}

#[test]
fn a_group_that_makes_no_sense_is_not_sent_to() {
    use crate::{GroupRequest, SendError};
    let mut net = network(3);
    let now = net.now;
    let mut send = |group: &str, receivers: &[&str]| {
        let request = GroupRequest {
            group: group.parse().unwrap(),
            receivers: receivers.iter().map(|r| r.parse().unwrap()).collect(),
            source_port: None,
            source: Arc::new(vec![0u8; 10]),
            priority: 0,
        };
        net.transport(0).send_group(now, request).unwrap_err()
    };
    let unicast = send("10.0.0.3:7000", &["10.0.0.3"]);
    assert!(matches!(unicast, SendError::NotAGroup { .. }));
    assert_eq!(send("239.0.0.1:7000", &[]), SendError::BadReceivers);
    let twice = send("239.0.0.1:7000", &["10.0.0.3", "10.0.0.3"]);
    assert_eq!(twice, SendError::BadReceivers);
    let own = send("239.0.0.1:7000", &["10.0.0.2"]);
    assert!(matches!(own, SendError::BadDestination { .. }));
    assert_eq!(send("239.0.0.1:0", &["10.0.0.3"]), SendError::PortZero);
}

#[test]
fn a_group_is_heard_with_the_first_of_its_receivers() {
    let mut net = network(3);
    net.unplug(1);
    let flow = net.send_to_all(100 * SYMBOL);
    net.run();
    assert_eq!(net.heard[0], (0, flow, address(2)));
    assert_eq!(net.heard.len(), 1);

    let mut net = network(3);
    net.unplug(1);
    net.unplug(2);
    net.send_to_all(100 * SYMBOL);
    net.run();
    assert_eq!(net.heard, []);

    let mut net = network(2);
    let flow = net.send(0, 1, 1);
    net.run();
    assert_eq!(net.heard, [(0, flow, address(1))]);
}

#[test]
fn an_urgent_group_is_pulled_first_by_all_its_receivers_and_stragglers() {
    // Host 3 sends to host 1 as well; its flow is the older one.
    let ends = |priority| {
        let mut net = network(4);
        net.send(3, 1, 1_000_000);
        net.send_to_with_priority(&[1, 2], 1_000_000, priority);
        net.run();
        let symbols = net.log.iter().filter(|(_, src, _)| *src == address(0));
        let mut symbols = symbols.filter(|(_, _, h)| is_symbol(h));
        assert!(symbols.all(|(_, _, h)| h.priority == priority));
        let times = [net.group_record(), net.finished(Role::Sender, 3, 1)];
        times.map(|record| record.duration_ns)
    };
    let ([group, other], [urgent, held_up]) = (ends(0), ends(6));
    assert!(urgent * 3 < group * 2, "{urgent} {group}");
    assert!(held_up + held_up / 10 > other, "{held_up} {other}");

    // Host 2 does not pull, and gets a flow of its own.
    let mut net = network(3);
    net.unplug(2);
    net.send_to_with_priority(&[1, 2], 100 * SYMBOL, 6);
    net.run();
    assert_eq!(net.detached.len(), 1);
    let mut symbols = net.log.iter().filter(|(_, _, h)| is_symbol(h));
    assert!(symbols.any(|(_, _, h)| !h.flags.contains(EbbFlags::MULTICAST)));
    let mut symbols = net.log.iter().filter(|(_, _, h)| is_symbol(h));
    assert!(symbols.all(|(_, _, h)| h.priority == 6));
}
