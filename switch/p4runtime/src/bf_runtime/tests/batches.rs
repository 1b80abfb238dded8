//! Batches as a whole, and the codes of what is refused.

use super::*;
use crate::bf_runtime::transaction;

#[test]
fn a_batch_is_done_as_a_whole_or_not_at_all() {
    let program = Program::new();
    let forward = program.action("bridge", "forward");
    let entry = |host: u8, port: u8| bf::TableEntry {
        key: key(vec![exact(1, &[0, 0, 0, 0, 0, host])]),
        data: data(forward, &[(1, bytes(&[0, port]))]),
        ..program.entry("bridge")
    };
    let update = |kind: Type, entry: bf::TableEntry| bf::Update {
        r#type: kind as i32,
        entity: Some(bf::Entity {
            entity: Some(Entity::TableEntry(entry)),
        }),
    };
    let batch = |updates: &[bf::Update]| {
        let done = program.forwarding.with_detached(Instant::ZERO, |ctx| {
            let state = &mut program.state.lock().unwrap();
            transaction::write_all_or_nothing(ctx, program.scope(), state, updates)
        });
        done.unwrap()
    };
    let all = || {
        let mut found = program.read(program.entry("bridge")).unwrap();
        found.sort_by_key(|entry| format!("{:?}", entry.key));
        found
    };
    for host in [1, 2, 3] {
        program.write(Type::Insert, &entry(host, host)).unwrap();
    }
    let before = all();
    let default = bf::TableEntry {
        is_default_entry: true,
        ..entry(0, 9)
    };
    let default = bf::TableEntry {
        key: None,
        ..default
    };
    let default_before = program
        .read(bf::TableEntry {
            data: None,
            ..default.clone()
        })
        .unwrap();
    let results = batch(&[
        update(Type::Insert, entry(4, 4)),
        update(Type::Modify, entry(1, 7)),
        update(Type::InsertOrModify, entry(2, 8)),
        update(Type::InsertOrModify, entry(5, 8)),
        update(Type::Modify, default.clone()),
        update(Type::Delete, entry(3, 3)),
        update(Type::Delete, program.entry("bridge")),
        update(Type::Insert, entry(6, 6)),
        update(Type::Insert, entry(6, 6)),
        update(Type::Insert, entry(7, 7)),
    ]);
    // The one that failed alone has an error.
    let failed: Vec<_> = results
        .iter()
        .enumerate()
        .filter(|(_, r)| r.is_err())
        .collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].0, 8);
    let error = failed[0].1.as_ref().unwrap_err();
    assert_eq!(error.code, Code::AlreadyExists, "{error}");
    assert_eq!(all(), before);
    let default_now = program
        .read(bf::TableEntry {
            data: None,
            ..default
        })
        .unwrap();
    assert_eq!(default_now, default_before);
    let results = batch(&[
        update(Type::Delete, program.entry("bridge")),
        update(Type::Insert, entry(9, 9)),
    ]);
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(all(), [entry(9, 9)]);
    // An update that cannot be undone is refused by name before it is done.
    let results = batch(&[
        update(Type::Delete, entry(9, 9)),
        update(
            Type::Insert,
            of_table(0xff01_0001, key(vec![exact(1, &[0, 0, 0, 1])]), None),
        ),
    ]);
    let error = results[1].as_ref().unwrap_err();
    assert_eq!(error.code, Code::Unimplemented, "{error}");
    assert_eq!(all(), [entry(9, 9)]);
}

#[test]
fn wrong_numbers_and_widths_have_codes_and_change_nothing() {
    let program = Program::new();
    let forward = program.action("bridge", "forward");
    let bridge = program.entry("bridge");
    let entry = |fields: Vec<bf::KeyField>, action: u32, given: &[(u32, Value)]| bf::TableEntry {
        key: key(fields),
        data: data(action, given),
        ..bridge.clone()
    };
    let host = || vec![exact(1, &[1])];
    let port = [(1, bytes(&[0, 1]))];
    let cases = [
        (
            "table",
            of_table(1, key(host()), data(forward, &port)),
            Code::NotFound,
        ),
        ("action", entry(host(), 77, &port), Code::InvalidArgument),
        (
            "key field",
            entry(vec![exact(9, &[1])], forward, &port),
            Code::InvalidArgument,
        ),
        (
            "key too wide",
            entry(vec![exact(1, &[1, 0, 0, 0, 0, 0, 0])], forward, &port),
            Code::OutOfRange,
        ),
        (
            "parameter too wide",
            entry(host(), forward, &[(1, bytes(&[2, 0]))]),
            Code::OutOfRange,
        ),
        (
            "parameter of another type",
            entry(host(), forward, &[(1, Value::StrVal("1".into()))]),
            Code::InvalidArgument,
        ),
    ];
    for (what, entry, code) in cases {
        let refused = program.write(Type::Insert, &entry).unwrap_err();
        assert_eq!(refused.code, code, "{what}: {refused}");
        assert_eq!(program.read(bridge.clone()).unwrap(), [], "{what}");
    }
    let read = program.read(of_table(1, None, None)).unwrap_err();
    assert_eq!(read.code, Code::NotFound, "{read}");
    let handle = bf::TableEntry {
        handle_id: 12345,
        ..bridge.clone()
    };
    let read = program.read(handle).unwrap_err();
    assert_eq!(read.code, Code::InvalidArgument, "{read}");
}
