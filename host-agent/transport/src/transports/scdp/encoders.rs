//! Makes repair symbols, with encoders that are made elsewhere.

use std::io;

use raptorq::SourceBlockEncoder;

use super::encode::EncodeResult;

/// Encoders kept and being made at a time; repair symbols of more blocks are rarely wanted at once.
pub const MAX_ENCODERS: usize = 4;

#[derive(Default)]
pub struct Encoders {
    ready: Vec<(u32, SourceBlockEncoder)>,
    /// How many jobs are under way.
    building: Vec<u32>,
    /// Nobody wants anything more of the blocks before this one.
    first_wanted: u32,
}

impl Encoders {
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
    pub fn built(&mut self, result: EncodeResult) -> io::Result<()> {
        self.building.retain(|block| *block != result.block);
        if result.block >= self.first_wanted {
            self.ready.push((result.block, result.encoder?));
        }
        Ok(())
    }

    /// Appends repair symbol `number` of `block`, counted from 0, to `payload`. Its encoder
    /// [is there](Self::has).
    pub fn repair_symbol(
        &self,
        (block, number): (u32, u32),
        payload: &mut Vec<u8>,
    ) -> io::Result<()> {
        let encoder = self.ready.iter().find(|(b, _)| *b == block);
        let symbol = encoder.and_then(|(_, encoder)| encoder.repair_packets(number, 1).pop());
        let symbol = symbol.ok_or_else(|| io::Error::other("the encoder gave no repair symbol"))?;
        payload.extend_from_slice(symbol.data());
        Ok(())
    }

    /// Forgets the blocks before `block`, of which nobody wants anything more.
    pub fn forget_before(&mut self, block: u32) {
        self.first_wanted = block;
        self.ready.retain(|(b, _)| *b >= block);
    }
}
