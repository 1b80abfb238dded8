//! Makes the symbols that are coded, with encoders that are made elsewhere.

use std::io;

use super::encode::EncodeResult;
use super::erasure::Code;

/// Encoders kept and being made at a time; coded symbols of more blocks are rarely wanted at once.
pub const MAX_ENCODERS: usize = 4;

pub struct Encoders<C: Code> {
    ready: Vec<(u32, C::Encoder)>,
    /// How many jobs are under way.
    building: Vec<u32>,
    /// Nobody wants anything more of the blocks before this one.
    first_wanted: u32,
}

impl<C: Code> Default for Encoders<C> {
    fn default() -> Self {
        Encoders {
            ready: Vec::new(),
            building: Vec::new(),
            first_wanted: 0,
        }
    }
}

impl<C: Code> Encoders<C> {
    pub fn has(&self, block: u32) -> bool {
        self.ready.iter().any(|(b, _)| *b == block)
    }

    /// The first of `needed`, most urgent first, whose encoder is to be made and for which there is
    /// room. The caller starts the job. `needed` has at most [`MAX_ENCODERS`] blocks: what keeps one
    /// of them waiting is the encoder of none, so it goes, or the result of a job, which will come.
    pub fn start(&mut self, needed: &[u32]) -> Option<u32> {
        let is_new = |block: &&u32| !self.has(**block) && !self.building.contains(block);
        let block = *needed.iter().find(is_new)?;
        if self.ready.len() + self.building.len() >= MAX_ENCODERS {
            let idle = self.ready.iter().position(|(b, _)| !needed.contains(b))?;
            self.ready.swap_remove(idle);
        }
        self.building.push(block);
        Some(block)
    }

    /// Takes the result of a job. An error is that of the source.
    pub fn built(&mut self, result: EncodeResult<C>) -> io::Result<()> {
        self.building.retain(|block| *block != result.block);
        if result.block >= self.first_wanted {
            self.ready.push((result.block, result.encoder?));
        }
        Ok(())
    }

    /// Appends a symbol of `block` that is coded to `payload`. The encoder of the block
    /// [is there](Self::has).
    pub fn append(&self, block: u32, symbol: u32, payload: &mut Vec<u8>) -> io::Result<()> {
        let encoder = self.ready.iter().find(|(b, _)| *b == block);
        match encoder.is_some_and(|(_, encoder)| C::append(encoder, symbol, payload)) {
            true => Ok(()),
            false => Err(io::Error::other("the encoder gave no repair symbol")),
        }
    }

    /// Forgets the blocks before `block`, of which nobody wants anything more.
    pub fn forget_before(&mut self, block: u32) {
        self.first_wanted = block;
        self.ready.retain(|(b, _)| *b >= block);
    }
}
