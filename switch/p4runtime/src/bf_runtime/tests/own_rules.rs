//! Rules of BF Runtime that P4Runtime does not have.

use ebb_pipeline::{DropReason, IngressInput, IngressVerdict};

use super::*;

/// P4Runtime has no member 0; its parameters that are left out are 0.
#[test]
fn member_0_is_a_member_as_others() {
    let program = Program::new();
    let next_hop = program.action("ecmp", "set_next_hop");
    let member = |id: u8| bf::TableEntry {
        key: key(vec![exact(fixed::MEMBER, &[0, 0, 0, id])]),
        data: data(next_hop, &[]),
        ..program.entry("ecmp")
    };
    for id in [0, 1] {
        program.write(Type::Insert, &member(id)).unwrap();
    }
    let ids = |entries: Vec<bf::TableEntry>| -> Vec<_> {
        let keys = entries.into_iter().filter_map(|e| e.key);
        keys.map(|key| key.fields[0].clone()).collect()
    };
    let of = |id| exact(fixed::MEMBER, &[0, 0, 0, id]);
    assert_eq!(ids(program.read(member(0)).unwrap()), [of(0)]);
    let all = program.read(program.entry("ecmp")).unwrap();
    assert_eq!(ids(all), [of(1), of(0)]);
    let group = bf::TableEntry {
        key: key(vec![exact(fixed::GROUP, &[0; 4])]),
        data: data(
            0,
            &[
                (fixed::MEMBER, numbers(&[0, 1])),
                (fixed::MEMBER_STATUS, flags(&[true, true])),
            ],
        ),
        ..program.entry("ecmp_sel")
    };
    program.write(Type::Insert, &group).unwrap();
    let members = |program: &Program| {
        let found = program.read(program.entry("ecmp_sel")).unwrap();
        found[0].data.as_ref().unwrap().fields[0].value.clone()
    };
    assert_eq!(members(&program), Some(numbers(&[0, 1])));
    // MODIFY_INC takes members away, or adds some.
    let change = |takes: bool, member| bf::TableEntry {
        data: data(0, &[(fixed::MEMBER, numbers(&[member]))]),
        table_mod_inc_flag: Some(bf::TableModIncFlag {
            r#type: i32::from(takes),
        }),
        ..group.clone()
    };
    program.write(Type::ModifyInc, &change(true, 0)).unwrap();
    assert_eq!(members(&program), Some(numbers(&[1])));
    program.write(Type::ModifyInc, &change(false, 0)).unwrap();
    assert_eq!(members(&program), Some(numbers(&[1, 0])));
    let missing = program
        .write(Type::ModifyInc, &change(false, 7))
        .unwrap_err();
    assert_eq!(missing.code, Code::NotFound);
}

#[test]
fn a_changed_entry_keeps_the_parameters_that_are_left_out() {
    let program = Program::new();
    let forward = program.action("bridge", "forward");
    let of = |fields: &[(u32, Value)]| bf::TableEntry {
        key: key(vec![exact(1, &[0, 0, 0, 0, 0, 7])]),
        data: data(forward, fields),
        ..program.entry("bridge")
    };
    program
        .write(Type::Insert, &of(&[(1, bytes(&[0, 3]))]))
        .unwrap();
    program.write(Type::Modify, &of(&[])).unwrap();
    let found = program.read(program.entry("bridge")).unwrap();
    assert_eq!(found, [of(&[(1, bytes(&[0, 3]))])]);
}

/// As they were at the last `Sync`, unless a client asks the data plane.
#[test]
fn counters_are_kept_until_they_are_synchronised() {
    let program = Program::new();
    let cell = |from_hw: bool, count: Option<u8>| bf::TableEntry {
        key: key(vec![exact(65556, &[0, 0, 0, 1])]),
        data: count.and_then(|count| data(0, &[(fixed::COUNTER_PACKETS, bytes(&[count]))])),
        table_flags: Some(bf::TableFlags {
            from_hw,
            ..bf::TableFlags::default()
        }),
        ..program.entry("port_in")
    };
    let packets = |from_hw| {
        let found = program.read(cell(from_hw, None)).unwrap();
        found[0].data.as_ref().unwrap().fields[1].value.clone()
    };
    program.write(Type::Insert, &cell(false, Some(3))).unwrap();
    let of = |count| Some(bytes(&[0, 0, 0, 0, 0, 0, 0, count]));
    assert_eq!(packets(false), of(3));
    program
        .forwarding
        .with_detached(Instant::ZERO, |ctx| {
            let id = ctx.pipeline.counter("MyIngress.port_in").unwrap();
            let value = ebb_pipeline::control::CounterValue {
                packets: 8,
                bytes: 0,
            };
            ctx.pipeline.set_counter_value(id, 1, value).unwrap();
        })
        .unwrap();
    assert_eq!(packets(false), of(3));
    let sync = Entity::TableOperation(bf::TableOperation {
        table_id: program.entry("port_in").table_id,
        table_operations_type: "Sync".into(),
    });
    program.update(Type::Unspecified, sync).unwrap();
    assert_eq!(packets(false), of(8));
    let add = bf::TableEntry {
        table_mod_inc_flag: Some(bf::TableModIncFlag::default()),
        ..cell(false, Some(2))
    };
    program.write(Type::ModifyInc, &add).unwrap();
    assert_eq!(packets(true), of(10));
}

/// A table of a million entries would keep packets waiting for seconds.
#[test]
fn an_operation_on_a_table_is_done_in_parts() {
    let program = Program::new();
    let cell = |index: u8, count: Option<u8>| bf::TableEntry {
        key: key(vec![exact(65556, &[0, 0, 0, index])]),
        data: count.and_then(|count| data(0, &[(fixed::COUNTER_PACKETS, bytes(&[count]))])),
        table_flags: Some(bf::TableFlags::default()),
        ..program.entry("port_in")
    };
    let kept = |index| {
        let found = program.read(cell(index, None)).unwrap();
        found[0].data.as_ref().unwrap().fields[1].value.clone()
    };
    program
        .forwarding
        .with_detached(Instant::ZERO, |ctx| {
            let id = ctx.pipeline.counter("MyIngress.port_in").unwrap();
            let value = ebb_pipeline::control::CounterValue {
                packets: 8,
                bytes: 0,
            };
            for index in [1, 5] {
                ctx.pipeline.set_counter_value(id, index, value).unwrap();
            }
        })
        .unwrap();
    let asked = bf::TableOperation {
        table_id: program.entry("port_in").table_id,
        table_operations_type: "Sync".into(),
    };
    let mut operation = Operation::default();
    let mut part = || {
        let mut state = program.state.lock().unwrap();
        let part = program.forwarding.with_detached(Instant::ZERO, |ctx| {
            operation.part(ctx, program.scope(), &mut state, &asked, 3)
        });
        part.unwrap().unwrap()
    };
    let of = |count| Some(bytes(&[0, 0, 0, 0, 0, 0, 0, count]));
    assert!(!part());
    assert_eq!((kept(1), kept(5)), (of(8), of(0)));
    while !part() {}
    assert_eq!((kept(1), kept(5)), (of(8), of(8)));
}

#[test]
fn members_of_a_value_set_come_and_go() {
    let program = Program::new();
    let text: serde_json::Value = serde_json::from_slice(&program.schema.text).unwrap();
    let mut tables = text["tables"].as_array().unwrap().iter();
    let id = tables
        .find(|t| t["table_type"] == "ParserValueSet")
        .unwrap()["id"]
        .as_u64();
    let table_id = u32::try_from(id.unwrap()).unwrap();
    let of = |value: u8| bf::TableEntry {
        table_id,
        key: key(vec![bf::KeyField {
            field_id: 1,
            match_type: Some(MatchType::Ternary(key_field::Ternary {
                value: vec![8, value],
                mask: vec![255, 255],
            })),
        }]),
        ..bf::TableEntry::default()
    };
    let all = bf::TableEntry {
        table_id,
        ..bf::TableEntry::default()
    };
    program.write(Type::Insert, &of(0)).unwrap();
    program.write(Type::Insert, &of(6)).unwrap();
    let twice = program.write(Type::Insert, &of(6)).unwrap_err();
    assert_eq!(twice.code, Code::AlreadyExists);
    let keys = |entry| -> Vec<_> {
        let found = program.read(entry).unwrap();
        found.into_iter().map(|entry| entry.key).collect()
    };
    assert_eq!(keys(all.clone()), [of(0).key, of(6).key]);
    program.write(Type::Delete, &of(0)).unwrap();
    assert_eq!(keys(of(6)), [of(6).key]);
    program.write(Type::Delete, &all).unwrap();
    assert_eq!(program.read(of(6)).unwrap_err().code, Code::NotFound);
}

#[test]
fn a_read_asks_for_entries_with_an_action() {
    let program = Program::new();
    let [forward, drop] = ["forward", "drop"].map(|name| program.action("bridge", name));
    let host = |host: u8, data| bf::TableEntry {
        key: key(vec![exact(1, &[host])]),
        data,
        ..program.entry("bridge")
    };
    let forwarded = data(forward, &[(1, bytes(&[0, 1]))]);
    program.write(Type::Insert, &host(1, forwarded)).unwrap();
    program
        .write(Type::Insert, &host(2, data(drop, &[])))
        .unwrap();
    let count = |action| {
        let all = bf::TableEntry {
            data: data(action, &[]),
            ..program.entry("bridge")
        };
        program.read(all).unwrap().len()
    };
    assert_eq!([count(0), count(forward), count(drop)], [2, 1, 1]);
    assert_eq!(program.read(host(2, data(drop, &[]))).unwrap().len(), 1);
    let other = program.read(host(2, data(forward, &[]))).unwrap_err();
    assert_eq!(other.code, Code::InvalidArgument, "{other}");
}

#[test]
fn an_entry_for_tofino_needs_a_group_with_an_active_member() {
    // Numbers of the schema of `groups.p4`.
    const TABLE: u32 = 48_480_649;
    const MEMBERS: u32 = 2_172_506_497;
    const GROUPS: u32 = 2_186_198_245;
    const SEND: u32 = 29_795_013;
    let program = Program::of("groups");
    let number = |id: u32, value: u8| vec![exact(id, &[0, 0, 0, value])];
    let member = of_table(
        MEMBERS,
        key(number(fixed::MEMBER, 1)),
        data(SEND, &[(1, bytes(&[0, 3]))]),
    );
    program.write(Type::Insert, &member).unwrap();
    let group = |members: &[u32], states: &[bool]| {
        let fields = [
            (fixed::MEMBER, numbers(members)),
            (fixed::MEMBER_STATUS, flags(states)),
            (fixed::MAX_GROUP_SIZE, word(4)),
        ];
        of_table(GROUPS, key(number(fixed::GROUP, 1)), data(0, &fields))
    };
    let entry = of_table(
        TABLE,
        key(vec![exact(1, &[0, 5])]),
        data(0, &[(fixed::GROUP, word(1))]),
    );
    let code = |kind, entry: &bf::TableEntry| program.write(kind, entry).unwrap_err().code;
    program.write(Type::Insert, &group(&[], &[])).unwrap();
    assert_eq!(code(Type::Insert, &entry), Code::InvalidArgument);
    program.write(Type::Modify, &group(&[1], &[false])).unwrap();
    assert_eq!(code(Type::Insert, &entry), Code::InvalidArgument);
    program.write(Type::Modify, &group(&[1], &[true])).unwrap();
    program.write(Type::Insert, &entry).unwrap();
    // In use it keeps one.
    assert_eq!(code(Type::Modify, &group(&[], &[])), Code::InvalidArgument);
    assert_eq!(
        code(Type::Modify, &group(&[1], &[false])),
        Code::InvalidArgument
    );
    program.write(Type::Delete, &entry).unwrap();
    program.write(Type::Modify, &group(&[], &[])).unwrap();
    // A group of all pipes is not changed for one.
    let of_one = bf::TableEntry {
        entry_tgt: Some(bf::TargetDevice::default()),
        ..group(&[1], &[true])
    };
    assert_eq!(code(Type::Modify, &of_one), Code::InvalidArgument);
}

#[test]
fn a_value_set_of_tofino_compares_under_masks() {
    // The number in the schema of `groups.p4`.
    const KNOWN: u32 = 4_263_898_742;
    let program = Program::of("groups");
    let of = |value: u8, mask: u8| {
        let field = bf::KeyField {
            field_id: 1,
            match_type: Some(MatchType::Ternary(key_field::Ternary {
                value: vec![0, value],
                mask: vec![0, mask],
            })),
        };
        of_table(KNOWN, key(vec![field]), data(0, &[]))
    };
    program.write(Type::Insert, &of(0x10, 0xf0)).unwrap();
    assert_eq!(program.read(of(0x10, 0xf0)).unwrap(), [of(0x10, 0xf0)]);
    let again = program.write(Type::Insert, &of(0x10, 0xf0));
    assert_eq!(again.unwrap_err().code, Code::AlreadyExists);
    let is_known = |id: u8| {
        let of = program.forwarding.with_detached(Instant::ZERO, |ctx| {
            let input = IngressInput {
                ingress_port: 5,
                packet_id: 1,
                instance_type: 0,
                preserved: None,
                deflect: None,
            };
            let frame = vec![0, id, 0, 0];
            ctx.pipeline.ingress(Instant::ZERO, frame, &input).verdict
        });
        !matches!(
            of.unwrap(),
            IngressVerdict::Dropped(DropReason::ParserError)
        )
    };
    assert_eq!([0x1f, 0x20].map(is_known), [true, false]);
}

/// The client says what the frame costs on the wire besides its bytes, or which of its bytes do not count.
#[test]
fn meters_add_to_the_length_of_packets_as_their_table_says() {
    use bf::table_attribute::Attribute;
    let program = Program::new();
    let adjust = |table: &str, bytes: i32| {
        let attribute = Attribute::ByteCountAdj(bf::ByteCountAdj {
            byte_count_adjust: bytes,
        });
        let entity = Entity::TableAttribute(bf::TableAttribute {
            table_id: program.entry(table).table_id,
            attribute: Some(attribute),
        });
        program.update(Type::Insert, entity)
    };
    // The bytes that the meter of the port and that of the entry have counted once a packet of ARP was there.
    let counted = || {
        let of = program.forwarding.with_detached(Instant::ZERO, |ctx| {
            let input = IngressInput {
                ingress_port: 1,
                packet_id: 1,
                instance_type: 0,
                preserved: None,
                deflect: None,
            };
            let mut frame = vec![0; 60];
            frame[12..14].copy_from_slice(&[0x08, 0x06]);
            ctx.pipeline.ingress(Instant::ZERO, frame, &input);
            let pipeline = &ctx.pipeline;
            let of_port = pipeline.meter("MyIngress.port_meter").unwrap();
            let preset = pipeline.table("MyIngress.preset").unwrap();
            let entry = pipeline.entries(preset).next().unwrap();
            [
                pipeline.meter_counts(of_port, 1).unwrap(),
                pipeline.entry_meter(preset, Some(entry.id)).1,
            ]
            .map(|counts| counts.iter().map(|count| count.bytes).sum::<u64>())
        });
        of.unwrap()
    };
    assert_eq!(counted(), [60, 60]);
    adjust("port_meter", 25).unwrap();
    adjust("preset", -10).unwrap();
    assert_eq!(counted(), [60 + 85, 60 + 50]);
    adjust("port_meter", -100).unwrap();
    adjust("preset", 0).unwrap();
    assert_eq!(counted(), [145, 110 + 60]);
    let refused = adjust("bridge", 1).unwrap_err();
    assert_eq!(refused.code, Code::InvalidArgument, "{refused}");
}
