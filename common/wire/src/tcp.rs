//! TCP (RFC 9293) with the options of RFC 7323 (window scale, timestamps) and RFC 2018 (SACK),
//! and the flags of RFC 3168 (ECE, CWR).

use std::net::Ipv4Addr;
use std::ops::BitOr;

use arrayvec::ArrayVec;

use crate::checksum::Checksum;
use crate::{Layer, ParseError, Protocol};

/// A set of flags.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No flag.
    pub const NONE: TcpFlags = TcpFlags(0);
    /// The sender has no more data (RFC 9293, 3.1, as all up to [`URG`](Self::URG)).
    pub const FIN: TcpFlags = TcpFlags(0x01);
    /// Begins a connection: `seq` is the initial sequence number.
    pub const SYN: TcpFlags = TcpFlags(0x02);
    /// Ends the connection at once.
    pub const RST: TcpFlags = TcpFlags(0x04);
    /// The receiver is to deliver at once.
    pub const PSH: TcpFlags = TcpFlags(0x08);
    /// `ack` is valid.
    pub const ACK: TcpFlags = TcpFlags(0x10);
    /// The urgent pointer is valid; it is neither read nor written here.
    pub const URG: TcpFlags = TcpFlags(0x20);
    /// ECN-Echo (RFC 3168, 6.1).
    pub const ECE: TcpFlags = TcpFlags(0x40);
    /// Congestion window reduced (RFC 3168, 6.1).
    pub const CWR: TcpFlags = TcpFlags(0x80);

    /// Whether all of `other` are set.
    pub fn contains(self, other: TcpFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags if `condition`, else none.
    pub fn when(self, condition: bool) -> TcpFlags {
        if condition { self } else { Self::NONE }
    }
}

impl BitOr for TcpFlags {
    type Output = TcpFlags;
    fn bitor(self, other: TcpFlags) -> TcpFlags {
        TcpFlags(self.0 | other.0)
    }
}

/// The blocks of a SACK option (RFC 2018 3), left and right edge of each: four fit where there is
/// nothing else. Kept in place, because options are made and read for every packet.
pub type SackBlocks = ArrayVec<(u32, u32), MAX_SACK_BLOCKS>;

/// The options that are understood; others are skipped.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TcpOptions {
    /// The longest payload of a segment that the sender of the option takes, in bytes.
    pub mss: Option<u16>,
    /// How many bits the window of later segments is shifted to the left.
    pub window_scale: Option<u8>,
    /// Whether the sender of a SYN takes SACK (RFC 2018, 2).
    pub sack_permitted: bool,
    /// Data that has arrived beyond the cumulative acknowledgment; empty without the option.
    pub sack_blocks: SackBlocks,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// Version of persistent connections, in SYN and SYN-ACK (`docs/wire-format.md`).
    /// None: the connection carries one object.
    pub stays_open: Option<u8>,
    /// Bytes that have arrived beyond the cumulative acknowledgment, at receivers of FastLane
    /// (`docs/fastlane.md`).
    pub out_of_order_bytes: Option<u32>,
}

/// A header, without the checksum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcpHeader {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Sequence number of the first byte of the payload, or of SYN.
    pub seq: u32,
    /// Means something only with the ACK flag.
    pub ack: u32,
    /// Its flags.
    pub flags: TcpFlags,
    /// The window as it is on the wire, not scaled.
    pub window: u16,
    /// Its options.
    pub options: TcpOptions,
}

/// A parsed segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcpSegment<'a> {
    /// The header.
    pub header: TcpHeader,
    /// Data of the segment; empty for a pure acknowledgment.
    pub payload: &'a [u8],
}

const KIND_END: u8 = 0;
const KIND_NOP: u8 = 1;
const KIND_MSS: u8 = 2;
const KIND_WINDOW_SCALE: u8 = 3;
const KIND_SACK_PERMITTED: u8 = 4;
const KIND_SACK: u8 = 5;
const KIND_TIMESTAMPS: u8 = 8;
/// An experiment (RFC 4727), named by the first two bytes of the body (RFC 6994).
const KIND_EXPERIMENT: u8 = 253;
/// The experiment of persistent connections.
const EXPERIMENT_STAYS_OPEN: [u8; 2] = [0xeb, 0xb0];
/// The experiment of FastLane's bytes out of order.
const EXPERIMENT_OUT_OF_ORDER: [u8; 2] = [0xeb, 0xb1];
const MAX_OPTION_BYTES: usize = 40;
const MAX_SACK_BLOCKS: usize = 4;

impl TcpOptions {
    fn parse(mut bytes: &[u8]) -> Result<Self, ParseError> {
        let mut options = TcpOptions::default();
        while let [kind, rest @ ..] = bytes {
            match *kind {
                KIND_END => break,
                KIND_NOP => {
                    bytes = rest;
                    continue;
                }
                _ => {}
            }
            let bad = ParseError::TcpOption { kind: *kind };
            let Some(body) = rest.first().and_then(|&len| bytes.get(2..usize::from(len))) else {
                return Err(bad);
            };
            match (*kind, body) {
                (KIND_MSS, &[a, b]) => options.mss = Some(u16::from_be_bytes([a, b])),
                (KIND_WINDOW_SCALE, &[shift]) => options.window_scale = Some(shift),
                (KIND_SACK_PERMITTED, []) => options.sack_permitted = true,
                (KIND_SACK, edges) if edges.len() % 8 == 0 => {
                    // No more blocks fit into 40 bytes of options.
                    options.sack_blocks = edges
                        .chunks_exact(8)
                        .map(|e| (be32(e, 0), be32(e, 4)))
                        .take(MAX_SACK_BLOCKS)
                        .collect();
                }
                (KIND_TIMESTAMPS, ts) if ts.len() == 8 => {
                    options.timestamps = Some((be32(ts, 0), be32(ts, 4)));
                }
                (KIND_EXPERIMENT, &[a, b, version]) if [a, b] == EXPERIMENT_STAYS_OPEN => {
                    options.stays_open = Some(version);
                }
                (KIND_EXPERIMENT, &[a, b, ref bytes @ ..]) if [a, b] == EXPERIMENT_OUT_OF_ORDER => {
                    let bytes = <[u8; 4]>::try_from(bytes).map_err(|_| bad)?;
                    options.out_of_order_bytes = Some(u32::from_be_bytes(bytes));
                }
                (
                    KIND_MSS | KIND_WINDOW_SCALE | KIND_SACK_PERMITTED | KIND_SACK
                    | KIND_TIMESTAMPS,
                    _,
                ) => return Err(bad),
                _ => {}
            }
            bytes = &bytes[2 + body.len()..];
        }
        Ok(options)
    }

    /// SACK blocks that fit beside `other_bytes` of other options.
    fn fitting_blocks(&self, other_bytes: usize) -> &[(u32, u32)] {
        let room = (MAX_OPTION_BYTES - other_bytes).saturating_sub(4) / 8;
        &self.sack_blocks[..self.sack_blocks.len().min(room)]
    }

    /// Bytes that [`emit`](Self::emit) appends.
    pub fn emitted_bytes(&self) -> usize {
        let fixed = 4 * usize::from(self.mss.is_some())
            + 4 * usize::from(self.sack_permitted)
            + 12 * usize::from(self.timestamps.is_some())
            + 4 * usize::from(self.window_scale.is_some())
            + 8 * usize::from(self.stays_open.is_some())
            + 8 * usize::from(self.out_of_order_bytes.is_some());
        match self.fitting_blocks(fixed).len() {
            0 => fixed,
            blocks => fixed + 4 + 8 * blocks,
        }
    }

    /// Appends the options, padded to a multiple of 4. SACK blocks that do not fit are left out.
    fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        if let Some(mss) = self.mss {
            out.extend_from_slice(&[KIND_MSS, 4]);
            out.extend_from_slice(&mss.to_be_bytes());
        }
        if self.sack_permitted {
            out.extend_from_slice(&[KIND_NOP, KIND_NOP, KIND_SACK_PERMITTED, 2]);
        }
        if let Some((value, echo)) = self.timestamps {
            out.extend_from_slice(&[KIND_NOP, KIND_NOP, KIND_TIMESTAMPS, 10]);
            out.extend_from_slice(&value.to_be_bytes());
            out.extend_from_slice(&echo.to_be_bytes());
        }
        if let Some(shift) = self.window_scale {
            out.extend_from_slice(&[KIND_NOP, KIND_WINDOW_SCALE, 3, shift]);
        }
        if let Some(version) = self.stays_open {
            let [a, b] = EXPERIMENT_STAYS_OPEN;
            let nop = KIND_NOP;
            out.extend_from_slice(&[nop, nop, nop, KIND_EXPERIMENT, 5, a, b, version]);
        }
        if let Some(bytes) = self.out_of_order_bytes {
            let [a, b] = EXPERIMENT_OUT_OF_ORDER;
            out.extend_from_slice(&[KIND_EXPERIMENT, 8, a, b]);
            out.extend_from_slice(&bytes.to_be_bytes());
        }
        let blocks = self.fitting_blocks(out.len() - start);
        if !blocks.is_empty() {
            let len = 2 + 8 * blocks.len() as u8;
            out.extend_from_slice(&[KIND_NOP, KIND_NOP, KIND_SACK, len]);
            for (left, right) in blocks {
                out.extend_from_slice(&left.to_be_bytes());
                out.extend_from_slice(&right.to_be_bytes());
            }
        }
    }
}

impl TcpHeader {
    /// Length of a header without options, in bytes.
    pub const BYTES: usize = 20;

    /// Parses the payload of an IPv4 packet from `src` to `dst`.
    pub fn parse(bytes: &[u8], src: Ipv4Addr, dst: Ipv4Addr) -> Result<TcpSegment<'_>, ParseError> {
        let truncated = |need| ParseError::Truncated {
            layer: Layer::Tcp,
            need,
            have: bytes.len(),
        };
        let head = bytes
            .first_chunk::<{ Self::BYTES }>()
            .ok_or(truncated(Self::BYTES))?;
        let header_bytes = usize::from(head[12] >> 4) * 4;
        if header_bytes < Self::BYTES {
            return Err(ParseError::HeaderLength {
                layer: Layer::Tcp,
                bytes: header_bytes,
            });
        }
        let (all, payload) = bytes
            .split_at_checked(header_bytes)
            .ok_or(truncated(header_bytes))?;
        let sum = Checksum::pseudo_header(src, dst, Protocol::TCP.0, bytes.len()).over(bytes);
        if sum.finish() != 0 {
            return Err(ParseError::Checksum { layer: Layer::Tcp });
        }
        let header = TcpHeader {
            source_port: u16::from_be_bytes([head[0], head[1]]),
            destination_port: u16::from_be_bytes([head[2], head[3]]),
            seq: be32(head, 4),
            ack: be32(head, 8),
            flags: TcpFlags(head[13]),
            window: u16::from_be_bytes([head[14], head[15]]),
            options: TcpOptions::parse(&all[Self::BYTES..])?,
        };
        Ok(TcpSegment { header, payload })
    }

    /// Bytes that [`emit`](Self::emit) puts before the payload.
    pub fn emitted_bytes(&self) -> usize {
        Self::BYTES + self.options.emitted_bytes()
    }

    /// Appends header and payload of a segment from `src` to `dst`.
    pub fn emit(&self, src: Ipv4Addr, dst: Ipv4Addr, payload: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.source_port.to_be_bytes());
        out.extend_from_slice(&self.destination_port.to_be_bytes());
        out.extend_from_slice(&self.seq.to_be_bytes());
        out.extend_from_slice(&self.ack.to_be_bytes());
        out.extend_from_slice(&[0, self.flags.0]);
        out.extend_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&[0; 4]); // checksum, urgent pointer
        self.options.emit(out);
        let words = (out.len() - start) / 4;
        out[start + 12] = (words as u8) << 4;
        out.extend_from_slice(payload);
        let len = out.len() - start;
        let checksum = Checksum::pseudo_header(src, dst, Protocol::TCP.0, len).over(&out[start..]);
        out[start + 16..start + 18].copy_from_slice(&checksum.finish().to_be_bytes());
    }
}

/// Header fields that a host on the path can read of a segment whose checksum nobody has checked: the hosts at its ends
/// do, or leave that to their network cards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpGlance {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Its flags.
    pub flags: TcpFlags,
    /// Length of the data, in bytes.
    pub payload_bytes: usize,
}

impl TcpGlance {
    /// Reads the payload of an IPv4 packet. None: it is too short, or contradicts itself.
    pub fn read(bytes: &[u8]) -> Option<TcpGlance> {
        let head = bytes.first_chunk::<{ TcpHeader::BYTES }>()?;
        let header_bytes = usize::from(head[12] >> 4) * 4;
        if header_bytes < TcpHeader::BYTES {
            return None;
        }
        Some(TcpGlance {
            source_port: u16::from_be_bytes([head[0], head[1]]),
            destination_port: u16::from_be_bytes([head[2], head[3]]),
            flags: TcpFlags(head[13]),
            payload_bytes: bytes.len().checked_sub(header_bytes)?,
        })
    }
}

/// The four bytes at `at`; callers have checked that they are there.
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
