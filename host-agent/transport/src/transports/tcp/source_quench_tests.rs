//! Source Quench: what a sender does who is asked for less, and whom it does not hear.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_nic::DscpSet;
use ebb_units::Instant;
use ebb_wire::{Ecn, Ipv4Header, Protocol, SourceQuench, checksum::internet_checksum};

use super::source_quench::SourceQuenches;
use super::testing::Network;
use super::{Algorithm, Connection, FeedbackSet, Message, RENO, TcpEndpoint, TcpParams};
use crate::nic::NicParams;
use crate::object::GeneratedSource;
use crate::receiver_driven::{DscpParams, EPHEMERAL_PORTS};
use crate::{HostConfig, SendRequest, Transport, Via};

const SENDER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PORT: u16 = 7002;

fn params(source_quench: bool) -> TcpParams {
    TcpParams {
        source_quench,
        ..TcpParams::default()
    }
}

/// Reno that obeys the messages.
fn listening() -> Algorithm {
    Algorithm {
        feedback: FeedbackSet::NONE.with(SourceQuenches),
        ..RENO
    }
}

/// A message about the segment of this sequence number. True: the window is smaller now.
fn asks_for_less(sender: &mut Connection, seq: u32) -> bool {
    let address = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let quench = SourceQuench {
        sender: address,
        receiver: address,
        seq,
    };
    sender.handle_message(Instant::ZERO, &Message::Quench(quench))
}

#[test]
fn the_window_is_halved_once_for_what_is_in_flight_and_nothing_goes_out_again() {
    let mut net = Network::new(listening(), params(true));
    net.transfer(1_000_000);
    net.run_until(Instant::from_micros(600));
    let first_asked = net.sent.last().unwrap().1.seq;
    let window = |net: &Network| net.pairs[0].left.statistics().summary.window_bytes;
    let (before, sent) = (window(&net), net.sent.len());
    assert!(asks_for_less(&mut net.pairs[0].left, first_asked));
    let after = window(&net);
    assert!(after < before * 6 / 10, "{before} to {after}");
    for (_, segment) in net.sent.iter().rev().take(5) {
        assert!(!asks_for_less(&mut net.pairs[0].left, segment.seq));
    }
    assert_eq!((window(&net), net.sent.len()), (after, sent));

    // As soon as all of it has been acknowledged, and more, the next is heard.
    let mut heard_at = None;
    for us in 601..3_000 {
        net.run_until(Instant::from_micros(us));
        let latest = net.sent.last().unwrap().1.seq;
        if asks_for_less(&mut net.pairs[0].left, latest) {
            heard_at = Some(us);
            break;
        }
    }
    // No round trip is shorter than two ways on the wire.
    assert!(heard_at.is_some_and(|us| us >= 640), "{heard_at:?}");
    net.run_and_check();
    assert_eq!(net.pairs[0].left.statistics().sender.retransmitted, 0);
}

#[test]
fn only_what_is_in_flight_can_have_met_a_slow_queue() {
    let mut net = Network::new(listening(), params(true));
    net.transfer(400_000);
    net.run_until(Instant::from_micros(300));
    let (acknowledged, latest) = (net.sent[2].1.seq, net.sent.last().unwrap().1.seq);
    for seq in [
        acknowledged,
        latest.wrapping_add(1_000_000),
        latest.wrapping_sub(1 << 31),
    ] {
        assert!(!asks_for_less(&mut net.pairs[0].left, seq));
    }
    // A packet of the side that sends nothing: an ACK.
    let acknowledging = net.sent[2].1.ack.unwrap();
    let receiver = net.pairs[0].right.as_mut().unwrap();
    assert!(!asks_for_less(receiver, acknowledging));
    net.run_and_check();
}

fn endpoint(address: Ipv4Addr, source_quench: bool) -> TcpEndpoint {
    let host = HostConfig {
        address,
        nic: NicParams::default(),
        dscp: DscpParams::default(),
        source_ports: EPHEMERAL_PORTS,
        seed: 1,
    };
    TcpEndpoint::new(host, "test", RENO, params(source_quench), None).unwrap()
}

/// A message about a packet of `about`, to `to`.
fn quench(about: &[u8], to: Ipv4Addr) -> Vec<u8> {
    let mut icmp = vec![4, 0, 0, 0, 0, 0, 0, 0];
    icmp.extend(&about[..Ipv4Header::BYTES + 8]);
    let checksum = internet_checksum(&icmp);
    icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
    let mut packet = Vec::new();
    Ipv4Header::new(RECEIVER, to, Protocol::ICMP, 0, Ecn::NotEct).emit(icmp.len(), &mut packet);
    packet.extend(icmp);
    packet
}

/// A sender with packets in flight, and the last of them.
fn sending(source_quench: bool) -> (TcpEndpoint, Vec<u8>) {
    let now = Instant::from_micros(1);
    let (mut sender, mut receiver) = (endpoint(SENDER, source_quench), endpoint(RECEIVER, false));
    receiver.listen(PORT).unwrap();
    let source = Arc::new(GeneratedSource {
        seed: 1,
        bytes: 1_000_000,
    });
    let request = SendRequest {
        to: SocketAddrV4::new(RECEIVER, PORT),
        source_port: None,
        source,
        priority: 0,
        part: None,
        via: Via::Any,
    };
    sender.send(now, request).unwrap();
    let mut packet = Vec::new();
    // SYN, SYN-ACK; what comes then stays in flight.
    assert!(
        sender
            .poll_transmit_of(now, DscpSet::ALL, &mut packet)
            .is_some()
    );
    receiver.handle_packet(now, &packet);
    assert!(
        receiver
            .poll_transmit_of(now, DscpSet::ALL, &mut packet)
            .is_some()
    );
    sender.handle_packet(now, &packet);
    let mut last = Vec::new();
    while sender
        .poll_transmit_of(now, DscpSet::ALL, &mut packet)
        .is_some()
    {
        last.clone_from(&packet);
    }
    assert_eq!(last.len(), 1500);
    (sender, last)
}

#[test]
fn a_message_finds_its_connection() {
    let (mut sender, last) = sending(true);
    let now = Instant::from_micros(100);
    for _ in 0..3 {
        sender.handle_packet(now, &quench(&last, SENDER));
    }
    assert_eq!(sender.counters().quenched, 1);
    assert_eq!(sender.counters().malformed_packets, 0);
}

#[test]
fn messages_that_are_not_for_us_or_damaged_are_counted() {
    let (mut sender, last) = sending(true);
    let now = Instant::from_micros(100);
    let mut of_another = last.clone();
    of_another[15] ^= 1; // of the source address, so that the quoted checksum is wrong
    sender.handle_packet(now, &quench(&of_another, SENDER));
    let whole = quench(&last, SENDER);
    for bytes in 0..whole.len() {
        sender.handle_packet(now, &whole[..bytes]);
    }
    assert_eq!(sender.counters().malformed_packets, 1 + whole.len() as u64);
    sender.handle_packet(now, &quench(&last, Ipv4Addr::new(10, 0, 1, 3)));
    // A port from which nothing has gone: it is of no connection, and nobody is told.
    let mut stranger = last.clone();
    stranger[20] ^= 1;
    sender.handle_packet(now, &quench(&stranger, SENDER));
    assert_eq!(
        (sender.counters().quenched, sender.counters().resets_sent),
        (0, 0)
    );
}

#[test]
fn hosts_ignore_it_unless_told_otherwise() {
    assert!(!TcpParams::default().source_quench);
    let (mut sender, last) = sending(false);
    sender.handle_packet(Instant::from_micros(100), &quench(&last, SENDER));
    assert_eq!(sender.counters().quenched, 0);
    assert_eq!(sender.counters().foreign_packets, 1);
}
