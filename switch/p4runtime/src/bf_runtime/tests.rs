//! Requests and answers on a program with one object of every kind.

mod batches;
mod calls;
mod dynamic_hash;
mod low_pass;
mod multicast;
mod own_rules;
mod packet_generator;

use std::sync::{Arc, Mutex};

use ebb_units::Instant;
use tonic::Code;

use super::batch::{self, Operation, Reading, Scope};
use super::chip::{Chip, Port};
use super::schema::{Schema, fixed};
use super::state::State;
use crate::error::Result;
use crate::fixture;
use crate::forwarding::Forwarding;
use crate::programs::Programs;
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::data_field::{BoolArray, IntArray, Value};
use crate::proto::bf_runtime::entity::Entity;
use crate::proto::bf_runtime::key_field::{self, MatchType};
use crate::proto::bf_runtime::update::Type;

struct Program {
    forwarding: Forwarding,
    schema: Schema,
    state: Mutex<State>,
}

impl Program {
    fn new() -> Program {
        Program::of("entities")
    }

    fn of(name: &str) -> Program {
        let compiled = fixture::compiled(name);
        let config = compiled.pipeline_config();
        let ports = [0, 3].map(|number| Port {
            number,
            name: format!("veth{number}"),
        });
        Program {
            forwarding: Forwarding::verify(&Programs::new(true), config).unwrap(),
            schema: Schema::parse(name, compiled.bf_rt.to_string().into()).unwrap(),
            state: Mutex::new(State::new(Chip::new(ports.to_vec()))),
        }
    }

    /// An entry without key and data.
    fn entry(&self, table: &str) -> bf::TableEntry {
        let text: serde_json::Value = serde_json::from_slice(&self.schema.text).unwrap();
        let mut tables = text["tables"].as_array().unwrap().iter();
        let found = tables.find(|t| t["name"] == format!("pipe.MyIngress.{table}"));
        let id = found.unwrap_or_else(|| panic!("{table}"))["id"]
            .as_u64()
            .unwrap();
        bf::TableEntry {
            table_id: u32::try_from(id).unwrap(),
            ..bf::TableEntry::default()
        }
    }

    fn action(&self, table: &str, name: &str) -> u32 {
        let text: serde_json::Value = serde_json::from_slice(&self.schema.text).unwrap();
        let tables = text["tables"].as_array().unwrap();
        let table = tables
            .iter()
            .find(|t| t["name"] == format!("pipe.MyIngress.{table}"));
        let actions = table.unwrap()["action_specs"].as_array().unwrap();
        let action = actions
            .iter()
            .find(|a| a["name"] == format!("MyIngress.{name}"));
        u32::try_from(action.unwrap()["id"].as_u64().unwrap()).unwrap()
    }

    fn scope(&self) -> Scope<'_> {
        Scope {
            schema: &self.schema,
            target: None,
        }
    }

    fn write(&self, kind: Type, entry: &bf::TableEntry) -> Result<()> {
        self.update(kind, Entity::TableEntry(entry.clone()))
    }

    fn update(&self, kind: Type, entity: Entity) -> Result<()> {
        let update = bf::Update {
            r#type: kind as i32,
            entity: Some(bf::Entity {
                entity: Some(entity),
            }),
        };
        let done = self.forwarding.with_detached(Instant::ZERO, |ctx| {
            batch::write(ctx, self.scope(), &mut self.state.lock().unwrap(), &update)
        });
        done.unwrap()
    }

    fn read(&self, entry: bf::TableEntry) -> Result<Vec<bf::TableEntry>> {
        let entries = self
            .get(Entity::TableEntry(entry))?
            .into_iter()
            .map(|e| match e.entity {
                Some(Entity::TableEntry(entry)) => entry,
                other => panic!("{other:?}"),
            });
        Ok(entries.collect())
    }

    /// Reads in parts of two.
    fn get(&self, entity: Entity) -> Result<Vec<bf::Entity>> {
        let mut reading = Reading::new(&bf::Entity {
            entity: Some(entity),
        })?;
        let mut found = Vec::new();
        loop {
            let part = self.forwarding.with_detached(Instant::ZERO, |ctx| {
                let part = (found.len() + 2, &mut found);
                reading.part(ctx, self.scope(), &mut self.state.lock().unwrap(), part)
            });
            if part.unwrap()? {
                return Ok(found);
            }
        }
    }
}

fn exact(field_id: u32, value: &[u8]) -> bf::KeyField {
    let value = value.to_vec();
    bf::KeyField {
        field_id,
        match_type: Some(MatchType::Exact(key_field::Exact { value })),
    }
}

fn key(fields: Vec<bf::KeyField>) -> Option<bf::TableKey> {
    Some(bf::TableKey { fields })
}

fn data(action_id: u32, fields: &[(u32, Value)]) -> Option<bf::TableData> {
    let fields = fields.iter().map(|(field_id, value)| bf::DataField {
        field_id: *field_id,
        value: Some(value.clone()),
    });
    Some(bf::TableData {
        action_id,
        fields: fields.collect(),
    })
}

fn bytes(value: &[u8]) -> Value {
    Value::Stream(value.to_vec())
}

#[test]
fn an_entry_is_inserted_changed_read_and_deleted() {
    let program = Program::new();
    let forward = program.action("bridge", "forward");
    let of = |port: u8| bf::TableEntry {
        key: key(vec![exact(1, &[0, 0, 0, 0, 0, 7])]),
        data: data(forward, &[(1, bytes(&[0, port]))]),
        ..program.entry("bridge")
    };
    program.write(Type::Insert, &of(2)).unwrap();
    let again = program.write(Type::Insert, &of(2)).unwrap_err();
    assert_eq!(again.code, Code::AlreadyExists);
    program.write(Type::InsertOrModify, &of(3)).unwrap();
    assert_eq!(program.read(program.entry("bridge")).unwrap(), [of(3)]);
    program.write(Type::Modify, &of(4)).unwrap();
    let one = bf::TableEntry {
        data: None,
        ..of(0)
    };
    assert_eq!(program.read(one.clone()).unwrap(), [of(4)]);
    program.write(Type::Delete, &one).unwrap();
    assert_eq!(program.read(one).unwrap_err().code, Code::NotFound);
    assert_eq!(program.read(program.entry("bridge")).unwrap(), []);
}

#[test]
fn an_entry_has_a_cell_of_a_direct_register() {
    // Numbers of the schema: the table, its action, the parameter, and the members of the register's cells.
    const TABLE: u32 = 48_480_649;
    const COUNTED: u32 = 31_942_583;
    let [port, hits, count] = [1, 2, 3];
    let program = Program::of("direct_register");
    let entry = |id: u8, action, fields: &[(u32, Value)]| bf::TableEntry {
        table_id: TABLE,
        key: key(vec![exact(1, &[0, id])]),
        data: data(action, fields),
        ..bf::TableEntry::default()
    };
    let read = || {
        let all = bf::TableEntry {
            table_id: TABLE,
            ..bf::TableEntry::default()
        };
        program.read(all).unwrap()
    };
    let whole = |id, of_hits: u8, of_bytes: u8| {
        let fields = [
            (port, bytes(&[0, 2])),
            (hits, bytes(&[0, 0, 0, of_hits])),
            (count, bytes(&[0, of_bytes])),
        ];
        entry(id, COUNTED, &fields)
    };
    let given = [(port, bytes(&[2])), (hits, bytes(&[9]))];
    program
        .write(Type::Insert, &entry(5, COUNTED, &given))
        .unwrap();
    program
        .write(Type::Insert, &entry(6, COUNTED, &given[..1]))
        .unwrap();
    assert_eq!(read(), [whole(5, 9, 0), whole(6, 0, 0)]);
    // Members that are left out stay.
    program
        .write(Type::Modify, &entry(5, 0, &[(count, bytes(&[3]))]))
        .unwrap();
    assert_eq!(read(), [whole(5, 9, 3), whole(6, 0, 0)]);
    // A value that is too wide: nothing is applied.
    let wide = [(port, bytes(&[2])), (count, bytes(&[1, 0, 0]))];
    let refused = program.write(Type::Insert, &entry(7, COUNTED, &wide));
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, Code::OutOfRange, "{refused}");
    assert_eq!(read().len(), 2);
    // The next entry in the same place begins anew.
    program.write(Type::Delete, &entry(5, 0, &[])).unwrap();
    program
        .write(Type::Insert, &entry(5, COUNTED, &given[..1]))
        .unwrap();
    assert_eq!(read(), [whole(5, 0, 0), whole(6, 0, 0)]);
}

#[test]
fn without_a_key_all_entries_go_but_the_default() {
    let program = Program::new();
    let forward = program.action("bridge", "forward");
    for host in 0..5 {
        let entry = bf::TableEntry {
            key: key(vec![exact(1, &[host])]),
            data: data(forward, &[(1, bytes(&[1]))]),
            ..program.entry("bridge")
        };
        program.write(Type::Insert, &entry).unwrap();
    }
    assert_eq!(program.read(program.entry("bridge")).unwrap().len(), 5);
    let default = bf::TableEntry {
        is_default_entry: true,
        ..program.entry("bridge")
    };
    let set = bf::TableEntry {
        data: data(forward, &[(1, bytes(&[0, 9]))]),
        ..default.clone()
    };
    program.write(Type::Modify, &set).unwrap();
    program
        .write(Type::Delete, &program.entry("bridge"))
        .unwrap();
    assert_eq!(program.read(program.entry("bridge")).unwrap(), []);
    assert_eq!(program.read(default.clone()).unwrap(), [set]);
    program.write(Type::Delete, &default).unwrap();
    let back = &program.read(default).unwrap()[0];
    let action = back.data.as_ref().map(|data| data.action_id);
    assert_eq!(action, Some(program.action("bridge", "drop")));
}

/// The least priority wins in BF Runtime, and fields that match any value are written out.
#[test]
fn ternary_keys_keep_their_priority_and_what_matches_anything() {
    let program = Program::new();
    let ternary = |value: [u8; 4], mask: [u8; 4]| bf::KeyField {
        field_id: 1,
        match_type: Some(MatchType::Ternary(key_field::Ternary {
            value: value.into(),
            mask: mask.into(),
        })),
    };
    let permit = program.action("acl", "permit");
    let of = |priority: u32, field| bf::TableEntry {
        key: key(vec![field, exact(fixed::PRIORITY, &priority.to_be_bytes())]),
        data: data(permit, &[]),
        ..program.entry("acl")
    };
    program
        .write(Type::Insert, &of(7, ternary([10, 1, 2, 3], [255, 0, 0, 0])))
        .unwrap();
    program
        .write(Type::Insert, &of(0, ternary([1, 1, 1, 1], [0; 4])))
        .unwrap();
    let found = program.read(program.entry("acl")).unwrap();
    let keys: Vec<_> = found.iter().filter_map(|e| e.key.clone()).collect();
    let first = |key: &bf::TableKey| key.fields[0].clone();
    let priority = |key: &bf::TableKey| key.fields.last().cloned();
    let mut seen: Vec<_> = keys.iter().map(|k| (first(k), priority(k))).collect();
    seen.sort_by_key(|(field, _)| format!("{field:?}"));
    let at = |priority: u32| Some(exact(fixed::PRIORITY, &priority.to_be_bytes()));
    let expected = [
        (ternary([0; 4], [0; 4]), at(0)),
        (ternary([10, 0, 0, 0], [255, 0, 0, 0]), at(7)),
    ];
    assert_eq!(seen, expected);
    let range = keys[0].fields.iter().find_map(|f| match &f.match_type {
        Some(MatchType::Range(range)) => Some((range.low.clone(), range.high.clone())),
        _ => None,
    });
    assert_eq!(range, Some((vec![0], vec![255])));
    let far = program.write(Type::Insert, &of(u32::MAX, ternary([0; 4], [1; 4])));
    assert_eq!(far.unwrap_err().code, Code::OutOfRange);
}

#[test]
fn members_groups_and_the_entries_that_use_them() {
    let program = Program::new();
    let next_hop = program.action("ecmp", "set_next_hop");
    let member = |id: u8| bf::TableEntry {
        key: key(vec![exact(fixed::MEMBER, &[0, 0, 0, id])]),
        data: data(
            next_hop,
            &[(1, bytes(&[0, id])), (2, bytes(&[0, 0, 0, 0, 0, id]))],
        ),
        ..program.entry("ecmp")
    };
    for id in [1, 2] {
        program.write(Type::Insert, &member(id)).unwrap();
    }
    assert_eq!(
        program.read(program.entry("ecmp")).unwrap(),
        [member(1), member(2)]
    );
    let members = Value::IntArrVal(IntArray { val: vec![1, 2] });
    let group = |active: &[bool]| bf::TableEntry {
        key: key(vec![exact(fixed::GROUP, &[0, 0, 0, 5])]),
        data: data(
            0,
            &[
                (fixed::MEMBER, members.clone()),
                (
                    fixed::MEMBER_STATUS,
                    Value::BoolArrVal(BoolArray {
                        val: active.to_vec(),
                    }),
                ),
                (fixed::MAX_GROUP_SIZE, bytes(&[0, 0, 0, 4])),
            ],
        ),
        ..program.entry("ecmp_sel")
    };
    let refused = program.write(Type::Insert, &group(&[true])).unwrap_err();
    assert_eq!(refused.code, Code::InvalidArgument);
    program.write(Type::Insert, &group(&[true, true])).unwrap();
    assert_eq!(
        program.read(program.entry("ecmp_sel")).unwrap(),
        [group(&[true, true])]
    );
    let of_size = |size: u8| bf::TableEntry {
        data: data(0, &[(fixed::MAX_GROUP_SIZE, bytes(&[0, 0, 0, size]))]),
        ..group(&[])
    };
    program.write(Type::Modify, &of_size(2)).unwrap();
    let resized = program.read(program.entry("ecmp_sel")).unwrap();
    let fields = &resized[0].data.as_ref().unwrap().fields;
    assert_eq!(fields.last().unwrap().value, Some(bytes(&[0, 0, 0, 2])));
    let refused = program.write(Type::Modify, &of_size(1)).unwrap_err();
    assert_eq!(refused.code, Code::ResourceExhausted, "it has two members");
    let lpm = bf::KeyField {
        field_id: 1,
        match_type: Some(MatchType::Lpm(key_field::Lpm {
            value: vec![10, 9, 9, 9],
            prefix_len: 8,
        })),
    };
    let route = bf::TableEntry {
        key: key(vec![lpm]),
        data: data(0, &[(fixed::GROUP, bytes(&[5]))]),
        ..program.entry("route")
    };
    program.write(Type::Insert, &route).unwrap();
    let hits = bf::TableEntry {
        data: data(0, &[(fixed::COUNTER_PACKETS, bytes(&[9]))]),
        ..route.clone()
    };
    program.write(Type::Modify, &hits).unwrap();
    let found = &program.read(program.entry("route")).unwrap()[0];
    let fields = &found.data.as_ref().unwrap().fields;
    assert_eq!(fields[0].value, Some(bytes(&[0, 0, 0, 5])));
    assert_eq!(fields[1].value, Some(bytes(&[0, 0, 0, 0, 0, 0, 0, 9])));
}

#[test]
fn cells_are_set_read_and_reset() {
    let program = Program::new();
    let cell = |table: &str, id: u32, fields: &[(u32, Value)]| bf::TableEntry {
        key: key(vec![exact(id, &[0, 0, 0, 2])]),
        data: data(0, fields),
        ..program.entry(table)
    };
    let long = |value: u64| bytes(&value.to_be_bytes());
    let meter: Vec<_> = fixed::METER_BYTES
        .into_iter()
        .zip([1000, 2000, 10, 20].map(long))
        .collect();
    let cells = [
        cell(
            "port_in",
            65556,
            &[
                (fixed::COUNTER_BYTES, long(100)),
                (fixed::COUNTER_PACKETS, long(2)),
            ],
        ),
        cell("port_meter", 65555, &meter),
        cell("last_seen", 65557, &[(1, bytes(&[0, 0, 1, 44]))]),
    ];
    for set in &cells {
        program.write(Type::Insert, set).unwrap();
        let one = bf::TableEntry {
            data: None,
            ..set.clone()
        };
        assert_eq!(
            program.read(one.clone()).unwrap(),
            std::slice::from_ref(set)
        );
        program.write(Type::Delete, &one).unwrap();
        let after = program.read(one).unwrap();
        assert_ne!(
            after,
            std::slice::from_ref(set),
            "it is as it was at the start"
        );
    }
    assert_eq!(program.read(program.entry("last_seen")).unwrap().len(), 4);
}

#[test]
fn what_there_is_not_is_refused_by_name() {
    let chip = r#"{ "tables": [
        { "name": "pipe.snapshot.cfg", "id": 7, "table_type": "SnapshotCfg", "key": [] },
        { "name": "tbl_dbg_counter", "id": 8, "table_type": "DbgCounter", "key": [] } ] }"#;
    let program = Program {
        schema: Schema::parse("entities", chip.into()).unwrap(),
        ..Program::new()
    };
    let beginnings = [
        (
            7,
            "pipe.snapshot.cfg: a snapshot is of the fields at a stage",
        ),
        (8, "tbl_dbg_counter describes the chip"),
    ];
    for (table_id, beginning) in beginnings {
        let entry = of_table(table_id, None, None);
        let read = program.read(entry.clone()).unwrap_err();
        let written = program.write(Type::Insert, &entry).unwrap_err();
        for refused in [read, written] {
            assert_eq!(refused.code, Code::Unimplemented);
            assert!(refused.message.starts_with(beginning), "{refused}");
        }
    }
    let program = Program::new();
    let unknown = of_table(1, None, None);
    assert_eq!(
        program.write(Type::Insert, &unknown).unwrap_err().code,
        Code::NotFound
    );
    let wide = bf::TableEntry {
        key: key(vec![exact(1, &[1, 0, 0, 0, 0, 0, 0])]),
        data: data(program.action("bridge", "drop"), &[]),
        ..program.entry("bridge")
    };
    let refused = program.write(Type::Insert, &wide).unwrap_err();
    assert_eq!(refused.code, Code::OutOfRange);
    let other = bf::TableEntry {
        key: key(vec![exact(9, &[1])]),
        ..wide.clone()
    };
    assert!(
        program
            .write(Type::Insert, &other)
            .unwrap_err()
            .message
            .contains("key field 9")
    );
    assert_eq!(
        program.read(program.entry("bridge")).unwrap(),
        [],
        "nothing was done"
    );
}

fn numbers(values: &[u32]) -> Value {
    Value::IntArrVal(IntArray {
        val: values.to_vec(),
    })
}

fn flags(values: &[bool]) -> Value {
    Value::BoolArrVal(BoolArray {
        val: values.to_vec(),
    })
}

#[test]
fn attributes_and_handles_are_kept() {
    use bf::mode::{PredefinedMode, Scope as Pipes};
    use bf::table_attribute::Attribute;
    let program = Program::new();
    let table_id = program.entry("bridge").table_id;
    let attribute = |attribute| {
        Entity::TableAttribute(bf::TableAttribute {
            table_id,
            attribute: Some(attribute),
        })
    };
    let scope = |mode: PredefinedMode| {
        let mode = bf::Mode {
            scope: Some(Pipes::Predef(mode as i32)),
            args: 0,
        };
        bf::EntryScope {
            pipe_scope: Some(mode),
            gress_scope: None,
            prsr_scope: None,
        }
    };
    let single = attribute(Attribute::EntryScope(scope(PredefinedMode::Single)));
    program.update(Type::Insert, single).unwrap();
    let asked = attribute(Attribute::EntryScope(bf::EntryScope::default()));
    let found = program.get(asked).unwrap();
    let Some(Entity::TableAttribute(found)) = &found[0].entity else {
        panic!("{found:?}")
    };
    let Some(Attribute::EntryScope(found)) = found.attribute else {
        panic!("{found:?}")
    };
    assert_eq!(found.pipe_scope, scope(PredefinedMode::Single).pipe_scope);
    let entry = |pipe_id| bf::TableEntry {
        key: key(vec![exact(1, &[0, 0, 0, 0, 0, 7])]),
        data: data(program.action("bridge", "drop"), &[]),
        entry_tgt: Some(bf::TargetDevice {
            pipe_id,
            ..bf::TargetDevice::default()
        }),
        ..program.entry("bridge")
    };
    for pipe in [0xffff, 1] {
        let refused = program.write(Type::Insert, &entry(pipe)).unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument);
    }
    program.write(Type::Insert, &entry(0)).unwrap();
    let asked = Entity::Handle(bf::HandleId {
        table_id,
        value: entry(0).key.map(bf::handle_id::Value::Key),
    });
    let found = program.get(asked).unwrap();
    let Some(Entity::Handle(handle)) = &found[0].entity else {
        panic!("{found:?}")
    };
    let Some(bf::handle_id::Value::HandleId(handle_id)) = handle.value else {
        panic!("{handle:?}")
    };
    let by_handle = bf::TableEntry {
        key: None,
        handle_id,
        ..entry(0)
    };
    assert_eq!(
        program.read(by_handle.clone()).unwrap()[0].key,
        entry(0).key
    );
    // An entry of one pipe: from all of them it is found by its handle only.
    let of_all = |of: bf::TableEntry| bf::TableEntry {
        entry_tgt: entry(0xffff).entry_tgt,
        ..of
    };
    assert_eq!(program.read(of_all(by_handle.clone())).unwrap().len(), 1);
    let refused = program.read(of_all(entry(0))).unwrap_err();
    assert_eq!(refused.code, Code::NotFound);
    // The default entry, named by its handle, is an entry as any other.
    let default = bf::TableEntry {
        handle_id: 1,
        ..by_handle.clone()
    };
    assert!(!program.read(default).unwrap()[0].is_default_entry);
    // An entry of all pipes: what is kept of it is that of all.
    let all = attribute(Attribute::EntryScope(scope(PredefinedMode::All)));
    program.update(Type::Insert, all).unwrap();
    let kept = |pipe_id| bf::TableEntry {
        table_flags: Some(bf::TableFlags::default()),
        ..entry(pipe_id)
    };
    assert_eq!(program.read(kept(0xffff)).unwrap().len(), 1);
    assert_eq!(program.read(kept(0)).unwrap_err().code, Code::NotFound);
    assert_eq!(program.read(entry(0)).unwrap().len(), 1);
    let other = bf::TableEntry {
        handle_id: handle_id + 1,
        ..by_handle
    };
    assert_eq!(program.read(other).unwrap_err().code, Code::InvalidArgument);
    let mask = attribute(Attribute::DynKeyMask(bf::DynKeyMask::default()));
    let refused = program.update(Type::Insert, mask).unwrap_err();
    assert!(refused.message.contains("DynamicKeyMask"), "{refused}");
}

#[test]
fn a_port_becomes_that_of_copies_to_the_cpu() {
    let program = Program::of("filters");
    let row = |port: u32, fields: &[(u32, Value)]| {
        let key = key(vec![exact(1, &port.to_be_bytes())]);
        of_table(0xff02_0006, key, data(0, fields))
    };
    let copies = |wanted| [(4, Value::BoolVal(wanted))];
    let present = || {
        let of = program
            .forwarding
            .with_detached(Instant::ZERO, |ctx| ctx.pipeline.cpu_port());
        of.unwrap()
    };
    program
        .write(Type::Insert, &row(64, &copies(true)))
        .unwrap();
    assert_eq!(present(), Some(64));
    program
        .write(Type::Insert, &row(5, &copies(false)))
        .unwrap();
    assert_eq!(present(), Some(64));
    program
        .write(Type::Modify, &row(64, &copies(false)))
        .unwrap();
    assert_eq!(present(), None);
    let far = program.write(Type::Insert, &row(511, &copies(true)));
    assert_eq!(far.unwrap_err().code, Code::OutOfRange);
    let backup = program.write(Type::Insert, &row(7, &[(1, word(2))]));
    assert_eq!(backup.unwrap_err().code, Code::Unimplemented);
}

#[test]
fn the_device_tells_its_ports() {
    let program = Program::new();
    let chip: serde_json::Value =
        serde_json::from_slice(&program.state.lock().unwrap().chip.schema()).unwrap();
    let names: Vec<_> = chip["tables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| &t["name"])
        .collect();
    assert_eq!(names[0], "tf1.dev.device_configuration");
    let device = bf::TableEntry {
        table_id: 0xff06_0001,
        is_default_entry: true,
        ..bf::TableEntry::default()
    };
    let found = program.read(device).unwrap();
    let fields = &found[0].data.as_ref().unwrap().fields;
    let field = |id| {
        fields
            .iter()
            .find(|f| f.field_id == id)
            .unwrap()
            .value
            .clone()
    };
    assert_eq!(field(2), Some(bytes(&[0, 0, 0, 1])));
    assert_eq!(field(9), Some(numbers(&[0, 3])));
    let ports = bf::TableEntry {
        table_id: 0xff01_0001,
        ..bf::TableEntry::default()
    };
    assert_eq!(program.read(ports).unwrap().len(), 2);
}

#[test]
fn a_schema_that_is_none_is_told_with_its_path() {
    let error = Schema::read("x", &fixture::path("entities.p4"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("entities.p4") && error.contains("--bf-rt-schema"),
        "{error}"
    );
}

/// Numbers of the schema of `filters.p4`.
mod filters {
    pub const QUEUES: u32 = 44_000_424;
    pub const JUDGE: u32 = 26_350_125;
    pub const FORWARD: u32 = 40_085_667;
    pub const SEND: u32 = 29_795_013;
    pub const LIMIT: u32 = 2_234_714_448;
    pub const MEAN: u32 = 2_309_963_631;
    pub const LPF_INDEX: u32 = 65560;
    /// Type, gain, decay, bits of the scale.
    pub const LPF: [u32; 4] = [65567, 65568, 65569, 65570];
    /// Time constant, thresholds, probability.
    pub const WRED: [u32; 4] = [65571, 65572, 65573, 65574];
}

fn word(value: u32) -> Value {
    bytes(&value.to_be_bytes())
}

fn of_table(
    table_id: u32,
    key: Option<bf::TableKey>,
    data: Option<bf::TableData>,
) -> bf::TableEntry {
    bf::TableEntry {
        table_id,
        key,
        data,
        ..bf::TableEntry::default()
    }
}
