//! How an object is cut into blocks, and a block's symbols among the senders of a many-to-one
//! session.

use crate::code::BlockShape;
use crate::receiver_driven::StreamShape;

#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    pub shape: StreamShape,
}

impl Blocks {
    pub fn count(&self) -> u32 {
        let blocks = self
            .shape
            .packets()
            .div_ceil(u64::from(self.shape.block_symbols));
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    /// Source symbols of `block`: K, but for the last one.
    pub fn source_symbols(&self, block: u32) -> u16 {
        let before = self.first_packet(block);
        let left = self.shape.packets().saturating_sub(before);
        left.min(self.shape.block_symbols.into()) as u16
    }

    /// Shape of `block` for a code.
    pub fn coded(&self, block: u32) -> BlockShape {
        BlockShape {
            block,
            source_symbols: self.source_symbols(block),
            symbol_bytes: self.shape.symbol_bytes,
        }
    }

    /// The number of the first packet of `block`, counted through the object.
    fn first_packet(&self, block: u32) -> u64 {
        u64::from(block) * u64::from(self.shape.block_symbols)
    }

    /// Offset and length of source symbol `esi` of `block`. The last one of the object may be
    /// short; to the code it is filled up with zeros.
    pub fn extent(&self, block: u32, esi: u32) -> (u64, usize) {
        self.shape.extent(self.first_packet(block) + u64::from(esi))
    }

    fn full_block_bytes(&self) -> u64 {
        u64::from(self.shape.block_symbols) * u64::from(self.shape.symbol_bytes)
    }

    /// Where `block` begins in the object; its end, for the number of blocks.
    pub fn offset(&self, block: u32) -> u64 {
        (u64::from(block) * self.full_block_bytes()).min(self.shape.object_bytes)
    }

    /// Offset and length of `block` in the object.
    pub fn block_extent(&self, block: u32) -> (u64, usize) {
        let offset = u64::from(block) * self.full_block_bytes();
        let left = self.shape.object_bytes.saturating_sub(offset);
        (offset, left.min(self.full_block_bytes()) as usize)
    }

    /// The inverse of [`offset`](Self::offset): blocks that end at or before `bytes`.
    pub fn within(&self, bytes: u64) -> u32 {
        if bytes >= self.shape.object_bytes && bytes > 0 {
            return self.count();
        }
        (bytes / self.full_block_bytes().max(1)) as u32
    }

    /// Source symbols of the whole object in `share`.
    pub fn share_total(&self, share: Share) -> u64 {
        let last = self.count() - 1;
        self.share_start(share, last) + u64::from(share.symbols(self.source_symbols(last)))
    }

    /// How many of them precede `block`.
    pub fn share_start(&self, share: Share, block: u32) -> u64 {
        u64::from(block) * u64::from(share.symbols(self.shape.block_symbols))
    }

    /// The block of the `position`-th of them, which exists.
    pub fn share_block(&self, share: Share, position: u64) -> u32 {
        let per_block = u64::from(share.symbols(self.shape.block_symbols)).max(1);
        ((position / per_block) as u32).min(self.count() - 1)
    }
}

/// The part of every block that one of several senders sends: source symbols with
/// `ESI mod senders = sender`, then repair symbols K + sender, K + sender + senders, ... No symbol
/// is in two shares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    pub sender: u8,
    pub senders: u8,
}

impl Share {
    /// The share of an only sender: everything.
    pub const ALL: Share = Share {
        sender: 0,
        senders: 1,
    };

    /// Source symbols of a block of `source_symbols` in the share.
    pub fn symbols(self, source_symbols: u16) -> u16 {
        source_symbols
            .saturating_sub(self.sender.into())
            .div_ceil(self.senders.into())
    }

    /// The `index`-th of them; also the number of the `index`-th repair symbol, K taken as 0.
    pub fn nth(self, index: u32) -> u32 {
        u32::from(self.sender) + index * u32::from(self.senders)
    }

    /// Where source symbol `esi`, which is in the share, is in it.
    pub fn index(self, esi: u32) -> u32 {
        esi / u32::from(self.senders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_partition_every_block_and_their_positions_are_those_of_their_symbols() {
        for (packets, block_symbols, senders) in [(1, 100, 3), (250, 100, 3), (7, 2, 5), (40, 4, 4)]
        {
            let shape = StreamShape {
                object_bytes: packets * 10,
                symbol_bytes: 10,
                block_symbols,
            };
            let blocks = Blocks { shape };
            let mut total = 0;
            for sender in 0..senders {
                let share = Share { sender, senders };
                let mut position = 0;
                for block in 0..blocks.count() {
                    assert_eq!(blocks.share_start(share, block), position);
                    let symbols = share.symbols(blocks.source_symbols(block));
                    for index in 0..u32::from(symbols) {
                        let esi = share.nth(index);
                        assert_eq!(
                            (esi % u32::from(senders), share.index(esi)),
                            (sender.into(), index)
                        );
                        assert!(esi < blocks.source_symbols(block).into());
                        assert_eq!(blocks.share_block(share, position), block);
                        position += 1;
                    }
                }
                assert_eq!(blocks.share_total(share), position);
                total += position;
            }
            assert_eq!(total, packets);
        }
    }

    #[test]
    fn bytes_and_blocks_agree() {
        let shape = StreamShape {
            object_bytes: 95,
            symbol_bytes: 10,
            block_symbols: 4,
        };
        let blocks = Blocks { shape };
        assert_eq!(
            (0..=3).map(|b| blocks.offset(b)).collect::<Vec<_>>(),
            [0, 40, 80, 95]
        );
        for block in 0..=3 {
            assert_eq!(blocks.within(blocks.offset(block)), block);
        }
        assert_eq!(blocks.within(79), 1);
    }
}
