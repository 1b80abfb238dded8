//! Tables: keys, action lists, entries, action profiles, direct resources.

use ebb_bmv2_json as json;
use num_bigint::BigInt;
use num_traits::{One, Zero};

use super::backend::{Backend, hex};
use super::controls::{DEFAULT_SIZE, Pipeline};
use super::psa;
use super::successors::Successors;
use crate::diagnostics::Diagnostic;
use crate::elaborate::flat::{FlatEntry, FlatTable};
use crate::eval::{self, Value};
use crate::ir::{Callee, Expr, ExprKind, Priority, Table};

impl Pipeline<'_, '_> {
    /// Adds the node of a table; returns the name of the node to enter, which may be an action before it
    /// that computes the key.
    pub(super) fn table(&mut self, index: usize, successors: &Successors) -> String {
        let flat = &self.backend.flat.tables[index];
        let declared = &self.backend.program.tables[flat.table];
        let span = declared.span;
        let name = flat.name.clone();
        self.backend.node_names.take(&name);

        let ((key, selector), before) = self.backend.apart(|b| b.key(flat, declared));
        let is_lpm = |k: &&json::KeyField| k.match_type == json::MatchType::Lpm;
        if key.iter().filter(is_lpm).count() > 1 {
            let message = format!("table `{name}` has more than one lpm key");
            self.backend.error("several-lpm-keys", span, message);
        }

        let kind = self.implementation(flat, selector);
        let backend = &mut *self.backend;
        let actions = flat.actions.iter();
        let action_ids: Vec<u32> = actions.map(|a| backend.action_id(*a)).collect();
        let default_action = declared.default_action.as_ref();
        let default_entry = default_action.map(|call| json::DefaultEntry {
            action_id: action_ids[call.action_ref],
            // BMv2 refuses it in a table with an action profile, where `action_entry_const` is enough.
            action_const: declared.default_is_const && kind == json::TableKind::Simple,
            action_data: backend.action_data(&flat.default_data),
            action_entry_const: declared.default_is_const,
        });
        let entries = (!flat.entries.is_empty()).then(|| backend.entries(flat, &action_ids));
        if let Some(entry) = flat.entries.first()
            && kind != json::TableKind::Simple
        {
            let message = format!(
                "BMv2 has no entries for table `{name}`, since it has an action profile: their actions are no members"
            );
            let help =
                "let the control plane add members and entries, or leave `implementation` out";
            backend.error_with_help("unsupported-entries", entry.span, message, help);
        }
        if flat.entries.iter().any(|e| !e.is_const) {
            let message = format!(
                "BMv2 takes all entries of table `{name}` as constant, ebb-switch does not"
            );
            backend.diagnostics.report(
                Diagnostic::warning("entries-not-const", span, message)
                    .help("write `const entries` if they are not to change"),
            );
        }
        for direct in flat.counters.iter().chain(&flat.meters) {
            let other = backend.direct_tables.insert(*direct, index);
            if let Some(other) = other.filter(|other| *other != index) {
                let name = &backend.flat.objects[*direct].name;
                let message = format!("`{name}` is attached to two tables");
                let other = &backend.program.tables[backend.flat.tables[other].table];
                backend.diagnostics.report(
                    Diagnostic::error("attached-twice", span, message)
                        .note(other.span, "the other one")
                        .help("its cells are those of one table: declare one for each"),
                );
            }
        }
        let object_name = |object: Option<usize>| Some(backend.flat.objects[object?].name.clone());
        let profile = flat
            .implementation
            .map(|object| backend.flat.profile(object));
        let action_name = |action: &usize| backend.flat.actions[*action].name.clone();
        let table = json::Table {
            name: name.clone(),
            source_info: backend.source_info(span),
            match_type: table_match_type(&key),
            key,
            kind,
            action_profile: object_name(profile),
            max_size: Some(backend.max_size(flat)),
            with_counters: flat.counters.is_some(),
            support_timeout: declared.support_timeout,
            direct_meters: object_name(flat.meters),
            action_ids,
            actions: flat.actions.iter().map(action_name).collect(),
            base_default_next: successors.base_default.clone(),
            next_tables: successors.by_action.clone(),
            default_entry,
            entries,
            ..json::Table::default()
        };
        self.tables.push(table);
        if before.is_empty() {
            return name;
        }
        let base = self.backend.generated_name(span);
        let action = self.backend.node_names.unique(&base);
        self.keyless_table(&base, action, before, span, Some(name))
    }

    fn implementation(&mut self, table: &FlatTable, selector: Vec<json::Value>) -> json::TableKind {
        let Some(index) = table.implementation else {
            return json::TableKind::Simple;
        };
        let object = &self.backend.flat.objects[index];
        let arg = |name: &str| object.arg(name);
        let is_selector = matches!(&*object.extern_name, "action_selector" | "ActionSelector");
        // TNA's selectors are made of a profile and a hash.
        let profile = self.backend.flat.profile(index);
        let object = &self.backend.flat.objects[profile];
        let max_size = object.arg("size").and_then(Expr::as_number);
        let algorithm = match arg("hash").map(|hash| &hash.kind) {
            Some(ExprKind::Instance(hash)) => self.backend.hash_algorithm(*hash),
            _ if self.backend.flat.psa.is_some() && is_selector => {
                let named = arg("algo").and_then(psa::algorithm_named);
                if named.is_none() {
                    self.backend
                        .missing("ActionSelector of a custom CRC", object.span);
                }
                named.map(str::to_owned)
            }
            _ => arg("algorithm").and_then(Expr::as_value).map(|v| match v {
                Value::Member(name) => name.clone(),
                _ => String::new(),
            }),
        };
        let index = profile;
        if self.backend.profiles.insert(index) {
            let id = self.backend.profiles.len() as u32 - 1;
            self.profiles.push(json::ActionProfile {
                name: object.name.clone(),
                id,
                source_info: self.backend.source_info(object.span),
                max_size: max_size.unwrap_or(0),
                selector: is_selector.then(|| json::Selector {
                    algo: algorithm.unwrap_or_default(),
                    input: selector.clone(),
                }),
            });
        } else if is_selector {
            // BMv2 has one hash input for each selector.
            let same = self
                .profiles
                .iter()
                .find(|p| p.name == object.name)
                .and_then(|p| p.selector.as_ref())
                .is_some_and(|s| s.input == selector);
            if !same {
                let message = format!(
                    "the tables that share selector `{}` have different selector keys",
                    object.name
                );
                self.backend
                    .error("selector-keys-differ", object.span, message);
            }
        }
        if is_selector {
            json::TableKind::IndirectWs
        } else {
            json::TableKind::Indirect
        }
    }
}

impl Backend<'_> {
    /// The fields that entries match, and those that a selector hashes; what has to be computed for them is emitted.
    fn key(
        &mut self,
        flat: &FlatTable,
        declared: &Table,
    ) -> (Vec<json::KeyField>, Vec<json::Value>) {
        let mut key = Vec::new();
        let mut selector = Vec::new();
        for (expr, element) in flat.key.iter().zip(&declared.key) {
            let Some(field) = self.key_field(expr) else {
                continue;
            };
            if element.match_kind == "selector" {
                selector.push(json::Value::Field(field));
                continue;
            }
            if element.name.is_none() {
                let message = "this key needs a name for the control plane";
                let help = "add @name(\"...\") behind the match kind";
                self.error_with_help("unnamed-key", expr.span, message, help);
            }
            let Some(match_type) = match_type(&element.match_kind) else {
                let message = format!("BMv2 has no match kind `{}`", element.match_kind);
                self.error("unsupported-match-kind", expr.span, message);
                continue;
            };
            key.push(json::KeyField {
                match_type,
                name: element.name.clone(),
                target: json::KeyTarget::Field(field),
                mask: None,
            });
        }
        (key, selector)
    }

    /// The field a key looks at; other expressions are computed into a variable before.
    fn key_field(&mut self, expr: &Expr) -> Option<json::FieldRef> {
        if let ExprKind::Call(call) = &expr.kind
            && let Callee::IsValid(header) = &call.callee
            && let [name] = &self.layout.header_instances(header)[..]
        {
            return Some(json::FieldRef::new(name, "$valid$"));
        }
        self.field_with(expr, expr.span)
    }

    /// How many entries a table takes. Its direct meter needs as many cells, or BMv2 ends.
    pub(super) fn max_size(&self, table: &FlatTable) -> u32 {
        let constant = self.program.tables[table.table].entries_are_const;
        match table.size {
            _ if constant && !table.entries.is_empty() => table.entries.len() as u32,
            Some(size) => u32::try_from(size).unwrap_or(u32::MAX),
            None => DEFAULT_SIZE,
        }
    }

    /// The constant arguments of an action.
    fn action_data(&self, data: &[Expr]) -> Vec<json::HexStr> {
        let argument = |expr: &Expr| {
            let Some(value) = expr.as_value() else {
                let message = "action data must be known at compile time";
                self.error("not-constant", expr.span, message);
                return hex(&BigInt::zero(), 8);
            };
            let width = expr.ty.width().unwrap_or(32);
            hex(&self.member_number(value, &expr.ty), width)
        };
        data.iter().map(argument).collect()
    }

    fn entries(&self, table: &FlatTable, action_ids: &[u32]) -> Vec<json::Entry> {
        let declared = &self.program.tables[table.table];
        let kinds: Vec<&str> = declared.key.iter().map(|k| k.match_kind.as_str()).collect();
        let mut entries = Vec::new();
        let priorities = bmv2_priorities(
            &table.entries,
            declared.largest_priority_wins,
            declared.priority_delta,
        );
        for (entry, priority) in table.entries.iter().zip(priorities) {
            entries.push(json::Entry {
                source_info: self.source_info(entry.span),
                match_key: self.match_key(entry, &kinds),
                action_entry: json::ActionEntry {
                    action_id: action_ids[entry.action],
                    action_data: self.action_data(&entry.data),
                },
                priority: Some(priority),
                is_const: (!declared.entries_are_const).then_some(entry.is_const),
            });
        }
        entries
    }

    fn match_key(&self, entry: &FlatEntry, kinds: &[&str]) -> Vec<json::EntryKey> {
        entry
            .keyset
            .iter()
            .zip(kinds)
            .filter(|(_, kind)| **kind != "selector")
            .filter_map(|(set, kind)| {
                let found = self.entry_key(set, kind);
                if found.is_none() {
                    self.bad_entry_key(set, kind);
                }
                found
            })
            .collect()
    }

    fn bad_entry_key(&self, set: &Expr, kind: &str) {
        let help = match &set.kind {
            ExprKind::Default => "the default action is for what no entry matches",
            ExprKind::Range(..) => "the key of a range is `range`",
            _ => "the key of a mask is `ternary`, that of a prefix `lpm`",
        };
        let message = format!("this set cannot be matched by `{kind}`");
        self.diagnostics
            .error_with_help("bad-entry-key", set.span, message, help);
    }

    fn entry_key(&self, set: &Expr, kind: &str) -> Option<json::EntryKey> {
        let width = set.ty.width().unwrap_or(32);
        let key = |e: &Expr| Some(hex(&self.key_number(e)?, width));
        let (zero, all) = (hex(&BigInt::zero(), width), hex(&eval::mask(width), width));
        Some(match (kind, &set.kind) {
            ("exact", _) => json::EntryKey::Exact { key: key(set)? },
            ("lpm", ExprKind::Mask(value, mask)) => json::EntryKey::Lpm {
                key: key(value)?,
                prefix_length: prefix_length(&self.key_number(mask)?, width)?,
            },
            ("lpm", ExprKind::Default) => json::EntryKey::Lpm {
                key: zero,
                prefix_length: 0,
            },
            ("lpm", _) => json::EntryKey::Lpm {
                key: key(set)?,
                prefix_length: width,
            },
            ("ternary", ExprKind::Mask(value, mask)) => json::EntryKey::Ternary {
                key: hex(&(self.key_number(value)? & self.key_number(mask)?), width),
                mask: key(mask)?,
            },
            ("ternary" | "optional", ExprKind::Default) => json::EntryKey::Ternary {
                key: zero.clone(),
                mask: zero,
            },
            ("ternary" | "optional", _) => json::EntryKey::Ternary {
                key: key(set)?,
                mask: all,
            },
            ("range", ExprKind::Range(low, high)) => json::EntryKey::Range {
                start: key(low)?,
                end: key(high)?,
            },
            ("range", ExprKind::Default) => json::EntryKey::Range {
                start: zero,
                end: all,
            },
            ("range", _) => json::EntryKey::Range {
                start: key(set)?,
                end: key(set)?,
            },
            _ => return None,
        })
    }

    /// The bits of a constant that goes into a key; members of enums and errors are numbers there.
    pub(super) fn key_number(&self, expr: &Expr) -> Option<BigInt> {
        let value = self.member_number(expr.as_value()?, &expr.ty);
        Some(eval::wrap(&value, expr.ty.width().unwrap_or(32), false))
    }
}

/// BMv2's priorities, where the smallest number wins, of P4's (specification, section 14.2.1.4): an entry
/// without one follows its predecessor at a distance of `delta`.
fn bmv2_priorities(entries: &[FlatEntry], largest_wins: bool, delta: u64) -> Vec<i64> {
    let mut last: Option<u64> = None;
    let first = (entries.len() as u64)
        .saturating_sub(1)
        .saturating_mul(delta)
        + 1;
    let mut numbers = Vec::new();
    for entry in entries {
        let number = match (entry.priority, last, largest_wins) {
            (Some(Priority::Table(number) | Priority::Bmv2(number)), ..) => number,
            (None, None, true) => first,
            (None, None, false) => 1,
            (None, Some(last), true) => last.saturating_sub(delta),
            (None, Some(last), false) => last.saturating_add(delta),
        };
        last = Some(number);
        numbers.push(number);
    }
    let raw = entries
        .iter()
        .any(|e| matches!(e.priority, Some(Priority::Bmv2(_))));
    if raw {
        // With p4c the annotation is the number, and the others count from 1 by position.
        let positions = 1u64..;
        let chosen = entries
            .iter()
            .zip(positions)
            .map(|(e, position)| match e.priority {
                Some(Priority::Table(number) | Priority::Bmv2(number)) => number,
                None => position,
            });
        numbers = chosen.collect();
    }
    let top = numbers.iter().copied().max().unwrap_or(0);
    let flip = largest_wins && !raw;
    let bmv2 = numbers.iter().map(|n| if flip { top - n + 1 } else { *n });
    bmv2.map(|n| i64::try_from(n).unwrap_or(i64::MAX)).collect()
}

fn match_type(kind: &str) -> Option<json::MatchType> {
    Some(match kind {
        "exact" | "atcam_partition_index" | "dleft_hash" => json::MatchType::Exact,
        "lpm" => json::MatchType::Lpm,
        // BMv2 has no optional match: it is a ternary one whose mask is all or nothing.
        "ternary" | "optional" => json::MatchType::Ternary,
        "range" => json::MatchType::Range,
        _ => return None,
    })
}

fn table_match_type(key: &[json::KeyField]) -> json::MatchType {
    let strongest = [
        json::MatchType::Range,
        json::MatchType::Ternary,
        json::MatchType::Lpm,
    ];
    let mut strongest = strongest.into_iter();
    strongest
        .find(|wanted| key.iter().any(|k| k.match_type == *wanted))
        .unwrap_or(json::MatchType::Exact)
}

/// The number of leading ones of a mask; none if not only zeros follow.
fn prefix_length(mask: &BigInt, width: u32) -> Option<u32> {
    let zeros = u32::try_from(mask.trailing_zeros().unwrap_or(u64::from(width)))
        .ok()?
        .min(width);
    let expected = (BigInt::one() << width) - (BigInt::one() << zeros);
    (*mask == expected).then_some(width - zeros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_ones_then_zeros() {
        let length = |mask: u32| prefix_length(&mask.into(), 32);
        assert_eq!(length(0xffff_0000), Some(16));
        assert_eq!(length(0), Some(0));
        assert_eq!(length(u32::MAX), Some(32));
        assert_eq!(length(0xff00_ff00), None);
    }

    #[test]
    fn the_strongest_key_names_the_table() {
        let key = |match_type| json::KeyField {
            match_type,
            name: None,
            target: json::KeyTarget::Field(json::FieldRef::new("h", "f")),
            mask: None,
        };
        let keys = [key(json::MatchType::Exact), key(json::MatchType::Lpm)];
        assert_eq!(table_match_type(&keys), json::MatchType::Lpm);
    }
}
