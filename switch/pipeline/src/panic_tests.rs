//! A panic in the interpreter, or in what generated code calls, costs a packet, not the process.

use std::sync::Arc;

use crate::fixture::{Fixture, call, egress, frame, hex, ingress, set, through, unicast};
use serde_json::{Value, json};

use crate::action::Primitive;
use crate::program::Program;
use crate::slot::Slot;
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

/// With native code, and interpreted.
fn load(fixture: &Fixture) -> [Pipeline; 2] {
    [Pipeline::load, Pipeline::load_interpreted].map(|load| {
        let mut pipeline = load(&fixture.program()).expect("a right program");
        assert!(!through(&mut pipeline, &frame(&[], 5, b"")).is_empty());
        pipeline
    })
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

/// The program, whose functions a test exchanges while the code that calls them stays.
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

fn assert_dropped_in_ingress(pipeline: &mut Pipeline) {
    for count in 1..=2 {
        assert!(matches!(
            ingress(pipeline, &frame(&[], 5, b"")).verdict,
            IngressVerdict::Dropped(DropReason::InternalError)
        ));
        assert_eq!(pipeline.stats().drops(DropReason::InternalError), count);
    }
}

#[test]
fn in_checksum_verification() {
    let [_, mut interpreted] = load(&Fixture::new(&[to_port_1()], &[]));
    program(&mut interpreted).verify[0].calculation = 1 << 20;
    assert_dropped_in_ingress(&mut interpreted);
}

#[test]
fn in_ingress() {
    for mut p in load(&Fixture::new(&[rare(), to_port_1()], &[])) {
        program(&mut p).actions[0].body[0] = broken();
        assert_dropped_in_ingress(&mut p);
    }
}

#[test]
fn in_egress() {
    for mut p in load(&Fixture::new(&[to_port_1()], &[rare()])) {
        program(&mut p).actions[1].body[0] = broken();
        assert_dropped_in_egress(&mut p);
    }
}

fn with_broken_deparser() -> [Pipeline; 2] {
    let mut fixture = Fixture::new(&[to_port_1()], &[]);
    fixture.json["deparsers"][0]["primitives"] = json!([rare()]);
    load(&fixture).map(|mut p| {
        program(&mut p).deparser_calls[0] = broken();
        p
    })
}

#[test]
fn in_the_deparser() {
    for mut p in with_broken_deparser() {
        assert_dropped_in_egress(&mut p);
    }
}

#[test]
fn of_a_deflected_packet() {
    for mut p in with_broken_deparser() {
        let (_, packet) = unicast(ingress(&mut p, &frame(&[], 5, b"")));
        assert_eq!(p.deparse(packet), Err(DropReason::InternalError));
        assert_eq!(p.stats().drops(DropReason::InternalError), 1);
    }
}
