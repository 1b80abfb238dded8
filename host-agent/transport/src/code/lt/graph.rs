//! The graph of an LT code: each symbol is the XOR of its neighbours, which are source symbols (`docs/wire-format.md`,
//! "LT symbols").

use std::cell::RefCell;
use std::ops::Range;

use super::soliton::{C, DELTA, Degrees};
use crate::code::bits::Bits;
use crate::code::erasure::BlockShape;
use crate::splitmix::splitmix64;

#[derive(Debug)]
pub struct Graph {
    block: u32,
    source_symbols: u16,
    degrees: Degrees,
    /// Neighbours drawn so far for the present symbol; memory that all symbols use in turn.
    drawn: RefCell<Bits>,
}

impl Graph {
    pub fn new(shape: BlockShape) -> Self {
        Graph {
            block: shape.block,
            source_symbols: shape.source_symbols,
            degrees: Degrees::new(shape.source_symbols, C, DELTA),
            drawn: RefCell::default(),
        }
    }

    /// Calls `visit` with each neighbour of a symbol, once.
    pub fn neighbours(&self, symbol: u32, mut visit: impl FnMut(u16)) {
        let seed = u64::from(self.block) << 32 | u64::from(symbol);
        let random = |index: u64| (splitmix64(seed, index) >> 32) as u32;
        let degree = self.degrees.select(random(0)) as u16;
        let mut drawn = self.drawn.borrow_mut();
        drawn.reset(self.source_symbols.into());
        // Floyd's algorithm for sampling without replacement (Bentley and Floyd, CACM 30(9), 1987).
        for (index, last) in (1..).zip(self.source_symbols - degree..self.source_symbols) {
            let any = ((u64::from(random(index)) * (u64::from(last) + 1)) >> 32) as u16;
            let next = if drawn.insert(any.into()) { any } else { last };
            drawn.insert(next.into());
            visit(next);
        }
    }

    /// The neighbours of many symbols.
    pub fn rows(&self, symbols: &[u32]) -> Rows {
        let mut rows = Rows {
            starts: vec![0],
            neighbours: Vec::new(),
        };
        for &symbol in symbols {
            self.neighbours(symbol, |source| rows.neighbours.push(source));
            rows.starts.push(rows.neighbours.len());
        }
        rows
    }
}

/// Neighbours of several symbols, a row for each: rows of the code's matrix, in sparse form.
#[derive(Debug)]
pub struct Rows {
    starts: Vec<usize>,
    neighbours: Vec<u16>,
}

impl Rows {
    pub fn count(&self) -> usize {
        self.starts.len() - 1
    }

    fn range(&self, row: usize) -> Range<usize> {
        self.starts[row]..self.starts[row + 1]
    }

    pub fn neighbours(&self, row: usize) -> &[u16] {
        &self.neighbours[self.range(row)]
    }
}
