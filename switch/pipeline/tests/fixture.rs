//! A small v1model program around the primitives that a test wants to see run.

use ebb_bmv2_json::Program;
use ebb_pipeline::{
    EgressInput, EgressOutcome, EgressVerdict, IngressInput, IngressOutcome, IngressVerdict,
    Packet, Pipeline,
};
use ebb_units::Instant;
use serde_json::{Value, json};

/// Header `h` (kind:8, value:32, wide:128, sum:16), stack `s` of three (x:8), metadata
/// (`scalars.a`:16, `scalars.b`:8, `scalars.i`: signed 8). The parser extracts `h`, then as many
/// stack elements as kind says.
pub struct Fixture {
    pub json: Value,
}

pub fn field(header: &str, name: &str) -> Value {
    json!({"type": "field", "value": [header, name]})
}

pub fn hex(n: u64) -> Value {
    json!({"type": "hexstr", "value": format!("{n:#x}")})
}

pub fn expr(op: &str, left: Value, right: Value) -> Value {
    json!({"type": "expression", "value": {"op": op, "left": left, "right": right}})
}

pub fn call(op: &str, parameters: &[Value]) -> Value {
    json!({"op": op, "parameters": parameters})
}

pub fn set(header: &str, name: &str, value: Value) -> Value {
    call("assign", &[field(header, name), value])
}

fn table(name: &str, id: u32) -> Value {
    json!({"name": name, "id": id, "key": [], "match_type": "exact", "type": "simple", "max_size": 1,
        "with_counters": false, "support_timeout": false, "direct_meters": null,
        "action_ids": [id], "actions": [name], "base_default_next": null, "next_tables": {name: null},
        "default_entry": {"action_id": id, "action_const": true, "action_data": [], "action_entry_const": true}})
}

impl Fixture {
    pub fn new(ingress: &[Value], egress: &[Value]) -> Fixture {
        let header = |name: &str, id: u32, ty: &str, metadata: bool| {
            json!({"name": name, "id": id, "header_type": ty,
                "metadata": metadata, "pi_omit": true})
        };
        let json = json!({
            "header_types": [
                {"name": "scalars_t", "id": 0, "fields": [["a", 16, false], ["b", 8, false], ["i", 8, true]]},
                {"name": "standard_metadata", "id": 1, "fields": [
                    ["ingress_port", 9, false], ["egress_spec", 9, false], ["egress_port", 9, false],
                    ["instance_type", 32, false], ["packet_length", 32, false], ["enq_timestamp", 32, false],
                    ["enq_qdepth", 19, false], ["deq_timedelta", 32, false], ["deq_qdepth", 19, false],
                    ["ingress_global_timestamp", 48, false], ["egress_global_timestamp", 48, false],
                    ["mcast_grp", 16, false], ["egress_rid", 16, false], ["checksum_error", 1, false],
                    ["parser_error", 32, false], ["priority", 3, false]]},
                {"name": "h_t", "id": 2, "fields": [["kind", 8, false], ["value", 32, false],
                    ["wide", 128, false], ["sum", 16, false]]},
                {"name": "x_t", "id": 3, "fields": [["x", 8, false]]}
            ],
            "headers": [
                header("scalars", 0, "scalars_t", true),
                header("standard_metadata", 1, "standard_metadata", true),
                header("h", 2, "h_t", false),
                header("s[0]", 3, "x_t", false),
                header("s[1]", 4, "x_t", false),
                header("s[2]", 5, "x_t", false),
                header("copy", 6, "standard_metadata", true)
            ],
            "header_stacks": [{"name": "s", "id": 0, "header_type": "x_t", "size": 3, "header_ids": [3, 4, 5]}],
            "field_lists": [{"id": 1, "name": "keep", "elements": [field("scalars", "a")]}],
            "learn_lists": [{"id": 1, "name": "seen", "elements": [field("h", "kind"), field("h", "value")]}],
            "errors": [["NoError", 0], ["PacketTooShort", 1], ["StackOutOfBounds", 3], ["ParserTimeout", 5]],
            "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [
                {"name": "start", "id": 0,
                 "parser_ops": [
                    {"op": "extract", "parameters": [{"type": "regular", "value": "h"}]},
                    {"op": "set", "parameters": [field("scalars", "b"), field("h", "kind")]}],
                 "transition_key": [field("h", "kind")],
                 "transitions": [
                    {"type": "hexstr", "value": "0x00", "mask": null, "next_state": null},
                    {"type": "default", "value": null, "mask": null, "next_state": "element"}]},
                {"name": "element", "id": 1,
                 "parser_ops": [
                    {"op": "extract", "parameters": [{"type": "stack", "value": "s"}]},
                    {"op": "set", "parameters": [field("scalars", "b"), {"type": "expression",
                        "value": expr("-", field("scalars", "b"), hex(1))}]}],
                 "transition_key": [field("scalars", "b")],
                 "transitions": [
                    {"type": "hexstr", "value": "0x00", "mask": null, "next_state": null},
                    {"type": "default", "value": null, "mask": null, "next_state": "element"}]}
            ]}],
            "deparsers": [{"name": "deparser", "id": 0, "order": ["h", "s[0]", "s[1]", "s[2]"], "primitives": []}],
            "meter_arrays": [{"name": "m", "id": 0, "is_direct": false, "size": 4, "rate_count": 2, "type": "packets"}],
            "counter_arrays": [{"name": "c", "id": 0, "size": 4, "is_direct": false}],
            "register_arrays": [{"name": "r", "id": 0, "size": 4, "bitwidth": 16},
                {"name": "wide", "id": 1, "size": 4, "bitwidth": 200}],
            "calculations": [
                {"name": "sum", "id": 0, "algo": "csum16", "input": [field("h", "kind"),
                    {"type": "hexstr", "value": "0x00", "bitwidth": 8}, field("h", "value")]},
                {"name": "hash", "id": 1, "algo": "crc32", "input": [field("h", "value")]}],
            "checksums": [{"name": "ck", "id": 0, "target": ["h", "sum"], "type": "generic", "calculation": "sum",
                "verify": true, "update": true, "if_cond": expr("d2b", Value::Null, field("h", "$valid$"))}],
            "actions": [
                {"name": "in", "id": 0, "runtime_data": [], "primitives": ingress},
                {"name": "out", "id": 1, "runtime_data": [], "primitives": egress}],
            "pipelines": [
                {"name": "ingress", "id": 0, "init_table": "in", "tables": [table("in", 0)],
                    "action_profiles": [], "conditionals": []},
                {"name": "egress", "id": 1, "init_table": "out", "tables": [table("out", 1)],
                    "action_profiles": [], "conditionals": []}],
            "field_aliases": [
                ["intrinsic_metadata.mcast_grp", ["standard_metadata", "mcast_grp"]],
                ["queueing_metadata.enq_qdepth", ["standard_metadata", "enq_qdepth"]]],
            "__meta__": {"version": [2, 23]}
        });
        Fixture { json }
    }

    pub fn load(&self) -> Pipeline {
        Pipeline::load(&self.program()).unwrap()
    }

    pub fn program(&self) -> Program {
        Program::from_json(self.json.to_string().as_bytes()).unwrap()
    }
}

/// A frame with a right checksum.
pub fn frame(elements: &[u8], value: u32, payload: &[u8]) -> Vec<u8> {
    let mut f = vec![elements.len() as u8];
    f.extend(value.to_be_bytes());
    f.extend([0xab; 16]);
    let sum = u32::from(elements.len() as u16) * 256 + (value >> 16) + (value & 0xffff);
    let sum = (sum & 0xffff) + (sum >> 16);
    f.extend((!(sum as u16)).to_be_bytes());
    f.extend(elements);
    f.extend(payload);
    f
}

pub fn at(us: u64) -> Instant {
    Instant::from_micros(us)
}

pub fn ingress(p: &mut Pipeline, frame: &[u8]) -> IngressOutcome {
    let input = IngressInput {
        ingress_port: 3,
        ..IngressInput::default()
    };
    p.ingress(at(10), frame.to_vec(), &input)
}

pub fn unicast(outcome: IngressOutcome) -> (u16, Box<Packet>) {
    match outcome.verdict {
        IngressVerdict::Unicast {
            egress_spec,
            packet,
            ..
        } => (egress_spec, packet),
        other => panic!("expected unicast, got {other:?}"),
    }
}

/// The outcome, and a copy of the frame that leaves.
pub fn egress(p: &mut Pipeline, packet: Box<Packet>) -> (EgressOutcome, Vec<u8>) {
    let input = EgressInput {
        egress_port: 1,
        enq_qdepth: 77,
        ..EgressInput::default()
    };
    let outcome = p.egress(at(20), packet, &input);
    let out = match &outcome.verdict {
        EgressVerdict::Transmit(frame) | EgressVerdict::Recirculate { frame, .. } => frame.clone(),
        EgressVerdict::Dropped(_) => Vec::new(),
    };
    (outcome, out)
}

/// The frame after ingress and egress.
pub fn through(p: &mut Pipeline, frame: &[u8]) -> Vec<u8> {
    let outcome = ingress(p, frame);
    let (_, packet) = unicast(outcome);
    egress(p, packet).1
}
