//! Slow applications, many connections, and peers that are not honest.

use super::*;

fn delivered(rack: &Rack, host: usize) -> Vec<u8> {
    let mut all = Vec::new();
    for (at, event) in &rack.events {
        if let (true, Event::Delivered { bytes, .. }) = (*at == host, event) {
            all.extend_from_slice(bytes);
        }
    }
    all
}

fn generated(seed: u64, bytes: u64) -> Vec<u8> {
    let mut expected = vec![0; bytes as usize];
    GeneratedSource { seed, bytes }
        .read_at(0, &mut expected)
        .unwrap();
    expected
}

/// A transfer of `bytes` from host 0 to host 1 after `us`, and the receiver's flow.
fn under_way(bytes: u64, us: u64) -> (Rack, FlowId, FlowId) {
    let mut rack = Rack::new(2, DCTCP, false);
    rack.hosts[1].listen(PORT).unwrap();
    let sender = rack.send(0, 1, bytes);
    rack.run_until(rack.now + Duration::from_micros(us));
    let receiver = rack.hosts[1].flows.iter().next().unwrap().0;
    (rack, sender, receiver)
}

fn all_finished(rack: &Rack) -> bool {
    let records: Vec<_> = [Role::Sender, Role::Receiver]
        .into_iter()
        .flat_map(|role| rack.records(role))
        .collect();
    !records.is_empty() && records.iter().all(|r| r.status == Status::Finished)
}

#[test]
fn a_paused_receiver_holds_the_sender_for_as_long_as_it_likes() {
    for lose_the_update in [false, true] {
        let (mut rack, sender, receiver) = under_way(8_000_000, 5_000);
        let now = rack.now;
        rack.hosts[1].set_paused(now, receiver, true);
        let before = delivered(&rack, 1).len() as u64;
        rack.run_until(now + Duration::from_secs(20));
        rack.now = now + Duration::from_secs(20);
        assert_eq!(delivered(&rack, 1).len() as u64, before);
        let received = rack.hosts[1].progress(receiver).unwrap();
        assert_eq!((received.done_bytes, received.total_bytes), (before, None));
        let sent = rack.hosts[0].progress(sender).unwrap();
        // The bytes held are the receive buffer, full.
        let held = sent.done_bytes - before;
        assert!((2_090_000..=2 << 20).contains(&held), "{held}");
        assert_eq!(sent.total_bytes, Some(8_000_000));
        assert!(rack.records(Role::Sender).is_empty());
        let now = rack.now;
        rack.hosts[1].set_paused(now, receiver, false);
        if lose_the_update {
            rack.dead[0] = true;
            rack.run_until(now + Duration::from_millis(1));
            rack.dead[0] = false;
        }
        rack.run_until(now + Duration::from_millis(500));
        assert!(all_finished(&rack));
        assert!(delivered(&rack, 1) == generated(0, 8_000_000));
        rack.run();
        assert!(rack.hosts.iter().all(|host| !host.is_active()));
    }
}

/// Everything has arrived, but the application has not taken it: the sender waits for the FIN that
/// confirms it, and asks meanwhile.
#[test]
fn a_receiver_paused_to_the_end_is_waited_for() {
    let (mut rack, sender, receiver) = under_way(300_000, 100);
    let now = rack.now;
    rack.hosts[1].set_paused(now, receiver, true);
    rack.run_until(now + Duration::from_secs(10));
    rack.now = now + Duration::from_secs(10);
    assert_eq!(
        rack.hosts[0].flows.get(sender).unwrap().connection.state(),
        State::FinWait2
    );
    assert!(rack.records(Role::Sender).is_empty() && rack.records(Role::Receiver).is_empty());
    let now = rack.now;
    rack.hosts[1].set_paused(now, receiver, false);
    rack.run();
    assert!(all_finished(&rack));
    assert!(delivered(&rack, 1) == generated(0, 300_000));
}

#[test]
fn a_peer_that_is_gone_fails_a_paused_flow_too() {
    // The receiver is paused with a shut window, and its sender dies.
    let (mut rack, _, receiver) = under_way(8_000_000, 5_000);
    let now = rack.now;
    rack.hosts[1].set_paused(now, receiver, true);
    rack.run_until(now + Duration::from_secs(2));
    rack.dead[0] = true;
    rack.run_until(now + Duration::from_secs(7));
    assert!(
        rack.failure(Role::Receiver)
            .starts_with("nothing heard from the peer for 4")
    );
    // The sender waits for the confirmation of a paused receiver, which dies.
    let (mut rack, _, receiver) = under_way(300_000, 100);
    let now = rack.now;
    rack.hosts[1].set_paused(now, receiver, true);
    rack.run_until(now + Duration::from_secs(2));
    rack.dead[1] = true;
    rack.run_until(now + Duration::from_secs(7));
    assert!(
        rack.failure(Role::Sender)
            .starts_with("nothing heard from the peer for 4")
    );
}

#[test]
fn urgent_flows_have_their_dscp_in_both_directions() {
    let each = r#"[8, 16, 18, 20, 22, 34, 36]"#;
    let cases = [
        ("34", 0, 0),
        ("34", 1, 34),
        ("34", 7, 34),
        (each, 0, 0),
        (each, 2, 16),
        (each, 200, 36),
    ];
    for (dscps, priority, dscp) in cases {
        let mut rack = Rack::new(2, RENO, false);
        for host in &mut rack.hosts {
            host.host.dscp.priority = serde_json::from_str(dscps).unwrap();
        }
        rack.hosts[1].listen(PORT).unwrap();
        let request = SendRequest {
            to: SocketAddrV4::new(address(1), PORT),
            source_port: None,
            source: Arc::new(GeneratedSource {
                seed: 1,
                bytes: 9000,
            }),
            priority,
            part: None,
            via: crate::Via::Any,
        };
        rack.hosts[0].send(rack.now, request).unwrap();
        let mut packet = Vec::new();
        let mut seen = 0;
        for turn in 0..40 {
            let from = turn % 2;
            while rack.hosts[from]
                .poll_transmit(rack.now, &mut packet)
                .is_some()
            {
                let header = Ipv4Header::parse(&packet).unwrap().header;
                assert_eq!(header.dscp, dscp, "priority {priority}, from host {from}");
                rack.hosts[1 - from].handle_packet(rack.now, &packet);
                seen += 1;
            }
        }
        assert!(seen > 10);
    }
}

#[test]
fn source_ports_come_from_the_range_and_run_out() {
    let host = HostConfig {
        address: address(0),
        nic: NicParams::default(),
        dscp: DscpParams::default(),
        source_ports: (61_000, 61_002),
        seed: 5,
    };
    let mut endpoint = TcpEndpoint::new(host, "test", RENO, TcpParams::default(), None).unwrap();
    let mut send = |to: &str| {
        let request = SendRequest {
            to: to.parse().unwrap(),
            source_port: None,
            source: Arc::new(Vec::new()),
            priority: 0,
            part: None,
            via: crate::Via::Any,
        };
        endpoint.send(Instant::ZERO, request)
    };
    for _ in 0..3 {
        send("10.0.0.9:80").unwrap();
    }
    let error = send("10.0.0.9:80").unwrap_err();
    assert!(matches!(error, SendError::NoFreePort { .. }), "{error}");
    // A port names a connection only together with the peer.
    send("10.0.0.9:81").unwrap();
    let mut ports: Vec<u16> = endpoint.flows.ports().collect();
    ports.dedup();
    assert_eq!(ports, [61_000, 61_001, 61_002]);
}

#[test]
fn a_thousand_connections_at_once() {
    let mut rack = Rack::new(5, DCTCP, false);
    rack.hosts[0].listen(PORT).unwrap();
    for flow in 0..1200 {
        rack.send(1 + flow % 4, 0, 6000);
    }
    rack.run_until(rack.now + Duration::from_micros(200));
    rack.run();
    let records = rack.records(Role::Sender);
    assert_eq!(records.len(), 1200);
    assert!(records.iter().all(|r| r.status == Status::Finished));
    assert_eq!(rack.records(Role::Receiver).len(), 1200);
    assert!(rack.hosts.iter().all(|host| !host.is_active()));
}

/// A SYN as a stranger would forge it.
fn syn(from: u32, port: u16, flags: TcpFlags, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (Ipv4Addr::from(0x0b00_0000 + from), address(0));
    let header = TcpHeader {
        source_port: port,
        destination_port: PORT,
        seq: from,
        ack: 77,
        flags,
        window: 1000,
        options: ebb_wire::TcpOptions {
            mss: Some(1460),
            ..Default::default()
        },
    };
    let mut packet = Vec::new();
    Ipv4Header::new(src, dst, Protocol::TCP, 0, Ecn::NotEct)
        .emit(header.emitted_bytes() + payload.len(), &mut packet);
    header.emit(src, dst, payload, &mut packet);
    packet
}

/// Takes what the host sends until `until`: (packets, bytes), all of them SYN-ACKs.
fn syn_acks(host: &mut TcpEndpoint, from: Instant, until: Instant) -> (u64, u64) {
    let (mut now, mut packets, mut bytes) = (from, 0, 0);
    let mut packet = Vec::new();
    loop {
        host.handle_timeout(now);
        while host.poll_transmit(now, &mut packet).is_some() {
            let ip = Ipv4Header::parse(&packet).unwrap();
            let tcp = TcpHeader::parse(ip.payload, ip.header.src, ip.header.dst).unwrap();
            assert_eq!(tcp.header.flags, TcpFlags::SYN | TcpFlags::ACK);
            assert!(tcp.payload.is_empty());
            packets += 1;
            bytes += packet.len() as u64;
        }
        match host.next_deadline() {
            Some(at) if at <= until => now = at,
            _ => return (packets, bytes),
        }
    }
}

#[test]
fn a_flood_of_syns_costs_a_bounded_amount_and_shuts_nobody_out() {
    let mut rack = Rack::new(2, DCTCP, false);
    let host = &mut rack.hosts[0];
    host.listen(PORT).unwrap();
    let start = rack.now;
    // 20,000 SYNs within 2 ms: as many are answered as may be half open.
    let mut answered = (0, 0);
    let mut bytes_in = 0;
    for n in 0..20_000u32 {
        let now = start + Duration::from_nanos(u64::from(n) * 100);
        let packet = syn(n, 1, TcpFlags::SYN, b"data in a SYN is not taken");
        bytes_in += packet.len() as u64;
        host.handle_packet(now, &packet);
        assert!(host.listener.half_open() <= 1024 && host.flows.len() <= 1024);
        let (packets, bytes) = syn_acks(host, now, now);
        answered = (answered.0 + packets, answered.1 + bytes);
    }
    assert_eq!(answered.0, 1024);
    assert_eq!(host.counters().refused_syns, 20_000 - 1024);
    // A flow of an honest peer gets its place as soon as the oldest has had its time.
    rack.now = start + Duration::from_millis(3);
    let flow = rack.send(1, 0, 100_000);
    rack.run_until(rack.now + Duration::from_millis(60));
    assert!(rack.hosts[1].flows.get(flow).is_none() || rack.records(Role::Sender).len() == 1);
    let sender = rack.records(Role::Sender)[0];
    assert_eq!(sender.status, Status::Finished);
    // The rest of the answers: at most three more for each, then all is forgotten.
    let now = rack.now;
    let host = &mut rack.hosts[0];
    let (packets, bytes) = syn_acks(host, now, now + Duration::from_secs(5));
    let sent = answered.0 + packets;
    assert!(sent <= 4 * 1024, "{sent}");
    assert!(answered.1 + bytes < bytes_in, "no amplification");
    assert!(!host.is_active() && host.listener.half_open() == 0);
    assert_eq!(
        rack.records(Role::Receiver).len(),
        1,
        "strangers are no flows"
    );
}

#[test]
fn an_unfinished_handshake_gets_nothing_but_syn_acks() {
    let mut rack = Rack::new(1, RENO, false);
    let now = rack.now;
    let host = &mut rack.hosts[0];
    host.listen(PORT).unwrap();
    host.handle_packet(now, &syn(1, 1, TcpFlags::SYN, b""));
    assert_eq!(syn_acks(host, now, now).0, 1);
    // The same SYN again: one SYN-ACK again. With data: that is not taken.
    for _ in 0..5 {
        host.handle_packet(now, &syn(1, 1, TcpFlags::SYN, b"data"));
        assert_eq!(syn_acks(host, now, now).0, 1);
    }
    // An ACK of something else: a RST that keeps it from being taken for ours, and no more.
    host.handle_packet(now, &syn(1, 1, TcpFlags::ACK, &[1; 1000]));
    let mut packet = Vec::new();
    assert!(host.poll_transmit(now, &mut packet).is_some());
    assert!(packet.len() <= 40 && host.poll_transmit(now, &mut packet).is_none());
    // Alone, 1 + 3 SYN-ACKs in all (and those that were asked for again).
    assert_eq!(syn_acks(host, now, now + Duration::from_secs(9)).0, 3);
    assert!(!host.is_active());
    assert!(host.poll_event().is_none());
}

/// RFC 5961 5.2: data with an acknowledgment that nobody who knows the connection would send.
#[test]
fn data_with_an_impossible_acknowledgment_is_challenged_not_taken() {
    let (mut rack, _, receiver) = under_way(3_000_000, 3_000);
    let flow = rack.hosts[1].flows.get(receiver).unwrap();
    let (peer_port, key) = (flow.peer.port(), flow.session);
    let taken = flow.connection.statistics().receiver.packets;
    let next = key.wrapping_add(1).wrapping_add(flow.stream_bytes as u32);
    for ack in [0x1000_0000u32, 0x7000_0000, 0xf000_0000] {
        let header = TcpHeader {
            source_port: peer_port,
            destination_port: PORT,
            seq: next,
            ack: key.wrapping_sub(ack),
            flags: TcpFlags::ACK,
            window: 1000,
            options: Default::default(),
        };
        let mut packet = Vec::new();
        Ipv4Header::new(address(0), address(1), Protocol::TCP, 0, Ecn::NotEct)
            .emit(header.emitted_bytes() + 4, &mut packet);
        header.emit(address(0), address(1), b"evil", &mut packet);
        let now = rack.now;
        rack.hosts[1].handle_packet(now, &packet);
    }
    let flow = rack.hosts[1].flows.get(receiver).unwrap();
    assert_eq!(flow.connection.statistics().receiver.packets, taken);
    rack.run();
    assert!(delivered(&rack, 1) == generated(0, 3_000_000));
}

/// Whoever is on the path can stop a connection; it must end then, not stay for ever with one end
/// probing a window that the other believes open. Found by the fuzzer.
#[test]
fn a_forged_shut_window_fails_the_flow_instead_of_hanging_it() {
    let (mut rack, sender, _) = under_way(3_000_000, 3_000);
    let flow = rack.hosts[0].flows.get(sender).unwrap();
    let acked = flow.connection.acked_bytes() as u32;
    let receiver_next = rack.hosts[1]
        .flows
        .iter()
        .next()
        .unwrap()
        .1
        .connection
        .iss()
        .wrapping_add(1);
    let header = TcpHeader {
        source_port: PORT,
        destination_port: flow.local.port(),
        // Ahead of the receiver, so that its own word is older from now on (RFC 9293, SND.WL1).
        seq: receiver_next.wrapping_add(1000),
        ack: flow.session.wrapping_add(1).wrapping_add(acked),
        flags: TcpFlags::ACK,
        window: 0,
        options: Default::default(),
    };
    let mut packet = Vec::new();
    Ipv4Header::new(address(1), address(0), Protocol::TCP, 0, Ecn::NotEct)
        .emit(header.emitted_bytes(), &mut packet);
    header.emit(address(1), address(0), b"", &mut packet);
    let now = rack.now;
    rack.hosts[0].handle_packet(now, &packet);
    rack.run_until(now + Duration::from_secs(7));
    assert!(rack.failure(Role::Receiver).starts_with("nothing heard"));
    assert!(rack.failure(Role::Sender).contains("reset"));
    assert!(rack.hosts.iter().all(|host| !host.is_active()));
}
