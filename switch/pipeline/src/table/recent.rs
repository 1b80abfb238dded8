//! What the latest keys came to, for tables that search long: packets of a flow have the same key.

/// A power of two.
const SLOTS: usize = 1024;
const MISS: u32 = u32::MAX;

/// One place for every hash of a key; a change of the table forgets all of them.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    /// Words of a key.
    words: usize,
    /// Empty until it is needed.
    slots: Vec<Slot>,
    keys: Vec<u64>,
    generation: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// 0: never used.
    generation: u32,
    entry: u32,
}

impl Recent {
    pub fn new(words: usize) -> Recent {
        Recent {
            words,
            slots: Vec::new(),
            keys: Vec::new(),
            generation: 1,
        }
    }

    pub fn forget(&mut self) {
        self.generation = match self.generation.checked_add(1) {
            Some(next) => next,
            None => {
                self.slots.clear();
                1
            }
        };
    }

    /// What was noted for this key, or what `find` finds now.
    #[inline]
    pub fn find(&mut self, key: &[u64], find: impl FnOnce() -> Option<u32>) -> Option<u32> {
        if self.slots.is_empty() {
            let unused = Slot {
                generation: 0,
                entry: MISS,
            };
            self.slots = vec![unused; SLOTS];
            self.keys = vec![0; SLOTS * self.words];
        }
        let hash = key.iter().fold(0u64, |hash, word| {
            (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        let at = (hash >> (64 - SLOTS.trailing_zeros())) as usize;
        let noted = &mut self.keys[at * self.words..][..self.words];
        let slot = &mut self.slots[at];
        if slot.generation != self.generation || noted != key {
            slot.entry = find().unwrap_or(MISS);
            slot.generation = self.generation;
            noted.copy_from_slice(key);
        }
        (slot.entry != MISS).then_some(slot.entry)
    }
}
