//! Primitives and expressions, seen from outside.

use ebb_pipeline::control::{CounterValue, MeterConfig};
use ebb_pipeline::*;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixture::*;
use crate::value_of;

fn to_port_1() -> Value {
    set("standard_metadata", "egress_spec", hex(1))
}

/// `h.value` after these primitives.
fn result(primitives: &[Value]) -> u32 {
    let mut all = primitives.to_vec();
    all.push(to_port_1());
    value_of(&through(
        &mut Fixture::new(&all, &[]).load(),
        &frame(&[], 5, b""),
    ))
}

fn set_value(value: Value) -> Value {
    set("h", "value", value)
}

fn header(name: &str) -> Value {
    json!({"type": "header", "value": name})
}

fn stack() -> Value {
    json!({"type": "header_stack", "value": "s"})
}

#[test]
fn jumps_skip_primitives() {
    // if (h.value == n) { value = 1 } else { value = 2 }
    let program = |n| {
        [
            call(
                "_jump_if_zero",
                &[expr("==", field("h", "value"), hex(n)), hex(3)],
            ),
            set_value(hex(1)),
            call("_jump", &[hex(4)]),
            set_value(hex(2)),
            set("scalars", "b", hex(1)),
        ]
    };
    assert_eq!(result(&program(5)), 1);
    assert_eq!(result(&program(6)), 2);
}

#[test]
fn a_jump_in_a_circle_drops_the_packet() {
    let mut p = Fixture::new(&[call("_jump", &[hex(0)])], &[]).load();
    let outcome = ingress(&mut p, &frame(&[], 0, b""));
    assert!(matches!(
        outcome.verdict,
        IngressVerdict::Dropped(DropReason::NoTermination)
    ));
}

#[test]
fn exit_ends_the_pipeline_and_asserts_drop() {
    assert_eq!(
        result(&[to_port_1(), call("exit", &[]), set_value(hex(9))]),
        5
    );
    for (op, reason) in [
        ("assert", DropReason::AssertFailed),
        ("assume", DropReason::AssumeFailed),
    ] {
        let check = call(op, &[expr("==", field("h", "value"), hex(5))]);
        let mut p = Fixture::new(&[check, to_port_1()], &[]).load();
        unicast(ingress(&mut p, &frame(&[], 5, b"")));
        let outcome = ingress(&mut p, &frame(&[], 6, b""));
        assert!(matches!(outcome.verdict, IngressVerdict::Dropped(r) if r == reason));
        assert_eq!(p.stats().drops(reason), 1);
    }
}

#[test]
fn stacks_are_pushed_and_popped() {
    let run = |primitives: &[Value], elements: &[u8]| {
        let mut all = primitives.to_vec();
        all.push(to_port_1());
        let out = through(
            &mut Fixture::new(&all, &[]).load(),
            &frame(elements, 0, b"."),
        );
        out[23..].to_vec()
    };
    let push = call("push", &[stack(), hex(1)]);
    let valid = call("add_header", &[header("s[0]")]);
    let seven = set("s[0]", "x", hex(7));
    assert_eq!(
        run(&[push.clone(), valid.clone(), seven.clone()], &[1, 2]),
        [7, 1, 2, b'.']
    );
    assert_eq!(run(&[push, valid, seven], &[1, 2, 3]), [7, 1, 2, b'.']);
    let pop = |n| call("pop", &[stack(), hex(n)]);
    assert_eq!(run(&[pop(1)], &[1, 2, 3]), [2, 3, b'.']);
    assert_eq!(run(&[pop(9)], &[1, 2, 3]), [b'.']);
    // s[index].x = s.last.x, with an index that is out of bounds as well.
    let element = |index: Value| {
        json!({"type": "expression", "value": {"type": "expression", "value": {
        "op": "access_field", "right": 0,
        "left": {"type": "expression", "value": {"op": "dereference_header_stack", "left": stack(), "right": index}}}}})
    };
    let last = json!({"type": "stack_field", "value": ["s", "x"]});
    let copy = |index| call("assign", &[element(index), last.clone()]);
    assert_eq!(run(&[copy(field("h", "kind"))], &[8, 9]), [8, 9, b'.']);
    assert_eq!(
        run(&[copy(expr("-", field("h", "kind"), hex(2)))], &[8, 9]),
        [9, 9, b'.']
    );
    assert_eq!(
        run(&[copy(expr("+", field("h", "kind"), hex(90)))], &[8, 9]),
        [8, 9, b'.']
    );
}

#[test]
fn headers_come_and_go_and_the_length_follows() {
    let mut p = Fixture::new(
        &[
            call("add_header", &[header("s[0]")]),
            call("add_header", &[header("s[1]")]),
            call("assign_header", &[header("s[1]"), header("s[2]")]),
            to_port_1(),
        ],
        &[set(
            "h",
            "wide",
            field("standard_metadata", "packet_length"),
        )],
    )
    .load();
    let f = frame(&[], 1, b"ab");
    let out = through(&mut p, &f);
    assert_eq!(out.len(), f.len() + 1, "s[1] became invalid like s[2]");
    assert_eq!(
        usize::from(out[20]),
        f.len() + 2,
        "assign_header does not count, as on BMv2"
    );
    let mut p = Fixture::new(&[call("remove_header", &[header("h")]), to_port_1()], &[]).load();
    assert_eq!(through(&mut p, &f), b"ab");
}

#[test]
fn registers_counters_and_meters() {
    let r = json!({"type": "register_array", "value": "r"});
    let c = json!({"type": "counter_array", "value": "c"});
    let m = json!({"type": "meter_array", "value": "m"});
    let mut p = Fixture::new(
        &[
            call(
                "register_read",
                &[field("scalars", "a"), r.clone(), field("h", "kind")],
            ),
            call(
                "register_write",
                &[
                    r,
                    field("h", "kind"),
                    expr("+", field("scalars", "a"), hex(0xfff0)),
                ],
            ),
            call("count", &[c, field("h", "kind")]),
            call("execute_meter", &[m, hex(0), field("scalars", "b")]),
            set_value(expr(
                "+",
                field("scalars", "a"),
                expr("<<", field("scalars", "b"), hex(16)),
            )),
            to_port_1(),
        ],
        &[],
    )
    .load();
    let (register, counter, meter) = (
        p.register("r").unwrap(),
        p.counter("c").unwrap(),
        p.meter("m").unwrap(),
    );
    let one = MeterConfig {
        cir: 1,
        cburst: 1,
        pir: 1,
        pburst: 2,
        eburst: None,
    };
    p.set_meter_config(at(0), meter, 0, Some(one)).unwrap();
    let f = frame(&[1, 2], 0, b"");
    let values: Vec<u32> = (0..4).map(|_| value_of(&through(&mut p, &f))).collect();
    // 16 bits wrap; colours are green, yellow, red, red.
    assert_eq!(values, [0, 0x1_fff0, 0x2_ffe0, 0x2_ffd0]);
    assert_eq!(p.register_value(register, 2).unwrap(), [0xff, 0xc0]);
    let bytes = 4 * f.len() as u64;
    assert_eq!(
        p.counter_value(counter, 2).unwrap(),
        CounterValue { packets: 4, bytes }
    );
    assert_eq!(
        p.counter_value(counter, 3).unwrap(),
        CounterValue::default()
    );
    assert!(p.register_value(register, 4).is_err());
}

#[test]
fn registers_are_as_wide_as_the_program_says() {
    let wide = json!({"type": "register_array", "value": "wide"});
    let cell = json!({"type": "register", "value": ["wide", hex(1)]});
    let upper = expr("<<", field("h", "wide"), hex(72));
    let mut p = Fixture::new(
        &[
            call(
                "register_write",
                &[wide.clone(), hex(1), expr("+", upper, hex(5))],
            ),
            call(
                "register_write",
                &[wide.clone(), hex(2), expr("+", cell.clone(), hex(1))],
            ),
            // A field takes the low bits of what is wider.
            call("register_read", &[field("h", "wide"), wide, hex(2)]),
            set_value(expr(">>", cell, hex(72 + 96))),
            to_port_1(),
        ],
        &[],
    )
    .load();
    let f = frame(&[], 0, b"");
    let out = through(&mut p, &f);
    let register = p.register("wide").unwrap();
    let upper = [0xab; 16];
    let lower = |n| [0, 0, 0, 0, 0, 0, 0, 0, n];
    let whole = |n| [&upper[..], &lower(n)].concat();
    assert_eq!(p.register_value(register, 1).unwrap(), whole(5));
    assert_eq!(p.register_value(register, 2).unwrap(), whole(6));
    assert_eq!(out[5..21], whole(6)[9..]);
    assert_eq!(value_of(&out), 0xabab_abab);
    p.set_register_value(register, 3, &whole(7)).unwrap();
    assert_eq!(p.register_value(register, 3).unwrap(), whole(7));
    assert!(p.set_register_value(register, 3, &[1; 26]).is_err());
}

#[test]
fn random_is_within_bounds_and_repeats_with_the_seed() {
    let random = call(
        "modify_field_rng_uniform",
        &[field("h", "value"), hex(10), hex(13)],
    );
    let fixture = Fixture::new(&[random, to_port_1()], &[]);
    let run = |seed| {
        let mut p = fixture.load();
        p.set_seed(seed);
        (0..64)
            .map(|_| value_of(&through(&mut p, &frame(&[], 0, b""))))
            .collect::<Vec<_>>()
    };
    let first = run(1);
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
    assert!((10..14).all(|n| first.contains(&n)) && first.iter().all(|n| (10..14).contains(n)));
}

#[test]
fn a_hash_is_taken_modulo_the_size() {
    let calculation = json!({"type": "calculation", "value": "hash"});
    let hash = |size| {
        call(
            "modify_field_with_hash_based_offset",
            &[
                field("h", "value"),
                hex(100),
                calculation.clone(),
                hex(size),
            ],
        )
    };
    // CRC-32 of 00 00 00 05.
    let crc = 0x512e2b93;
    assert_eq!(result(&[hash(1 << 32)]), crc + 100);
    assert_eq!(result(&[hash(7)]), 100 + crc % 7);
    assert_eq!(result(&[hash(0)]), 100);
}

#[test]
fn wide_fields_are_computed_exactly() {
    let wide = field("h", "wide");
    let all_ones = json!({"type": "hexstr", "value": "0xffffffffffffffffffffffffffffffff"});
    // wide > 2^127 as unsigned numbers.
    let big = json!({"type": "hexstr", "value": "0x80000000000000000000000000000000"});
    let is_big = json!({"type": "expression",
        "value": {"op": "b2d", "left": null, "right": expr(">", wide.clone(), big)}});
    assert_eq!(result(&[set_value(is_big)]), 1);
    let mut p = Fixture::new(
        &[
            set("h", "wide", expr("&", expr("-", hex(0), hex(1)), all_ones)),
            to_port_1(),
        ],
        &[],
    )
    .load();
    assert_eq!(through(&mut p, &frame(&[], 0, b""))[5..21], [0xff; 16]);
    assert_eq!(result(&[set_value(expr(">>", wide, hex(120)))]), 0xab);
}

#[test]
fn programs_that_do_not_fit_together_are_refused_by_name() {
    let refused = |primitives: &[Value]| {
        Pipeline::load(&Fixture::new(primitives, &[]).program())
            .unwrap_err()
            .to_string()
    };
    assert!(
        refused(&[set("h", "nothing", hex(1))])
            .contains("it has no field nothing; its type h_t has: kind, value, wide, sum")
    );
    assert!(refused(&[set("nowhere", "x", hex(1))]).contains("header nowhere"));
    assert!(refused(&[call("fly", &[])]).contains("primitive `fly`"));
    assert!(refused(&[call("truncate", &[])]).contains("argument 0"));
    let r = json!({"type": "register_array", "value": "gone"});
    assert!(
        refused(&[call("register_write", &[r, hex(0), hex(0)])]).contains("register array gone")
    );
    let mut huge = Fixture::new(&[], &[]);
    huge.json["register_arrays"][1]["bitwidth"] = json!(1u32 << 17);
    let error = Pipeline::load(&huge.program()).unwrap_err().to_string();
    assert!(
        error.contains("register array wide") && error.contains("131072 bits, at most 65536"),
        "{error}"
    );
}

proptest! {
    /// Whatever arrives, the payload that is not parsed is not changed, and nothing panics.
    #[test]
    fn garbage_passes(frame in proptest::collection::vec(any::<u8>(), 0..80)) {
        let mut p = Fixture::new(&[to_port_1()], &[]).load();
        let out = through(&mut p, &frame);
        prop_assert_eq!(out.len(), frame.len());
        for (i, (a, b)) in out.iter().zip(&frame).enumerate() {
            // All but the checksum.
            prop_assert!(a == b || i == 21 || i == 22);
        }
    }
}
