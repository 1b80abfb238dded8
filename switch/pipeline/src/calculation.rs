//! Calculations: fields laid out as bytes and hashed. Checksums and selectors are built on them.

use ebb_bmv2_json as json;
use ebb_bmv2_json::Value;

use crate::bits::{BitWriter, from_bytes};
use crate::error::LoadError;
use crate::hash::Algorithm;
use crate::layout::{Layout, Slot};
use crate::packet::Packet;
use crate::wire::Pieces;

#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// A field and the word that tells whether its header is valid.
    Field(Slot, u32, Option<u32>),
    Header(u32),
    Constant(Box<[u64]>, u32),
    Payload,
}

/// The bytes to be hashed. The algorithm, which may have state, lives elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Calculation {
    pub inputs: Vec<Input>,
    pub usual: Option<Usual>,
}

/// The layout while every header is there and every variable-length field is empty.
#[derive(Clone, Debug)]
pub(crate) struct Usual {
    pub pieces: Pieces,
    /// Words that must not be zero, and words that must be.
    pub valid: Box<[u32]>,
    pub lengths: Box<[u32]>,
}

impl Usual {
    /// Only for fields and headers.
    fn new(inputs: &[Input], layout: &Layout) -> Option<Usual> {
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
            pieces: Pieces::new(slots),
            valid: valid.into(),
            lengths: lengths.into(),
        })
    }

    fn applies(&self, words: &[u64]) -> bool {
        self.valid.iter().all(|at| words[*at as usize] != 0)
            && self.lengths.iter().all(|at| words[*at as usize] == 0)
    }
}

impl Calculation {
    pub fn load(
        layout: &Layout,
        calculation: &json::Calculation,
    ) -> Result<(Calculation, Algorithm), LoadError> {
        let owner = || format!("calculation {}", calculation.name);
        let algorithm = Algorithm::by_name(&calculation.algo).map_err(|e| e.within(owner()))?;
        let inputs = calculation
            .input
            .iter()
            .map(|i| input(layout, &i.value, i.bitwidth))
            .collect::<Result<_, _>>()
            .map_err(|e| e.within(owner()))?;
        Ok((Calculation::new(inputs, layout), algorithm))
    }

    pub fn load_selector(
        layout: &Layout,
        profile: &str,
        selector: &json::Selector,
    ) -> Result<(Calculation, Algorithm), LoadError> {
        let owner = || format!("selector of action profile {profile}");
        let algorithm = Algorithm::by_name(&selector.algo).map_err(|e| e.within(owner()))?;
        let inputs = selector
            .input
            .iter()
            .map(|v| input(layout, v, None))
            .collect::<Result<_, _>>()
            .map_err(|e| e.within(owner()))?;
        Ok((Calculation::new(inputs, layout), algorithm))
    }

    fn new(inputs: Vec<Input>, layout: &Layout) -> Calculation {
        Calculation {
            usual: Usual::new(&inputs, layout).filter(|_| layout.shortcuts),
            inputs,
        }
    }

    pub fn has_payload(&self) -> bool {
        let is_payload = |input: &Input| matches!(input, Input::Payload);
        self.inputs.iter().any(is_payload)
    }

    /// Fields of invalid headers are left out, as on BMv2. Bits follow each other without padding.
    pub fn lay_out(&self, layout: &Layout, packet: &Packet, out: &mut Vec<u8>) {
        out.clear();
        match &self.usual {
            Some(usual) if usual.applies(&packet.words) => usual.pieces.append(&packet.words, out),
            _ => self.lay_out_each(layout, packet, out),
        }
    }

    fn lay_out_each(&self, layout: &Layout, packet: &Packet, out: &mut Vec<u8>) {
        let mut writer = BitWriter::new(out);
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
                    // Headers do not count against the limit of a truncation here, as on BMv2.
                    out.extend_from_slice(packet.payload(0));
                    writer = BitWriter::new(out);
                }
            }
        }
        writer.finish();
    }
}

#[inline]
fn append(writer: &mut BitWriter, packet: &Packet, slot: Slot, length_at: Option<u32>) {
    let bits = length_at.map_or(slot.bits, |l| packet.words[l as usize] as u32);
    writer.append(bits, slot.of(&packet.words));
}

fn input(layout: &Layout, value: &Value, bitwidth: Option<u32>) -> Result<Input, LoadError> {
    Ok(match value {
        Value::Field(f) => {
            let header = layout.header_at(layout.header(f.header())?);
            if f.field() == "$valid$" {
                // The bit itself, which is there even when the header is not.
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
        Value::Payload(()) => Input::Payload,
        other => {
            return Err(LoadError::new(
                "input",
                format!("{other:?} cannot be an input"),
            ));
        }
    })
}
