//! The schema of BF Runtime.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ebb_p4c::diagnostics::Diagnostics;
use serde_json::{Value, json};

use crate::tofino::{check, pipeline};

/// The schema of a program with `ingress` in its ingress control.
fn schema(more: &str, ingress: &str, apply: &str) -> Value {
    of("t.p4", &pipeline(more, ingress, apply), Vec::new())
}

fn of(name: &str, text: &str, include_dirs: Vec<PathBuf>) -> Value {
    let program = check(name, text, include_dirs).unwrap_or_else(|errors| panic!("{errors}"));
    let diagnostics = Diagnostics::default();
    let made = ebb_p4c::control_plane(&program, &diagnostics, &mut |_, _| {});
    made.expect("a schema").bf_rt
}

/// The tables by name.
fn tables(schema: &Value) -> BTreeMap<String, Value> {
    let list = schema["tables"].as_array().expect("tables").iter();
    list.map(|t| (t["name"].as_str().expect("a name").to_owned(), t.clone()))
        .collect()
}

/// Names of the data fields of a table.
fn data(table: &Value) -> Vec<&str> {
    let fields = table["data"].as_array().expect("data").iter();
    fields
        .filter_map(|f| f["singleton"]["name"].as_str())
        .collect()
}

/// Tables and objects of several pipelines begin with the name of theirs, in P4Info too, but actions do not. An object
/// at the top level is one of each pipeline that uses it.
#[test]
fn names_of_several_pipelines_begin_with_them() {
    let text = pipeline(
        "Register<bit<16>, bit<9>>(512, 7) seen;",
        "RegisterAction<bit<16>, bit<9>, bit<16>>(seen) next = {
             void apply(inout bit<16> value, out bit<16> result) { result = value; value = value + 1; }
         };
         action to(PortId_t port) { tm.ucast_egress_port = port; }
         table t { key = { hdr.h.a : exact; } actions = { to; } size = 64; }",
        "t.apply(); hdr.h.b = next.execute(0);",
    );
    let second = "Pipeline(IP(), I(), ID(), EP(), E(), ED()) second;\nSwitch(pipe, second) main;";
    let text = text.replace("Switch(pipe) main;", second);
    let program = check("t.p4", &text, Vec::new()).unwrap_or_else(|errors| panic!("{errors}"));
    let diagnostics = Diagnostics::default();
    let made = ebb_p4c::control_plane(&program, &diagnostics, &mut |_, _| {}).expect("a schema");
    let names: Vec<String> = tables(&made.bf_rt).into_keys().collect();
    let expected = ["pipe", "second"]
        .map(|pipe| ["I.t", "IP.$PORT_METADATA", "seen"].map(|name| format!("{pipe}.{name}")));
    assert_eq!(names, expected.concat());
    let info = &made.p4info.p4info;
    let table = |name: &str| {
        let named = |pre: &&ebb_p4_proto::config::Preamble| pre.name == name;
        let all = info.tables.iter().filter_map(|t| t.preamble.as_ref());
        all.clone().find(named).map(|pre| pre.id)
    };
    // As p4c numbers them: by the name with that of the pipeline, of one pipeline too.
    let id = table("pipe.I.t").expect("the table");
    assert_eq!(id, schema_of_one(&text, second)["pipe.I.t"]["id"]);
    assert!(table("second.I.t").is_some_and(|other| other != id));
    let actions = info.actions.iter().filter_map(|a| a.preamble.as_ref());
    assert!(actions.clone().any(|pre| pre.name == "I.to"));
    assert!(actions.clone().all(|pre| !pre.name.contains("pipe.")));
}

/// The tables of the program with its first pipeline alone.
fn schema_of_one(text: &str, mains: &str) -> BTreeMap<String, Value> {
    tables(&of(
        "t.p4",
        &text.replace(mains, "Switch(pipe) main;"),
        Vec::new(),
    ))
}

#[test]
fn a_match_table_has_key_actions_and_resources() {
    let schema = schema(
        "",
        "DirectCounter<bit<32>>(CounterType_t.PACKETS_AND_BYTES) counted;
         action to(PortId_t port) { counted.count(); tm.ucast_egress_port = port; }
         action none() { counted.count(); }
         table t {
             key = { hdr.h.a[7:0] : ternary @name(\"hdr.h.a[7:0]\"); hdr.h.isValid() : exact; }
             actions = { to; @defaultonly none; }
             const default_action = none();
             counters = counted;
             idle_timeout = true;
             size = 64;
         }",
        "t.apply();",
    );
    let found = &tables(&schema)["pipe.I.t"];
    assert_eq!(found["table_type"], "MatchAction_Direct");
    assert_eq!(found["size"], 64);
    assert_eq!(found["has_const_default_action"], true);
    let keys: Vec<_> = found["key"].as_array().expect("keys").iter().collect();
    let names: Vec<_> = keys
        .iter()
        .map(|k| (&k["name"], &k["match_type"]))
        .collect();
    let expected = [
        ("hdr.h.a[7:0]", "Ternary"),
        ("hdr.h.$valid", "Exact"),
        ("$MATCH_PRIORITY", "Exact"),
    ]
    .map(|(name, kind)| (json!(name), json!(kind)));
    assert_eq!(
        names,
        expected.iter().map(|(n, k)| (n, k)).collect::<Vec<_>>()
    );
    assert_eq!(
        keys[0]["annotations"][0],
        json!({"name": "isFieldSlice", "value": "true"})
    );
    assert_eq!(found["action_specs"][0]["name"], "I.to");
    assert_eq!(
        found["action_specs"][0]["data"][0]["type"],
        json!({"type": "bytes", "width": 9})
    );
    assert_eq!(found["action_specs"][1]["action_scope"], "DefaultOnly");
    let fields = [
        "$COUNTER_SPEC_BYTES",
        "$COUNTER_SPEC_PKTS",
        "$ENTRY_HIT_STATE",
        "$ENTRY_TTL",
    ];
    assert_eq!(data(found), fields);
    assert_eq!(
        found["supported_operations"],
        json!(["SyncCounters", "UpdateHitState"])
    );
    assert_eq!(found["attributes"], json!(["EntryScope", "IdleTimeout"]));
}

#[test]
fn a_selector_is_three_tables() {
    let schema = schema(
        "",
        "Hash<bit<16>>(HashAlgorithm_t.CRC16) hash;
         ActionProfile(16) members;
         ActionSelector(members, hash, SelectorMode_t.FAIR, 8, 2) groups;
         action to(PortId_t port) { tm.ucast_egress_port = port; }
         table t {
             key = { hdr.h.a : exact; hdr.h.b : selector; }
             actions = { to; }
             implementation = groups;
         }",
        "t.apply();",
    );
    let found = tables(&schema);
    let (members, groups) = (&found["pipe.I.members"], &found["pipe.I.groups"]);
    assert_eq!(
        found["pipe.I.t"]["table_type"],
        "MatchAction_Indirect_Selector"
    );
    assert_eq!(
        found["pipe.I.t"]["depends_on"],
        json!([groups["id"], members["id"]])
    );
    assert_eq!(
        (&groups["table_type"], &groups["size"]),
        (&json!("Selector"), &json!(2))
    );
    assert_eq!(members["id"].as_u64().map(|id| id >> 24), Some(0x81));
    assert_eq!(groups["id"].as_u64().map(|id| id >> 24), Some(0x82));
    assert_eq!(
        found["pipe.I.groups_get_member"]["depends_on"],
        json!([groups["id"]])
    );
    assert_eq!(members["action_specs"][0]["name"], "I.to");
}

#[test]
fn objects_have_tables_of_their_own() {
    let schema = schema(
        "struct pair { bit<32> low; bit<16> high; }",
        "Register<bit<16>, bit<9>>(512, 7) seen;
         Register<pair, bit<9>>(8) pairs;
         Counter<bit<64>, bit<9>>(512, CounterType_t.BYTES) bytes;
         Meter<bit<9>>(4, MeterType_t.PACKETS) meter;
         Lpf<bit<32>, bit<9>>(16) low_pass;
         RegisterParam<bit<16>>(5) limit;
         RegisterAction<bit<16>, bit<9>, bit<16>>(seen) count = {
             void apply(inout bit<16> value) { value = value + limit.read(); }
         };
         RegisterAction<pair, bit<9>, bit<16>>(pairs) add = {
             void apply(inout pair value) { value.low = value.low + 1; }
         };",
        "count.execute(ig.ingress_port); add.execute(ig.ingress_port); bytes.count(ig.ingress_port);
         hdr.h.b = (bit<16>)(bit<8>)meter.execute(ig.ingress_port);",
    );
    let found = tables(&schema);
    assert_eq!(data(&found["pipe.I.seen"]), ["I.seen.f1"]);
    assert_eq!(
        data(&found["pipe.I.pairs"]),
        ["I.pairs.low", "I.pairs.high"]
    );
    assert_eq!(data(&found["pipe.I.bytes"]), ["$COUNTER_SPEC_BYTES"]);
    assert_eq!(data(&found["pipe.I.meter"])[0], "$METER_SPEC_CIR_PPS");
    assert_eq!(data(&found["pipe.I.low_pass"]).len(), 4);
    let limit = &found["pipe.I.limit"]["data"][0]["singleton"]["type"];
    assert_eq!(
        *limit,
        json!({"type": "bytes", "width": 16, "default_value": 5})
    );
    assert_eq!(found["pipe.IP.$PORT_METADATA"]["size"], 288);
    let ids: Vec<_> = found.values().filter_map(|t| t["id"].as_u64()).collect();
    let mut distinct = ids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!((ids.len(), distinct.len()), (found.len(), found.len()));
}

/// Files that p4c has made: `EBB_BF_RT` is a folder with a folder for each program, in it `NAME.p4` and `bf-rt.json`;
/// folders of included files are beside. Numbers of fixed fields differ between releases and are not compared, nor are
/// tables that we leave out.
#[test]
#[ignore = "needs EBB_BF_RT"]
fn schemas_are_those_of_p4c() {
    let root = PathBuf::from(std::env::var_os("EBB_BF_RT").expect("EBB_BF_RT"));
    let mut compared = 0;
    for entry in std::fs::read_dir(&root).expect("the folder").flatten() {
        let stored = entry.path().join("bf-rt.json");
        let Ok(stored) = std::fs::read_to_string(stored) else {
            continue;
        };
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path().join(format!("{name}.p4"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let ours = tables(&of(
            &path.to_string_lossy(),
            &text,
            vec![entry.path(), root.clone()],
        ));
        let mut theirs = tables(&serde_json::from_str(&stored).expect("JSON"));
        theirs.retain(|_, table| !is_left_out(table));
        for (name, table) in ours.iter().chain(&theirs) {
            let (ours, theirs) = (ours.get(name), theirs.get(name));
            assert_eq!(
                ours.map(comparable),
                theirs.map(comparable),
                "{name}: {table}"
            );
            compared += 1;
        }
    }
    assert!(compared > 0, "no bf-rt.json below {}", root.display());
}

fn is_left_out(table: &Value) -> bool {
    let kind = table["table_type"].as_str().unwrap_or_default();
    ["Snapshot", "DynHash", "TblDbgCnt"]
        .iter()
        .any(|left_out| kind.starts_with(left_out))
}

/// Without the numbers of fixed fields, and without `$ADT_OFFSET`, which older releases do not have.
fn comparable(value: &Value) -> Value {
    match value {
        Value::Object(object) => object
            .iter()
            .filter(|(key, id)| {
                *key != "id" || !(65_536..1 << 17).contains(&id.as_u64().unwrap_or(0))
            })
            .map(|(key, value)| (key.clone(), comparable(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(list) => list
            .iter()
            .filter(|field| field["singleton"]["name"] != "$ADT_OFFSET")
            .map(comparable)
            .collect(),
        other => other.clone(),
    }
}

/// A hash with one call has three tables, numbered by its name; one with several calls has none.
#[test]
fn a_hash_has_tables_for_inputs_algorithm_and_value() {
    let schema = schema(
        "",
        "Hash<bit<16>>(HashAlgorithm_t.CRC16) single;
         Hash<bit<16>>(HashAlgorithm_t.CRC16) twice;",
        "hdr.h.b = single.get({ hdr.h.a, 8w5, hdr.h.b[7:0] });
         hdr.h.b = hdr.h.b ^ twice.get({ hdr.h.a });
         hdr.h.b = hdr.h.b ^ twice.get({ hdr.h.b });",
    );
    let tables = tables(&schema);
    let [configure, algorithm, compute] = ["configure", "algorithm", "compute"]
        .map(|end| tables[&format!("pipe.I.single.{end}")].clone());
    assert!(!tables.contains_key("pipe.I.twice.compute"));
    let names = ["hdr.h.a", "constant0_8_8w5", "hdr.h.b[7:0]"];
    assert_eq!(data(&configure), names);
    let slice = &configure["data"][0]["singleton"]["container"];
    let of_slice = [0, 1, 2].map(|at| slice[at]["singleton"]["name"].clone());
    assert_eq!(of_slice, ["start_bit", "length", "order"]);
    let actions = [0, 1].map(|at| algorithm["action_specs"][at]["name"].clone());
    assert_eq!(actions, ["pre_defined", "user_defined"]);
    assert_eq!(algorithm["depends_on"], json!([configure["id"]]));
    let key = [0, 1].map(|at| compute["key"][at]["name"].clone());
    assert_eq!(key, [names[0], names[2]]);
    assert_eq!(data(&compute), ["hash_value"]);
    let ids = [&configure, &compute, &algorithm].map(|table| table["id"].as_u64());
    let kinds = ids.map(|id| id.map(|id| id >> 24));
    assert_eq!(kinds, [Some(0x95), Some(0x96), Some(0x97)]);
}

#[test]
fn a_direct_register_is_fields_of_its_table() {
    let schema = schema(
        "struct pair { bit<32> low; bit<16> high; }",
        "DirectRegister<pair>() seen;
         DirectRegisterAction<pair, bit<16>>(seen) count = {
             void apply(inout pair value, out bit<16> before) { before = value.high; value.low = value.low + 1; }
         };
         action counted(PortId_t port) { count.execute(); tm.ucast_egress_port = port; }
         table t {
             key = { hdr.h.a : exact; }
             actions = { counted; NoAction; }
             registers = seen;
         }",
        "t.apply();",
    );
    let found = &tables(&schema)["pipe.I.t"];
    assert_eq!(data(found), ["I.seen.low", "I.seen.high"]);
    let field = &found["data"][1]["singleton"];
    assert_eq!(field["id"], 3, "behind the parameter of the action");
    assert_eq!(field["type"], json!({"type": "bytes", "width": 16}));
    assert_eq!(field["annotations"][0]["value"], "register_data");
    assert_eq!(found["supported_operations"], json!(["SyncRegisters"]));
}
