//! Decoding along a plan: the inactive source symbols by elimination over GF(2), then the others by
//! XOR in the order of the plan.

use super::graph::Rows;
use super::peeling::Plan;
use crate::code::erasure::BlockShape;

/// Inactive source symbols at most, which bounds the time of elimination. Enough symbols of a real
/// sender leave a tenth of that; chosen ones of a forger could leave all.
const MAX_INACTIVE: usize = 1024;

/// The source symbols one after another. None: the symbols do not determine them.
pub fn solve(rows: &Rows, plan: &Plan, payloads: &[&[u8]], shape: BlockShape) -> Option<Vec<u8>> {
    if plan.inactive.len() > MAX_INACTIVE || plan.rest.len() < plan.inactive.len() {
        return None;
    }
    let mut block = Values::new(shape);
    if !plan.inactive.is_empty() {
        let mut equations = Equations::new(rows, plan, shape);
        let steps = equations.eliminate()?;
        // Without the inactive source symbols, which stay 0 until they are known.
        block.resolve(rows, plan, payloads);
        let right = plan.rest.iter().map(|&row| {
            let mut bytes = payloads[row].to_vec();
            block.add_neighbours(rows.neighbours(row), None, &mut bytes);
            bytes
        });
        let found = steps.apply(right.collect());
        for (&source, bytes) in plan.inactive.iter().zip(found) {
            block.at(source).copy_from_slice(&bytes);
        }
    }
    block.resolve(rows, plan, payloads);
    Some(block.bytes)
}

pub fn xor(into: &mut [u8], other: &[u8]) {
    for (a, b) in into.iter_mut().zip(other) {
        *a ^= b;
    }
}

/// Source symbols, as far as they are known.
struct Values {
    bytes: Vec<u8>,
    symbol_bytes: usize,
}

impl Values {
    fn new(shape: BlockShape) -> Self {
        Values {
            bytes: vec![0; shape.bytes()],
            symbol_bytes: shape.symbol_bytes.into(),
        }
    }

    fn at(&mut self, source: u16) -> &mut [u8] {
        let start = usize::from(source) * self.symbol_bytes;
        &mut self.bytes[start..start + self.symbol_bytes]
    }

    /// XORs neighbours into `sum`, but for one.
    fn add_neighbours(&self, neighbours: &[u16], without: Option<u16>, sum: &mut [u8]) {
        for &source in neighbours.iter().filter(|&&s| Some(s) != without) {
            let start = usize::from(source) * self.symbol_bytes;
            xor(sum, &self.bytes[start..start + self.symbol_bytes]);
        }
    }

    /// Computes the source symbols of the plan in its order.
    fn resolve(&mut self, rows: &Rows, plan: &Plan, payloads: &[&[u8]]) {
        let mut sum = vec![0; self.symbol_bytes];
        for &(row, source) in &plan.resolved {
            sum.copy_from_slice(payloads[row]);
            self.add_neighbours(rows.neighbours(row), Some(source), &mut sum);
            self.at(source).copy_from_slice(&sum);
        }
    }
}

/// The rows that are left, as sums of inactive source symbols: a bit for each.
struct Equations {
    rows: Vec<Vec<u64>>,
    unknowns: usize,
}

impl Equations {
    fn new(rows: &Rows, plan: &Plan, shape: BlockShape) -> Self {
        let words = plan.inactive.len().div_ceil(64);
        let mut sums = vec![vec![0u64; words]; shape.source_symbols.into()];
        for (index, &source) in plan.inactive.iter().enumerate() {
            sums[usize::from(source)][index / 64] |= 1 << (index % 64);
        }
        let sum_of = |sums: &[Vec<u64>], row, without| {
            let mut sum = vec![0; words];
            for &source in rows.neighbours(row).iter().filter(|&&s| Some(s) != without) {
                add(&mut sum, &sums[usize::from(source)]);
            }
            sum
        };
        for &(row, source) in &plan.resolved {
            sums[usize::from(source)] = sum_of(&sums, row, Some(source));
        }
        Equations {
            rows: plan
                .rest
                .iter()
                .map(|&row| sum_of(&sums, row, None))
                .collect(),
            unknowns: plan.inactive.len(),
        }
    }

    /// Gauss-Jordan elimination. None: they do not determine the unknowns.
    fn eliminate(&mut self) -> Option<Steps> {
        let mut steps = Steps {
            additions: Vec::new(),
            pivots: Vec::new(),
        };
        let mut is_pivot = vec![false; self.rows.len()];
        for unknown in 0..self.unknowns {
            let has = |row: &[u64]| row[unknown / 64] >> (unknown % 64) & 1 == 1;
            let mut all = 0..self.rows.len();
            let pivot = all.find(|&row| !is_pivot[row] && has(&self.rows[row]))?;
            is_pivot[pivot] = true;
            let added = std::mem::take(&mut self.rows[pivot]);
            for (row, bits) in self.rows.iter_mut().enumerate() {
                if row != pivot && has(bits) {
                    add(bits, &added);
                    steps.additions.push((row, pivot));
                }
            }
            self.rows[pivot] = added;
            steps.pivots.push(pivot);
        }
        Some(steps)
    }
}

/// Row operations of the elimination.
struct Steps {
    /// The second row was added to the first.
    additions: Vec<(usize, usize)>,
    /// The row that is left with each unknown.
    pivots: Vec<usize>,
}

impl Steps {
    /// The unknowns, given the right-hand sides.
    fn apply(self, mut right: Vec<Vec<u8>>) -> impl Iterator<Item = Vec<u8>> {
        for (to, from) in self.additions {
            let added = std::mem::take(&mut right[from]);
            xor(&mut right[to], &added);
            right[from] = added;
        }
        let pivots = self.pivots.into_iter();
        pivots.map(move |row| std::mem::take(&mut right[row]))
    }
}

fn add(sum: &mut [u64], other: &[u64]) {
    for (a, b) in sum.iter_mut().zip(other) {
        *a ^= b;
    }
}
