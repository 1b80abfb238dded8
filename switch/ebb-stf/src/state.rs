//! Counters, meters and registers.

use std::collections::BTreeMap;

use ebb_bmv2_json::Program;
use ebb_pipeline::Pipeline;
use ebb_pipeline::control::{CounterValue, MeterConfig};
use ebb_units::Instant;

use crate::bench::in_words;
use crate::entry::Labelled;
use crate::names::resolve;
use crate::script::{Check, Command, CountUnit, CounterAt, Rate};

/// Result of a command.
pub enum Said {
    Nothing,
    /// Output of the command.
    Output(String),
    /// A check that failed.
    Wrong(String),
}

pub fn run(
    program: &Program,
    pipeline: &mut Pipeline,
    now: Instant,
    labels: &BTreeMap<String, Labelled>,
    command: &Command,
) -> Result<Said, String> {
    match command {
        Command::CounterRead { name, index } => {
            let name = counter_name(program, name)?;
            let value = counter(program, pipeline, name, &CounterAt::Index(*index), labels)?;
            Ok(Said::Output(format!(
                "{name}[{index}]: {} packets, {} bytes",
                value.packets, value.bytes
            )))
        }
        Command::CounterWrite {
            name,
            index,
            packets,
            bytes,
        } => {
            let id = in_words(pipeline.counter(indirect_counter(program, name)?))?;
            let value = CounterValue {
                packets: *packets,
                bytes: *bytes,
            };
            in_words(pipeline.set_counter_value(id, *index, value))?;
            Ok(Said::Nothing)
        }
        Command::CheckCounter { name, at, check } => {
            let name = counter_name(program, name)?;
            let value = counter(program, pipeline, name, at, labels)?;
            Ok(check_counter(name, value, *check))
        }
        Command::RegisterRead { name, index } => read_register(program, pipeline, name, *index),
        Command::RegisterWrite { name, index, value } => {
            let id = in_words(pipeline.register(register(program, name)?))?;
            in_words(pipeline.set_register_value(id, *index, &value.value()))?;
            Ok(Said::Nothing)
        }
        Command::RegisterReset { name } => {
            let id = in_words(pipeline.register(register(program, name)?))?;
            for index in 0..pipeline.register_size(id) {
                in_words(pipeline.set_register_value(id, index, &[]))?;
            }
            Ok(Said::Nothing)
        }
        Command::MeterGet { name, index } => {
            let id = in_words(pipeline.meter(meter(program, name)?))?;
            let config = in_words(pipeline.meter_config(id, *index))?;
            Ok(Said::Output(match config {
                None => format!("{name}[{index}]: no rates"),
                Some(c) => format!(
                    "{name}[{index}]: {}/s burst {}, {}/s burst {}",
                    c.cir, c.cburst, c.pir, c.pburst
                ),
            }))
        }
        Command::MeterSet { name, index, rates } => {
            let id = in_words(pipeline.meter(meter(program, name)?))?;
            let [
                Rate {
                    per_second: cir,
                    burst: cburst,
                },
                Rate {
                    per_second: pir,
                    burst: pburst,
                },
            ] = *rates;
            let config = MeterConfig {
                cir,
                cburst,
                pir,
                pburst,
                eburst: None,
            };
            let cells = match index {
                Some(index) => *index..index.saturating_add(1),
                None => 0..pipeline.meter_size(id),
            };
            for cell in cells {
                in_words(pipeline.set_meter_config(now, id, cell, Some(config)))?;
            }
            Ok(Said::Nothing)
        }
        other => Err(format!("{other:?} is not about state")),
    }
}

fn check_counter(name: &str, value: CounterValue, check: Option<Check>) -> Said {
    let Some(check) = check else {
        return Said::Output(format!(
            "{name}: {} packets, {} bytes",
            value.packets, value.bytes
        ));
    };
    let (count, unit) = match check.unit {
        CountUnit::Packets => (value.packets, "packets"),
        CountUnit::Bytes => (value.bytes, "bytes"),
    };
    match check.relation.holds(count, check.value) {
        true => Said::Nothing,
        false => Said::Wrong(format!(
            "counter {name} has {count} {unit}, expected {} {}",
            check.relation.symbol(),
            check.value
        )),
    }
}

/// A direct counter is found by the label of its entry, or by the entry's place among those of its
/// table.
fn counter(
    program: &Program,
    pipeline: &Pipeline,
    name: &str,
    at: &CounterAt,
    labels: &BTreeMap<String, Labelled>,
) -> Result<CounterValue, String> {
    let array = program.counter_arrays.iter().find(|c| c.name == name);
    let bound = array.and_then(|c| c.binding.as_deref());
    match (bound, at) {
        (None, CounterAt::Index(index)) => {
            let id = in_words(pipeline.counter(name))?;
            in_words(pipeline.counter_value(id, *index))
        }
        (None, CounterAt::Entry(_)) => Err(format!("counter {name} is indexed by a number")),
        (Some(table), CounterAt::Index(index)) => {
            let id = in_words(pipeline.table(table))?;
            let view = pipeline.entries(id).nth(*index as usize);
            view.map(|view| view.counter)
                .ok_or_else(|| format!("table {table} has no entry {index}"))
        }
        (Some(table), CounterAt::Entry(label)) => {
            let Some(entry) = labels.get(label).filter(|entry| entry.table == table) else {
                return Err(format!("no entry of table {table} was added as `{label}`"));
            };
            let id = in_words(pipeline.table(table))?;
            Ok(in_words(pipeline.entry(id, &entry.key, entry.priority))?.counter)
        }
    }
}

fn counter_name<'a>(program: &'a Program, name: &str) -> Result<&'a str, String> {
    let names = program.counter_arrays.iter().map(|c| c.name.as_str());
    resolve("counter", name, names)
}

fn indirect_counter<'a>(program: &'a Program, name: &str) -> Result<&'a str, String> {
    let arrays = program.counter_arrays.iter();
    let names = arrays.filter(|c| c.binding.is_none());
    resolve("indirect counter", name, names.map(|c| c.name.as_str()))
}

fn register<'a>(program: &'a Program, name: &str) -> Result<&'a str, String> {
    let names = program.register_arrays.iter().map(|r| r.name.as_str());
    resolve("register", name, names)
}

fn meter<'a>(program: &'a Program, name: &str) -> Result<&'a str, String> {
    let names = program.meter_arrays.iter().map(|m| m.name.as_str());
    resolve("meter", name, names)
}

fn read_register(
    program: &Program,
    pipeline: &Pipeline,
    name: &str,
    index: Option<u64>,
) -> Result<Said, String> {
    let id = in_words(pipeline.register(register(program, name)?))?;
    let cells = match index {
        Some(index) => index..index.saturating_add(1),
        None => 0..pipeline.register_size(id),
    };
    let values: Result<Vec<String>, String> = cells
        .map(|cell| {
            let bytes = in_words(pipeline.register_value(id, cell))?;
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Ok(format!("0x{digits}"))
        })
        .collect();
    let place = index.map(|index| format!("[{index}]")).unwrap_or_default();
    Ok(Said::Output(format!(
        "{name}{place}: {}",
        values?.join(", ")
    )))
}
