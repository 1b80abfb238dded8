//! The entries that tables have in the program, as a P4Runtime `WriteRequest` that would insert them.
//!
//! The device id is left for the sender to fill in.

use num_bigint::BigInt;
use num_traits::Zero;

use super::ids::Kind;
use super::message::{Message, Node};
use super::typespec::bytes;
use super::{Builder, constant_bytes};
use crate::annotations;
use crate::diagnostics::Diagnostic;
use crate::elaborate::flat::{FlatEntry, FlatTable};
use crate::eval::{self, Value};
use crate::ir::{Expr, ExprKind, Priority};

impl Builder<'_> {
    /// Or the first entry that P4Runtime has no form for.
    pub(super) fn entries(&self) -> Result<Message, Box<Diagnostic>> {
        let mut updates = Vec::new();
        for table in &self.flat.tables {
            let hidden = annotations::has(&self.program.tables[table.table].annotations, "hidden");
            let entries = table.entries.iter().filter(|_| !hidden);
            for (position, entry) in entries.enumerate() {
                updates.push(Node::Message(self.insertion(table, entry, position)?));
            }
        }
        let mut request = Message::default();
        request.repeated("updates", updates);
        Ok(request)
    }

    fn insertion(
        &self,
        table: &FlatTable,
        entry: &FlatEntry,
        position: usize,
    ) -> Result<Message, Box<Diagnostic>> {
        let declared = &self.program.tables[table.table];
        let mut message = Message::default();
        message.number("table_id", self.symbols.id(Kind::Table, &table.name));
        let ids = self.field_ids(declared.key.iter().map(|k| &k.annotations[..]));
        let mut matches = Vec::new();
        for ((key, set), id) in declared.key.iter().zip(&entry.keyset).zip(ids) {
            let found = match key.match_kind.as_str() {
                "selector" => None,
                kind => field_match(set, kind).ok_or_else(|| no_number(set))?,
            };
            if let Some((kind, value)) = found {
                let mut field = Message::default();
                field.number("field_id", id).message(kind, value);
                matches.push(Node::Message(field));
            }
        }
        message.repeated("match", matches);
        message.message("action", self.entry_action(table, entry)?);
        let needs_priority = declared
            .key
            .iter()
            .any(|k| matches!(k.match_kind.as_str(), "ternary" | "range" | "optional"));
        if needs_priority {
            // Constant entries match in the order of the program; in P4Runtime the largest number wins.
            let by_position = (table.entries.len() - position) as u64;
            let priority = match entry.priority {
                Some(Priority::Table(number)) if !declared.entries_are_const => number,
                _ => by_position,
            };
            message.number("priority", priority);
        }
        message.flag("is_const", declared.entries_are_const || entry.is_const);
        let (mut entity, mut update) = (Message::default(), Message::default());
        entity.message("table_entry", message);
        update.add("type", Node::Symbol("INSERT"));
        update.message("entity", entity);
        Ok(update)
    }

    fn entry_action(
        &self,
        table: &FlatTable,
        entry: &FlatEntry,
    ) -> Result<Message, Box<Diagnostic>> {
        let action = &self.flat.actions[table.actions[entry.action]];
        let ids = self.field_ids(action.params.iter().map(|p| &p.annotations[..]));
        let mut params = Vec::new();
        for (data, id) in entry.data.iter().zip(ids) {
            let value = constant_bytes(data).ok_or_else(|| no_number(data))?;
            let mut param = Message::default();
            param
                .number("param_id", id)
                .add("value", Node::Bytes(value));
            params.push(Node::Message(param));
        }
        let (mut call, mut message) = (Message::default(), Message::default());
        call.number("action_id", self.symbols.id(Kind::Action, &action.name));
        call.repeated("params", params);
        message.message("action", call);
        Ok(message)
    }
}

fn no_number(expr: &Expr) -> Box<Diagnostic> {
    let message = "P4Runtime has no number for this value, so the entries cannot be written";
    let problem = Diagnostic::error("entry-without-number", expr.span, message);
    Box::new(problem.help("leave --p4runtime-entries-files out, or use another type"))
}

/// The kind and value of a match; inside `None` where every value matches, which P4Runtime says by
/// leaving the field out. `None` outside if a value is no number.
fn field_match(set: &Expr, kind: &str) -> Option<Option<(&'static str, Message)>> {
    if matches!(set.kind, ExprKind::Default) {
        return Some(None);
    }
    let mut out = Message::default();
    let kind = match (kind, &set.kind) {
        ("lpm", ExprKind::Mask(value, mask)) => {
            let (value, mask) = (number(value)?, number(mask)?);
            let width = set.ty.width()?;
            let zeros = mask.trailing_zeros().unwrap_or(u64::from(width));
            if mask.is_zero() {
                return Some(None);
            }
            out.add("value", Node::Bytes(bytes(&(value & mask), width)));
            out.number("prefix_len", u64::from(width).saturating_sub(zeros));
            "lpm"
        }
        ("lpm", _) => {
            out.add("value", Node::Bytes(constant_bytes(set)?));
            out.number("prefix_len", set.ty.width()?);
            "lpm"
        }
        ("ternary", ExprKind::Mask(value, mask)) => {
            let (value, mask) = (number(value)?, number(mask)?);
            let width = set.ty.width()?;
            if mask.is_zero() {
                return Some(None);
            }
            out.add("value", Node::Bytes(bytes(&(value & &mask), width)));
            out.add("mask", Node::Bytes(bytes(&mask, width)));
            "ternary"
        }
        ("ternary", _) => {
            let width = set.ty.width().unwrap_or(1);
            out.add("value", Node::Bytes(constant_bytes(set)?));
            out.add("mask", Node::Bytes(bytes(&eval::mask(width), width)));
            "ternary"
        }
        ("range", ExprKind::Range(low, high)) => {
            let (low, high) = (number(low)?, number(high)?);
            let width = set.ty.width()?;
            if low.is_zero() && high == eval::mask(width) {
                return Some(None);
            }
            out.add("low", Node::Bytes(bytes(&low, width)));
            out.add("high", Node::Bytes(bytes(&high, width)));
            "range"
        }
        ("range", _) => {
            let value = constant_bytes(set)?;
            out.add("low", Node::Bytes(value.clone()));
            out.add("high", Node::Bytes(value));
            "range"
        }
        ("optional", _) => {
            out.add("value", Node::Bytes(constant_bytes(set)?));
            "optional"
        }
        _ => {
            out.add("value", Node::Bytes(constant_bytes(set)?));
            "exact"
        }
    };
    Some(Some((kind, out)))
}

/// As stored: negative numbers as their bits.
fn number(expr: &Expr) -> Option<BigInt> {
    match (expr.as_value(), expr.ty.width()) {
        (Some(Value::Int(value)), Some(width)) => Some(eval::wrap(value, width, false)),
        _ => None,
    }
}
