//! Results of the latest searches, for tables whose searches take long: packets of a flow have the
//! same key.

/// How many results are kept; a power of two.
const SLOTS: usize = 1024;
/// Marks a key that hits no entry.
const MISS: u32 = u32::MAX;

/// One slot for every hash of a key. A change of the table forgets all results.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    /// Length of a key in words.
    words: usize,
    /// The results; empty until they are needed.
    slots: Vec<Slot>,
    /// The keys of the slots.
    keys: Vec<u64>,
    /// Slots of other generations have been forgotten.
    generation: u32,
}

/// One result.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Generation in which it was noted; 0 if the slot was never used.
    generation: u32,
    /// The entry, or [`MISS`].
    entry: u32,
}

impl Recent {
    /// Results of keys of this length in words.
    pub fn new(words: usize) -> Recent {
        Recent {
            words,
            slots: Vec::new(),
            keys: Vec::new(),
            generation: 1,
        }
    }

    /// Forgets all results.
    pub fn forget(&mut self) {
        self.generation = match self.generation.checked_add(1) {
            Some(next) => next,
            None => {
                self.slots.clear();
                1
            }
        };
    }

    /// The result that is kept for this key, or else the one that `find` returns now.
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
