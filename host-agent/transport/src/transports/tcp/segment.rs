//! A TCP segment as the state machine sees it: only legal values, sequence numbers still 32 bits.

use std::borrow::Cow;
use std::net::Ipv4Addr;

use ebb_wire::{Ecn, Ipv4Header, Protocol, TcpFlags, TcpHeader, TcpOptions, TcpSegment};

/// The flags of RFC 9293 3.1 and RFC 3168 that a connection uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Begins a connection.
    pub syn: bool,
    /// The sender has no more data.
    pub fin: bool,
    /// Ends the connection at once.
    pub rst: bool,
    /// The receiver is to deliver at once.
    pub psh: bool,
    /// ECN-Echo.
    pub ece: bool,
    /// Congestion window reduced.
    pub cwr: bool,
}

/// One segment, with the fields of the IP header that matter to TCP. The
/// payload stays where it is: in the packet that arrived, or in the buffer of whoever sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Sequence number of the first byte of the payload, or of SYN.
    pub seq: u32,
    /// The acknowledgment number, if the ACK flag is set.
    pub ack: Option<u32>,
    /// Flags other than ACK.
    pub flags: Flags,
    /// As on the wire: not scaled.
    pub window: u16,
    /// Its options.
    pub options: TcpOptions,
    /// Data; empty for a pure acknowledgment.
    pub payload: Cow<'a, [u8]>,
    /// Received: the packet carried CE.
    pub ce: bool,
    /// Sent: the packet is to carry ECT(0).
    pub ect: bool,
    /// Identification of the IPv4 header: a field of algorithms and of switches, 0 where it says nothing.
    pub id: u16,
}

impl<'a> Segment<'a> {
    /// The same with a payload of its own.
    pub fn into_owned(self) -> Segment<'static> {
        Segment {
            payload: Cow::Owned(self.payload.into_owned()),
            ..self
        }
    }

    /// A plain SYN, as begins a handshake. With a FIN only if there is data before it: the whole
    /// stream is in the SYN.
    pub fn opens_a_connection(&self) -> bool {
        let flags = &self.flags;
        let has_end = flags.fin && self.payload.is_empty();
        flags.syn && !flags.rst && !has_end && self.ack.is_none()
    }

    /// The same without what is to be delivered.
    pub(crate) fn without_data(&self) -> Segment<'static> {
        Segment {
            payload: Cow::default(),
            flags: Flags {
                fin: false,
                ..self.flags
            },
            options: self.options.clone(),
            ..*self
        }
    }

    /// SEG.LEN of RFC 9293: SYN and FIN take a sequence number each.
    pub fn sequence_length(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.flags.syn) + u32::from(self.flags.fin)
    }

    /// The segment in a TCP packet that arrived with the IP header `ip`.
    pub fn from_wire(tcp: TcpSegment<'a>, ip: &Ipv4Header) -> Self {
        let TcpSegment { header, payload } = tcp;
        let has = |flag| header.flags.contains(flag);
        Segment {
            seq: header.seq,
            ack: has(TcpFlags::ACK).then_some(header.ack),
            flags: Flags {
                syn: has(TcpFlags::SYN),
                fin: has(TcpFlags::FIN),
                rst: has(TcpFlags::RST),
                psh: has(TcpFlags::PSH),
                ece: has(TcpFlags::ECE),
                cwr: has(TcpFlags::CWR),
            },
            window: header.window,
            options: header.options,
            payload: Cow::Borrowed(payload),
            ce: ip.ecn == Ecn::Ce,
            ect: ip.ecn != Ecn::NotEct,
            id: ip.id,
        }
    }

    /// Writes the segment as an IPv4 packet over `packet`.
    pub fn emit(
        &self,
        (source, source_port): (Ipv4Addr, u16),
        (destination, destination_port): (Ipv4Addr, u16),
        dscp: u8,
        packet: &mut Vec<u8>,
    ) {
        let flags = &self.flags;
        let header = TcpHeader {
            source_port,
            destination_port,
            seq: self.seq,
            ack: self.ack.unwrap_or(0),
            flags: TcpFlags::ACK.when(self.ack.is_some())
                | TcpFlags::SYN.when(flags.syn)
                | TcpFlags::FIN.when(flags.fin)
                | TcpFlags::RST.when(flags.rst)
                | TcpFlags::PSH.when(flags.psh)
                | TcpFlags::ECE.when(flags.ece)
                | TcpFlags::CWR.when(flags.cwr),
            window: self.window,
            options: self.options.clone(),
        };
        let ecn = if self.ect { Ecn::Ect0 } else { Ecn::NotEct };
        packet.clear();
        let bytes = header.emitted_bytes() + self.payload.len();
        let ip = Ipv4Header {
            id: self.id,
            ..Ipv4Header::new(source, destination, Protocol::TCP, dscp, ecn)
        };
        ip.emit(bytes, packet);
        header.emit(source, destination, &self.payload, packet);
    }

    /// The RST that answers a segment for which there is no connection (RFC 9293 3.5.2), unless
    /// it is itself a RST.
    pub fn reset_for(&self) -> Option<Segment<'static>> {
        if self.flags.rst {
            return None;
        }
        let (seq, ack) = match self.ack {
            Some(ack) => (ack, None),
            None => (0, Some(self.seq.wrapping_add(self.sequence_length()))),
        };
        let flags = Flags {
            rst: true,
            ..Flags::default()
        };
        Some(Segment {
            seq,
            ack,
            flags,
            ..Segment::default()
        })
    }
}

/// The 64-bit offset that the 32-bit number `seq` stands for, in a direction that started at
/// `initial`, given that it is within 2^31 of `near`. None if it lies before the start.
pub(crate) fn unwrap_sequence(seq: u32, initial: u32, near: u64) -> Option<u64> {
    let difference = seq.wrapping_sub(initial.wrapping_add(near as u32)) as i32;
    near.checked_add_signed(i64::from(difference))
}

/// The 32-bit number of offset `offset`.
pub(crate) fn wrap_sequence(offset: u64, initial: u32) -> u32 {
    initial.wrapping_add(offset as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap_and_unwrap() {
        let initial = 0xffff_fff0;
        for offset in [0, 1, 15, 16, 17, (1 << 32) - 1, 1 << 32, (1 << 33) + 5] {
            let seq = wrap_sequence(offset, initial);
            for near in [offset, offset.saturating_sub(1_000_000), offset + 1_000_000] {
                assert_eq!(unwrap_sequence(seq, initial, near), Some(offset));
            }
        }
        assert_eq!(unwrap_sequence(99, 100, 0), None);
    }

    #[test]
    fn a_segment_comes_with_the_fields_of_ip_that_switches_change() {
        let (here, there) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let segment = Segment {
            id: 0xabcd,
            ect: true,
            payload: vec![1, 2, 3].into(),
            ..Segment::default()
        };
        let mut packet = Vec::new();
        segment.emit((here, 5), (there, 6), 0, &mut packet);
        let ip = Ipv4Header::parse(&packet).unwrap();
        let tcp = TcpHeader::parse(ip.payload, here, there).unwrap();
        assert_eq!(Segment::from_wire(tcp, &ip.header), segment);
    }

    #[test]
    fn resets_follow_rfc_9293() {
        let syn = Segment {
            seq: 7,
            flags: Flags {
                syn: true,
                ..Flags::default()
            },
            ..Segment::default()
        };
        let reset = syn.reset_for().unwrap();
        assert_eq!((reset.seq, reset.ack), (0, Some(8)));
        let data = Segment {
            seq: 7,
            ack: Some(100),
            payload: vec![0; 3].into(),
            ..Segment::default()
        };
        let reset = data.reset_for().unwrap();
        assert_eq!((reset.seq, reset.ack), (100, None));
        assert_eq!(reset.reset_for(), None);
    }
}
