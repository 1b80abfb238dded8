//! From the words of a key to an entry: an array, or a hash map of the cheapest kind.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::hasher::WordHasher;
use super::word_map::WordMap;

/// Keys of at most this many bits are indices of an array.
const DIRECT_BITS: u32 = 10;
/// Marks a key without an entry.
const NO_ENTRY: u32 = u32::MAX;

/// A map from keys of one kind to entries.
#[derive(Clone, Debug)]
pub(crate) enum Map {
    /// Indexed by the key; `count` is the number of entries.
    Direct { entries: Box<[u32]>, count: usize },
    /// For keys of one word.
    Word(WordMap),
    /// For all other keys.
    Words(HashMap<Box<[u64]>, u32, BuildHasherDefault<WordHasher>>),
}

impl Map {
    /// A map for keys whose fields have these widths in bits.
    pub fn new(widths: &[u32]) -> Map {
        match widths {
            [bits] if *bits <= DIRECT_BITS => Map::Direct {
                entries: vec![NO_ENTRY; 1 << bits].into(),
                count: 0,
            },
            [bits] if *bits <= 64 => Map::Word(WordMap::default()),
            _ => Map::Words(HashMap::default()),
        }
    }

    /// The entry of a key.
    #[inline]
    pub fn get(&self, key: &[u64]) -> Option<u32> {
        match (self, key) {
            (Map::Words(map), _) => map.get(key).copied(),
            (_, [word]) => self.get_word(*word),
            _ => None,
        }
    }

    /// The entry of a key of one word.
    #[inline]
    pub fn get_word(&self, word: u64) -> Option<u32> {
        match self {
            Map::Direct { entries, .. } => entries
                .get(word as usize)
                .copied()
                .filter(|entry| *entry != NO_ENTRY),
            Map::Word(map) => map.get(word),
            Map::Words(map) => map.get([word].as_slice()).copied(),
        }
    }

    /// Adds an entry, or replaces the one with this key.
    pub fn insert(&mut self, key: &[u64], entry: u32) {
        match (self, key) {
            (Map::Direct { entries, count }, [word]) => {
                if let Some(place) = entries.get_mut(*word as usize) {
                    *count += usize::from(*place == NO_ENTRY);
                    *place = entry;
                }
            }
            (Map::Word(map), [word]) => {
                map.insert(*word, entry);
            }
            (Map::Words(map), _) => {
                map.insert(key.into(), entry);
            }
            _ => {}
        }
    }

    /// Removes the entry of a key.
    pub fn remove(&mut self, key: &[u64]) {
        match (self, key) {
            (Map::Direct { entries, count }, [word]) => {
                if let Some(place) = entries.get_mut(*word as usize) {
                    *count -= usize::from(*place != NO_ENTRY);
                    *place = NO_ENTRY;
                }
            }
            (Map::Word(map), [word]) => {
                map.remove(*word);
            }
            (Map::Words(map), _) => {
                map.remove(key);
            }
            _ => {}
        }
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        match self {
            Map::Direct { count, .. } => *count == 0,
            Map::Word(map) => map.is_empty(),
            Map::Words(map) => map.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every kind does what an ordinary map does.
        #[test]
        fn a_map_is_a_map(
            widths in prop::sample::select(vec![vec![1], vec![9], vec![10], vec![11], vec![64], vec![9, 9], vec![70]]),
            steps in proptest::collection::vec((any::<bool>(), 0u64..2, 0u32..5), 0..40),
        ) {
            let mut map = Map::new(&widths);
            let mut model = std::collections::BTreeMap::new();
            let words = if widths == [9, 9] || widths == [70] { 2 } else { 1 };
            for (insert, key, entry) in steps {
                let key = vec![key; words];
                if insert {
                    map.insert(&key, entry);
                    model.insert(key.clone(), entry);
                } else {
                    map.remove(&key);
                    model.remove(&key);
                }
                for n in 0..2 {
                    let key = vec![n; words];
                    prop_assert_eq!(map.get(&key), model.get(&key).copied());
                }
                prop_assert_eq!(map.is_empty(), model.is_empty());
            }
            prop_assert_eq!(map.get(&vec![1 << 20; words]), None);
        }
    }
}
