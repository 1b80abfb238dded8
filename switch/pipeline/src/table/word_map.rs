//! From one word to an entry: a hash table in which a lookup touches one cache line.
//!
//! It uses open addressing with linear probing and is at most half full. It does not resist
//! attackers, because only controllers install keys. It has no random state, so that two runs are
//! the same.

/// Marks an empty slot.
const NO_ENTRY: u32 = u32::MAX;

/// A map from words to entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct WordMap {
    /// The slots: a power of two of them, or none.
    slots: Vec<Slot>,
    /// How many entries there are.
    len: usize,
    /// How far a hash is shifted right to leave the number of a slot.
    shift: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: u64,
    entry: u32,
}

const EMPTY: Slot = Slot {
    key: 0,
    entry: NO_ENTRY,
};

impl WordMap {
    #[inline]
    pub fn get(&self, key: u64) -> Option<u32> {
        let mut at = self.home(key);
        // Only a map without slots has no empty slot.
        loop {
            let slot = self.slots.get(at)?;
            if slot.key == key || slot.entry == NO_ENTRY {
                return (slot.entry != NO_ENTRY).then_some(slot.entry);
            }
            at = self.after(at);
        }
    }

    /// Adds an entry, or replaces the one with this key.
    pub fn insert(&mut self, key: u64, entry: u32) {
        if self.len * 2 >= self.slots.len() {
            self.grow();
        }
        let mut at = self.home(key);
        while self.slots[at].entry != NO_ENTRY && self.slots[at].key != key {
            at = self.after(at);
        }
        self.len += usize::from(self.slots[at].entry == NO_ENTRY);
        self.slots[at] = Slot { key, entry };
    }

    /// Removes the entry of a key.
    pub fn remove(&mut self, key: u64) {
        let mut at = self.home(key);
        loop {
            match self.slots.get(at) {
                None => return,
                Some(slot) if slot.entry == NO_ENTRY => return,
                Some(slot) if slot.key == key => break,
                Some(_) => at = self.after(at),
            }
        }
        self.len -= 1;
        // Entries that were pushed past the gap move back, or they would not be found (Knuth 6.4,
        // algorithm R).
        let mut gap = at;
        loop {
            at = self.after(at);
            let slot = self.slots[at];
            if slot.entry == NO_ENTRY {
                break;
            }
            let mask = self.slots.len() - 1;
            let from_home = at.wrapping_sub(self.home(slot.key)) & mask;
            if from_home >= (at.wrapping_sub(gap) & mask) {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = EMPTY;
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slot in which a key belongs.
    #[inline]
    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// The slot after this one.
    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    /// Doubles the number of slots.
    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(8);
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; size]);
        self.shift = 64 - size.trailing_zeros();
        self.len = 0;
        for slot in old.into_iter().filter(|slot| slot.entry != NO_ENTRY) {
            self.insert(slot.key, slot.entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Few keys, so that they meet; any of them, so that they meet at the end of the slots too.
        #[test]
        fn it_is_a_map(
            keys in proptest::collection::vec(any::<u64>(), 1..12),
            steps in proptest::collection::vec(
                (any::<bool>(), any::<prop::sample::Index>(), 0u32..9),
                0..80,
            ),
        ) {
            let mut map = WordMap::default();
            let mut model = std::collections::BTreeMap::new();
            for (insert, key, entry) in steps {
                let key = *key.get(&keys);
                if insert {
                    map.insert(key, entry);
                    model.insert(key, entry);
                } else {
                    map.remove(key);
                    model.remove(&key);
                }
                for key in &keys {
                    prop_assert_eq!(map.get(*key), model.get(key).copied());
                }
                prop_assert_eq!(map.is_empty(), model.is_empty());
                prop_assert_eq!(map.get(0), model.get(&0).copied());
            }
        }
    }
}
