//! Hashes of Tofino whose inputs and algorithm the control plane sets at run time (dynamic hashing).
//!
//! A switch in which one is set is interpreted: native code has the algorithms of the program.

use ebb_bmv2_json as json;

use crate::bits::BitWriter;
use crate::calculation::{Calculation, Calculations, Input};
use crate::error::LoadError;
use crate::hash::Crc;

/// Most bits of an input.
const MAX_FIELD_BITS: u32 = 128;

/// A hash that can be set.
#[derive(Clone, Debug)]
pub(crate) struct Configurable {
    /// Its name in the program.
    pub name: String,
    /// Its calculations: one for each copy of the action that has the call.
    pub calculations: Vec<u32>,
    /// Bits of its result.
    pub bits: u32,
    /// Its inputs in the order of the program.
    pub fields: Vec<HashField>,
}

/// An input of a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashField {
    /// Its name for the control plane.
    pub name: String,
    /// Its width in bits.
    pub bits: u32,
    /// Its value; `None`: it is a field of the packet.
    pub constant: Option<u128>,
}

/// Bits of an input that take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashSlice {
    /// The input, by its number.
    pub field: usize,
    /// Its lowest bit.
    pub start_bit: u32,
    /// How many bits, at least one.
    pub bits: u32,
    /// Place among the slices: the least is hashed first. Of two slices with equal places the smaller
    /// value comes first, so that their values may be exchanged.
    pub order: u64,
}

/// Algorithm that the control plane gives a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashFunction {
    /// The low bits of the inputs.
    Identity,
    /// A cyclic redundancy check.
    Crc {
        /// Its width, 8 to 64.
        bits: u32,
        /// Its polynomial, without the highest bit.
        polynomial: u64,
        /// Bits are taken lowest first.
        reversed: bool,
        /// The checksum of no bytes, before `final_xor`.
        init: u64,
        /// Value that the result is combined with.
        final_xor: u64,
    },
}

/// Configuration of a hash by the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HashConfig {
    /// Bits that take part; `None`: all inputs in the order of the program.
    pub slices: Option<Vec<HashSlice>>,
    /// The algorithm; `None`: that of the program.
    pub function: Option<HashFunction>,
    /// A result that is wider than the algorithm's is filled with repetitions, not with zeros.
    pub extend: bool,
    /// Bits by which the result is rotated to the left.
    pub rotate: u32,
}

/// A hash with its configuration, ready to be computed.
#[derive(Debug)]
pub(crate) struct Dynamic {
    pub config: HashConfig,
    /// The slices, those of equal order together.
    slices: Vec<HashSlice>,
    crc: Option<Crc>,
}

impl HashConfig {
    /// A problem that it has for a hash of these inputs.
    fn problem(&self, fields: &[HashField]) -> Option<String> {
        let slices = self.slices.as_deref().unwrap_or_default();
        for (place, slice) in slices.iter().enumerate() {
            let Some(field) = fields.get(slice.field) else {
                return Some(format!("there is no input {}", slice.field));
            };
            let (start, end) = (slice.start_bit, slice.start_bit.saturating_add(slice.bits));
            if slice.bits == 0 || end > field.bits {
                return Some(format!(
                    "{} has bits 0 to {}; bits {start} to {} were given",
                    field.name,
                    field.bits - 1,
                    end.saturating_sub(1)
                ));
            }
            let before = &slices[..place];
            if before
                .iter()
                .filter(|other| other.order == slice.order)
                .count()
                > 1
            {
                return Some(format!("more than two slices with order {}", slice.order));
            }
            for other in before {
                let apart = end <= other.start_bit || other.start_bit + other.bits <= start;
                if other.field == slice.field && !apart {
                    return Some(format!("slices of {} overlap", field.name));
                }
                if other.order == slice.order && other.bits != slice.bits {
                    return Some(format!(
                        "slices with order {} have different lengths",
                        slice.order
                    ));
                }
            }
        }
        match self.function {
            Some(HashFunction::Crc { bits, .. }) if !(8..=64).contains(&bits) => {
                Some(format!("a CRC of {bits} bits; it has 8 to 64"))
            }
            _ => None,
        }
    }
}

impl Configurable {
    /// The hashes of a program that can be set: their inputs are fields and constants of up to 128 bits.
    pub fn load(
        source: &json::Program,
        loaded: &Calculations,
    ) -> Result<Vec<Configurable>, LoadError> {
        let mut found: Vec<Configurable> = Vec::new();
        for (number, calculation) in (0..).zip(&source.calculations) {
            let Some(of) = &calculation.configurable else {
                continue;
            };
            let inputs = &loaded.all[number as usize].inputs;
            let fields: Option<Vec<_>> = inputs.iter().zip(&of.fields).map(field).collect();
            let fields = fields.filter(|fields| fields.len() == of.fields.len());
            let is_right = of.fields.len() == inputs.len() && (1..=64).contains(&of.bits);
            if !is_right {
                let what = format!("calculation {}", calculation.name);
                return Err(LoadError::new(
                    what,
                    "its `configurable` does not fit its inputs",
                ));
            }
            let mut others = found.iter_mut();
            if let Some(other) = others.find(|other: &&mut Configurable| other.name == of.name) {
                other.calculations.push(number);
                continue;
            }
            found.extend(fields.map(|fields| Configurable {
                name: of.name.clone(),
                calculations: vec![number],
                bits: of.bits,
                fields,
            }));
        }
        Ok(found)
    }

    /// A configuration as it is computed; the error says what is wrong with it.
    pub fn prepare(&self, config: HashConfig) -> Result<Dynamic, String> {
        if let Some(problem) = config.problem(&self.fields) {
            return Err(problem);
        }
        let all = || {
            let fields = self.fields.iter().enumerate();
            let whole = fields.map(|(field, of)| HashSlice {
                field,
                start_bit: 0,
                bits: of.bits,
                order: field as u64 + 1,
            });
            whole.collect()
        };
        let mut slices = config.slices.clone().unwrap_or_else(all);
        slices.sort_by_key(|slice| slice.order);
        let crc = match config.function {
            Some(HashFunction::Crc {
                bits,
                polynomial,
                reversed,
                init,
                final_xor,
            }) => {
                let mask = u64::MAX >> (64 - bits);
                let [polynomial, init, xor] = [polynomial, init, final_xor].map(|of| of & mask);
                Some(Crc::new(bits, polynomial, init, xor, reversed))
            }
            _ => None,
        };
        Ok(Dynamic {
            config,
            slices,
            crc,
        })
    }
}

/// An input with its name; `None`: it has more than 128 bits or is of another kind.
fn field((input, name): (&Input, &String)) -> Option<HashField> {
    let (bits, constant) = match input {
        Input::Field(slot, _, None) => (slot.bits, None),
        Input::Constant(words, bits) => (*bits, Some(number(words))),
        _ => return None,
    };
    (1..=MAX_FIELD_BITS).contains(&bits).then(|| HashField {
        name: name.clone(),
        bits,
        constant,
    })
}

/// The number that these words are, the first one highest.
fn number(words: &[u64]) -> u128 {
    words.iter().fold(0, |n, word| n << 64 | u128::from(*word))
}

impl Dynamic {
    /// The hash of a packet's fields. `otherwise` is the algorithm of the program.
    pub fn of_packet(
        &self,
        of: &Configurable,
        calculation: &Calculation,
        words: &[u64],
        otherwise: impl FnOnce(&[u8]) -> u64,
    ) -> u64 {
        let value = |field: usize| match &calculation.inputs[field] {
            Input::Field(slot, valid_at, _) => {
                (words[*valid_at as usize] != 0).then(|| number(slot.of(words)))
            }
            Input::Constant(words, _) => Some(number(words)),
            _ => None,
        };
        self.compute(of, value, otherwise)
    }

    /// The hash of these values by input; one that has none is left out.
    pub fn compute(
        &self,
        of: &Configurable,
        value: impl Fn(usize) -> Option<u128>,
        otherwise: impl FnOnce(&[u8]) -> u64,
    ) -> u64 {
        let mut parts: Vec<(u128, u32)> = Vec::new();
        for equals in self.slices.chunk_by(|a, b| a.order == b.order) {
            let part = |slice: &HashSlice| {
                let mask = u128::MAX >> (128 - slice.bits);
                Some((value(slice.field)? >> slice.start_bit & mask, slice.bits))
            };
            let first = parts.len();
            parts.extend(equals.iter().filter_map(part));
            parts[first..].sort_unstable();
        }
        let all: u32 = parts.iter().map(|(_, bits)| bits).sum();
        let mut bytes = Vec::new();
        let mut writer = BitWriter::new(&mut bytes);
        writer.append(all.next_multiple_of(8) - all, &[0]);
        let mut low = 0u128;
        for (part, bits) in parts {
            let words = [(part >> 64) as u64, part as u64];
            writer.append(bits, if bits > 64 { &words } else { &words[1..] });
            low = low.checked_shl(bits).unwrap_or(0) | part;
        }
        writer.finish();
        let mask = u64::MAX >> (64 - of.bits);
        let (hash, width) = match (self.config.function, &self.crc) {
            (Some(HashFunction::Identity), _) => (low as u64, 64),
            (Some(HashFunction::Crc { bits, .. }), Some(crc)) => (crc.compute(&bytes), bits),
            _ => (otherwise(&bytes), of.bits),
        };
        let filled = match self.config.extend {
            true => (0..of.bits.div_ceil(width)).fold(0, |n, turn| n | hash << (turn * width)),
            false => hash,
        };
        let (filled, by) = (filled & mask, self.config.rotate % of.bits);
        match by {
            0 => filled,
            by => (filled << by | filled >> (of.bits - by)) & mask,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRC16: HashFunction = HashFunction::Crc {
        bits: 16,
        polynomial: 0x8005,
        reversed: true,
        init: 0,
        final_xor: 0,
    };

    fn hash(bits: u32) -> Configurable {
        let field = |name: &str, bits| HashField {
            name: name.into(),
            bits,
            constant: None,
        };
        Configurable {
            name: "hash".into(),
            calculations: vec![0],
            bits,
            fields: vec![field("a", 32), field("b", 32), field("c", 8)],
        }
    }

    fn slice(field: usize, start_bit: u32, bits: u32, order: u64) -> HashSlice {
        HashSlice {
            field,
            start_bit,
            bits,
            order,
        }
    }

    fn computed(of: &Configurable, config: HashConfig, values: [u128; 3]) -> u64 {
        let dynamic = of.prepare(config).unwrap();
        dynamic.compute(of, |field| Some(values[field]), |_| 0xabc)
    }

    /// The check value of CRC-16/ARC, of "123456789", in two orders.
    #[test]
    fn inputs_follow_each_other_by_their_order() {
        let of = hash(16);
        let values = [0x31323334, 0x35363738, 0x39];
        let config = HashConfig {
            function: Some(CRC16),
            ..HashConfig::default()
        };
        assert_eq!(computed(&of, config.clone(), values), 0xbb3d);
        let turned = HashConfig {
            slices: Some(vec![
                slice(0, 0, 32, 7),
                slice(1, 0, 32, 2),
                slice(2, 0, 8, 9),
            ]),
            ..config
        };
        assert_eq!(
            computed(&of, turned, [values[1], values[0], values[2]]),
            0xbb3d
        );
    }

    #[test]
    fn values_of_equal_order_may_be_exchanged() {
        let of = hash(16);
        let config = HashConfig {
            slices: Some(vec![
                slice(0, 0, 8, 1),
                slice(0, 8, 8, 1),
                slice(2, 0, 8, 2),
            ]),
            function: Some(CRC16),
            ..HashConfig::default()
        };
        let one = computed(&of, config.clone(), [0xff_1234, 5, 6]);
        assert_eq!(computed(&of, config.clone(), [0x3412, 9, 6]), one);
        assert_ne!(computed(&of, config, [0x3413, 9, 6]), one);
    }

    #[test]
    fn results_are_filled_and_rotated() {
        let of = hash(64);
        let identity = |extend, rotate| HashConfig {
            function: Some(HashFunction::Identity),
            extend,
            rotate,
            ..HashConfig::default()
        };
        let values = [0x31323334, 0x35363738, 0x39];
        assert_eq!(
            computed(&of, identity(false, 4), values),
            0x2333_4353_6373_8393
        );
        let crc = |extend, rotate| HashConfig {
            function: Some(CRC16),
            ..identity(extend, rotate)
        };
        assert_eq!(computed(&of, crc(false, 0), values), 0xbb3d);
        assert_eq!(computed(&of, crc(true, 4), values), 0xb3db_b3db_b3db_b3db);
        // Without an algorithm of its own it has that of the program.
        assert_eq!(computed(&of, HashConfig::default(), values), 0xabc);
    }

    #[test]
    fn wrong_slices_are_named() {
        let of = hash(16);
        let problem = |slices: &[HashSlice]| {
            let config = HashConfig {
                slices: Some(slices.to_vec()),
                ..HashConfig::default()
            };
            of.prepare(config).unwrap_err()
        };
        let overlap = [slice(0, 3, 4, 3), slice(0, 1, 9, 1)];
        assert_eq!(problem(&overlap), "slices of a overlap");
        let beyond = problem(&[slice(0, 30, 3, 1)]);
        assert_eq!(beyond, "a has bits 0 to 31; bits 30 to 32 were given");
        let unequal = problem(&[slice(0, 0, 3, 1), slice(1, 0, 4, 1)]);
        assert_eq!(unequal, "slices with order 1 have different lengths");
        let three = problem(&[slice(0, 0, 3, 1), slice(1, 0, 3, 1), slice(2, 0, 3, 1)]);
        assert_eq!(three, "more than two slices with order 1");
    }
}
