//! Write and Read of every kind of entity: what is written is read back.

use crate::common::messages::*;
use crate::common::{Running, codes, fixture};
use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::entity::Entity;
use ebb_p4runtime::proto::p4::field_match::{self, FieldMatchType};
use ebb_p4runtime::proto::p4::packet_replication_engine_entry::Type as Replication;
use ebb_p4runtime::proto::p4::table_action::Type;
use ebb_p4runtime::proto::p4::update::Type as Change;
use tonic::Code;

#[tokio::test]
async fn entries_come_back_canonical_and_with_the_clients_notes() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let mut entry = bridge(&[0, 0, 0, 0, 0, 1], &[0, 3]);
    entry.metadata = b"cookie".to_vec();
    c.insert(Entity::TableEntry(entry.clone())).await;
    let mut expected = bridge(&[1], &[3]);
    expected.metadata = b"cookie".to_vec();
    assert_eq!(c.read_table(BRIDGE).await, [expected.clone()]);

    // The same match in other bytes is the same entry.
    let mut same = bridge(&[1], &[9]);
    let twice = c.refused(Entity::TableEntry(same.clone())).await;
    assert_eq!(twice.0, Code::AlreadyExists);
    c.modify(Entity::TableEntry(same.clone())).await;
    assert_eq!(c.read_table(BRIDGE).await, [same.clone()]);
    same.action = None;
    c.delete(Entity::TableEntry(same.clone())).await;
    assert_eq!(c.read_table(BRIDGE).await, []);
    let gone = c.refused_as(Change::Delete, Entity::TableEntry(same)).await;
    assert_eq!(gone.0, Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn ternary_range_and_optional_fields_may_be_left_out() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let any = acl(1, vec![]);
    let src = acl(20, vec![ternary(1, &[10, 0, 0, 0], &[255, 0, 0, 0])]);
    let optional = field_match::Optional { value: vec![6] };
    let all = acl(
        30,
        vec![
            ternary(1, &[10, 0, 0, 1], &[255, 255, 255, 255]),
            range(2, &[1], &[9]),
            field(3, FieldMatchType::Optional(optional)),
        ],
    );
    for entry in [&any, &src, &all] {
        c.insert(Entity::TableEntry(entry.clone())).await;
    }
    let mut found = c.read_table(ACL).await;
    found.sort_by_key(|e| e.priority);
    assert_eq!(found, [any, src.clone(), all]);
    // A filter selects all entries with a priority, or one of them.
    let filter = p4::TableEntry {
        table_id: ACL,
        priority: 20,
        ..Default::default()
    };
    let by_priority = c.read(Entity::TableEntry(filter)).await.unwrap();
    assert_eq!(by_priority, [Entity::TableEntry(src.clone())]);
    let one = c.read(Entity::TableEntry(src.clone())).await.unwrap();
    assert_eq!(one, [Entity::TableEntry(src)]);
    server.stop().await;
}

#[tokio::test]
async fn table_id_0_reads_all_tables_and_const_entries_are_marked() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    c.insert(Entity::TableEntry(bridge(&[1], &[3]))).await;
    let all = c.read_table(0).await;
    let consts: Vec<_> = all.iter().filter(|e| e.is_const).collect();
    assert_eq!((all.len(), consts.len()), (6, 3));
    let tables: Vec<_> = consts.iter().map(|e| e.table_id).collect();
    assert_eq!(tables, [WELL_KNOWN, WELL_KNOWN, PRESET]);
    assert_eq!(consts[0].r#match, [exact(1, &[0x08, 0x06])]);
    assert_eq!(consts[0].action, direct(PERMIT, &[]));
    let mut entry = consts[0].clone();
    entry.is_const = false;
    let delete = c
        .refused_as(Change::Delete, Entity::TableEntry(entry.clone()))
        .await;
    assert_eq!(delete.0, Code::PermissionDenied);
    let modify = c
        .refused_as(Change::Modify, Entity::TableEntry(entry))
        .await;
    assert_eq!(modify.0, Code::PermissionDenied);
    server.stop().await;
}

#[tokio::test]
async fn default_entries_are_read_changed_and_reset() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let of_program = Entity::TableEntry(default(BRIDGE, direct(DROP, &[])));
    let read = Entity::TableEntry(default(BRIDGE, None));
    assert_eq!(c.read_one(read.clone()).await, of_program);
    let changed = Entity::TableEntry(default(BRIDGE, direct(FORWARD, &[&[5]])));
    c.modify(changed.clone()).await;
    assert_eq!(c.read_one(read.clone()).await, changed);
    c.modify(read.clone()).await;
    assert_eq!(c.read_one(read).await, of_program);
    assert_eq!(c.refused(changed).await.0, Code::InvalidArgument);
    // That of a table with an action profile is the program's, too.
    let of_route = Entity::TableEntry(default(ROUTE, direct(NO_ACTION, &[])));
    let read = Entity::TableEntry(default(ROUTE, None));
    assert_eq!(c.read_one(read).await, of_route);
    assert_eq!(
        c.refused_as(Change::Modify, of_route).await.0,
        Code::PermissionDenied
    );
    let constant = c
        .refused_as(
            Change::Modify,
            Entity::TableEntry(default(SOURCE, direct(PERMIT, &[]))),
        )
        .await;
    assert_eq!(constant.0, Code::PermissionDenied);
    server.stop().await;
}

#[tokio::test]
async fn members_and_groups_cannot_go_while_they_are_used() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    c.insert(member(1, 1)).await;
    c.insert(member(2, 2)).await;
    c.insert(group(1, &[(1, 1), (2, 3)])).await;
    let entry = Entity::TableEntry(route(does(Type::ActionProfileGroupId(1))));
    c.insert(entry.clone()).await;
    let members = p4::ActionProfileMember::default();
    let members = c.read(Entity::ActionProfileMember(members)).await.unwrap();
    let canonical = |entity| match entity {
        Entity::ActionProfileMember(m) => m.action.unwrap().params[1].value.clone(),
        other => panic!("expected members, got {other:?}"),
    };
    let macs: Vec<_> = members.into_iter().map(canonical).collect();
    assert_eq!(macs, [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]]);
    let groups = p4::ActionProfileGroup::default();
    let groups = c.read(Entity::ActionProfileGroup(groups)).await.unwrap();
    assert_eq!(groups, [group(1, &[(1, 1), (2, 3)])]);

    let in_use = Code::FailedPrecondition;
    assert_eq!(c.refused_as(Change::Delete, member(1, 1)).await.0, in_use);
    assert_eq!(c.refused_as(Change::Delete, group(1, &[])).await.0, in_use);
    c.modify(group(1, &[(2, 1)])).await;
    c.delete(member(1, 1)).await;
    c.delete(entry).await;
    c.delete(group(1, &[])).await;
    c.delete(member(2, 2)).await;
    server.stop().await;
}

#[tokio::test]
async fn a_one_shot_entry_is_read_back_as_one() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let item = |port: u8, weight| p4::ActionProfileAction {
        action: Some(action(SET_NEXT_HOP, &[&[port], &[2, 0, 0, 0, 0, port]])),
        weight,
        watch_kind: None,
    };
    let entry = route(one_shot(vec![item(1, 1), item(2, 2)]));
    c.insert(Entity::TableEntry(entry.clone())).await;
    assert_eq!(c.read_table(ROUTE).await, std::slice::from_ref(&entry));
    // The group of a one-shot entry is not one of the client's.
    let groups = p4::ActionProfileGroup::default();
    let groups = c.read(Entity::ActionProfileGroup(groups)).await.unwrap();
    assert_eq!(groups, []);
    c.delete(Entity::TableEntry(entry)).await;
    server.stop().await;
}

#[tokio::test]
async fn cells_are_written_one_by_one_and_read_all_at_once() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let seen = |packet_count, byte_count| {
        Some(p4::CounterData {
            packet_count,
            byte_count,
        })
    };
    c.modify(port_in(Some(3), seen(4, 400))).await;
    let cells = c.read(port_in(None, None)).await.unwrap();
    assert_eq!(cells.len(), 8);
    assert_eq!(cells[3], port_in(Some(3), seen(4, 400)));
    assert_eq!(cells[2], port_in(Some(2), seen(0, 0)));

    let register = |i, value: &[u8]| {
        Entity::RegisterEntry(p4::RegisterEntry {
            register_id: LAST_SEEN,
            index: i,
            data: Some(p4::P4Data {
                data: Some(p4::p4_data::Data::Bitstring(value.to_vec())),
            }),
        })
    };
    c.modify(register(index(1), &[0, 0, 1, 2])).await;
    let cells = c.read(register(None, &[0])).await.unwrap();
    assert_eq!(cells.len(), 4);
    assert_eq!(cells[1], register(index(1), &[1, 2]));
    assert_eq!(cells[0], register(index(0), &[0]));

    let meter = |i, config| {
        Entity::MeterEntry(p4::MeterEntry {
            meter_id: PORT_METER,
            index: i,
            config,
            counter_data: None,
        })
    };
    c.modify(meter(index(0), Some(rates()))).await;
    let cells = c.read(meter(None, None)).await.unwrap();
    assert_eq!(cells[0], meter(index(0), Some(rates())));
    assert_eq!(cells[1], meter(index(1), None));
    server.stop().await;
}

#[tokio::test]
async fn direct_counters_and_meters_go_with_their_entries() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    c.insert(member(1, 1)).await;
    let mut entry = route(does(Type::ActionProfileMemberId(1)));
    entry.counter_data = Some(count(5));
    c.insert(Entity::TableEntry(entry.clone())).await;
    let read = c.read(Entity::TableEntry(entry.clone())).await.unwrap();
    assert_eq!(read, [Entity::TableEntry(entry.clone())]);
    // A counter that is not asked for is not in the answer.
    assert_eq!(c.read_table(ROUTE).await[0].counter_data, None);
    let key = p4::TableEntry {
        action: None,
        counter_data: None,
        ..entry
    };
    let direct_counter = |entry, data| {
        Entity::DirectCounterEntry(p4::DirectCounterEntry {
            table_entry: entry,
            data,
        })
    };
    c.modify(direct_counter(Some(key.clone()), Some(count(7))))
        .await;
    let all = c.read(direct_counter(None, None)).await.unwrap();
    assert_eq!(all, [direct_counter(Some(key), Some(count(7)))]);

    let mut limited = limited();
    limited.meter_config = Some(rates());
    c.insert(Entity::TableEntry(limited.clone())).await;
    let read = c.read(Entity::TableEntry(limited.clone())).await.unwrap();
    assert_eq!(read, [Entity::TableEntry(limited.clone())]);
    let key = p4::TableEntry {
        action: None,
        meter_config: None,
        ..limited
    };
    let direct_meter = |config| {
        Entity::DirectMeterEntry(p4::DirectMeterEntry {
            table_entry: Some(key.clone()),
            config,
            counter_data: None,
        })
    };
    c.modify(direct_meter(None)).await;
    let read = c.read(direct_meter(None)).await.unwrap();
    assert_eq!(read, [direct_meter(None)]);
    server.stop().await;
}

#[tokio::test]
async fn multicast_groups_and_clone_sessions_reach_the_pipeline() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let flood = multicast(1, vec![replica(1, 0), replica(2, 0), replica(2, 1)]);
    c.insert(flood.clone()).await;
    assert_eq!(c.read(multicast(0, vec![])).await.unwrap(), [flood]);
    let replicas = server
        .switch
        .on_pipeline(|p| p.multicast_replicas(1).to_vec());
    let ports: Vec<_> = replicas.iter().map(|r| r.port).collect();
    assert_eq!(ports, [1, 2, 2]);
    c.modify(multicast(1, vec![replica(4, 0)])).await;
    c.delete(multicast(1, vec![])).await;
    assert_eq!(c.read(multicast(0, vec![])).await.unwrap(), []);

    let session = |id| {
        replication(Replication::CloneSessionEntry(p4::CloneSessionEntry {
            session_id: id,
            replicas: vec![replica(3, 1)],
            class_of_service: 2,
            packet_length_bytes: 64,
        }))
    };
    c.insert(session(9)).await;
    assert_eq!(c.read(session(0)).await.unwrap(), [session(9)]);
    let installed = server
        .switch
        .on_pipeline(|p| p.clone_session(9).cloned())
        .unwrap();
    let said = (installed.class_of_service, installed.packet_length_bytes);
    assert_eq!(said, (2, 64));
    assert_eq!(installed.replicas.len(), 1);
    let twice = c
        .refused(multicast(1, vec![replica(1, 0), replica(1, 0)]))
        .await;
    assert_eq!(twice.0, Code::InvalidArgument);
    server.stop().await;
}

#[tokio::test]
async fn digests_and_value_sets_are_configured() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let digest = |config| {
        Entity::DigestEntry(p4::DigestEntry {
            digest_id: LEARNED,
            config,
        })
    };
    let config = Some(p4::digest_entry::Config {
        max_timeout_ns: 1,
        max_list_size: 2,
        ack_timeout_ns: 3,
    });
    assert_eq!(c.read(digest(None)).await.unwrap(), []);
    c.insert(digest(config)).await;
    assert_eq!(c.read(digest(None)).await.unwrap(), [digest(config)]);
    c.delete(digest(None)).await;

    let set = |values: &[&[u8]]| {
        let member = |value: &&[u8]| p4::ValueSetMember {
            r#match: vec![exact(1, value)],
        };
        Entity::ValueSetEntry(p4::ValueSetEntry {
            value_set_id: IP_TYPES,
            members: values.iter().map(member).collect(),
        })
    };
    c.modify(set(&[&[0x86, 0xdd], &[0x88, 0x47]])).await;
    let read = c.read(set(&[])).await.unwrap();
    assert_eq!(read, [set(&[&[0x86, 0xdd], &[0x88, 0x47]])]);
    let installed = server.switch.on_pipeline(|p| {
        let id = p.value_set("MyParser.ip_types").unwrap();
        p.value_set_len(id)
    });
    assert_eq!(installed, 2);
    server.stop().await;
}

#[tokio::test]
async fn idle_timeouts_are_kept_where_the_table_has_them() {
    let server = Running::start().await;
    server.switch.pass(1_000);
    let mut c = server.ready().await;
    let mut entry = p4::TableEntry {
        table_id: SOURCE,
        r#match: vec![exact(1, &[7])],
        action: direct(PERMIT, &[]),
        idle_timeout_ns: 5_000,
        ..Default::default()
    };
    c.insert(Entity::TableEntry(entry.clone())).await;
    assert_eq!(c.read_table(SOURCE).await, [entry.clone()]);
    server.switch.pass(3_000);
    let idle_at = |ns| {
        let now = ebb_units::Instant::from_nanos(ns);
        server
            .switch
            .on_pipeline(move |p| p.take_idle_entries(now).len())
    };
    assert_eq!((idle_at(5_999), idle_at(6_000)), (0, 1));
    entry.time_since_last_hit = Some(p4::table_entry::IdleTimeout { elapsed_ns: 0 });
    let read = c.read(Entity::TableEntry(entry.clone())).await.unwrap();
    entry.time_since_last_hit = Some(p4::table_entry::IdleTimeout { elapsed_ns: 3_000 });
    assert_eq!(read, [Entity::TableEntry(entry)]);
    server.stop().await;
}

/// The messages that people see, in one list. Regenerate with EBB_UPDATE_GOLDENS=1.
#[tokio::test]
async fn errors_name_the_place_the_value_and_what_is_allowed() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let mut log = String::new();
    let entry = Entity::TableEntry;
    let mut timeout = bridge(&[1], &[3]);
    timeout.idle_timeout_ns = 1;
    let mut counted = bridge(&[1], &[3]);
    counted.counter_data = Some(p4::CounterData::default());
    let with = |m: Vec<p4::FieldMatch>| {
        let mut e = bridge(&[1], &[3]);
        e.r#match = m;
        Entity::TableEntry(e)
    };
    let doing = |action| {
        let mut e = bridge(&[1], &[3]);
        e.action = action;
        Entity::TableEntry(e)
    };
    let mut missing_param = action(FORWARD, &[]);
    let no_param = doing(does(Type::Action(missing_param.clone())));
    missing_param.params = vec![p4::action::Param {
        param_id: 4,
        value: vec![1],
    }];
    let cases = [
        ("unknown table", table(BRIDGE + 1)),
        ("an action's id as table id", table(DROP)),
        ("no table id", table(0)),
        (
            "value too wide",
            entry(bridge(&[1, 0, 0, 0, 0, 0, 0], &[3])),
        ),
        ("empty value", entry(bridge(&[], &[3]))),
        ("unknown field", with(vec![exact(2, &[1])])),
        ("field twice", with(vec![exact(1, &[1]), exact(1, &[1])])),
        ("missing exact field", with(vec![])),
        ("wrong match type", with(vec![lpm(1, &[1], 4)])),
        ("parameter too wide", entry(bridge(&[1], &[2, 0]))),
        ("missing parameter", no_param),
        (
            "unknown parameter",
            doing(does(Type::Action(missing_param))),
        ),
        ("action of another table", doing(direct(PERMIT, &[]))),
        ("unknown action", doing(direct(1, &[]))),
        ("no action", doing(None)),
        (
            "member for a direct table",
            doing(does(Type::ActionProfileMemberId(1))),
        ),
        (
            "direct action for a profile",
            entry(route(direct(DROP, &[]))),
        ),
        (
            "missing member",
            entry(route(does(Type::ActionProfileMemberId(9)))),
        ),
        ("idle timeout", entry(timeout)),
        ("counter data", entry(counted)),
        ("no priority", entry(acl(0, vec![]))),
        (
            "bits outside of the mask",
            entry(acl(1, vec![ternary(1, &[10, 1], &[255, 0])])),
        ),
        ("zero mask", entry(acl(1, vec![ternary(1, &[0], &[0])]))),
        (
            "range upside down",
            entry(acl(1, vec![range(2, &[9], &[1])])),
        ),
        ("full range", entry(acl(1, vec![range(2, &[0], &[255])]))),
        ("group without its member", group(1, &[(5, 1)])),
        (
            "port out of range",
            multicast(1, {
                let mut r = replica(1, 0);
                r.port_kind = Some(p4::replica::PortKind::Port(vec![2, 0]));
                vec![r]
            }),
        ),
        ("group 0", multicast(0, vec![])),
    ];
    for (name, entity) in cases {
        let (code, message) = c.refused(entity).await;
        log += &format!("{name}\n  {code:?}: {message}\n");
    }
    let golden = fixture::path("errors.txt");
    if std::env::var_os("EBB_UPDATE_GOLDENS").is_some() {
        std::fs::write(&golden, &log).unwrap();
    }
    assert_eq!(log, std::fs::read_to_string(golden).unwrap());
    server.stop().await;
}

#[tokio::test]
async fn a_batch_goes_on_after_an_error_and_reports_every_update() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let insert = |entry| crate::common::update(Change::Insert, Entity::TableEntry(entry));
    let status = c
        .write_all(vec![
            insert(bridge(&[1], &[3])),
            insert(bridge(&[1], &[3])),
            insert(bridge(&[2], &[3])),
        ])
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    assert_eq!(codes(&status), [Code::Ok, Code::AlreadyExists, Code::Ok]);
    assert_eq!(c.read_table(BRIDGE).await.len(), 2);
    server.stop().await;
}

#[tokio::test]
async fn a_full_table_refuses_the_next_entry() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let entry = |mac: u8| {
        Entity::TableEntry(p4::TableEntry {
            table_id: SOURCE,
            r#match: vec![exact(1, &[mac])],
            action: direct(PERMIT, &[]),
            ..Default::default()
        })
    };
    c.insert(entry(1)).await;
    c.insert(entry(2)).await;
    let (code, message) = c.refused(entry(3)).await;
    assert_eq!(code, Code::ResourceExhausted);
    assert_eq!(
        message,
        "table 'MyIngress.source': the table is full: it has 2 entries, its size is 2"
    );
    server.stop().await;
}
