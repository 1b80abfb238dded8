//! Packets with valid checksums and otherwise arbitrary fields: random bytes hardly ever get past a
//! checksum.

use std::net::Ipv4Addr;

use arbitrary::{Result, Unstructured};
use ebb_transport::TransportKind;
use ebb_wire::{
    EbbFlags, EbbHeader, Ecn, Ipv4Header, PacketType, Protocol, TcpFlags, TcpHeader, TcpOptions,
};

use crate::world::PORT;

/// The class of notifications, by the default of section `fastlane`.
const NOTIFICATION_DSCP: u8 = 56;

/// A number: small, near the greatest or a power of two more often than others.
fn number(u: &mut Unstructured<'_>) -> Result<u32> {
    Ok(match u.int_in_range(0..=5)? {
        0 => u32::from(u.arbitrary::<u8>()? % 20),
        1 => u32::MAX - u32::from(u.arbitrary::<u8>()? % 4),
        2 => 1 << (u.arbitrary::<u8>()? % 32),
        3 => u32::from(u.arbitrary::<u16>()?),
        _ => u.arbitrary()?,
    })
}

fn ports(u: &mut Unstructured<'_>) -> Result<(u16, u16)> {
    let destination = if u.ratio(7, 8)? { PORT } else { u.arbitrary()? };
    // Few sources, so that packets meet the session that an earlier one opened.
    Ok((1000 + u.int_in_range(0..=20)?, destination))
}

fn wrap(
    source: Ipv4Addr,
    to: Ipv4Addr,
    protocol: Protocol,
    ecn: Ecn,
    dscp: u8,
    payload: &[u8],
) -> Vec<u8> {
    let mut packet = Vec::new();
    Ipv4Header::new(source, to, protocol, dscp, ecn).emit(payload.len(), &mut packet);
    packet.extend_from_slice(payload);
    packet
}

fn ecn(u: &mut Unstructured<'_>) -> Result<Ecn> {
    Ok(*u.choose(&[Ecn::NotEct, Ecn::Ect0, Ecn::Ce])?)
}

/// A packet of the transport's protocol.
pub fn packet(
    u: &mut Unstructured<'_>,
    transport: TransportKind,
    from: Ipv4Addr,
    to: Ipv4Addr,
) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    let protocol = transport.protocol();
    if protocol == Protocol::TCP {
        let (source_port, destination_port) = ports(u)?;
        let header = TcpHeader {
            source_port,
            destination_port,
            seq: number(u)?,
            ack: number(u)?,
            flags: TcpFlags(u.arbitrary()?),
            window: u.arbitrary()?,
            options: options(u)?,
        };
        let payload = vec![7; u.int_in_range(0..=1400)?];
        header.emit(from, to, &payload, &mut body);
    } else {
        let header = ebb(u, transport)?;
        header.emit(&vec![7; usize::from(header.payload_bytes)], &mut body);
        cut(u, &header, &mut body)?;
    }
    let dscp = match transport {
        TransportKind::Fastlane => *u.choose(&[0, NOTIFICATION_DSCP])?,
        _ => *u.choose(&[0, 10, 12, 14, 46])?,
    };
    Ok(wrap(from, to, protocol, ecn(u)?, dscp, &body))
}

/// A trimmed packet may have lost any part of its payload.
fn cut(u: &mut Unstructured<'_>, header: &EbbHeader, body: &mut Vec<u8>) -> Result<()> {
    if header.flags.contains(EbbFlags::TRIMMED) {
        body.truncate(EbbHeader::BYTES + u.int_in_range(0..=1400)?);
    }
    Ok(())
}

fn options(u: &mut Unstructured<'_>) -> Result<TcpOptions> {
    let mut sack_blocks = ebb_wire::SackBlocks::new();
    for _ in 0..u.int_in_range(0..=3)? {
        sack_blocks.push((number(u)?, number(u)?));
    }
    Ok(TcpOptions {
        mss: u.arbitrary()?,
        window_scale: u.arbitrary()?,
        sack_permitted: u.arbitrary()?,
        sack_blocks,
        timestamps: u.arbitrary()?,
        stays_open: u.arbitrary()?,
        out_of_order_bytes: None,
    })
}

fn ebb(u: &mut Unstructured<'_>, transport: TransportKind) -> Result<EbbHeader> {
    let own = transport.entry().payload.unwrap_or(PacketType::Symbol);
    let kind = *u.choose(&[
        own,
        own,
        PacketType::Data,
        PacketType::Symbol,
        PacketType::Pull,
        PacketType::Ack,
        PacketType::Nack,
        PacketType::Reset,
    ])?;
    let (source_port, destination_port) = ports(u)?;
    let sizes = [1000, 1404, 1408, 1424, 8, 0, 1, u16::MAX];
    let symbol_bytes = *u.choose(&sizes)?;
    let payload_bytes = if !kind.carries_payload() {
        0
    } else if u.ratio(3, 4)? {
        symbol_bytes.min(1424)
    } else {
        u.int_in_range(0..=1424)?
    };
    Ok(EbbHeader {
        flags: EbbFlags(u.arbitrary()?),
        level: u.arbitrary()?,
        sender: u.int_in_range(0..=15)?,
        senders: u.int_in_range(0..=15)?,
        // Few sessions, so that packets meet.
        session: u.int_in_range(0..=3)?,
        block: number(u)?,
        symbol: number(u)? % EbbHeader::SYMBOL_LIMIT,
        priority: u.arbitrary()?,
        pull: number(u)?,
        entropy: u.arbitrary()?,
        object_bytes: match u.int_in_range(0..=3)? {
            0 => u.arbitrary()?,
            _ => u64::from(number(u)?),
        },
        symbol_bytes,
        block_symbols: *u.choose(&[8, 0, 1, 100, 4096, u16::MAX])?,
        payload_bytes,
        multicast_group: u.arbitrary()?,
        ..EbbHeader::new(kind, source_port, destination_port)
    })
}

/// A switch's notification that it has dropped `packet`, truncated anywhere, with random values in
/// some of the fields that no checksum protects.
pub fn notification(u: &mut Unstructured<'_>, packet: &[u8]) -> Result<Vec<u8>> {
    let Ok(ip) = Ipv4Header::parse(packet) else {
        return Ok(packet.to_vec());
    };
    let header = Ipv4Header {
        src: ip.header.dst,
        dst: ip.header.src,
        dscp: NOTIFICATION_DSCP,
        ..ip.header
    };
    let mut turned = Vec::new();
    header.emit(ip.payload.len(), &mut turned);
    turned.extend_from_slice(ip.payload);
    for _ in 0..u.int_in_range(0..=2)? {
        let at = Ipv4Header::BYTES + u.int_in_range(0..=TcpHeader::BYTES - 1)?;
        if let Some(byte) = turned.get_mut(at) {
            *byte = u.arbitrary()?;
        }
    }
    let headers = Ipv4Header::BYTES + TcpHeader::BYTES;
    turned.truncate(headers + u.int_in_range(0..=40)?);
    Ok(turned)
}

/// A packet that was on the wire, with some of its fields changed and its checksums right.
pub fn damaged(u: &mut Unstructured<'_>, packet: &[u8]) -> Result<Vec<u8>> {
    let Ok(ip) = Ipv4Header::parse(packet) else {
        return Ok(packet.to_vec());
    };
    let (from, to) = (ip.header.src, ip.header.dst);
    let body = match ip.header.protocol {
        Protocol::TCP => damaged_segment(u, ip.payload, from, to)?,
        _ => damaged_ebb(u, ip.payload)?,
    };
    let Some(body) = body else {
        return Ok(packet.to_vec());
    };
    Ok(wrap(
        from,
        to,
        ip.header.protocol,
        ecn(u)?,
        ip.header.dscp,
        &body,
    ))
}

/// A TCP segment with some of its fields changed. None: the bytes are no segment.
fn damaged_segment(
    u: &mut Unstructured<'_>,
    bytes: &[u8],
    from: Ipv4Addr,
    to: Ipv4Addr,
) -> Result<Option<Vec<u8>>> {
    let Ok(segment) = TcpHeader::parse(bytes, from, to) else {
        return Ok(None);
    };
    let mut header = segment.header;
    let mut payload = segment.payload.to_vec();
    for _ in 0..u.int_in_range(0..=2)? {
        match u.int_in_range(0..=7)? {
            0 => header.flags = TcpFlags(u.arbitrary()?),
            1 => {
                header.seq = header
                    .seq
                    .wrapping_add(u.int_in_range(-3000i32..=3000)? as u32)
            }
            2 => {
                header.ack = header
                    .ack
                    .wrapping_add(u.int_in_range(-3000i32..=3000)? as u32)
            }
            3 => header.window = u.arbitrary()?,
            4 => header.options = options(u)?,
            5 => payload.resize(u.int_in_range(0..=1460)?, 9),
            6 => {
                let (left, length) = (u.int_in_range(0..=20_000u32)?, u.int_in_range(0..=3000u32)?);
                let left = header.ack.wrapping_add(left);
                let _ = header
                    .options
                    .sack_blocks
                    .try_push((left, left.wrapping_add(length)));
            }
            _ => header.ack = number(u)?,
        }
    }
    let mut body = Vec::new();
    header.emit(from, to, &payload, &mut body);
    Ok(Some(body))
}

/// An Ebb packet with some of its fields changed. None: the bytes are no such packet.
fn damaged_ebb(u: &mut Unstructured<'_>, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    let Ok(whole) = EbbHeader::parse(bytes, false) else {
        return Ok(None);
    };
    let mut header = whole.header;
    for _ in 0..u.int_in_range(0..=2)? {
        match u.int_in_range(0..=11)? {
            0 => header.flags = EbbFlags(u.arbitrary()?),
            1 => header.symbol = number(u)? % EbbHeader::SYMBOL_LIMIT,
            2 => header.pull = number(u)?,
            3 => header.block = number(u)?,
            4 => header.object_bytes = u64::from(number(u)?),
            5 => header.symbol_bytes = u.arbitrary()?,
            6 => header.block_symbols = u.arbitrary()?,
            7 => header.flags.0 ^= EbbFlags::TRIMMED.0,
            8 => header.flags.0 ^= EbbFlags::RETURNED.0,
            9 => header.symbol = (header.symbol + u.int_in_range(0..=3)?) % EbbHeader::SYMBOL_LIMIT,
            10 => header.pull = header.pull.wrapping_add(u.int_in_range(0..=100)?),
            _ => {
                (header.sender, header.senders) = (u.int_in_range(0..=15)?, u.int_in_range(0..=15)?)
            }
        }
    }
    let payload = whole.payload.unwrap_or(&[]);
    header.payload_bytes = payload.len() as u16;
    let mut body = Vec::new();
    header.emit(payload, &mut body);
    cut(u, &header, &mut body)?;
    Ok(Some(body))
}
