//! Making the encoder of one source block, as a job that can run on any thread.

use std::fmt;
use std::io;
use std::sync::Arc;

use ebb_units::Duration;
use raptorq::SourceBlockEncoder;

use super::blocks::Blocks;
use super::decode::transmission_information;
use crate::FlowId;
use crate::object::ObjectSource;

/// Everything that is needed to make repair symbols of one source block.
pub struct EncodeJob {
    pub(super) flow: FlowId,
    pub(super) block: u32,
    pub(super) blocks: Blocks,
    pub(super) source: Arc<dyn ObjectSource>,
}

/// What came out of an [`EncodeJob`].
#[derive(Debug)]
pub struct EncodeResult {
    pub(crate) flow: FlowId,
    pub(super) block: u32,
    /// Or why the block cannot be read.
    pub(super) encoder: io::Result<SourceBlockEncoder>,
    /// Processor time, measured by whoever ran the job; it goes into the flow's record.
    pub cpu_time: Duration,
}

impl fmt::Debug for EncodeJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncodeJob({}, block {})", self.flow, self.block)
    }
}

impl EncodeJob {
    pub(crate) fn flow(&self) -> FlowId {
        self.flow
    }

    /// How much is to be read and coded.
    pub fn bytes(&self) -> usize {
        self.blocks.block_extent(self.block).1
    }

    /// Reads the block and prepares its code.
    pub fn run(self) -> EncodeResult {
        EncodeResult {
            flow: self.flow,
            block: self.block,
            encoder: self.encoder(),
            cpu_time: Duration::ZERO,
        }
    }

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
