//! A set of small numbers.

#[derive(Debug, Default)]
pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// Forgets everything; then the set can hold the numbers below `len`.
    pub fn reset(&mut self, len: usize) {
        self.words.clear();
        self.words.resize(len.div_ceil(64), 0);
    }

    pub fn contains(&self, number: usize) -> bool {
        self.words
            .get(number / 64)
            .is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// True if it was not there. Numbers that the set cannot hold never are.
    pub fn insert(&mut self, number: usize) -> bool {
        let Some(word) = self.words.get_mut(number / 64) else {
            return false;
        };
        let bit = 1 << (number % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// True if it was there.
    pub fn remove(&mut self, number: usize) -> bool {
        let was = self.contains(number);
        if was {
            self.words[number / 64] &= !(1 << (number % 64));
        }
        was
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_in_until_it_is_taken_out() {
        let mut bits = Bits::default();
        assert!(!bits.insert(0));
        bits.reset(100);
        for number in [0, 63, 64, 99] {
            assert!(bits.insert(number) && !bits.insert(number));
            assert!(bits.contains(number) && !bits.contains(number + 1));
            assert!(bits.remove(number) && !bits.remove(number));
        }
        assert!(!bits.insert(128) && !bits.contains(1000));
    }
}
