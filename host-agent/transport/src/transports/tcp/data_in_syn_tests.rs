//! Data in the SYN: the first round trip carries it, and nothing arrives twice.

use std::sync::Arc;

use ebb_units::{Duration, Instant};
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::congestion::{DCTCP, RENO};
use super::pair::{PORT, Pair, address, content};
use super::testing::Fate;
use super::*;
use crate::object::GeneratedSource;
use crate::record::Status;
use crate::transport::{FlowId, Transport, Via};

const RTT: Duration = Duration::from_micros(40);
const MS: Duration = Duration::from_millis(1);

fn params() -> TcpParams {
    TcpParams {
        data_in_syn: true,
        ..TcpParams::default()
    }
}

fn open() -> TcpParams {
    TcpParams {
        connections: Connections::Open,
        ..params()
    }
}

fn pair() -> Pair {
    Pair::new(RENO, &params())
}

/// Payload and FIN of the SYNs that a host sent.
fn syns(pair: &Pair, host: usize) -> Vec<(usize, bool)> {
    let all = pair
        .log
        .iter()
        .filter(|(_, from, s)| *from == host && s.flags.syn);
    all.map(|(_, _, s)| (s.payload.len(), s.flags.fin))
        .collect()
}

fn only_got(pair: &Pair, host: usize) -> FlowId {
    let mut all = pair.got.keys().filter(|(at, _)| *at == host);
    let found = all.next().expect("something came").1;
    assert_eq!(all.next(), None);
    found
}

#[test]
fn a_short_object_is_there_after_half_a_round_trip() {
    for takes in [true, false] {
        let mut pair = Pair::new(
            RENO,
            &TcpParams {
                data_in_syn: takes,
                ..params()
            },
        );
        let began = pair.now;
        let flow = pair.send(0, 1, 100, Via::Any);
        pair.run_for(MS * 20);
        assert_eq!(pair.status(0, flow), Some(&Status::Finished));
        let got = &pair.got[&(1, only_got(&pair, 1))];
        let took = Instant::from_nanos(got.record.as_ref().unwrap().finished_at_ns).since(began);
        let sent = pair.ended[&(0, flow)].duration_ns;
        if takes {
            assert_eq!((took * 2, sent), (RTT, RTT.as_nanos()));
            assert_eq!(syns(&pair, 0), [(100, true)]);
        } else {
            assert_eq!((took * 2, sent), (RTT * 3, RTT.as_nanos() * 2));
            assert_eq!(syns(&pair, 0), [(0, false)]);
        }
    }
}

#[test]
fn a_long_object_begins_with_the_syn() {
    let mut pair = pair();
    let flow = pair.send(0, 1, 300_000, Via::Any);
    pair.run_for(MS * 20);
    assert_eq!(pair.status(0, flow), Some(&Status::Finished));
    assert!(pair.contents(1) == [content(1, 300_000)]);
    // MSS, SACK permitted and window scale take 12 bytes of the segment.
    assert_eq!(syns(&pair, 0), [(1448, false)]);
    let record = &pair.ended[&(0, flow)];
    assert_eq!(record.counters.payload_bytes_sent, 300_000);
    assert_eq!(record.counters.retransmitted, 0);
}

#[test]
fn a_peer_that_takes_no_data_gets_it_after_the_handshake() {
    for bytes in [100, 300_000] {
        let mut pair = pair();
        pair.hosts[1] = super::pair::endpoint(1, RENO, TcpParams::default());
        let flow = pair.send(0, 1, bytes, Via::Any);
        pair.run_for(MS * 20);
        assert_eq!(pair.status(0, flow), Some(&Status::Finished), "{bytes}");
        assert!(pair.contents(1) == [content(1, bytes)]);
        assert_eq!(pair.ended[&(0, flow)].counters.timeouts, 0);
    }
}

#[test]
fn a_lost_syn_is_sent_again_with_its_data() {
    let mut pair = pair();
    pair.fate = Box::new(|n, _, _| Fate::Drop.when(n == 0));
    let flow = pair.send(0, 1, 100, Via::Any);
    pair.run_for(MS * 30);
    assert_eq!(pair.status(0, flow), Some(&Status::Finished));
    assert_eq!(syns(&pair, 0), [(100, true); 2]);
    assert_eq!(pair.contents(1), [content(1, 100)]);
    assert_eq!(pair.ended[&(0, flow)].counters.retransmitted, 1);
}

#[test]
fn a_lost_syn_ack_repeats_the_syn_and_not_the_data() {
    for open_connections in [false, true] {
        let params = if open_connections { open() } else { params() };
        let mut pair = Pair::new(RENO, &params);
        let mut lost = 0;
        // And with it whatever follows it at once.
        pair.fate = Box::new(move |_, from, _| {
            lost += u32::from(from == 1);
            Fate::Drop.when(from == 1 && lost <= 2)
        });
        let flow = pair.send(0, 1, 100, Via::Any);
        pair.run_for(MS * 100);
        assert_eq!(pair.status(0, flow), Some(&Status::Finished));
        assert_eq!(pair.contents(1), [content(1, 100)]);
    }
}

#[test]
fn a_copy_of_the_syn_delivers_nothing_at_any_time() {
    for open_connections in [false, true] {
        for us in (0..400).step_by(10).chain([3_000, 11_000, 19_000]) {
            let params = if open_connections { open() } else { params() };
            let mut pair = Pair::new(RENO, &params);
            let flow = pair.send(0, 1, 100, Via::Any);
            let syn = pair.log[0].2.clone();
            let port = pair.hosts[0].flows.iter().next().unwrap().1.local.port();
            let mut packet = Vec::new();
            syn.emit((address(0), port), (address(1), PORT), 0, &mut packet);
            pair.run_for(Duration::from_micros(us));
            pair.inject(1, &packet);
            pair.run_for(MS * 100);
            assert_eq!(pair.status(0, flow), Some(&Status::Finished), "after {us}");
            assert_eq!(pair.contents(1), [content(1, 100)], "after {us}");
        }
    }
}

#[test]
fn a_copy_is_known_as_one_while_it_can_be_on_its_way() {
    let mut pair = pair();
    pair.send(0, 1, 100, Via::Any);
    let syn = pair.log[0].2.clone();
    let port = pair.hosts[0].flows.iter().next().unwrap().1.local.port();
    pair.run_for(MS);
    assert_eq!(pair.connections(1), 0);
    let mut packet = Vec::new();
    syn.emit((address(0), port), (address(1), PORT), 0, &mut packet);
    pair.inject(1, &packet);
    assert_eq!(pair.hosts[1].counters().duplicate_syns, 1);
    assert_eq!(pair.connections(1), 0);
}

#[test]
fn the_answer_follows_the_syn_ack_within_the_first_round_trip() {
    let mut pair = Pair::new(DCTCP, &open());
    pair.send(0, 1, 10, Via::Any);
    // As soon as the request is there; the handshake is not over.
    pair.run_for(RTT.mul_div(1, 2));
    let peer = pair.got[&(1, only_got(&pair, 1))].peer.unwrap();
    assert!(
        !pair.heard.iter().any(|(host, _)| *host == 1),
        "nobody is known yet"
    );
    let answer = pair.send(1, 2, 12_000, Via::From(peer));
    pair.run_for(RTT.mul_div(1, 2));
    let got = &pair.got[&(0, only_got(&pair, 0))];
    assert_eq!(got.bytes.len(), 12_000, "a whole initial window");
    pair.run_for(MS * 5);
    assert_eq!(pair.status(1, answer), Some(&Status::Finished));
    assert!(pair.heard.iter().any(|(host, _)| *host == 1));
    assert_eq!(pair.opened(), 1);
}

#[test]
fn a_stranger_gets_its_answer_once_and_is_forgotten() {
    let mut pair = Pair::new(RENO, &open());
    pair.send(0, 1, 10, Via::Any);
    // The address in the SYN is of somebody who never sent it.
    pair.dead[0] = true;
    pair.run_for(RTT);
    let peer = pair.got[&(1, only_got(&pair, 1))].peer.unwrap();
    pair.send(1, 2, 1_000_000, Via::From(peer));
    pair.run_for(Duration::from_secs(10));
    let sent: usize = pair
        .log
        .iter()
        .filter(|(_, from, _)| *from == 1)
        .map(|(_, _, s)| s.payload.len())
        .sum();
    // With the confirmation of the request in front.
    assert!(sent <= 11 * 1460, "{sent} bytes to a stranger");
    let syn_acks = syns(&pair, 1).len();
    assert_eq!(syn_acks, 1 + params().max_syn_ack_retries as usize);
    assert_eq!(pair.connections(1), 0);
    assert!(pair.hosts[1].listener.half_open() == 0);
}

/// The answer goes to an address that nobody has heard, over a connection of its own.
#[test]
fn a_stranger_gets_data_with_the_first_syn_only_and_few_syns() {
    for (params, via) in [(params(), true), (open(), true), (params(), false)] {
        let mut pair = Pair::new(RENO, &params);
        pair.dead[0] = true;
        let asked_from = std::net::SocketAddrV4::new(address(0), 9);
        let via = match via {
            true => Via::FromStranger(asked_from),
            false => Via::From(asked_from),
        };
        pair.send(1, 1, 1_000_000, via);
        pair.run_for(Duration::from_secs(10));
        let sent = syns(&pair, 1);
        if via.is_to_stranger() {
            assert_eq!(sent.len(), 1 + params.max_syn_ack_retries as usize);
            assert!(sent[0].0 > 1400 && sent[1..].iter().all(|&(bytes, fin)| bytes == 0 && !fin));
        } else {
            assert_eq!(sent.len(), 1 + params.max_retries as usize);
            assert!(
                sent.iter().all(|(bytes, _)| *bytes > 1400),
                "one that was heard"
            );
        }
        assert_eq!(pair.connections(1), 0);
    }
}

/// It was no stranger: what the first SYN carried, and was lost with it, comes after the handshake.
#[test]
fn a_stranger_that_answers_gets_everything() {
    let mut pair = pair();
    pair.fate = Box::new(|n, _, _| Fate::Drop.when(n == 0));
    let asked_from = std::net::SocketAddrV4::new(address(0), 9);
    let flow = pair.send(1, 1, 100_000, Via::FromStranger(asked_from));
    pair.run_for(MS * 50);
    assert_eq!(pair.status(1, flow), Some(&Status::Finished));
    assert!(pair.contents(0) == [content(1, 100_000)]);
    assert_eq!(syns(&pair, 1), [(1448, false), (0, false)]);
}

#[test]
fn a_flood_of_syns_with_data_takes_bounded_memory() {
    let limit = 8;
    let mut pair = Pair::new(
        RENO,
        &TcpParams {
            max_half_open: limit,
            ..params()
        },
    );
    for n in 0..200u32 {
        let syn = Segment {
            seq: n,
            flags: Flags {
                syn: true,
                ..Flags::default()
            },
            window: 1000,
            payload: vec![7; 1000].into(),
            ..Segment::default()
        };
        let mut packet = Vec::new();
        let from = std::net::Ipv4Addr::new(10, 9, (n / 250) as u8, (n % 250) as u8);
        syn.emit((from, 1024), (address(1), PORT), 0, &mut packet);
        pair.inject(1, &packet);
        assert!(pair.connections(1) <= limit);
        pair.run_for(MS);
    }
    // Those that gave way have been told to have failed: nothing waits for ever.
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.connections(1), 0);
    assert!(pair.got.values().all(|got| got.record.is_some()));
    let evicted = pair.hosts[1].counters().evicted_handshakes;
    assert!(evicted > 10, "{evicted}");
}

#[test]
fn an_application_that_refuses_early_is_heard() {
    let mut pair = pair();
    pair.confirms = false;
    let flow = pair.send(0, 1, 100, Via::Any);
    pair.run_for(RTT.mul_div(1, 2));
    let got = only_got(&pair, 1);
    pair.tell(1, |host, now| host.abort(now, got, "no room"));
    pair.run_for(MS * 50);
    let status = pair.status(0, flow);
    assert!(matches!(status, Some(Status::Failed(_))), "{status:?}");
    assert_eq!(pair.connections(1), 0);
}

/// In words of the sender's own, with the RST.
#[test]
fn a_sender_is_told_why_its_object_is_refused() {
    for objection in crate::Objection::ALL {
        let mut pair = Pair::new(RENO, &TcpParams::default());
        pair.confirms = false;
        let flow = pair.send(0, 1, 100, Via::Any);
        pair.run_for(MS * 2);
        let got = only_got(&pair, 1);
        pair.tell(1, |host, now| {
            host.refuse(now, got, "secret \u{1b}[2J", objection)
        });
        pair.run_for(MS * 50);
        let expected = format!("reset by the peer: {}", objection.describe());
        assert_eq!(pair.status(0, flow), Some(&Status::Failed(expected)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Losses, copies and any order: each object arrives once, whole, and is confirmed. Of a SYN-ACK and its
    /// repetitions one arrives: else its sender has forgotten the SYN when it comes again, and takes its data
    /// twice (docs/tcp.md, "Data in the SYN").
    #[test]
    fn every_object_arrives_once(seed: u64, loss in 0.0..0.2f64, late in 0.0..0.5f64) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let params = if rng.random() { open() } else { params() };
        let mut pair = Pair::new(if rng.random() { RENO } else { DCTCP }, &params);
        let mut fates = SmallRng::seed_from_u64(!seed);
        let most = params.max_syn_ack_retries as usize;
        let mut lost_syn_acks = Vec::new();
        pair.fate = Box::new(move |_, host, segment| {
            let syn_ack = (segment.flags.syn && segment.ack.is_some()).then_some((host, segment.ack));
            let lost = lost_syn_acks.iter().filter(|each| syn_ack == Some(**each)).count();
            if fates.random_bool(loss) && lost < most {
                lost_syn_acks.extend(syn_ack);
                Fate::Drop
            } else if fates.random_bool(late) {
                Fate::Late(Duration::from_micros(fates.random_range(0..400)))
            } else { Fate::Duplicate.when(fates.random_bool(0.1)) }
        });
        let mut sent: [Vec<(u64, u64, FlowId)>; 2] = Default::default();
        for object in 0..12 {
            let from = usize::from(rng.random_bool(0.3));
            let bytes = [rng.random_range(1..2_000), rng.random_range(1..60_000)][rng.random_range(0..2)];
            let flow = pair.send(from, object, bytes, Via::Any);
            sent[from].push((object, bytes, flow));
            pair.run_for(Duration::from_micros([0, 30, 30_000][rng.random_range(0..3)]));
        }
        pair.run_for(Duration::from_secs(9));
        for from in [0, 1] {
            let mut expected = Vec::new();
            for &(seed, bytes, flow) in &sent[from] {
                prop_assert_eq!(pair.status(from, flow), Some(&Status::Finished));
                expected.push(content(seed, bytes));
            }
            let mut got: Vec<Vec<u8>> = pair.contents(1 - from).iter().map(|b| b.to_vec()).collect();
            expected.sort();
            got.sort();
            prop_assert!(got == expected);
        }
    }
}

/// Where every packet takes a path of its own, the answer to data in a SYN may overtake the SYN-ACK.
#[test]
fn an_answer_that_overtakes_its_syn_ack_is_not_lost() {
    let params = Arc::new(params());
    let source = |bytes| Arc::new(GeneratedSource { seed: 1, bytes });
    let segments = |connection: &mut Connection, now| {
        let mut buffer = Vec::new();
        let next = || Some(connection.poll_transmit(now, &mut buffer)?.into_owned());
        std::iter::from_fn(next).collect::<Vec<_>>()
    };
    let now = Instant::from_micros(10);
    let mut client = Connection::connect(params.clone(), RENO, source(10), 1000);
    let syn = segments(&mut client, now).remove(0);
    let mut server = Connection::accept(now, params, RENO, source(20_000), 77, &syn).unwrap();
    let mut early = segments(&mut server, now);
    let syn_ack = early.remove(0);
    assert!(syn_ack.flags.syn);
    assert_eq!(early.len(), 10, "an initial window");
    // Repeated, it does not take more memory.
    for segment in early.iter().chain(&early) {
        client.handle_segment(now, segment);
    }
    assert_eq!((client.unread_bytes(), client.state()), (0, State::SynSent));
    client.handle_segment(now, &syn_ack);
    assert_eq!(client.unread_bytes(), 14_600);
    let acks = segments(&mut client, now);
    let end = early[9].seq.wrapping_add(1460);
    assert_eq!(acks.last().unwrap().ack, Some(end));
    // A connection that sent nothing with its SYN has no answer to wait for.
    let plain = Arc::new(TcpParams::default());
    let mut client = Connection::connect(plain, RENO, source(10), 1000);
    segments(&mut client, now);
    client.handle_segment(
        now,
        &Segment {
            ack: Some(1001),
            ..early[0].clone()
        },
    );
    client.handle_segment(
        now,
        &Segment {
            ack: Some(1001),
            ..syn_ack
        },
    );
    assert_eq!(client.unread_bytes(), 0);
}
