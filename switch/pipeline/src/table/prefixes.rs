//! Longest prefix match: a map for every prefix length in use, the longest first.
//!
//! For tables that may become large, a bit for every length says under which beginnings of the
//! field there are such prefixes at all, so that most maps are not asked. It may say too much,
//! never too little: bits stay until the table is empty.

use super::key::CompiledKey;
use super::map::Map;

/// Tables that may have more entries have a [`Summary`].
const SMALL_TABLE: u32 = 1024;
/// Bits of the field by which prefixes are told apart: 32 KB.
const TOP_BITS: u32 = 12;

#[derive(Clone, Debug)]
pub(crate) struct Prefixes {
    /// Widths of the key's fields, in bits.
    widths: Box<[u32]>,
    maps: Vec<PrefixMap>,
    summary: Option<Summary>,
}

#[derive(Clone, Debug)]
struct PrefixMap {
    length: u32,
    mask: Box<[u64]>,
    /// The last word of `mask`.
    low_mask: u64,
    map: Map,
}

#[derive(Clone, Debug)]
struct Summary {
    /// From the first word of the key to its highest bits.
    shift: u32,
    /// Lengths of at most `TOP_BITS`, which are under several beginnings.
    short: u64,
    /// Longer ones by beginning; empty until there are any.
    lengths: Vec<u64>,
}

/// Longer ones share bits.
fn bit(length: u32) -> u64 {
    1 << (length % u64::BITS)
}

impl Prefixes {
    /// `size`: how many entries there may be.
    pub fn new(widths: Box<[u32]>, size: u32) -> Prefixes {
        let summary = match *widths {
            [bits] if bits > TOP_BITS && size > SMALL_TABLE => {
                // Bits of the first word, which is full only if the width is a multiple of 64.
                let first = (bits - 1) % u64::BITS + 1;
                first.checked_sub(TOP_BITS).map(|shift| Summary {
                    shift,
                    short: 0,
                    lengths: Vec::new(),
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

    /// How many maps a miss is looked up in, about.
    pub fn searches(&self) -> usize {
        match self.summary {
            Some(_) => 1,
            None => self.maps.len(),
        }
    }

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

    pub fn remove(&mut self, key: &CompiledKey) {
        if let Some(m) = self.maps.iter_mut().find(|m| m.length == key.prefix_len) {
            m.map.remove(&key.value);
        }
        self.maps.retain(|m| !m.map.is_empty());
        if let (true, Some(summary)) = (self.maps.is_empty(), &mut self.summary) {
            summary.short = 0;
            summary.lengths.fill(0);
        }
    }

    /// The entry with this very key.
    pub fn entry(&self, key: &CompiledKey) -> Option<u32> {
        let map = self.maps.iter().find(|m| m.length == key.prefix_len)?;
        map.map.get(&key.value)
    }

    /// Maps in which there may be something for a key with this first word.
    #[inline]
    fn maps(&self, first: u64) -> impl Iterator<Item = &PrefixMap> {
        let lengths = self.summary.as_ref().map_or(u64::MAX, |s| s.lengths(first));
        let maps = self.maps.iter();
        maps.filter(move |m| lengths & bit(m.length) != 0)
    }

    /// For a key of one word.
    #[inline]
    pub fn find_word(&self, word: u64) -> Option<u32> {
        self.maps(word)
            .find_map(|m| m.map.get_word(word & m.low_mask))
    }

    /// `scratch` is work memory.
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
        if self.lengths.is_empty() {
            self.lengths = vec![0; 1 << TOP_BITS];
        }
        if let Some(lengths) = self.lengths.get_mut((first >> self.shift) as usize) {
            *lengths |= bit(length);
        }
    }

    #[inline]
    fn lengths(&self, first: u64) -> u64 {
        let longer = self.lengths.get((first >> self.shift) as usize);
        self.short | longer.copied().unwrap_or(0)
    }
}
