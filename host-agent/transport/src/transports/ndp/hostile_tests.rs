//! Peers that do not keep to the protocol, and packets that are forged.

use std::net::Ipv4Addr;

use ebb_units::{Duration, Instant};
use ebb_wire::EbbFlags;
use proptest::prelude::*;

use super::*;
use crate::record::Status;
use crate::testing::{Fate, Network, PORT, PortParams, address, ebb_packet};

const SYMBOL: u64 = 1432;
const WINDOW: u64 = 12;

fn network(hosts: usize) -> Network {
    Network::new(hosts, PortParams::default(), |config| {
        NdpHost::new(config, NdpParams::default())
    })
}

fn packet(src: Ipv4Addr, dst: Ipv4Addr, dscp: u8, header: &EbbHeader, payload: &[u8]) -> Vec<u8> {
    let header = EbbHeader {
        payload_bytes: payload.len() as u16,
        ..*header
    };
    ebb_packet(src, dst, dscp, &header, payload)
}

fn sent_data(net: &Network) -> Vec<EbbHeader> {
    let headers = net.log.iter().map(|(_, _, h)| *h);
    headers
        .filter(|h| h.packet_type == PacketType::Data)
        .collect()
}

/// The answer of a receiver to `data`.
fn answer(data: &EbbHeader, packet_type: PacketType) -> EbbHeader {
    EbbHeader {
        session: data.session,
        ..EbbHeader::new(packet_type, data.destination_port, data.source_port)
    }
}

/// The record of the only flow, which has failed, and why.
fn failure(net: &Network) -> (crate::record::FlowRecord, String) {
    let [(_, _, record)] = &net.records[..] else {
        panic!("{:#?}", net.records)
    };
    let Status::Failed(why) = &record.status else {
        panic!("{record:?}")
    };
    (record.clone(), why.clone())
}

#[test]
fn a_peer_that_says_nothing_gets_a_window_and_the_retries() {
    for packets in [1, 5, 12, 1000] {
        let mut net = network(2);
        net.unplug(1);
        net.send(0, 1, packets * SYMBOL);
        net.run();
        let (record, why) = failure(&net);
        assert!(why.contains("silent"), "{why}");
        let retries = u64::from(NdpParams::default().max_retries);
        let probes: u64 = (1..=retries).map(|timeout| timeout.min(4)).sum();
        assert_eq!(record.counters.packets_sent, packets.min(WINDOW) + probes);
        // All but the window are headers.
        let window_bytes = packets.min(WINDOW) * SYMBOL;
        assert_eq!(record.counters.payload_bytes_sent, window_bytes);
        assert!(record.duration_ns <= 4_100_000_000);
    }
}

/// Acknowledges everything, pulls nothing.
#[test]
fn a_receiver_that_never_pulls_gets_a_window() {
    let mut net = network(2);
    net.fate = Box::new(|_, header| match header.packet_type {
        PacketType::Pull => Fate::Drop,
        _ => Fate::Pass,
    });
    net.send(0, 1, 1000 * SYMBOL);
    net.run_until(Instant::from_micros(400_000));
    assert_eq!(sent_data(&net).len() as u64, WINDOW);
    net.run();
    for (_, _, record) in &net.records {
        let gave_up = |why: &str| why.contains("silent") || why.contains("gave up");
        assert!(matches!(&record.status, Status::Failed(why) if gave_up(why)));
    }
    assert_eq!(net.records.len(), 2);
}

/// Pulls and NACKs for ever.
#[test]
fn a_receiver_that_takes_nothing_is_given_up() {
    let mut net = network(2);
    net.fate = Box::new(|_, header| match header.packet_type {
        PacketType::Data => Fate::Trim,
        _ => Fate::Pass,
    });
    net.send(0, 1, 1000 * SYMBOL);
    net.run();
    let sent = net.records.iter().find(|(host, _, _)| *host == 0).unwrap();
    assert!(matches!(&sent.2.status, Status::Failed(why) if why.contains("no progress")));
    assert_eq!(sent.2.counters.packets_sent, 64 * WINDOW + 1);
    // The receiver is told.
    let received = net.records.iter().find(|(host, _, _)| *host == 1).unwrap();
    assert!(matches!(&received.2.status, Status::Failed(why) if why.contains("gave up")));
    assert!(!net.transport(0).is_active() && !net.transport(1).is_active());
}

/// Sends a packet now and then, never the one that is missing.
#[test]
fn a_sender_that_never_finishes_costs_bounded_memory() {
    let params = NdpParams {
        reorder_buffer_packets: 100,
        ..NdpParams::default()
    };
    let mut net = Network::new(2, PortParams::default(), move |config| {
        NdpHost::new(config, params)
    });
    let data = |number: u32| EbbHeader {
        flags: EbbFlags::SYN,
        session: 9,
        pull: 12,
        symbol: number,
        object_bytes: 10_000 * SYMBOL,
        symbol_bytes: SYMBOL as u16,
        ..EbbHeader::new(PacketType::Data, 50_000, PORT)
    };
    for number in 1..10_000 {
        let bytes = packet(
            address(0),
            address(1),
            10,
            &data(number),
            &[0; SYMBOL as usize],
        );
        net.inject(1, &bytes);
    }
    let answers = |net: &Network, kind| {
        let of_kind = |(_, _, h): &&(_, _, EbbHeader)| h.packet_type == kind;
        net.log.iter().filter(of_kind).count()
    };
    net.run_until(Instant::from_micros(20_000));
    // Packets 1..=99 found room in the buffer, in four chunks.
    let acks = net.log.iter().map(|(_, _, h)| h);
    let acks = acks.filter(|h| h.packet_type == PacketType::Ack);
    assert_eq!(
        acks.map(|h| 1 + u32::from(h.block_symbols)).sum::<u32>(),
        99
    );
    assert_eq!(answers(&net, PacketType::Nack), 9_900);
    net.run();
    let (_, why) = failure(&net);
    assert!(
        why.contains("does not know") || why.contains("silent"),
        "{why}"
    );
    assert!(!net.transport(1).is_active());
}

/// Nobody that has not shown a session id that it was sent can make a host send more than a RESET.
#[test]
fn a_forged_opening_earns_one_answer_of_its_size_at_most() {
    let mut net = network(2);
    for session in 0..2000 {
        let header = EbbHeader {
            flags: EbbFlags::SYN,
            session,
            pull: u32::MAX,
            symbol: 3,
            object_bytes: 1 << 40,
            symbol_bytes: SYMBOL as u16,
            ..EbbHeader::new(PacketType::Data, 50_000, PORT)
        };
        // From a host that is not there.
        net.inject(1, &packet(address(200), address(1), 12, &header, &[]));
    }
    net.run();
    let params = NdpParams::default();
    let (per_peer, retries) = (
        params.max_flows_per_peer as usize,
        params.max_retries as usize,
    );
    let sent = net.log.len();
    // A NACK, a pull, the pulls to a silent peer and a RESET each; over the limit only the RESET.
    let pulls = 1 + (1..=retries).map(|timeout| timeout.min(4)).sum::<usize>();
    assert!(sent <= 2000 + per_peer * (1 + pulls), "{sent}");
    assert!(sent_data(&net).is_empty());
    assert_eq!(net.records.len(), per_peer);
    assert!(!net.transport(1).is_active());
}

#[test]
fn forged_returns_do_not_make_a_sender_flood() {
    let mut net = network(2);
    net.send(0, 1, 400 * SYMBOL);
    net.run_until(Instant::from_micros(1_000));
    for round in 0..50 {
        for data in sent_data(&net).iter().rev().take(30) {
            for port in [data.source_port, 9] {
                let header = EbbHeader {
                    flags: data.flags | EbbFlags::TRIMMED | EbbFlags::RETURNED,
                    source_port: port,
                    ..*data
                };
                let forged = packet(address(1), address(0), 12, &header, &[]);
                net.inject(0, &forged);
                // From elsewhere, of another shape, of what was never sent.
                net.inject(0, &packet(address(7), address(0), 12, &header, &[]));
                for header in [
                    EbbHeader {
                        object_bytes: 7,
                        ..header
                    },
                    EbbHeader {
                        symbol: 399,
                        ..header
                    },
                    EbbHeader {
                        block: u32::MAX,
                        ..header
                    },
                    EbbHeader {
                        flags: EbbFlags::RETURNED,
                        ..header
                    },
                ] {
                    net.inject(0, &packet(address(1), address(0), 12, &header, &[]));
                }
            }
        }
        net.run_until(Instant::from_micros(1_000 + 100 * round));
    }
    net.run();
    let (sent, received) = net.pair(0, 1);
    // Every packet goes again with a pull, and so at most as many as were pulled.
    let pulled = WINDOW + received.counters.pulls_sent;
    let c = sent.counters;
    assert!(
        c.packets_sent <= pulled + c.returned.min(400) + WINDOW * c.timeouts,
        "{c:?}"
    );
    assert!(c.rejected > 1000);
}

/// Forged answers of a peer that knows the session, in an absurd order: what is sent is bounded by
/// the object, the window and the pulls.
#[test]
fn forged_pulls_and_nacks_are_bounded_by_what_was_sent() {
    let mut net = network(2);
    net.unplug(1);
    net.send(0, 1, 1000 * SYMBOL);
    net.run_until(Instant::from_micros(500));
    let data = sent_data(&net)[0];
    for pull in (1..100_000u32).step_by(20) {
        let header = EbbHeader {
            pull,
            ..answer(&data, PacketType::Pull)
        };
        net.inject(0, &packet(address(1), address(0), 46, &header, &[]));
        for symbol in 0..12 {
            let header = EbbHeader {
                symbol,
                ..answer(&data, PacketType::Nack)
            };
            net.inject(0, &packet(address(1), address(0), 46, &header, &[]));
        }
    }
    net.run();
    let (record, why) = failure(&net);
    assert!(why.contains("no progress"), "{why}");
    assert_eq!(record.counters.packets_sent, 64 * WINDOW + 1);
}

fn arbitrary_header() -> impl Strategy<Value = (EbbHeader, u8)> {
    let small = prop_oneof![0..4u32, 0..400u32, Just(u32::MAX), any::<u32>()];
    let flags = any::<u8>();
    let kind = prop::sample::select(vec![
        PacketType::Data,
        PacketType::Symbol,
        PacketType::Pull,
        PacketType::Ack,
        PacketType::Nack,
    ]);
    let numbers = (small.clone(), small.clone(), small.clone(), small.clone());
    (
        kind,
        flags,
        numbers,
        0..3u8,
        prop::sample::select(vec![10u8, 12, 14, 46]),
    )
        .prop_map(
            |(kind, flags, (block, symbol, pull, session), known_session, dscp)| {
                let header = EbbHeader {
                    flags: EbbFlags(flags),
                    block: if block < 400 { 0 } else { block },
                    symbol: symbol % EbbHeader::SYMBOL_LIMIT,
                    pull,
                    // 0: that of the live session is put in.
                    session: if known_session > 0 { 0 } else { session },
                    ..EbbHeader::new(kind, 0, 0)
                };
                (header, dscp)
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ebb_testkit::cases(40), ..ProptestConfig::default() })]

    /// Headers with right checksums and anything in them, for one session between hosts 0 and 1.
    /// That session may fail. The one from 2 to 1 and the one from 0 to 2 do not notice.
    #[test]
    fn other_sessions_are_unharmed(forged in prop::collection::vec(arbitrary_header(), 200)) {
        let mut net = network(3);
        net.send(0, 1, 300 * SYMBOL);
        net.run_until(Instant::from_micros(30));
        let victim = sent_data(&net)[0];
        net.send(2, 1, 301 * SYMBOL);
        net.send(0, 2, 302 * SYMBOL);
        for (header, dscp) in forged {
            let now = net.now;
            net.run_until(now + Duration::from_micros(15));
            let to_sender = !header.packet_type.carries_payload()
                || header.flags.contains(EbbFlags::RETURNED);
            let session = if header.session == 0 { victim.session } else { header.session };
            let ports = if header.packet_type.carries_payload() {
                (victim.source_port, victim.destination_port)
            } else {
                (victim.destination_port, victim.source_port)
            };
            let header = EbbHeader {
                session,
                source_port: ports.0,
                destination_port: ports.1,
                object_bytes: victim.object_bytes,
                symbol_bytes: victim.symbol_bytes,
                ..header
            };
            let payload = if header.packet_type.carries_payload() && dscp == 10 {
                vec![0; SYMBOL as usize]
            } else {
                Vec::new()
            };
            let (src, dst) = if to_sender { (1, 0) } else { (0, 1) };
            net.inject(dst, &packet(address(src), address(dst), dscp, &header, &payload));
        }
        net.run();
        net.pair(2, 1);
        net.pair(0, 2);
        for host in 0..3 {
            prop_assert!(!net.transport(host).is_active());
        }
        let sent: usize = sent_data(&net).len();
        prop_assert!(sent < 3 * 1200, "{} packets", sent);
    }
}

#[test]
fn a_peer_is_heard_once_and_by_what_only_it_can_answer() {
    let mut net = network(2);
    let flow = net.send(0, 1, 100 * SYMBOL);
    net.run();
    assert_eq!(net.heard, [(0, flow, address(1))]);

    // One packet; its acknowledgment ends the flow.
    let mut net = network(2);
    let flow = net.send(0, 1, 1);
    net.run();
    assert_eq!(net.heard, [(0, flow, address(1))]);

    // Silence.
    let mut net = network(2);
    net.unplug(1);
    net.send(0, 1, SYMBOL);
    net.run();
    assert_eq!(net.heard, []);

    // A reset is what strangers answer; an acknowledgment of what was not sent is forged.
    for packet_type in [PacketType::Reset, PacketType::Ack] {
        let mut net = network(2);
        net.unplug(1);
        net.send(0, 1, SYMBOL);
        net.run_until(Instant::from_micros(1000));
        let mut forged = answer(&sent_data(&net)[0], packet_type);
        forged.symbol = 77;
        net.inject(0, &packet(address(1), address(0), 0, &forged, &[]));
        net.run();
        assert_eq!(net.heard, []);
    }
}

/// An ACK that names more packets than there are acknowledges those in flight, at once.
#[test]
fn an_ack_of_more_packets_than_were_sent_is_one_of_those() {
    let mut net = network(2);
    net.fate = Box::new(|_, header| match header.packet_type {
        PacketType::Data => Fate::Pass,
        _ => Fate::Drop,
    });
    net.send(0, 1, 40 * SYMBOL);
    net.run_until(Instant::from_micros(500));
    let data = sent_data(&net);
    assert_eq!(data.len() as u64, WINDOW);
    let forged = EbbHeader {
        symbol: WINDOW as u32 - 1,
        block_symbols: u16::MAX,
        ..answer(&data[0], PacketType::Ack)
    };
    let forged = packet(address(1), address(0), 46, &forged, &[]);
    net.inject(0, &forged);
    net.inject(0, &forged);
    net.run();
    let (_, _, record) = net.records.iter().find(|(host, ..)| *host == 0).unwrap();
    assert_eq!(record.counters.acks, WINDOW + 1);
    assert_eq!(record.counters.duplicates, 1);
}
