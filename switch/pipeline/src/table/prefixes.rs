//! Longest prefix match: one map for every prefix length in use, the longest first.
//!
//! In tables that may become large, a summary says under which beginnings of the field there are
//! prefixes of which lengths, so that most maps are not searched. It may say too much but never too
//! little, because its bits stay until the table is empty.

use std::collections::VecDeque;

use super::key::CompiledKey;
use super::map::Map;

/// Tables that may have more entries than this have a [`Summary`].
const SMALL_TABLE: u32 = 1024;
/// Bits of the field that make up its beginning; the summary then takes 32 KB at most.
const TOP_BITS: u32 = 12;

/// A table with one field that is matched by longest prefix.
#[derive(Clone, Debug)]
pub(crate) struct Prefixes {
    /// Widths of the key's fields in bits.
    widths: Box<[u32]>,
    /// The maps, longest prefix first.
    maps: Vec<PrefixMap>,
    /// Which maps to search; `None` in small tables.
    summary: Option<Summary>,
}

/// The entries with one prefix length.
#[derive(Clone, Debug)]
struct PrefixMap {
    /// The length in bits.
    length: u32,
    /// The mask of the key.
    mask: Box<[u64]>,
    /// The last word of `mask`.
    low_mask: u64,
    /// The entries by masked key.
    map: Map,
}

/// Which prefix lengths occur under which beginnings of the field.
#[derive(Clone, Debug)]
struct Summary {
    /// How far the first word of the key is shifted right to leave its beginning.
    shift: u32,
    /// Lengths of at most `TOP_BITS`, which lie under several beginnings, as bits.
    short: u64,
    /// Longer lengths by beginning, as bits, from the first beginning to the last one that has any:
    /// the addresses of a network begin alike.
    lengths: VecDeque<u64>,
    /// The beginning that `lengths` starts with.
    start: usize,
}

/// The bit of a prefix length; long ones share bits.
fn bit(length: u32) -> u64 {
    1 << (length % u64::BITS)
}

impl Prefixes {
    /// A table without entries that may have `size` of them.
    pub fn new(widths: Box<[u32]>, size: u32) -> Prefixes {
        let summary = match *widths {
            [bits] if bits > TOP_BITS && size > SMALL_TABLE => {
                // The first word is full only if the width is a multiple of 64.
                let first = (bits - 1) % u64::BITS + 1;
                first.checked_sub(TOP_BITS).map(|shift| Summary {
                    shift,
                    short: 0,
                    lengths: VecDeque::new(),
                    start: 0,
                })
            }
            _ => None,
        };
        Prefixes {
            widths,
            maps: Vec::new(),
            summary,
        }
    }

    /// About how many maps are searched for a key that misses.
    pub fn searches(&self) -> usize {
        match self.summary {
            Some(_) => 1,
            None => self.maps.len(),
        }
    }

    /// Adds an entry.
    pub fn insert(&mut self, key: &CompiledKey, entry: u32) {
        let length = key.prefix_len;
        let at = self.maps.partition_point(|m| m.length > length);
        if self.maps.get(at).is_none_or(|m| m.length != length) {
            self.maps.insert(
                at,
                PrefixMap {
                    length,
                    low_mask: key.mask.last().copied().unwrap_or(0),
                    mask: key.mask.clone(),
                    map: Map::new(&self.widths),
                },
            );
        }
        self.maps[at].map.insert(&key.value, entry);
        if let (Some(summary), [first, ..]) = (&mut self.summary, &*key.value) {
            summary.insert(*first, length);
        }
    }

    /// Removes the entry with this key.
    pub fn remove(&mut self, key: &CompiledKey) {
        if let Some(m) = self.maps.iter_mut().find(|m| m.length == key.prefix_len) {
            m.map.remove(&key.value);
        }
        self.maps.retain(|m| !m.map.is_empty());
        if let (true, Some(summary)) = (self.maps.is_empty(), &mut self.summary) {
            summary.short = 0;
            summary.lengths.clear();
        }
    }

    /// The entry with exactly this key.
    pub fn entry(&self, key: &CompiledKey) -> Option<u32> {
        let map = self.maps.iter().find(|m| m.length == key.prefix_len)?;
        map.map.get(&key.value)
    }

    /// The maps that may have something for a key with this first word.
    #[inline]
    fn maps(&self, first: u64) -> impl Iterator<Item = &PrefixMap> {
        let lengths = self.summary.as_ref().map_or(u64::MAX, |s| s.lengths(first));
        let maps = self.maps.iter();
        maps.filter(move |m| lengths & bit(m.length) != 0)
    }

    /// The entry that a key of one word hits.
    #[inline]
    pub fn find_word(&self, word: u64) -> Option<u32> {
        self.maps(word)
            .find_map(|m| m.map.get_word(word & m.low_mask))
    }

    /// The entry that a key hits; `scratch` is working memory.
    #[inline]
    pub fn find(&self, key: &[u64], scratch: &mut Vec<u64>) -> Option<u32> {
        let first = key.first().copied().unwrap_or(0);
        self.maps(first).find_map(|m| {
            scratch.clear();
            scratch.extend(key.iter().zip(&m.mask).map(|(k, m)| k & m));
            m.map.get(scratch)
        })
    }
}

impl Summary {
    fn insert(&mut self, first: u64, length: u32) {
        if length <= TOP_BITS {
            self.short |= bit(length);
            return;
        }
        let beginning = (first >> self.shift) as usize;
        if self.lengths.is_empty() {
            self.start = beginning;
        }
        while beginning < self.start {
            self.lengths.push_front(0);
            self.start -= 1;
        }
        let place = beginning - self.start;
        if self.lengths.len() <= place {
            self.lengths.resize(place + 1, 0);
        }
        self.lengths[place] |= bit(length);
    }

    #[inline]
    fn lengths(&self, first: u64) -> u64 {
        let beginning = (first >> self.shift) as usize;
        let longer = self.lengths.get(beginning.wrapping_sub(self.start));
        self.short | longer.copied().unwrap_or(0)
    }
}
