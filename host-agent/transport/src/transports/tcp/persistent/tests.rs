use ebb_units::Duration;
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::super::congestion::{DCTCP, RENO};
use super::super::pair::{PORT, Pair, address, content, endpoint};
use super::super::testing::Fate;
use super::super::{Connections, Flags, Segment, TcpParams};
use super::*;
use crate::record::Status;
use crate::transport::Via;
use crate::transport::{SendError, Transport};
use std::sync::Arc;

const MS: Duration = Duration::from_millis(1);

fn params() -> TcpParams {
    TcpParams {
        connections: Connections::Open,
        ..TcpParams::default()
    }
}

fn pair() -> Pair {
    Pair::new(RENO, &params())
}

/// Every object that `from` sent has finished, and the other host has all of them, in order.
fn check_all(pair: &Pair, from: usize, sent: &[(u64, u64)], flows: &[FlowId]) {
    for flow in flows {
        assert_eq!(pair.status(from, *flow), Some(&Status::Finished), "{flow}");
    }
    let expected: Vec<Vec<u8>> = sent
        .iter()
        .map(|&(seed, bytes)| content(seed, bytes))
        .collect();
    assert!(pair.contents(1 - from) == expected);
}

#[test]
fn objects_follow_each_other_over_one_connection() {
    let mut pair = pair();
    let sent = [(1, 5_000), (2, 0), (3, 100_000), (4, 10)];
    let mut flows = Vec::new();
    for (index, &(seed, bytes)) in sent.iter().enumerate() {
        flows.push(pair.send(0, seed, bytes, Via::Any));
        // The first two at once wait for each other on connections of their own.
        if index > 0 {
            pair.run_for(MS * 20);
        }
    }
    pair.run_for(MS * 20);
    assert_eq!(pair.opened(), 2);
    for flow in &flows {
        assert_eq!(pair.status(0, *flow), Some(&Status::Finished), "{flow}");
    }
    assert_eq!(pair.contents(1).len(), 4);
    assert!(!pair.hosts[0].is_active() && !pair.hosts[1].is_active());
    // Clean close by the side that opened them, after the time that they may carry nothing.
    assert_eq!(pair.connections(0), 2);
    pair.run_for(params().keep_open() + MS * 100);
    assert_eq!((pair.connections(0), pair.connections(1)), (0, 0));
    let resets = pair.log.iter().filter(|(_, _, segment)| segment.flags.rst);
    assert_eq!(resets.count(), 0);
}

#[test]
fn a_record_counts_what_its_object_took() {
    let mut pair = pair();
    for seed in 0..3 {
        let flow = pair.send(0, seed, 14_600, Via::Number(0));
        pair.run_for(MS * 20);
        let record = &pair.ended[&(0, flow)];
        assert_eq!(record.counters.payload_bytes_sent, 14_616);
        assert_eq!(record.stream_bytes, 14_600);
        assert_eq!(record.local.ip(), &address(0));
        let got = pair.got.values().last().unwrap().record.as_ref().unwrap();
        assert_eq!((got.stream_bytes, got.session), (14_600, record.session));
        assert_eq!(got.counters.packets_received, 11);
    }
    assert_eq!(pair.opened(), 1);
}

#[test]
fn what_shares_a_connection_waits_for_its_turn() {
    let mut pair = pair();
    let long = pair.send(0, 1, 2_000_000, Via::Number(0));
    let short = pair.send(0, 2, 100, Via::Number(0));
    let alone = pair.send(0, 3, 100, Via::Number(1));
    pair.run_for(MS * 100);
    let at = |flow| pair.ended[&(0, flow)].finished_at_ns;
    assert!(at(alone) < at(long) && at(long) <= at(short));
    assert_eq!(pair.opened(), 2);
}

#[test]
fn answers_come_back_over_the_connection_of_the_request() {
    let mut pair = pair();
    pair.send(0, 1, 10, Via::Any);
    pair.run_for(MS);
    let peer = pair.got.values().next().unwrap().peer.unwrap();
    let answer = pair.send(1, 2, 30_000, Via::From(peer));
    pair.run_for(MS * 20);
    assert_eq!(pair.opened(), 1);
    assert_eq!(pair.status(1, answer), Some(&Status::Finished));
    assert_eq!(pair.contents(0), [content(2, 30_000)]);
    // Also where the answering host opens one connection per object.
    pair.hosts[1].params = Arc::new(TcpParams::default());
    pair.send(1, 3, 500, Via::From(peer));
    pair.run_for(MS * 20);
    assert_eq!(pair.opened(), 1);
    pair.send(1, 4, 500, Via::Any);
    pair.run_for(MS * 20);
    assert_eq!(pair.opened(), 2);
    assert_eq!(pair.contents(0).len(), 3);
}

/// The answer to a request over a connection on which a long answer is coming would wait for it.
#[test]
fn a_connection_that_brings_something_is_not_free_for_a_request() {
    let mut pair = pair();
    pair.send(0, 1, 10, Via::Any);
    pair.run_for(MS);
    let peer = pair.got.values().next().unwrap().peer.unwrap();
    pair.send(1, 2, 2_000_000, Via::From(peer));
    pair.run_for(Duration::from_micros(100));
    assert_eq!(pair.contents(0).len(), 0, "it is on its way");
    let request = pair.send(0, 3, 10, Via::Any);
    pair.run_for(MS);
    assert_eq!(pair.status(0, request), Some(&Status::Finished));
    assert_eq!(pair.opened(), 2);
    pair.run_for(MS * 100);
    assert_eq!(pair.contents(0), [content(2, 2_000_000)]);
    pair.send(0, 4, 10, Via::Any);
    pair.run_for(MS * 20);
    assert_eq!(pair.opened(), 2);
}

#[test]
fn the_pool_is_bounded() {
    let mut pair = Pair::new(
        RENO,
        &TcpParams {
            max_connections_per_peer: 3,
            ..params()
        },
    );
    let flows: Vec<FlowId> = (0..9)
        .map(|seed| pair.send(0, seed, 5_000, Via::Any))
        .collect();
    let request = pair.request(0, 1, 1, Via::Number(3));
    let (number, limit) = (3, 3);
    let refused = SendError::NoSuchConnection { number, limit };
    assert_eq!(pair.hosts[0].send(pair.now, request), Err(refused));
    pair.run_for(MS * 50);
    assert_eq!(pair.opened(), 3);
    for flow in flows {
        assert_eq!(pair.status(0, flow), Some(&Status::Finished));
    }
    assert_eq!(pair.contents(1).len(), 9);
    // Objects of another class do not wait behind these.
    let mut request = pair.request(0, 1, 1, Via::Any);
    request.priority = 1;
    pair.tell(0, |host, now| drop(host.send(now, request)));
    pair.run_for(MS * 20);
    assert_eq!(pair.opened(), 4);
}

#[test]
fn after_a_pause_the_window_begins_anew_or_not() {
    let burst = |restart_after_idle| {
        let mut pair = Pair::new(
            RENO,
            &TcpParams {
                restart_after_idle,
                ..params()
            },
        );
        pair.send(0, 1, 1_000_000, Via::Number(0));
        pair.run_for(MS * 200);
        let before = pair.log.len();
        pair.send(0, 2, 200_000, Via::Number(0));
        // Before anything is acknowledged.
        pair.run_for(Duration::from_micros(30));
        pair.log[before..]
            .iter()
            .map(|(_, _, s)| s.payload.len())
            .sum::<usize>()
    };
    assert_eq!(burst(true), 10 * 1460, "RFC 5681 4.1");
    assert!(burst(false) > 100_000, "RFC 7661");
}

#[test]
fn a_pause_shorter_than_the_timeout_keeps_the_window() {
    let mut pair = pair();
    pair.send(0, 1, 1_000_000, Via::Number(0));
    pair.run_for(MS * 5);
    assert_eq!(pair.contents(1).len(), 1);
    let before = pair.log.len();
    pair.send(0, 2, 200_000, Via::Number(0));
    pair.run_for(Duration::from_micros(30));
    let burst: usize = pair.log[before..]
        .iter()
        .map(|(_, _, s)| s.payload.len())
        .sum();
    assert!(burst > 100_000, "{burst}");
}

#[test]
fn a_refused_object_does_not_harm_the_others() {
    let mut pair = pair();
    pair.confirms = false;
    let flows = [1, 2, 3].map(|seed| pair.send(0, seed, 3_000, Via::Number(0)));
    pair.run_for(MS * 5);
    let got: Vec<FlowId> = pair.got.keys().map(|(_, flow)| *flow).collect();
    pair.tell(1, |host, now| {
        host.confirm(now, got[0]);
        host.abort(now, got[1], "wrong\nhash");
        host.confirm(now, got[2]);
    });
    pair.run_for(MS * 5);
    assert_eq!(pair.status(0, flows[0]), Some(&Status::Finished));
    let refused = Status::Failed("refused by the peer: wrong\\nhash".to_owned());
    assert_eq!(pair.status(0, flows[1]), Some(&refused));
    assert_eq!(pair.status(0, flows[2]), Some(&Status::Finished));
    assert_eq!(pair.connections(0), 1);
}

#[test]
fn an_object_refused_in_the_middle_is_skipped() {
    let mut pair = pair();
    let long = pair.send(0, 1, 3_000_000, Via::Number(0));
    let next = pair.send(0, 2, 3_000, Via::Number(0));
    pair.run_for(Duration::from_micros(200));
    let flow = pair.got.keys().next().unwrap().1;
    pair.tell(1, |host, now| host.abort(now, flow, "the disk is full"));
    pair.run_for(MS * 50);
    let refused = Status::Failed("refused by the peer: the disk is full".to_owned());
    assert_eq!(pair.status(0, long), Some(&refused));
    // The one behind it had not begun, and goes over another connection.
    assert_eq!(pair.status(0, next), Some(&Status::Finished));
    assert_eq!(pair.opened(), 2);
    assert_eq!(pair.contents(1), [content(2, 3_000)]);
}

#[test]
fn an_object_for_a_port_where_nobody_listens_is_refused() {
    let mut pair = pair();
    pair.send(0, 1, 10, Via::Number(0));
    pair.run_for(MS);
    let mut request = pair.request(0, 2, 5_000, Via::Number(0));
    request.to.set_port(9);
    let flow = pair.hosts[0].send(pair.now, request).unwrap();
    pair.run_for(MS);
    let why = "refused by the peer: nothing listens on port 9".to_owned();
    assert_eq!(pair.status(0, flow), Some(&Status::Failed(why)));
    // The port decides, not the one that the connection was opened to.
    pair.tell(1, |host, _| host.listen(9).unwrap());
    let mut request = pair.request(0, 3, 5_000, Via::Number(0));
    request.to.set_port(9);
    let flow = pair.hosts[0].send(pair.now, request).unwrap();
    pair.run_for(MS);
    assert_eq!(pair.status(0, flow), Some(&Status::Finished));
    let got = pair.got.values().last().unwrap();
    assert_eq!(got.local, Some(SocketAddrV4::new(address(1), 9)));
    assert_eq!(pair.opened(), 1);
}

#[test]
fn cancelled_before_its_turn_it_never_leaves() {
    let mut pair = pair();
    let long = pair.send(0, 1, 500_000, Via::Number(0));
    let cancelled = pair.send(0, 2, 50_000, Via::Number(0));
    let last = pair.send(0, 3, 1_000, Via::Number(0));
    pair.tell(0, |host, now| host.abort(now, cancelled, "cancelled"));
    let why = Status::Failed("cancelled".to_owned());
    assert_eq!(pair.status(0, cancelled), Some(&why));
    pair.run_for(MS * 50);
    check_all(&pair, 0, &[(1, 500_000), (3, 1_000)], &[long, last]);
    assert_eq!(pair.opened(), 1);
}

#[test]
fn cancelled_in_the_middle_it_takes_the_connection_with_it() {
    let mut pair = pair();
    let long = pair.send(0, 1, 3_000_000, Via::Number(0));
    let next = pair.send(0, 2, 1_000, Via::Number(0));
    pair.run_for(Duration::from_micros(200));
    pair.tell(0, |host, now| host.abort(now, long, "cancelled"));
    pair.run_for(MS * 50);
    let why = Status::Failed("cancelled".to_owned());
    assert_eq!(pair.status(0, long), Some(&why));
    assert_eq!(pair.status(0, next), Some(&Status::Finished));
    assert_eq!(
        (pair.contents(1), pair.opened()),
        (vec![&content(2, 1_000)[..]], 2)
    );
    let failed = pair
        .got
        .values()
        .find(|got| got.bytes.len() != 1_000)
        .unwrap();
    let Status::Failed(why) = &failed.record.as_ref().unwrap().status else {
        panic!("it has not arrived");
    };
    assert_eq!(why, "connection reset by the peer");
}

#[test]
fn a_peer_without_open_connections_is_told_apart() {
    let mut pair = pair();
    // As a host does that does not know the option.
    let first = pair.send(0, 1, 10, Via::Any);
    let (_, _, syn) = pair.log[0].clone();
    assert_eq!(syn.options.stays_open, Some(1));
    let syn_ack = Segment {
        seq: 500,
        ack: Some(syn.seq.wrapping_add(1)),
        flags: Flags {
            syn: true,
            ..Flags::default()
        },
        window: 60_000,
        ..Segment::default()
    };
    let port = pair.hosts[0].flows.iter().next().unwrap().1.local.port();
    let mut packet = Vec::new();
    syn_ack.emit((address(1), 7000), (address(0), port), 0, &mut packet);
    pair.inject(0, &packet);
    let Some(Status::Failed(why)) = pair.status(0, first) else {
        panic!("refused");
    };
    assert!(
        why.contains("10.0.0.3:7000 does not keep connections open") && why.contains("per-request"),
        "{why}"
    );
}

#[test]
fn a_dead_peer_fails_what_left_and_everything_else_in_the_end() {
    let mut pair = pair();
    pair.send(0, 1, 10, Via::Number(0));
    pair.run_for(MS);
    pair.dead[1] = true;
    let left = pair.send(0, 2, 5_000, Via::Number(0));
    let waits = pair.send(0, 3, 500_000, Via::Number(0));
    let behind = pair.send(0, 4, 10, Via::Number(0));
    pair.run_for(Duration::from_secs(20));
    for flow in [left, waits] {
        let why = Status::Failed("no acknowledgment after 28 retransmissions".to_owned());
        assert_eq!(pair.status(0, flow), Some(&why));
    }
    // It had not left, and was tried over a new connection.
    let why = Status::Failed("no answer to 29 SYNs".to_owned());
    assert_eq!(pair.status(0, behind), Some(&why));
    assert_eq!(pair.connections(0), 0);
}

#[test]
fn the_side_that_accepted_notices_a_peer_that_died_while_idle() {
    let mut pair = pair();
    pair.send(0, 1, 10, Via::Any);
    pair.run_for(MS);
    assert_eq!(pair.connections(1), 1);
    pair.dead[0] = true;
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.connections(1), 0);
}

#[test]
fn idle_connections_outlive_the_patience_with_silent_peers() {
    let mut pair = Pair::new(
        RENO,
        &TcpParams {
            keep_open_ns: 60_000_000_000,
            ..params()
        },
    );
    pair.send(0, 1, 10, Via::Any);
    pair.run_for(Duration::from_secs(50));
    let flow = pair.send(0, 2, 10, Via::Any);
    pair.run_for(MS);
    assert_eq!(pair.status(0, flow), Some(&Status::Finished));
    assert_eq!((pair.opened(), pair.connections(1)), (1, 1));
}

#[test]
fn a_slow_application_delays_nothing_but_its_confirmation() {
    let mut pair = pair();
    pair.confirms = false;
    let first = pair.send(0, 1, 10_000, Via::Number(0));
    let second = pair.send(0, 2, 10_000, Via::Number(0));
    pair.run_for(Duration::from_secs(30));
    let got: Vec<FlowId> = pair.got.keys().map(|(_, flow)| *flow).collect();
    assert_eq!(pair.contents(1).len(), 2);
    assert_eq!(
        (pair.status(0, first), pair.status(0, second)),
        (None, None)
    );
    for flow in got.into_iter().rev() {
        pair.tell(1, |host, now| host.confirm(now, flow));
    }
    pair.run_for(MS * 5);
    check_all(&pair, 0, &[(1, 10_000), (2, 10_000)], &[first, second]);
}

#[test]
fn a_paused_application_stops_the_connection_without_end() {
    let mut pair = pair();
    let long = pair.send(0, 1, 5_000_000, Via::Number(0));
    let next = pair.send(0, 2, 10, Via::Number(0));
    pair.run_for(Duration::from_micros(200));
    let flow = pair.got.keys().next().unwrap().1;
    pair.tell(1, |host, now| host.set_paused(now, flow, true));
    pair.run_for(Duration::from_secs(20));
    assert!(pair.got[&(1, flow)].bytes.len() < 2_000_000);
    pair.tell(1, |host, now| host.set_paused(now, flow, false));
    pair.run_for(Duration::from_secs(1));
    check_all(&pair, 0, &[(1, 5_000_000), (2, 10)], &[long, next]);
}

#[test]
fn unconfirmed_objects_are_bounded() {
    let mut pair = pair();
    pair.confirms = false;
    let most = super::arrivals::MAX_UNCONFIRMED;
    let flows: Vec<FlowId> = (0..most as u64 + 20)
        .map(|seed| pair.send(0, seed, 10, Via::Number(0)))
        .collect();
    pair.run_for(MS * 20);
    assert_eq!(pair.contents(1).len(), most);
    pair.confirms = true;
    for flow in pair.got.keys().map(|(_, flow)| *flow).collect::<Vec<_>>() {
        pair.tell(1, |host, now| host.confirm(now, flow));
    }
    pair.run_for(MS * 20);
    assert_eq!(pair.contents(1).len(), flows.len());
    for flow in flows {
        assert_eq!(pair.status(0, flow), Some(&Status::Finished));
    }
}

#[test]
fn an_object_that_meets_the_close_goes_over_another_connection() {
    // At every microsecond around the close, from either side.
    for from in [0, 1] {
        for us in (0..200).step_by(5) {
            let mut pair = pair();
            pair.send(0, 1, 10, Via::Any);
            pair.run_for(MS);
            let peer = pair.got.values().next().unwrap().peer.unwrap();
            let until = params().keep_open() - MS + Duration::from_micros(us);
            pair.run_for(until);
            let via = if from == 0 { Via::Any } else { Via::From(peer) };
            let flow = pair.send(from, 2, 4_000, via);
            pair.run_for(MS * 100);
            let status = pair.status(from, flow);
            assert_eq!(status, Some(&Status::Finished), "from {from} at {us}");
            let whole = pair.contents(1 - from);
            assert_eq!(whole.last(), Some(&&content(2, 4_000)[..]));
            assert_eq!(whole.len(), 2 - from);
        }
    }
}

#[test]
fn a_reset_at_any_time_ends_every_object_once() {
    for packet in 1..60 {
        let mut pair = pair();
        let flows: Vec<FlowId> = (0..6)
            .map(|seed| pair.send(0, seed, 9_000, Via::Number(0)))
            .collect();
        while pair.log.len() < packet {
            let before = pair.log.len();
            pair.run_for(Duration::from_micros(5));
            if pair.log.len() == before && pair.ended.len() == 6 {
                break;
            }
        }
        // The peer loses its memory and answers what it does not know.
        let before: Vec<Vec<u8>> = pair.contents(1).iter().map(|b| b.to_vec()).collect();
        pair.got.clear();
        pair.hosts[1] = endpoint(1, RENO, params());
        pair.run_for(Duration::from_secs(10));
        for flow in &flows {
            assert!(
                pair.status(0, *flow).is_some(),
                "{flow} after packet {packet}"
            );
        }
        let finished = flows.iter();
        let finished = finished
            .filter(|f| pair.status(0, **f) == Some(&Status::Finished))
            .count();
        let mut all = before;
        all.extend(pair.contents(1).iter().map(|b| b.to_vec()));
        assert!(all.len() >= finished, "after packet {packet}");
        all.sort();
        let arrived = all.len();
        all.dedup();
        assert_eq!(all.len(), arrived, "twice, after packet {packet}");
        assert!(!pair.hosts[0].is_active());
    }
}

#[test]
fn what_is_no_frame_ends_the_connection_with_a_reason() {
    for bytes in [&[9; 16][..], &Frame::Taken { number: 0 }.encode()] {
        let mut pair = pair();
        let waits = pair.send(0, 1, 10, Via::Any);
        pair.run_for(MS);
        assert_eq!(pair.status(0, waits), Some(&Status::Finished));
        pair.confirms = false;
        let flow = pair.send(0, 2, 10, Via::Any);
        // The other side writes something else into its stream.
        let (id, now) = (pair.hosts[1].flows.iter().next().unwrap().0, pair.now);
        let source = Arc::new(bytes.to_vec());
        pair.hosts[1].with_persistent(id, |objects, flow, _| objects.outbox.append(flow, source));
        pair.hosts[1].after_input(now, id);
        pair.run_for(MS);
        let Some(Status::Failed(why)) = pair.status(0, flow) else {
            panic!("failed");
        };
        assert!(why.contains("the rules of open connections"), "{why}");
        assert_eq!(pair.connections(0), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the wire does short of silence: every object arrives once, whole, and is confirmed.
    #[test]
    fn every_object_arrives_once(seed: u64, loss in 0.0..0.15f64, late in 0.0..0.5f64) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let algorithm = if rng.random() { RENO } else { DCTCP };
        let mut pair = Pair::new(algorithm, &TcpParams {
            sack: rng.random(),
            restart_after_idle: rng.random(),
            max_connections_per_peer: rng.random_range(1..4),
            ..params()
        });
        let mut fates = SmallRng::seed_from_u64(!seed);
        pair.fate = Box::new(move |_, _, _| {
            if fates.random_bool(loss) {
                Fate::Drop
            } else if fates.random_bool(late) {
                Fate::Late(Duration::from_micros(fates.random_range(0..400)))
            } else { Fate::Duplicate.when(fates.random_bool(0.05)) }
        });
        let mut sent: [Vec<(u64, u64, FlowId)>; 2] = Default::default();
        for object in 0..16 {
            let from = usize::from(rng.random_bool(0.3));
            let bytes = [rng.random_range(0..20), rng.random_range(0..60_000)][rng.random_range(0..2)];
            let mut peers = pair.got.iter().filter(|((host, _), _)| *host == from);
            let via = match peers.next_back() {
                Some((_, got)) if rng.random() => Via::From(got.peer.unwrap()),
                _ => Via::Any,
            };
            let flow = pair.send(from, object, bytes, via);
            sent[from].push((object, bytes, flow));
            let pause = [0, 300, 30_000][rng.random_range(0..3)];
            pair.run_for(Duration::from_micros(pause));
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

/// Who knows addresses and ports and guesses numbers does no harm to a connection that carries
/// objects or waits for some.
#[test]
fn forged_segments_do_no_harm() {
    for seed in 0..20 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let params = TcpParams {
            data_in_syn: rng.random(),
            ..params()
        };
        let mut pair = Pair::new(RENO, &params);
        let mut flows = Vec::new();
        for object in 0..8 {
            flows.push(pair.send(0, object, rng.random_range(0..50_000), Via::Number(0)));
            pair.run_for(Duration::from_micros(rng.random_range(0..200)));
            let port = pair.hosts[0].flows.iter().next().unwrap().1.local.port();
            for _ in 0..20 {
                let forged = Segment {
                    seq: rng.random(),
                    ack: rng.random_bool(0.8).then(|| rng.random()),
                    flags: Flags {
                        syn: rng.random_bool(0.2),
                        fin: rng.random_bool(0.2),
                        rst: rng.random_bool(0.2),
                        ..Flags::default()
                    },
                    window: rng.random(),
                    payload: vec![1; rng.random_range(0..40)].into(),
                    ..Segment::default()
                };
                let to = rng.random_range(0..2);
                let ends = [(address(0), port), (address(1), PORT)];
                let mut packet = Vec::new();
                forged.emit(ends[1 - to], ends[to], 0, &mut packet);
                pair.inject(to, &packet);
            }
        }
        pair.run_for(Duration::from_secs(9));
        for flow in flows {
            assert_eq!(pair.status(0, flow), Some(&Status::Finished), "seed {seed}");
        }
        assert_eq!(pair.contents(1).len(), 8, "seed {seed}");
    }
}
