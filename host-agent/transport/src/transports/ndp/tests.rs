//! NDP over the network of `crate::testing`.

use std::net::SocketAddrV4;
use std::sync::Arc;

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, EbbHeader, PacketType};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::FlowId;
use crate::record::Status;
use crate::testing::{Fate, Network, PORT, PortParams, address, ebb_packet};

const SYMBOL: u64 = 1432;
const WINDOW: u64 = 12;

fn network(hosts: usize) -> Network {
    with_params(hosts, NdpParams::default())
}

fn with_params(hosts: usize, params: NdpParams) -> Network {
    Network::new(hosts, PortParams::default(), move |config| {
        NdpHost::new(config, params)
    })
}

#[test]
fn without_trims_pulls_are_the_packets_less_the_window() {
    for packets in [1, 2, 11, 12, 13, 50, 700] {
        let mut net = network(2);
        net.send(0, 1, packets * SYMBOL);
        net.run();
        let (sent, received) = net.pair(0, 1);
        assert_eq!(sent.counters.packets_sent, packets);
        assert_eq!(received.counters.pulls_sent, packets.saturating_sub(WINDOW));
        assert_eq!(sent.counters.pulls_received, received.counters.pulls_sent);
        assert_eq!((sent.counters.timeouts, received.counters.timeouts), (0, 0));
        assert_eq!(received.counters.duplicates, 0);
    }
}

#[test]
fn odd_sizes_arrive_whole() {
    for bytes in [0, 1, SYMBOL - 1, SYMBOL + 1, 12 * SYMBOL + 5, 100_000] {
        let mut net = network(2);
        net.send(0, 1, bytes);
        net.run();
        let (_, received) = net.pair(0, 1);
        assert_eq!(received.stream_bytes, bytes);
    }
}

#[test]
fn one_flow_fills_the_link() {
    let mut net = network(2);
    net.send(0, 1, 2_000_000);
    net.run();
    let (_, received) = net.pair(0, 1);
    let rate = received.stream_bytes as f64 * 8e9 / received.duration_ns as f64;
    // 1432 of 1514 bytes are payload: 94.6 % of the link.
    assert!(rate > 0.93e9, "{rate}");
}

#[test]
fn every_trimmed_packet_is_sent_again_and_pulled_once() {
    let mut net = network(2);
    net.fate = Box::new(|n, header| match header.packet_type {
        PacketType::Data if n % 5 == 0 => Fate::Trim,
        _ => Fate::Pass,
    });
    net.send(0, 1, 300 * SYMBOL);
    net.run();
    let (sent, received) = net.pair(0, 1);
    let trimmed = received.counters.trimmed;
    assert!(trimmed > 20);
    assert_eq!(sent.counters.trimmed, trimmed);
    assert_eq!(sent.counters.retransmitted, trimmed);
    assert_eq!(sent.counters.packets_sent, 300 + trimmed);
    assert_eq!(received.counters.pulls_sent, 300 + trimmed - WINDOW);
    assert_eq!((sent.counters.timeouts, received.counters.timeouts), (0, 0));
}

#[test]
fn a_wholly_trimmed_window_recovers_without_a_timeout() {
    for packets in [1, 5, 12, 40] {
        let mut net = network(2);
        net.fate = Box::new(|_, header| match header.packet_type {
            PacketType::Data if !header.flags.contains(EbbFlags::RETRANSMIT) => Fate::Trim,
            _ => Fate::Pass,
        });
        net.send(0, 1, packets * SYMBOL);
        net.run();
        let (sent, received) = net.pair(0, 1);
        assert_eq!(sent.counters.packets_sent, 2 * packets);
        assert_eq!((sent.counters.timeouts, received.counters.timeouts), (0, 0));
    }
}

/// The known bug of the reference implementation (nets-cs-pub-ro/NDP#3): a pull that arrives
/// before the NACK that gives it something to send is spent on nothing, and the flow hangs.
#[test]
fn a_pull_that_overtakes_its_nack_is_not_lost() {
    for late_us in [20, 100, 1000] {
        let mut net = network(2);
        net.fate = Box::new(move |_, header| match header.packet_type {
            // The last packets of the object, so that no new data can use the pulls up.
            PacketType::Data
                if header.symbol >= 8 && !header.flags.contains(EbbFlags::RETRANSMIT) =>
            {
                Fate::Trim
            }
            PacketType::Nack => Fate::Late(Duration::from_micros(late_us)),
            _ => Fate::Pass,
        });
        net.send(0, 1, 12 * SYMBOL);
        net.run();
        let (sent, received) = net.pair(0, 1);
        assert_eq!(received.counters.trimmed, 4);
        assert_eq!(sent.counters.packets_sent, 16);
        assert_eq!((sent.counters.timeouts, received.counters.timeouts), (0, 0));
    }
}

#[test]
fn a_lost_packet_is_sent_again_after_the_timeout() {
    let mut net = network(2);
    net.fate = Box::new(|n, _| Fate::Drop.when(n == 3));
    net.send(0, 1, 100 * SYMBOL);
    net.run();
    let (sent, received) = net.pair(0, 1);
    assert_eq!(sent.counters.packets_sent, 101);
    assert_eq!(sent.counters.timeouts, 1);
    assert_eq!(received.counters.pulls_sent, 100 - WINDOW);
    assert!(sent.duration_ns > NdpParams::default().rto_ns);
}

#[test]
fn lost_pulls_are_made_up_for_by_later_ones() {
    let mut net = network(2);
    let mut pulls = 0;
    net.fate = Box::new(move |_, header| {
        pulls += u32::from(header.packet_type == PacketType::Pull);
        Fate::Drop.when(header.packet_type == PacketType::Pull && pulls % 4 == 1)
    });
    net.send(0, 1, 200 * SYMBOL);
    net.run();
    let (sent, received) = net.pair(0, 1);
    assert_eq!(sent.counters.packets_sent, 200);
    assert_eq!(received.counters.pulls_sent, 200 - WINDOW);
}

#[test]
fn a_lost_last_pull_costs_a_timeout_of_the_receiver() {
    let mut net = network(2);
    let mut dropped = 0;
    net.fate = Box::new(move |_, header| {
        let last = header.packet_type == PacketType::Pull && header.flags.contains(EbbFlags::FIN);
        dropped += u32::from(last);
        Fate::Drop.when(last && dropped == 1)
    });
    net.send(0, 1, 50 * SYMBOL);
    net.run();
    let (sent, received) = net.pair(0, 1);
    assert_eq!(sent.counters.packets_sent, 50);
    assert_eq!(received.counters.timeouts, 1);
}

#[test]
fn duplicated_pulls_never_make_the_sender_send_more() {
    let mut net = network(2);
    net.fate = Box::new(|_, header| match header.packet_type {
        PacketType::Pull => Fate::Duplicate,
        _ => Fate::Pass,
    });
    net.send(0, 1, 200 * SYMBOL);
    net.run();
    let (sent, received) = net.pair(0, 1);
    assert_eq!(sent.counters.packets_sent, 200);
    assert_eq!(sent.counters.pulls_received, received.counters.pulls_sent);
}

#[test]
fn reordered_and_lost_pulls_never_make_the_sender_send_more() {
    for seed in 0..10 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut net = network(2);
        net.fate = Box::new(move |_, header| match header.packet_type {
            PacketType::Pull if rng.random_bool(0.1) => Fate::Drop,
            PacketType::Pull if rng.random_bool(0.1) => Fate::Duplicate,
            PacketType::Pull => Fate::Late(Duration::from_micros(rng.random_range(0..500))),
            _ => Fate::Pass,
        });
        net.send(0, 1, 200 * SYMBOL);
        net.run();
        let (sent, received) = net.pair(0, 1);
        assert_eq!(sent.counters.packets_sent, 200, "seed {seed}");
        assert_eq!(sent.counters.timeouts, 0);
        // One more for each time that it waited in vain after repeating the last one.
        assert!(received.counters.pulls_sent <= 188 + received.counters.timeouts);
    }
}

/// The receiver forgets a session when no honest sender can ask any more, not before: the last
/// sign of life that the sender can have had is the answer to its last packet.
#[test]
fn an_ended_session_is_remembered_until_its_sender_must_have_given_up() {
    let mut net = network(2);
    net.send(0, 1, 5 * SYMBOL);
    net.run_until(Instant::from_micros(1_000));
    let first = net
        .log
        .iter()
        .find(|(_, _, h)| h.packet_type == PacketType::Data);
    let first = first.unwrap().2;
    assert_eq!(net.records.len(), 2);
    let patience = 550_000;
    for round in 1..=3 {
        net.run_until(Instant::from_micros(1_000 + round * patience));
        let header = EbbHeader {
            flags: first.flags | EbbFlags::TRIMMED,
            payload_bytes: 0,
            ..first
        };
        let late = ebb_packet(address(0), address(1), 12, &header, &[]);
        net.log.clear();
        net.inject(1, &late);
        net.run_until(Instant::from_micros(1_100 + round * patience));
        let answers: Vec<_> = net
            .log
            .iter()
            .map(|(_, _, h)| (h.packet_type, h.symbol))
            .collect();
        assert_eq!(answers, [(PacketType::Ack, first.symbol)]);
        assert!(net.transport(1).is_active());
    }
    net.run();
    assert!(!net.transport(1).is_active());
    assert_eq!(net.records.len(), 2, "a second session was opened");
    assert!(net.now < Instant::from_micros(1_100 + 3 * patience + 631_000));
}

#[test]
fn a_lost_last_ack_is_repeated() {
    let mut net = network(2);
    let mut acks = 0;
    net.fate = Box::new(move |_, header| {
        acks += u32::from(header.packet_type == PacketType::Ack);
        Fate::Drop.when(header.packet_type == PacketType::Ack && acks == 5)
    });
    net.send(0, 1, 5 * SYMBOL);
    net.run();
    let (sent, received) = net.pair(0, 1);
    assert_eq!(sent.counters.timeouts, 1);
    assert_eq!(received.counters.timeouts, 0);
    assert_eq!(
        net.records.len(),
        2,
        "the repeated packet opened a session: {:#?}",
        net.records
    );
}

#[test]
fn a_port_without_listener_refuses_at_once() {
    let mut net = network(2);
    net.send_source(
        0,
        SocketAddrV4::new(address(1), PORT + 1),
        Arc::new(vec![1u8; 5000]),
    );
    net.run();
    let [(0, _, record)] = &net.records[..] else {
        panic!("{:#?}", net.records)
    };
    assert!(
        matches!(&record.status, Status::Failed(why) if why.contains("nothing listens")),
        "{record:?}"
    );
    assert!(record.duration_ns < 1_000_000);
}

#[test]
fn forged_packets_are_ignored() {
    let mut net = network(2);
    net.send(0, 1, 200 * SYMBOL);
    net.run_until(Instant::from_micros(300));
    let genuine: Vec<EbbHeader> = net.log.iter().map(|(_, _, h)| *h).collect();
    let data = *genuine
        .iter()
        .find(|h| h.packet_type == PacketType::Data)
        .unwrap();
    let reply = |header: EbbHeader| EbbHeader {
        source_port: data.destination_port,
        destination_port: data.source_port,
        session: data.session,
        ..header
    };
    let forged = |src, dst, header: EbbHeader, payload: &[u8]| {
        let payload_bytes = payload.len() as u16;
        let header = EbbHeader {
            payload_bytes,
            ..header
        };
        ebb_packet(src, dst, 46, &header, payload)
    };
    let pull = |n| EbbHeader {
        pull: n,
        ..EbbHeader::new(PacketType::Pull, 0, 0)
    };
    // From another host, with a wrong session, with an absurd counter, for packets never sent.
    net.inject(0, &forged(address(7), address(0), reply(pull(20)), &[]));
    net.inject(
        0,
        &forged(
            address(1),
            address(0),
            EbbHeader {
                session: 1,
                ..reply(pull(20))
            },
            &[],
        ),
    );
    net.inject(
        0,
        &forged(address(1), address(0), reply(pull(u32::MAX)), &[]),
    );
    for kind in [PacketType::Ack, PacketType::Nack] {
        let header = EbbHeader {
            symbol: 199,
            ..EbbHeader::new(kind, 0, 0)
        };
        net.inject(0, &forged(address(1), address(0), reply(header), &[]));
    }
    // Data of another shape, out of the object, of a wrong length, from a wrong port.
    for header in [
        EbbHeader {
            object_bytes: 5,
            ..data
        },
        EbbHeader {
            symbol: 4000,
            ..data
        },
        EbbHeader {
            symbol_bytes: 0,
            ..data
        },
        EbbHeader {
            source_port: 9,
            ..data
        },
        EbbHeader {
            session: 5,
            symbol_bytes: 0,
            ..data
        },
        EbbHeader {
            session: 6,
            object_bytes: u64::MAX,
            ..data
        },
    ] {
        net.inject(1, &forged(address(0), address(1), header, b"evil"));
    }
    for len in 0..80 {
        net.inject(1, &vec![0x45; len]);
    }
    net.run();
    let (sent, _) = net.pair(0, 1);
    assert_eq!(sent.counters.packets_sent, 200);
    assert_eq!(net.records.len(), 2);
}

#[test]
fn one_peer_cannot_open_more_flows_than_allowed() {
    let params = NdpParams {
        max_flows_per_peer: 3,
        ..NdpParams::default()
    };
    let mut net = with_params(2, params);
    for _ in 0..5 {
        net.send(0, 1, 50_000);
    }
    net.run();
    let failed = net.records.iter().filter(
        |(_, _, r)| matches!(&r.status, Status::Failed(why) if why.contains("too many flows")),
    );
    assert_eq!(failed.count(), 2);
    let finished = net
        .records
        .iter()
        .filter(|(_, _, r)| r.status == Status::Finished);
    assert_eq!(finished.count(), 6);
}

/// Sender and receiver back to back; every 1000th packet is trimmed.
#[test]
#[ignore = "takes half a minute; cargo test -p ebb-transport -- --ignored packet_numbers"]
fn packet_numbers_go_on_above_24_bits() {
    use crate::receiver_driven::{Cast, Ending, Outbox, ReceiverSession, SenderSession};
    let bytes = (1 << 24) + 5_000;
    let params = NdpParams::default();
    let mut now = Instant::from_micros(1);
    let source = Arc::new(crate::object::GeneratedSource { seed: 1, bytes });
    let mut sender = sender::Sender::open(now, &params, 1, source, Cast::Unicast);
    let (mut receiver, mut out) = (None, crate::receiver_driven::Outbox::default());
    let (mut payload, mut received, mut highest) = (Vec::new(), 0, 0);
    for n in 0u64.. {
        now += Duration::from_micros(1);
        payload.clear();
        let header = sender.next_packet(now, &mut payload).unwrap();
        highest = highest.max(header.block);
        let receiver = receiver.get_or_insert_with(|| {
            receiver::Receiver::open(now, &params, FlowId(1), 1, &header).unwrap()
        });
        let whole = n % 1000 != 7;
        receiver.handle_data(now, &header, whole.then_some(&payload[..]), &mut out);
        let Outbox {
            control,
            delivered,
            buffers,
            pulls,
            ..
        } = &mut out;
        for answer in control.drain(..) {
            sender.handle_control(now, 0, &answer);
        }
        for bytes in delivered.drain(..) {
            received += bytes.len() as u64;
            buffers.give(bytes.into_owned());
        }
        for _ in 0..std::mem::take(pulls) {
            sender.handle_control(now, 0, &receiver.next_pull(now).unwrap());
        }
        if let Some(ending) = receiver.ending() {
            assert_eq!((ending, received), (Ending::Finished, bytes));
            assert_eq!(sender.ending(), Some(Ending::Finished));
            assert_eq!(highest, 1);
            break;
        }
        assert!(sender.can_send(), "stuck after {n}");
    }
}
