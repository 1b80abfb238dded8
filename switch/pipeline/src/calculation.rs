//! Calculations: fields laid out as bytes and hashed. Checksums and selectors are built on them.

use ebb_bmv2_json as json;
use ebb_bmv2_json::Value;

use crate::bits::{from_bytes, write_words};
use crate::error::LoadError;
use crate::hash::Algorithm;
use crate::layout::{Layout, Slot};
use crate::packet::Packet;

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
        Ok((Calculation { inputs }, algorithm))
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
        Ok((Calculation { inputs }, algorithm))
    }

    /// Fields of invalid headers are left out, as on BMv2. Bits follow each other without padding.
    pub fn lay_out(&self, layout: &Layout, packet: &Packet, out: &mut Vec<u8>) {
        out.clear();
        let mut at = 0usize;
        for input in &self.inputs {
            match input {
                Input::Field(slot, valid_at, length_at) => {
                    if packet.words[*valid_at as usize] == 0 {
                        continue;
                    }
                    let bits = length_at.map_or(slot.bits, |l| packet.words[l as usize] as u32);
                    let words = &packet.words[slot.at as usize..][..slot.words as usize];
                    at = append(out, at, bits, words);
                }
                Input::Constant(words, bits) => at = append(out, at, *bits, words),
                Input::Header(h) => {
                    let header = layout.header_at(*h);
                    if header.is_valid(&packet.words) {
                        for field in &header.fields {
                            let bits = field
                                .length_at
                                .map_or(field.slot.bits, |l| packet.words[l as usize] as u32);
                            let words = &packet.words[field.slot.at as usize..]
                                [..field.slot.words as usize];
                            at = append(out, at, bits, words);
                        }
                    }
                }
                Input::Payload => {
                    let payload = packet.payload(out.len());
                    out.extend_from_slice(payload);
                    at = out.len() * 8;
                }
            }
        }
    }
}

fn append(out: &mut Vec<u8>, at: usize, bits: u32, words: &[u64]) -> usize {
    if bits == 0 {
        return at;
    }
    let end = at + bits as usize;
    out.resize(end.div_ceil(8), 0);
    write_words(out, at, bits, words);
    end
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
