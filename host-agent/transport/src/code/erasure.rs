//! Erasure codes of blocks.

use std::fmt;

/// Shape of a block, as a code has to know it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BlockShape {
    /// Number of the block in its object.
    pub block: u32,
    /// K: source symbols of the block, at least 1.
    pub source_symbols: u16,
    /// Bytes of a symbol. The last source symbol is filled up with zeros.
    pub symbol_bytes: u16,
}

impl BlockShape {
    /// Bytes of all source symbols.
    pub fn bytes(self) -> usize {
        usize::from(self.source_symbols) * usize::from(self.symbol_bytes)
    }
}

/// A code. Its symbols have numbers below 2^32, of which those below K name the source symbols
/// themselves if it is systematic.
pub trait Code: fmt::Debug + Send + 'static {
    /// Encoder of one block.
    type Encoder: fmt::Debug + Send + 'static;

    /// Whether the symbols below K are those of the block.
    const SYSTEMATIC: bool;

    /// `bytes`: the source symbols one after another.
    fn encoder(shape: BlockShape, bytes: Vec<u8>) -> Self::Encoder;

    /// Appends a symbol that is no source symbol. False: the code has no such symbol.
    fn append(encoder: &Self::Encoder, symbol: u32, payload: &mut Vec<u8>) -> bool;

    /// The source symbols one after another. None: the symbols do not determine the block.
    fn decode<'a>(
        shape: BlockShape,
        symbols: impl Iterator<Item = (u32, &'a [u8])>,
    ) -> Option<Vec<u8>>;
}
