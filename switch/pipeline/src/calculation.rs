//! Calculations: fields that are laid out as bytes and hashed. Checksums and selectors are built on
//! them.

use ebb_bmv2_json as json;
use ebb_bmv2_json::Value;

use crate::bits::{BitWriter, from_bytes};
use crate::error::LoadError;
use crate::hash::Algorithm;
use crate::layout::Layout;
use crate::packet::Packet;
use crate::slot::Slot;
use crate::wire::Pieces;

/// One input of a calculation.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// A field, the word with its header's validity, and the word of its length if that
    /// varies.
    Field(Slot, u32, Option<u32>),
    /// All fields of a header.
    Header(u32),
    /// A constant and its width in bits.
    Constant(Box<[u64]>, u32),
    /// The payload behind the headers.
    Payload,
}

/// Where inputs that are no whole bytes are filled up with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// As on BMv2.
    AtTheEnd,
    /// As on Tofino.
    InFront,
}

/// The bytes to hash. The algorithm, which may have state, is kept elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Calculation {
    /// Values that are hashed, in order.
    pub inputs: Vec<Input>,
    /// Zeros in front of them: Tofino fills up there to whole bytes, and BMv2 at the end.
    pub front: u32,
    /// A faster way for the common case; `None` if there is none.
    pub usual: Option<Usual>,
}

/// The calculations of a program with their algorithms, by number.
#[derive(Default)]
pub(crate) struct Calculations {
    pub all: Vec<Calculation>,
    pub algorithms: Vec<Algorithm>,
}

impl Calculations {
    /// Returns its number.
    pub fn add(&mut self, (calculation, algorithm): (Calculation, Algorithm)) -> u32 {
        self.all.push(calculation);
        self.algorithms.push(algorithm);
        self.all.len() as u32 - 1
    }
}

/// The layout of the inputs while all their headers are valid and all variable-length fields empty.
#[derive(Clone, Debug)]
pub(crate) struct Usual {
    /// The fields, with fixed places in the bytes.
    pub pieces: Pieces,
    /// Words that must not be zero for this layout to apply.
    pub valid: Box<[u32]>,
    /// Words that must be zero for this layout to apply.
    pub lengths: Box<[u32]>,
}

impl Usual {
    /// The layout of fields and headers; `None` if other inputs take part.
    fn new(inputs: &[Input], front: u32, layout: &Layout) -> Option<Usual> {
        let (mut slots, mut valid, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        let mut field = |slot: Slot, length_at: Option<u32>| match length_at {
            Some(at) => lengths.push(at),
            None => slots.push(slot),
        };
        for input in inputs {
            match input {
                Input::Field(slot, valid_at, length_at) => {
                    valid.push(*valid_at);
                    field(*slot, *length_at);
                }
                Input::Header(h) => {
                    let header = layout.header_at(*h);
                    valid.push(header.valid_at);
                    header
                        .fields
                        .iter()
                        .for_each(|f| field(f.slot, f.length_at));
                }
                Input::Constant(..) | Input::Payload => return None,
            }
        }
        valid.sort_unstable();
        valid.dedup();
        Some(Usual {
            pieces: Pieces::behind(front, slots),
            valid: valid.into(),
            lengths: lengths.into(),
        })
    }

    /// Whether this layout applies to the packet.
    fn applies(&self, words: &[u64]) -> bool {
        self.valid.iter().all(|at| words[*at as usize] != 0)
            && self.lengths.iter().all(|at| words[*at as usize] == 0)
    }
}

impl Calculation {
    /// Loads a calculation and its algorithm.
    pub fn load(
        layout: &Layout,
        calculation: &json::Calculation,
        filled: Filled,
    ) -> Result<(Calculation, Algorithm), LoadError> {
        let inputs = calculation.input.iter().map(|i| (&i.value, i.bitwidth));
        Self::of_inputs(layout, &calculation.algo, inputs, filled)
            .map_err(|e| e.within(format_args!("calculation {}", calculation.name)))
    }

    /// Loads the hash of an action selector and its algorithm.
    pub fn load_selector(
        layout: &Layout,
        profile: &str,
        selector: &json::Selector,
        filled: Filled,
    ) -> Result<(Calculation, Algorithm), LoadError> {
        let inputs = selector.input.iter().map(|value| (value, None));
        Self::of_inputs(layout, &selector.algo, inputs, filled)
            .map_err(|e| e.within(format_args!("selector of action profile {profile}")))
    }

    /// A calculation of inputs, each with the width of a constant, and the algorithm of this name.
    fn of_inputs<'a>(
        layout: &Layout,
        algorithm: &str,
        inputs: impl Iterator<Item = (&'a Value, Option<u32>)>,
        filled: Filled,
    ) -> Result<(Calculation, Algorithm), LoadError> {
        let algorithm = Algorithm::by_name(algorithm)?;
        let inputs = inputs.map(|(value, bitwidth)| input(layout, value, bitwidth));
        let inputs: Vec<Input> = inputs.collect::<Result<_, _>>()?;
        let front = match filled {
            Filled::InFront => missing_bits(&inputs, layout, &algorithm),
            Filled::AtTheEnd => 0,
        };
        let usual = Usual::new(&inputs, front, layout).filter(|_| layout.shortcuts);
        let calculation = Calculation {
            usual,
            inputs,
            front,
        };
        Ok((calculation, algorithm))
    }

    /// Writes the input bytes into `out`. As on BMv2, fields of invalid headers are left out, and
    /// bits follow each other without padding.
    pub fn lay_out(&self, layout: &Layout, packet: &Packet, out: &mut Vec<u8>) {
        out.clear();
        match &self.usual {
            Some(usual) if usual.applies(&packet.words) => usual.pieces.append(&packet.words, out),
            _ => self.lay_out_each(layout, packet, out),
        }
    }

    fn lay_out_each(&self, layout: &Layout, packet: &Packet, out: &mut Vec<u8>) {
        let mut writer = BitWriter::new(out);
        writer.append(self.front, &[0]);
        for input in &self.inputs {
            match input {
                Input::Field(slot, valid_at, length_at) => {
                    if packet.words[*valid_at as usize] != 0 {
                        append(&mut writer, packet, *slot, *length_at);
                    }
                }
                Input::Constant(words, bits) => writer.append(*bits, words),
                Input::Header(h) => {
                    let header = layout.header_at(*h);
                    if header.is_valid(&packet.words) {
                        for field in &header.fields {
                            writer.append(field.bits(&packet.words), field.slot.of(&packet.words));
                        }
                    }
                }
                Input::Payload => {
                    writer.finish();
                    // As on BMv2, the limit of a truncation does not count headers here.
                    out.extend_from_slice(packet.payload(0));
                    writer = BitWriter::new(out);
                }
            }
        }
        writer.finish();
    }
}

/// Bits that inputs lack to whole bytes, or to whole words of what is combined by XOR.
fn missing_bits(inputs: &[Input], layout: &Layout, algorithm: &Algorithm) -> u32 {
    let unit = match algorithm {
        Algorithm::Csum16 | Algorithm::RoundRobin => return 0,
        Algorithm::Xor(bytes) => 8 * *bytes as u32,
        Algorithm::Crc(_) | Algorithm::Identity => 8,
    };
    let bits = |input: &Input| match input {
        Input::Field(slot, ..) => slot.bits,
        Input::Constant(_, bits) => *bits,
        Input::Header(header) => {
            let fields = layout.header_at(*header).fields.iter();
            fields.map(|field| field.slot.bits).sum()
        }
        Input::Payload => 0,
    };
    let all: u32 = inputs.iter().map(bits).sum();
    all.next_multiple_of(unit) - all
}

/// Appends a field at its current width.
#[inline]
fn append(writer: &mut BitWriter, packet: &Packet, slot: Slot, length_at: Option<u32>) {
    let bits = length_at.map_or(slot.bits, |l| packet.words[l as usize] as u32);
    writer.append(bits, slot.of(&packet.words));
}

/// An input of the JSON file; `bitwidth` is that of a constant.
fn input(layout: &Layout, value: &Value, bitwidth: Option<u32>) -> Result<Input, LoadError> {
    Ok(match value {
        Value::Field(f) => {
            let header = layout.header_at(layout.header(f.header())?);
            if f.field() == "$valid$" {
                // It is the bit itself, which exists even when the header is not valid.
                Input::Field(header.valid_slot(), header.valid_at, None)
            } else {
                let field = header.field(f.field())?;
                Input::Field(field.slot, header.valid_at, field.length_at)
            }
        }
        Value::Header(name) => Input::Header(layout.header(name)?),
        Value::Hexstr(hex) => {
            let problem = |p: String| LoadError::new("constant", p);
            let bytes = hex.to_bytes().map_err(|e| problem(e.to_string()))?;
            let bits = bitwidth.unwrap_or(8 * bytes.len() as u32);
            let words = from_bytes(&bytes, bits)
                .ok_or_else(|| problem(format!("{} has more than {bits} bits", hex.0)))?;
            Input::Constant(words.into(), bits)
        }
        Value::Payload(_) => Input::Payload,
        other => {
            return Err(LoadError::new(
                "input",
                format!("{other:?} cannot be an input"),
            ));
        }
    })
}
