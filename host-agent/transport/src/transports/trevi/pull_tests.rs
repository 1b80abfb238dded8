//! Transfers that the receiver pulls, wholly or in the end.

use std::collections::BTreeSet;

use ebb_units::{Duration, Instant};
use ebb_wire::EbbFlags;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::blocks::{Blocks, with_overhead};
use super::receiver::Receiver;
use super::testing::*;
use super::*;
use crate::FlowId;
use crate::receiver_driven::{ReceiverSession, StreamShape};
use crate::record::FlowRecord;
use crate::testing::{Fate, Network, PORT, address, ebb_packet};

fn network(mode: Mode, hosts: usize) -> Network {
    network_of(hosts, params_of(mode, 500_000_000))
}

fn asks_for_a_symbol(header: &EbbHeader) -> bool {
    header.packet_type == PacketType::Request && header.pull != 0
}

fn needed(received: &FlowRecord) -> u64 {
    received.counters.packets_received - received.counters.unneeded
}

/// K (1 + overhead), of all blocks.
fn worth_a_decoding(packets: u64) -> u64 {
    let shape = StreamShape {
        object_bytes: packets * SYMBOL,
        symbol_bytes: SYMBOL as u16,
        block_symbols: 500,
    };
    let blocks = Blocks { shape };
    let all = (0..blocks.count()).map(|block| with_overhead(blocks.coded(block), 0.1));
    all.map(u64::from).sum()
}

#[test]
fn nothing_is_sent_that_was_not_asked_for_and_nothing_asked_for_that_is_not_needed() {
    for packets in [1, 7, 300, 500, 1200] {
        let mut net = network(Mode::Pull, 2);
        net.send(0, 1, packets * SYMBOL);
        net.run();
        let (sent, received) = net.pair(0, 1);
        let symbols = net.log.iter().filter(|(_, _, h)| carries_payload(h));
        let answered: Vec<u32> = symbols.map(|(_, _, h)| h.pull).collect();
        let requests = net.log.iter().filter(|(_, _, h)| asks_for_a_symbol(h));
        let labels: BTreeSet<u32> = requests.map(|(_, _, h)| h.pull).collect();
        assert_eq!(answered.len(), labels.len(), "{packets}");
        assert_eq!(answered.iter().copied().collect::<BTreeSet<_>>(), labels);
        assert_eq!(needed(&received), answered.len() as u64, "{packets}");
        assert_eq!(received.counters.pulls_sent, sent.counters.pulls_received);
        // A decoding that fails makes a fiftieth more.
        let expected = worth_a_decoding(packets);
        let most = expected + (packets / 50).max(3);
        assert!(
            (expected..=most).contains(&needed(&received)),
            "{packets}: {received:?}"
        );
        assert_eq!(net.records.len(), 2);
        assert!(!net.transport(0).is_active());
    }
}

#[test]
fn the_window_fills_the_link_and_leaves_its_queue_short() {
    let mut net = network(Mode::Pull, 2);
    net.send(0, 1, 4000 * SYMBOL);
    net.run();
    let (_, received) = net.pair(0, 1);
    let ideal = 4400 * 12_112;
    assert!(
        received.duration_ns < ideal * 11 / 10,
        "{}",
        received.duration_ns
    );
    assert_eq!(net.ports[1].drops, 0);
    assert_eq!(received.counters.timeouts, 0);
}

#[test]
fn losses_are_asked_for_anew() {
    for (mode, lost) in [
        (Mode::Pull, 1),
        (Mode::Pull, 20),
        (Mode::Hybrid, 1),
        (Mode::Hybrid, 20),
    ] {
        let mut net = network(mode, 2);
        let mut rng = SmallRng::seed_from_u64(lost);
        net.fate = Box::new(move |_, header| {
            Fate::Drop.when(carries_payload(header) && rng.random_range(0..100) < lost)
        });
        net.send(0, 1, 1000 * SYMBOL);
        net.run();
        let (sent, received) = net.pair(0, 1);
        let expected = needed(&received) as f64 * 100.0 / (100 - lost) as f64;
        let ratio = sent.counters.packets_sent as f64 / expected;
        assert!((0.9..1.1).contains(&ratio), "{mode:?}, {lost} %: {ratio}");
    }
}

/// A late symbol is used, not counted as lost, and the pull timer learns from it.
#[test]
fn late_symbols_are_used() {
    let mut net = network(Mode::Pull, 2);
    let mut count = 0;
    net.fate = Box::new(move |_, header| {
        count += u64::from(carries_payload(header));
        if carries_payload(header) && count % 10 == 0 {
            Fate::Late(Duration::from_millis(3))
        } else {
            Fate::Pass
        }
    });
    net.send(0, 1, 450 * SYMBOL);
    net.run();
    let (sent, received) = net.pair(0, 1);
    // Only those that were asked for before the timer had learnt come twice.
    let wasted = sent.counters.packets_sent - needed(&received);
    assert!(wasted <= 25, "{wasted} symbols for nothing");
}

#[test]
fn hybrid_pushes_what_mostly_suffices_and_pulls_the_rest() {
    let packets = 1200;
    for lost in [0, 100] {
        let mut net = network(Mode::Hybrid, 2);
        let mut left = lost;
        net.fate = Box::new(move |n, header| {
            if carries_payload(header) && n > 300 && left > 0 {
                left -= 1;
                return Fate::Drop;
            }
            Fate::Pass
        });
        net.send(0, 1, packets * SYMBOL);
        net.run();
        let (sent, received) = net.pair(0, 1);
        let symbols = net.log.iter().map(|(_, _, header)| header);
        let symbols = symbols.filter(|header| carries_payload(header));
        let (pushed, pulled): (Vec<&EbbHeader>, Vec<&EbbHeader>) =
            symbols.partition(|header| header.pull == 0);
        assert_eq!(pushed.len() as u64, worth_a_decoding(packets));
        // And what failed decodings ask for.
        let most = lost + packets / 50;
        assert!(
            (lost..=most).contains(&(pulled.len() as u64)),
            "{}",
            pulled.len()
        );
        let payload_bytes = (pushed.len() + pulled.len()) as u64 * SYMBOL;
        assert_eq!(sent.counters.payload_bytes_sent, payload_bytes);
        assert_eq!(received.counters.unneeded, 0);
    }
}

#[test]
fn push_takes_the_whole_link_until_it_is_stopped() {
    let mut net = network(Mode::Push, 2);
    net.send(0, 1, 1000 * SYMBOL);
    net.run();
    let (sent, received) = net.pair(0, 1);
    let ideal = 1100 * 12_112;
    assert!(
        received.duration_ns < ideal * 11 / 10,
        "{}",
        received.duration_ns
    );
    // A round trip too many for each of two blocks.
    assert!(sent.counters.packets_sent - needed(&received) < 24);
}

#[test]
fn several_senders_do_not_swamp_their_receiver() {
    let mut net = network(Mode::Pull, 9);
    for sender in 0..8 {
        net.send(sender, 8, 300 * SYMBOL);
    }
    net.run();
    let mut last = 0;
    for sender in 0..8 {
        let (_, received) = net.pair(sender, 8);
        last = last.max(received.duration_ns);
    }
    let ideal = 8 * 330 * 12_112;
    assert!(last < ideal * 13 / 10, "{last}, ideal {ideal}");
    // The initial windows are more than the queue holds.
    assert!(net.ports[8].drops < 130, "{}", net.ports[8].drops);
}

#[test]
fn any_mixture_of_loss_duplicates_and_reordering_ends_well() {
    for (seed, mode) in (0..u64::from(ebb_testkit::cases(12)))
        .zip([Mode::Pull, Mode::Hybrid, Mode::Push].into_iter().cycle())
    {
        let mut net = network(mode, 2);
        disturb(&mut net, seed);
        net.send(0, 1, 1100 * SYMBOL + seed);
        net.run();
        net.pair(0, 1);
        assert_eq!(net.records.len(), 2, "{mode:?}, seed {seed}");
    }
}

#[test]
fn a_paused_receiver_asks_for_nothing_until_it_goes_on() {
    for mode in [Mode::Pull, Mode::Hybrid] {
        let mut net = network(mode, 2);
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
        assert_eq!((after, net.records.len()), (before, 0), "{mode:?}");
        net.tell(1, |transport, now| transport.set_paused(now, flow, false));
        net.run();
        net.pair(0, 1);
    }
}

#[test]
fn starvation_is_waited_for() {
    for mode in [Mode::Pull, Mode::Hybrid] {
        let mut net = network(mode, 2);
        let start = net.now;
        let mut seen = 0;
        net.fate_to = Box::new(move |_, header| {
            seen += u64::from(carries_payload(header));
            // None of several thousand packets passes.
            match carries_payload(header) && (50..550).contains(&seen) {
                true => Fate::Drop,
                false => Fate::Pass,
            }
        });
        net.send(0, 1, 400 * SYMBOL);
        net.run();
        net.pair(0, 1);
        assert!(net.now > start);
    }
}

/// A forged opening: who sent it gets the initial window of requests, and a few questions.
#[test]
fn a_stranger_is_asked_for_no_more_than_a_window() {
    for level in 0..3 {
        let mut net = network(Mode::Pull, 2);
        net.unplug(0);
        let header = EbbHeader {
            flags: EbbFlags::SYN | EbbFlags::TRIMMED | EbbFlags::RETRANSMIT,
            level,
            session: 9,
            object_bytes: 5000 * SYMBOL,
            symbol_bytes: SYMBOL as u16,
            block_symbols: 500,
            payload_bytes: SYMBOL as u16,
            ..EbbHeader::new(PacketType::Coded, 4000, PORT)
        };
        let packet = ebb_packet(address(0), address(1), 46, &header, &[]);
        net.inject(1, &packet);
        net.run();
        // A request, ten for symbols and as many again for lost ones, eight questions, a reset.
        assert!(net.log.len() <= 30, "level {level}: {}", net.log.len());
        assert!(!net.transport(1).is_active());
    }
}

/// Whoever sees a session can ask in its name, but not make us remember more than a window.
#[test]
fn forged_requests_are_bounded() {
    let mut net = network(Mode::Pull, 2);
    net.send(0, 1, 400 * SYMBOL);
    net.run_until(Instant::from_micros(200));
    let (_, _, asked) = net
        .log
        .iter()
        .find(|(_, _, h)| asks_for_a_symbol(h))
        .unwrap();
    let asked = *asked;
    for label in 1..5000 {
        let request = EbbHeader {
            pull: label,
            ..asked
        };
        let packet = ebb_packet(address(1), address(0), 46, &request, &[]);
        net.inject(0, &packet);
    }
    net.run();
    let (sent, _) = net.pair(0, 1);
    assert!(sent.counters.rejected > 3000, "{}", sent.counters.rejected);
    assert!(sent.counters.packets_sent < 1024 + 500);
}

#[test]
fn an_opening_of_unknown_mode_is_refused() {
    let first = EbbHeader {
        level: 3,
        symbol_bytes: 10,
        block_symbols: 5,
        ..EbbHeader::new(PacketType::Coded, 1, 2)
    };
    let params = TreviParams::default();
    assert!(Receiver::open(Instant::ZERO, &params, FlowId(1), 1, &first).is_none());
    let known = EbbHeader { level: 2, ..first };
    assert!(Receiver::open(Instant::ZERO, &params, FlowId(1), 1, &known).is_some());
}
