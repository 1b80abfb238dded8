//! Tables and actions.

use ebb_p4_proto::config::action::Param;
use ebb_p4_proto::config::action_ref::Scope;
use ebb_p4_proto::config::match_field::Match;
use ebb_p4_proto::config::table::IdleTimeoutBehavior;
use ebb_p4_proto::config::table_action_call::Argument;
use ebb_p4_proto::config::{Action, ActionRef, MatchField, Table, TableActionCall};

use super::ids::Kind;
use super::notes::{HIDDEN, Notes};
use super::visible::VisibleAction;
use super::{Builder, constant_bytes, match_type, saturated};
use crate::annotations;
use crate::elaborate::flat::FlatTable;
use crate::ir;
use crate::types::Type;

/// The size of a table that does not say it, as p4c has it.
const DEFAULT_SIZE: u64 = 1024;

impl Builder<'_> {
    pub(super) fn table(&mut self, table: &FlatTable) -> Table {
        // As with p4c, a program with tables has type info, if only an empty one.
        self.types.used = true;
        let declared = &self.program.tables[table.table];
        let match_fields = self.match_fields(declared);
        let id = |kind, object: Option<usize>| {
            object.map(|index| self.symbols.id(kind, &self.flat.objects[index].name))
        };
        let profile = table.implementation.map(|i| self.flat.profile(i));
        let direct = [
            id(Kind::DirectCounter, table.counters),
            id(Kind::DirectMeter, table.meters),
        ];
        let initial = self.initial_action(table, declared);
        let idle_timeout_behavior = match declared.support_timeout {
            true => IdleTimeoutBehavior::NotifyControl,
            false => IdleTimeoutBehavior::NoTimeout,
        };
        Table {
            preamble: self.preamble(Kind::Table, &table.name, &declared.annotations, HIDDEN),
            match_fields,
            action_refs: self.action_refs(table, declared),
            const_default_action_id: match &initial {
                Some(call) if declared.default_is_const => call.action_id,
                _ => 0,
            },
            initial_default_action: initial,
            implementation_id: id(Kind::ActionProfile, profile).unwrap_or(0),
            direct_resource_ids: direct.into_iter().flatten().collect(),
            size: saturated(table.size.unwrap_or(DEFAULT_SIZE)),
            idle_timeout_behavior: idle_timeout_behavior as i32,
            is_const_table: declared.entries_are_const,
            has_initial_entries: !table.entries.is_empty(),
            other_properties: None,
        }
    }

    fn match_fields(&mut self, table: &ir::Table) -> Vec<MatchField> {
        let ids = self.field_ids(table.key.iter().map(|k| &k.annotations[..]));
        let keys = table.key.iter().zip(ids);
        let keys = keys.filter(|(key, _)| key.match_kind != "selector");
        keys.map(|(key, id)| {
            let (type_name, width) = self.types.scalar(&key.expr.ty);
            let notes = Notes::of(&key.annotations, &[]);
            let kind = match_type(&key.match_kind).map_or_else(
                || Match::OtherMatchType(key.match_kind.clone()),
                |kind| Match::MatchType(kind as i32),
            );
            MatchField {
                id,
                name: key.name.clone().unwrap_or_default(),
                annotations: notes.annotations,
                structured_annotations: notes.structured_annotations,
                doc: notes.doc,
                // Errors have no width that a controller could know.
                bitwidth: if key.expr.ty == Type::Error { 0 } else { width },
                r#match: Some(kind),
                type_name,
                ..MatchField::default()
            }
        })
        .collect()
    }

    fn action_refs(&self, table: &FlatTable, declared: &ir::Table) -> Vec<ActionRef> {
        let refs = table.actions.iter().zip(&declared.actions);
        refs.map(|(action, reference)| {
            let list = &reference.annotations;
            let notes = Notes::of(list, HIDDEN);
            let scope = if annotations::has(list, "tableonly") {
                Scope::TableOnly
            } else if annotations::has(list, "defaultonly") {
                Scope::DefaultOnly
            } else {
                Scope::TableAndDefault
            };
            let action = &self.flat.actions[*action];
            ActionRef {
                id: self.symbols.id(Kind::Action, &action.name),
                scope: scope as i32,
                annotations: notes.annotations,
                structured_annotations: notes.structured_annotations,
                ..ActionRef::default()
            }
        })
        .collect()
    }

    fn initial_action(&self, table: &FlatTable, declared: &ir::Table) -> Option<TableActionCall> {
        let call = declared.default_action.as_ref()?;
        let action = &self.flat.actions[table.actions[call.action_ref]];
        let ids = self.field_ids(action.params.iter().map(|p| &p.annotations[..]));
        let argument = |(data, param_id)| {
            let value = constant_bytes(data)?;
            Some(Argument { param_id, value })
        };
        Some(TableActionCall {
            action_id: self.symbols.id(Kind::Action, &action.name),
            arguments: table
                .default_data
                .iter()
                .zip(ids)
                .filter_map(argument)
                .collect(),
        })
    }

    pub(super) fn action(&mut self, action: &VisibleAction<'_>) -> Action {
        let ids = self.field_ids(action.params.iter().map(|p| &p.annotations[..]));
        let params = action.params.iter().zip(ids).map(|(param, id)| {
            let (type_name, bitwidth) = self.types.scalar(&param.ty);
            let notes = Notes::of(&param.annotations, HIDDEN);
            Param {
                id,
                name: param.own_name(),
                annotations: notes.annotations,
                structured_annotations: notes.structured_annotations,
                doc: notes.doc,
                bitwidth,
                type_name,
                ..Param::default()
            }
        });
        let params = params.collect();
        Action {
            preamble: self.preamble(Kind::Action, &action.name, action.annotations, HIDDEN),
            params,
        }
    }
}
