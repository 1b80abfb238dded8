//! Match-action tables.

use ebb_p4_proto::config::action_ref::Scope;
use ebb_p4_proto::config::match_field::{Match, MatchType};
use ebb_p4_proto::config::table::IdleTimeoutBehavior;
use ebb_p4_proto::config::{MatchField, Table as InfoTable};
use serde_json::{Map, Value, json};

use super::field;
use super::objects::{counter_fields, lpf_fields, meter_fields, register_fields, wred_fields};
use super::table::{Prefix, Source, Table, annotations};

/// Annotation of tables whose keys the control plane masks.
const KEY_MASKS: &str = "@dynamic_table_key_masks(1)";

impl Source<'_> {
    pub(super) fn match_tables(&self) -> Vec<Value> {
        self.info
            .tables
            .iter()
            .map(|t| self.match_table(t))
            .collect()
    }

    fn match_table(&self, table: &InfoTable) -> Value {
        let pre = table.preamble.clone().unwrap_or_default();
        let mut made = Table::new(
            self.name(&pre.name),
            pre.id,
            "MatchAction_Direct",
            table.size,
        );
        made.annotations = annotations(&pre.annotations);
        made.key = table.match_fields.iter().map(match_key).collect();
        if table.match_fields.iter().any(needs_priority) {
            made.key.push(field::key(
                field::MATCH_PRIORITY,
                false,
                "Exact",
                field::ty("uint32"),
            ));
        }
        self.add_implementation(table, &mut made);
        self.add_direct_resources(table, &mut made);
        made.attributes.push("EntryScope");
        if pre.annotations.iter().any(|of| of == KEY_MASKS) {
            made.attributes.push("DynamicKeyMask");
        }
        if table.is_const_table {
            made.attributes.push("ConstTable");
        }
        if table.idle_timeout_behavior() == IdleTimeoutBehavior::NotifyControl {
            add_idle_timeout(&mut made);
        }
        let direct = made.kind == "MatchAction_Direct";
        let mut json = made.into_json();
        if let Value::Object(object) = &mut json {
            let constant = table.const_default_action_id != 0;
            object.insert("has_const_default_action".into(), constant.into());
            if direct {
                object.insert("action_specs".into(), self.action_specs(table).into());
            }
        }
        json
    }

    /// With an action profile or selector, entries hold the number of a member or group instead of an action.
    fn add_implementation(&self, table: &InfoTable, made: &mut Table) {
        if table.implementation_id == 0 {
            return;
        }
        let profile = Prefix::ActionProfile.of(table.implementation_id);
        let uint32 = field::ty("uint32");
        match self.selector_of(table.implementation_id) {
            Some(selector) => {
                let id = selector.id();
                made.kind = "MatchAction_Indirect_Selector";
                made.depends_on = vec![id, profile];
                let choices = [field::ACTION_MEMBER_ID, field::SELECTOR_GROUP_ID];
                made.data.push(field::one_of(choices, &uint32));
            }
            None => {
                made.kind = "MatchAction_Indirect";
                made.depends_on = vec![profile];
                made.data
                    .push(field::mandatory(field::ACTION_MEMBER_ID, uint32));
            }
        }
    }

    fn add_direct_resources(&self, table: &InfoTable, made: &mut Table) {
        for &id in &table.direct_resource_ids {
            let is_it =
                |pre: Option<&ebb_p4_proto::config::Preamble>| pre.is_some_and(|p| p.id == id);
            let counters = &self.info.direct_counters;
            if let Some(counter) = counters.iter().find(|c| is_it(c.preamble.as_ref())) {
                made.data.extend(counter_fields(counter.spec.as_ref()));
                made.operations.push("SyncCounters");
            }
            let meters = &self.info.direct_meters;
            if let Some(meter) = meters.iter().find(|m| is_it(m.preamble.as_ref())) {
                made.data.extend(meter_fields(meter.spec.as_ref()));
                made.attributes.push("MeterByteCountAdjust");
            }
        }
        self.add_direct_registers(table, made);
        self.add_direct_filters(table, made);
    }

    fn add_direct_filters(&self, table: &InfoTable, made: &mut Table) {
        let name = table.preamble.as_ref().map_or("", |pre| &pre.name);
        for (index, filter) in self.flat.objects.iter().enumerate() {
            let fields = match filter.extern_name.as_str() {
                "DirectLpf" => lpf_fields(),
                "DirectWred" => wred_fields(),
                _ => continue,
            };
            if self.flat.users(index).any(|user| user.name == name) {
                made.data.extend(fields);
            }
        }
    }

    /// Numbers of their fields are those behind the parameters of the actions.
    fn add_direct_registers(&self, table: &InfoTable, made: &mut Table) {
        let name = table.preamble.as_ref().map_or("", |pre| &pre.name);
        let actions = table.action_refs.iter().filter_map(|of| self.action(of.id));
        let params = actions.flat_map(|action| &action.params);
        let first = params.map(|param| param.id).max().unwrap_or(0) + 1;
        let objects = self.flat.objects.iter().enumerate();
        for (index, register) in objects.filter(|(_, of)| of.extern_name == "DirectRegister") {
            if self.flat.users(index).any(|user| user.name == name) {
                made.data.extend(register_fields(register, first));
                made.operations.push("SyncRegisters");
            }
        }
    }

    fn action(&self, id: u32) -> Option<&ebb_p4_proto::config::Action> {
        let is_it =
            |a: &&ebb_p4_proto::config::Action| a.preamble.as_ref().is_some_and(|p| p.id == id);
        self.info.actions.iter().find(is_it)
    }

    /// The actions of a table, or of a profile that it uses.
    pub(super) fn action_specs(&self, table: &InfoTable) -> Vec<Value> {
        let mut specs = Vec::new();
        for reference in &table.action_refs {
            let Some(action) = self.action(reference.id) else {
                continue;
            };
            let pre = action.preamble.clone().unwrap_or_default();
            let data: Vec<Value> = action.params.iter().map(parameter).collect();
            specs.push(json!({
                "id": pre.id,
                "name": pre.name,
                "action_scope": match reference.scope() {
                    Scope::TableAndDefault => "TableAndDefault",
                    Scope::TableOnly => "TableOnly",
                    Scope::DefaultOnly => "DefaultOnly",
                },
                "annotations": annotations(&reference.annotations),
                "data": data,
            }));
        }
        specs
    }
}

fn parameter(param: &ebb_p4_proto::config::action::Param) -> Value {
    json!({
        "id": param.id,
        "name": param.name,
        "repeated": false,
        "mandatory": true,
        "read_only": false,
        "annotations": annotations(&param.annotations),
        "type": field::bytes(param.bitwidth),
    })
}

fn match_key(of: &MatchField) -> Value {
    let mut notes = annotations(&of.annotations);
    if is_slice(&of.name) {
        let mut note = Map::new();
        note.insert("name".into(), "isFieldSlice".into());
        note.insert("value".into(), "true".into());
        notes.push(note.into());
    }
    let ty = field::bytes(of.bitwidth);
    field::named_key(of.id, &key_name(&of.name), notes, false, match_type(of), ty)
}

fn match_type(of: &MatchField) -> &'static str {
    match &of.r#match {
        Some(Match::MatchType(kind)) => match MatchType::try_from(*kind) {
            Ok(MatchType::Lpm) => "LPM",
            Ok(MatchType::Ternary) => "Ternary",
            Ok(MatchType::Range) => "Range",
            Ok(MatchType::Optional) => "Optional",
            _ => "Exact",
        },
        Some(Match::OtherMatchType(kind)) if kind == "atcam_partition_index" => "ATCAM",
        Some(Match::OtherMatchType(kind)) if kind == "dleft_hash" => "DLEFT_HASH",
        _ => "Exact",
    }
}

fn needs_priority(of: &MatchField) -> bool {
    matches!(match_type(of), "Ternary" | "Range" | "Optional")
}

/// Whether a name ends in `[high:low]`.
fn is_slice(name: &str) -> bool {
    let inside = name
        .rsplit_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    let bounds = inside.and_then(|(inside, _)| inside.split_once(':'));
    bounds.is_some_and(|(high, low)| is_number(high) && is_number(low))
}

/// The name of a key: `[2]` of a stack is `$2`, and validity ends in `$valid`.
fn key_name(name: &str) -> String {
    let mut rest = name
        .strip_suffix(".$valid$")
        .map_or_else(|| name.to_owned(), |of| format!("{of}.$valid"));
    let mut made = String::new();
    while let Some((before, index, behind)) = next_index(&rest) {
        made.push_str(&format!("{before}${index}"));
        rest = behind;
    }
    made + &rest
}

/// The first `[number]`: the text before, the number, the text behind.
fn next_index(text: &str) -> Option<(String, String, String)> {
    text.match_indices('[').find_map(|(at, _)| {
        let (inside, behind) = text[at + 1..].split_once(']')?;
        is_number(inside).then(|| (text[..at].to_owned(), inside.to_owned(), behind.to_owned()))
    })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn add_idle_timeout(made: &mut Table) {
    let poll_only = json!({ "name": "@idletime_precision(1)" });
    made.operations.push("UpdateHitState");
    made.attributes.push("IdleTimeout");
    let states = field::choice(&["ENTRY_IDLE", "ENTRY_ACTIVE"]);
    made.data.push(field::data(field::ENTRY_HIT_STATE, states));
    if !made.annotations.contains(&poll_only) {
        made.data
            .push(field::data(field::ENTRY_TTL, field::defaulted("uint32", 0)));
    }
}
