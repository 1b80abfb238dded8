//! Keys of table entries: from what the control plane says to words that are compared.

use crate::bits::{from_bytes, ones, prefix_mask, to_bytes, words_for};
use crate::control::{ControlError, MatchKey, MatchKind};

/// One field of a table's key.
#[derive(Clone, Debug)]
pub(crate) struct KeyField {
    /// Its name in P4.
    pub name: String,
    /// How it is matched.
    pub kind: MatchKind,
    /// Where it lies in the packet.
    pub slot: crate::slot::Slot,
    /// A static mask that the program puts over the field; `None` if there is none.
    pub mask: Option<Box<[u64]>>,
    /// Index of its first word in the lookup key.
    pub first: usize,
}

impl KeyField {
    /// How many words it has in the lookup key.
    pub fn words(&self) -> usize {
        words_for(self.slot.bits)
    }
}

/// The key of an entry: fields that are compared under a mask, and ranges.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CompiledKey {
    /// The fields.
    pub value: Box<[u64]>,
    /// Their masks.
    pub mask: Box<[u64]>,
    /// The fields that are compared with a range.
    pub ranges: Box<[Range]>,
    /// Length in bits of the prefix of the one lpm field; 0 if the table has none.
    pub prefix_len: u32,
}

/// A range of a field, both ends included.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Range {
    /// Index of the field's first word in the lookup key.
    pub first: usize,
    /// The lower end.
    pub low: Box<[u64]>,
    /// The upper end.
    pub high: Box<[u64]>,
}

impl CompiledKey {
    /// Checks the key of an entry and turns it into words.
    pub fn compile(
        fields: &[KeyField],
        key: &[MatchKey],
        table: &str,
    ) -> Result<Self, ControlError> {
        if key.len() != fields.len() {
            return Err(ControlError::invalid(
                format!("table {table}"),
                format!(
                    "the entry has {} key fields, the table has {}",
                    key.len(),
                    fields.len()
                ),
            ));
        }
        let words = fields.last().map_or(0, |f| f.first + f.words());
        let mut compiled = CompiledKey {
            value: vec![0; words].into(),
            mask: vec![0; words].into(),
            ranges: Box::new([]),
            prefix_len: 0,
        };
        let mut ranges = Vec::new();
        for (field, key) in fields.iter().zip(key) {
            compiled.field(field, key, &mut ranges).map_err(|problem| {
                ControlError::invalid(format!("table {table}, key field {}", field.name), problem)
            })?;
        }
        compiled.ranges = ranges.into();
        Ok(compiled)
    }

    /// The inverse of [`compile`](Self::compile), except that values are as wide as their fields.
    pub fn decompile(&self, fields: &[KeyField]) -> Vec<MatchKey> {
        let decompile = |field: &KeyField| {
            let words = field.first..field.first + field.words();
            let bits = field.slot.bits;
            let value = to_bytes(&self.value[words.clone()], bits);
            match field.kind {
                MatchKind::Exact => MatchKey::Exact(value),
                MatchKind::Valid => MatchKey::Valid(self.value[field.first] != 0),
                MatchKind::Lpm => MatchKey::Lpm {
                    value,
                    prefix_len: self.mask[words].iter().map(|w| w.count_ones()).sum(),
                },
                MatchKind::Ternary => MatchKey::Ternary {
                    value,
                    mask: to_bytes(&self.mask[words], bits),
                },
                MatchKind::Range => match self.ranges.iter().find(|r| r.first == field.first) {
                    Some(range) => MatchKey::Range {
                        low: to_bytes(&range.low, bits),
                        high: to_bytes(&range.high, bits),
                    },
                    None => MatchKey::Any,
                },
            }
        };
        fields.iter().map(decompile).collect()
    }

    fn field(
        &mut self,
        field: &KeyField,
        key: &MatchKey,
        ranges: &mut Vec<Range>,
    ) -> Result<(), String> {
        let bits = field.slot.bits;
        let fit = |bytes: &[u8]| {
            from_bytes(bytes, bits)
                .ok_or_else(|| format!("value {bytes:02x?} does not fit in {bits} bits"))
        };
        let (value, mask) = match (field.kind, key) {
            (MatchKind::Exact, MatchKey::Exact(v))
            | (MatchKind::Ternary, MatchKey::Exact(v) | MatchKey::Optional(Some(v))) => {
                (fit(v)?, ones(bits))
            }
            (MatchKind::Valid, MatchKey::Valid(v)) => (vec![u64::from(*v)], ones(1)),
            (MatchKind::Valid, MatchKey::Exact(v)) => (fit(v)?, ones(1)),
            (MatchKind::Ternary, MatchKey::Ternary { value, mask }) => (fit(value)?, fit(mask)?),
            (MatchKind::Ternary, MatchKey::Any | MatchKey::Optional(None)) => {
                (vec![0; field.words()], vec![0; field.words()])
            }
            (MatchKind::Lpm, MatchKey::Lpm { value, prefix_len }) => {
                if *prefix_len > bits {
                    return Err(format!("prefix length {prefix_len} of a {bits} bit field"));
                }
                self.prefix_len = *prefix_len;
                (fit(value)?, prefix_mask(bits, *prefix_len))
            }
            (MatchKind::Lpm, MatchKey::Exact(v)) => {
                self.prefix_len = bits;
                (fit(v)?, ones(bits))
            }
            (MatchKind::Lpm, MatchKey::Any) => (vec![0; field.words()], vec![0; field.words()]),
            (MatchKind::Range, MatchKey::Range { low, high }) => {
                let (low, high) = (fit(low)?, fit(high)?);
                if low > high {
                    return Err(format!(
                        "the range ends before it starts: {low:x?} > {high:x?}"
                    ));
                }
                ranges.push(Range {
                    first: field.first,
                    low: low.into(),
                    high: high.into(),
                });
                return Ok(());
            }
            (MatchKind::Range, MatchKey::Exact(v)) => {
                let v: Box<[u64]> = fit(v)?.into();
                ranges.push(Range {
                    first: field.first,
                    low: v.clone(),
                    high: v,
                });
                return Ok(());
            }
            (MatchKind::Range, MatchKey::Any) => return Ok(()),
            (kind, key) => return Err(format!("expected a {kind:?} match, found {key:?}")),
        };
        let range = field.first..field.first + field.words();
        for ((to_value, to_mask), (value, mask)) in self.value[range.clone()]
            .iter_mut()
            .zip(&mut self.mask[range])
            .zip(value.iter().zip(&mask))
        {
            *to_value = value & mask;
            *to_mask = *mask;
        }
        Ok(())
    }
}
