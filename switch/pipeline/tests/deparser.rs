//! Primitives that the deparser of the JSON has beside its headers.

use ebb_pipeline::trace::TraceEvent;
use ebb_pipeline::{EgressVerdict, Pipeline};
use serde_json::{Value, json};

use crate::fixture::{Fixture, call, egress, field, frame, hex, ingress, through, unicast};

/// A program whose deparser runs these primitives.
fn deparsing(primitives: &[Value]) -> Fixture {
    let mut fixture = Fixture::new(&[], &[]);
    fixture.json["deparsers"][0]["primitives"] = json!(primitives);
    fixture
}

#[test]
fn they_run_before_the_headers_are_emitted_and_are_traced() {
    let message = json!({"type": "string", "value": "value {}"});
    let values = json!({"type": "parameters_vector", "value": [field("h", "value")]});
    // `set` is p4c's word for the assignment of a constant there.
    let fixture = deparsing(&[
        call("set", &[field("h", "value"), hex(9)]),
        call("log_msg", &[message, values]),
    ]);
    for mut pipeline in [
        fixture.load(),
        Pipeline::load_interpreted(&fixture.program()).unwrap(),
    ] {
        let sent = through(&mut pipeline, &frame(&[], 7, b""));
        assert_eq!(crate::value_of(&sent), 9);
        pipeline.start_trace();
        through(&mut pipeline, &frame(&[], 7, b""));
        let trace = pipeline.take_trace();
        let said = |event: &TraceEvent| matches!(event, TraceEvent::Log(text) if text == "value 9");
        assert!(trace.iter().any(said), "{trace:?}");
    }
}

#[test]
fn recirculation_may_be_asked_for_there() {
    let mut pipeline = deparsing(&[call("recirculate", &[hex(1)])]).load();
    let (_, packet) = unicast(ingress(&mut pipeline, &frame(&[], 7, b"")));
    let verdict = egress(&mut pipeline, packet).0.verdict;
    assert!(matches!(verdict, EgressVerdict::Recirculate { .. }));
}

#[test]
fn they_cannot_jump() {
    let fixture = deparsing(&[call("_jump", &[hex(1)])]);
    let error = Pipeline::load(&fixture.program()).unwrap_err().to_string();
    let expected = "deparser: primitive `_jump`: a deparser cannot jump; its primitives run one after the other";
    assert!(error.ends_with(expected), "{error}");
}
