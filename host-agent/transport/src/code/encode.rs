//! Making the encoder of one source block, as a job that can run on any thread.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use super::erasure::{BlockShape, Code};
use crate::job::Work;
use crate::object::ObjectSource;

/// Everything that is needed to make symbols of one source block.
pub struct EncodeJob<C> {
    shape: BlockShape,
    /// Where the block is in the object, in bytes.
    extent: (u64, usize),
    source: Arc<dyn ObjectSource>,
    code: PhantomData<C>,
}

/// Result of an [`EncodeJob`].
#[derive(Debug)]
pub struct EncodeResult<C: Code> {
    pub(super) block: u32,
    /// Or why the block cannot be read.
    pub(super) encoder: io::Result<C::Encoder>,
}

impl<C> fmt::Debug for EncodeJob<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncodeJob(block {})", self.shape.block)
    }
}

impl<C: Code> Work for EncodeJob<C> {
    type Output = EncodeResult<C>;

    /// How much is to be read and coded.
    fn bytes(&self) -> usize {
        self.extent.1
    }

    /// Reads the block and prepares its code.
    fn run(self) -> EncodeResult<C> {
        EncodeResult {
            block: self.shape.block,
            encoder: self.encoder(),
        }
    }
}

impl<C: Code> EncodeJob<C> {
    /// `extent`: offset and length of the block in the object, in bytes.
    pub fn new(shape: BlockShape, extent: (u64, usize), source: Arc<dyn ObjectSource>) -> Self {
        EncodeJob {
            shape,
            extent,
            source,
            code: PhantomData,
        }
    }

    fn encoder(&self) -> io::Result<C::Encoder> {
        let (offset, len) = self.extent;
        let mut bytes = vec![0; self.shape.bytes()];
        self.source.read_at(offset, &mut bytes[..len])?;
        Ok(C::encoder(self.shape, bytes))
    }
}
