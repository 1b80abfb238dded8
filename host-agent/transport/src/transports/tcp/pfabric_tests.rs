//! pFabric's senders: what is left on every packet, the timer alone, probes.

use std::sync::Arc;

use ebb_units::{Duration, Instant};
use ebb_wire::{Ipv4Header, remaining_code};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::congestion::pfabric::{PfabricParams, params_of};
use super::testing::{Fate, Network};
use super::*;
use crate::transports::Suite;

const RTO: Duration = Duration::from_micros(250);
const MSS: u64 = 1460;

fn params() -> TcpParams {
    params_of(&Suite::default())
}

fn network() -> Network {
    Network::new(PfabricParams::default().algorithm(), params())
}

fn sender(net: &Network) -> SenderCounters {
    net.pairs[0].left.statistics().sender
}

/// Segments with payload that pair 0 has sent: when, how long, and what they say is left.
fn data(net: &Network) -> Vec<(Instant, u64, u16)> {
    let sent = net.sent.iter().filter(|(_, s)| !s.payload.is_empty());
    sent.map(|(at, s)| (*at, s.payload.len() as u64, s.id))
        .collect()
}

#[test]
fn packets_say_what_is_left_and_others_that_nothing_is() {
    let mut net = network();
    net.transfer(30 * MSS);
    net.run_and_check();
    let data = data(&net);
    assert_eq!(data.len(), 30);
    // A window leaves before the first acknowledgment.
    for (_, _, left) in &data[..12] {
        assert_eq!(*left, remaining_code(30 * MSS));
    }
    for (before, after) in data.iter().zip(&data[1..]) {
        assert!(after.2 <= before.2);
    }
    assert!(data[29].2 < remaining_code(15 * MSS));
    let bare = net.sent.iter().filter(|(_, s)| s.payload.is_empty());
    assert!(bare.clone().count() >= 2, "SYN and the last ACK");
    assert!(bare.clone().all(|(_, s)| s.id == 0));
}

#[test]
fn the_remaining_size_is_the_identification_on_the_wire() {
    let segment = Segment {
        id: 13_365,
        payload: vec![1, 2, 3].into(),
        ..Segment::default()
    };
    let (mut packet, address) = (Vec::new(), std::net::Ipv4Addr::new(10, 0, 0, 2));
    segment.emit((address, 1), (address, 2), 0, &mut packet);
    let ip = Ipv4Header::parse(&packet).unwrap();
    assert_eq!(ip.header.id, 13_365);
    assert_eq!(packet[6] & 0x40, 0x40, "never fragmented (RFC 6864)");
}

#[test]
fn data_in_a_syn_says_what_is_left() {
    let mut net = network();
    let early = TcpParams {
        data_in_syn: true,
        ..params()
    };
    (net.params, net.right_params) = (Arc::new(early.clone()), Arc::new(early));
    net.transfer(3 * MSS);
    net.run_and_check();
    let (_, syn) = &net.sent[0];
    assert!(syn.flags.syn && !syn.payload.is_empty());
    assert_eq!(syn.id, remaining_code(3 * MSS));
}

#[test]
fn what_has_been_sacked_is_not_left() {
    let mut net = network();
    // The first data segment is lost; all others of its window arrive.
    net.forward.fate = Box::new(|n, _| Fate::Drop.when(n == 1));
    net.transfer(40 * MSS);
    net.run_and_check();
    let (_, first) = net
        .sent
        .iter()
        .find(|(_, s)| !s.payload.is_empty())
        .expect("data");
    let copies: Vec<_> = net
        .sent
        .iter()
        .filter(|(_, s)| s.seq == first.seq)
        .collect();
    let [(_, original), (_, again)] = copies[..] else {
        panic!("{} copies", copies.len());
    };
    assert_eq!(original.id, remaining_code(40 * MSS));
    // At least what the link carries until the timer expires has been SACKed.
    assert!(again.id < remaining_code(30 * MSS));
}

#[test]
fn only_the_timer_finds_losses_and_only_what_is_lost_goes_again() {
    let mut net = network();
    let lost = [5, 6, 9];
    net.forward.fate = Box::new(move |n, _| Fate::Drop.when(lost.contains(&n)));
    net.transfer(400 * MSS);
    net.run_and_check();
    let counters = sender(&net);
    assert_eq!(counters.retransmitted, 3);
    assert_eq!((counters.timeouts, counters.loss_episodes), (1, 0));
    assert_eq!(counters.payload_bytes, 403 * MSS);
}

#[test]
fn reordering_is_no_loss() {
    let mut net = network();
    let mut rng = SmallRng::seed_from_u64(7);
    net.forward.fate = Box::new(move |_, _| match rng.random_bool(0.3) {
        true => Fate::Late(Duration::from_micros(rng.random_range(0..100))),
        false => Fate::Pass,
    });
    net.transfer(300_000);
    net.run_and_check();
    assert_eq!((sender(&net).retransmitted, sender(&net).timeouts), (0, 0));
}

/// Loses all that goes forward for a while and tells what was sent meanwhile.
fn cut_off(from: Instant, until: Instant) -> Network {
    let mut net = network();
    net.transfer(100 * MSS);
    net.run_until(from);
    net.forward.fate = Box::new(|_, _| Fate::Drop);
    net.run_until(until);
    net
}

#[test]
fn timeouts_are_as_long_as_each_other_and_five_of_them_lead_to_probes() {
    let (from, until) = (Instant::from_micros(300), Instant::from_micros(5_000));
    let mut net = cut_off(from, until);
    let silent = net.acks.last().expect("some have arrived").0;
    let again: Vec<_> = data(&net)
        .into_iter()
        .filter(|(at, ..)| *at > silent)
        .collect();
    // One full segment per timeout, then one byte.
    let lengths: Vec<_> = again.iter().map(|(_, bytes, _)| *bytes).collect();
    assert_eq!(lengths[..4], [MSS; 4]);
    assert!(lengths.len() > 10 && lengths[4..].iter().all(|bytes| *bytes == 1));
    for (before, after) in again.iter().zip(&again[1..]) {
        assert_eq!(after.0.since(before.0), RTO);
    }
    assert_eq!(sender(&net).timeouts, again.len() as u64);
    // A byte that arrives ends it: slow start.
    net.forward.fate = Box::new(|_, _| Fate::Pass);
    net.run_and_check();
    let after: Vec<_> = data(&net)
        .into_iter()
        .filter(|(at, ..)| *at > until)
        .collect();
    assert_eq!(after[0].1, 1);
    assert_eq!(
        after[1].1,
        MSS - 1,
        "the rest of the segment that the probe began"
    );
    let soon = Duration::from_micros(30);
    let next = after[1].0;
    let first_window = after[1..].iter().filter(|(at, ..)| at.since(next) < soon);
    assert_eq!(first_window.count(), 1);
    // As many probes as timeouts beyond the fourth, and each byte of the stream.
    let probes = data(&net)
        .iter()
        .filter(|(_, bytes, _)| *bytes == 1)
        .count();
    assert_eq!(probes as u64 + 4, sender(&net).timeouts);
}

#[test]
fn a_peer_that_is_gone_is_given_up_after_the_patience_with_silent_ones() {
    let mut net = cut_off(Instant::from_micros(300), Instant::from_micros(6_000_000));
    net.run_until(Instant::from_micros(6_000_000));
    let failure = net.pairs[0].left.failure();
    assert!(
        matches!(failure, Some(Failure::RetransmissionTimeout { .. })),
        "{failure:?}"
    );
    let patience = Duration::from_nanos(params().idle_timeout_ns);
    let last = net.sent.last().expect("some were sent").0;
    assert!(last.since(Instant::ZERO) < patience + Duration::from_millis(2));
    assert!(last.since(Instant::ZERO) > patience - Duration::from_millis(2));
}

/// The byte of a probe is all of a piece of the stream, which is forgotten with it.
#[test]
fn what_follows_a_probe_does_not_need_the_byte_of_it_again() {
    let mut net = network();
    net.transfer(1);
    let pair = net.pairs.last_mut().expect("one");
    // Not closed yet, so that there may be more.
    let source = Arc::new(vec![7_u8]);
    pair.left = Connection::connect(
        net.params.clone(),
        net.algorithm.clone(),
        source,
        0xffff_ff00,
    );
    pair.left.append(Arc::new(vec![8_u8; 4_000]));
    pair.left.close();
    pair.expected = [vec![7], vec![8; 4_000]].concat();
    let mut count = 0;
    net.forward.fate = Box::new(move |_, segment| {
        count += u32::from(!segment.payload.is_empty());
        let is_lost = segment.payload.len() > 1 && count < 12;
        Fate::Drop.when(is_lost)
    });
    net.run_and_check();
    let probes = data(&net)
        .iter()
        .filter(|(_, bytes, _)| *bytes == 1)
        .count();
    assert!(probes > 0);
}

#[test]
fn random_losses_with_reordering_end_too() {
    for seed in 0..8 {
        let mut net = network();
        for (link, seed) in [(&mut net.forward, seed), (&mut net.backward, seed + 100)] {
            let mut rng = SmallRng::seed_from_u64(seed);
            link.fate = Box::new(move |_, _| match rng.random_range(0..100) {
                0..20 => Fate::Drop,
                20..40 => Fate::Late(Duration::from_micros(rng.random_range(0..500))),
                40..43 => Fate::Duplicate,
                _ => Fate::Pass,
            });
        }
        for bytes in [1, 20_000, 200_000] {
            net.transfer(bytes);
        }
        net.run();
        for (index, pair) in net.pairs.iter().enumerate() {
            assert!(
                pair.received == pair.expected,
                "object {index} differs, seed {seed}"
            );
            assert!(
                pair.left.stream_acked_at().is_some(),
                "{:?}",
                pair.left.failure()
            );
        }
    }
}
