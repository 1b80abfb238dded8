//! Finds the entry that a key hits.

use super::key::CompiledKey;
use super::map::Map;
use super::prefixes::Prefixes;
use super::tuples::Tuples;

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

/// Number of maps that can be searched in the time of a lookup among recent keys.
const FEW_MAPS: usize = 3;

/// Most values of words for which a search is at least as good as a lookup among recent keys. With
/// more flows than slots for these, the misses then cost more than the hits save (`make bench
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
