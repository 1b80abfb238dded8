//! Which tuples can have an entry for a key at all.
//!
//! For every word of the key and every mask that entries have there: what values they have, and in which tuples. A
//! tuple is a candidate if each word of the key is among its values (Srinivasan et al. 1999, tuple pruning). The answer
//! may name too many, never too few: tuples share bits, and bits stay until nobody has the value. A few
//! lookups for each word so take the place of one for every tuple, and a packet that matches nothing is
//! mostly through with them.

use super::word_map::WordMap;

/// Tuples share these bits.
pub(crate) type Candidates = u128;

/// With more values under a mask, nothing is known of them: it would take memory for little.
const MAX_VALUES: usize = 4096;

#[derive(Clone, Debug, Default)]
pub(crate) struct Pruning {
    /// For every word of the key.
    words: Vec<Word>,
    /// Words under which entries have masks, those with the fewest first: the quickest to ask.
    order: Vec<usize>,
    entries: usize,
}

#[derive(Clone, Debug, Default)]
struct Word {
    /// Tuples to which any value is right, or of which nothing is known.
    any: Candidates,
    masks: Vec<Masked>,
}

#[derive(Clone, Debug)]
struct Masked {
    mask: u64,
    /// Those with this mask, at least.
    tuples: Candidates,
    /// From a value to its number.
    map: WordMap,
    values: Vec<Value>,
    free: Vec<u32>,
    is_full: bool,
}

#[derive(Clone, Copy, Debug)]
struct Value {
    tuples: Candidates,
    entries: u32,
}

fn bit(tuple: u32) -> Candidates {
    1 << (tuple % Candidates::BITS)
}

impl Pruning {
    pub fn insert(&mut self, value: &[u64], mask: &[u64], tuple: u32) {
        self.words.resize_with(value.len(), Word::default);
        self.entries += 1;
        for (word, (value, mask)) in self.words.iter_mut().zip(value.iter().zip(mask)) {
            word.insert(*value, *mask, tuple);
        }
        self.order.clear();
        let asked = |at: &usize| !self.words[*at].masks.is_empty();
        self.order.extend((0..self.words.len()).filter(asked));
        self.order.sort_by_key(|at| self.words[*at].masks.len());
    }

    pub fn remove(&mut self, value: &[u64], mask: &[u64]) {
        self.entries = self.entries.saturating_sub(1);
        if self.entries == 0 {
            // A new start for what is not counted.
            *self = Pruning::default();
            return;
        }
        for (word, (value, mask)) in self.words.iter_mut().zip(value.iter().zip(mask)) {
            if let Some(masked) = word.masks.iter_mut().find(|m| m.mask == *mask) {
                masked.remove(*value);
            }
        }
    }

    /// How many values are looked up at most.
    pub fn searches(&self) -> usize {
        self.words.iter().map(|word| word.masks.len()).sum()
    }

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

    #[inline]
    pub fn names(candidates: Candidates, tuple: u32) -> bool {
        candidates & bit(tuple) != 0
    }
}

impl Word {
    /// Those of the tuples `left` to which the word is right; others may be named too.
    #[inline]
    fn candidates(&self, word: u64, left: Candidates) -> Candidates {
        let mut right = self.any;
        for masked in &self.masks {
            if masked.tuples & left & !right == 0 {
                continue;
            }
            if let Some(number) = masked.map.get(word & masked.mask) {
                right |= masked.values[number as usize].tuples;
            }
        }
        right
    }

    fn insert(&mut self, value: u64, mask: u64, tuple: u32) {
        if mask == 0 {
            self.any |= bit(tuple);
            return;
        }
        let at = match self.masks.iter().position(|m| m.mask == mask) {
            Some(at) => at,
            None => {
                self.masks.push(Masked {
                    mask,
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
