//! Finds the entry that a key hits.

use std::hash::Hasher;

use super::key::CompiledKey;
use super::map::Map;
use super::prefixes::Prefixes;
use super::tuples::Tuples;

/// Multiply and rotate: table keys are short and the attacker of a laboratory is its owner. No
/// random state, so that two runs are the same.
#[derive(Clone, Copy, Default)]
pub(crate) struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        // hashbrown takes the bucket from the low bits and a tag from the high ones.
        self.0 ^ self.0 >> 32
    }
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            self.write_u64(rest.iter().fold(0, |n, b| n << 8 | u64::from(*b)));
        }
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Lookup {
    Exact(Map),
    Lpm(Prefixes),
    /// The highest priority wins, then the oldest.
    Ternary(Tuples),
}

/// As many maps are asked in the time in which a recent key is found.
const FEW_MAPS: usize = 3;

/// Recent keys are found sooner than fewer values of words are, but where there are more flows than places
/// looking for them in vain costs more than it saves (`make bench BENCH=tables`: 500 entries of 10 values, 4096 flows).
const MANY_VALUES: usize = 16;

impl Lookup {
    /// Whether a search takes so long that it pays to remember what it found.
    #[inline]
    pub fn is_long(&self) -> bool {
        match self {
            Lookup::Exact(_) => false,
            Lookup::Lpm(prefixes) => prefixes.searches() > FEW_MAPS,
            Lookup::Ternary(tuples) => tuples.searches() > MANY_VALUES,
        }
    }

    pub fn insert(&mut self, key: &CompiledKey, priority: i32, entry: u32) {
        match self {
            Lookup::Exact(map) => {
                map.insert(&key.value, entry);
            }
            Lookup::Lpm(prefixes) => prefixes.insert(key, entry),
            Lookup::Ternary(tuples) => tuples.insert(key, priority, entry),
        }
    }

    pub fn remove(&mut self, key: &CompiledKey, priority: i32, entry: u32) {
        match self {
            Lookup::Exact(map) => {
                map.remove(&key.value);
            }
            Lookup::Lpm(prefixes) => prefixes.remove(key),
            Lookup::Ternary(tuples) => tuples.remove(key, priority, entry),
        }
    }

    /// The entry with this very key, where no two entries have the same one.
    pub fn entry(&self, key: &CompiledKey) -> Option<u32> {
        match self {
            Lookup::Exact(map) => map.get(&key.value),
            Lookup::Lpm(prefixes) => prefixes.entry(key),
            Lookup::Ternary(_) => None,
        }
    }

    /// For a key of one word.
    #[inline]
    pub fn find_word(&self, word: u64) -> Option<u32> {
        match self {
            Lookup::Exact(map) => map.get_word(word),
            Lookup::Lpm(prefixes) => prefixes.find_word(word),
            Lookup::Ternary(tuples) => tuples.find_word(word),
        }
    }

    /// `scratch` is work memory.
    #[inline]
    pub fn find(&self, key: &[u64], scratch: &mut Vec<u64>) -> Option<u32> {
        match self {
            Lookup::Exact(map) => map.get(key),
            Lookup::Lpm(prefixes) => prefixes.find(key, scratch),
            Lookup::Ternary(tuples) => tuples.find(key, scratch),
        }
    }
}
