//! Selects whose key consists of fields and fits into one word, which nearly all do.

use super::{Case, KeyPart, Test};

/// The select of such a state.
#[derive(Debug)]
pub(crate) struct ShortSelect {
    /// For each field, its word in the packet and how far it is shifted left.
    pub parts: Box<[(u32, u32)]>,
    /// The cases: value, mask, next state.
    pub cases: Box<[(u64, u64, Option<u32>)]>,
    /// The next state if no case applies; `None` is the end.
    pub default: Option<u32>,
}

impl ShortSelect {
    /// The select of a state in this form; `None` if it does not fit.
    pub fn new(key: &[KeyPart], cases: &[Case], default: Option<u32>) -> Option<ShortSelect> {
        let mut shift = 0;
        let mut parts = Vec::new();
        for part in key.iter().rev() {
            match part {
                KeyPart::Field(slot) if slot.words == 1 => {
                    if slot.bits == 0 || shift + slot.bits > 64 {
                        return None;
                    }
                    parts.push((slot.at, shift));
                    // Every part is padded to whole bytes.
                    shift += slot.bits.next_multiple_of(8);
                }
                _ => return None,
            }
        }
        let word = |bytes: &[u8]| bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b));
        let cases = cases
            .iter()
            .map(|case| match &case.test {
                Test::Value { value, mask } => {
                    let mask = mask.as_deref().map_or(u64::MAX, word);
                    Some((word(value) & mask, mask, case.next))
                }
                Test::ValueSet(..) => None,
            })
            .collect::<Option<_>>()?;
        Some(ShortSelect {
            parts: parts.into(),
            cases,
            default,
        })
    }

    /// The next state; `None` is the end.
    #[inline]
    pub fn next(&self, words: &[u64]) -> Option<u32> {
        let key = self
            .parts
            .iter()
            .fold(0, |key, (at, shift)| key | words[*at as usize] << shift);
        self.cases
            .iter()
            .find(|(value, mask, _)| key & mask == *value)
            .map_or(self.default, |(_, _, next)| *next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::{low_mask, write_words};
    use crate::slot::Slot;
    use proptest::prelude::*;

    /// Padded like the key of a select, field by field.
    fn bytes(widths: &[u32], words: &[u64]) -> Box<[u8]> {
        let mut key = Vec::new();
        for (bits, word) in widths.iter().zip(words) {
            key.resize(key.len() + bits.div_ceil(8) as usize, 0);
            let at = key.len() * 8 - *bits as usize;
            write_words(&mut key, at, *bits, &[*word]);
        }
        key.into()
    }

    proptest! {
        #[test]
        fn the_short_select_chooses_as_bytes_do(
            fields in proptest::collection::vec((1u32..20, any::<u64>()), 1..5),
            tests in proptest::collection::vec(
                (any::<[u64; 4]>(), any::<[u64; 4]>(), any::<bool>(), any::<bool>()),
                0..6,
            ),
        ) {
            let widths: Vec<u32> = fields.iter().map(|(bits, _)| *bits).collect();
            let words: Vec<u64> = fields.iter().map(|(bits, n)| n & low_mask(*bits)).collect();
            let key: Vec<KeyPart> = widths
                .iter()
                .zip(0..)
                .map(|(bits, at)| KeyPart::Field(Slot { at, words: 1, bits: *bits, signed: false }))
                .collect();
            let cases: Vec<Case> = tests
                .iter()
                .zip(1..)
                .map(|((value, mask, same, masked), next)| Case {
                    test: Test::Value {
                        value: bytes(&widths, if *same { &words } else { value }),
                        mask: masked.then(|| bytes(&widths, mask)),
                    },
                    next: Some(next),
                })
                .collect();
            let packed = bytes(&widths, &words);
            let plain = cases.iter().find(|case| match &case.test {
                Test::Value { value, mask } => (0..packed.len()).all(|i| {
                    let mask = mask.as_ref().map_or(0xff, |m| m[i]);
                    packed[i] & mask == value[i] & mask
                }),
                Test::ValueSet(..) => false,
            });
            if let Some(short) = ShortSelect::new(&key, &cases, Some(0)) {
                prop_assert_eq!(short.next(&words), plain.map_or(Some(0), |c| c.next));
            }
        }
    }
}
