//! Transfers at a constant rate: what they cost, what stops them, and what losses do.

use ebb_units::Instant;
use ebb_wire::{EbbFlags, Ipv4Header};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::testing::*;
use super::*;
use crate::DscpParams;
use crate::code::{BlockShape, Code, Lt};
use crate::record::{Role, Status};
use crate::testing::{Fate, Network, PORT, address, ebb_packet};

/// A full packet every 24 us, on links of twice as much.
const RATE: u64 = 500_000_000;

fn params() -> TreviParams {
    params_of(Mode::default(), RATE)
}

fn network(hosts: usize) -> Network {
    network_of(hosts, params())
}

/// A round trip of the network in symbols, and one more.
const ROUND_TRIP: u64 = 4;

#[test]
fn a_transfer_takes_the_bytes_and_the_overhead_at_the_rate() {
    for packets in [1, 7, 300, 500, 1200] {
        let mut net = network(2);
        net.send(0, 1, packets * SYMBOL - 5);
        net.run();
        let (sent, received) = net.pair(0, 1);
        let blocks = packets.div_ceil(500);
        let needed = received.counters.packets_received - received.counters.unneeded;
        // A failed decoding waits for a fiftieth more.
        let most = packets + packets.div_ceil(10) + blocks + packets / 50 + 3;
        assert!((packets..=most).contains(&needed), "{packets}: {needed}");
        let after = sent.counters.packets_sent - needed;
        assert!(after <= blocks * ROUND_TRIP, "{packets}: {after} too many");
        let times: Vec<u64> = net
            .log
            .iter()
            .filter(|(_, _, h)| carries_payload(h))
            .map(|(at, ..)| at.as_nanos())
            .collect();
        for pair in times.windows(2) {
            assert_eq!(pair[1] - pair[0], 24_000, "{packets}");
        }
        assert_eq!(net.records.len(), 2);
        assert!(!net.transport(0).is_active());
    }
}

#[test]
fn an_empty_object_arrives() {
    let mut net = network(2);
    net.send(0, 1, 0);
    net.run();
    net.pair(0, 1);
}

#[test]
fn symbols_are_scavengers_and_all_else_is_control() {
    let mut net = network(2);
    net.send(0, 1, 40 * SYMBOL);
    let dscp = DscpParams::default();
    let mut packet = Vec::new();
    let mut seen = [0, 0];
    for step in 0..100 {
        let now = Instant::from_micros(100 * step);
        for host in 0..2 {
            net.transport(host).handle_timeout(now);
            while net
                .transport(host)
                .poll_transmit(now, &mut packet)
                .is_some()
            {
                let ip = Ipv4Header::parse(&packet).unwrap();
                let header = EbbHeader::parse(ip.payload, false).unwrap().header;
                let data = carries_payload(&header);
                let expected = if data { dscp.scavenger } else { dscp.control };
                assert_eq!(ip.header.dscp, expected);
                seen[usize::from(data)] += 1;
                net.transport(1 - host).handle_packet(now, &packet);
            }
        }
    }
    assert!(seen[0] >= 1 && seen[1] >= 10, "{seen:?}");
}

/// The thesis: no retransmission. Whatever share is lost, every symbol that arrives counts.
#[test]
fn losses_cost_what_was_lost() {
    for lost in [5, 20, 50, 80] {
        let mut net = network(2);
        let mut rng = SmallRng::seed_from_u64(lost);
        net.fate = Box::new(move |_, header| {
            Fate::Drop.when(carries_payload(header) && rng.random_range(0..100) < lost)
        });
        net.send(0, 1, 1000 * SYMBOL);
        net.run();
        let (sent, received) = net.pair(0, 1);
        let needed = received.counters.packets_received - received.counters.unneeded;
        assert!((1000..=1130).contains(&needed), "{lost} %: {needed}");
        let expected = needed as f64 * 100.0 / (100 - lost) as f64;
        let ratio = sent.counters.packets_sent as f64 / expected;
        assert!((0.8..1.2).contains(&ratio), "{lost} %: {ratio}");
    }
}

#[test]
fn a_lost_stop_is_repeated_and_the_sender_forgets_the_session() {
    for lost in 1..6 {
        let mut net = network(2);
        let mut left = lost;
        net.fate = Box::new(move |_, header| {
            if is_last_stop(header) && left > 0 {
                left -= 1;
                return Fate::Drop;
            }
            Fate::Pass
        });
        net.send(0, 1, 100 * SYMBOL);
        net.run();
        let (sent, _) = net.pair(0, 1);
        let stops = net.log.iter().filter(|(_, _, h)| is_last_stop(h)).count();
        assert!(stops > lost, "{lost}: {stops}");
        // Each sixteenth symbol that is not wanted asks for another.
        assert!(sent.counters.packets_sent <= 111 + 3 + 17 * lost as u64 + ROUND_TRIP);
        assert!(!net.transport(0).is_active());
    }
}

#[test]
fn a_lost_confirmation_is_asked_for_until_it_comes() {
    let mut net = network(2);
    let mut left = 3;
    net.fate = Box::new(move |_, header| {
        if header.packet_type == PacketType::Reset && left > 0 {
            left -= 1;
            return Fate::Drop;
        }
        Fate::Pass
    });
    net.send(0, 1, 100 * SYMBOL);
    net.run();
    net.pair(0, 1);
    let count =
        |wanted: fn(&EbbHeader) -> bool| net.log.iter().filter(|(_, _, h)| wanted(h)).count();
    assert_eq!(count(|h| h.packet_type == PacketType::Reset), 4);
    assert_eq!(count(is_last_stop), 4);
    assert_eq!(net.records.len(), 2);
}

#[test]
fn a_receiver_whose_sender_is_gone_stops_asking() {
    let mut net = network(2);
    net.fate = Box::new(|_, header| match header.packet_type {
        PacketType::Reset => Fate::Drop,
        _ => Fate::Pass,
    });
    net.send(0, 1, 100 * SYMBOL);
    net.run();
    net.pair(0, 1);
    assert!(net.now < Instant::from_micros(6_000_000), "{:?}", net.now);
    assert!(!net.transport(1).is_active());
}

/// Strict priority: while others fill the link nothing of a scavenger passes. That is no failure.
#[test]
fn starvation_is_waited_for() {
    let mut net = network(2);
    let mut sent = 0;
    net.fate = Box::new(move |_, header| {
        sent += u64::from(carries_payload(header));
        // 20,000 symbols at 24 us and more: half a second.
        Fate::Drop.when(carries_payload(header) && (50..20_050).contains(&sent))
    });
    net.send(0, 1, 400 * SYMBOL);
    net.run();
    let (sent, _) = net.pair(0, 1);
    assert!(sent.counters.packets_sent > 20_400);
}

#[test]
fn a_peer_that_vanishes_gives_a_failed_record_on_the_other_side() {
    for (vanishes, role) in [(1, Role::Sender), (0, Role::Receiver)] {
        let mut net = network(2);
        net.send(0, 1, 1_000_000);
        net.run_until(Instant::from_micros(5_000));
        net.unplug(vanishes);
        net.run();
        assert_eq!(net.records.len(), 2);
        let of_role = net.records.iter().find(|(_, _, r)| r.role == role);
        let (_, _, record) = of_role.unwrap();
        assert!(
            matches!(&record.status, Status::Failed(why) if why.contains("silent")),
            "{record:#?}"
        );
        assert!(record.duration_ns < 4_200_000_000, "{record:#?}");
        assert!(!net.transport(0).is_active() && !net.transport(1).is_active());
    }
}

#[test]
fn who_never_answers_gets_the_initial_window_and_questions() {
    let mut net = network(2);
    net.unplug(1);
    net.send(0, 1, 1000 * SYMBOL);
    net.run();
    let symbols = net
        .log
        .iter()
        .filter(|(_, _, h)| carries_payload(h))
        .count();
    assert_eq!(symbols, 64);
    assert!(
        net.log.len() - symbols < 80,
        "{} questions",
        net.log.len() - symbols
    );
}

fn symbols_in(net: &Network) -> usize {
    let all = net.log.iter();
    all.filter(|(_, _, h)| carries_payload(h)).count()
}

/// So no packet, forged or not, is worth more than a block.
#[test]
fn who_falls_silent_is_pushed_a_block_and_questions() {
    for mode in [Mode::ConstantRate, Mode::Push, Mode::Hybrid] {
        let mut net = network_of(2, TreviParams { mode, ..params() });
        net.send(0, 1, 20_000 * SYMBOL);
        net.run_until(Instant::from_micros(20_000));
        net.unplug(1);
        let before = symbols_in(&net);
        net.run();
        let after = symbols_in(&net) - before;
        assert!((1..=550).contains(&after), "{mode:?}: {after}");
    }
}

/// It is asked in time: what is pushed does not pause for a receiver that is there.
#[test]
fn a_push_goes_on_at_the_rate_of_the_link() {
    let params = TreviParams {
        mode: Mode::Push,
        block_symbols: 1000,
        ..params()
    };
    let mut net = network_of(2, params);
    let mut rng = SmallRng::seed_from_u64(1);
    net.fate = Box::new(move |_, header| match carries_payload(header) {
        true if rng.random_range(0..100) < 80 => Fate::Drop,
        _ => Fate::Pass,
    });
    net.send(0, 1, 1000 * SYMBOL);
    net.run();
    let (sent, received) = net.pair(0, 1);
    assert!(sent.counters.packets_sent > 5000);
    // A symbol of 1500 bytes takes 12 us.
    let busy = sent.counters.packets_sent * 12_000;
    assert!(received.duration_ns < busy * 11 / 10, "{received:#?}");
}

#[test]
fn any_mixture_of_loss_duplicates_and_reordering_ends_well() {
    for seed in 0..u64::from(ebb_testkit::cases(10)) {
        let mut net = network(2);
        disturb(&mut net, seed);
        net.send(0, 1, 1100 * SYMBOL + seed);
        net.run();
        net.pair(0, 1);
        assert_eq!(net.records.len(), 2, "seed {seed}");
    }
}

#[test]
fn flows_share_a_link_without_a_word_to_each_other() {
    let mut net = network(5);
    for sender in 0..4 {
        net.send(sender, 4, 500 * SYMBOL);
    }
    net.run();
    for sender in 0..4 {
        let (_, received) = net.pair(sender, 4);
        // Twice what the link takes is sent, so that half is lost.
        let ideal = 4 * 551 * 12_000;
        assert!(
            received.duration_ns < ideal * 12 / 10,
            "{}",
            received.duration_ns
        );
    }
    assert!(net.ports[4].drops > 1000);
}

#[test]
fn a_paused_receiver_is_sent_nothing_until_it_goes_on() {
    let mut net = network(2);
    net.send(0, 1, 450 * SYMBOL);
    net.run_until(Instant::from_micros(2_000));
    let flow = net.delivered.keys().next().unwrap().1;
    net.tell(1, |transport, now| transport.set_paused(now, flow, true));
    net.run_until(Instant::from_micros(3_000));
    let before = net
        .log
        .iter()
        .filter(|(_, _, h)| carries_payload(h))
        .count();
    net.run_until(Instant::from_micros(20_000_000));
    let after = net
        .log
        .iter()
        .filter(|(_, _, h)| carries_payload(h))
        .count();
    assert_eq!((after, net.records.len()), (before, 0));
    net.tell(1, |transport, now| transport.set_paused(now, flow, false));
    net.run();
    net.pair(0, 1);
}

#[test]
fn the_sender_learns_the_end_when_the_application_has_confirmed_it() {
    let mut net = network(2);
    net.tell(1, |transport, _| transport.hold_confirmations());
    net.send(0, 1, 100 * SYMBOL);
    net.run_until(Instant::from_micros(10_000_000));
    let roles: Vec<Role> = net.records.iter().map(|(_, _, r)| r.role).collect();
    assert_eq!(roles, [Role::Receiver]);
    let symbols = net
        .log
        .iter()
        .filter(|(_, _, h)| carries_payload(h))
        .count();
    assert!(
        symbols < 125,
        "{symbols}: it goes on although everything is there"
    );
    let flow = net.records[0].1;
    net.tell(1, |transport, now| transport.confirm(now, flow));
    net.run();
    net.pair(0, 1);
    assert_eq!(net.records.len(), 2);
}

#[test]
fn a_refused_object_fails_at_its_sender() {
    for holds in [false, true] {
        let mut net = network(2);
        net.refuse_content = true;
        if holds {
            net.tell(1, |transport, _| transport.hold_confirmations());
        }
        net.send(0, 1, 100 * SYMBOL);
        net.run();
        let sender = net.records.iter().find(|(_, _, r)| r.role == Role::Sender);
        let status = &sender.unwrap().2.status;
        assert!(
            matches!(status, Status::Failed(why) if why.contains("aborted")),
            "{status:?}"
        );
        assert_eq!(net.records.len(), 2);
        assert!(!net.transport(0).is_active());
    }
}

/// Symbols that are not of the object never decode; memory and time are bounded.
#[test]
fn forged_symbols_end_the_flow() {
    let mut net = network(2);
    let mut header = EbbHeader {
        flags: EbbFlags::SYN,
        session: 9,
        object_bytes: 50 * SYMBOL,
        symbol_bytes: SYMBOL as u16,
        block_symbols: 50,
        payload_bytes: SYMBOL as u16,
        ..EbbHeader::new(PacketType::Coded, 4000, PORT)
    };
    let shape = BlockShape {
        block: 0,
        source_symbols: 50,
        symbol_bytes: 1,
    };
    let mut bytes = vec![0; 50];
    bytes[0] = 1;
    let encoder = Lt::encoder(shape, bytes);
    let mut injected = 0;
    for number in 0..5000u32 {
        let mut payload = Vec::new();
        Lt::append(&encoder, number, &mut payload);
        if payload[0] == 1 {
            // The first source symbol is a neighbour of no symbol that comes.
            continue;
        }
        injected += 1;
        header.symbol = number;
        let from = address(0);
        let packet = ebb_packet(from, address(1), 8, &header, &vec![7; SYMBOL as usize]);
        net.inject(1, &packet);
        if !net.records.is_empty() {
            break;
        }
    }
    let (_, _, record) = &net.records[0];
    assert!(
        matches!(&record.status, Status::Failed(why) if why.contains("does not decode")),
        "{record:?}"
    );
    assert!(injected <= 3 * 50 + 110, "{injected}");
}

#[test]
fn wrong_parameters_are_named() {
    let default = TreviParams::default();
    assert_eq!(default.validate(), Ok(()));
    for (params, name) in [
        (
            TreviParams {
                rate_bps: 0,
                ..default
            },
            "rate_bps",
        ),
        (
            TreviParams {
                overhead: -0.1,
                ..default
            },
            "overhead",
        ),
        (
            TreviParams {
                overhead: f64::NAN,
                ..default
            },
            "overhead",
        ),
        (
            TreviParams {
                block_symbols: 8193,
                ..default
            },
            "block_symbols",
        ),
        (
            TreviParams {
                rto_ns: 0,
                ..default
            },
            "rto_ns",
        ),
        (
            TreviParams {
                progress_timeout_ns: 5,
                ..default
            },
            "progress_timeout_ns",
        ),
        (
            TreviParams {
                linger_ns: u64::MAX,
                ..default
            },
            "day",
        ),
    ] {
        let error = params.validate().unwrap_err();
        assert!(error.contains(name), "{error}");
    }
}
