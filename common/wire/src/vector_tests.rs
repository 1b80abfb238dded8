//! The shared test vectors, and properties that hold for any bytes.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn vectors() -> Vec<Value> {
    serde_json::from_str(include_str!("../../../docs/wire-vectors.json")).unwrap()
}

fn frame(vector: &Value) -> Vec<u8> {
    let hex = vector["frame"].as_str().unwrap();
    (0..hex.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
        .collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// DSCP_TRIMMED and DSCP_TRIMMED_LASTHOP of docs/wire-format.md.
fn is_trimmed_dscp(dscp: u8) -> bool {
    matches!(dscp, 12 | 14)
}

#[test]
fn vectors_parse_to_their_fields_and_are_emitted_again() {
    let mut checked = 0;
    for vector in vectors().iter().filter(|v| v["fields"]["ebb"].is_object()) {
        let (name, fields) = (&vector["name"], &vector["fields"]);
        let bytes = frame(vector);
        let ethernet = EthernetHeader::parse(&bytes).unwrap();
        assert_eq!(
            ethernet.header.src.to_string(),
            fields["ethernet"]["src"].as_str().unwrap()
        );
        assert_eq!(
            ethernet.header.dst.to_string(),
            fields["ethernet"]["dst"].as_str().unwrap()
        );
        let ip = Ipv4Header::parse(ethernet.payload).unwrap();
        assert_eq!(
            u64::from(ip.header.dscp),
            number(&fields["ipv4"]["dscp"]),
            "{name}"
        );
        assert_eq!(
            ip.header.ecn as u64,
            number(&fields["ipv4"]["ecn"]),
            "{name}"
        );
        assert_eq!(
            ip.header.src.to_string(),
            fields["ipv4"]["src"].as_str().unwrap()
        );
        assert_eq!(
            ip.header.dst.to_string(),
            fields["ipv4"]["dst"].as_str().unwrap()
        );

        let parsed = EbbHeader::parse(ip.payload, is_trimmed_dscp(ip.header.dscp));
        let want = &fields["ebb"];
        if number(&want["version"]) != 1 {
            assert!(matches!(parsed, Err(ParseError::Version { .. })), "{name}");
        } else if vector["ebb_checksum_ok"] == false {
            assert_eq!(
                parsed,
                Err(ParseError::Checksum { layer: Layer::Ebb }),
                "{name}"
            );
        } else if vector["payload_crc_ok"] == false {
            assert!(
                matches!(parsed, Err(ParseError::PayloadCrc { .. })),
                "{name}"
            );
        } else {
            let packet = parsed.unwrap();
            let h = packet.header;
            for (found, key) in [
                (h.packet_type as u64, "type"),
                (h.flags.0.into(), "flags"),
                (h.level.into(), "level"),
                (h.sender.into(), "sender"),
                (h.senders.into(), "senders"),
                (h.source_port.into(), "sport"),
                (h.destination_port.into(), "dport"),
                (h.session.into(), "session"),
                (h.block.into(), "block"),
                (h.symbol.into(), "symbol"),
                (h.priority.into(), "priority"),
                (h.pull.into(), "pull"),
                (h.entropy.into(), "entropy"),
                (h.object_bytes, "object_length"),
                (h.symbol_bytes.into(), "symbol_size"),
                (h.block_symbols.into(), "block_symbols"),
                (h.payload_bytes.into(), "payload_length"),
                (h.multicast_group.into(), "multicast_group"),
            ] {
                assert_eq!(found, number(&want[key]), "{name}: {key}");
            }
            assert_eq!(
                packet.payload.is_none(),
                vector["payload_crc_ok"].is_null(),
                "{name}"
            );
            if let Some(payload) = packet.payload {
                let mut again = Vec::new();
                ethernet.header.emit(&mut again);
                Ipv4Header {
                    id: ip.header.id,
                    ..ip.header
                }
                .emit(EbbHeader::BYTES + payload.len(), &mut again);
                h.emit(payload, &mut again);
                assert_eq!(again, bytes, "{name}");
            }
        }
        checked += 1;
    }
    assert!(checked >= 10, "only {checked} vectors");
}

#[test]
fn pfc_vectors_parse_to_their_classes_and_are_emitted_again() {
    let vectors = vectors();
    let frames = vectors.iter().filter(|v| v["fields"]["pfc"].is_object());
    let mut checked = 0;
    for vector in frames {
        let bytes = frame(vector);
        let ethernet = EthernetHeader::parse(&bytes).unwrap();
        let pfc = PfcFrame::parse(&ethernet).unwrap();
        let want = vector["fields"]["pfc"]["quanta"].as_array().unwrap();
        let want: Vec<_> = want.iter().map(|q| q.as_u64().map(|q| q as u16)).collect();
        assert_eq!(pfc.quanta.to_vec(), want, "{}", vector["name"]);
        let mut again = Vec::new();
        pfc.emit(ethernet.header.src, &mut again);
        assert_eq!(again, bytes, "{}", vector["name"]);
        checked += 1;
    }
    assert!(checked >= 3, "only {checked} vectors");
}

#[test]
fn the_tcp_vector_parses_and_is_emitted_again() {
    let vectors = vectors();
    let vector = vectors
        .iter()
        .find(|v| v["fields"]["tcp"].is_object())
        .unwrap();
    let bytes = frame(vector);
    let want = &vector["fields"]["tcp"];
    let ethernet = EthernetHeader::parse(&bytes).unwrap();
    let ip = Ipv4Header::parse(ethernet.payload).unwrap();
    assert_eq!(ip.header.ecn, Ecn::Ce);
    let segment = TcpHeader::parse(ip.payload, ip.header.src, ip.header.dst).unwrap();
    assert_eq!(u64::from(segment.header.seq), number(&want["seq"]));
    assert_eq!(u64::from(segment.header.ack), number(&want["ack"]));
    assert_eq!(u64::from(segment.header.flags.0), number(&want["flags"]));
    assert!(segment.header.flags.contains(TcpFlags::ECE | TcpFlags::ACK));
    assert_eq!(u64::from(segment.header.window), number(&want["window"]));
    let mut again = Vec::new();
    ethernet.header.emit(&mut again);
    ip.header.emit(ip.payload.len(), &mut again);
    segment
        .header
        .emit(ip.header.src, ip.header.dst, segment.payload, &mut again);
    assert_eq!(again, bytes);
}

#[test]
fn padding_of_a_short_frame_is_not_payload() {
    let mut bytes = Vec::new();
    let header = Ipv4Header::new(
        Ipv4Addr::LOCALHOST,
        Ipv4Addr::LOCALHOST,
        Protocol::TCP,
        0,
        Ecn::NotEct,
    );
    header.emit(3, &mut bytes);
    bytes.extend_from_slice(b"abc\0\0\0\0");
    assert_eq!(Ipv4Header::parse(&bytes).unwrap().payload, b"abc");
}

#[test]
fn a_trimmed_packet_may_end_anywhere_after_its_header() {
    let header = EbbHeader {
        payload_bytes: 100,
        ..EbbHeader::new(PacketType::Data, 1, 2)
    };
    let mut bytes = Vec::new();
    header.emit(&[9; 100], &mut bytes);
    for len in EbbHeader::BYTES..=bytes.len() {
        assert_eq!(EbbHeader::parse(&bytes[..len], true).unwrap().payload, None);
    }
    assert!(EbbHeader::parse(&bytes[..bytes.len() - 1], false).is_err());
}

#[test]
fn malformed_tcp_options_are_refused() {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 3));
    // Kinds with an impossible length, a length past the end, and a length below 2.
    for options in [
        [2, 3, 0, 0],
        [5, 9, 0, 0],
        [8, 4, 1, 1],
        [77, 1, 0, 0],
        [77, 0, 0, 0],
    ] {
        let mut bytes = vec![0; 20];
        bytes[12] = 6 << 4;
        bytes.extend_from_slice(&options);
        let sum = checksum::Checksum::pseudo_header(src, dst, 6, bytes.len())
            .over(&bytes)
            .finish();
        bytes[16..18].copy_from_slice(&sum.to_be_bytes());
        let found = TcpHeader::parse(&bytes, src, dst);
        assert_eq!(
            found,
            Err(ParseError::TcpOption { kind: options[0] }),
            "{options:?}"
        );
    }
}

fn any_options() -> impl Strategy<Value = TcpOptions> {
    let sack = prop::collection::vec(any::<(u32, u32)>(), 0..3);
    let mss = any::<Option<u16>>();
    let scale = any::<Option<u8>>();
    let timestamps = any::<Option<(u32, u32)>>();
    let stays_open = any::<Option<u8>>();
    let held = any::<Option<u32>>();
    (
        mss,
        scale,
        any::<bool>(),
        sack,
        timestamps,
        stays_open,
        held,
    )
        .prop_map(
            |(mss, window_scale, sack_permitted, mut sack_blocks, timestamps, stays_open, held)| {
                // SYN options and SACK blocks do not meet in one segment.
                let of_syn = mss.is_some() || window_scale.is_some() || stays_open.is_some();
                if of_syn || sack_permitted {
                    sack_blocks.clear();
                }
                TcpOptions {
                    mss,
                    window_scale,
                    sack_permitted,
                    sack_blocks: sack_blocks.into_iter().collect(),
                    timestamps,
                    stays_open,
                    out_of_order_bytes: held,
                }
            },
        )
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), trimmed: bool) {
        let _ = EthernetHeader::parse(&bytes).and_then(|frame| PfcFrame::parse(&frame));
        let _ = Ipv4Header::parse(&bytes);
        let _ = TcpGlance::read(&bytes);
        let _ = EbbHeader::parse(&bytes, trimmed);
        let _ = TcpHeader::parse(&bytes, Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST);
    }

    /// Random bytes hardly ever pass a checksum, so vectors are damaged and repaired instead.
    #[test]
    fn no_damaged_header_panics(at in 0usize..48, to: u8, cut in 0usize..1500, trimmed: bool) {
        let mut bytes = Vec::new();
        let header = EbbHeader { payload_bytes: 1000, ..EbbHeader::new(PacketType::Symbol, 1, 2) };
        header.emit(&[7; 1000], &mut bytes);
        bytes[at] = to;
        bytes[26..28].fill(0);
        let sum = checksum::internet_checksum(&bytes[..48]);
        bytes[26..28].copy_from_slice(&sum.to_be_bytes());
        bytes.truncate(cut);
        let _ = EbbHeader::parse(&bytes, trimmed);
    }

    #[test]
    fn ebb_headers_survive_the_wire(
        kind in 0u8..9, flags: u8, ports: (u16, u16), session: u32, block: u32,
        symbol in 0u32..EbbHeader::SYMBOL_LIMIT, pull: u32, entropy: u16, object_bytes: u64,
        sizes: (u16, u16), payload in prop::collection::vec(any::<u8>(), 0..100), level: u8,
        sender in 0u8..16, senders in 0u8..16, multicast_group: u16, priority: u8,
    ) {
        let types = [PacketType::Data, PacketType::Symbol, PacketType::Pull, PacketType::Ack,
            PacketType::Nack, PacketType::Reset, PacketType::Request, PacketType::Coded, PacketType::Stop];
        let header = EbbHeader {
            packet_type: types[usize::from(kind)],
            flags: EbbFlags(flags & !EbbFlags::TRIMMED.0),
            level, sender, senders,
            source_port: ports.0, destination_port: ports.1,
            session, block, symbol, priority, pull, entropy, object_bytes,
            symbol_bytes: sizes.0, block_symbols: sizes.1,
            payload_bytes: payload.len() as u16,
            multicast_group,
        };
        let mut bytes = Vec::new();
        header.emit(&payload, &mut bytes);
        prop_assert_eq!(
            EbbHeader::parse(&bytes, false),
            Ok(EbbPacket { header, payload: Some(&payload) })
        );
    }

    #[test]
    fn tcp_segments_survive_the_wire(
        ports: (u16, u16), seq: u32, ack: u32, flags: u8, window: u16, options in any_options(),
        payload in prop::collection::vec(any::<u8>(), 0..100), src: u32, dst: u32,
    ) {
        let (src, dst) = (Ipv4Addr::from(src), Ipv4Addr::from(dst));
        let header = TcpHeader {
            source_port: ports.0, destination_port: ports.1, seq, ack,
            flags: TcpFlags(flags), window, options,
        };
        let mut bytes = Vec::new();
        header.emit(src, dst, &payload, &mut bytes);
        prop_assert_eq!(bytes.len(), header.emitted_bytes() + payload.len());
        prop_assert_eq!(
            TcpGlance::read(&bytes),
            Some(TcpGlance {
                source_port: ports.0, destination_port: ports.1, flags: TcpFlags(flags),
                payload_bytes: payload.len(),
            })
        );
        prop_assert_eq!(
            TcpHeader::parse(&bytes, src, dst),
            Ok(TcpSegment { header, payload: &payload })
        );
    }
}
