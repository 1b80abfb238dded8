//! Random programs and packets, through native code, the interpreter and the plain way.

use std::sync::Arc;

use crate::fixture::{self, Fixture, call, expr, field, hex};
use ebb_bmv2_json as json_model;
use ebb_units::Instant;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::control::{
    ActionCall, Group, GroupMember, MatchKey, TableAction, TableEntry, WeightedAction,
};
use crate::program::Program;
use crate::{EgressInput, IngressInput, IngressVerdict, Pipeline};

const WIDTHS: [(&str, &str, u32); 6] = [
    ("h", "kind", 8),
    ("h", "value", 32),
    ("h", "wide", 128),
    ("scalars", "a", 16),
    ("scalars", "b", 8),
    ("scalars", "i", 8),
];

fn any_field() -> impl Strategy<Value = Value> {
    prop::sample::select(WIDTHS.to_vec()).prop_map(|(header, name, _)| field(header, name))
}

fn wrap(e: Value) -> Value {
    json!({"type": "expression", "value": e})
}

/// A number over fields, and over the action's parameter if it has one.
fn number(params: bool) -> impl Strategy<Value = Value> {
    let param = json!({"type": "local", "value": 0});
    let leaf = prop_oneof![
        4 => any_field(),
        2 => (0u64..70).prop_map(hex),
        1 => any::<u64>().prop_map(hex),
        2 => prop::sample::select(if params { vec![param] } else { vec![field("s[1]", "x")] }),
    ];
    let ops = vec![
        "+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=",
        "and", "or",
    ];
    leaf.prop_recursive(3, 12, 2, move |inner| {
        prop_oneof![
            6 => (prop::sample::select(ops.clone()), inner.clone(), inner.clone())
                .prop_map(|(op, a, b)| match op {
                    // Shifts by more than a few thousand bits are cut off where they are seen.
                    "<<" => expr(op, a, expr("&", b, hex(127))),
                    _ => expr(op, a, b),
                }),
            1 => inner.clone().prop_map(|a| expr("~", Value::Null, a)),
            1 => inner.clone().prop_map(|a| expr("not", Value::Null, a)),
            2 => (
                inner.clone(),
                prop::sample::select(vec![1u64, 8, 16, 31, 32, 64, 100]),
                prop::sample::select(vec!["two_comp_mod", "usat_cast", "sat_cast"]),
            )
                .prop_map(|(a, w, op)| expr(op, a, hex(w))),
            2 => (inner.clone(), prop::sample::select(vec![0xffu64, 0xffff, 0xffff_ffff, u64::MAX]))
                .prop_map(|(a, m)| expr("&", a, hex(m))),
            1 => (inner.clone(), inner.clone(), inner).prop_map(|(c, a, b)| {
                let number = |e| expr("b2d", Value::Null, e);
                wrap(json!({"op": "?", "left": number(a), "right": number(b), "cond": expr("d2b", Value::Null, c)}))
            }),
        ]
    })
}

/// One primitive; `at` is its place, from which jumps go forward.
fn primitive(at: usize, params: bool) -> impl Strategy<Value = Value> {
    let header = |name: &str| json!({"type": "header", "value": name});
    let stack = json!({"type": "header_stack", "value": "s"});
    let array = |kind: &str, name: &str| json!({"type": kind, "value": name});
    // Some cells of an array of four, some that there are not, some that need not be compared.
    let index = || {
        let masked = number(params).prop_map(|n| expr("&", n, hex(3)));
        prop_oneof![2 => (0u64..6).prop_map(hex), 1 => masked]
    };
    let register = || prop::sample::select(vec!["r", "wide"]);
    let headers = vec!["h", "s[0]", "s[1]", "s[2]"];
    prop_oneof![
        10 => (any_field(), number(params)).prop_map(|(to, value)| call("assign", &[to, value])),
        1 => number(params).prop_map(move |n| {
            call("assign", &[field("standard_metadata", "egress_spec"), expr("&", n, hex(7))])
        }),
        2 => (number(params), 0usize..5)
            .prop_map(move |(c, on)| call("_jump_if_zero", &[expr("d2b", Value::Null, c), hex((at + 1 + on) as u64)])),
        1 => (0usize..3).prop_map(move |on| call("_jump", &[hex((at + 1 + on) as u64)])),
        1 => (register(), index(), any_field())
            .prop_map(move |(r, i, to)| call("register_read", &[to, array("register_array", r), i])),
        1 => (register(), index(), number(params))
            .prop_map(move |(r, i, n)| call("register_write", &[array("register_array", r), i, n])),
        1 => number(params).prop_map(move |n| call("count", &[array("counter_array", "c"), n])),
        1 => (
            any_field(),
            number(params),
            number(params),
            prop::sample::select(vec!["sum", "hash"]),
        )
            .prop_map(move |(to, base, size, c)| {
                call("modify_field_with_hash_based_offset", &[to, base, array("calculation", c), size])
            }),
        1 => (prop::sample::select(headers.clone()), any::<bool>()).prop_map(move |(h, add)| {
            call(if add { "add_header" } else { "remove_header" }, &[header(h)])
        }),
        1 => (prop::sample::select(headers[1..].to_vec()), prop::sample::select(headers[1..].to_vec()))
            .prop_map(move |(a, b)| call("assign_header", &[header(a), header(b)])),
        1 => (any::<bool>(), 0u64..4)
            .prop_map(move |(push, n)| call(if push { "push" } else { "pop" }, &[stack.clone(), hex(n)])),
        1 => (0u64..60).prop_map(|n| call("truncate", &[hex(n)])),
        1 => (any_field(), 0u64..300).prop_map(|(to, n)| call("modify_field_rng_uniform", &[to, hex(3), hex(n)])),
        1 => number(params).prop_map(|n| call("assert", &[expr("d2b", Value::Null, n)])),
        1 => Just(call("exit", &[])),
        1 => prop::sample::select(vec!["standard_metadata", "copy"])
            .prop_map(move |h| call("mark_to_drop", &[header(h)])),
    ]
}

fn body(params: bool) -> impl Strategy<Value = Vec<Value>> {
    (0usize..8).prop_flat_map(move |n| {
        (0..n)
            .map(|at| primitive(at, params).boxed())
            .collect::<Vec<_>>()
    })
}

/// Table `t`: kind exact or value lpm or both ternary, with or without a selector.
#[derive(Clone, Debug)]
struct Shape {
    key: &'static str,
    with_selector: bool,
    with_counters: bool,
    by_hit: bool,
}

fn shape() -> impl Strategy<Value = Shape> {
    (
        prop::sample::select(vec!["exact", "exact two", "lpm", "ternary", "range"]),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(key, with_selector, with_counters, by_hit)| Shape {
            key,
            with_selector,
            with_counters,
            by_hit,
        })
}

fn key_fields(shape: &Shape) -> Vec<Value> {
    let one = |ty: &str, name: &str| json!({"match_type": ty, "name": name, "target": ["h", name], "mask": null});
    match shape.key {
        "exact" => vec![one("exact", "kind")],
        "exact two" => vec![one("exact", "kind"), one("exact", "value")],
        other => vec![one(other, "value")],
    }
}

/// The fixture with two more actions with a parameter, the table in ingress between two conditions.
fn program(shape: &Shape, bodies: [Vec<Value>; 4], condition: Value) -> Value {
    let [ingress, egress, first, second] = bodies;
    let mut json = Fixture::new(&ingress, &egress).json;
    for (name, id, body) in [("first", 2, first), ("second", 3, second)] {
        let action = json!({"name": name, "id": id, "primitives": body,
            "runtime_data": [{"name": "p", "bitwidth": if id == 2 { 32 } else { 100 }}]});
        json["actions"].as_array_mut().unwrap().push(action);
    }
    json["actions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "none", "id": 4, "primitives": [], "runtime_data": []}));
    let next = if shape.by_hit {
        json!({"__HIT__": "c", "__MISS__": null})
    } else {
        json!({"first": "c", "second": null, "none": "c"})
    };
    let mut table = json!({"name": "t", "id": 2, "key": key_fields(shape), "max_size": 64,
        "match_type": shape.key.split(' ').next(), "type": "simple", "with_counters": shape.with_counters,
        "support_timeout": false, "direct_meters": null, "action_ids": [2, 3, 4],
        "actions": ["first", "second", "none"], "base_default_next": "c", "next_tables": next});
    let pipeline = &mut json["pipelines"][0];
    if shape.with_selector {
        table["type"] = json!("indirect_ws");
        table["action_profile"] = json!("p");
        pipeline["action_profiles"] = json!([{"name": "p", "id": 0, "max_size": 64,
            "selector": {"algo": "crc16", "input": [field("h", "value"), field("scalars", "a")]}}]);
    } else {
        table["default_entry"] = json!({"action_id": 4, "action_const": false, "action_data": [],
            "action_entry_const": false});
    }
    pipeline["tables"].as_array_mut().unwrap().push(table);
    pipeline["tables"][0]["next_tables"]["in"] = json!("t");
    pipeline["conditionals"] = json!([{"name": "c", "id": 0, "true_next": "in2", "false_next": null,
        "expression": expr("d2b", Value::Null, condition)}]);
    let mut again = pipeline["tables"][0].clone();
    again["name"] = json!("in2");
    again["id"] = json!(3);
    again["next_tables"]["in"] = Value::Null;
    pipeline["tables"].as_array_mut().unwrap().push(again);
    json
}

#[derive(Clone, Debug)]
struct Entry {
    kind: u8,
    value: u32,
    prefix: u32,
    second: bool,
    data: u64,
    weights: u32,
}

fn entry() -> impl Strategy<Value = Entry> {
    (
        0u8..4,
        0u32..4,
        28u32..33,
        any::<bool>(),
        any::<u64>(),
        0u32..4,
    )
        .prop_map(|(kind, value, prefix, second, data, weights)| Entry {
            kind,
            value,
            prefix,
            second,
            data,
            weights,
        })
}

/// Two entries may be the same, or a group empty; then there is an error, for all alike.
fn insert(pipeline: &mut Pipeline, shape: &Shape, e: &Entry, priority: i32) -> bool {
    let table = pipeline.table("t").unwrap();
    let number = priority as u32;
    let call = |second: bool, data: u64| ActionCall {
        action: pipeline
            .table_action(table, if second { "second" } else { "first" })
            .unwrap(),
        params: vec![if second {
            data.to_be_bytes().to_vec()
        } else {
            data.to_be_bytes()[4..].to_vec()
        }],
    };
    let value = e.value.to_be_bytes().to_vec();
    let kind = MatchKey::Exact(vec![e.kind]);
    let (key, priority) = match shape.key {
        "exact" => (vec![kind], 0),
        "exact two" => (vec![kind, MatchKey::Exact(value)], 0),
        "lpm" => {
            let prefix_len = e.prefix;
            (vec![MatchKey::Lpm { value, prefix_len }], 0)
        }
        "ternary" => {
            let mask = vec![e.kind];
            (vec![MatchKey::Ternary { value, mask }], priority)
        }
        _ => {
            let high = (e.value + e.prefix - 28).to_be_bytes().to_vec();
            (vec![MatchKey::Range { low: value, high }], priority)
        }
    };
    let action = if shape.with_selector {
        let action = |n: u32| call(e.second ^ (n == 1), e.data >> n);
        let calls: Vec<ActionCall> = (0..e.weights).map(action).collect();
        with_profile(pipeline, calls, e.prefix % 3, number)
    } else {
        TableAction::Direct(call(e.second, e.data))
    };
    let entry = TableEntry {
        key,
        priority,
        action,
        idle_timeout: None,
        metadata: Vec::new(),
    };
    pipeline.insert_entry(Instant::ZERO, table, entry).is_ok()
}

/// One of these calls, as a one-shot set, a member (the last one), or a group.
fn with_profile(
    pipeline: &mut Pipeline,
    calls: Vec<ActionCall>,
    kind: u32,
    number: u32,
) -> TableAction {
    let profile = pipeline.profile("p").unwrap();
    if kind == 0 {
        let one = |call| WeightedAction {
            call,
            weight: 1,
            watch_port: None,
        };
        return TableAction::Set(calls.into_iter().map(one).collect());
    }
    let mut members = Vec::new();
    for (member, call) in (4 * number..).zip(calls) {
        pipeline.insert_member(profile, member, call).unwrap();
        members.push(GroupMember {
            member,
            weight: 1,
            watch_port: Some(member % 2),
        });
    }
    let last = members.last().map_or(0, |m| m.member);
    let group = Group {
        members,
        max_size: 0,
    };
    pipeline.insert_group(profile, number, group).unwrap();
    match kind {
        1 => TableAction::Member(last),
        _ => TableAction::Group(number),
    }
}

/// Changes something of a profile, but no table.
fn change_profile(pipeline: &mut Pipeline, what: usize) {
    let Ok(profile) = pipeline.profile("p") else {
        return;
    };
    let members = pipeline.members(profile);
    let members: Vec<(u32, ActionCall)> = members.map(|(m, call)| (m, call.clone())).collect();
    let groups = pipeline.groups(profile);
    let groups: Vec<(u32, Group)> = groups.map(|(g, group)| (g, group.clone())).collect();
    let (Some(first), Some(last)) = (members.first(), members.last()) else {
        return;
    };
    match what {
        0 => {
            let (to, call) = (last.0, first.1.clone());
            pipeline.modify_member(profile, to, call).unwrap();
        }
        1 => {
            for (number, mut group) in groups {
                group.members.truncate(1);
                pipeline.modify_group(profile, number, group).unwrap();
            }
        }
        _ => pipeline.set_port_up(0, false),
    }
}

/// Deletes the oldest entry, and makes `first` the default action.
fn change(pipeline: &mut Pipeline) {
    let table = pipeline.table("t").unwrap();
    let oldest = pipeline.entries(table).next().map(|e| e.entry.clone());
    if let Some(e) = oldest {
        pipeline.delete_entry(table, &e.key, e.priority).unwrap();
    }
    let default = ActionCall {
        action: pipeline.table_action(table, "first").unwrap(),
        params: vec![vec![7]],
    };
    // Not for tables with a profile.
    let _ = pipeline.set_default_entry(table, Some(TableAction::Direct(default)));
}

/// Fate of a frame, and the words of its packet on the way.
fn forward(pipeline: &mut Pipeline, now: u64, frame: &[u8]) -> (String, String) {
    let input = IngressInput {
        ingress_port: 3,
        ..IngressInput::default()
    };
    let now = Instant::from_micros(now);
    let outcome = pipeline.ingress(now, frame.to_vec(), &input);
    let IngressVerdict::Unicast {
        egress_spec,
        packet,
        ..
    } = outcome.verdict
    else {
        return (format!("{outcome:?}"), String::new());
    };
    let program = pipeline.program.clone();
    let words = |words: &[u64]| format!("{:?}", program.without_homes(words));
    let (length, between) = (packet.wire_len(), words(&packet.words));
    let input = EgressInput {
        egress_port: egress_spec,
        enq_qdepth: 9,
        ..EgressInput::default()
    };
    let verdict = pipeline.egress(now, packet, &input).verdict;
    let last = pipeline.state.pool.last_words().map(words);
    (
        format!("{egress_spec} {length} {verdict:02x?}"),
        format!("{between} {last:?}"),
    )
}

impl Program {
    /// The words of a packet, without the homes of headers, which only native code keeps, and without checksums, which
    /// it may make of bytes.
    pub(crate) fn without_homes(&self, words: &[u64]) -> Vec<u64> {
        let mut words = words.to_vec();
        for home_at in self.layout.headers.iter().filter_map(|h| h.home_at) {
            words[home_at as usize] = 0;
        }
        for checksum in &self.update {
            words[checksum.target.at as usize] = 0;
        }
        words
    }
}

/// Whether all did the same. What nothing reads may be anything in the words of the last one.
fn agree([native, interpreted, plain, stale]: &[(String, String); 4]) {
    assert_eq!(native, interpreted);
    assert_eq!(interpreted, plain);
    assert_eq!(native.0, stale.0);
}

fn memory(pipeline: &Pipeline) -> String {
    let counters: Vec<_> = pipeline.state.counters.iter().map(|c| &c.cells).collect();
    let entries: Vec<_> = pipeline
        .state
        .tables
        .iter()
        .flat_map(|t| {
            t.hot
                .iter()
                .filter(|_| t.spec.with_counter)
                .map(|h| h.counter)
        })
        .collect();
    format!(
        "{counters:?} {:?} {entries:?} {:?}",
        pipeline.state.registers,
        pipeline.stats()
    )
}

/// Native code, with all words of a packet initialised, the interpreter, the plain way, and native
/// code whose packets find in their words what nobody expects.
fn four(source: &json_model::Program) -> [Pipeline; 4] {
    let native = Program::load(source).unwrap();
    assert!(native.native.is_some(), "no native code");
    let mut pipelines = [
        native.clone(),
        Program::load_interpreted(source).unwrap(),
        Program::load_plain(source).unwrap(),
        native,
    ]
    .map(|program: Arc<Program>| Pipeline::new(program));
    *pipelines[0].state.sets_all.get_mut() = true;
    pipelines[3].state.pool.rest = Some(0xa5a5_a5a5_a5a5_a5a5);
    pipelines
}

fn frames() -> impl Strategy<Value = Vec<(Vec<u8>, usize)>> {
    let frame = (
        proptest::collection::vec(any::<u8>(), 0..4),
        prop_oneof![3 => 0u32..6, 1 => any::<u32>()],
        proptest::collection::vec(any::<u8>(), 0..30),
        prop_oneof![4 => Just(usize::MAX), 1 => 0usize..60],
    )
        .prop_map(|(elements, value, payload, cut)| {
            (fixture::frame(&elements, value, &payload), cut)
        });
    proptest::collection::vec(frame, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ebb_testkit::cases(100)))]

    #[test]
    fn random_programs_do_the_same(
        shape in shape(),
        bodies in [body(false), body(false), body(true), body(true)],
        condition in number(false),
        entries in proptest::collection::vec(entry(), 0..6),
        frames in frames(),
    ) {
        let json = program(&shape, bodies, condition);
        let source = json_model::Program::from_json(json.to_string().as_bytes()).unwrap();
        let mut pipelines = four(&source);
        let mut later = (1..).zip(&entries);
        for (n, (frame, cut)) in (0..).zip(&frames) {
            // Some entries before each packet, and at last a default action and an entry less.
            for (priority, e) in later.by_ref().take(2) {
                let done = pipelines.each_mut().map(|p| insert(p, &shape, e, priority));
                prop_assert!(done.iter().all(|d| *d == done[0]));
            }
            if n == 3 {
                pipelines.iter_mut().for_each(change);
            }
            let frame = &frame[..frame.len().min(*cut)];
            // Every other packet is traced, and so interpreted.
            if n % 2 == 1 {
                pipelines[0].start_trace();
            }
            agree(&pipelines.each_mut().map(|p| forward(p, n * 7, frame)));
            let trace = pipelines[0].take_trace();
            prop_assert_eq!(trace.is_empty(), n % 2 == 0);
            trace.iter().for_each(|event| assert!(!event.to_string().is_empty()));
            // Memos of members and groups are out of date then.
            for what in 0..3 {
                pipelines.iter_mut().for_each(|p| change_profile(p, what));
                agree(&pipelines.each_mut().map(|p| forward(p, n * 7, frame)));
            }
            pipelines.iter_mut().for_each(|p| p.set_port_up(0, true));
        }
        let [native, others @ ..] = pipelines.each_ref().map(memory);
        others.iter().for_each(|other| assert_eq!(&native, other));
    }
}

/// `EBB_BMV2_JSON_DIR` names a folder of what p4c has compiled.
#[test]
#[ignore = "needs EBB_BMV2_JSON_DIR=FOLDER and --ignored"]
fn programs_of_a_folder_do_the_same() {
    let dir = std::env::var("EBB_BMV2_JSON_DIR").expect("EBB_BMV2_JSON_DIR is set");
    let ethernet = |rest: &[u8]| [&[2; 12][..], rest].concat();
    let ipv4 = |protocol: u8| {
        let mut f = ethernet(&[8, 0, 0x45, 0, 0, 60, 0, 1, 0, 0, 64, protocol, 0, 0]);
        f.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        f.extend((0..60).map(|i| i as u8));
        f
    };
    let mut frames: Vec<Vec<u8>> = [6, 17, 253].map(ipv4).to_vec();
    let mut random = 1u64;
    for length in [0, 1, 3, 8, 14, 20, 33, 40, 64, 100, 200] {
        for mask in [0xff, 3] {
            let next = |_| {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                (random >> 33) as u8 & mask
            };
            frames.push((0..length).map(next).collect());
        }
    }
    let mut compared = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let Ok(source) = json_model::Program::from_json(&std::fs::read(&path).unwrap()) else {
            continue;
        };
        if Program::load_interpreted(&source).is_err() {
            continue;
        }
        let mut pipelines = four(&source);
        for (n, frame) in (0..).zip(&frames) {
            println!("{} {frame:02x?}", path.display());
            agree(&pipelines.each_mut().map(|p| forward(p, n * 7, frame)));
        }
        let [native, others @ ..] = pipelines.each_ref().map(memory);
        others.iter().for_each(|other| assert_eq!(&native, other));
        compared += 1;
    }
    println!("{compared} programs compared");
}
