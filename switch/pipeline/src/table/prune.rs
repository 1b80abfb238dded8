//! Which tuples can have an entry for a key at all.
//!
//! For every word of the key and every mask that entries have there, this knows the values and the
//! tuples in which they occur. A tuple is a candidate if each word of the key is among its values
//! (tuple pruning, Srinivasan et al. 1999). The answer may name too many tuples but never too few:
//! tuples share bits, and bits stay until nobody has the value. So a few lookups for each word take
//! the place of one for every tuple, and for a packet that matches nothing they are mostly all.

use super::word_map::WordMap;
use crate::bits::low_mask;

/// A set of tuples, one bit each; more than 128 tuples share bits.
pub(crate) type Candidates = u128;

/// Most values that are kept for a mask. With more, nothing is known of them, because the memory
/// would gain little.
const MAX_VALUES: usize = 4096;

/// Facts known of the entries of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pruning {
    /// Facts known of each word of the key.
    words: Vec<Word>,
    /// Indices of the words under which entries have masks, the ones with the fewest masks first
    /// because they are the quickest.
    order: Vec<usize>,
    /// How many entries there are.
    entries: usize,
}

/// Facts known of one word of the key.
#[derive(Clone, Debug, Default)]
struct Word {
    /// Tuples for which any value will do, or of which nothing is known.
    any: Candidates,
    /// The values under each mask.
    masks: Vec<Masked>,
}

/// The values under one mask.
#[derive(Clone, Debug)]
struct Masked {
    /// The mask.
    mask: u64,
    /// Which lengths a word can have that has one of the values, see [`of_length`].
    lengths: u64,
    /// Tuples that have this mask, and perhaps others.
    tuples: Candidates,
    /// From a value to its index in `values`.
    map: WordMap,
    /// The values.
    values: Vec<Value>,
    /// Free indices in `values`.
    free: Vec<u32>,
    /// Whether there were too many values.
    is_full: bool,
}

/// Facts known of one value.
#[derive(Clone, Copy, Debug)]
struct Value {
    /// The tuples in which it occurs.
    tuples: Candidates,
    /// How many entries have it.
    entries: u32,
}

fn bit(tuple: u32) -> Candidates {
    1 << (tuple % Candidates::BITS)
}

/// The bit of a word that has its highest one at this place, counted from 1; 0: it has none. Both greatest lengths have
/// the same bit.
fn of_length(length: u32) -> u64 {
    1 << length.min(u64::BITS - 1)
}

/// Lengths of words that have a value under a mask; none has ones that are not among `ones`. They are as long as the
/// value, or up to a bit above it that the mask leaves open. So of prefixes that begin with a one, a word can have only
/// those of its own length.
fn lengths(value: u64, mask: u64, ones: u64) -> u64 {
    let length = u64::BITS - value.leading_zeros();
    let open = ones & !mask & !low_mask(length);
    of_length(length) | open << 1 | open & of_length(u64::BITS)
}

impl Pruning {
    /// Adds an entry of a tuple; `ones` are the bits that words of the key can have.
    pub fn insert(&mut self, value: &[u64], mask: &[u64], ones: &[u64], tuple: u32) {
        self.words.resize_with(value.len(), Word::default);
        self.entries += 1;
        let words = self.words.iter_mut().zip(ones);
        for ((word, ones), (value, mask)) in words.zip(value.iter().zip(mask)) {
            word.insert(*value, *mask, *ones, tuple);
        }
        self.order.clear();
        let asked = |at: &usize| !self.words[*at].masks.is_empty();
        self.order.extend((0..self.words.len()).filter(asked));
        self.order.sort_by_key(|at| self.words[*at].masks.len());
    }

    /// Removes an entry.
    pub fn remove(&mut self, value: &[u64], mask: &[u64]) {
        self.entries = self.entries.saturating_sub(1);
        if self.entries == 0 {
            // With no entries left, what was not counted can start anew.
            *self = Pruning::default();
            return;
        }
        for (word, (value, mask)) in self.words.iter_mut().zip(value.iter().zip(mask)) {
            if let Some(masked) = word.masks.iter_mut().find(|m| m.mask == *mask) {
                masked.remove(*value);
            }
        }
    }

    /// How many values are looked up for a key, at most.
    pub fn searches(&self) -> usize {
        self.words.iter().map(|word| word.masks.len()).sum()
    }

    /// The tuples that can have an entry for this key.
    #[inline]
    pub fn candidates(&self, key: &[u64]) -> Candidates {
        let mut candidates = Candidates::MAX;
        for at in &self.order {
            candidates &= self.words[*at].candidates(key[*at], candidates);
            if candidates == 0 {
                break;
            }
        }
        candidates
    }

    /// Whether a tuple is among the candidates.
    #[inline]
    pub fn names(candidates: Candidates, tuple: u32) -> bool {
        candidates & bit(tuple) != 0
    }
}

impl Word {
    /// Those of the tuples `left` that accept this word; others may be named too.
    #[inline]
    fn candidates(&self, word: u64, left: Candidates) -> Candidates {
        let mut right = self.any;
        let length = of_length(u64::BITS - word.leading_zeros());
        for masked in &self.masks {
            if masked.lengths & length == 0 || masked.tuples & left & !right == 0 {
                continue;
            }
            if let Some(number) = masked.map.get(word & masked.mask) {
                right |= masked.values[number as usize].tuples;
            }
        }
        right
    }

    fn insert(&mut self, value: u64, mask: u64, ones: u64, tuple: u32) {
        if mask == 0 {
            self.any |= bit(tuple);
            return;
        }
        let at = match self.masks.iter().position(|m| m.mask == mask) {
            Some(at) => at,
            None => {
                self.masks.push(Masked {
                    mask,
                    lengths: 0,
                    tuples: 0,
                    map: WordMap::default(),
                    values: Vec::new(),
                    free: Vec::new(),
                    is_full: false,
                });
                self.masks.len() - 1
            }
        };
        let masked = &mut self.masks[at];
        masked.tuples |= bit(tuple);
        masked.lengths |= lengths(value, mask, ones);
        if !masked.is_full && masked.values.len() - masked.free.len() >= MAX_VALUES {
            masked.is_full = true;
            self.any |= masked.values.iter().fold(0, |all, v| all | v.tuples);
            masked.map = WordMap::default();
            masked.values = Vec::new();
            masked.free = Vec::new();
        }
        match masked.is_full {
            true => self.any |= bit(tuple),
            false => masked.insert(value, tuple),
        }
    }
}

impl Masked {
    fn insert(&mut self, value: u64, tuple: u32) {
        let number = match self.map.get(value) {
            Some(number) => number as usize,
            None => {
                let nobody = Value {
                    tuples: 0,
                    entries: 0,
                };
                let number = match self.free.pop() {
                    Some(number) => {
                        self.values[number as usize] = nobody;
                        number
                    }
                    None => {
                        self.values.push(nobody);
                        self.values.len() as u32 - 1
                    }
                };
                self.map.insert(value, number);
                number as usize
            }
        };
        self.values[number].tuples |= bit(tuple);
        self.values[number].entries += 1;
    }

    fn remove(&mut self, value: u64) {
        let Some(number) = self.map.get(value) else {
            return;
        };
        let noted = &mut self.values[number as usize];
        noted.entries -= 1;
        if noted.entries == 0 {
            self.map.remove(value);
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_word_with_the_value_has_one_of_the_lengths(
            word: u64, others: u64, mask: u64, bits in 0u32..65,
        ) {
            let ones = low_mask(bits);
            let (word, mask) = (word & others & ones, mask & ones);
            let length = of_length(u64::BITS - word.leading_zeros());
            prop_assert!(lengths(word & mask, mask, ones) & length != 0);
        }
    }

    #[test]
    fn a_prefix_that_begins_with_a_one_has_its_length() {
        assert_eq!(lengths(0b101 << 8, 0xff00, 0xffff), of_length(11));
        assert_eq!(lengths(0, 0xff00, 0xffff), (1 << 9) - 1);
        assert_eq!(lengths(0, 0, u64::MAX), u64::MAX);
    }
}
