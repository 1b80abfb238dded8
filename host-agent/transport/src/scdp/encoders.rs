//! Makes repair symbols.

use std::collections::VecDeque;
use std::io;

use raptorq::SourceBlockEncoder;

use super::blocks::Blocks;
use super::decode::transmission_information;
use crate::object::ObjectSource;

/// Encoders kept at a time; repair symbols of more blocks than this are rarely wanted at once.
const MAX_ENCODERS: usize = 4;

#[derive(Default)]
pub struct Encoders {
    by_block: VecDeque<(u32, SourceBlockEncoder)>,
}

impl Encoders {
    /// Appends repair symbol `number` of `block`, counted from 0, to `payload`.
    pub fn repair_symbol(
        &mut self,
        blocks: &Blocks,
        source: &dyn ObjectSource,
        (block, number): (u32, u32),
        payload: &mut Vec<u8>,
    ) -> io::Result<()> {
        let known = self.by_block.iter().position(|(b, _)| *b == block);
        let at = match known {
            Some(at) => at,
            None => {
                let encoder = new_encoder(blocks, source, block)?;
                self.by_block.truncate(MAX_ENCODERS - 1);
                self.by_block.push_front((block, encoder));
                0
            }
        };
        let symbol = self.by_block[at].1.repair_packets(number, 1).pop();
        let symbol = symbol.ok_or_else(|| io::Error::other("the encoder gave no repair symbol"))?;
        payload.extend_from_slice(symbol.data());
        Ok(())
    }

    /// Nobody wants anything more of the blocks before `block`.
    pub fn forget_before(&mut self, block: u32) {
        self.by_block.retain(|(b, _)| *b >= block);
    }
}

fn new_encoder(
    blocks: &Blocks,
    source: &dyn ObjectSource,
    block: u32,
) -> io::Result<SourceBlockEncoder> {
    let (offset, len) = blocks.block_extent(block);
    let symbols = blocks.source_symbols(block);
    let symbol_bytes = blocks.shape.symbol_bytes;
    let mut bytes = vec![0; usize::from(symbols) * usize::from(symbol_bytes)];
    source.read_at(offset, &mut bytes[..len])?;
    let config = transmission_information(symbols, symbol_bytes);
    Ok(SourceBlockEncoder::new(0, &config, &bytes))
}
