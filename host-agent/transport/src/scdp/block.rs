//! One source block at its receiver: which symbols are there, how many are needed, when to decode.

use std::collections::BTreeMap;

use super::decode::Outcome;
use super::{DecodeJob, DecodeResult};
use crate::FlowId;

pub struct Block {
    /// K.
    source_symbols: u16,
    symbol_bytes: u16,
    /// Added to K as soon as anything was lost.
    overhead: u16,
    /// By ESI. Source symbols may be short, the others are not.
    symbols: BTreeMap<u32, Vec<u8>>,
    source_present: u16,
    /// A repair symbol is among them, so something of the block goes to others, or comes never.
    has_repair: bool,
    /// Transmissions that arrived, whole or trimmed.
    arrived: u32,
    /// Transmissions that arrived trimmed or not at all.
    lost: u32,
    /// Symbols asked for because a decoding failed.
    extra: u32,
    state: State,
    /// What the last pull for this block said.
    pub announced: u32,
}

enum State {
    Receiving,
    Decoding,
    Complete(Vec<u8>),
}

/// What a symbol did to its block.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    Stored,
    /// Already there, or the block needs no more.
    Useless,
}

impl Block {
    pub fn new(source_symbols: u16, symbol_bytes: u16, overhead: u16) -> Self {
        Block {
            source_symbols,
            symbol_bytes,
            overhead,
            symbols: BTreeMap::new(),
            source_present: 0,
            has_repair: false,
            arrived: 0,
            lost: 0,
            extra: 0,
            state: State::Receiving,
            announced: u32::from(source_symbols),
        }
    }

    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Complete(_))
    }

    pub fn is_receiving(&self) -> bool {
        matches!(self.state, State::Receiving)
    }

    pub fn has(&self, esi: u32) -> bool {
        self.symbols.contains_key(&esi)
    }

    /// The block, once it is complete.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        match self.state {
            State::Complete(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Symbols that must be there: K without loss, else K + 2 and one more per failed decoding.
    fn target(&self) -> u32 {
        let overhead = if self.lost > 0 || self.has_repair {
            u32::from(self.overhead)
        } else {
            0
        };
        u32::from(self.source_symbols) + overhead + self.extra
    }

    /// Transmissions of this block that are needed in all.
    pub fn needed(&self) -> u32 {
        self.target() + self.lost
    }

    /// Transmissions that are needed and have not arrived.
    pub fn missing(&self) -> u32 {
        self.needed().saturating_sub(self.arrived)
    }

    pub fn receive(&mut self, esi: u32, payload: &[u8]) -> Effect {
        if !self.is_receiving() || self.has(esi) {
            return Effect::Useless;
        }
        self.arrived += 1;
        let is_source = esi < u32::from(self.source_symbols);
        self.source_present += u16::from(is_source);
        self.has_repair |= !is_source;
        self.symbols.insert(esi, payload.to_vec());
        if self.source_present == self.source_symbols {
            let symbols = std::mem::take(&mut self.symbols).into_iter();
            let source = symbols.filter(|(esi, _)| *esi < u32::from(self.source_symbols));
            self.state = State::Complete(source.flat_map(|(_, bytes)| bytes).collect());
        }
        Effect::Stored
    }

    /// A symbol of this block arrived trimmed.
    pub fn receive_trimmed(&mut self) {
        self.arrived += 1;
        self.lost += 1;
    }

    /// `transmissions` of this block did not arrive and will not.
    pub fn give_up(&mut self, transmissions: u32) {
        self.arrived += transmissions;
        self.lost += transmissions;
    }

    /// The decoding to be done, once enough is there.
    pub fn decode(&mut self, flow: FlowId, block: u32) -> Option<DecodeJob> {
        if !self.is_receiving() || (self.symbols.len() as u32) < self.target() {
            return None;
        }
        self.state = State::Decoding;
        let mut symbols = std::mem::take(&mut self.symbols);
        for symbol in symbols.values_mut() {
            symbol.resize(self.symbol_bytes.into(), 0);
        }
        Some(DecodeJob {
            flow,
            block,
            symbol_bytes: self.symbol_bytes,
            source_symbols: self.source_symbols,
            symbols,
        })
    }

    /// The result of the decoding. `block_bytes`: without padding.
    pub fn decoded(&mut self, result: DecodeResult, block_bytes: usize) {
        if !matches!(self.state, State::Decoding) {
            return;
        }
        match result.outcome {
            Outcome::Decoded(mut bytes) => {
                bytes.truncate(block_bytes);
                self.state = State::Complete(bytes);
            }
            Outcome::NotEnough(symbols) => {
                self.symbols = symbols;
                self.extra += 1;
                self.state = State::Receiving;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn source_symbols_alone_need_no_decoding() {
        let mut block = Block::new(3, 4, 2);
        for esi in [2, 0, 1] {
            assert!(block.decode(FlowId(1), 0).is_none());
            assert_eq!(block.receive(esi, &[esi as u8; 4]), Effect::Stored);
        }
        assert!(block.decode(FlowId(1), 0).is_none());
        assert_eq!(block.needed(), 3);
        assert_eq!(
            block.into_bytes().unwrap(),
            [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
        );
    }

    #[test]
    fn after_a_trim_two_more_symbols_are_needed_and_then_decoded() {
        let mut block = Block::new(3, 4, 2);
        block.receive_trimmed();
        assert_eq!((block.needed(), block.missing()), (3 + 2 + 1, 5));
        for esi in [1, 2, 3, 4] {
            block.receive(esi, &[1; 4]);
            assert!(block.decode(FlowId(1), 0).is_none());
        }
        block.receive(5, &[1; 4]);
        assert_eq!(block.missing(), 0);
        assert!(block.decode(FlowId(1), 0).is_some());
        assert!(
            block.decode(FlowId(1), 0).is_none(),
            "decoded twice at once"
        );
    }

    #[test]
    fn a_failed_decoding_asks_for_one_more() {
        let mut block = Block::new(3, 4, 0);
        block.receive_trimmed();
        for esi in [1, 2, 3] {
            block.receive(esi, &[1; 4]);
        }
        let job = block.decode(FlowId(1), 0).unwrap();
        let before = block.needed();
        let outcome = Outcome::NotEnough(job.symbols);
        let cpu_time = ebb_units::Duration::ZERO;
        block.decoded(
            DecodeResult {
                flow: FlowId(1),
                block: 0,
                outcome,
                cpu_time,
            },
            12,
        );
        assert_eq!(block.needed(), before + 1);
        assert!(block.decode(FlowId(1), 0).is_none());
        block.receive(4, &[1; 4]);
        assert_eq!(block.decode(FlowId(1), 0).unwrap().symbols.len(), 4);
    }

    #[test]
    fn a_duplicate_is_useless() {
        let mut block = Block::new(3, 4, 2);
        block.receive(1, &[1; 4]);
        assert_eq!(block.receive(1, &[1; 4]), Effect::Useless);
        assert_eq!(block.missing(), 2);
        let _: BTreeMap<u32, Vec<u8>> = block.symbols;
    }
}
