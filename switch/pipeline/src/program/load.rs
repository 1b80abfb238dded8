//! Loads a BMv2 JSON program: resolves every name to an index.

use std::collections::HashMap;
use std::sync::Arc;

use ebb_bmv2_json as json;
use ebb_bmv2_json::Value;

use super::actions::ActionCompiler;
use super::architecture::Architecture;
use super::arrays::Arrays;
use super::{Checksum, DigestSpec, FieldList, OwnChecksum, Program, StandardMetadata, tables};
use crate::calculation::{Calculation, Calculations};
use crate::dynamic_hash::Configurable;
use crate::error::LoadError;
use crate::expr::{Compare, Compiler, Condition};
use crate::hash::Algorithm;
use crate::layout::Layout;
use crate::names::Names;
use crate::parser::{ErrorCodes, ParserLoader, with_core_errors};
use crate::state::{Blueprint, ValueSet};

type Result<T> = std::result::Result<T, LoadError>;

/// Loads a program; without `shortcuts` everything is done the plain way.
pub(crate) fn load(source: &json::Program, shortcuts: bool) -> Result<Program> {
    check_ids(source)?;
    let layout = Layout::load(source, shortcuts)?;
    let standard = StandardMetadata::load(&layout)?;
    let architecture = Architecture::of(source)?;
    let Arrays { mut names, specs } = Arrays::load(source, architecture.pipes())?;
    let mut calculations = calculations(source, &layout, &mut names)?;
    let compiler = ActionCompiler {
        layout: &layout,
        names: &names,
    };
    let actions = source.actions.iter().map(|a| compiler.action(a));
    let actions = actions.collect::<Result<Vec<_>>>()?;
    let value_set_names = numbered(source.parse_vsets.iter().map(|set| &set.name));
    let mut value_set_fields = vec![Vec::new(); source.parse_vsets.len()];
    let mut loader = ParserLoader {
        layout: &layout,
        actions: &compiler,
        value_sets: &value_set_names,
        value_set_fields: &mut value_set_fields,
    };
    let (parser, starts) = architecture.parsers(source, &mut loader)?;
    let (emit, deparser_calls) = architecture.deparser(source, &compiler)?;
    let (verify, update) = checksums(source, &layout, &names, &calculations)?;
    let mut builder = tables::Builder {
        layout: &layout,
        names: &names,
        source,
        actions: &actions,
        calculations: &mut calculations,
        filled: architecture.filled(),
        built: tables::Built::default(),
    };
    let ingress = builder.pipeline("ingress")?;
    let egress = builder.pipeline("egress")?;
    let other = architecture.other(&mut builder, &compiler, &starts, [ingress, egress])?;
    let tables::Built {
        tables,
        table_names,
        profiles,
        nodes,
    } = builder.built;
    let errors = with_core_errors(source.errors.clone());
    Ok(Program {
        standard,
        errors: ErrorCodes::load(&errors),
        error_names: errors
            .into_iter()
            .map(|(name, code)| (code, name))
            .collect(),
        hashes: Configurable::load(source, &calculations)?,
        calculations: calculations.all,
        algorithms: calculations.algorithms,
        parser,
        verify,
        update,
        nodes,
        ingress,
        egress,
        emit,
        deparser_calls,
        field_lists: field_lists(source, &layout)?,
        digests: digests(source, &layout)?,
        value_set_names,
        blueprint: Blueprint {
            tables: tables.into_iter().map(Arc::new).collect(),
            profiles: profiles.into_iter().map(Arc::new).collect(),
            direct_registers: specs.direct_registers(source, &table_names)?,
            direct_filters: specs.direct_filters(source, &table_names)?,
            counters: specs.counters,
            meters: specs.meters,
            registers: specs.registers,
            filters: specs.filters,
            value_sets: value_sets(source, value_set_fields),
        },
        table_names,
        actions,
        names,
        layout,
        other,
        pipe_names: source.pipes.clone(),
        usage: super::Usage::default(),
        native: None,
    })
}

/// The calculations, whose names get their numbers.
fn calculations(
    source: &json::Program,
    layout: &Layout,
    names: &mut Names,
) -> Result<Calculations> {
    let mut calculations = Calculations::default();
    for c in &source.calculations {
        let filled = Architecture::of(source)?.filled();
        let number = calculations.add(Calculation::load(layout, c, filled)?);
        names.calculations.insert(c.name.clone(), number);
    }
    Ok(calculations)
}

/// The value sets, without members; `fields` are the widths of the key fields of each.
fn value_sets(source: &json::Program, fields: Vec<Vec<u32>>) -> Vec<ValueSet> {
    let sets = source.parse_vsets.iter().zip(fields);
    let sets = sets.map(|(set, fields)| ValueSet {
        name: set.name.as_str().into(),
        fields,
        max_size: set.max_size,
        members: Vec::new(),
    });
    sets.collect()
}

/// The numbers of objects, in their order, by name.
fn numbered<'a>(names: impl Iterator<Item = &'a String>) -> HashMap<String, u32> {
    names.cloned().zip(0..).collect()
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

/// The checksums to verify and those to update.
fn checksums(
    source: &json::Program,
    layout: &Layout,
    names: &Names,
    calculations: &Calculations,
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
            let target = layout.slot(&c.target)?;
            let valid_at = layout.header_at(header).valid_at;
            let number = *names
                .calculations
                .get(&c.calculation)
                .ok_or_else(|| LoadError::missing("calculation", &c.calculation))?;
            let condition = c.if_cond.as_ref().map(|v| expr.condition(v)).transpose()?;
            let always = match &condition {
                None | Some(Condition::Const(true)) => true,
                Some(Condition::Field(Compare::Ne, at, 0)) => *at == valid_at,
                Some(_) => false,
            };
            let own = match calculations.algorithms[number as usize] {
                Algorithm::Csum16 if always => {
                    let inputs = &calculations.all[number as usize].inputs;
                    OwnChecksum::of(layout, header, target, inputs)
                }
                _ => None,
            };
            Ok(Checksum {
                target,
                target_valid_at: valid_at,
                calculation: number,
                condition,
                own,
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
