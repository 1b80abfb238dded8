//! Arrays of counters, meters, registers and filters, and the memory that they may take.

use std::collections::HashMap;

use ebb_bmv2_json as json;

use crate::bits::words_for;
use crate::control::MeterUnit;
use crate::error::LoadError;
use crate::filter::{Filter, FilterSpec};
use crate::ids::TableId;
use crate::layout::MAX_FIELD_BITS;
use crate::names::Names;
use crate::stateful::{ArraySpec, Meter, MeterSpec, RegisterRef, RegisterSpec};

type Result<T> = std::result::Result<T, LoadError>;

/// The arrays of a program, and their numbers by name.
pub(super) struct Arrays {
    pub names: Names,
    pub specs: Specs,
}

/// The arrays of each kind, in the order of the file.
pub(super) struct Specs {
    pub counters: Vec<ArraySpec>,
    pub meters: Vec<MeterSpec>,
    pub registers: Vec<RegisterSpec>,
    pub filters: Vec<FilterSpec>,
}

impl Arrays {
    /// Loads the arrays of a program; each register array exists once per pipe.
    pub fn load(source: &json::Program, pipes: usize) -> Result<Arrays> {
        let (mut names, mut memory) = (Names::default(), Memory::default());
        let specs = Specs {
            counters: counters(source, &mut names, &mut memory)?,
            meters: meters(source, &mut names, &mut memory)?,
            registers: registers(source, pipes, &mut names, &mut memory)?,
            filters: filters(source, &mut names, &mut memory)?,
        };
        Ok(Arrays { names, specs })
    }
}

impl Specs {
    /// The register arrays that have a cell for each entry of a table: the table, and the index of the array.
    pub fn direct_registers(
        &self,
        source: &json::Program,
        tables: &HashMap<String, u32>,
    ) -> Result<Vec<(TableId, usize)>> {
        let arrays = source.register_arrays.iter();
        let arrays = arrays.map(|of| (&of.name, of.binding.as_ref()));
        direct("register array", arrays, tables)
    }

    /// The filter arrays that have a cell for each entry of a table: the table, and the index of the array.
    pub fn direct_filters(
        &self,
        source: &json::Program,
        tables: &HashMap<String, u32>,
    ) -> Result<Vec<(TableId, usize)>> {
        let arrays = source.filter_arrays.iter();
        let arrays = arrays.map(|of| (&of.name, of.binding.as_ref()));
        direct("filter array", arrays, tables)
    }
}

fn counters(
    source: &json::Program,
    names: &mut Names,
    memory: &mut Memory,
) -> Result<Vec<ArraySpec>> {
    let mut counters = Vec::new();
    // Direct counters live in the entries of their table.
    for c in source.counter_arrays.iter().filter(|c| !c.is_direct) {
        memory.take(
            "counter array",
            &c.name,
            (c.size.unwrap_or(0), size_of::<[u64; 2]>()),
        )?;
        names.counters.insert(c.name.clone(), counters.len() as u32);
        counters.push(array(&c.name, c.size.unwrap_or(0)));
    }
    Ok(counters)
}

fn meters(
    source: &json::Program,
    names: &mut Names,
    memory: &mut Memory,
) -> Result<Vec<MeterSpec>> {
    let mut meters = Vec::new();
    for m in source.meter_arrays.iter().filter(|m| !m.is_direct) {
        memory.take("meter array", &m.name, (m.size, size_of::<Meter>()))?;
        names.meters.insert(m.name.clone(), meters.len() as u32);
        meters.push(MeterSpec {
            array: array(&m.name, m.size),
            unit: unit(m.unit),
            adjust: m.adjust_bytes.cast_signed().wrapping_neg(),
        });
    }
    Ok(meters)
}

fn registers(
    source: &json::Program,
    pipes: usize,
    names: &mut Names,
    memory: &mut Memory,
) -> Result<Vec<RegisterSpec>> {
    let mut registers = Vec::new();
    for r in &source.register_arrays {
        if r.bitwidth > MAX_FIELD_BITS {
            return Err(LoadError::new(
                format!("register array {}", r.name),
                format!(
                    "its cells have {} bits, at most {MAX_FIELD_BITS} are supported",
                    r.bitwidth
                ),
            ));
        }
        let bytes = words_for(r.bitwidth) * size_of::<u64>();
        memory.take("register array", &r.name, (r.size, bytes * pipes))?;
        let register = RegisterRef {
            number: registers.len() as u32,
            bits: r.bitwidth,
        };
        names.registers.insert(r.name.clone(), register);
        let initial = match &r.initial_value {
            None => Ok(vec![0; words_for(r.bitwidth)]),
            Some(hex) => initial_words(hex, r.bitwidth),
        };
        registers.push(RegisterSpec {
            array: array(&r.name, r.size),
            bits: r.bitwidth,
            initial: initial
                .map_err(|e| e.within(format_args!("register array {}", r.name)))?
                .into(),
        });
    }
    Ok(registers)
}

fn filters(
    source: &json::Program,
    names: &mut Names,
    memory: &mut Memory,
) -> Result<Vec<FilterSpec>> {
    let mut filters = Vec::new();
    for f in &source.filter_arrays {
        memory.take("filter array", &f.name, (f.size, size_of::<Filter>()))?;
        names.filters.insert(f.name.clone(), filters.len() as u32);
        filters.push(FilterSpec {
            array: array(&f.name, f.size),
            kind: f.kind,
        });
    }
    Ok(filters)
}

/// The arrays that have a cell for each entry of a table: the table, and the index of the array. Each is given with
/// its name and, if it is one, its table.
fn direct<'a>(
    kind: &str,
    arrays: impl Iterator<Item = (&'a String, Option<&'a String>)>,
    tables: &HashMap<String, u32>,
) -> Result<Vec<(TableId, usize)>> {
    let mut direct = Vec::new();
    for (index, (array, binding)) in arrays.enumerate() {
        if let Some(name) = binding {
            let table = tables.get(name).ok_or_else(|| {
                LoadError::new(
                    format!("{kind} {array}"),
                    format!("it is that of table {name}, which is not there"),
                )
            })?;
            direct.push((TableId(*table), index));
        }
    }
    Ok(direct)
}

/// The words of the initial value of a register.
fn initial_words(hex: &json::HexStr, bits: u32) -> Result<Vec<u64>> {
    let problem = |p: String| LoadError::new("initial value", p);
    let bytes = hex.to_bytes().map_err(|e| problem(e.to_string()))?;
    let words = crate::bits::from_bytes(&bytes, bits);
    let words = words.map(|words| words.to_vec());
    words.ok_or_else(|| problem(format!("{} has more than {bits} bits", hex.0)))
}

fn array(name: &str, size: u32) -> ArraySpec {
    let name = name.into();
    ArraySpec { name, size }
}

/// Most cells of an array; more must be a mistake.
const MAX_CELLS: u32 = 1 << 26;
/// Most memory of all arrays together, in each switch that has the program.
const MAX_BYTES: u64 = 4 << 30;

/// The memory that the arrays of a program take, in bytes.
#[derive(Default)]
struct Memory(u64);

impl Memory {
    fn take(&mut self, kind: &str, name: &str, (cells, bytes): (u32, usize)) -> Result<()> {
        let place = || format!("{kind} {name}");
        if cells > MAX_CELLS {
            return Err(LoadError::new(
                place(),
                format!("it has {cells} cells, at most {MAX_CELLS} are supported"),
            ));
        }
        self.0 += u64::from(cells) * bytes as u64;
        if self.0 > MAX_BYTES {
            return Err(LoadError::new(
                place(),
                format!(
                    "with its {cells} cells of {bytes} bytes the arrays take {} MiB together, at most {} \
                     MiB are supported",
                    self.0 >> 20,
                    MAX_BYTES >> 20
                ),
            ));
        }
        Ok(())
    }
}

pub(super) fn unit(unit: json::MeterUnit) -> MeterUnit {
    match unit {
        json::MeterUnit::Bytes => MeterUnit::Bytes,
        json::MeterUnit::Packets => MeterUnit::Packets,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_have_a_limit_each_and_together() {
        let mut memory = Memory::default();
        let one = memory.take("counter array", "a", (MAX_CELLS + 1, 16));
        assert_eq!(
            one.unwrap_err().to_string(),
            "cannot load the BMv2 program: counter array a: it has 67108865 cells, at most 67108864 are supported"
        );
        for _ in 0..4 {
            memory.take("counter array", "b", (MAX_CELLS, 16)).unwrap();
        }
        let all = memory.take("register array", "c", (1, 8)).unwrap_err();
        assert_eq!(
            all.to_string(),
            "cannot load the BMv2 program: register array c: with its 1 cells of 8 bytes \
             the arrays take 4096 MiB together, at most 4096 MiB are supported"
        );
    }
}
