//! Division of an object into blocks of about equal size: a small one at the end would have a larger
//! overhead than all others.

use ebb_wire::{EbbFlags, EbbHeader, PacketType};

use crate::code::BlockShape;
use crate::receiver_driven::StreamShape;

/// Most blocks at a time that are received or decoded, or wait for an earlier one.
pub const MAX_OPEN: u32 = 4;

/// Number of the source symbols of a block and `overhead`, a share of them, rounded up.
pub fn with_overhead(shape: BlockShape, overhead: f64) -> u32 {
    (f64::from(shape.source_symbols) * (1.0 + overhead)).ceil() as u32
}

#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    pub shape: StreamShape,
}

impl Blocks {
    pub fn count(&self) -> u32 {
        let most = u64::from(self.shape.block_symbols.max(1));
        u32::try_from(self.shape.packets().div_ceil(most)).unwrap_or(u32::MAX)
    }

    /// The number of the first packet of `block`, counted through the object. Blocks with a packet
    /// more than others come first.
    fn first_packet(&self, block: u32) -> u64 {
        let (packets, count) = (self.shape.packets(), u64::from(self.count()));
        let block = u64::from(block);
        block * (packets / count) + block.min(packets % count)
    }

    /// Parameters of the code of `block`.
    pub fn coded(&self, block: u32) -> BlockShape {
        let packets = self.first_packet(block + 1) - self.first_packet(block);
        BlockShape {
            block,
            source_symbols: packets as u16,
            symbol_bytes: self.shape.symbol_bytes,
        }
    }

    /// Offset of `block` in the object; for the number of blocks, the length of the object.
    pub fn offset(&self, block: u32) -> u64 {
        let bytes = self.first_packet(block) * u64::from(self.shape.symbol_bytes);
        bytes.min(self.shape.object_bytes)
    }

    /// The inverse of [`offset`](Self::offset): blocks that end at or before `bytes`.
    pub fn within(&self, bytes: u64) -> u32 {
        if bytes >= self.shape.object_bytes {
            return if bytes > 0 { self.count() } else { 0 };
        }
        let count = u64::from(self.count());
        let (least, longer) = (self.shape.packets() / count, self.shape.packets() % count);
        let packets = bytes / u64::from(self.shape.symbol_bytes).max(1);
        let of_longer = packets / (least + 1);
        let blocks = if of_longer < longer {
            of_longer
        } else {
            (packets - longer) / least
        };
        blocks as u32
    }

    /// Message of a receiver that needs no symbols; with FIN: none ever again.
    pub fn stop(&self, flags: EbbFlags) -> EbbHeader {
        EbbHeader {
            flags,
            block: self.count(),
            ..EbbHeader::new(PacketType::Stop, 0, 0)
        }
    }

    /// Offset and length of `block` in the object.
    pub fn extent(&self, block: u32) -> (u64, usize) {
        let offset = self.offset(block);
        (offset, (self.offset(block + 1) - offset) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_the_object_and_differ_by_a_packet_at_most() {
        for (bytes, most) in [
            (0, 5),
            (1, 5),
            (10, 1),
            (95, 4),
            (1003, 7),
            (1000, 100),
            (77, 8192),
        ] {
            let shape = StreamShape {
                object_bytes: bytes,
                symbol_bytes: 10,
                block_symbols: most,
            };
            let blocks = Blocks { shape };
            let mut end = 0;
            let sizes: Vec<u16> = (0..blocks.count())
                .map(|block| {
                    let (offset, len) = blocks.extent(block);
                    assert_eq!(offset, end);
                    assert_eq!(blocks.within(end), block);
                    assert!(end == 0 || blocks.within(end - 1) + 1 == block);
                    end += len as u64;
                    let symbols = blocks.coded(block).source_symbols;
                    assert_eq!(len.div_ceil(10).max(1), usize::from(symbols));
                    symbols
                })
                .collect();
            assert_eq!((end, blocks.offset(blocks.count())), (bytes, bytes));
            let (least, largest) = (sizes.iter().min(), sizes.iter().max());
            assert!(largest <= Some(&most) && largest.unwrap() - least.unwrap() <= 1);
        }
    }
}
