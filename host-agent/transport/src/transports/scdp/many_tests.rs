//! Many-to-one over the network of `crate::testing`. Host 0 receives, all others send.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, PacketType};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::record::{FlowRecord, Role, Status};
use crate::testing::{Fate, Network, PortParams, SESSION, address, ebb_packet};
use crate::{ExpectRequest, SendError};

const SYMBOL: u64 = 1432;
const WINDOW: u64 = 6;

fn with_params(hosts: usize, params: ScdpParams) -> Network {
    let make = move |config| ScdpHost::new(config, params.clone());
    // No trims but those that a test wants.
    let port = PortParams {
        data_packets: 10_000,
        ..PortParams::default()
    };
    Network::new(hosts, port, make)
}

fn network(hosts: usize) -> Network {
    with_params(hosts, ScdpParams::default())
}

fn is_symbol(header: &EbbHeader) -> bool {
    header.packet_type == PacketType::Symbol
}

/// The one record at the receiver, with the right bytes.
fn received(net: &Network) -> FlowRecord {
    let mut own = net.records.iter().filter(|(host, ..)| *host == 0);
    let (_, flow, record) = own.next().expect("no record at the receiver");
    assert!(own.next().is_none(), "{:#?}", net.records);
    assert_eq!(record.status, Status::Finished, "{record:#?}");
    let first = (1..=15).find(|&i| address(i) == *record.peer.ip()).unwrap();
    assert_eq!(net.finished(Role::Receiver, first, 0).session, SESSION);
    assert_eq!(net.delivered[&(0, *flow)].len() as u64, record.stream_bytes);
    record.clone()
}

/// Every (block, ESI) left once, if it was not a copy that asks for a sign of life, and from the
/// sender whose share it is in.
fn assert_no_symbol_twice(net: &Network) {
    let mut seen = BTreeSet::new();
    for (_, src, header) in &net.log {
        if is_symbol(header) && !header.flags.contains(EbbFlags::RETRANSMIT) {
            let name = (header.block, header.symbol);
            assert!(seen.insert(name), "{name:?} sent twice, by {src} now");
            assert_eq!(*src, address(1 + usize::from(header.sender)));
        }
    }
}

fn sent(net: &Network) -> u64 {
    let senders = net.records.iter().filter(|(host, ..)| *host != 0);
    senders.map(|(_, _, r)| r.counters.packets_sent).sum()
}

#[test]
fn without_loss_pulls_are_k_less_all_windows_and_nothing_is_decoded() {
    for senders in [1, 2, 3, 5] {
        for packets in [60, 100, 101, 250, 1000] {
            let mut net = network(senders + 1);
            let all: Vec<usize> = (1..=senders).collect();
            net.fetch(0, &all, packets * SYMBOL - 5);
            net.run();
            let record = received(&net);
            let windows = if senders == 1 {
                12
            } else {
                senders as u64 * WINDOW
            };
            assert_eq!(
                record.counters.pulls_sent,
                packets - windows,
                "{senders} {packets}"
            );
            assert_eq!(record.counters.decodes, 0);
            assert_eq!(record.counters.timeouts, 0);
            assert_eq!(sent(&net), packets);
            assert_no_symbol_twice(&net);
            assert!((0..=senders).all(|i| !net.transport(i).is_active()));
        }
    }
}

#[test]
fn small_objects_arrive_without_a_pull_also_where_a_sender_has_no_share() {
    for senders in [2, 3, 5, 15] {
        for bytes in [0, 1, SYMBOL, SYMBOL + 1, 3 * SYMBOL, 7 * SYMBOL - 1] {
            let mut net = network(senders + 1);
            let all: Vec<usize> = (1..=senders).collect();
            net.fetch(0, &all, bytes);
            net.run();
            let record = received(&net);
            assert_eq!(record.stream_bytes, bytes);
            assert_eq!(record.counters.pulls_sent, 0, "{senders} {bytes}");
            assert_eq!(record.counters.decodes, 0);
            for (host, _, of_sender) in net.records.iter().filter(|(host, ..)| *host != 0) {
                assert_eq!(of_sender.status, Status::Finished, "{host}");
            }
        }
    }
}

#[test]
fn with_t_trims_a_block_costs_k_plus_2_plus_t_over_all_senders() {
    for (packets, trims) in [(60, 1), (100, 1), (100, 7), (100, 30), (100, 100)] {
        let mut net = network(4);
        let mut trimmed = 0;
        net.fate = Box::new(move |_, header| {
            let trim = is_symbol(header) && trimmed < trims;
            trimmed += u64::from(trim);
            Fate::Trim.when(trim)
        });
        net.fetch(0, &[1, 2, 3], packets * SYMBOL);
        net.run();
        let record = received(&net);
        assert_eq!(record.counters.trimmed, trims);
        let windows = 3 * WINDOW;
        assert_eq!(
            record.counters.pulls_sent,
            packets + 2 + trims - windows,
            "{packets} {trims}"
        );
        assert_eq!(sent(&net), packets + 2 + trims);
        assert_eq!((record.counters.decodes, record.counters.timeouts), (1, 0));
        assert_no_symbol_twice(&net);
    }
}

#[test]
fn no_symbol_is_sent_twice_whatever_the_channel_does() {
    for seed in 0..15 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut net = network(5);
        net.fate = Box::new(move |_, header| match rng.random_range(0..100) {
            0..3 => Fate::Drop,
            3..8 if is_symbol(header) => Fate::Trim,
            8..12 => Fate::Duplicate,
            12..30 => Fate::Late(Duration::from_micros(rng.random_range(1..300))),
            _ => Fate::Pass,
        });
        net.fetch(0, &[1, 2, 3, 4], 450 * SYMBOL + seed);
        net.run();
        received(&net);
        assert_no_symbol_twice(&net);
        assert_eq!(net.records.len(), 5, "seed {seed}");
        assert!((0..5).all(|i| !net.transport(i).is_active()));
    }
}

/// Thesis, section III-D: the pulls go to whoever's symbols arrive, so the load follows the rate.
#[test]
fn a_slow_sender_sends_less_and_does_not_set_the_pace() {
    let mut net = network(4);
    // A round trip of host 1 takes 2 ms instead of 60 us.
    net.fate = Box::new(|_, header| {
        if is_symbol(header) && header.sender == 0 {
            Fate::Late(Duration::from_millis(2))
        } else {
            Fate::Pass
        }
    });
    net.fetch(0, &[1, 2, 3], 3000 * SYMBOL);
    net.run();
    let record = received(&net);
    let got: Vec<u64> = record.senders.iter().map(|s| s.packets_received).collect();
    assert!(got[0] < 300 && got[1] > 1000 && got[2] > 1000, "{got:?}");
    // 34 ms at line rate.
    assert!(record.duration_ns < 45_000_000, "{}", record.duration_ns);
    assert_eq!(record.counters.timeouts, 0);
    assert_no_symbol_twice(&net);
}

/// A pull that skips what others have taken over may reach a sender that still owes symbols from
/// before that, because its link is busy.
#[test]
fn a_busy_sender_sends_what_it_owes_before_it_skips() {
    for flows in 1..5 {
        for packets in [140, 250, 460] {
            let mut net = network(5);
            for _ in 0..flows {
                net.send(1, 4, 400 * SYMBOL);
            }
            net.fetch(0, &[1, 2, 3], packets * SYMBOL);
            net.run();
            let record = received(&net);
            let what = format!("{packets} packets beside {flows} flows");
            assert_eq!(record.counters.timeouts, 0, "{what}");
        }
    }
}

#[test]
fn a_fast_sender_stays_within_the_open_blocks() {
    let params = ScdpParams {
        block_symbols: 20,
        max_open_blocks: 4,
        ..ScdpParams::default()
    };
    let mut net = with_params(3, params);
    net.fate = Box::new(|_, header| {
        if is_symbol(header) && header.sender == 0 {
            Fate::Late(Duration::from_millis(1))
        } else {
            Fate::Pass
        }
    });
    net.fetch(0, &[1, 2], 1000 * SYMBOL);
    let mut ahead = 0;
    while net.records.iter().all(|(host, ..)| *host != 0) {
        let now = net.now;
        net.run_until(now + Duration::from_micros(100));
        let delivered: usize = net.delivered.values().map(Vec::len).sum();
        let first_open = (delivered as u64 / SYMBOL / 20) as u32;
        let highest = net.log.iter().map(|(_, _, h)| h).filter(|h| is_symbol(h));
        let highest = highest.map(|h| h.block).max().unwrap_or(0);
        ahead = ahead.max(highest.saturating_sub(first_open));
    }
    net.run();
    received(&net);
    assert!((2..=4).contains(&ahead), "{ahead} blocks ahead");
    assert_no_symbol_twice(&net);
}

#[test]
fn a_sender_that_dies_is_replaced_by_repair_symbols_of_the_others() {
    for after_us in [0, 100, 3000, 10_000] {
        let mut net = network(4);
        net.fetch(0, &[1, 2, 3], 1500 * SYMBOL);
        net.run_until(Instant::from_micros(1 + after_us));
        net.unplug(2);
        net.run();
        let record = received(&net);
        assert!(record.counters.decodes > 0, "after {after_us} us");
        let sender = &record.senders[1];
        assert!(sender.packets_received < 800);
        // 17 ms of data; the rest is timeouts.
        assert!(
            record.duration_ns < 400_000_000,
            "after {after_us} us: {}",
            record.duration_ns
        );
        assert_no_symbol_twice(&net);
    }
}

#[test]
fn a_sender_that_never_comes_is_not_waited_for() {
    for packets in [10, 50, 1000] {
        let mut net = network(4);
        net.expect(0, &[1, 2, 3]);
        net.send_part(0, &[1, 2, 3], 0, packets * SYMBOL);
        net.send_part(0, &[1, 2, 3], 2, packets * SYMBOL);
        net.run();
        let record = received(&net);
        assert_eq!(record.senders[1].packets_received, 0);
        assert_eq!(record.senders[1].peer.port(), 0);
        let at_line_rate = packets * 12_000;
        assert!(
            record.duration_ns < at_line_rate * 3 / 2 + 30_000_000,
            "{}",
            record.duration_ns
        );
        assert_no_symbol_twice(&net);
    }
}

#[test]
fn a_sender_that_comes_late_finishes_too() {
    for late_us in [500, 5_000, 15_000, 60_000] {
        let mut net = network(4);
        net.expect(0, &[1, 2, 3]);
        net.send_part(0, &[1, 2, 3], 0, 1000 * SYMBOL);
        net.send_part(0, &[1, 2, 3], 1, 1000 * SYMBOL);
        net.run_until(Instant::from_micros(late_us));
        net.send_part(0, &[1, 2, 3], 2, 1000 * SYMBOL);
        net.run();
        received(&net);
        assert_no_symbol_twice(&net);
        let finished = net
            .records
            .iter()
            .filter(|(_, _, r)| r.status == Status::Finished);
        assert_eq!(finished.count(), 4, "{late_us} us late");
    }
}

#[test]
fn a_sender_that_gives_up_is_done_without_and_named() {
    let mut net = network(3);
    let senders = [1, 2];
    net.fetch(0, &senders, 1000 * SYMBOL);
    net.run_until(Instant::from_micros(2000));
    let now = net.now;
    let flow = crate::FlowId(1);
    net.transport(2).abort(now, flow, "told to stop");
    net.inject(2, &[]);
    net.run();
    let record = received(&net);
    assert_eq!(record.senders[0].left, None);
    let why = record.senders[1].left.as_ref().unwrap();
    assert!(why.contains("aborted"), "{why}");
    assert_no_symbol_twice(&net);
}

#[test]
fn a_request_that_was_refused_is_done_without() {
    let mut net = network(3);
    let flow = net.expect(0, &[1, 2]);
    let now = net.now;
    net.transport(0)
        .drop_sender(now, flow, address(1), "no such object");
    net.send_part(0, &[1, 2], 1, 300 * SYMBOL);
    net.run();
    let record = received(&net);
    assert_eq!(record.senders[0].left.as_deref(), Some("no such object"));
    assert_eq!(record.counters.timeouts, 0);
}

fn failure(net: &Network) -> &str {
    let own = net.records.iter().find(|(host, ..)| *host == 0);
    match &own.expect("no record at the receiver").2.status {
        Status::Failed(why) => why,
        Status::Finished => panic!("{:#?}", net.records),
    }
}

#[test]
fn a_flow_that_nobody_answers_fails_and_says_whom_it_waited_for() {
    let mut net = network(3);
    net.expect(0, &[1, 2]);
    net.run();
    let why = failure(&net);
    assert!(
        why.contains("10.0.0.3, 10.0.0.4") && why.contains("nothing arrived"),
        "{why}"
    );
    assert_eq!(net.records[0].2.senders.len(), 2);
    assert!(net.now > Instant::from_micros(30_000_000) && !net.transport(0).is_active());
    // One that comes after all is told so.
    net.send_part(0, &[1, 2], 0, 1000);
    net.run();
    let late = net.records.iter().find(|(host, ..)| *host == 1).unwrap();
    assert!(matches!(&late.2.status, Status::Failed(why) if why.contains("does not know")));
}

#[test]
fn a_flow_without_a_sender_left_fails_at_once() {
    let mut net = network(3);
    let flow = net.expect(0, &[1, 2]);
    let now = net.now;
    net.transport(0)
        .drop_sender(now, flow, address(1), "no such object");
    net.transport(0).drop_sender(now, flow, address(2), "busy");
    net.run();
    let why = failure(&net);
    assert!(
        why.contains("10.0.0.3: no such object; 10.0.0.4: busy"),
        "{why}"
    );

    let mut net = network(3);
    net.fetch(0, &[1, 2], 1000 * SYMBOL);
    net.run_until(Instant::from_micros(2000));
    net.unplug(1);
    net.unplug(2);
    net.run();
    let why = failure(&net);
    assert!(
        why.contains("none of 2 senders is left") && why.contains("silent"),
        "{why}"
    );
    assert!(!net.transport(0).is_active());
}

#[test]
fn strangers_are_refused() {
    let mut net = network(4);
    let senders = [1, 2];
    net.expect(0, &senders);
    // Host 3 says that it is the first sender.
    net.send_part(0, &[3, 2], 0, 300 * SYMBOL);
    // Host 2 says so too.
    net.send_part(0, &[2, 1], 0, 300 * SYMBOL);
    net.run_until(Instant::from_micros(5000));
    let reasons: Vec<&Status> = net.records.iter().map(|(_, _, r)| &r.status).collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    for status in reasons {
        assert!(
            matches!(status, Status::Failed(why) if why.contains("does not know")),
            "{status:?}"
        );
    }
    let flow = net.delivered.keys().next().unwrap().1;
    assert_eq!(net.transport(0).progress(flow), None);
}

#[test]
fn what_cannot_be_expected_is_not() {
    let mut net = network(3);
    let now = net.now;
    let mut expect = |port: u16, senders: &[usize]| {
        let request = ExpectRequest {
            port,
            session: 7,
            senders: senders.iter().map(|&i| address(i)).collect(),
        };
        net.transport(0).expect(now, request)
    };
    assert_eq!(expect(0, &[1]), Err(SendError::PortZero));
    assert_eq!(expect(7000, &[]), Err(SendError::BadSenders));
    assert_eq!(expect(7000, &[1, 1]), Err(SendError::BadSenders));
    assert!(matches!(
        expect(7000, &[0]),
        Err(SendError::BadDestination { .. })
    ));
    let sixteen: Vec<usize> = (1..=16).collect();
    assert_eq!(expect(7000, &sixteen), Err(SendError::BadSenders));
    assert!(expect(7000, &[1, 2]).is_ok());
    assert_eq!(
        expect(7001, &[2]),
        Err(SendError::SessionInUse { session: 7 })
    );
    let _: Ipv4Addr = address(1);
}

#[test]
fn the_initial_windows_are_most_urgent() {
    let mut net = network(4);
    net.fetch(0, &[1, 2, 3], 100 * SYMBOL);
    net.run();
    let mut of_sender = [0; 3];
    for (_, _, header) in net.log.iter().filter(|(_, _, h)| is_symbol(h)) {
        let n = &mut of_sender[usize::from(header.sender)];
        *n += 1;
        assert_eq!(header.flags.contains(EbbFlags::SYN), *n <= 6);
        assert!(header.level == 0 || *n > 6, "{n} at level {}", header.level);
        assert!(header.flags.contains(EbbFlags::MULTI_SOURCE));
        assert_eq!((header.senders, header.pull), (3, 6));
    }
}

/// Headers with right checksums and wrong contents, both ways.
#[test]
fn no_header_makes_a_many_to_one_session_panic_or_last_for_ever() {
    for seed in 0..15 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut net = network(4);
        net.fetch(0, &[1, 2, 3], 300 * SYMBOL);
        net.run_until(Instant::from_micros(50));
        for _ in 0..300 {
            let now = net.now;
            net.run_until(now + Duration::from_micros(10));
            let (_, src, genuine) = net.log[rng.random_range(0..net.log.len())];
            let mut header = genuine;
            let value: u32 = match rng.random_range(0..3) {
                0 => rng.random_range(0..8),
                1 => rng.random_range(0..400),
                _ => rng.random(),
            };
            match rng.random_range(0..9) {
                0 => header.flags = EbbFlags(value as u8),
                1 => header.block = value,
                2 => header.symbol = value % EbbHeader::SYMBOL_LIMIT,
                3 => header.pull = value,
                4 => header.object_bytes = u64::from(value) << (value % 20),
                5 => header.block_symbols = value as u16,
                6 => header.sender = value as u8 & 15,
                7 => header.senders = value as u8 & 15,
                _ => header.symbol_bytes = value as u16,
            }
            let to = if src == address(0) {
                rng.random_range(1..4)
            } else {
                0
            };
            let payload = vec![0; usize::from(genuine.payload_bytes)];
            let dscp = if rng.random_bool(0.5) { 12 } else { 10 };
            let packet = ebb_packet(src, address(to), dscp, &header, &payload);
            net.inject(to, &packet);
        }
        net.run();
        assert!((0..4).all(|i| !net.transport(i).is_active()), "seed {seed}");
    }
}
