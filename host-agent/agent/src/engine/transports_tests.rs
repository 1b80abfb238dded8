//! Who gets what arrives, and whose turn it is to send.

use std::collections::VecDeque;
use std::sync::mpsc;

use ebb_transport::{
    Condition, Event, FlowId, ListenError, PacketKind, SendError, SendRequest, Suite,
};
use ebb_wire::{EbbFlags, Ipv4Header};

use super::*;

/// Sends what it was given, and tells what arrives.
struct Fake {
    selectors: Vec<Selector>,
    outgoing: VecDeque<(PacketKind, u8)>,
    arrived: mpsc::Sender<u16>,
    polls: mpsc::Sender<()>,
}

impl Transport for Fake {
    fn listen(&mut self, _: u16) -> Result<(), ListenError> {
        Ok(())
    }
    fn unlisten(&mut self, _: u16) {}
    fn uses_port(&self, _: u16) -> bool {
        false
    }
    fn send(&mut self, _: Instant, _: SendRequest) -> Result<FlowId, SendError> {
        Err(SendError::PortZero)
    }
    fn abort(&mut self, _: Instant, _: FlowId, _: &str) {}
    fn handle_packet(&mut self, _: Instant, packet: &[u8]) {
        let selectors = self.selectors();
        let selector = selectors.iter().find(|s| s.matches(packet)).unwrap();
        self.arrived.send(selector.port(packet).unwrap()).unwrap();
    }
    fn selectors(&self) -> Vec<Selector> {
        self.selectors.clone()
    }
    fn handle_timeout(&mut self, _: Instant) {}
    fn next_deadline(&self) -> Option<Instant> {
        None
    }
    fn poll_transmit_of(&mut self, _: Instant, _: DscpSet, packet: &mut Vec<u8>) -> Option<TxInfo> {
        self.polls.send(()).unwrap();
        let (kind, name) = self.outgoing.pop_front()?;
        packet.clear();
        let scavenger = Params::default().dscp.scavenger;
        let dscp = if name.is_ascii_digit() { scavenger } else { 0 };
        packet.extend([name, dscp << 2]);
        let flow = FlowId(1);
        Some(TxInfo { flow, kind })
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
    fn is_active(&self) -> bool {
        false
    }
}

struct Rig {
    transports: Transports,
    arrived: Vec<mpsc::Receiver<u16>>,
    polls: Vec<mpsc::Receiver<()>>,
}

/// Capitals are data, digits are data that gives way, small letters are control.
fn rig(kinds: &[(TransportKind, PortRange, &str)]) -> Rig {
    let mut rig = Rig {
        transports: Transports::new(Ipv4Addr::LOCALHOST, Params::default(), 0),
        arrived: Vec::new(),
        polls: Vec::new(),
    };
    for &(kind, range, packets) in kinds {
        let (arrived, arrivals) = mpsc::channel();
        let (polls, polled) = mpsc::channel();
        let urgency = |name: u8| match name.is_ascii_lowercase() {
            true => PacketKind::Control,
            false => PacketKind::Data,
        };
        let ports = (range.first, range.last);
        let real = kind.transport(Ipv4Addr::LOCALHOST, &Suite::default(), ports, 1);
        let fake = Fake {
            selectors: real.unwrap().selectors(),
            outgoing: packets.bytes().map(|name| (urgency(name), name)).collect(),
            arrived,
            polls,
        };
        rig.transports.slots.push(Slot {
            kind,
            selectors: fake.selectors(),
            transport: Box::new(fake),
            ports: vec![PortLock::unlocked(range)],
            rules: Vec::new(),
            head: None,
            packet: Vec::new(),
            dry: false,
        });
        rig.arrived.push(arrivals);
        rig.polls.push(polled);
    }
    rig
}

const PORTS: [PortRange; 3] = [
    PortRange {
        first: 61_000,
        last: 61_063,
    },
    PortRange {
        first: 61_064,
        last: 61_127,
    },
    PortRange {
        first: 7004,
        last: 7004,
    },
];

fn order(transports: &mut Transports) -> String {
    transports.begin_transmit();
    let mut order = String::new();
    let mut packet = Vec::new();
    while transports
        .poll_transmit(Instant::ZERO, DscpSet::ALL, &mut packet)
        .is_some()
    {
        order.push(char::from(packet[0]));
    }
    order
}

#[test]
fn transports_send_in_turn_and_control_goes_first() {
    let mut rig = rig(&[
        (TransportKind::Ndp, PORTS[0], "ABC"),
        (TransportKind::Scdp, PORTS[1], "xUyV"),
        (TransportKind::Dctcp, PORTS[2], "RS"),
    ]);
    // x at once; y as soon as U, which hides it, has had its turn.
    assert_eq!(order(&mut rig.transports), "xRAUySBVC");
}

#[test]
fn scavengers_send_what_others_leave() {
    let mut rig = rig(&[
        (TransportKind::Ndp, PORTS[0], "12a3"),
        (TransportKind::Dctcp, PORTS[2], "ABcC"),
    ]);
    // a is behind 2.
    assert_eq!(order(&mut rig.transports), "ABcC12a3");
}

#[test]
fn one_transport_alone_keeps_its_own_order() {
    let mut rig = rig(&[(TransportKind::Ndp, PORTS[0], "AbCd")]);
    assert_eq!(order(&mut rig.transports), "AbCd");
}

#[test]
fn who_has_nothing_to_send_is_asked_once_per_turn() {
    let mut rig = rig(&[
        (TransportKind::Ndp, PORTS[0], "ABCDEF"),
        (TransportKind::Scdp, PORTS[1], ""),
    ]);
    assert_eq!(order(&mut rig.transports), "ABCDEF");
    assert_eq!(rig.polls[1].try_iter().count(), 1);
    assert_eq!(order(&mut rig.transports), "");
    assert_eq!(rig.polls[1].try_iter().count(), 1, "in the next turn again");
}

#[test]
fn what_arrives_goes_to_the_owner_of_its_port() {
    let mut rig = rig(&[
        (TransportKind::Ndp, PORTS[0], ""),
        (TransportKind::Scdp, PORTS[1], ""),
        (TransportKind::Dctcp, PORTS[2], ""),
    ]);
    let packet = |protocol: Protocol, port: u16| {
        let ports_at = if protocol == Protocol::EBB { 4 } else { 0 };
        packet(protocol, ports_at, (50_000, port))
    };
    for (protocol, port) in [
        (Protocol::EBB, 61_063),
        (Protocol::EBB, 61_064),
        (Protocol::TCP, 7004),
        // Ports of nobody, and of nobody for this protocol.
        (Protocol::EBB, 60_999),
        (Protocol::EBB, 7004),
        (Protocol::TCP, 61_000),
    ] {
        rig.transports
            .handle_packet(Instant::ZERO, &packet(protocol, port));
    }
    let arrived: Vec<Vec<u16>> = rig.arrived.iter().map(|a| a.try_iter().collect()).collect();
    assert_eq!(arrived, [[61_063], [61_064], [7004]]);
    // Too short to have a port.
    for len in [0, 1, 9, 10, 20, 26] {
        let packet = packet(Protocol::EBB, 61_063);
        rig.transports.handle_packet(Instant::ZERO, &packet[..len]);
    }
    assert!(rig.arrived[0].try_recv().is_err());
}

#[test]
fn what_is_let_through_is_told_once() {
    let mut rig = rig(&[
        (TransportKind::Ndp, PORTS[0], ""),
        (TransportKind::Dctcp, PORTS[2], ""),
    ]);
    assert_eq!(rig.transports.take_changed_selectors(), None);
    rig.transports.changed = true;
    let selectors = rig.transports.take_changed_selectors().unwrap();
    let returned = Condition::Bits {
        at: 1,
        mask: EbbFlags::RETURNED.0,
    };
    let expected = [
        (Selector::only(Protocol::EBB, 4, returned), PORTS[0]),
        (Selector::any(Protocol::EBB, 6), PORTS[0]),
        (Selector::any(Protocol::TCP, 2), PORTS[2]),
    ];
    assert_eq!(
        selectors,
        expected.map(|(selector, ports)| OurPackets { selector, ports })
    );
    assert_eq!(rig.transports.take_changed_selectors(), None);
}

/// Real transports of these parameters, with the ports `PORTS`, and nothing that hides them.
fn real(params: Params, kinds: &[TransportKind]) -> Transports {
    let mut transports = Transports::new(Ipv4Addr::LOCALHOST, params, 0);
    for (&kind, range) in kinds.iter().zip(PORTS) {
        let ports = (range.first, range.last);
        let suite = transports.params.suite();
        let made = kind.transport(Ipv4Addr::LOCALHOST, &suite, ports, 1);
        let transport = made.unwrap();
        transports.slots.push(Slot {
            kind,
            selectors: transport.selectors(),
            transport,
            ports: vec![PortLock::unlocked(range)],
            rules: Vec::new(),
            head: None,
            packet: Vec::new(),
            dry: false,
        });
    }
    transports.changed = true;
    transports
}

#[test]
fn who_wants_to_hear_of_drops_does_also_where_it_only_sends() {
    let mut params = Params::default();
    params.pfabric.notified = true;
    params.fastlane.notification_dscp = 33;
    let mut transports = real(
        params,
        &[
            TransportKind::Dctcp,
            TransportKind::Pfabric,
            TransportKind::Fastlane,
        ],
    );
    let selectors = transports.take_changed_selectors().unwrap();
    let classes: Vec<_> = selectors.iter().map(|s| s.selector.condition).collect();
    let notified = Some(Condition::Dscp(33));
    assert_eq!(classes, [None, notified, None, notified, None]);

    // The first packet of a flow of pFabric, which a switch sends back in the class of notifications.
    let to = std::net::SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 2), 7010);
    let request = SendRequest {
        to,
        source_port: None,
        source: std::sync::Arc::new(vec![1; 100]),
        priority: 0,
        part: None,
        via: ebb_transport::Via::Any,
    };
    let pfabric = transports.get(TransportKind::Pfabric).unwrap();
    pfabric.send(Instant::ZERO, request).unwrap();
    let mut packet = Vec::new();
    let sent = |transports: &mut Transports, packet: &mut Vec<u8>, now| {
        transports.begin_transmit();
        transports
            .poll_transmit(now, DscpSet::ALL, packet)
            .is_some()
    };
    assert!(sent(&mut transports, &mut packet, Instant::ZERO));
    assert!(!sent(&mut transports, &mut Vec::new(), Instant::ZERO));
    let dropped = dropped(&packet, 33);
    let later = Instant::from_micros(100);
    transports.handle_packet(later, &dropped);
    transports.handle_timeout(later);
    let mut again = Vec::new();
    assert!(
        sent(&mut transports, &mut again, later),
        "the SYN goes again"
    );
    assert_eq!(again, packet);
}

/// An IPv4 packet whose header has options, with the ports `from` and `to` at `ports_at` behind it.
fn packet(protocol: Protocol, ports_at: usize, (from, to): (u16, u16)) -> Vec<u8> {
    let mut packet = vec![0; 24 + 48];
    packet[0] = 0x46;
    packet[9] = protocol.0;
    let at = 24 + ports_at;
    packet[at..at + 2].copy_from_slice(&from.to_be_bytes());
    packet[at + 2..at + 4].copy_from_slice(&to.to_be_bytes());
    packet
}

#[test]
fn a_returned_packet_is_for_its_source_port() {
    let mut rig = rig(&[
        (TransportKind::Ndp, PORTS[0], ""),
        (TransportKind::Scdp, PORTS[1], ""),
    ]);
    // SCDP sent it, from the second range to a port that is also one of NDP's.
    let mut packet = packet(Protocol::EBB, 4, (PORTS[1].first, PORTS[0].first));
    packet[24 + 1] = EbbFlags::TRIMMED.0;
    rig.transports.handle_packet(Instant::ZERO, &packet);
    packet[24 + 1] = (EbbFlags::TRIMMED | EbbFlags::RETURNED).0;
    rig.transports.handle_packet(Instant::ZERO, &packet);
    let stranger = self::packet(Protocol::EBB, 4, (50_000, PORTS[0].first));
    let mut returned = stranger.clone();
    returned[24 + 1] = EbbFlags::RETURNED.0;
    rig.transports.handle_packet(Instant::ZERO, &returned);
    let arrived: Vec<Vec<u16>> = rig.arrived.iter().map(|a| a.try_iter().collect()).collect();
    assert_eq!(arrived, [[PORTS[0].first], [PORTS[1].first]]);
}

#[test]
fn a_message_is_for_the_source_port_that_it_quotes() {
    let mut params = Params::default();
    params.tcp.source_quench = true;
    let transports = real(params, &[TransportKind::Dctcp]);
    let mut message = packet(Protocol::ICMP, 28, (PORTS[0].first, 7004));
    assert!(transports.slots[0].selects(&message).is_some());
    assert!(transports.slots[0].selects(&message[..24 + 29]).is_none());
    message[24 + 28] ^= 0x80;
    assert!(transports.slots[0].selects(&message).is_none());
    let deaf = real(Params::default(), &[TransportKind::Dctcp]);
    let message = packet(Protocol::ICMP, 28, (PORTS[0].first, 7004));
    assert!(deaf.slots[0].selects(&message).is_none());
}

/// The port range of DCTCP has the port that FastLane's flow goes to: a notification is FastLane's.
#[test]
fn a_notification_goes_past_the_owner_of_its_destination_port() {
    let mut transports = real(
        Params::default(),
        &[TransportKind::Dctcp, TransportKind::Fastlane],
    );
    let (dctcp, fastlane) = (PORTS[0].first, PORTS[1].first);
    let mut packet = packet(Protocol::TCP, 0, (fastlane, dctcp));
    let owners = |transports: &mut Transports, packet: &[u8]| {
        let slots = transports.slots.iter();
        slots
            .map(|slot| slot.selects(packet).copied())
            .collect::<Vec<_>>()
    };
    let own = Selector::any(Protocol::TCP, 2);
    assert_eq!(owners(&mut transports, &packet), [Some(own), None]);
    packet[1] = 56 << 2;
    let notified = Selector::only(Protocol::TCP, 0, Condition::Dscp(56));
    assert_eq!(
        owners(&mut transports, &packet),
        [Some(own), Some(notified)]
    );
}

/// A notification of a switch about a packet that it dropped: addresses swapped, in the class `dscp`.
fn dropped(packet: &[u8], dscp: u8) -> Vec<u8> {
    let header = Ipv4Header::parse(packet).unwrap().header;
    let back = Ipv4Header::new(header.dst, header.src, Protocol::TCP, dscp, header.ecn);
    let mut out = Vec::new();
    back.emit(packet.len() - Ipv4Header::BYTES, &mut out);
    out.extend_from_slice(&packet[Ipv4Header::BYTES..]);
    out
}
