//! Rules of NDP and SCDP alike.

use ebb_units::Duration;
use ebb_wire::{EbbFlags, EbbHeader, PacketType};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::ndp::{NdpHost, NdpParams};
use crate::record::{Role, Status};
use crate::scdp::{ScdpHost, ScdpParams};
use crate::testing::{Fate, Network, PORT, PortParams, address, ebb_packet};
use crate::{DscpParams, HostConfig, Objection, PriorityDscps, Transport};

fn ndp(config: HostConfig) -> NdpHost {
    NdpHost::new(config, NdpParams::default())
}

fn scdp(config: HostConfig) -> ScdpHost {
    ScdpHost::new(config, ScdpParams::default())
}

fn network<T: Transport + 'static>(make: fn(HostConfig) -> T) -> Network {
    network_of(2, make)
}

fn network_of<T: Transport + 'static>(hosts: usize, make: fn(HostConfig) -> T) -> Network {
    Network::new(hosts, PortParams::default(), make)
}

/// Parameters name one DSCP for all priorities, or each.
#[test]
fn priorities_have_one_dscp_or_one_each() {
    let read = |text: &str| serde_json::from_str::<PriorityDscps>(text);
    let written = |dscps: PriorityDscps| serde_json::to_string(&dscps).unwrap();
    let one = read("34").unwrap();
    assert_eq!((one.of(1), one.of(7), written(one)), (34, 34, "34".into()));
    let each = read("[8,16,18,20,24,32,40]").unwrap();
    assert_eq!((each.of(1), each.of(7), each.of(9)), (8, 40, 40));
    assert!(each.contains(18) && !each.contains(34));
    assert_eq!(written(each), "[8,16,18,20,24,32,40]");
    for wrong in ["[8]", "[1,2,3,4,5,6,7,8]", "\"34\"", "-1", "256"] {
        let error = read(wrong).unwrap_err().to_string();
        assert!(error.contains("a list of seven"), "{wrong}: {error}");
    }
    let priority = read("[8,16,18,20,24,32,64]").unwrap();
    let invalid = DscpParams {
        priority,
        ..DscpParams::default()
    };
    assert_eq!(
        invalid.validate().unwrap_err(),
        "section dscp: 64 is not a DSCP; 0..63 are"
    );
}

/// Whoever uses the transport sees a wrong hash before the last confirmation has left.
#[test]
fn a_refused_content_fails_the_sender_too() {
    for mut net in [network(ndp), network(scdp)] {
        for bytes in [5_000, 100_000] {
            net.refuse_content = true;
            net.records.clear();
            net.send(0, 1, bytes);
            net.run();
            let sender = net
                .records
                .iter()
                .find(|(_, _, r)| r.role == Role::Sender)
                .unwrap();
            let Status::Failed(why) = &sender.2.status else {
                panic!("{:#?}", net.records)
            };
            assert!(why.contains("refused"), "{why}");
        }
    }
}

fn any_header(rng: &mut SmallRng, genuine: &EbbHeader) -> EbbHeader {
    let types = [
        PacketType::Data,
        PacketType::Symbol,
        PacketType::Pull,
        PacketType::Ack,
        PacketType::Nack,
    ];
    let mut header = *genuine;
    let mut small = || -> u64 {
        match rng.random_range(0..4) {
            0 => rng.random_range(0..4),
            1 => rng.random_range(0..300),
            2 => u64::MAX - rng.random_range(0..4),
            _ => rng.random(),
        }
    };
    for _ in 0..3 {
        match small() % 12 {
            0 => header.packet_type = types[small() as usize % types.len()],
            1 => header.flags = EbbFlags(small() as u8),
            2 => header.block = small() as u32,
            3 => header.symbol = small() as u32 % EbbHeader::SYMBOL_LIMIT,
            4 => header.pull = small() as u32,
            5 => header.object_bytes = small(),
            6 => header.symbol_bytes = small() as u16,
            7 => header.block_symbols = small() as u16,
            8 => header.session = small() as u32,
            9 => header.level = small() as u8,
            10 => header.payload_bytes = small() as u16,
            _ => {}
        }
    }
    header
}

/// Headers with right checksums and wrong contents, for open and unknown sessions, both ways.
#[test]
fn no_header_makes_a_host_panic_or_loop() {
    for seed in 0..20 {
        let mut rng = SmallRng::seed_from_u64(seed);
        for mut net in [network(ndp), network(scdp)] {
            net.send(0, 1, 300_000);
            net.run_until(ebb_units::Instant::from_micros(50));
            for _ in 0..300 {
                let now = net.now;
                net.run_until(now + ebb_units::Duration::from_micros(20));
                let (_, src, genuine) = net.log[rng.random_range(0..net.log.len())];
                let header = any_header(&mut rng, &genuine);
                let to = if src == address(0) { 1 } else { 0 };
                let dscp = if rng.random_bool(0.3) { 12 } else { 10 };
                let payload = vec![0; usize::from(header.payload_bytes.min(1432))];
                let header = EbbHeader {
                    payload_bytes: payload.len() as u16,
                    ..header
                };
                let packet = ebb_packet(src, address(to), dscp, &header, &payload);
                net.inject(to, &packet);
            }
            net.run();
            assert!(!net.transport(0).is_active() && !net.transport(1).is_active());
        }
    }
}

#[test]
fn sending_to_nobody_is_refused() {
    let mut net = network(scdp);
    let source = std::sync::Arc::new(vec![0u8; 10]);
    let now = net.now;
    for to in [
        "10.0.0.2:7000",
        "0.0.0.0:7000",
        "224.0.0.1:7000",
        "255.255.255.255:1",
        "10.0.0.3:0",
    ] {
        let request = crate::SendRequest {
            to: to.parse().unwrap(),
            source_port: None,
            source: source.clone(),
            priority: 0,
            part: None,
            via: crate::Via::Any,
        };
        assert!(net.transport(0).send(now, request).is_err(), "{to}");
    }
    let request = crate::SendRequest {
        to: std::net::SocketAddrV4::new(address(1), PORT),
        source_port: Some(9),
        source,
        priority: 0,
        part: None,
        via: crate::Via::Any,
    };
    assert!(net.transport(0).send(now, request.clone()).is_ok());
    assert!(
        net.transport(0).send(now, request).is_err(),
        "port used twice"
    );
}

/// The number of requested packets is in every packet with payload, and in nothing else.
#[test]
fn packets_announce_the_priority_of_their_session() {
    for mut net in [network(ndp), network(scdp)] {
        for (asked, announced) in [(0, 0), (5, 5), (200, 7)] {
            net.log.clear();
            net.send_with_priority(0, 1, 50_000, asked);
            net.run();
            for (_, _, header) in &net.log {
                let data = header.packet_type.carries_payload();
                assert_eq!(header.priority, if data { announced } else { 0 });
            }
        }
    }
}

/// Alone, each would take half the time that both take together.
#[test]
fn an_urgent_session_is_pulled_first() {
    for make in [|| network_of(3, ndp), || network_of(3, scdp)] {
        let finish = |priorities: [u8; 2]| -> [u64; 2] {
            let mut net = make();
            net.send_with_priority(0, 2, 1_000_000, priorities[0]);
            net.send_with_priority(1, 2, 1_000_000, priorities[1]);
            net.run();
            [0, 1].map(|sender| net.pair(sender, 2).1.duration_ns)
        };
        let [a, b] = finish([3, 3]);
        assert!(a.abs_diff(b) < a / 20, "{a} {b}");
        let [urgent, normal] = finish([1, 0]);
        assert!(urgent < normal * 3 / 5, "{urgent} {normal}");
        let [normal, urgent] = finish([6, 7]);
        assert!(urgent < normal * 3 / 5, "{urgent} {normal}");
    }
}

/// The first packet of a session decides; what later ones say cannot reorder the pull queue.
#[test]
fn a_session_keeps_the_priority_that_its_first_packet_announced() {
    let mut net = network_of(4, ndp);
    let data = |session, number, priority| {
        let header = EbbHeader {
            flags: EbbFlags::SYN,
            session,
            symbol: number,
            priority,
            pull: 12,
            object_bytes: 100 * 1432,
            symbol_bytes: 1432,
            payload_bytes: 1432,
            ..EbbHeader::new(PacketType::Data, 50_000, PORT)
        };
        ebb_packet(address(0), address(1), 10, &header, &[0; 1432])
    };
    // The NIC is busy with ACKs, so that the pulls of all of these wait together.
    for (session, number, priority) in [
        (1, 0, 2),
        (2, 0, 5),
        (3, 0, 2),
        (1, 1, 7),
        (2, 1, 0),
        (3, 1, 0),
    ] {
        net.inject(1, &data(session, number, priority));
    }
    net.run_until(ebb_units::Instant::from_micros(300));
    let pulls = net
        .log
        .iter()
        .filter(|(_, _, h)| h.packet_type == PacketType::Pull);
    let order: Vec<u32> = pulls.map(|(_, _, h)| h.session).collect();
    assert_eq!(order[..6], [2, 2, 1, 3, 1, 3]);
}

/// An open flow goes on, an ended one answers late packets, and then the port is free.
#[test]
fn a_port_can_be_given_up() {
    for mut net in [network(ndp), network(scdp)] {
        assert!(!net.transport(1).uses_port(PORT));
        net.send(0, 1, 50_000);
        net.run_until(net.now + Duration::from_micros(100));
        net.transport(1).unlisten(PORT);
        assert!(net.records.is_empty() && net.transport(1).uses_port(PORT));
        let late = net.send(0, 1, 1000);
        net.run_until(net.now + Duration::from_millis(20));
        net.finished(Role::Receiver, 0, 1);
        let late = net.records.iter().find(|(_, flow, _)| *flow == late);
        assert!(matches!(&late.unwrap().2.status, Status::Failed(why) if why.contains("listen")));
        assert!(net.transport(1).uses_port(PORT), "late packets");
        net.run();
        assert!(!net.transport(1).uses_port(PORT));
    }
}

/// Whether the host of a network still answers late packets after so long.
fn stays(net: &mut Network, host: usize, time: Duration) -> bool {
    net.run_until(net.now + time);
    net.transport(host).is_active()
}

/// One round trip instead of the time in which a silent sender may still ask.
#[test]
fn who_leaves_need_not_stay_for_a_sender_that_knows() {
    for mut net in [network(ndp), network(scdp)] {
        net.send(0, 1, 50_000);
        while net.records.len() < 2 {
            net.run_until(net.now + Duration::from_micros(10));
        }
        assert!(stays(&mut net, 1, Duration::from_millis(1)), "as others do");
        net.tell(1, |transport, now| transport.leave(now));
        assert!(!stays(&mut net, 1, Duration::from_micros(100)));
    }
}

/// Its last words are lost, again and again: it stays until the sender knows.
#[test]
fn who_leaves_stays_for_a_sender_that_does_not_know() {
    for mut net in [network(ndp), network(scdp)] {
        // From the receiver nothing comes through for 30 ms, which is three questions.
        net.send(0, 1, 5_000);
        let begun = net.now;
        let dark = Duration::from_micros(20)..Duration::from_millis(30);
        let mut left = false;
        net.fate = Box::new(|_, _| Fate::Pass);
        while net.now < begun + Duration::from_millis(300) {
            let passed = net.now.since(begun);
            let lost = dark.contains(&passed);
            net.fate = Box::new(move |_, header| {
                let from_receiver = !matches!(
                    header.packet_type,
                    PacketType::Data | PacketType::Symbol | PacketType::Reset
                );
                Fate::Drop.when(lost && from_receiver)
            });
            net.run_until(net.now + Duration::from_micros(100));
            if !left && net.records.iter().any(|(host, ..)| *host == 1) {
                left = true;
                net.tell(1, |transport, now| transport.leave(now));
            }
        }
        assert!(left);
        let (receiver, sender) = net.pair(0, 1);
        assert_eq!(
            (&receiver.status, &sender.status),
            (&Status::Finished, &Status::Finished)
        );
        assert!(!net.transport(1).is_active());
    }
}

/// A sender that is gone answers nothing.
#[test]
fn who_leaves_does_not_wait_for_a_sender_that_is_gone() {
    for mut net in [network(ndp), network(scdp)] {
        net.send(0, 1, 50_000);
        while net.records.len() < 2 {
            net.run_until(net.now + Duration::from_micros(10));
        }
        net.unplug(0);
        net.tell(1, |transport, now| transport.leave(now));
        assert!(stays(&mut net, 1, Duration::from_millis(50)));
        // 10, 20, 40 and 80 ms for four questions; without them 630 ms.
        assert!(!stays(&mut net, 1, Duration::from_millis(110)));
    }
}

/// Nobody is believed that a session has ended while this host stays, or who is not its sender.
#[test]
fn a_host_that_stays_remembers_whatever_it_is_told() {
    for (mut net, leaves, source_port) in [
        (network(ndp), false, None),
        (network(scdp), false, None),
        (network(ndp), true, Some(1)),
        (network(scdp), true, Some(1)),
    ] {
        net.send(0, 1, 5_000);
        while net.records.len() < 2 {
            net.run_until(net.now + Duration::from_micros(10));
        }
        net.unplug(0);
        if leaves {
            net.tell(1, |transport, now| transport.leave(now));
        }
        let (receiver, _) = net.pair(0, 1);
        let (peer, session) = (receiver.peer, receiver.session);
        let header = EbbHeader {
            session,
            symbol: 6,
            ..EbbHeader::new(PacketType::Reset, source_port.unwrap_or(peer.port()), PORT)
        };
        let packet = ebb_packet(address(0), address(1), 46, &header, &[]);
        net.inject(1, &packet);
        assert!(stays(&mut net, 1, Duration::from_millis(1)));
    }
}

/// In words of the sender's own, whatever the receiver's record says.
#[test]
fn a_sender_is_told_why_its_object_is_refused() {
    for make in [|| network(ndp), || network(scdp)] {
        for objection in Objection::ALL {
            let mut net = make();
            let sent = net.send(0, 1, 500_000);
            net.run_until(net.now + Duration::from_micros(200));
            let flow = net.delivered.keys().find(|(host, _)| *host == 1).unwrap().1;
            net.tell(1, |transport, now| {
                transport.refuse(now, flow, "secret \u{1b}[2J", objection);
            });
            net.run();
            let (_, _, record) = net
                .records
                .iter()
                .find(|(_, id, r)| *id == sent && r.role == Role::Sender)
                .unwrap();
            let expected = format!("reset by the peer: {}", objection.describe());
            assert_eq!(record.status, Status::Failed(expected));
        }
    }
}
