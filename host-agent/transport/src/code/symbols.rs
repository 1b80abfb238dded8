//! The symbols of one block in one buffer: source symbols at their places in the block, coded symbols
//! after them.

use super::bits::Bits;
use super::erasure::{BlockShape, Code};
use crate::StreamBytes;
use crate::receiver_driven::{Buffers, is_zero, pieces};

#[derive(Debug, Default)]
pub struct Symbols {
    shape: BlockShape,
    /// ESIs below this number are those of source symbols: K, or 0 if the code is not systematic.
    sources: u16,
    /// The symbols up to the last one that is not all zeros, so that most simulated objects take no
    /// memory. It grows with the symbols that arrive: a peer that announces large blocks gets no memory
    /// for the announcement alone.
    buffer: Vec<u8>,
    /// Bytes up to the last symbol, zeros or not, which are counted in [`Buffers::held`].
    held: usize,
    present: Bits,
    sources_present: u16,
    /// ESIs of the repair symbols, in the order in which they are in the buffer.
    repairs: Vec<u32>,
}

impl Symbols {
    pub fn reset<C: Code>(&mut self, shape: BlockShape) {
        self.shape = shape;
        self.sources = if C::SYSTEMATIC {
            shape.source_symbols
        } else {
            0
        };
        self.present.reset(shape.source_symbols.into());
        self.sources_present = 0;
        self.repairs.clear();
    }

    pub fn shape(&self) -> BlockShape {
        self.shape
    }

    /// K: the number of source symbols of the block.
    pub fn source_symbols(&self) -> u16 {
        self.shape.source_symbols
    }

    /// Number of symbols that have arrived.
    pub fn count(&self) -> u32 {
        u32::from(self.sources_present) + self.repairs.len() as u32
    }

    pub fn has_all_sources(&self) -> bool {
        self.sources_present == self.shape.source_symbols
    }

    pub fn has(&self, esi: u32) -> bool {
        if esi < self.sources.into() {
            self.present.contains(esi as usize)
        } else {
            self.repairs.contains(&esi)
        }
    }

    fn range(&self, slot: usize) -> std::ops::Range<usize> {
        let start = slot * usize::from(self.shape.symbol_bytes);
        start..start + usize::from(self.shape.symbol_bytes)
    }

    /// Takes a symbol that is not there. A short one is filled up with zeros.
    pub fn store(&mut self, esi: u32, payload: &[u8], buffers: &mut Buffers) {
        let slot = if esi < self.sources.into() {
            self.present.insert(esi as usize);
            self.sources_present += 1;
            esi as usize
        } else {
            self.repairs.push(esi);
            usize::from(self.sources) + self.repairs.len() - 1
        };
        let range = self.range(slot);
        if self.held < range.end {
            buffers.hold(range.end - self.held);
            self.held = range.end;
        }
        if let Some(place) = self.buffer.get_mut(range.clone()) {
            let (bytes, padding) = place.split_at_mut(payload.len());
            bytes.copy_from_slice(payload);
            padding.fill(0);
        } else if !is_zero(payload) {
            if self.buffer.capacity() == 0 {
                self.buffer = buffers.take();
            }
            self.buffer.resize(range.start, 0);
            self.buffer.extend_from_slice(payload);
            self.buffer.resize(range.end, 0);
        }
    }

    /// The symbols that have arrived, with their ESIs.
    pub fn iter(&mut self) -> impl Iterator<Item = (u32, &[u8])> {
        self.buffer.resize(self.held, 0);
        let k = usize::from(self.sources);
        let sources = (0..k).filter(|&esi| self.present.contains(esi));
        let repairs = self.repairs.iter().enumerate();
        sources
            .map(|esi| (esi as u32, esi))
            .chain(repairs.map(move |(n, &esi)| (esi, k + n)))
            .map(|(esi, slot)| (esi, &self.buffer[self.range(slot)]))
    }

    /// Puts in the source symbols that are missing. `decoded`: the whole block.
    pub fn complete(&mut self, decoded: &[u8]) {
        self.buffer.resize(self.shape.bytes(), 0);
        for esi in 0..usize::from(self.shape.source_symbols) {
            if self.present.insert(esi) {
                let range = self.range(esi);
                self.buffer[range.clone()].copy_from_slice(&decoded[range]);
            }
        }
        self.sources_present = self.shape.source_symbols;
        self.repairs.clear();
    }

    #[cfg(test)]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The bytes of a complete block, `len` without padding, in pieces. They are held no longer.
    pub fn take_bytes(
        &mut self,
        len: usize,
        buffers: &mut Buffers,
    ) -> impl Iterator<Item = StreamBytes> + use<> {
        pieces(self.take_buffer(buffers), len)
    }

    /// Takes the buffer out; it is held no longer.
    pub fn take_buffer(&mut self, buffers: &mut Buffers) -> Vec<u8> {
        buffers.let_go(std::mem::take(&mut self.held));
        std::mem::take(&mut self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::RaptorQ;

    #[test]
    fn symbols_come_back_as_they_were_stored_whatever_the_order() {
        let mut buffers = Buffers::default();
        buffers.take();
        buffers.give(vec![9; 100]);
        let mut symbols = Symbols::default();
        symbols.reset::<RaptorQ>(BlockShape {
            block: 0,
            source_symbols: 4,
            symbol_bytes: 3,
        });
        for (esi, payload) in [
            (7, &[7, 7, 7][..]),
            (3, &[3]),
            (0, &[0, 0, 1]),
            (5, &[5; 3]),
        ] {
            assert!(!symbols.has(esi));
            symbols.store(esi, payload, &mut buffers);
            assert!(symbols.has(esi));
        }
        let all: Vec<(u32, &[u8])> = symbols.iter().collect();
        let expected: [(u32, &[u8]); 4] = [
            (0, &[0, 0, 1]),
            (3, &[3, 0, 0]),
            (7, &[7, 7, 7]),
            (5, &[5; 3]),
        ];
        assert_eq!(all, expected);
        assert_eq!(symbols.count(), 4);
        symbols.complete(&[8; 12]);
        assert!(symbols.has_all_sources());
        // Six symbols, of which the last two were repair symbols.
        assert_eq!(buffers.held(), 18);
        assert_eq!(
            symbols.take_buffer(&mut buffers),
            [0, 0, 1, 8, 8, 8, 8, 8, 8, 3, 0, 0]
        );
        assert_eq!(buffers.held(), 0);
    }
}
