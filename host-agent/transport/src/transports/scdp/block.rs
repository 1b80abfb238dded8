//! One source block at its receiver: which symbols are there, which are to come, how many more have
//! to be asked for, when to decode.

use crate::StreamBytes;
use crate::code::{Bits, BlockShape, DecodeJob, DecodeResult, Outcome, RaptorQ, Symbols};
use crate::receiver_driven::Buffers;

/// Decodings of a block that may fail in a row; good symbols fail so often once in 10^18 times.
const MAX_FAILED_DECODINGS: u32 = 8;

#[derive(Debug, Default)]
pub struct Block {
    symbols: Symbols,
    /// Symbols that are asked for beyond K once a source symbol will not come.
    overhead: u32,
    /// Symbols asked for because a decoding failed.
    extra: u32,
    /// Whether a source symbol will not come from its sender, so that the block has to be decoded.
    lossy: bool,
    /// Source symbols that are counted on: under way, or asked for when their turn comes.
    due: Bits,
    sources_due: u32,
    /// Repair symbols under way.
    repairs_due: u32,
    /// Repair symbols that arrived trimmed.
    trimmed_repairs: Vec<u32>,
    /// The accounts of each sender, by its number.
    parts: Vec<Part>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default)]
struct Part {
    repairs_due: u32,
    /// Repair symbols asked for in all, for the cumulative count that pulls carry.
    repairs_asked: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Receiving,
    Decoding,
    Complete,
}

/// Effect of a symbol on its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Stored,
    /// It is a copy of one that is there.
    Duplicate,
    /// The block needs no more.
    TooLate,
}

impl Block {
    /// Makes an empty block of what may have been another one.
    pub fn reset(&mut self, shape: BlockShape, overhead: u16, senders: usize) {
        let source_symbols = shape.source_symbols;
        self.symbols.reset::<RaptorQ>(shape);
        self.overhead = overhead.into();
        self.extra = 0;
        self.lossy = false;
        self.due.reset(source_symbols.into());
        for esi in 0..usize::from(source_symbols) {
            self.due.insert(esi);
        }
        self.sources_due = source_symbols.into();
        self.repairs_due = 0;
        self.trimmed_repairs.clear();
        self.parts.clear();
        self.parts.resize(senders, Part::default());
        self.state = State::Receiving;
    }

    pub fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    pub fn is_receiving(&self) -> bool {
        self.state == State::Receiving
    }

    /// K: the number of source symbols of the block.
    pub fn source_symbols(&self) -> u16 {
        self.symbols.source_symbols()
    }

    /// Symbols that must be there: K, or K + 2 and one more per failed decoding.
    fn target(&self) -> u32 {
        let k = u32::from(self.symbols.source_symbols());
        if self.lossy {
            k + self.overhead + self.extra
        } else {
            k
        }
    }

    /// Symbols that have to be asked for beyond those that are there or to come.
    pub fn deficit(&self) -> u32 {
        if !self.is_receiving() {
            return 0;
        }
        let counted_on = self.symbols.count() + self.sources_due + self.repairs_due;
        self.target().saturating_sub(counted_on)
    }

    /// Counts on source symbol `esi` from now on.
    pub fn is_due(&self, esi: u32) -> bool {
        self.due.contains(esi as usize)
    }

    fn arrived(&mut self, from: usize, esi: u32) {
        if esi < self.symbols.source_symbols().into() {
            self.sources_due -= u32::from(self.due.remove(esi as usize));
        } else if let Some(part) = self.parts.get_mut(from)
            && part.repairs_due > 0
        {
            part.repairs_due -= 1;
            self.repairs_due -= 1;
        }
    }

    pub fn receive(
        &mut self,
        from: usize,
        esi: u32,
        payload: &[u8],
        buffers: &mut Buffers,
    ) -> Effect {
        if !self.is_receiving() {
            return Effect::TooLate;
        }
        if self.symbols.has(esi) {
            return Effect::Duplicate;
        }
        self.arrived(from, esi);
        self.symbols.store(esi, payload, buffers);
        if self.symbols.has_all_sources() {
            self.state = State::Complete;
        }
        Effect::Stored
    }

    /// Notes that a symbol arrived trimmed.
    pub fn receive_trimmed(&mut self, from: usize, esi: u32) -> Effect {
        if !self.is_receiving() {
            return Effect::TooLate;
        }
        let is_source = esi < self.symbols.source_symbols().into();
        let known = if is_source {
            !self.is_due(esi)
        } else {
            self.trimmed_repairs.contains(&esi)
        };
        if known || self.symbols.has(esi) {
            return Effect::Duplicate;
        }
        self.arrived(from, esi);
        if !is_source {
            self.trimmed_repairs.push(esi);
        }
        self.lossy |= is_source;
        Effect::Stored
    }

    /// Counts on source symbol `esi` no longer. It is still welcome. False: it was not counted on.
    pub fn abandon_source(&mut self, esi: u32) -> bool {
        let was_due = self.is_receiving() && self.due.remove(esi as usize);
        if was_due {
            self.sources_due -= 1;
            self.lossy = true;
        }
        was_due
    }

    /// Counts no longer on the repair symbols that a sender was asked for; returns how many.
    pub fn abandon_repairs(&mut self, from: usize) -> u32 {
        let part = self.parts.get_mut(from);
        let abandoned = part.map_or(0, |part| std::mem::take(&mut part.repairs_due));
        self.repairs_due -= abandoned;
        abandoned
    }

    /// Notes that a sender is asked for this many more repair symbols.
    pub fn ask_repairs(&mut self, from: usize, repairs: u32) {
        if let Some(part) = self.parts.get_mut(from) {
            part.repairs_due += repairs;
            part.repairs_asked += repairs;
            self.repairs_due += repairs;
        }
    }

    /// Repair symbols that a sender was asked for in all.
    pub fn repairs_asked(&self, from: usize) -> u32 {
        self.parts.get(from).map_or(0, |part| part.repairs_asked)
    }

    /// A sender begins to count its repair symbols anew, and has sent at least this many.
    pub fn restart_repairs(&mut self, from: usize, sent: u32) {
        if let Some(part) = self.parts.get_mut(from) {
            part.repairs_asked = sent;
        }
    }

    /// Notes that a sender is known to have sent its repair symbols `..sent`.
    pub fn repairs_sent(&mut self, from: usize, sent: u32) {
        if let Some(part) = self.parts.get_mut(from) {
            part.repairs_asked = part.repairs_asked.max(sent);
        }
    }

    /// The job that decodes the block. None: not enough has arrived, or no decoding is needed.
    pub fn decode(&mut self) -> Option<DecodeJob<RaptorQ>> {
        if !self.is_receiving() || !self.lossy || self.symbols.count() < self.target() {
            return None;
        }
        self.state = State::Decoding;
        Some(DecodeJob::new(std::mem::take(&mut self.symbols)))
    }

    /// Takes the result of the decoding.
    pub fn decoded(&mut self, result: DecodeResult) {
        if self.state != State::Decoding {
            return;
        }
        self.symbols = result.symbols;
        self.state = match result.outcome {
            Outcome::Decoded => State::Complete,
            Outcome::NotEnough => {
                self.extra += 1;
                State::Receiving
            }
        };
    }

    /// So many decodings in a row have failed: not by chance, as every symbol more makes that 256
    /// times less likely (RFC 6330). Somebody sends symbols that are not of this block.
    pub fn is_hopeless(&self) -> bool {
        self.extra > MAX_FAILED_DECODINGS
    }

    /// Whether it has had more symbols than it takes to decode it.
    pub fn is_saturated(&self) -> bool {
        let enough = u32::from(self.symbols.source_symbols()) + self.overhead + self.extra;
        self.is_receiving() && self.symbols.count() > enough
    }

    /// The bytes of a complete block, `len` without padding, in pieces.
    pub fn take_bytes(
        &mut self,
        len: usize,
        buffers: &mut Buffers,
    ) -> impl Iterator<Item = StreamBytes> + use<> {
        self.symbols.take_bytes(len, buffers)
    }

    #[cfg(test)]
    pub fn buffered_bytes(&self) -> usize {
        self.symbols.buffered_bytes()
    }

    /// The buffer of a block that nobody waits for any more.
    pub fn release(&mut self, buffers: &mut Buffers) {
        let buffer = self.symbols.take_buffer(buffers);
        buffers.give(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(source_symbols: u16, overhead: u16) -> (Block, Buffers) {
        let mut block = Block::default();
        let shape = BlockShape {
            block: 0,
            source_symbols,
            symbol_bytes: 4,
        };
        block.reset(shape, overhead, 1);
        (block, Buffers::default())
    }

    #[test]
    fn source_symbols_alone_need_no_decoding() {
        let (mut block, mut buffers) = block(3, 2);
        for esi in [2, 0, 1] {
            assert!(block.decode().is_none());
            let effect = block.receive(0, esi, &[esi as u8; 4], &mut buffers);
            assert_eq!((effect, block.deficit()), (Effect::Stored, 0));
        }
        assert!(block.decode().is_none());
        assert!(block.is_complete());
        assert_eq!(
            block
                .take_bytes(11, &mut buffers)
                .collect::<Vec<_>>()
                .concat(),
            [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
        );
    }

    #[test]
    fn after_a_trim_two_more_symbols_are_needed_and_then_decoded() {
        let (mut block, mut buffers) = block(3, 2);
        block.receive_trimmed(0, 0);
        assert_eq!(block.deficit(), 3);
        block.ask_repairs(0, 3);
        assert_eq!(block.deficit(), 0);
        for esi in [1, 2, 3, 4] {
            block.receive(0, esi, &[1; 4], &mut buffers);
            assert!(block.decode().is_none());
        }
        block.receive(0, 5, &[1; 4], &mut buffers);
        assert!(block.decode().is_some());
        assert!(block.decode().is_none(), "decoded twice at once");
    }

    #[test]
    fn every_trim_is_made_up_for_once() {
        let (mut block, _) = block(10, 2);
        for esi in [3, 7, 3, 7] {
            block.receive_trimmed(0, esi);
        }
        assert_eq!(block.deficit(), 2 + 2);
        block.ask_repairs(0, 4);
        for esi in [10, 10, 11] {
            block.receive_trimmed(0, esi);
        }
        assert_eq!(block.deficit(), 2);
    }

    #[test]
    fn a_failed_decoding_asks_for_one_more() {
        let (mut block, mut buffers) = block(3, 0);
        block.receive_trimmed(0, 0);
        block.ask_repairs(0, 1);
        for esi in [1, 2, 3] {
            block.receive(0, esi, &[1; 4], &mut buffers);
        }
        let job = block.decode().unwrap();
        assert_eq!(block.deficit(), 0);
        block.decoded(job.finished(Outcome::NotEnough));
        assert_eq!(block.deficit(), 1);
        assert!(block.decode().is_none());
        block.receive(0, 4, &[1; 4], &mut buffers);
        assert_eq!(block.decode().unwrap().symbols.count(), 4);
    }

    #[test]
    fn a_repair_symbol_alone_does_not_make_a_block_lossy() {
        let (mut block, mut buffers) = block(3, 2);
        block.receive(0, 5, &[1; 4], &mut buffers);
        assert_eq!(block.deficit(), 0);
        block.abandon_source(1);
        // Two of the three, and the one that is there: K, so two more are asked for.
        assert_eq!(block.deficit(), 5 - 2 - 1);
    }

    #[test]
    fn a_duplicate_is_useless() {
        let (mut block, mut buffers) = block(3, 2);
        block.receive(0, 1, &[1; 4], &mut buffers);
        let again = block.receive(0, 1, &[1; 4], &mut buffers);
        assert_eq!(again, Effect::Duplicate);
        assert_eq!(block.receive_trimmed(0, 1), Effect::Duplicate);
        assert_eq!(block.deficit(), 0);
    }
}
