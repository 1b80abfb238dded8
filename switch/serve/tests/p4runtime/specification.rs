//! Rules of the P4Runtime specification that go beyond writing something and reading it back: batches,
//! roles, direct resources, translation.

use crate::common::messages::*;
use crate::common::{DEVICE_ID, Running, change_json, codes, update};
use ebb_p4runtime::proto::config::p4_new_type_spec::Representation;
use ebb_p4runtime::proto::config::p4_new_type_translation::{SdnString, SdnType};
use ebb_p4runtime::proto::config::{P4NamedType, P4NewTypeSpec, P4NewTypeTranslation};
use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::entity::Entity;
use ebb_p4runtime::proto::p4::set_forwarding_pipeline_config_request::Action;
use ebb_p4runtime::proto::p4::update::Type as Change;
use ebb_p4runtime::proto::p4::write_request::Atomicity;
use tonic::Code;

#[tokio::test]
async fn a_batch_that_is_all_or_nothing_leaves_everything_as_it_was() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let entry = Entity::TableEntry;
    let counter = |packets| port_in(Some(2), Some(count(packets)));
    let default = |port: u8| entry(default(BRIDGE, direct(FORWARD, &[&[port]])));
    let mut kept = limited();
    kept.meter_config = Some(rates());
    kept.metadata = b"mine".to_vec();
    c.insert(entry(kept.clone())).await;
    c.insert(entry(bridge(&[1], &[1]))).await;
    c.insert(entry(bridge(&[2], &[2]))).await;
    c.modify(counter(7)).await;
    c.modify(default(9)).await;

    let batch = vec![
        update(Change::Delete, entry(bridge(&[1], &[1]))),
        update(Change::Modify, entry(bridge(&[2], &[5]))),
        update(Change::Insert, entry(bridge(&[3], &[3]))),
        update(Change::Delete, entry(kept.clone())),
        update(Change::Modify, counter(8)),
        update(Change::Modify, default(10)),
        // There is no such entry.
        update(Change::Delete, entry(bridge(&[4], &[4]))),
        update(Change::Insert, entry(bridge(&[5], &[5]))),
    ];
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let status = c.write_with(atomicity, batch.clone()).await;
        let status = status.expect_err("was accepted");
        let mut expected = [Code::Aborted; 8];
        expected[6] = Code::NotFound;
        assert_eq!(codes(&status), expected);
        let mut found = c.read_table(BRIDGE).await;
        found.sort_by_key(|e| format!("{e:?}"));
        assert_eq!(found, [bridge(&[1], &[1]), bridge(&[2], &[2])]);
        let mut with_meter = kept.clone();
        with_meter.meter_counter_data = None;
        assert_eq!(
            c.read_one(entry(with_meter.clone())).await,
            entry(with_meter)
        );
        assert_eq!(c.read_one(counter(0)).await, counter(7));
        assert_eq!(c.read_one(default(0)).await, default(9));
    }
    // Without the update that fails, all of it is done.
    let good = batch.into_iter().enumerate().filter(|(i, _)| *i != 6);
    let good = good.map(|(_, u)| u).collect();
    c.write_with(Atomicity::DataplaneAtomic, good)
        .await
        .unwrap();
    assert_eq!(c.read_table(BRIDGE).await.len(), 3);
    assert_eq!(c.read_table(ACL).await, []);
    server.stop().await;
}

#[tokio::test]
async fn a_read_gives_what_it_can_and_says_what_it_could_not() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    c.insert(Entity::TableEntry(bridge(&[1], &[1]))).await;
    let table = |id| p4::Entity {
        entity: Some(table(id)),
    };
    let request = p4::ReadRequest {
        device_id: DEVICE_ID,
        entities: vec![table(BRIDGE), table(1), p4::Entity::default()],
        ..Default::default()
    };
    let mut responses = c.client.read(request).await.unwrap().into_inner();
    let first = responses.message().await.unwrap().unwrap();
    assert_eq!(first.entities.len(), 1);
    let status = responses.message().await.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    let expected = [Code::Ok, Code::NotFound, Code::InvalidArgument];
    assert_eq!(codes(&status), expected);
    server.stop().await;
}

#[tokio::test]
async fn large_tables_are_read_in_parts_that_together_are_the_table() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let entry = |n: u32| {
        let mut entry = bridge(&[1], &[3]);
        entry.r#match = vec![exact(1, &(n + 1).to_be_bytes()[2..])];
        entry
    };
    let inserts = (0..1000).map(|n| update(Change::Insert, Entity::TableEntry(entry(n))));
    c.write_all(inserts.collect()).await.unwrap();
    let mut of_table = c.read_table(BRIDGE).await;
    assert_eq!(of_table.len(), 1000);
    of_table.dedup();
    assert_eq!(of_table.len(), 1000);
    // Reading all tables gives the five entries of the program, too.
    assert_eq!(c.read_table(0).await.len(), 1005);
    server.stop().await;
}

#[tokio::test]
async fn default_entries_have_direct_resources() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let default = |table_id| default(table_id, None);
    let counter = |data| {
        Entity::DirectCounterEntry(p4::DirectCounterEntry {
            table_entry: Some(default(ROUTE)),
            data,
        })
    };
    c.modify(counter(Some(count(5)))).await;
    // Without data nothing is changed.
    c.modify(counter(None)).await;
    assert_eq!(c.read_one(counter(None)).await, counter(Some(count(5))));

    let mut metered = default(ACL);
    metered.meter_config = Some(rates());
    c.modify(Entity::TableEntry(metered.clone())).await;
    metered.meter_counter_data = Some(Default::default());
    let Entity::TableEntry(read) = c.read_one(Entity::TableEntry(metered)).await else {
        panic!("expected a table entry");
    };
    assert_eq!(read.meter_config, Some(rates()));
    let zero = p4::CounterData::default();
    let counts = read.meter_counter_data.unwrap();
    assert_eq!(counts.green, Some(zero));
    // Without a meter configuration it is reset.
    c.modify(Entity::TableEntry(default(ACL))).await;
    let meter = Entity::DirectMeterEntry(p4::DirectMeterEntry {
        table_entry: Some(default(ACL)),
        ..Default::default()
    });
    assert_eq!(c.read_one(meter.clone()).await, meter);
    server.stop().await;
}

#[tokio::test]
async fn meters_count_by_colour_and_are_only_reset() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let meter = |counter_data| {
        Entity::MeterEntry(p4::MeterEntry {
            meter_id: PORT_METER,
            index: Some(p4::Index { index: 1 }),
            config: Some(rates()),
            counter_data,
        })
    };
    let count = |packet_count| {
        Some(p4::CounterData {
            packet_count,
            byte_count: packet_count * 100,
        })
    };
    c.modify(meter(None)).await;
    server.switch.on_pipeline(|pipeline| {
        let id = pipeline.meter("MyIngress.port_meter").unwrap();
        let value = |packets| ebb_pipeline::control::CounterValue {
            packets,
            bytes: packets * 100,
        };
        let counts = [value(3), value(2), value(1)];
        pipeline.set_meter_counts(id, 1, counts).unwrap();
    });
    let counted = p4::MeterCounterData {
        green: count(3),
        yellow: count(2),
        red: count(1),
    };
    let asked = Some(p4::MeterCounterData::default());
    assert_eq!(c.read_one(meter(asked)).await, meter(Some(counted)));
    assert_eq!(c.read_one(meter(None)).await, meter(None));
    let refused = c.refused_as(Change::Modify, meter(Some(counted))).await;
    assert_eq!(refused.0, Code::InvalidArgument);
    c.modify(meter(asked)).await;
    let zero = p4::MeterCounterData {
        green: count(0),
        yellow: count(0),
        red: count(0),
    };
    assert_eq!(c.read_one(meter(asked)).await, meter(Some(zero)));
    server.stop().await;
}

#[tokio::test]
async fn constant_tables_take_nothing_but_direct_resources() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let new = p4::TableEntry {
        table_id: WELL_KNOWN,
        r#match: vec![exact(1, &[0x86, 0xdd])],
        ..Default::default()
    };
    for kind in [Change::Insert, Change::Delete] {
        let refused = c.refused_as(kind, Entity::TableEntry(new.clone())).await;
        assert_eq!(refused.0, Code::PermissionDenied);
    }
    let refused = c.refused_as(Change::Modify, Entity::TableEntry(new)).await;
    assert_eq!(refused.0, Code::NotFound);
    let mut constant = bridge(&[1], &[1]);
    constant.is_const = true;
    let refused = c.refused(Entity::TableEntry(constant)).await;
    assert_eq!(refused.0, Code::InvalidArgument);
    server.stop().await;
}

#[tokio::test]
async fn a_value_set_has_no_member_twice() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let member = |value: &[u8]| p4::ValueSetMember {
        r#match: vec![exact(1, value)],
    };
    let set = Entity::ValueSetEntry(p4::ValueSetEntry {
        value_set_id: IP_TYPES,
        members: vec![member(&[0x86, 0xdd]), member(&[0, 0x86, 0xdd])],
    });
    let refused = c.refused_as(Change::Modify, set).await;
    assert_eq!(refused.0, Code::AlreadyExists);
    server.stop().await;
}

#[tokio::test]
async fn indices_below_zero_are_invalid_and_beyond_the_end_out_of_range() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    for (index, code) in [(-1, Code::InvalidArgument), (8, Code::OutOfRange)] {
        let cell = port_in(Some(index), Some(count(0)));
        assert_eq!(c.refused_as(Change::Modify, cell).await.0, code);
    }
    server.stop().await;
}

#[tokio::test]
async fn without_a_config_there_is_none_to_get_and_none_to_commit() {
    let server = Running::start().await;
    let mut c = server.primary().await;
    let request = p4::GetForwardingPipelineConfigRequest {
        device_id: DEVICE_ID,
        ..Default::default()
    };
    let response = c.client.get_forwarding_pipeline_config(request).await;
    assert_eq!(response.unwrap().into_inner().config, None);
    let commit = c.set_config(Action::Commit, None).await.unwrap_err();
    assert_eq!(commit.code(), Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn translated_types_are_strings_to_the_controller() {
    let server = Running::start().await;
    let mut c = server.primary().await;
    c.push(|config| {
        let info = config.p4info.as_mut().unwrap();
        let port = P4NamedType {
            name: "port_t".into(),
        };
        let forward = info.actions.iter_mut();
        let mut forward = forward.filter(|a| a.preamble.as_ref().unwrap().id == FORWARD);
        let param = &mut forward.next().unwrap().params[0];
        (param.bitwidth, param.type_name) = (0, Some(port.clone()));
        for header in &mut info.controller_packet_metadata {
            let field = &mut header.metadata[0];
            field.type_name = Some(port.clone());
        }
        let translation = P4NewTypeTranslation {
            uri: "example/port".into(),
            sdn_type: Some(SdnType::SdnString(SdnString {})),
        };
        let spec = P4NewTypeSpec {
            representation: Some(Representation::TranslatedType(translation)),
            ..Default::default()
        };
        let types = info.type_info.get_or_insert_default();
        types.new_types.insert("port_t".into(), spec);
    })
    .await
    .unwrap();
    for (mac, port) in [(1, "eth1"), (2, "17"), (3, "eth1")] {
        let entry = Entity::TableEntry(bridge(&[mac], port.as_bytes()));
        c.insert(entry.clone()).await;
        assert_eq!(c.read_one(entry.clone()).await, entry);
    }
    let empty = c.refused(Entity::TableEntry(bridge(&[4], b""))).await;
    assert_eq!(empty.0, Code::OutOfRange);
    // 1000 does not fit in the data plane's 9 bits.
    let wide = c.refused(Entity::TableEntry(bridge(&[4], b"1000"))).await;
    assert_eq!(wide.0, Code::InvalidArgument);
    server.stop().await;
}

#[tokio::test]
async fn members_whose_port_is_down_are_not_chosen() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let item = |port: u8| p4::ActionProfileAction {
        action: Some(action(SET_NEXT_HOP, &[&[port], &[2]])),
        weight: 1,
        watch_kind: Some(p4::action_profile_action::WatchKind::WatchPort(vec![port])),
    };
    let entry = p4::TableEntry {
        table_id: ROUTE,
        action: one_shot(vec![item(1), item(2)]),
        ..Default::default()
    };
    c.insert(Entity::TableEntry(entry.clone())).await;
    server.switch.on_pipeline(|p| p.set_port_up(2, false));
    // A controller sees what it wrote (spec, "Data plane volatile objects").
    assert_eq!(c.read_table(ROUTE).await, [entry]);
    let mut wrong = item(1);
    wrong.watch_kind = Some(p4::action_profile_action::WatchKind::WatchPort(vec![2, 0]));
    let entry = p4::TableEntry {
        table_id: ROUTE,
        action: one_shot(vec![wrong]),
        ..Default::default()
    };
    let refused = c
        .refused_as(Change::Modify, Entity::TableEntry(entry))
        .await;
    assert_eq!(refused.0, Code::InvalidArgument);
    server.stop().await;
}

#[tokio::test]
async fn meters_of_one_rate_have_an_excess_burst() {
    use ebb_p4runtime::proto::config::meter_spec;
    let server = Running::start().await;
    let mut c = server.primary().await;
    let meter = |config| {
        Entity::MeterEntry(p4::MeterEntry {
            meter_id: PORT_METER,
            index: index(1),
            config: Some(config),
            counter_data: None,
        })
    };
    let single = p4::MeterConfig {
        pir: 1000,
        pburst: 100,
        ..rates()
    };
    let excess = p4::MeterConfig {
        eburst: 50,
        ..single
    };
    use meter_spec::Type::{SingleRateThreeColor, SingleRateTwoColor, TwoRateThreeColor};
    for (kind, good, bad) in [
        (TwoRateThreeColor, vec![rates(), single], vec![excess]),
        (SingleRateThreeColor, vec![single, excess], vec![rates()]),
        (SingleRateTwoColor, vec![single], vec![rates(), excess]),
    ] {
        c.push(|config| {
            let info = config.p4info.as_mut().unwrap();
            info.meters[0].spec.as_mut().unwrap().r#type = kind as i32;
        })
        .await
        .unwrap();
        for config in good {
            c.modify(meter(config)).await;
            assert_eq!(c.read_one(meter(config)).await, meter(config), "{kind:?}");
        }
        for config in bad {
            let refused = c.refused_as(Change::Modify, meter(config)).await;
            assert_eq!(refused.0, Code::InvalidArgument, "{kind:?}");
        }
    }
    server.stop().await;
}

fn backups(port: u8, instance: u32, backups: &[(u8, u32)]) -> p4::Replica {
    let backup = |(port, instance): &(u8, u32)| p4::BackupReplica {
        port: vec![*port],
        instance: *instance,
    };
    p4::Replica {
        backup_replicas: backups.iter().map(backup).collect(),
        ..replica(port, instance)
    }
}

#[tokio::test]
async fn replicas_have_backups() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let ports = || {
        let replicas = server
            .switch
            .on_pipeline(|p| p.multicast_replicas(1).to_vec());
        replicas
            .iter()
            .map(|r| (r.port, r.instance))
            .collect::<Vec<_>>()
    };
    let set_port_up = |port, up| server.switch.on_pipeline(move |p| p.set_port_up(port, up));
    let group = multicast(1, vec![backups(1, 0, &[(2, 5), (3, 6)]), replica(4, 0)]);
    c.insert(group.clone()).await;
    set_port_up(1, false);
    assert_eq!(ports(), [(2, 5), (4, 0)]);
    // The written group is read.
    assert_eq!(c.read_one(multicast(1, vec![])).await, group);
    set_port_up(1, true);
    assert_eq!(ports(), [(1, 0), (4, 0)]);
    for wrong in [
        // The same pair twice, the port of the replica itself, the same pair twice among its backups.
        vec![backups(1, 0, &[(2, 0)]), replica(2, 0)],
        vec![backups(1, 0, &[(1, 1)])],
        vec![backups(1, 0, &[(2, 0), (2, 0)])],
    ] {
        let refused = c.refused_as(Change::Modify, multicast(1, wrong)).await;
        assert_eq!(refused.0, Code::InvalidArgument);
    }
    assert_eq!(c.read_one(multicast(1, vec![])).await, group);
    c.modify(multicast(1, vec![replica(1, 0)])).await;
    set_port_up(1, false);
    assert_eq!(ports(), [(1, 0)]);
    server.stop().await;
}

fn item(port: u8, weight: i32) -> p4::ActionProfileAction {
    p4::ActionProfileAction {
        action: Some(action(SET_NEXT_HOP, &[&[port], &[2]])),
        weight,
        watch_kind: None,
    }
}

#[tokio::test]
async fn action_sets_do_not_mix_with_members_and_have_their_own_size() {
    use p4::action_profile_action_set::{ActionSelectionMode, SizeSemantics};
    let server = Running::start().await;
    let limit = |c: &mut p4::ForwardingPipelineConfig| {
        c.p4info.as_mut().unwrap().action_profiles[0].max_group_size = 120;
    };
    let mut c = server.ready_with(limit).await;
    let set = |items: &[(u8, i32)], semantics: SizeSemantics, mode: ActionSelectionMode| {
        let items = items.iter().map(|(port, weight)| item(*port, *weight));
        Entity::TableEntry(route(does(p4::table_action::Type::ActionProfileActionSet(
            p4::ActionProfileActionSet {
                action_profile_actions: items.collect(),
                action_selection_mode: mode as i32,
                size_semantics: semantics as i32,
            },
        ))))
    };
    let default_size = SizeSemantics::DefaultSizeDeterminedByActionSelector;
    let default_mode = ActionSelectionMode::DefaultModeDeterminedByActionSelector;
    let small = set(&[(1, 1), (2, 1)], default_size, default_mode);
    c.insert(member(1, 1)).await;
    assert_eq!(c.refused(small.clone()).await.0, Code::InvalidArgument);
    c.delete(member(1, 1)).await;
    c.insert(small.clone()).await;
    assert_eq!(c.refused(member(1, 1)).await.0, Code::InvalidArgument);
    assert_eq!(c.refused(group(1, &[])).await.0, Code::InvalidArgument);
    // The P4Info's limit is one of the sum of weights.
    let heavy = [(1, 120), (2, 1)];
    let sum = SizeSemantics::SumOfWeights;
    let hash = ActionSelectionMode::Hash;
    for refused in [set(&heavy, default_size, hash), set(&heavy, sum, hash)] {
        let refused = c.refused_as(Change::Modify, refused).await;
        assert_eq!(refused.0, Code::InvalidArgument);
    }
    c.modify(set(&heavy, SizeSemantics::SumOfMembers, hash))
        .await;
    let random = set(&[(1, 1)], default_size, ActionSelectionMode::Random);
    let refused = c.refused_as(Change::Modify, random).await;
    assert_eq!(refused.0, Code::Unimplemented);
    c.delete(small).await;
    c.insert(member(1, 1)).await;
    server.stop().await;
}

#[tokio::test]
async fn what_is_read_comes_in_parts_whatever_it_is() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let entries = (0..900u32).map(|n| {
        let key = (n + 1).to_be_bytes();
        update(Change::Insert, Entity::TableEntry(bridge(&key[2..], &[3])))
    });
    c.write_all(entries.collect()).await.unwrap();
    let by_note = p4::TableEntry {
        table_id: BRIDGE,
        metadata: b"of the last one".to_vec(),
        ..Default::default()
    };
    // A filter that selects one of them looks at all.
    let mut last = bridge(&[0x03, 0x84], &[3]);
    last.metadata = by_note.metadata.clone();
    c.modify(Entity::TableEntry(last.clone())).await;
    assert_eq!(
        c.read_one(Entity::TableEntry(by_note)).await,
        Entity::TableEntry(last)
    );

    // Direct counters of more entries than fit in a part.
    c.insert(member(1, 1)).await;
    let routes = (0..450u32).map(|n| {
        let mut entry = route(does(p4::table_action::Type::ActionProfileMemberId(1)));
        entry.r#match = vec![lpm(1, &[10, 1, (n >> 8) as u8, n as u8], 32)];
        entry.counter_data = Some(count(n.into()));
        update(Change::Insert, Entity::TableEntry(entry))
    });
    c.write_all(routes.collect()).await.unwrap();
    let all = Entity::DirectCounterEntry(p4::DirectCounterEntry::default());
    let counters = c.read(all).await.unwrap();
    let packets = |e: &Entity| match e {
        Entity::DirectCounterEntry(e) => e.data.unwrap().packet_count,
        other => panic!("{other:?}"),
    };
    let mut seen: Vec<i64> = counters.iter().map(packets).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..450).collect::<Vec<i64>>());

    // A counter of 1000 cells.
    c.push(|config| {
        config.p4info.as_mut().unwrap().counters[0].size = 1000;
        change_json(config, |program| {
            for array in program["counter_arrays"].as_array_mut().unwrap() {
                if array["name"] == "MyIngress.port_in" {
                    array["size"] = 1000.into();
                }
            }
        });
    })
    .await
    .unwrap();
    c.modify(port_in(Some(999), Some(count(9)))).await;
    let cells = c.read(port_in(None, None)).await.unwrap();
    assert_eq!(cells.len(), 1000);
    for (n, cell) in cells.iter().enumerate() {
        let packets = if n == 999 { 9 } else { 0 };
        assert_eq!(*cell, port_in(Some(n as i64), Some(count(packets))));
    }
    server.stop().await;
}
