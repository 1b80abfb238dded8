//! Making the encoder of one source block, as a job that can run on any thread.

use std::fmt;
use std::io;
use std::sync::Arc;

use raptorq::SourceBlockEncoder;

use super::blocks::Blocks;
use super::decode::transmission_information;
use crate::job::Work;
use crate::object::ObjectSource;

/// Everything that is needed to make repair symbols of one source block.
pub struct EncodeJob {
    pub(super) block: u32,
    pub(super) blocks: Blocks,
    pub(super) source: Arc<dyn ObjectSource>,
}

/// What came out of an [`EncodeJob`].
#[derive(Debug)]
pub struct EncodeResult {
    pub(super) block: u32,
    /// Or why the block cannot be read.
    pub(super) encoder: io::Result<SourceBlockEncoder>,
}

impl fmt::Debug for EncodeJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncodeJob(block {})", self.block)
    }
}

impl Work for EncodeJob {
    type Output = EncodeResult;

    /// How much is to be read and coded.
    fn bytes(&self) -> usize {
        self.blocks.block_extent(self.block).1
    }

    /// Reads the block and prepares its code.
    fn run(self) -> EncodeResult {
        EncodeResult {
            block: self.block,
            encoder: self.encoder(),
        }
    }
}

impl EncodeJob {
    fn encoder(&self) -> io::Result<SourceBlockEncoder> {
        let (offset, len) = self.blocks.block_extent(self.block);
        let symbols = self.blocks.source_symbols(self.block);
        let symbol_bytes = self.blocks.shape.symbol_bytes;
        let mut bytes = vec![0; usize::from(symbols) * usize::from(symbol_bytes)];
        self.source.read_at(offset, &mut bytes[..len])?;
        let config = transmission_information(symbols, symbol_bytes);
        Ok(SourceBlockEncoder::new(0, &config, &bytes))
    }
}
