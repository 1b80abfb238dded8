//! Reasons why bytes are not a packet.

use std::fmt;

/// The header that is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layer {
    /// Ethernet II.
    Ethernet,
    /// IPv4 (RFC 791).
    Ipv4,
    /// ICMP (RFC 792).
    Icmp,
    /// TCP (RFC 9293).
    Tcp,
    /// The header of NDP and SCDP.
    Ebb,
    /// MAC control (IEEE 802.3, clause 31): PFC.
    MacControl,
    /// A message between hypervisors about a tenant's hose.
    Hose,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layer::Ethernet => "Ethernet",
            Layer::Ipv4 => "IPv4",
            Layer::Icmp => "ICMP",
            Layer::Tcp => "TCP",
            Layer::Ebb => "receiver-driven",
            Layer::MacControl => "MAC control",
            Layer::Hose => "hose",
        })
    }
}

/// Defects of packets. Lengths are in bytes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
pub enum ParseError {
    #[error("{layer} header needs {need} bytes, {have} are there")]
    Truncated {
        layer: Layer,
        need: usize,
        have: usize,
    },
    #[error("{layer} version is {found}, expected {expected}")]
    Version {
        layer: Layer,
        found: u8,
        expected: u8,
    },
    #[error("{layer} header length of {bytes} bytes is impossible")]
    HeaderLength { layer: Layer, bytes: usize },
    #[error("IPv4 total length is {total} bytes, the header has {header} and {have} arrived")]
    TotalLength {
        total: usize,
        header: usize,
        have: usize,
    },
    #[error("{layer} checksum is wrong")]
    Checksum { layer: Layer },
    #[error("IPv4 protocol is {found}, expected {expected}")]
    Protocol { found: u8, expected: u8 },
    #[error("ICMP type {found}, code {code}, expected Source Quench: type 4, code 0")]
    IcmpType { found: u8, code: u8 },
    #[error("the packet is a fragment; fragments are not reassembled")]
    Fragment,
    #[error("packet type {found} is not one of DATA, SYMBOL, PULL, ACK, NACK, RESET")]
    PacketType { found: u8 },
    #[error("the header announces {announced} bytes of payload, {have} arrived untrimmed")]
    PayloadLength { announced: usize, have: usize },
    #[error("payload CRC32C is {computed:#010x}, the header says {announced:#010x}")]
    PayloadCrc { announced: u32, computed: u32 },
    #[error("TCP option {kind} is malformed")]
    TcpOption { kind: u8 },
    #[error("not a MAC control frame: its type is not 0x8808, or it is for another address")]
    NotMacControl,
    #[error("{layer} frame has {found} bytes, expected {expected}")]
    FrameLength {
        layer: Layer,
        expected: usize,
        found: usize,
    },
    #[error("MAC control opcode is {found:#06x}, expected {expected:#06x}")]
    Opcode { expected: u16, found: u16 },
    #[error("the PFC frame names no class")]
    NoClass,
    #[error("hose message of kind {found}, expected 1 (demand) or 2 (grant)")]
    HoseKind { found: u8 },
}
