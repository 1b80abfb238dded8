//! Attacks by somebody on the path, who sees a session: `docs/security.md`, "What is not
//! defended". These tests hold the sizes that stand there.

use ebb_wire::{
    EbbFlags, EbbHeader, Ecn, PacketType, Protocol, TcpFlags, TcpHeader, TcpOptions, TcpSegment,
};

use super::*;

/// Packets of the object that the victim sends, and blocks of 8 of them.
const PACKETS: u32 = 28;
const BLOCKS: u32 = 4;
const RST: TcpFlags = TcpFlags(0x04);
const ACK: TcpFlags = TcpFlags(0x10);
const FIN_ACK: TcpFlags = TcpFlags(0x11);

/// Two hosts in the middle of their transfers.
fn under_way(transport: TransportKind) -> World {
    let mut world = World::new(transport, Ways::default());
    let until = world.now + Duration::from_micros(50);
    world.run_until(until);
    assert_eq!(world.transfers[0].end, None);
    world
}

/// From now on nothing of the hosts arrives anywhere.
fn cut(world: &mut World) {
    world.arrivals.clear();
    world.lose = u8::MAX;
}

fn packet_to_victim(protocol: Protocol, body: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    Ipv4Header::new(PEER, VICTIM, protocol, 46, Ecn::NotEct).emit(body.len(), &mut packet);
    packet.extend_from_slice(body);
    packet
}

/// The last header of the victim's object.
fn seen_ebb(world: &World) -> EbbHeader {
    let headers = world.captured.iter().rev().filter_map(|packet| {
        let ip = Ipv4Header::parse(packet).ok()?;
        let header = EbbHeader::parse(ip.payload, false).ok()?.header;
        let carries = header.packet_type.carries_payload();
        (ip.header.src == VICTIM && carries).then_some(header)
    });
    headers.into_iter().next().expect("the victim sends")
}

fn inject_ebb(world: &mut World, header: EbbHeader) {
    let seen = seen_ebb(world);
    let header = EbbHeader {
        source_port: seen.destination_port,
        destination_port: seen.source_port,
        session: seen.session,
        ..header
    };
    let mut body = Vec::new();
    header.emit(&[], &mut body);
    world.inject(0, &packet_to_victim(Protocol::EBB, &body));
}

/// Where the victim's stream and its peer's are, by the segments of the victim: its next sequence
/// number and the one it expects.
fn seen_tcp(world: &World) -> (TcpHeader, u32) {
    let mut newest: Option<(TcpHeader, u32)> = None;
    for packet in &world.captured {
        let ip = Ipv4Header::parse(packet).expect("as sent");
        let Ok(TcpSegment { header, payload }) = TcpHeader::parse(ip.payload, ip.header.src, PEER)
        else {
            continue;
        };
        let next = header.seq.wrapping_add(payload.len() as u32);
        let is_newer = |old: u32| (next.wrapping_sub(old) as i32) > 0;
        if ip.header.src == VICTIM
            && header.destination_port == PORT
            && header.flags.contains(ACK)
            && newest.as_ref().is_none_or(|(_, old)| is_newer(*old))
        {
            newest = Some((header, next));
        }
    }
    newest.expect("the handshake is over")
}

fn inject_tcp(world: &mut World, flags: TcpFlags, ack_beyond: u32) {
    let (seen, next) = seen_tcp(world);
    let header = TcpHeader {
        source_port: seen.destination_port,
        destination_port: seen.source_port,
        seq: seen.ack,
        ack: next.wrapping_add(ack_beyond),
        flags,
        window: u16::MAX,
        options: TcpOptions {
            // Its own clock, back to it; any later one of the peer's will do.
            timestamps: seen
                .options
                .timestamps
                .map(|(own, peer)| (peer.wrapping_add(1), own)),
            ..TcpOptions::default()
        },
    };
    let mut body = Vec::new();
    header.emit(PEER, VICTIM, &[], &mut body);
    world.inject(0, &packet_to_victim(Protocol::TCP, &body));
}

#[test]
fn one_forged_reset_ends_a_session() {
    for transport in [
        TransportKind::Ndp,
        TransportKind::Scdp,
        TransportKind::Trevi,
        TransportKind::Dctcp,
    ] {
        let mut world = under_way(transport);
        match transport.protocol() {
            Protocol::TCP => inject_tcp(&mut world, RST, 0),
            _ => {
                let reset = EbbHeader {
                    symbol: 5,
                    ..EbbHeader::new(PacketType::Reset, 0, 0)
                };
                inject_ebb(&mut world, reset);
            }
        }
        let end = &world.transfers[0].end;
        assert!(
            matches!(end, Some(Status::Failed(_))),
            "{transport}: {end:?}"
        );
    }
}

#[test]
fn a_sender_believes_whoever_confirms_in_the_name_of_its_receiver() {
    // SCDP: one pull that says that nothing is missing.
    let mut world = under_way(TransportKind::Scdp);
    cut(&mut world);
    let closing = EbbHeader {
        flags: EbbFlags::FIN,
        block: BLOCKS,
        ..EbbHeader::new(PacketType::Pull, 0, 0)
    };
    inject_ebb(&mut world, closing);
    assert_eq!(world.transfers[0].end, Some(Status::Finished));

    // Trevi: a STOP for good.
    let mut world = under_way(TransportKind::Trevi);
    cut(&mut world);
    let stop = EbbHeader {
        flags: EbbFlags::FIN,
        block: BLOCKS,
        ..EbbHeader::new(PacketType::Stop, 0, 0)
    };
    inject_ebb(&mut world, stop);
    assert_eq!(world.transfers[0].end, Some(Status::Finished));

    // NDP: a pull for the rest, and an ACK for each packet.
    let mut world = under_way(TransportKind::Ndp);
    cut(&mut world);
    let pull = EbbHeader {
        pull: PACKETS - 12,
        ..EbbHeader::new(PacketType::Pull, 0, 0)
    };
    inject_ebb(&mut world, pull);
    for symbol in 0..PACKETS {
        assert_eq!(world.transfers[0].end, None, "{symbol}");
        let ack = EbbHeader {
            symbol,
            ..EbbHeader::new(PacketType::Ack, 0, 0)
        };
        inject_ebb(&mut world, ack);
    }
    assert_eq!(world.transfers[0].end, Some(Status::Finished));

    // TCP: an ACK for each window, then one for the FIN, with the peer's own.
    let mut world = under_way(TransportKind::Dctcp);
    cut(&mut world);
    let mut packets = 0;
    while world.transfers[0].end.is_none() {
        let before = seen_tcp(&world).1;
        inject_tcp(&mut world, ACK, 0);
        packets += 1;
        if world.transfers[0].end.is_none() && seen_tcp(&world).1 == before {
            inject_tcp(&mut world, FIN_ACK, 1);
            packets += 1;
        }
        assert!(packets < 20, "the flow never ends");
    }
    assert_eq!(world.transfers[0].end, Some(Status::Finished));
    assert!(packets <= 6, "{packets}");
}

#[test]
fn a_forged_pull_is_worth_so_many_packets_and_no_more() {
    for transport in [TransportKind::Ndp, TransportKind::Scdp] {
        let mut world = under_way(transport);
        cut(&mut world);
        let sent = |world: &World| world.packets + 255 - u64::from(world.lose);
        let before = sent(&world);
        for pull in [u32::MAX, 33, 32] {
            let pull = EbbHeader {
                pull,
                ..EbbHeader::new(PacketType::Pull, 0, 0)
            };
            inject_ebb(&mut world, pull);
        }
        // Two windows and the retries would be 32; the object has no more than this.
        let after = sent(&world);
        assert!(
            after - before <= u64::from(PACKETS) - 12 + 4,
            "{transport}: {}",
            after - before
        );
    }
}

/// Modes that push: a block with its overhead, or the initial window, which is more here. Pull: a
/// symbol.
#[test]
fn a_forged_request_is_worth_a_block_or_a_symbol() {
    let ways = [
        (false, false, 64),
        (false, true, 64),
        (true, false, 1),
        (true, true, 64),
    ];
    for (early, open, worth) in ways {
        let way = Ways {
            early,
            open,
            ..Ways::default()
        };
        let mut world = World::new(TransportKind::Trevi, way);
        let until = world.now + Duration::from_micros(50);
        world.run_until(until);
        cut(&mut world);
        // Real packets have earned something, too; nothing has been given up yet.
        let until = world.now + Duration::from_micros(200_000);
        world.run_until(until);
        for n in 1..4u32 {
            cut(&mut world);
            let request = EbbHeader {
                pull: if early { n } else { 0 },
                block: BLOCKS - 1,
                ..EbbHeader::new(PacketType::Request, 0, 0)
            };
            inject_ebb(&mut world, request);
            let until = world.now + Duration::from_micros(200_000);
            world.run_until(until);
            // Both hosts ask a few times whether the other is there.
            let sent = u8::MAX - world.lose;
            assert!(sent <= worth + 20, "{early} {open}: {sent}");
        }
    }
}
