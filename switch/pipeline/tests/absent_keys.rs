//! Keys that older and other compilers leave out of the JSON. To BMv2 a key that is absent is null, and null is 0,
//! false, an empty text or an empty list (`P4Objects.cpp`: jsoncpp's `asInt`, `asBool`, `asString` of it); a few keys
//! have other defaults, and many are never read.

use std::collections::HashMap;

use ebb_bmv2_json::Program;
use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::source::SourceMap;
use ebb_pipeline::{IngressInput, IngressVerdict, Pipeline};
use ebb_units::Instant;
use serde_json::{Value, json};

/// A program with every list of the format, and what ebb-p4c does not write.
fn whole() -> Value {
    let options = ebb_p4c::preprocess::Options::default();
    let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
    let text = include_str!("whole.p4");
    let compiled = ebb_p4c::compile("whole.p4", text, &options, &mut sources, &diagnostics);
    let compiled = compiled.expect("`ebb-p4c` says why whole.p4 does not compile");
    let mut program: Value = serde_json::from_str(&compiled.json.to_json()).unwrap();
    program["parsers"][0]["parse_states"][0]["parser_ops"]
        .as_array_mut()
        .unwrap()
        .push(json!({"op": "shift", "parameters": [0]}));
    let ingress = &mut program["pipelines"][0];
    let nothing = json!({"name": "nothing", "id": 0, "action_id": 0, "next_node": null});
    ingress["action_calls"] = json!([nothing]);
    let route = table(ingress, "I.route");
    route["key"].as_array_mut().unwrap().push(json!({
        "match_type": "valid", "target": "ethernet", "name": "ethernet.$valid$"}));
    route["key"][1]["mask"] = json!("0x01ff");
    program
}

fn table<'a>(pipeline: &'a mut Value, name: &str) -> &'a mut Value {
    let mut tables = pipeline["tables"].as_array_mut().unwrap().iter_mut();
    tables.find(|t| t["name"] == name).unwrap()
}

/// Keys that BMv2 does not read or has another default for than null: where they are, lists without `[]`, and their
/// names.
const NOT_NEEDED: &[(&str, &str)] = &[
    ("", "program"),
    ("", "__meta__"),
    ("", "enums"),
    ("", "force_arith"),
    ("", "field_lists"),
    ("__meta__", "version"),
    ("__meta__", "compiler"),
    ("headers", "pi_omit"),
    ("header_stacks", "size"),
    ("header_union_stacks", "size"),
    ("header_unions", "pi_omit"),
    ("field_lists", "name"),
    ("parse_vsets", "max_size"),
    ("deparsers", "source_info"),
    ("meter_arrays", "binding"),
    ("meter_arrays", "rate_count"),
    ("counter_arrays", "binding"),
    ("calculations.input", "bitwidth"),
    ("actions", "source_info"),
    ("actions.runtime_data", "name"),
    ("actions.runtime_data", "bitwidth"),
    ("actions.primitives", "source_info"),
    ("pipelines", "source_info"),
    ("pipelines.action_profiles", "max_size"),
    ("pipelines.action_profiles", "source_info"),
    ("pipelines.tables", "max_size"),
    ("pipelines.tables", "actions"),
    ("pipelines.tables", "action_ids"),
    ("pipelines.tables", "base_default_next"),
    ("pipelines.tables", "source_info"),
    ("pipelines.tables.key", "name"),
    ("pipelines.tables.key", "mask"),
    ("pipelines.tables.entries", "source_info"),
    ("pipelines.tables.entries", "priority"),
    ("pipelines.conditionals", "source_info"),
    ("checksums", "type"),
    ("checksums", "update"),
    ("checksums", "verify"),
    ("checksums", "if_cond"),
    ("checksums", "source_info"),
];

/// A key of the JSON: the place of its object as a JSON pointer, and its name.
type Key = (String, String);

/// All keys, each with the kind of its object, outside of operands and lists of successors, whose shape is their own,
/// and without the value of an operand, which everybody writes.
fn keys(json: &Value, place: &str, kind: &str, found: &mut Vec<(Key, String)>) {
    match json {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                keys(item, &format!("{place}/{i}"), kind, found);
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                if name != "value" {
                    found.push(((place.to_owned(), name.clone()), kind.to_owned()));
                }
                if !["value", "next_tables", "source_info"].contains(&name.as_str()) {
                    let below = match kind {
                        "" => name.clone(),
                        _ => format!("{kind}.{name}"),
                    };
                    keys(value, &format!("{place}/{name}"), &below, found);
                }
            }
        }
        _ => {}
    }
}

/// How often a key is looked at, each time in another object.
const EACH: usize = 3;

fn a_few(mut found: Vec<(Key, String)>) -> Vec<(Key, String)> {
    let mut seen = HashMap::new();
    found.retain(|((_, name), kind)| {
        let times = seen.entry((kind.clone(), name.clone())).or_insert(0);
        *times += 1;
        *times <= EACH
    });
    found
}

fn without(program: &Value, (place, name): &Key) -> Value {
    let mut changed = program.clone();
    let object = changed.pointer_mut(place).unwrap().as_object_mut().unwrap();
    object.shift_remove(name);
    changed
}

fn is_null(value: &Value) -> bool {
    let empty = value.as_array().is_some_and(Vec::is_empty);
    empty || [json!(null), json!(0), json!(false), json!("")].contains(value)
}

fn read(program: &Value) -> Result<Program, String> {
    Program::from_json(program.to_string().as_bytes()).map_err(|e| e.to_string())
}

#[test]
fn a_key_that_says_no_more_than_null_may_be_absent_or_null() {
    let program = whole();
    let expected = read(&program).unwrap();
    let mut found = Vec::new();
    keys(&program, "", "", &mut found);
    found.retain(|((place, name), kind)| {
        let has_another_default = NOT_NEEDED.contains(&(kind, name));
        is_null(&program.pointer(place).unwrap()[name]) && !has_another_default
    });
    let found = a_few(found);
    assert!(found.len() > 40, "only {} keys", found.len());
    for (key, kind) in &found {
        let absent = read(&without(&program, key));
        let absent = absent.unwrap_or_else(|e| panic!("without {kind}.{}: {e}", key.1));
        assert!(absent == expected, "without {kind}.{}", key.1);
        let mut null = program.clone();
        null.pointer_mut(&key.0).unwrap()[&key.1] = Value::Null;
        let null = read(&null).unwrap_or_else(|e| panic!("null as {kind}.{}: {e}", key.1));
        assert!(null == expected, "null as {kind}.{}", key.1);
    }
}

#[test]
fn a_key_that_bmv2_does_not_need_may_be_absent() {
    let program = whole();
    let mut found = Vec::new();
    keys(&program, "", "", &mut found);
    for (kind, name) in NOT_NEEDED {
        let all = found
            .iter()
            .filter(|(key, of)| of == kind && key.1 == *name);
        let all: Vec<&Key> = all.map(|(key, _)| key).collect();
        assert!(!all.is_empty(), "{kind}.{name} is nowhere");
        for key in all.iter().take(EACH) {
            let problem = |e| format!("without {} at {}: {e}", key.1, key.0);
            let changed = read(&without(&program, key)).map_err(problem).unwrap();
            let loaded = Pipeline::load_interpreted(&changed);
            loaded.map_err(|e| problem(e.to_string())).unwrap();
        }
    }
}

#[test]
fn no_absent_key_is_more_than_an_error() {
    let program = whole();
    let mut found = Vec::new();
    keys(&program, "", "", &mut found);
    let mut refused = 0;
    for (key, _) in &a_few(found) {
        let loaded = read(&without(&program, key))
            .and_then(|p| Pipeline::load_interpreted(&p).map_err(|e| e.to_string()));
        match loaded {
            Ok(mut pipeline) => {
                // None of these packets may end the switch.
                pipeline.ingress(Instant::ZERO, vec![0x45; 100], &IngressInput::default());
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 50, "only {refused} keys are needed");
}

#[test]
fn a_profile_may_be_named_by_its_table_only() {
    let program = whole();
    let mut old = program.clone();
    let ingress = &mut old["pipelines"][0];
    let profiles = ingress
        .as_object_mut()
        .unwrap()
        .shift_remove("action_profiles")
        .unwrap();
    for name in ["I.pick", "I.balance"] {
        let table = table(ingress, name).as_object_mut().unwrap();
        let profile = table.shift_remove("action_profile").unwrap();
        let listed = profiles
            .as_array()
            .unwrap()
            .iter()
            .find(|p| p["name"] == profile);
        if let Some(selector) = listed.unwrap().get("selector") {
            table.insert("selector".into(), selector.clone());
        }
        table.insert("act_prof_name".into(), profile);
    }
    let mut expected = read(&program).unwrap();
    let mut found = read(&old).unwrap();
    for program in [&mut expected, &mut found] {
        let profiles = &mut program.pipelines[0].action_profiles;
        profiles.sort_by(|a, b| a.name.cmp(&b.name));
        for (id, profile) in (0..).zip(profiles) {
            profile.id = id;
            profile.max_size = u32::MAX;
            profile.source_info = None;
        }
    }
    assert!(found == expected);
    let pipeline = Pipeline::load(&found).unwrap();
    assert!(pipeline.profile("I.members").is_ok() && pipeline.profile("I.choice").is_ok());
}

#[test]
fn two_objects_with_one_id_are_refused() {
    for list in ["headers", "header_unions", "actions"] {
        let mut program = whole();
        program[list][1]["id"] = program[list][0]["id"].clone();
        let error = Pipeline::load(&read(&program).unwrap()).unwrap_err();
        assert!(
            error.to_string().contains("it has the id 0, which"),
            "{error}"
        );
    }
}

#[test]
fn a_direct_register_of_a_table_that_is_missing_is_refused() {
    let mut program = whole();
    program["register_arrays"][0]["binding"] = json!("I.nowhere");
    let error = Pipeline::load(&read(&program).unwrap()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("table I.nowhere, which is not there"),
        "{error}"
    );
}

/// An IPv4 packet whose checksum is `sum`.
fn ipv4(sum: u16) -> Vec<u8> {
    let mut frame = vec![0; 14];
    frame[12..].copy_from_slice(&[0x08, 0x00]);
    frame.extend([0x45, 0, 0, 20, 0, 1, 0, 0, 64, 17]);
    frame.extend(sum.to_be_bytes());
    frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    frame
}

#[test]
fn a_checksum_of_type_ipv4_is_that_of_its_header() {
    let mut program = whole();
    program
        .as_object_mut()
        .unwrap()
        .shift_remove("calculations");
    program["checksums"] =
        json!([{"name": "sum", "id": 0, "type": "ipv4", "target": ["ipv4", "sum"]}]);
    // The action that hashes went with its calculation.
    for action in program["actions"].as_array_mut().unwrap() {
        let primitives = action["primitives"].as_array_mut().unwrap();
        primitives.retain(|p| p["op"] != "modify_field_with_hash_based_offset");
    }
    let mut pipeline = Pipeline::load(&read(&program).unwrap()).unwrap();
    for (sum, errors) in [(0x66d6, 0), (0x1234, 1)] {
        pipeline.ingress(Instant::ZERO, ipv4(sum), &IngressInput::default());
        assert_eq!(pipeline.stats().checksum_errors, errors, "{sum:#x}");
    }
}

#[test]
fn errors_that_are_not_listed_have_the_numbers_behind_those_that_are() {
    let mut program = whole();
    program["errors"] = json!([["Odd", 7]]);
    let mut pipeline = Pipeline::load(&read(&program).unwrap()).unwrap();
    let names: Vec<_> = (7..15).map(|code| pipeline.error_name(code)).collect();
    let expected = [
        Some("Odd"),
        Some("NoError"),
        Some("PacketTooShort"),
        Some("NoMatch"),
        Some("StackOutOfBounds"),
        Some("HeaderTooShort"),
        Some("ParserTimeout"),
        Some("ParserInvalidArgument"),
    ];
    assert_eq!(names, expected);
    let outcome = pipeline.ingress(Instant::ZERO, vec![1, 2], &IngressInput::default());
    assert!(!matches!(outcome.verdict, IngressVerdict::Resubmit { .. }));
    let errors: Vec<_> = pipeline.stats().parser_errors().collect();
    assert_eq!(errors, [(9, 1)]);
}
