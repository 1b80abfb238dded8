//! Requests and answers on a program with one object of every kind.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebb_units::Instant;
use tonic::Code;

use super::batch::{self, Reading};
use super::schema::{Schema, fixed};
use crate::error::Result;
use crate::forwarding::Forwarding;
use crate::preload::read_config;
use crate::programs::Programs;
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::data_field::{BoolArray, IntArray, Value};
use crate::proto::bf_runtime::entity::Entity;
use crate::proto::bf_runtime::key_field::{self, MatchType};
use crate::proto::bf_runtime::update::Type;

struct Program {
    forwarding: Forwarding,
    schema: Schema,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixture")
        .join(name)
}

impl Program {
    fn new() -> Program {
        let [json, info] = ["entities.json", "entities.p4info.txtpb"].map(fixture);
        let config = read_config(&json, &info).unwrap();
        Program {
            forwarding: Forwarding::verify(&Programs::new(true), config).unwrap(),
            schema: Schema::read("entities", &fixture("entities.bf-rt.json")).unwrap(),
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

    fn write(&self, kind: Type, entry: &bf::TableEntry) -> Result<()> {
        let update = bf::Update {
            r#type: kind as i32,
            entity: Some(bf::Entity {
                entity: Some(Entity::TableEntry(entry.clone())),
            }),
        };
        let done = self.forwarding.with_detached(Instant::ZERO, |ctx| {
            batch::write(ctx, &self.schema, &update)
        });
        done.unwrap()
    }

    /// Reads in parts of two.
    fn read(&self, entry: bf::TableEntry) -> Result<Vec<bf::TableEntry>> {
        let entity = bf::Entity {
            entity: Some(Entity::TableEntry(entry)),
        };
        let mut reading = Reading::new(&self.schema, &entity)?;
        let mut found = Vec::new();
        loop {
            let part = self.forwarding.with_detached(Instant::ZERO, |ctx| {
                reading.part(ctx, &self.schema, found.len() + 2, &mut found)
            });
            if part.unwrap()? {
                break;
            }
        }
        let entries = found.into_iter().map(|e| match e.entity {
            Some(Entity::TableEntry(entry)) => entry,
            other => panic!("{other:?}"),
        });
        Ok(entries.collect())
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
    let program = Program::new();
    let get = program.entry("ecmp_sel_get_member");
    let refused = program.read(get.clone()).unwrap_err();
    assert_eq!(refused.code, Code::Unimplemented);
    assert!(refused.message.contains("ecmp_sel_get_member"), "{refused}");
    let unknown = bf::TableEntry { table_id: 1, ..get };
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
    let modify_inc = program.write(Type::ModifyInc, &wide).unwrap_err();
    assert_eq!(modify_inc.code, Code::Unimplemented);
    assert_eq!(
        program.read(program.entry("bridge")).unwrap(),
        [],
        "nothing was done"
    );
}

#[test]
fn a_schema_that_is_none_is_told_with_its_path() {
    let error = Schema::read("x", &fixture("entities.p4"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("entities.p4") && error.contains("--bf-rt-schema"),
        "{error}"
    );
}

mod calls {
    use super::*;
    use crate::arbitration::Arbitration;
    use crate::bf_runtime::Service;
    use crate::host::Host;
    use crate::plain::Plain;
    use crate::proto::bf_runtime::bf_runtime_server::BfRuntime;
    use tokio_stream::StreamExt;
    use tonic::Request;

    async fn service() -> Service {
        let [json, info] = ["entities.json", "entities.p4info.txtpb"].map(fixture);
        let programs = Arc::new(Programs::new(true));
        let config = read_config(&json, &info).unwrap();
        let forwarding = Forwarding::verify(&programs, config).unwrap();
        let host = Host::new(Arc::new(Plain::new(0)), programs, Arbitration::Required);
        host.commit(Arc::new(forwarding), None).await.unwrap();
        let schema = Schema::read("entities", &fixture("entities.bf-rt.json")).unwrap();
        Service::new(host, Arc::new(schema))
    }

    #[tokio::test]
    async fn clients_bind_to_the_program_that_runs() {
        let service = service().await;
        let bind = |name: &str, action| {
            Request::new(bf::SetForwardingPipelineConfigRequest {
                action,
                config: vec![bf::ForwardingPipelineConfig {
                    p4_name: name.into(),
                    ..Default::default()
                }],
                ..Default::default()
            })
        };
        assert!(
            service
                .set_forwarding_pipeline_config(bind("entities", 0))
                .await
                .is_ok()
        );
        let other = service
            .set_forwarding_pipeline_config(bind("other", 0))
            .await;
        assert_eq!(other.unwrap_err().code(), Code::NotFound);
        let push = service
            .set_forwarding_pipeline_config(bind("entities", 3))
            .await;
        assert_eq!(push.unwrap_err().code(), Code::Unimplemented);
        let get = bf::GetForwardingPipelineConfigRequest::default();
        let got = service
            .get_forwarding_pipeline_config(Request::new(get))
            .await;
        assert_eq!(got.unwrap().into_inner().config[0].p4_name, "entities");
    }

    /// As the public client reads it: UNKNOWN, with an error for each element.
    #[tokio::test]
    async fn errors_have_a_detail_for_each_element() {
        let service = service().await;
        let usage = |table_id| bf::Entity {
            entity: Some(Entity::TableUsage(bf::TableUsage { table_id, usage: 0 })),
        };
        let bridge = Program::new().entry("bridge").table_id;
        let request = bf::ReadRequest {
            entities: vec![usage(bridge), usage(1)],
            ..Default::default()
        };
        let answer = service.read(Request::new(request)).await.unwrap();
        let parts: Vec<_> = answer.into_inner().collect().await;
        let first = parts[0].as_ref().unwrap().entities[0].clone();
        assert_eq!(first, usage(bridge));
        let status = parts.last().unwrap().as_ref().unwrap_err();
        assert_eq!(status.code(), Code::Unknown);
        assert!(String::from_utf8_lossy(status.details()).contains("bfrt_proto.Error"));
        let transaction = bf::WriteRequest {
            atomicity: 1,
            ..Default::default()
        };
        let refused = service.write(Request::new(transaction)).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unimplemented);
    }
}
