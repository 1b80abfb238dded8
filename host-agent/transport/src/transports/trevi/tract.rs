//! One block at its receiver.

use super::blocks::with_overhead;
use crate::StreamBytes;
use crate::code::{BlockShape, DecodeJob, DecodeResult, Lt, Outcome, Symbols};
use crate::receiver_driven::Buffers;

#[derive(Debug)]
pub struct Tract {
    symbols: Symbols,
    /// Symbols that are waited for before the block is decoded.
    target: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Receiving,
    Decoding,
    Complete,
}

impl Tract {
    /// `overhead`: symbols beyond K to wait for, as a share of K.
    pub fn new(shape: BlockShape, overhead: f64) -> Self {
        let mut symbols = Symbols::default();
        symbols.reset::<Lt>(shape);
        Tract {
            symbols,
            target: with_overhead(shape, overhead),
            state: State::Receiving,
        }
    }

    pub fn is_receiving(&self) -> bool {
        self.state == State::Receiving
    }

    pub fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    /// Symbols that have to come yet before it is worth a decoding.
    pub fn missing(&self) -> u32 {
        match self.state {
            State::Receiving => self.target.saturating_sub(self.symbols.count()),
            State::Decoding | State::Complete => 0,
        }
    }

    /// Takes a symbol. False: it is of no use.
    pub fn receive(&mut self, number: u32, payload: &[u8], buffers: &mut Buffers) -> bool {
        if !self.is_receiving() || self.symbols.has(number) {
            return false;
        }
        self.symbols.store(number, payload, buffers);
        true
    }

    /// The job that decodes the block. None: not enough has arrived.
    pub fn decode(&mut self) -> Option<DecodeJob<Lt>> {
        if !self.is_receiving() || self.symbols.count() < self.target {
            return None;
        }
        self.state = State::Decoding;
        Some(DecodeJob::new(std::mem::take(&mut self.symbols)))
    }

    /// Takes the result of the decoding. After one that failed a fiftieth more is waited for.
    pub fn decoded(&mut self, result: DecodeResult) {
        self.symbols = result.symbols;
        self.state = match result.outcome {
            Outcome::Decoded => State::Complete,
            Outcome::NotEnough => {
                let k = u32::from(self.symbols.source_symbols());
                self.target = self.symbols.count() + (k / 50).max(1);
                State::Receiving
            }
        };
    }

    /// So many symbols of the block and still no decoding: somebody chooses them. Of as many honest ones
    /// every source symbol is a neighbour but with a probability of 2 in 10^10, at any K.
    pub fn is_hopeless(&self) -> bool {
        let k = u32::from(self.symbols.source_symbols());
        self.is_receiving() && self.symbols.count() > 3 * k + 100
    }

    /// The bytes of a complete block, `len` without padding, in pieces.
    pub fn take_bytes(
        &mut self,
        len: usize,
        buffers: &mut Buffers,
    ) -> impl Iterator<Item = StreamBytes> + use<> {
        self.symbols.take_bytes(len, buffers)
    }

    /// The buffer of a block that nobody waits for any more.
    pub fn release(&mut self, buffers: &mut Buffers) {
        let buffer = self.symbols.take_buffer(buffers);
        buffers.give(buffer);
    }
}
