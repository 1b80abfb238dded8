//! Recognises frames that carry "congestion experienced" (RFC 3168), for the statistics of the
//! queues.

/// Where the first EtherType of an Ethernet frame stands, in bytes.
const ETHERTYPE_OFFSET: usize = 12;
/// Length of a VLAN tag, in bytes.
const VLAN_TAG: usize = 4;
/// The codepoint "congestion experienced": both bits of the ECN field.
const CE: u8 = 0b11;

/// Whether the frame is IPv4 or IPv6, perhaps behind VLAN tags, with the ECN field at CE.
#[inline]
pub(crate) fn carries_ce(frame: &[u8]) -> bool {
    match frame.first_chunk::<16>() {
        // Nearly all frames are IPv4 without tags.
        Some([.., 0x08, 0x00, _, traffic_class]) => traffic_class & CE == CE,
        _ => carries_ce_anywhere(frame),
    }
}

/// The same, wherever the header of IP begins.
fn carries_ce_anywhere(frame: &[u8]) -> bool {
    let mut offset = ETHERTYPE_OFFSET;
    loop {
        let Some(ethertype) = frame.get(offset..offset + 2) else {
            return false;
        };
        let header = &frame[offset + 2..];
        match (ethertype, header) {
            ([0x81, 0x00] | [0x88, 0xa8], _) => offset += VLAN_TAG,
            // The traffic class is the second byte in IPv4; in IPv6 it lies across two bytes.
            ([0x08, 0x00], [_, traffic_class, ..]) => return traffic_class & CE == CE,
            ([0x86, 0xdd], [_, second, ..]) => return (second >> 4) & CE == CE,
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(rest: &[u8]) -> Vec<u8> {
        [&[0; ETHERTYPE_OFFSET], rest].concat()
    }

    #[test]
    fn both_bits_in_every_encapsulation() {
        assert!(carries_ce(&frame(&[8, 0, 0x45, 0x03])));
        assert!(!carries_ce(&frame(&[8, 0, 0x45, 0x02])));
        assert!(carries_ce(&frame(&[0x81, 0, 0, 1, 8, 0, 0x45, 0xb3])));
        assert!(carries_ce(&frame(&[0x86, 0xdd, 0x60, 0x30])));
        assert!(!carries_ce(&frame(&[0x86, 0xdd, 0x60, 0x20])));
    }

    #[test]
    fn anything_else_and_any_length_is_not_marked() {
        assert!(!carries_ce(&[]));
        assert!(!carries_ce(&frame(&[8])));
        assert!(!carries_ce(&frame(&[8, 0])));
        assert!(!carries_ce(&frame(&[0x81, 0, 0, 1])));
        assert!(!carries_ce(&frame(&[8, 6, 0xff, 0xff])));
    }
}
