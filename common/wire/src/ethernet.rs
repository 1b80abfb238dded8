//! Ethernet II.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use crate::{Layer, ParseError};

/// An address of six bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Where frames to a multicast group go (RFC 1112, section 6.4): the low 23 bits of its address.
    pub fn of_group(group: Ipv4Addr) -> Self {
        let [_, b, c, d] = group.octets();
        MacAddress([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// Multicast or broadcast: the group bit is set.
    pub fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not an address: six bytes in hexadecimal with colons between them.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is not a MAC address (six hexadecimal bytes with colons between)")]
pub struct BadMacAddress(String);

impl FromStr for MacAddress {
    type Err = BadMacAddress;

    fn from_str(text: &str) -> Result<Self, BadMacAddress> {
        let bad = || BadMacAddress(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|p| p.len() == 2).ok_or_else(bad)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| bad())?;
        }
        if parts.next().is_some() {
            Err(bad())
        } else {
            Ok(MacAddress(bytes))
        }
    }
}

/// A header without VLAN tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EthernetHeader {
    /// Destination.
    pub dst: MacAddress,
    /// Source.
    pub src: MacAddress,
    /// Protocol of the payload, such as [`IPV4`](Self::IPV4).
    pub ethertype: u16,
}

/// A parsed frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EthernetFrame<'a> {
    /// The header.
    pub header: EthernetHeader,
    /// May be longer than the packet in it: short frames are padded.
    pub payload: &'a [u8],
}

impl EthernetHeader {
    /// Length of the header on the wire, in bytes, without the frame check sequence.
    pub const BYTES: usize = 14;
    /// `ethertype` of IPv4 (RFC 894).
    pub const IPV4: u16 = 0x0800;

    /// Parses a frame without its frame check sequence. Fails if it is shorter than a header.
    pub fn parse(bytes: &[u8]) -> Result<EthernetFrame<'_>, ParseError> {
        let Some((head, payload)) = bytes.split_first_chunk::<{ Self::BYTES }>() else {
            return Err(ParseError::Truncated {
                layer: Layer::Ethernet,
                need: Self::BYTES,
                have: bytes.len(),
            });
        };
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *head;
        let header = EthernetHeader {
            dst: MacAddress([d0, d1, d2, d3, d4, d5]),
            src: MacAddress([s0, s1, s2, s3, s4, s5]),
            ethertype: u16::from_be_bytes([t0, t1]),
        };
        Ok(EthernetFrame { header, payload })
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let [d0, d1, d2, d3, d4, d5] = self.dst.0;
        let [s0, s1, s2, s3, s4, s5] = self.src.0;
        let [t0, t1] = self.ethertype.to_be_bytes();
        let head: [u8; Self::BYTES] = [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1];
        out.extend_from_slice(&head);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_the_address_of_rfc_1112() {
        let mac = MacAddress::of_group(Ipv4Addr::new(239, 129, 2, 3));
        assert_eq!(mac.to_string(), "01:00:5e:01:02:03");
        assert!(mac.is_group());
        assert!(!MacAddress([2, 0, 0, 0, 0, 1]).is_group());
    }

    #[test]
    fn a_mac_address_is_read_and_written() {
        let mac: MacAddress = "02:00:0a:ff:00:1b".parse().unwrap();
        assert_eq!(mac.to_string(), "02:00:0a:ff:00:1b");
        for bad in [
            "",
            "02:00:0a:ff:00",
            "02:00:0a:ff:00:1b:1c",
            "2:0:a:f:0:1",
            "zz:00:00:00:00:00",
        ] {
            assert!(bad.parse::<MacAddress>().is_err(), "{bad}");
        }
    }
}
