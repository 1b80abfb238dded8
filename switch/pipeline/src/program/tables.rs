//! Loads tables, action profiles and the graph in which a pipeline applies them.

use std::collections::HashMap;

use ebb_bmv2_json as json;
use ebb_bmv2_json::{EntryKey, HexStr, KeyTarget, MatchType, TableKind};
use ebb_units::Instant;

use super::arrays::unit;
use super::{Next, Node, TableNode};
use crate::action::Action;
use crate::bits::from_bytes;
use crate::calculation::{Calculation, Calculations, Filled};
use crate::control::{ActionCall, MatchKey, MatchKind, TableAction, TableEntry, bind};
use crate::error::LoadError;
use crate::expr::Compiler;
use crate::ids::{ActionId, ProfileId};
use crate::layout::Layout;
use crate::names::Names;
use crate::profile::{ProfileSpec, Resolved};
use crate::table::{DefaultEntry, DirectMeter, KeyField, Table, TableSpec, needs_priority};
use crate::trace::Source;

/// Size of a table for which the file gives none, as on BMv2.
const DEFAULT_TABLE_SIZE: u32 = 1024;

type Result<T> = std::result::Result<T, LoadError>;

/// Collects tables, profiles and nodes while a program is loaded.
pub(crate) struct Builder<'a> {
    pub layout: &'a Layout,
    pub names: &'a Names,
    pub source: &'a json::Program,
    pub actions: &'a [Action],
    pub calculations: &'a mut Calculations,
    pub filled: Filled,
    pub built: Built,
}

/// The tables of all pipelines, their action profiles, and the nodes in which they are applied.
#[derive(Default)]
pub(crate) struct Built {
    pub tables: Vec<Table>,
    pub table_names: HashMap<String, u32>,
    pub profiles: Vec<ProfileSpec>,
    pub nodes: Vec<Node>,
}

impl Builder<'_> {
    /// Adds the tables and nodes of a pipeline. Returns where it starts.
    pub fn pipeline(&mut self, name: &str) -> Result<Next> {
        let source = self.source;
        let Some(pipeline) = source.pipelines.iter().find(|p| p.name == name) else {
            return Ok(None);
        };
        for profile in &pipeline.action_profiles {
            self.profile(profile)?;
        }
        // All nodes get their numbers first, because they refer to each other.
        let mut numbers = HashMap::new();
        let names = pipeline
            .tables
            .iter()
            .map(|t| &t.name)
            .chain(pipeline.conditionals.iter().map(|c| &c.name))
            .chain(pipeline.action_calls.iter().map(|c| &c.name));
        for (number, name) in (self.built.nodes.len() as u32..).zip(names) {
            if numbers.insert(name.as_str(), number).is_some() {
                return Err(LoadError::new(
                    format!("pipeline {}", pipeline.name),
                    format!("two of its tables or conditions are called {name}"),
                ));
            }
        }
        let go = |name: &Option<String>| -> Result<Next> {
            match name {
                None => Ok(None),
                Some(name) => numbers
                    .get(name.as_str())
                    .copied()
                    .map(Some)
                    .ok_or_else(|| LoadError::missing("table or condition", name)),
            }
        };
        for table in &pipeline.tables {
            let node = self
                .table(table, &go)
                .map_err(|e| e.within(format_args!("table {}", table.name)))?;
            self.built.nodes.push(node);
        }
        let expr = Compiler {
            layout: self.layout,
            registers: &self.names.registers,
            params: &[],
        };
        for c in &pipeline.conditionals {
            let condition = expr
                .condition(&c.expression)
                .map_err(|e| e.within(format_args!("condition {}", c.name)))?;
            self.built.nodes.push(Node::Condition {
                source: Source::from(&c.source_info).or_name(&c.name),
                condition,
                then: go(&c.true_next)?,
                otherwise: go(&c.false_next)?,
            });
        }
        for call in &pipeline.action_calls {
            let action = self.action_by_id(call.action_id)?;
            if !self.actions[action.index()].params.is_empty() {
                return Err(LoadError::new(
                    format!("action call {}", call.name),
                    "its action has parameters, which only a table can give",
                ));
            }
            self.built.nodes.push(Node::Call {
                action: action.0,
                next: go(&call.next_node)?,
            });
        }
        go(&pipeline.init_table)
    }

    fn action_by_id(&self, id: u32) -> Result<ActionId> {
        self.actions
            .iter()
            .position(|a| a.id == id)
            .map(|i| ActionId(i as u32))
            .ok_or_else(|| LoadError::missing("action with id", &id.to_string()))
    }

    fn profile(&mut self, profile: &json::ActionProfile) -> Result<()> {
        let selector = match &profile.selector {
            None => None,
            Some(s) => {
                let (layout, filled) = (self.layout, self.filled);
                let loaded = Calculation::load_selector(layout, &profile.name, s, filled)?;
                Some(self.calculations.add(loaded))
            }
        };
        self.built.profiles.push(ProfileSpec {
            name: profile.name.clone(),
            max_size: profile.max_size,
            selector,
            actions: Vec::new(),
        });
        Ok(())
    }

    fn table(
        &mut self,
        source: &json::Table,
        go: &dyn Fn(&Option<String>) -> Result<Next>,
    ) -> Result<Node> {
        let actions = self.table_actions(source)?;
        let spec = self.spec(source, &actions)?;
        let mut table = Table::new(spec);
        if let Some(d) = &source.default_entry {
            let call = self.call(d.action_id, &d.action_data)?;
            let default = DefaultEntry {
                resolved: Resolved::Action(self.bound(&call)?),
                action: TableAction::Direct(call),
            };
            table.default = Some(default.clone());
            table.program_default = Some(default);
        }
        if let Some(entries) = &source.entries {
            self.initial_entries(&mut table, entries)?;
        }
        let number = self.built.tables.len() as u32;
        let name = source.name.clone();
        if self.built.table_names.insert(name, number).is_some() {
            return Err(LoadError::new("name", "another table has it too"));
        }
        let fixed = fixed_action(&table).filter(|_| self.layout.shortcuts);
        self.built.tables.push(table);
        let by_hit = match (
            source.next_tables.get("__HIT__"),
            source.next_tables.get("__MISS__"),
        ) {
            (None, None) => None,
            (hit, miss) => Some((go(&hit.cloned().flatten())?, go(&miss.cloned().flatten())?)),
        };
        let mut by_action = Vec::new();
        if by_hit.is_none() {
            for action in &actions {
                let name = &self.actions[action.index()].name;
                let next = source.next_tables.get(name).ok_or_else(|| {
                    LoadError::new("next_tables", format!("action {name} is not there"))
                })?;
                by_action.push((action.0, go(next)?));
            }
        }
        let node = TableNode {
            table: number,
            by_action,
            by_hit,
            base: go(&source.base_default_next)?,
        };
        Ok(match fixed {
            Some(action) => Node::Call {
                action,
                next: node.next(false, Some(action)),
            },
            None => Node::Table(node),
        })
    }

    fn table_actions(&self, source: &json::Table) -> Result<Vec<ActionId>> {
        if !source.action_ids.is_empty() {
            return source
                .action_ids
                .iter()
                .map(|id| self.action_by_id(*id))
                .collect();
        }
        source
            .actions
            .iter()
            .map(|name| {
                self.actions
                    .iter()
                    .position(|a| a.name == *name)
                    .map(|i| ActionId(i as u32))
                    .ok_or_else(|| LoadError::missing("action", name))
            })
            .collect()
    }

    fn spec(&mut self, source: &json::Table, actions: &[ActionId]) -> Result<TableSpec> {
        let mut key = Vec::new();
        let mut first = 0;
        for k in &source.key {
            let field = self.key_field(k, first)?;
            first += field.words();
            key.push(field);
        }
        let needs_priority = needs_priority(&key)
            || matches!(source.match_type, MatchType::Ternary | MatchType::Range);
        let lpm_fields = key.iter().filter(|k| k.kind == MatchKind::Lpm).count();
        if lpm_fields > 1 && !needs_priority {
            return Err(LoadError::new("key", "it has more than one lpm field"));
        }
        let profile = match (source.kind, &source.action_profile) {
            (TableKind::Simple, _) => None,
            (_, None) => {
                return Err(LoadError::new(
                    "action_profile",
                    "an indirect table needs one",
                ));
            }
            (_, Some(name)) => {
                let i = self
                    .built
                    .profiles
                    .iter()
                    .position(|p| p.name == *name)
                    .ok_or_else(|| LoadError::missing("action profile", name))?;
                for action in actions {
                    if !self.built.profiles[i].actions.contains(action) {
                        self.built.profiles[i].actions.push(*action);
                    }
                }
                Some(ProfileId(i as u32))
            }
        };
        let meter = match &source.direct_meters {
            None => None,
            Some(name) => {
                let m = self
                    .source
                    .meter_arrays
                    .iter()
                    .find(|m| m.name == *name)
                    .ok_or_else(|| LoadError::missing("direct meter", name))?;
                let target = m.result_target.as_ref().ok_or_else(|| {
                    LoadError::new(format!("direct meter {name}"), "it has no result_target")
                })?;
                Some(DirectMeter {
                    unit: unit(m.unit),
                    adjust: m.adjust_bytes.cast_signed().wrapping_neg(),
                    target: self.layout.slot(target)?,
                })
            }
        };
        let default = source.default_entry.as_ref();
        let entries = source.entries.as_ref().map_or(0, |e| e.len() as u32);
        Ok(TableSpec {
            name: source.name.clone(),
            needs_priority,
            lpm: lpm_fields > 0,
            max_size: source.max_size.unwrap_or(DEFAULT_TABLE_SIZE).max(entries),
            actions: actions.to_vec(),
            profile,
            with_counter: source.with_counters,
            meter,
            support_timeout: source.support_timeout,
            is_const: source
                .entries
                .as_ref()
                .is_some_and(|e| e.iter().all(|e| e.is_const.is_none())),
            const_default_action: match default {
                Some(d) if d.action_const => Some(self.action_by_id(d.action_id)?),
                _ => None,
            },
            const_default_entry: default.is_some_and(|d| d.action_entry_const),
            key,
        })
    }

    fn key_field(&self, key: &json::KeyField, first: usize) -> Result<KeyField> {
        let (slot, kind, name) = match &key.target {
            KeyTarget::Header(h) => {
                let header = self.layout.header_at(self.layout.header(h)?);
                (header.valid_slot(), MatchKind::Valid, h.clone())
            }
            KeyTarget::Field(f) => {
                let kind = match key.match_type {
                    MatchType::Exact => MatchKind::Exact,
                    MatchType::Lpm => MatchKind::Lpm,
                    MatchType::Ternary | MatchType::Optional => MatchKind::Ternary,
                    MatchType::Range => MatchKind::Range,
                    MatchType::Valid => MatchKind::Valid,
                };
                (self.layout.slot(f)?, kind, f.to_string())
            }
        };
        let mask = match &key.mask {
            None => None,
            Some(hex) => Some(
                words(hex, slot.bits)
                    .map_err(|e| e.within(format_args!("mask of key field {name}")))?
                    .into(),
            ),
        };
        Ok(KeyField {
            name: key.name.clone().unwrap_or(name),
            kind,
            slot,
            mask,
            first,
        })
    }

    fn call(&self, action_id: u32, data: &[HexStr]) -> Result<ActionCall> {
        let action = self.action_by_id(action_id)?;
        let params = data
            .iter()
            .zip(&self.actions[action.index()].params)
            .map(|(hex, param)| {
                let bytes = hex
                    .to_bytes()
                    .map_err(|e| LoadError::new("action data", e.to_string()))?;
                if !hex.is_negative() {
                    return Ok(bytes);
                }
                // A negative number is given as two's complement in the width of the parameter.
                let bits = param.slot.bits;
                let value = -num_bigint::BigInt::from_bytes_be(num_bigint::Sign::Plus, &bytes);
                let modulus = num_bigint::BigInt::from(1) << bits;
                Ok((value + modulus).to_bytes_be().1)
            })
            .collect::<Result<Vec<_>>>()?;
        if params.len() != data.len() {
            return Err(LoadError::new(
                "action data",
                format!(
                    "{} values are more than the action has parameters",
                    data.len()
                ),
            ));
        }
        Ok(ActionCall { action, params })
    }

    fn bound(&self, call: &ActionCall) -> Result<crate::profile::BoundAction> {
        bind(self.actions, call).map_err(|e| LoadError::new("action data", e.to_string()))
    }

    fn initial_entries(&self, table: &mut Table, entries: &[json::Entry]) -> Result<()> {
        // In the file lower numbers have precedence, in P4Runtime higher ones.
        let lowest = entries.iter().filter_map(|e| e.priority).max().unwrap_or(0);
        for (i, e) in entries.iter().enumerate() {
            let call = self.call(e.action_entry.action_id, &e.action_entry.action_data)?;
            let action = Resolved::Action(self.bound(&call)?);
            let priority = match e.priority {
                Some(p) if table.spec.needs_priority => {
                    i32::try_from(lowest.saturating_sub(p).saturating_add(1)).unwrap_or(i32::MAX)
                }
                None if table.spec.needs_priority => (entries.len() - i) as i32,
                _ => 0,
            };
            let key = e
                .match_key
                .iter()
                .map(match_key)
                .collect::<Result<Vec<_>>>()?;
            let entry = TableEntry {
                key,
                priority,
                action: TableAction::Direct(call),
                idle_timeout: None,
                metadata: Vec::new(),
            };
            table
                .insert(entry, action, Instant::ZERO, e.is_const != Some(false))
                .map_err(|e| LoadError::new(format!("entry {i}"), e.to_string()))?;
        }
        Ok(())
    }
}

/// The action of a table that can do nothing else and counts nothing. Compilers make such tables of
/// statements.
fn fixed_action(table: &Table) -> Option<u32> {
    let spec = &table.spec;
    if !spec.key.is_empty() || !spec.const_default_entry || spec.notes_hits() {
        return None;
    }
    match &table.default.as_ref()?.resolved {
        Resolved::Action(bound) if bound.data.is_empty() => Some(bound.action),
        _ => None,
    }
}

fn match_key(key: &EntryKey) -> Result<MatchKey> {
    let bytes = |hex: &HexStr| {
        hex.to_bytes()
            .map_err(|e| LoadError::new("entry", e.to_string()))
    };
    Ok(match key {
        EntryKey::Exact { key } => MatchKey::Exact(bytes(key)?),
        EntryKey::Lpm { key, prefix_length } => MatchKey::Lpm {
            value: bytes(key)?,
            prefix_len: *prefix_length,
        },
        EntryKey::Ternary { key, mask } | EntryKey::Optional { key, mask } => MatchKey::Ternary {
            value: bytes(key)?,
            mask: bytes(mask)?,
        },
        EntryKey::Range { start, end } => MatchKey::Range {
            low: bytes(start)?,
            high: bytes(end)?,
        },
        EntryKey::Valid { key } => MatchKey::Valid(*key),
    })
}

fn words(hex: &HexStr, bits: u32) -> Result<Vec<u64>> {
    let bytes = hex
        .to_bytes()
        .map_err(|e| LoadError::new("value", e.to_string()))?;
    from_bytes(&bytes, bits)
        .ok_or_else(|| LoadError::new("value", format!("{} has more than {bits} bits", hex.0)))
}
