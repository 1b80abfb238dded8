//! A trace as text, of a packet that takes every kind of step.

use crate::fixture::{Fixture, call, expr, field, frame, hex, set};
use ebb_units::Instant;
use serde_json::{Value, json};

use super::TraceEvent;
use crate::{EgressInput, IngressInput, IngressVerdict, Pipeline};

/// The lines of one packet's way through ingress and egress.
fn trace(pipeline: &mut Pipeline, frame: Vec<u8>) -> Vec<String> {
    let input = IngressInput {
        ingress_port: 2,
        ..IngressInput::default()
    };
    pipeline.start_trace();
    let outcome = pipeline.ingress(Instant::ZERO, frame, &input);
    if let IngressVerdict::Unicast { packet, .. } = outcome.verdict {
        pipeline.egress(Instant::ZERO, packet, &EgressInput::default());
    }
    let events = pipeline.take_trace();
    events.iter().map(TraceEvent::to_string).collect()
}

fn array(kind: &str, name: &str) -> Value {
    json!({"type": kind, "value": name})
}

#[test]
fn every_step_has_its_line() {
    let ingress = [
        set("scalars", "a", expr("+", field("h", "value"), hex(1))),
        call(
            "register_write",
            &[array("register_array", "r"), hex(1), hex(77)],
        ),
        call(
            "register_read",
            &[field("h", "wide"), array("register_array", "r"), hex(1)],
        ),
        call("count", &[array("counter_array", "c"), hex(3)]),
        call(
            "log_msg",
            &[
                json!({"type": "string", "value": "a is {}"}),
                json!({"type": "parameters_vector", "value": [field("scalars", "a")]}),
            ],
        ),
        set("standard_metadata", "egress_spec", hex(3)),
    ];
    let egress = [call(
        "remove_header",
        &[json!({"type": "header", "value": "s[0]"})],
    )];
    let mut pipeline = Fixture::new(&ingress, &egress).load();
    let lines = trace(&mut pipeline, frame(&[9], 0x0a00_0002, b"hello"));
    let expected = [
        "state start",
        "  extract h, 23 bytes: kind 1, value 0x0a000002 (10.0.0.2), \
         wide 0xabababababababababababababababab, sum 0xf4fd (62717)",
        "  scalars.b: 0 -> 1",
        "  select 1 -> element",
        "state element",
        "  extract s[0], 1 bytes: x 9",
        "  scalars.b: 1 -> 0",
        "  select 0 -> end",
        "parsed 24 bytes, payload 5 bytes",
        "checksum h.sum 0xf4fd (62717): right",
        "do in",
        "  write r[1] = 77",
        "  read r[1]: 77",
        "  count c[3]: 1 packet, 29 bytes",
        "  log: a is 3",
        "  scalars.a: 0 -> 3",
        "  standard_metadata.egress_spec: 0 -> 3",
        "  h.wide: 0xabababababababababababababababab -> 0x0000000000000000000000000000004d",
        "do out",
        "  s[0] becomes invalid",
        "deparse h: 23 bytes, payload 5 bytes",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn what_stops_the_parser_is_told() {
    let mut pipeline = Fixture::new(&[], &[]).load();
    let lines = trace(&mut pipeline, frame(&[1, 2], 0, b"")[..24].to_vec());
    let end = lines.iter().find(|line| line.starts_with("parsed"));
    assert_eq!(
        end.unwrap(),
        "parsed 24 bytes, payload 0 bytes, error PacketTooShort"
    );
}

#[test]
fn nothing_is_noted_unless_asked() {
    let mut pipeline = Fixture::new(&[], &[]).load();
    pipeline.ingress(Instant::ZERO, frame(&[], 0, b""), &IngressInput::default());
    assert!(pipeline.take_trace().is_empty());
}
