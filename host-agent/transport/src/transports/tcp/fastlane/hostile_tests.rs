//! Harm by forged, repeated and mutilated notifications.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_units::{Duration, Instant};
use ebb_wire::{DropNotification, TcpFlags, checksum};
use proptest::prelude::*;

use super::super::testing::{Fate, Network, notification};
use super::super::{Failure, TcpEndpoint, TcpParams};
use super::*;
use crate::nic::NicParams;
use crate::object::GeneratedSource;
use crate::receiver_driven::{DscpParams, EPHEMERAL_PORTS};
use crate::{HostConfig, SendRequest, Transport, Via};

fn params() -> TcpParams {
    TcpParams {
        sack: false,
        ..TcpParams::default()
    }
}

fn network() -> Network {
    Network::new(FastlaneParams::default().algorithm(), params())
}

#[test]
fn claims_about_every_packet_cost_one_retransmission_per_segment_and_round_trip() {
    let mut net = network();
    net.transfer(200_000);
    for us in (0..4_000).step_by(13) {
        let now = Instant::from_micros(us);
        net.run_until(now);
        let latest = net.sent.iter().rev().take(30);
        let claims: Vec<_> = latest.map(|(_, segment)| notification(segment)).collect();
        for claim in claims {
            net.pairs[0]
                .left
                .handle_message(now, &Message::Dropped(claim));
        }
    }
    net.run_and_check();
    // No round trip is shorter than two ways on the wire.
    let round_trip = Duration::from_micros(40);
    let mut again: BTreeMap<u32, Vec<Instant>> = BTreeMap::new();
    for (at, segment) in net.sent.iter().filter(|(_, s)| s.sequence_length() > 0) {
        again.entry(segment.seq).or_default().push(*at);
    }
    let retransmitted = again.values().filter(|times| times.len() > 1).count();
    assert!(retransmitted > 0, "the claims were heard");
    for times in again.values() {
        // The first claim may be at once; after that a round trip passes.
        let pairs = times.windows(2).skip(1);
        assert!(
            pairs.into_iter().all(|t| t[1].since(t[0]) >= round_trip),
            "{times:?}"
        );
    }
}

#[test]
fn only_what_can_have_been_dropped_is_heard() {
    let mut net = network();
    net.transfer(400_000);
    net.run_until(Instant::from_micros(300));
    let (first, sent) = (net.sent[2].1.clone(), net.sent.len());
    let real = notification(&net.sent.last().unwrap().1);
    let forged = [
        // Acknowledged already, never sent, another length, another packet's flags.
        notification(&first),
        DropNotification {
            seq: real.seq.wrapping_add(1_000_000),
            ..real
        },
        DropNotification {
            payload_bytes: real.payload_bytes - 1,
            ..real
        },
        DropNotification {
            flags: real.flags | TcpFlags::FIN,
            ..real
        },
        DropNotification {
            flags: TcpFlags::RST,
            ..real
        },
        DropNotification {
            flags: TcpFlags::SYN,
            ..real
        },
        // An ACK of what the peer has never sent.
        DropNotification {
            ack: real.ack.wrapping_add(1000),
            payload_bytes: 0,
            ..real
        },
    ];
    for claim in forged {
        for _ in 0..10 {
            net.pairs[0]
                .left
                .handle_message(net.now, &Message::Dropped(claim));
        }
    }
    assert_eq!(net.sent.len(), sent);
    net.run_and_check();
    let sender = net.pairs[0].left.statistics().sender;
    assert_eq!((sender.retransmitted, sender.loss_episodes), (0, 0));
}

/// Whoever forges notifications for a peer that is gone cannot keep a connection alive.
#[test]
fn claims_do_not_keep_a_connection_to_nobody() {
    let params = TcpParams {
        max_retries: 3,
        ..params()
    };
    for dead_from in [0, 20] {
        let mut net = Network::new(FastlaneParams::default().algorithm(), params.clone());
        net.forward.fate = Box::new(move |n, _| match n {
            n if n < dead_from => Fate::Pass,
            _ => Fate::Drop,
        });
        net.notification_delay = Some(Duration::from_micros(5));
        net.transfer(100_000);
        // 4 timeouts, and before each at most 4 notifications that put it off by as much.
        net.run_until(Instant::from_micros(1_000_000));
        let failure = net.pairs[0].left.failure();
        assert!(
            matches!(
                failure,
                Some(Failure::HandshakeTimeout { .. } | Failure::RetransmissionTimeout { .. })
            ),
            "{failure:?}"
        );
    }
}

const SENDER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 2);

fn endpoint(address: Ipv4Addr) -> TcpEndpoint {
    let host = HostConfig {
        address,
        nic: NicParams::default(),
        dscp: DscpParams::default(),
        source_ports: EPHEMERAL_PORTS,
        seed: 1,
    };
    let algorithm = FastlaneParams::default().algorithm();
    TcpEndpoint::new(host, "fastlane", algorithm, params(), None).unwrap()
}

/// A sender whose first window is under way, and the first packet of it.
fn under_way() -> (TcpEndpoint, Vec<u8>) {
    let (mut sender, mut receiver) = (endpoint(SENDER), endpoint(RECEIVER));
    let now = Instant::from_micros(10);
    receiver.listen(7009).unwrap();
    let source = GeneratedSource {
        seed: 1,
        bytes: 100_000,
    };
    let request = SendRequest {
        to: SocketAddrV4::new(RECEIVER, 7009),
        source: Arc::new(source),
        source_port: None,
        priority: 0,
        part: None,
        via: Via::Any,
    };
    sender.send(now, request).unwrap();
    let (mut syn, mut syn_ack) = (Vec::new(), Vec::new());
    assert!(sender.poll_transmit(now, &mut syn).is_some());
    receiver.handle_packet(now, &syn);
    assert!(receiver.poll_transmit(now, &mut syn_ack).is_some());
    sender.handle_packet(now, &syn_ack);
    let all = packets(&mut sender, now);
    let first = all.into_iter().find(|packet| packet.len() == 1500);
    (sender, first.expect("a full packet"))
}

fn packets(host: &mut TcpEndpoint, now: Instant) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut packet = Vec::new();
    while host.poll_transmit(now, &mut packet).is_some() {
        all.push(packet.clone());
    }
    all
}

/// A notification of a switch about a packet that it dropped.
fn turned_round(packet: &[u8], dscp: u8) -> Vec<u8> {
    let mut cut = packet[..40].to_vec();
    cut[12..16].copy_from_slice(&packet[16..20]);
    cut[16..20].copy_from_slice(&packet[12..16]);
    cut[1] = dscp << 2;
    seal(&mut cut);
    cut
}

/// Makes the checksum of the IPv4 header right.
fn seal(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let sum = checksum::internet_checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn a_cut_packet_is_heard_as_a_notification_and_as_nothing_else() {
    let (mut sender, dropped) = under_way();
    let now = Instant::from_micros(60);
    sender.handle_packet(now, &turned_round(&dropped, 0));
    assert_eq!(sender.counters().malformed_packets, 1);
    assert_eq!(packets(&mut sender, now), [[0u8; 0]; 0]);
    sender.handle_packet(now, &turned_round(&dropped, 56));
    let again = packets(&mut sender, now);
    assert_eq!(again.len(), 1);
    // The sender's own bytes, not those of the notification.
    assert_eq!(again[0][20..], dropped[20..]);
    // To another host, to a port without a flow.
    let mut foreign = turned_round(&dropped, 56);
    foreign[19] ^= 1;
    seal(&mut foreign);
    sender.handle_packet(now, &foreign);
    assert_eq!(sender.counters().foreign_packets, 1);
    let mut stray = turned_round(&dropped, 56);
    stray[20] ^= 1;
    sender.handle_packet(now, &stray);
    assert_eq!(packets(&mut sender, now).len(), 0, "no RST in answer");
}

proptest! {
    #[test]
    fn no_bytes_in_the_class_of_notifications_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        length in 0usize..41,
        flips in prop::collection::vec((20usize..40, any::<u8>()), 0..6),
    ) {
        let (mut sender, dropped) = under_way();
        let now = Instant::from_micros(60);
        let mut changed = turned_round(&dropped, 56);
        for (at, value) in flips {
            changed[at] = value;
        }
        for packet in [&bytes[..], &changed[..length.min(changed.len())], &changed] {
            sender.handle_packet(now, packet);
        }
        prop_assert!(packets(&mut sender, now).len() <= 1);
        if let Some(deadline) = sender.next_deadline() {
            prop_assert!(deadline > now);
        }
    }
}
