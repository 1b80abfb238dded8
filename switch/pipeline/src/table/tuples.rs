//! Tables with priorities: tuple space search.
//!
//! Entries with the same mask form a *tuple*, in which one hash lookup of the masked key finds them
//! (Srinivasan, Suri, Varghese, SIGCOMM 1999). Tuples are tried in the order of their best
//! priorities, until none can have a better entry than the one found (Pfaff et al., NSDI 2015,
//! section 5.3). A range takes part with the bits that both of its ends have in common, and is
//! compared once the rest matches. So disjoint ranges of a field make at most one tuple for every
//! width.
//!
//! ```text
//!  order  (best priority, tuple) ..         highest first
//!  tuple  mask, map: masked key ──► row     the best entry with this key
//!  row    priority, ranges, next ──► row    others with the same masked key, in order
//! ```
//!
//! With more than a few tuples, [`Pruning`] first says which of them are worth searching. An
//! insertion or removal touches one tuple, and the order only if the best priority of the tuple
//! changes.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

use super::hasher::WordHasher;
use super::key::{CompiledKey, Range};
use super::map::Map;
use super::prune::{Candidates, Pruning};
use crate::bits::ones;

/// Marks the end of a list of rows.
const NO_ROW: u32 = u32::MAX;

/// Up to this many tuples are searched without pruning.
const FEW_TUPLES: usize = 2;

/// The entries of a table with priorities.
#[derive(Clone, Debug)]
pub(crate) struct Tuples {
    /// Widths of the key's fields in bits.
    widths: Box<[u32]>,
    /// The bits that words of the key can have.
    ones: Box<[u64]>,
    /// The tuples, by number.
    tuples: Vec<Tuple>,
    /// Numbers of tuples that are free.
    free: Vec<u32>,
    /// Numbers of tuples by mask.
    by_mask: HashMap<Box<[u64]>, u32, BuildHasherDefault<WordHasher>>,
    /// Best priority and number of every tuple that has entries, best first.
    order: Vec<(i32, u32)>,
    /// Rows, by the numbers of their entries.
    rows: Vec<Row>,
    /// The sequence number of the next row.
    next_sequence: u64,
    /// Which tuples to search.
    pruning: Pruning,
    /// How many values `pruning` looks up for a key, at most.
    searches: usize,
}

/// Entries with the same mask.
#[derive(Clone, Debug)]
struct Tuple {
    /// The mask.
    mask: Box<[u64]>,
    /// From the masked key to the first row.
    map: Map,
    /// How many entries have each priority.
    priorities: BTreeMap<i32, u32>,
}

/// Facts that the search must know of an entry.
#[derive(Clone, Debug)]
struct Row {
    /// Its priority.
    priority: i32,
    /// The next row with the same masked key, or [`NO_ROW`].
    next: u32,
    /// Its number in the order of insertion.
    sequence: u64,
    /// Its ranges, which are compared last.
    ranges: Box<[Range]>,
}

impl Row {
    /// Whether it comes before a row with this priority and sequence number.
    fn is_before(&self, priority: i32, sequence: u64) -> bool {
        (self.priority, sequence) > (priority, self.sequence)
    }

    /// Whether the key lies in all ranges.
    #[inline]
    fn matches(&self, key: &[u64]) -> bool {
        self.ranges.iter().all(|r| r.contains(key))
    }
}

impl Range {
    /// Whether the key lies in the range.
    #[inline]
    pub fn contains(&self, key: &[u64]) -> bool {
        let field = &key[self.first..self.first + self.low.len()];
        field.cmp(&self.low) != Ordering::Less && field.cmp(&self.high) != Ordering::Greater
    }
}

impl Tuples {
    /// A table without entries.
    pub fn new(widths: Box<[u32]>) -> Tuples {
        let ones = widths.iter().flat_map(|bits| ones(*bits)).collect();
        Tuples {
            widths,
            ones,
            tuples: Vec::new(),
            free: Vec::new(),
            by_mask: HashMap::default(),
            order: Vec::new(),
            rows: Vec::new(),
            next_sequence: 0,
            pruning: Pruning::default(),
            searches: 0,
        }
    }

    /// How many hash lookups a key that misses costs at most, unless tuples share bits.
    pub fn searches(&self) -> usize {
        match self.order.len() {
            few @ ..=FEW_TUPLES => few,
            _ => self.searches,
        }
    }

    /// Adds an entry.
    pub fn insert(&mut self, key: &CompiledKey, priority: i32, entry: u32) {
        let (value, mask) = place(key);
        let number = self.tuple(&mask);
        self.pruning.insert(&value, &mask, &self.ones, number);
        self.searches = self.pruning.searches();
        let tuple = &mut self.tuples[number as usize];
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        // Its place is behind the rows that precede it.
        let first = tuple.map.get(&value);
        let (mut before, mut next) = (NO_ROW, first.unwrap_or(NO_ROW));
        while next != NO_ROW && self.rows[next as usize].is_before(priority, sequence) {
            (before, next) = (next, self.rows[next as usize].next);
        }
        let row = Row {
            priority,
            next,
            sequence,
            ranges: key.ranges.clone(),
        };
        let index = entry as usize;
        match self.rows.get_mut(index) {
            Some(place) => *place = row,
            None => {
                let nobody = Row {
                    priority: 0,
                    next: NO_ROW,
                    sequence: 0,
                    ranges: Box::new([]),
                };
                self.rows.resize(index, nobody);
                self.rows.push(row);
            }
        }
        match before {
            NO_ROW => tuple.map.insert(&value, entry),
            before => self.rows[before as usize].next = entry,
        }
        let best = tuple.best();
        *tuple.priorities.entry(priority).or_default() += 1;
        self.reorder(number, best);
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: &CompiledKey, priority: i32, entry: u32) {
        let (value, mask) = place(key);
        let Some(&number) = self.by_mask.get(&mask) else {
            return;
        };
        let tuple = &mut self.tuples[number as usize];
        let Some(first) = tuple.map.get(&value) else {
            return;
        };
        let next = self.rows[entry as usize].next;
        if first != entry {
            let mut before = first;
            while self.rows[before as usize].next != entry {
                before = self.rows[before as usize].next;
                if before == NO_ROW {
                    return;
                }
            }
            self.rows[before as usize].next = next;
        } else if next != NO_ROW {
            tuple.map.insert(&value, next);
        } else {
            tuple.map.remove(&value);
        }
        self.rows[entry as usize].ranges = Box::new([]);
        self.pruning.remove(&value, &mask);
        let best = tuple.best();
        if let Some(count) = tuple.priorities.get_mut(&priority) {
            *count -= 1;
            if *count == 0 {
                tuple.priorities.remove(&priority);
            }
        }
        self.reorder(number, best);
        if self.tuples[number as usize].priorities.is_empty() {
            self.by_mask.remove(&mask);
            // The memory of the tuple goes with it.
            self.tuples[number as usize].map = Map::new(&[64]);
            self.free.push(number);
        }
    }

    /// The number of the tuple with this mask, which is added if there is none.
    fn tuple(&mut self, mask: &[u64]) -> u32 {
        if let Some(number) = self.by_mask.get(mask) {
            return *number;
        }
        let tuple = Tuple {
            mask: mask.into(),
            map: Map::new(&self.widths),
            priorities: BTreeMap::new(),
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.tuples[number as usize] = tuple;
                number
            }
            None => {
                self.tuples.push(tuple);
                self.tuples.len() as u32 - 1
            }
        };
        self.by_mask.insert(mask.into(), number);
        number
    }

    /// Puts a tuple where its best priority belongs; `was` is what it was before.
    fn reorder(&mut self, number: u32, was: Option<i32>) {
        let is = self.tuples[number as usize].best();
        if was == is {
            return;
        }
        // Tuples with the same priority have no order among each other, so the right one must be
        // found.
        if let Some(was) = was {
            let from = self.order.partition_point(|(best, _)| *best > was);
            let at = self.order[from..].iter().position(|(_, n)| *n == number);
            self.order.remove(from + at.unwrap_or_default());
        }
        if let Some(is) = is {
            let at = self.order.partition_point(|(best, _)| *best > is);
            self.order.insert(at, (is, number));
        }
    }

    /// The entry that a key of one word hits.
    #[inline]
    pub fn find_word(&self, word: u64) -> Option<u32> {
        self.search(&[word], |tuple| match &*tuple.mask {
            [mask] => tuple.map.get_word(word & mask),
            _ => None,
        })
    }

    /// The entry that a key hits; `scratch` is working memory.
    #[inline]
    pub fn find(&self, key: &[u64], scratch: &mut Vec<u64>) -> Option<u32> {
        self.search(key, |tuple| {
            scratch.clear();
            scratch.extend(key.iter().zip(&tuple.mask).map(|(k, m)| k & m));
            tuple.map.get(scratch)
        })
    }

    /// The best entry of all tuples; `first` finds the first row of a tuple.
    #[inline]
    fn search(&self, key: &[u64], mut first: impl FnMut(&Tuple) -> Option<u32>) -> Option<u32> {
        let mut found: Option<(u32, &Row)> = None;
        let candidates = match self.order.len() {
            ..=FEW_TUPLES => Candidates::MAX,
            _ => self.pruning.candidates(key),
        };
        if candidates == 0 {
            return None;
        }
        for (best, number) in &self.order {
            if !Pruning::names(candidates, *number) {
                continue;
            }
            if found.is_some_and(|(_, row)| row.priority > *best) {
                break;
            }
            let mut at = first(&self.tuples[*number as usize]).unwrap_or(NO_ROW);
            while let Some(row) = self.rows.get(at as usize) {
                if row.matches(key) {
                    let is_better =
                        |(_, other): (u32, &Row)| other.is_before(row.priority, row.sequence);
                    if !found.is_some_and(is_better) {
                        found = Some((at, row));
                    }
                    break;
                }
                at = row.next;
            }
        }
        found.map(|(entry, _)| entry)
    }
}

impl Tuple {
    /// The best priority in the tuple.
    fn best(&self) -> Option<i32> {
        self.priorities.last_key_value().map(|(best, _)| *best)
    }
}

/// Value and mask by which an entry is found: its own, and for a range the bits that both ends
/// share.
fn place(key: &CompiledKey) -> (Box<[u64]>, Box<[u64]>) {
    let (mut value, mut mask) = (key.value.clone(), key.mask.clone());
    for range in &key.ranges {
        for (i, (low, high)) in range.low.iter().zip(&range.high).enumerate() {
            let different = low ^ high;
            let common = match different {
                0 => u64::MAX,
                bits => !(u64::MAX >> bits.leading_zeros()),
            };
            mask[range.first + i] = common;
            value[range.first + i] = low & common;
            if different != 0 {
                break;
            }
        }
    }
    (value, mask)
}
