//! A panic in what generated code calls costs a packet, not the process.

use std::sync::Arc;

use crate::common::{Fixture, call, egress, frame, hex, ingress, set, through, unicast};
use serde_json::{Value, json};

use crate::action::Primitive;
use crate::layout::Slot;
use crate::program::Program;
use crate::{DropReason, EgressVerdict, IngressVerdict, Pipeline};

fn to_port_1() -> Value {
    set("standard_metadata", "egress_spec", hex(1))
}

/// Something that generated code leaves to the interpreter.
fn rare() -> Value {
    call(
        "push",
        &[json!({"type": "header_stack", "value": "s"}), hex(1)],
    )
}

fn load(fixture: &Fixture) -> Pipeline {
    let mut pipeline = fixture.load();
    assert!(!through(&mut pipeline, &frame(&[], 5, b"")).is_empty());
    pipeline
}

/// A primitive that no program can have: its fields are nowhere.
fn broken() -> Primitive {
    let nowhere = Slot {
        at: 1 << 20,
        words: 1,
        bits: 8,
        signed: false,
    };
    Primitive::AssignVariable {
        to: (nowhere, 1 << 20),
        from: (nowhere, 1 << 20),
    }
}

/// What the code calls stays where it is, but becomes something else.
fn program(pipeline: &mut Pipeline) -> &mut Program {
    Arc::get_mut(&mut pipeline.program).expect("one owner")
}

fn assert_dropped_in_egress(pipeline: &mut Pipeline) {
    let (_, packet) = unicast(ingress(pipeline, &frame(&[], 5, b"")));
    let (outcome, _) = egress(pipeline, packet);
    assert!(matches!(
        outcome.verdict,
        EgressVerdict::Dropped(DropReason::InternalError)
    ));
    assert_eq!(pipeline.stats().drops(DropReason::InternalError), 1);
}

#[test]
fn in_ingress() {
    let mut p = load(&Fixture::new(&[rare(), to_port_1()], &[]));
    program(&mut p).actions[0].body[0] = broken();
    for count in 1..=2 {
        assert!(matches!(
            ingress(&mut p, &frame(&[], 5, b"")).verdict,
            IngressVerdict::Dropped(DropReason::InternalError)
        ));
        assert_eq!(p.stats().drops(DropReason::InternalError), count);
    }
}

#[test]
fn in_egress() {
    let mut p = load(&Fixture::new(&[to_port_1()], &[rare()]));
    program(&mut p).actions[1].body[0] = broken();
    assert_dropped_in_egress(&mut p);
}

#[test]
fn in_the_deparser() {
    let mut fixture = Fixture::new(&[to_port_1()], &[]);
    fixture.json["deparsers"][0]["primitives"] = json!([rare()]);
    let mut p = load(&fixture);
    program(&mut p).deparser_calls[0] = broken();
    assert_dropped_in_egress(&mut p);
}
