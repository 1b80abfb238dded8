//! Finds the entry that a key hits.

use std::hash::Hasher;

use super::key::CompiledKey;
use super::map::Map;
use super::prefixes::Prefixes;
use super::tuples::Tuples;

/// A hash by multiplication and rotation. Table keys are short, and only a controller installs
/// them, so it need not resist attackers. It has no random state, so that two runs are the same.
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

/// How the entries of a table are searched.
#[derive(Clone, Debug)]
pub(crate) enum Lookup {
    /// By the whole key.
    Exact(Map),
    /// By the longest prefix of one field.
    Lpm(Prefixes),
    /// By mask: the highest priority wins, and among equals the oldest entry.
    Ternary(Tuples),
}

/// How many maps can be searched in the time that finding a recent key takes.
const FEW_MAPS: usize = 3;

/// From so many values of words on, recent keys are found sooner. With fewer it does not pay: where
/// there are more flows than slots, looking for them in vain costs more than it saves (`make bench
/// BENCH=tables`: 500 entries of 10 values, 4096 flows).
const MANY_VALUES: usize = 16;

impl Lookup {
    /// Whether a search takes so long that it pays to remember its result.
    #[inline]
    pub fn is_long(&self) -> bool {
        match self {
            Lookup::Exact(_) => false,
            Lookup::Lpm(prefixes) => prefixes.searches() > FEW_MAPS,
            Lookup::Ternary(tuples) => tuples.searches() > MANY_VALUES,
        }
    }

    /// Adds an entry.
    pub fn insert(&mut self, key: &CompiledKey, priority: i32, entry: u32) {
        match self {
            Lookup::Exact(map) => {
                map.insert(&key.value, entry);
            }
            Lookup::Lpm(prefixes) => prefixes.insert(key, entry),
            Lookup::Ternary(tuples) => tuples.insert(key, priority, entry),
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: &CompiledKey, priority: i32, entry: u32) {
        match self {
            Lookup::Exact(map) => {
                map.remove(&key.value);
            }
            Lookup::Lpm(prefixes) => prefixes.remove(key),
            Lookup::Ternary(tuples) => tuples.remove(key, priority, entry),
        }
    }

    /// The entry with exactly this key, in tables where no two entries have the same key.
    pub fn entry(&self, key: &CompiledKey) -> Option<u32> {
        match self {
            Lookup::Exact(map) => map.get(&key.value),
            Lookup::Lpm(prefixes) => prefixes.entry(key),
            Lookup::Ternary(_) => None,
        }
    }

    /// The entry that a key of one word hits.
    #[inline]
    pub fn find_word(&self, word: u64) -> Option<u32> {
        match self {
            Lookup::Exact(map) => map.get_word(word),
            Lookup::Lpm(prefixes) => prefixes.find_word(word),
            Lookup::Ternary(tuples) => tuples.find_word(word),
        }
    }

    /// The entry that a key hits; `scratch` is working memory.
    #[inline]
    pub fn find(&self, key: &[u64], scratch: &mut Vec<u64>) -> Option<u32> {
        match self {
            Lookup::Exact(map) => map.get(key),
            Lookup::Lpm(prefixes) => prefixes.find(key, scratch),
            Lookup::Ternary(tuples) => tuples.find(key, scratch),
        }
    }
}
