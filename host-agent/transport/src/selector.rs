//! Which packets of a host belong to a transport: the ones with a port of its own in a known place.

use ebb_wire::Protocol;

/// IPv4 packets that belong to a transport, if the port in them is one of the transport's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selector {
    /// Protocol number in the IPv4 header.
    pub protocol: Protocol,
    /// Where the transport's own port is, in bytes behind the IPv4 header.
    pub port_at: u8,
    /// Other selectors of a transport are not asked about a packet that meets it. None: any packet of
    /// the protocol.
    pub condition: Option<Condition>,
}

/// A property of a packet beside protocol and port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// DSCP of the IPv4 header.
    Dscp(u8),
    /// Bits of which at least one is set, in the byte `at` behind the IPv4 header.
    Bits {
        /// Offset of the byte.
        at: u8,
        /// The bits.
        mask: u8,
    },
}

/// Offsets in an IPv4 header.
const DSCP_AT: usize = 1;
const PROTOCOL_AT: usize = 9;

impl Selector {
    /// Packets of `protocol` whatever else is in them.
    pub const fn any(protocol: Protocol, port_at: u8) -> Self {
        Selector {
            protocol,
            port_at,
            condition: None,
        }
    }

    /// Packets of `protocol` that meet `condition`.
    pub const fn only(protocol: Protocol, port_at: u8, condition: Condition) -> Self {
        Selector {
            protocol,
            port_at,
            condition: Some(condition),
        }
    }

    /// Whether an IPv4 packet, which need not be well-formed, has the protocol and meets the condition.
    pub fn matches(&self, packet: &[u8]) -> bool {
        packet.get(PROTOCOL_AT) == Some(&self.protocol.0)
            && match self.condition {
                None => true,
                Some(Condition::Dscp(dscp)) => dscp_of(packet) == Some(dscp),
                Some(Condition::Bits { at, mask }) => {
                    let byte = behind_ip(packet).and_then(|header| header.get(usize::from(at)));
                    byte.is_some_and(|byte| byte & mask != 0)
                }
            }
    }

    /// The port of a packet that [matches](Self::matches). None: the packet ends before it.
    pub fn port(&self, packet: &[u8]) -> Option<u16> {
        let port = behind_ip(packet)?.get(usize::from(self.port_at)..)?;
        Some(u16::from_be_bytes(*port.first_chunk()?))
    }
}

/// DSCP of an IPv4 packet. None: the packet ends before it.
pub fn dscp_of(packet: &[u8]) -> Option<u8> {
    packet.get(DSCP_AT).map(|byte| byte >> 2)
}

fn behind_ip(packet: &[u8]) -> Option<&[u8]> {
    packet.get(usize::from(packet.first()? & 0xf) * 4..)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TCP in DSCP 56 from port 61000 to port 7000, behind an IPv4 header of 24 bytes.
    fn packet() -> Vec<u8> {
        let mut packet = vec![0; 24 + 20];
        packet[0] = 0x46;
        packet[DSCP_AT] = 56 << 2;
        packet[PROTOCOL_AT] = Protocol::TCP.0;
        packet[24..26].copy_from_slice(&61000u16.to_be_bytes());
        packet[26..28].copy_from_slice(&7000u16.to_be_bytes());
        packet[24 + 13] = 0x12;
        packet
    }

    #[test]
    fn a_selector_names_the_place_of_the_port() {
        let packet = packet();
        assert_eq!(Selector::any(Protocol::TCP, 2).port(&packet), Some(7000));
        assert_eq!(Selector::any(Protocol::TCP, 0).port(&packet), Some(61000));
        assert_eq!(Selector::any(Protocol::TCP, 2).port(&packet[..27]), None);
        assert_eq!(Selector::any(Protocol::TCP, 2).port(&[]), None);
    }

    #[test]
    fn protocol_and_condition_must_hold() {
        let packet = packet();
        let matches = |protocol, condition| {
            let selector = Selector {
                protocol,
                port_at: 0,
                condition,
            };
            selector.matches(&packet)
        };
        assert!(matches(Protocol::TCP, None));
        assert!(!matches(Protocol::EBB, None));
        assert!(matches(Protocol::TCP, Some(Condition::Dscp(56))));
        assert!(!matches(Protocol::TCP, Some(Condition::Dscp(55))));
        assert!(!matches(Protocol::EBB, Some(Condition::Dscp(56))));
        let bits = |at, mask| Some(Condition::Bits { at, mask });
        assert!(matches(Protocol::TCP, bits(13, 0x02)));
        assert!(!matches(Protocol::TCP, bits(13, 0x01)));
        assert!(!matches(Protocol::TCP, bits(200, 0xff)));
        let any = Selector::any(Protocol::TCP, 0);
        assert!(!any.matches(&packet[..PROTOCOL_AT]));
    }
}
