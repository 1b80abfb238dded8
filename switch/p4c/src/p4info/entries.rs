//! The entries that tables have in the program, as a P4Runtime `WriteRequest` that would insert them.
//!
//! The device id is left for the sender to fill in.

use ebb_p4_proto::p4::action::Param;
use ebb_p4_proto::p4::entity::Entity as OneEntity;
use ebb_p4_proto::p4::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use ebb_p4_proto::p4::table_action::Type as ActionType;
use ebb_p4_proto::p4::{
    Action, Entity, FieldMatch, TableAction, TableEntry, Update, WriteRequest, update,
};
use num_bigint::BigInt;
use num_traits::Zero;

use super::ids::Kind;
use super::type_info::bytes;
use super::{Builder, constant_bytes, saturated};
use crate::annotations;
use crate::diagnostics::Diagnostic;
use crate::elaborate::flat::{FlatEntry, FlatTable};
use crate::eval::{self, Value};
use crate::ir::{Expr, ExprKind, Priority};

impl Builder<'_> {
    /// The request, or the first entry that P4Runtime has no form for.
    pub(super) fn entries(&self) -> Result<WriteRequest, Box<Diagnostic>> {
        let mut updates = Vec::new();
        for table in &self.flat.tables {
            let hidden = annotations::has(&self.program.tables[table.table].annotations, "hidden");
            let entries = table.entries.iter().filter(|_| !hidden);
            for (position, entry) in entries.enumerate() {
                let entry = self.table_entry(table, entry, position)?;
                updates.push(Update {
                    r#type: update::Type::Insert as i32,
                    entity: Some(Entity {
                        entity: Some(OneEntity::TableEntry(entry)),
                    }),
                });
            }
        }
        Ok(WriteRequest {
            updates,
            ..WriteRequest::default()
        })
    }

    fn table_entry(
        &self,
        table: &FlatTable,
        entry: &FlatEntry,
        position: usize,
    ) -> Result<TableEntry, Box<Diagnostic>> {
        let declared = &self.program.tables[table.table];
        let ids = self.field_ids(declared.key.iter().map(|k| &k.annotations[..]));
        let mut matches = Vec::new();
        for ((key, set), field_id) in declared.key.iter().zip(&entry.keyset).zip(ids) {
            let found = match key.match_kind.as_str() {
                "selector" => None,
                kind => field_match(set, kind).ok_or_else(|| no_number(set))?,
            };
            matches.extend(found.map(|kind| FieldMatch {
                field_id,
                field_match_type: Some(kind),
            }));
        }
        let needs_priority = declared
            .key
            .iter()
            .any(|k| matches!(k.match_kind.as_str(), "ternary" | "range" | "optional"));
        // Constant entries match in the order of the program; in P4Runtime the largest number wins.
        let by_position = (table.entries.len() - position) as u64;
        let priority = match entry.priority {
            _ if !needs_priority => 0,
            Some(Priority::Table(number)) if !declared.entries_are_const => number,
            _ => by_position,
        };
        Ok(TableEntry {
            table_id: self.symbols.id(Kind::Table, &table.name),
            r#match: matches,
            action: Some(self.entry_action(table, entry)?),
            priority: saturated(priority),
            is_const: declared.entries_are_const || entry.is_const,
            ..TableEntry::default()
        })
    }

    fn entry_action(
        &self,
        table: &FlatTable,
        entry: &FlatEntry,
    ) -> Result<TableAction, Box<Diagnostic>> {
        let action = &self.flat.actions[table.actions[entry.action]];
        let ids = self.field_ids(action.params.iter().map(|p| &p.annotations[..]));
        let mut params = Vec::new();
        for (data, param_id) in entry.data.iter().zip(ids) {
            let value = constant_bytes(data).ok_or_else(|| no_number(data))?;
            params.push(Param { param_id, value });
        }
        let action_id = self.symbols.id(Kind::Action, &action.name);
        Ok(TableAction {
            r#type: Some(ActionType::Action(Action { action_id, params })),
        })
    }
}

fn no_number(expr: &Expr) -> Box<Diagnostic> {
    let message = "P4Runtime has no number for this value, so the entries cannot be written";
    let problem = Diagnostic::error("entry-without-number", expr.span, message);
    Box::new(problem.help("leave --p4runtime-entries-files out, or use another type"))
}

/// How a field matches. `Some(None)`: every value does, which P4Runtime says by leaving the field out. `None`: a value
/// is no number.
fn field_match(set: &Expr, kind: &str) -> Option<Option<FieldMatchType>> {
    if matches!(set.kind, ExprKind::Default) {
        return Some(None);
    }
    Some(Some(match (kind, &set.kind) {
        ("lpm" | "ternary", ExprKind::Mask(value, mask)) => {
            let (value, mask) = (number(value)?, number(mask)?);
            let width = set.ty.width()?;
            if mask.is_zero() {
                return Some(None);
            }
            let value = bytes(&(value & &mask), width);
            if kind == "lpm" {
                let zeros = mask.trailing_zeros().unwrap_or(u64::from(width));
                FieldMatchType::Lpm(Lpm {
                    value,
                    prefix_len: saturated(u64::from(width).saturating_sub(zeros)),
                })
            } else {
                let mask = bytes(&mask, width);
                FieldMatchType::Ternary(Ternary { value, mask })
            }
        }
        ("lpm", _) => FieldMatchType::Lpm(Lpm {
            value: constant_bytes(set)?,
            prefix_len: saturated(set.ty.width()?),
        }),
        ("ternary", _) => {
            let width = set.ty.width().unwrap_or(1);
            FieldMatchType::Ternary(Ternary {
                value: constant_bytes(set)?,
                mask: bytes(&eval::mask(width), width),
            })
        }
        ("range", ExprKind::Range(low, high)) => {
            let (low, high) = (number(low)?, number(high)?);
            let width = set.ty.width()?;
            if low.is_zero() && high == eval::mask(width) {
                return Some(None);
            }
            FieldMatchType::Range(Range {
                low: bytes(&low, width),
                high: bytes(&high, width),
            })
        }
        ("range", _) => {
            let value = constant_bytes(set)?;
            FieldMatchType::Range(Range {
                low: value.clone(),
                high: value,
            })
        }
        ("optional", _) => FieldMatchType::Optional(Optional {
            value: constant_bytes(set)?,
        }),
        _ => FieldMatchType::Exact(Exact {
            value: constant_bytes(set)?,
        }),
    }))
}

/// The number as it is stored: a negative one as its bits.
fn number(expr: &Expr) -> Option<BigInt> {
    match (expr.as_value(), expr.ty.width()) {
        (Some(Value::Int(value)), Some(width)) => Some(eval::wrap(value, width, false)),
        _ => None,
    }
}
