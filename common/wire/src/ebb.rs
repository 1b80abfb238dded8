//! The header of NDP, SCDP and Trevi: `docs/wire-format.md`.

use std::ops::{BitOr, BitOrAssign};

use crate::checksum::internet_checksum;
use crate::{Layer, ParseError};

const VERSION: u8 = 1;

/// The type of a packet of NDP, SCDP or Trevi, 4 bits of the first byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PacketType {
    /// NDP: bytes of an object.
    Data = 0,
    /// SCDP: an encoding symbol of a source block (RFC 6330).
    Symbol = 1,
    /// From the receiver: asks for packets, as many as its cumulative counter has grown.
    Pull = 2,
    /// From the receiver: a DATA packet has arrived.
    Ack = 3,
    /// From the receiver: a DATA packet has arrived trimmed and is to be sent again.
    Nack = 4,
    /// From either end: the session is refused or given up; `symbol` has the reason (`docs/wire-format.md`).
    Reset = 5,
    /// Asks for a symbol, with a label that the symbol repeats (Trevi).
    Request = 6,
    /// A coded symbol of a block (Trevi).
    Coded = 7,
    /// The receiver needs no more symbols (Trevi).
    Stop = 8,
}

impl PacketType {
    fn from_bits(bits: u8) -> Result<Self, ParseError> {
        Ok(match bits {
            0 => PacketType::Data,
            1 => PacketType::Symbol,
            2 => PacketType::Pull,
            3 => PacketType::Ack,
            4 => PacketType::Nack,
            5 => PacketType::Reset,
            6 => PacketType::Request,
            7 => PacketType::Coded,
            8 => PacketType::Stop,
            found => return Err(ParseError::PacketType { found }),
        })
    }

    /// Whether packets of the type carry payload, and so can be trimmed.
    pub fn carries_payload(self) -> bool {
        matches!(
            self,
            PacketType::Data | PacketType::Symbol | PacketType::Coded
        )
    }
}

/// A set of flags.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct EbbFlags(pub u8);

impl EbbFlags {
    /// No flag.
    pub const NONE: EbbFlags = EbbFlags(0);
    /// Packet of the initial window.
    pub const SYN: EbbFlags = EbbFlags(0x01);
    /// DATA: last packet of the object. PULL: the receiver needs no more than this pull asks for.
    pub const FIN: EbbFlags = EbbFlags(0x02);
    /// The payload is missing: a switch cut it, or a sender probes a peer that it has never heard from.
    pub const TRIMMED: EbbFlags = EbbFlags(0x04);
    /// SYMBOL: a repair symbol, `symbol` >= K of its block.
    pub const REPAIR: EbbFlags = EbbFlags(0x08);
    /// The packet goes to a multicast address.
    pub const MULTICAST: EbbFlags = EbbFlags(0x10);
    /// From one of several senders of a session.
    pub const MULTI_SOURCE: EbbFlags = EbbFlags(0x20);
    /// NDP: sent before. SCDP: a probe of a silent receiver. ACK: all has arrived, and the application has not decided
    /// yet.
    pub const RETRANSMIT: EbbFlags = EbbFlags(0x40);
    /// A switch has sent the trimmed header back to its sender.
    pub const RETURNED: EbbFlags = EbbFlags(0x80);

    /// Whether all of `other` are set.
    pub fn contains(self, other: EbbFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags if `condition`, else none.
    pub fn when(self, condition: bool) -> EbbFlags {
        if condition { self } else { Self::NONE }
    }
}

impl BitOr for EbbFlags {
    type Output = EbbFlags;
    fn bitor(self, other: EbbFlags) -> EbbFlags {
        EbbFlags(self.0 | other.0)
    }
}

impl BitOrAssign for EbbFlags {
    fn bitor_assign(&mut self, other: EbbFlags) {
        self.0 |= other.0;
    }
}

/// The header, without the header checksum and the CRC of the payload: those are checked by
/// [`parse`](Self::parse) and filled in by [`emit`](Self::emit).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EbbHeader {
    /// Its type, which decides what other fields mean.
    pub packet_type: PacketType,
    /// Its flags.
    pub flags: EbbFlags,
    /// MLFQ level, 0 = most urgent.
    pub level: u8,
    /// 4 bits: index among the senders of the session.
    pub sender: u8,
    /// 4 bits: senders of the session.
    pub senders: u8,
    /// Port of the sender of this packet.
    pub source_port: u16,
    /// Port of its receiver.
    pub destination_port: u16,
    /// Random number of the session, unique per sender.
    pub session: u32,
    /// SCDP: number of the source block. NDP: the packet number above its low 24 bits.
    pub block: u32,
    /// 24 bits: encoding symbol id (RFC 6330), low bits of the packet number, or reason of a RESET.
    pub symbol: u32,
    /// DATA and SYMBOL: how urgent the session is at the receiver, 0 (normal) to 7.
    pub priority: u8,
    /// Cumulative pull counter; in DATA and SYMBOL the sender's initial window in packets.
    pub pull: u32,
    /// Part of the hash by which switches choose the path of a sprayed packet.
    pub entropy: u16,
    /// DATA and SYMBOL: bytes of the stream. PULL of SCDP: bytes that were delivered in order.
    pub object_bytes: u64,
    /// Bytes of payload of a full packet, T.
    pub symbol_bytes: u16,
    /// SCDP: source symbols of a full block, K. NDP: 0.
    pub block_symbols: u16,
    /// Bytes of payload before any trim.
    pub payload_bytes: u16,
    /// Low 16 bits of the address of the group that the packet goes to; 0 for unicast.
    pub multicast_group: u16,
}

/// A parsed packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EbbPacket<'a> {
    /// The header.
    pub header: EbbHeader,
    /// `None` when the packet was trimmed; whatever is left of the payload is of no use.
    pub payload: Option<&'a [u8]>,
}

impl EbbHeader {
    /// Length of the header on the wire, in bytes.
    pub const BYTES: usize = 48;
    /// Values of `symbol` are below this.
    pub const SYMBOL_LIMIT: u32 = 1 << 24;

    /// A header with everything zero but the fields given and `senders` = 1.
    pub fn new(packet_type: PacketType, source_port: u16, destination_port: u16) -> Self {
        EbbHeader {
            packet_type,
            flags: EbbFlags::NONE,
            level: 0,
            sender: 0,
            senders: 1,
            source_port,
            destination_port,
            session: 0,
            block: 0,
            symbol: 0,
            priority: 0,
            pull: 0,
            entropy: 0,
            object_bytes: 0,
            symbol_bytes: 0,
            block_symbols: 0,
            payload_bytes: 0,
            multicast_group: 0,
        }
    }

    /// Parses the payload of an IPv4 packet. `trimmed` says that the packet's DSCP is one that
    /// only a trim writes; the TRIMMED flag says the same.
    pub fn parse(bytes: &[u8], trimmed: bool) -> Result<EbbPacket<'_>, ParseError> {
        let Some((head, rest)) = bytes.split_first_chunk::<{ Self::BYTES }>() else {
            return Err(ParseError::Truncated {
                layer: Layer::Ebb,
                need: Self::BYTES,
                have: bytes.len(),
            });
        };
        if head[0] >> 4 != VERSION {
            return Err(ParseError::Version {
                layer: Layer::Ebb,
                found: head[0] >> 4,
                expected: VERSION,
            });
        }
        if internet_checksum(head) != 0 {
            return Err(ParseError::Checksum { layer: Layer::Ebb });
        }
        let header = Self::decode(head)?;
        if header.packet_type.carries_payload()
            && (trimmed || header.flags.contains(EbbFlags::TRIMMED))
        {
            return Ok(EbbPacket {
                header,
                payload: None,
            });
        }
        let announced = usize::from(header.payload_bytes);
        if rest.len() != announced {
            return Err(ParseError::PayloadLength {
                announced,
                have: rest.len(),
            });
        }
        let announced = be32(head, 28);
        let computed = crc_of(rest);
        if computed != announced {
            return Err(ParseError::PayloadCrc {
                announced,
                computed,
            });
        }
        Ok(EbbPacket {
            header,
            payload: Some(rest),
        })
    }

    fn decode(head: &[u8; Self::BYTES]) -> Result<Self, ParseError> {
        Ok(EbbHeader {
            packet_type: PacketType::from_bits(head[0] & 0xf)?,
            flags: EbbFlags(head[1]),
            level: head[2],
            sender: head[3] >> 4,
            senders: head[3] & 0xf,
            source_port: be16(head, 4),
            destination_port: be16(head, 6),
            session: be32(head, 8),
            block: be32(head, 12),
            symbol: be32(head, 16) >> 8,
            priority: head[19],
            pull: be32(head, 20),
            entropy: be16(head, 24),
            object_bytes: u64::from(be32(head, 32)) << 32 | u64::from(be32(head, 36)),
            symbol_bytes: be16(head, 40),
            block_symbols: be16(head, 42),
            payload_bytes: be16(head, 44),
            multicast_group: be16(head, 46),
        })
    }

    /// Appends header and payload. The payload is as long as `payload_bytes` says, or TRIMMED is set.
    pub fn emit(&self, payload: &[u8], out: &mut Vec<u8>) {
        debug_assert!(
            payload.len() == usize::from(self.payload_bytes)
                || self.flags.contains(EbbFlags::TRIMMED)
        );
        let mut bytes = [0; Self::BYTES];
        let (places, _) = bytes.as_chunks_mut::<8>();
        for (place, word) in places.iter_mut().zip(self.encode(crc_of(payload))) {
            *place = word.to_be_bytes();
        }
        let [high, low] = internet_checksum(&bytes).to_be_bytes();
        (bytes[26], bytes[27]) = (high, low);
        out.reserve(Self::BYTES + payload.len());
        out.extend_from_slice(&bytes);
        out.extend_from_slice(payload);
    }

    /// The header in words of eight bytes, with this CRC of the payload, and with 0 in the place of
    /// its own checksum.
    fn encode(&self, payload_crc: u32) -> [u64; Self::BYTES / 8] {
        let join = |parts: [(u64, u32); 4]| parts.iter().fold(0, |sum, (n, at)| sum | n << at);
        let wide = |n: u32| u64::from(n);
        let short = |n: u16| u64::from(n);
        let byte = |n: u8| u64::from(n);
        [
            join([
                (byte(VERSION << 4 | self.packet_type as u8), 56),
                (byte(self.flags.0) << 8 | byte(self.level), 40),
                (byte(self.sender << 4 | self.senders & 0xf), 32),
                (
                    short(self.source_port) << 16 | short(self.destination_port),
                    0,
                ),
            ]),
            wide(self.session) << 32 | wide(self.block),
            wide(self.symbol << 8 | u32::from(self.priority)) << 32 | wide(self.pull),
            short(self.entropy) << 48 | wide(payload_crc),
            self.object_bytes,
            join([
                (short(self.symbol_bytes), 48),
                (short(self.block_symbols), 32),
                (short(self.payload_bytes), 16),
                (short(self.multicast_group), 0),
            ]),
        ]
    }
}

/// The CRC-32C of a payload. Most packets have none.
fn crc_of(payload: &[u8]) -> u32 {
    match payload {
        [] => 0,
        _ => crc32c::crc32c(payload),
    }
}

fn be16(bytes: &[u8; EbbHeader::BYTES], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8; EbbHeader::BYTES], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
