//! Loads a BMv2 JSON program: resolves every name to an index.

use std::collections::HashMap;
use std::sync::Arc;

use ebb_bmv2_json as json;
use ebb_bmv2_json::Value;

use super::{Checksum, DigestSpec, Emit, FieldList, Other, Program, StandardMetadata, tables};
use crate::action::{ActionCompiler, Names, Primitive};
use crate::bits::words_for;
use crate::calculation::Calculation;
use crate::control::MeterUnit;
use crate::error::LoadError;
use crate::expr::Compiler;
use crate::filter::{Filter, FilterSpec};
use crate::hash::Algorithm;
use crate::ids::TableId;
use crate::layout::{Layout, MAX_FIELD_BITS};
use crate::parser::{ErrorCodes, Parser, ParserLoader, with_core_errors};
use crate::psa::Psa;
use crate::state::{Blueprint, ValueSet};
use crate::stateful::{ArraySpec, Meter, MeterSpec, RegisterRef, RegisterSpec};
use crate::tofino::{self, Blocks, MAX_PIPES, Tofino};

type Result<T> = std::result::Result<T, LoadError>;

/// Loads a program; without `shortcuts` everything is done the plain way.
pub(crate) fn load(source: &json::Program, shortcuts: bool) -> Result<Program> {
    check_ids(source)?;
    let layout = Layout::load(source, shortcuts)?;
    let standard = StandardMetadata::load(&layout)?;
    let arrays = Arrays::load(source)?;
    let mut names = arrays.names;
    let mut calculations = Vec::new();
    let mut algorithms = Vec::new();
    for c in &source.calculations {
        let (calculation, algorithm) = Calculation::load(&layout, c)?;
        names
            .calculations
            .insert(c.name.clone(), calculations.len() as u32);
        calculations.push(calculation);
        algorithms.push(algorithm);
    }
    let compiler = ActionCompiler {
        layout: &layout,
        names: &names,
    };
    let actions = source
        .actions
        .iter()
        .map(|a| compiler.action(a))
        .collect::<Result<Vec<_>>>()?;
    let value_set_names: HashMap<String, u32> = source
        .parse_vsets
        .iter()
        .enumerate()
        .map(|(i, v)| (v.name.clone(), i as u32))
        .collect();
    let mut value_set_fields = vec![Vec::new(); source.parse_vsets.len()];
    let architecture = Architecture::of(source)?;
    let mut loader = ParserLoader {
        layout: &layout,
        actions: &compiler,
        value_sets: &value_set_names,
        value_set_fields: &mut value_set_fields,
    };
    let (parser, starts) = match architecture {
        Architecture::V1model => match named(&source.parsers, "parser", |p| &p.name) {
            Some(p) => (loader.load(p, 0)?, Vec::new()),
            None => (Parser::default(), Vec::new()),
        },
        _ => parsers_of_pipes(source, &mut loader)?,
    };
    let v1model_deparser = match architecture {
        Architecture::V1model => named(&source.deparsers, "deparser", |d| &d.name),
        _ => None,
    };
    let (emit, deparser_calls) = match v1model_deparser {
        Some(d) => (
            d.order
                .iter()
                .map(|h| Ok(Emit::new(&layout, layout.header(h)?)))
                .collect::<Result<_>>()
                .map_err(|e: LoadError| e.within("deparser"))?,
            deparser_calls(&compiler, d).map_err(|e| e.within("deparser"))?,
        ),
        None => (Vec::new(), Vec::new()),
    };
    let mut deparsers = Vec::new();
    for (pipe, number) in starts.iter().zip(0..) {
        let bodies = both_deparsers(source, number, &compiler)?;
        deparsers.push((*pipe, bodies));
    }
    let (verify, update) = checksums(source, &layout, &names)?;
    let mut built = tables::Builder {
        layout: &layout,
        names: &names,
        source,
        actions: &actions,
        calculations: &mut calculations,
        algorithms: &mut algorithms,
        tables: Vec::new(),
        table_names: HashMap::new(),
        profiles: Vec::new(),
        nodes: Vec::new(),
    };
    let ingress = built.pipeline("ingress")?;
    let egress = built.pipeline("egress")?;
    let mut pipes = Vec::new();
    for ((parsers, deparsers), number) in deparsers.into_iter().zip(0..) {
        let name = |part| part_name(source, number, part);
        let controls = match number {
            0 => [ingress, egress],
            _ => [
                built.pipeline(&name("ingress"))?,
                built.pipeline(&name("egress"))?,
            ],
        };
        let errors = name("ingress_intrinsic_metadata_from_parser_t.parser_err");
        pipes.push(Blocks {
            parsers,
            controls,
            tails: deparsers.each_ref().map(|body| tofino::tail(body, &layout)),
            deparsers,
            ghost: built.pipeline(&name("ghost"))?,
            ingress_errors: tofino::place(&layout, &errors)?,
        });
    }
    let other = match architecture {
        Architecture::V1model => None,
        Architecture::Tofino(generation) => {
            let made = Tofino::load(&layout, generation, pipes)?;
            Some(Other::Tofino(Box::new(made)))
        }
        Architecture::Psa => {
            let blocks = pipes.swap_remove(0);
            Some(Other::Psa(Box::new(Psa::load(source, &layout, blocks)?)))
        }
    };
    let tables::Builder {
        tables,
        table_names,
        profiles,
        nodes,
        ..
    } = built;
    let digests = digests(source, &layout)?;
    let registers = source.register_arrays.iter();
    let registers = registers.map(|of| (&of.name, of.binding.as_ref()));
    let direct_registers = direct("register array", registers, &table_names)?;
    let filters = source.filter_arrays.iter();
    let filters = filters.map(|of| (&of.name, of.binding.as_ref()));
    let direct_filters = direct("filter array", filters, &table_names)?;
    let blueprint = Blueprint {
        tables: tables.into_iter().map(Arc::new).collect(),
        profiles: profiles.into_iter().map(Arc::new).collect(),
        counters: arrays.counters,
        meters: arrays.meters,
        registers: arrays.registers,
        direct_registers,
        filters: arrays.filters,
        direct_filters,
        value_sets: source
            .parse_vsets
            .iter()
            .zip(value_set_fields)
            .map(|(v, fields)| ValueSet {
                name: v.name.as_str().into(),
                fields,
                max_size: v.max_size,
                members: Vec::new(),
                compiled: Vec::new(),
            })
            .collect(),
    };
    let field_lists = field_lists(source, &layout)?;
    let errors = with_core_errors(source.errors.clone());
    Ok(Program {
        standard,
        errors: ErrorCodes::load(&errors),
        error_names: errors
            .into_iter()
            .map(|(name, code)| (code, name))
            .collect(),
        actions,
        calculations,
        algorithms,
        parser,
        verify,
        update,
        nodes,
        ingress,
        egress,
        emit,
        deparser_calls,
        field_lists,
        digests,
        table_names,
        value_set_names,
        names,
        layout,
        blueprint,
        other,
        pipe_names: source.pipes.clone(),
        usage: super::Usage::default(),
        native: None,
    })
}

/// The architecture that a program is for.
#[derive(Clone, Copy)]
enum Architecture {
    V1model,
    /// With the generation of the chip.
    Tofino(u8),
    Psa,
}

impl Architecture {
    fn of(source: &json::Program) -> Result<Architecture> {
        match source.architecture.as_deref() {
            None => Ok(Architecture::V1model),
            Some("tna") => Ok(Architecture::Tofino(1)),
            Some("t2na") => Ok(Architecture::Tofino(2)),
            Some("psa") => Ok(Architecture::Psa),
            Some(other) => Err(LoadError::new(
                format!("architecture {other:?}"),
                "it is not known; the architectures are tna, t2na and psa, and v1model, which has no key",
            )),
        }
    }
}

/// How many pipelines a program for Tofino has.
fn pipes(source: &json::Program) -> u32 {
    source.pipes.len().clamp(1, MAX_PIPES) as u32
}

/// The name of a part of the pipeline with this number.
fn part_name(source: &json::Program, number: u32, part: &str) -> String {
    let name = source.pipes.get(number as usize).map_or("", String::as_str);
    json::in_pipe(name, number, part)
}

/// The states of the parsers of all pipelines, and the first ones of ingress and egress of each.
fn parsers_of_pipes(
    source: &json::Program,
    loader: &mut ParserLoader,
) -> Result<(Parser, Vec<[Option<u32>; 2]>)> {
    let mut all = Parser::default();
    let mut starts = Vec::new();
    for number in 0..pipes(source) {
        let mut of_pipe = [None; 2];
        for (start, gress) in of_pipe.iter_mut().zip(["ingress", "egress"]) {
            let name = part_name(source, number, gress);
            let parser = source.parsers.iter().find(|p| p.name == name);
            let parser = parser.ok_or_else(|| LoadError::missing("parser", &name))?;
            let loaded = loader.load(parser, all.states.len() as u32)?;
            all.states.extend(loaded.states);
            *start = loaded.start;
        }
        starts.push(of_pipe);
    }
    all.start = starts[0][0];
    Ok((all, starts))
}

/// The primitives of the deparsers of both gresses of a pipeline, which are run as actions are.
fn both_deparsers(
    source: &json::Program,
    number: u32,
    compiler: &ActionCompiler,
) -> Result<[Vec<Primitive>; 2]> {
    let of = |gress: &str| {
        let name = part_name(source, number, gress);
        match source.deparsers.iter().find(|d| d.name == name) {
            Some(deparser) => {
                let body = compiler.body(&deparser.primitives, &[]);
                body.map_err(|e| e.within(format_args!("deparser {name}")))
            }
            None => Err(LoadError::missing("deparser", &name)),
        }
    };
    Ok([of("ingress")?, of("egress")?])
}

/// The primitives of the deparser. BMv2 runs each by itself, so that a jump does nothing.
fn deparser_calls(compiler: &ActionCompiler, deparser: &json::Deparser) -> Result<Vec<Primitive>> {
    let calls = compiler.body(&deparser.primitives, &[])?;
    let jumps = |call: &Primitive| matches!(call, Primitive::Jump(_) | Primitive::JumpUnless(..));
    match calls.iter().position(jumps) {
        None => Ok(calls),
        Some(i) => Err(LoadError::new(
            format!("primitive `{}`", deparser.primitives[i].op),
            "a deparser cannot jump; its primitives run one after the other",
        )),
    }
}

/// Checks that no two objects have an id that others refer to.
fn check_ids(source: &json::Program) -> Result<()> {
    let unique = |kind: &str, ids: &mut dyn Iterator<Item = (u32, &String)>| {
        let mut names = HashMap::new();
        for (id, name) in ids {
            if let Some(first) = names.insert(id, name) {
                return Err(LoadError::new(
                    format!("{kind} {name}"),
                    format!("it has the id {id}, which {kind} {first} has, too"),
                ));
            }
        }
        Ok(())
    };
    unique(
        "header",
        &mut source.headers.iter().map(|h| (h.id, &h.name)),
    )?;
    let mut unions = source.header_unions.iter().map(|u| (u.id, &u.name));
    unique("header union", &mut unions)?;
    unique(
        "action",
        &mut source.actions.iter().map(|a| (a.id, &a.name)),
    )?;
    let mut lists = source.field_lists.iter().map(|l| (l.id, &l.name));
    unique("field list", &mut lists)?;
    let mut lists = source.learn_lists.iter().map(|l| (l.id, &l.name));
    unique("learn list", &mut lists)
}

/// The object with the name that v1model has for it, or the only object there is.
fn named<'a, T>(all: &'a [T], name: &str, name_of: impl Fn(&T) -> &str) -> Option<&'a T> {
    all.iter().find(|o| name_of(o) == name).or(match all {
        [only] => Some(only),
        _ => None,
    })
}

/// The arrays of a program.
struct Arrays {
    names: Names,
    counters: Vec<ArraySpec>,
    meters: Vec<MeterSpec>,
    registers: Vec<RegisterSpec>,
    filters: Vec<FilterSpec>,
}

impl Arrays {
    fn load(source: &json::Program) -> Result<Arrays> {
        let mut names = Names::default();
        let mut memory = Memory::default();
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
        let mut meters = Vec::new();
        for m in source.meter_arrays.iter().filter(|m| !m.is_direct) {
            memory.take("meter array", &m.name, (m.size, size_of::<Meter>()))?;
            names.meters.insert(m.name.clone(), meters.len() as u32);
            meters.push(MeterSpec {
                array: array(&m.name, m.size),
                unit: unit(m.unit),
                adjust: m.adjust_bytes,
            });
        }
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
            memory.take("register array", &r.name, (r.size, bytes))?;
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
        let mut filters = Vec::new();
        for f in &source.filter_arrays {
            memory.take("filter array", &f.name, (f.size, size_of::<Filter>()))?;
            names.filters.insert(f.name.clone(), filters.len() as u32);
            filters.push(FilterSpec {
                array: array(&f.name, f.size),
                kind: f.kind,
            });
        }
        Ok(Arrays {
            names,
            counters,
            meters,
            registers,
            filters,
        })
    }
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

/// The checksums to verify and those to update.
fn checksums(
    source: &json::Program,
    layout: &Layout,
    names: &Names,
) -> Result<(Vec<Checksum>, Vec<Checksum>)> {
    let (mut verify, mut update) = (Vec::new(), Vec::new());
    let expr = Compiler {
        layout,
        registers: &names.registers,
        params: &[],
    };
    for c in &source.checksums {
        let one = || -> Result<Checksum> {
            let header = layout.header(c.target.header())?;
            Ok(Checksum {
                target: layout.slot(&c.target)?,
                target_valid_at: layout.header_at(header).valid_at,
                calculation: *names
                    .calculations
                    .get(&c.calculation)
                    .ok_or_else(|| LoadError::missing("calculation", &c.calculation))?,
                condition: c.if_cond.as_ref().map(|v| expr.condition(v)).transpose()?,
            })
        };
        let owner = || format!("checksum {}", c.name);
        if c.verify {
            verify.push(one().map_err(|e| e.within(owner()))?);
        }
        if c.update {
            update.push(one().map_err(|e| e.within(owner()))?);
        }
    }
    Ok((verify, update))
}

fn field_lists(source: &json::Program, layout: &Layout) -> Result<HashMap<u32, FieldList>> {
    let mut lists = HashMap::new();
    for list in &source.field_lists {
        let mut ranges = Vec::new();
        for element in &list.elements {
            match element {
                Value::Field(f) => {
                    let slot = layout.slot(f)?;
                    ranges.push((slot.at, slot.words));
                    let header = layout.header_at(layout.header(f.header())?);
                    let field = header.fields.iter().find(|x| x.name == f.field());
                    if let Some(length_at) = field.and_then(|f| f.length_at) {
                        ranges.push((length_at, 1));
                    }
                }
                Value::Header(name) => {
                    let header = layout.header_at(layout.header(name)?);
                    ranges.push((header.first, header.words));
                }
                // Constants can be listed, but nothing in them is to be preserved.
                _ => {}
            }
        }
        lists.insert(list.id, FieldList { ranges });
    }
    Ok(lists)
}

fn digests(source: &json::Program, layout: &Layout) -> Result<Vec<DigestSpec>> {
    source
        .learn_lists
        .iter()
        .map(|list| {
            let mut fields = Vec::new();
            for element in &list.elements {
                match element {
                    Value::Field(f) => fields.push(layout.slot(f)?),
                    Value::Header(name) => fields.extend(
                        layout
                            .header_at(layout.header(name)?)
                            .fields
                            .iter()
                            .map(|f| f.slot),
                    ),
                    other => {
                        return Err(LoadError::new(
                            format!("learn list {}", list.name),
                            format!("{other:?} is not a field"),
                        ));
                    }
                }
            }
            Ok(DigestSpec {
                name: list.name.clone(),
                id: list.id,
                fields,
            })
        })
        .collect()
}

/// Adds a calculation and its algorithm, so that both lists stay in step.
pub(super) fn add_calculation(
    calculations: &mut Vec<Calculation>,
    algorithms: &mut Vec<Algorithm>,
    (calculation, algorithm): (Calculation, Algorithm),
) -> u32 {
    calculations.push(calculation);
    algorithms.push(algorithm);
    calculations.len() as u32 - 1
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
