//! Packet numbers on the wire: 24 bits in `symbol`, the rest in `block`.

use ebb_wire::{EbbHeader, PacketType};

/// Packets of one object. The pull counter has 32 bits, and every trim costs a pull: this leaves
/// room for as many trims as there are packets.
pub const MAX_PACKETS: u64 = 1 << 31;

const LOW_BITS: u32 = EbbHeader::SYMBOL_LIMIT.trailing_zeros();

/// A DATA, ACK or NACK of packet `number`.
pub fn header_of(packet_type: PacketType, number: u32) -> EbbHeader {
    EbbHeader {
        block: number >> LOW_BITS,
        symbol: number % EbbHeader::SYMBOL_LIMIT,
        ..EbbHeader::new(packet_type, 0, 0)
    }
}

/// The number that a header names; `u32::MAX`, which no packet has, if it has too many bits.
pub fn number_of(header: &EbbHeader) -> u32 {
    let number = u64::from(header.block) << LOW_BITS | u64::from(header.symbol);
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_the_wire() {
        for number in [0, 1, (1 << 24) - 1, 1 << 24, (1 << 31) - 1] {
            let header = header_of(PacketType::Ack, number);
            assert!(header.symbol < EbbHeader::SYMBOL_LIMIT);
            assert_eq!(number_of(&header), number);
        }
        let absurd = EbbHeader {
            block: u32::MAX,
            ..EbbHeader::new(PacketType::Ack, 0, 0)
        };
        assert_eq!(number_of(&absurd), u32::MAX);
    }
}
