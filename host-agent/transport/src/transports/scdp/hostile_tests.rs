//! Packets and memory that a peer which does not keep to the protocol can cost a host.

use std::sync::Arc;

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, PacketType};

use super::receiver::Receiver;
use super::sender::Sender;
use super::*;
use crate::receiver_driven::{Cast, Ending, Outbox, ReceiverSession, SenderSession};
use crate::testing::{address, ebb_packet};

const K: u32 = 100;

fn now() -> Instant {
    Instant::from_micros(1)
}

fn sender(packets: u32) -> Sender {
    let source = Arc::new(vec![7u8; packets as usize * 10]);
    Sender::open(now(), &ScdpParams::default(), 10, source, Cast::Unicast)
}

fn pull(counter: u32, block: u32, symbol: u32) -> EbbHeader {
    EbbHeader {
        pull: counter,
        block,
        symbol,
        ..EbbHeader::new(PacketType::Pull, 0, 0)
    }
}

/// Sends all it may; how many.
fn drain(sender: &mut Sender, at: Instant) -> u32 {
    let mut payload = Vec::new();
    let mut sent = 0;
    while sender.can_send() {
        payload.clear();
        sender.next_packet(at, &mut payload).unwrap();
        sent += 1;
    }
    sent
}

#[test]
fn unanswered_a_sender_sends_its_window_and_a_bounded_number_of_questions() {
    let params = ScdpParams::default();
    let mut sender = sender(10_000);
    let mut sent = drain(&mut sender, now());
    assert_eq!(sent, params.initial_window_packets);
    let mut at = now();
    while sender.ending().is_none() {
        at = sender.deadline().unwrap();
        sender.handle_timeout(at);
        let mut payload = Vec::new();
        while sender.can_send() {
            // The questions are headers.
            let header = sender.next_packet(at, &mut payload).unwrap();
            assert!(header.flags.contains(EbbFlags::TRIMMED) && payload.is_empty());
            sent += 1;
        }
    }
    // 1 + 2 + 3 and 4 for each of the other five; then it only waits.
    assert_eq!(sent, params.initial_window_packets + 26);
    assert!(matches!(sender.ending(), Some(Ending::Failed(why)) if why.contains("silent")));
    assert!(at < now() + Duration::from_millis(4100), "{at:?}");
}

#[test]
fn a_pull_gives_credit_for_two_windows_and_the_retries_at_most() {
    let params = ScdpParams::default();
    let most = 2 * params.initial_window_packets + params.max_retries;
    for (counter, granted) in [(u32::MAX, 0), (most + 1, 0), (most, most)] {
        let mut sender = sender(10_000);
        drain(&mut sender, now());
        sender.handle_control(now(), 0, &pull(counter, 0, K));
        assert_eq!(drain(&mut sender, now()), granted, "{counter}");
    }
}

#[test]
fn pulls_for_many_blocks_are_remembered_within_bounds() {
    let mut sender = sender(10_000 * K);
    drain(&mut sender, now());
    sender.handle_control(now(), 0, &pull(1, 0, K));
    drain(&mut sender, now());
    for block in 0..10_000 {
        sender.handle_control(now(), 0, &pull(1, block, K + 1));
    }
    assert_eq!(sender.counters().rejected, 10_000 - 4096);
    assert_eq!(drain(&mut sender, now()), 0, "no credit");
}

/// Found by fuzzing: one damaged pull made a sender send repair symbols of one block for ever.
#[test]
fn more_repair_symbols_than_pulls_are_not_believed() {
    let mut sender = sender(10_000);
    drain(&mut sender, now());
    sender.handle_control(now(), 0, &pull(3, 0, K + 4));
    assert_eq!(sender.counters().rejected, 1);
    sender.handle_control(now(), 0, &pull(3, 0, K + 3));
    assert_eq!(sender.counters().rejected, 1);
}

#[test]
fn a_pull_that_lies_about_what_was_delivered_costs_only_its_sender() {
    let mut sender = sender(10_000);
    drain(&mut sender, now());
    let lie = EbbHeader {
        object_bytes: u64::MAX,
        ..pull(5, 0, K)
    };
    sender.handle_control(now(), 0, &lie);
    assert_eq!(drain(&mut sender, now()), 0);
    assert!(sender.ending().is_none());
}

fn first_symbol(object_packets: u64, block_symbols: u16, window: u32) -> EbbHeader {
    EbbHeader {
        flags: EbbFlags::SYN,
        pull: window,
        object_bytes: object_packets * 10,
        symbol_bytes: 10,
        block_symbols,
        payload_bytes: 10,
        ..EbbHeader::new(PacketType::Symbol, 0, 0)
    }
}

fn receiver(first: &EbbHeader) -> Receiver {
    Receiver::open(now(), &ScdpParams::default(), crate::FlowId(1), 1, first).unwrap()
}

#[test]
fn what_a_header_announces_costs_no_memory() {
    // The largest block, of which one trimmed symbol arrives.
    let first = first_symbol(1 << 31, ScdpParams::MAX_BLOCK_SYMBOLS, u32::MAX);
    let mut receiver = receiver(&first);
    let mut out = Outbox::default();
    receiver.handle_data(now(), &first, None, &mut out);
    assert_eq!(receiver.buffered_bytes(), 0);
    // And one whole one at its beginning.
    let second = EbbHeader { symbol: 1, ..first };
    receiver.handle_data(now(), &second, Some(&[1; 10]), &mut out);
    assert_eq!(receiver.buffered_bytes(), 20);
}

#[test]
fn blocks_far_away_are_rejected() {
    let first = first_symbol(1_000_000, 100, 12);
    let mut receiver = receiver(&first);
    let mut out = Outbox::default();
    for block in [0, 17, 18, 19, 5000, u32::MAX] {
        let header = EbbHeader { block, ..first };
        receiver.handle_data(now(), &header, Some(&[0; 10]), &mut out);
    }
    assert_eq!(receiver.counters().rejected, 4);
    assert_eq!(receiver.open.len(), 18);
}

/// Duplicates and trimmed headers for ever are no progress.
#[test]
fn a_session_that_makes_no_progress_ends() {
    for trimmed in [false, true] {
        let first = first_symbol(1_000_000, 100, 12);
        let mut receiver = receiver(&first);
        let mut at = now();
        let mut n = 0;
        while receiver.ending().is_none() {
            let mut out = Outbox::default();
            let header = EbbHeader {
                symbol: if trimmed { n % 100 } else { 0 },
                ..first
            };
            let payload = [0; 10];
            let payload = (!trimmed).then_some(&payload[..]);
            receiver.handle_data(at, &header, payload, &mut out);
            for _ in 0..out.pulls {
                receiver.next_pull(at);
            }
            n += 1;
            at += Duration::from_millis(1);
            if receiver.deadline().is_some_and(|deadline| deadline <= at) {
                receiver.handle_timeout(at, &mut out);
            }
            assert!(n < 20_000, "still going on");
        }
        assert!(matches!(receiver.ending(), Some(Ending::Failed(_))));
    }
}

#[test]
fn forged_openings_are_answered_with_little_and_forgotten() {
    let params = ScdpParams::default();
    let config = crate::HostConfig {
        address: crate::testing::address(0),
        nic: crate::nic::NicParams::default(),
        dscp: crate::DscpParams::default(),
        source_ports: crate::EPHEMERAL_PORTS,
        seed: 1,
    };
    let mut host = ScdpHost::new(config, params.clone());
    use crate::Transport;
    host.listen(7000).unwrap();
    let mut at = now();
    for session in 0..2000 {
        let header = EbbHeader {
            session,
            source_port: 9,
            destination_port: 7000,
            ..first_symbol(1000, 100, 1)
        };
        let packet = ebb_packet(address(1), address(0), 10, &header, &[0; 10]);
        host.handle_packet(at, &packet);
    }
    let mut packet = Vec::new();
    let mut answers = 0;
    loop {
        while host.poll_transmit(at, &mut packet).is_some() {
            answers += 1;
        }
        let Some(next) = host.next_deadline() else {
            break;
        };
        at = at.max(next);
        host.handle_timeout(at);
        while host.poll_event().is_some() {}
    }
    assert!(!host.is_active());
    // 256 refusals, and for each session the pulls and repetitions of all its timeouts.
    let open = params.max_flows_per_peer as u64;
    let each = 2 + 2 * u64::from(params.max_retries);
    assert!(answers <= 256 + open * each, "{answers}");
}
