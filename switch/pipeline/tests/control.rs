//! The control plane's view.

use ebb_pipeline::control::*;
use ebb_pipeline::*;
use ebb_units::Duration;
use serde_json::{Value, json};

use crate::fixture::*;

/// Ingress is one table `t` with this key; its action `to(port, value)` sends and sets `h.value`.
fn with_table(key: Value, match_type: &str, extra: Value) -> Fixture {
    let mut fixture = Fixture::new(&[], &[]);
    let json = &mut fixture.json;
    json["actions"].as_array_mut().unwrap().extend([
        json!({"name": "to", "id": 2,
            "runtime_data": [{"name": "port", "bitwidth": 9}, {"name": "value", "bitwidth": 32}],
            "primitives": [
                call("assign", &[field("standard_metadata", "egress_spec"),
                    json!({"type": "runtime_data", "value": 0})]),
                call("assign", &[field("h", "value"), json!({"type": "runtime_data", "value": 1})])]}),
        json!({"name": "NoAction", "id": 3, "runtime_data": [], "primitives": []}),
    ]);
    let mut table = json!({"name": "t", "id": 9, "key": key, "match_type": match_type, "type": "simple",
        "max_size": 3, "with_counters": true, "support_timeout": true, "direct_meters": null,
        "action_ids": [2, 3], "actions": ["to", "NoAction"], "base_default_next": null,
        "next_tables": {"to": null, "NoAction": null},
        "default_entry": {"action_id": 3, "action_const": false, "action_data": [], "action_entry_const": false}});
    for (k, v) in extra.as_object().unwrap() {
        if v.is_null() {
            table.as_object_mut().unwrap().remove(k);
        } else {
            table[k] = v.clone();
        }
    }
    json["pipelines"][0]["init_table"] = json!("t");
    json["pipelines"][0]["tables"] = json!([table]);
    fixture
}

fn key_field(kind: &str) -> Value {
    json!({"match_type": kind, "name": "value", "target": ["h", "value"], "mask": null})
}

fn to(p: &Pipeline, port: u8, value: u8) -> ActionCall {
    let t = p.table("t").unwrap();
    ActionCall {
        action: p.table_action(t, "to").unwrap(),
        params: vec![vec![port], vec![value]],
    }
}

fn entry(key: MatchKey, priority: i32, call: ActionCall) -> TableEntry {
    TableEntry {
        key: vec![key],
        priority,
        action: TableAction::Direct(call),
        idle_timeout: None,
        metadata: vec![1, 2],
    }
}

fn exact(n: u32) -> MatchKey {
    MatchKey::Exact(n.to_be_bytes().to_vec())
}

/// The port that a frame with this value goes to.
fn port(p: &mut Pipeline, value: u32) -> u16 {
    unicast(ingress(p, &frame(&[], value, b""))).0
}

fn direct(entry: &TableEntry) -> ActionCall {
    match &entry.action {
        TableAction::Direct(call) => call.clone(),
        other => panic!("expected an action, got {other:?}"),
    }
}

#[test]
fn a_table_that_can_only_do_one_thing_counts_its_packets() {
    let mut fixture = Fixture::new(&[set("standard_metadata", "egress_spec", hex(3))], &[]);
    fixture.json["pipelines"][0]["tables"][0]["with_counters"] = json!(true);
    let mut p = fixture.load();
    let t = p.table("in").unwrap();
    assert_eq!((port(&mut p, 7), port(&mut p, 8)), (3, 3));
    let expected = CounterValue {
        packets: 2,
        bytes: 46,
    };
    assert_eq!(p.entry_counter(t, None), expected);
}

#[test]
fn an_exact_entry_lives() {
    let mut p = with_table(json!([key_field("exact")]), "exact", json!({})).load();
    let t = p.table("t").unwrap();
    let first = entry(exact(7), 0, to(&p, 5, 1));
    let id = p.insert_entry(at(0), t, first.clone()).unwrap();
    assert_eq!((port(&mut p, 7), port(&mut p, 8)), (5, 0));
    let again = p.insert_entry(at(0), t, first.clone()).unwrap_err();
    assert!(matches!(again, ControlError::AlreadyExists { .. }));
    let view = p.entry(t, &[exact(7)], 0).unwrap();
    // Values come back as wide as what they are for.
    let wide = TableEntry {
        action: TableAction::Direct(ActionCall {
            params: vec![vec![0, 5], vec![0, 0, 0, 1]],
            ..direct(&first)
        }),
        ..first
    };
    assert_eq!(view.entry, wide);
    assert_eq!(
        view.counter,
        CounterValue {
            packets: 1,
            bytes: 23
        }
    );
    let second = entry(exact(7), 0, to(&p, 6, 1));
    p.modify_entry(at(0), t, second).unwrap();
    assert_eq!(port(&mut p, 7), 6);
    p.set_entry_counter(t, Some(id), CounterValue::default())
        .unwrap();
    assert_eq!(p.entry(t, &[exact(7)], 0).unwrap().counter.packets, 0);
    p.delete_entry(t, &[exact(7)], 0).unwrap();
    assert_eq!(port(&mut p, 7), 0);
    assert!(matches!(
        p.delete_entry(t, &[exact(7)], 0),
        Err(ControlError::NotFound { .. })
    ));
    assert_eq!(p.entries(t).count(), 0);
}

#[test]
fn higher_priorities_win_and_the_table_fills_up() {
    let mut p = with_table(json!([key_field("ternary")]), "ternary", json!({})).load();
    let t = p.table("t").unwrap();
    let odd = || MatchKey::Ternary {
        value: vec![1],
        mask: vec![1],
    };
    let low = entry(odd(), 1, to(&p, 1, 0));
    let high = entry(MatchKey::Any, 9, to(&p, 9, 0));
    let middle = entry(exact(3), 5, to(&p, 5, 0));
    for e in [low, high, middle] {
        p.insert_entry(at(0), t, e).unwrap();
    }
    assert_eq!(port(&mut p, 3), 9);
    let full = p
        .insert_entry(at(0), t, entry(odd(), 2, to(&p, 1, 0)))
        .unwrap_err();
    assert_eq!(full.to_string(), "table `t` is full: it holds 3 entries");
    p.delete_entry(t, &[MatchKey::Any], 9).unwrap();
    assert_eq!(
        (port(&mut p, 3), port(&mut p, 5), port(&mut p, 4)),
        (5, 1, 0)
    );
    let none = p
        .insert_entry(at(0), t, entry(odd(), 0, to(&p, 1, 0)))
        .unwrap_err();
    assert!(
        none.to_string().contains("need a priority above 0"),
        "{none}"
    );
}

#[test]
fn bad_entries_are_explained() {
    let mut p = with_table(json!([key_field("exact")]), "exact", json!({})).load();
    let t = p.table("t").unwrap();
    let mut refused = |e: TableEntry| p.insert_entry(at(0), t, e).unwrap_err().to_string();
    let call = |params: Vec<Vec<u8>>| ActionCall {
        action: q_to(),
        params,
    };
    assert!(
        refused(entry(
            MatchKey::Exact(vec![1; 5]),
            0,
            call(vec![vec![1], vec![1]])
        ))
        .contains("does not fit in 32 bits")
    );
    assert!(
        refused(entry(MatchKey::Any, 0, call(vec![vec![1], vec![1]])))
            .contains("expected a Exact match")
    );
    assert!(
        refused(entry(exact(1), 0, call(vec![vec![1]])))
            .contains("1 arguments given, it has 2 parameters")
    );
    assert!(
        refused(entry(exact(1), 0, call(vec![vec![2, 0], vec![1]])))
            .contains("parameter port does not fit in 9 bits")
    );
    assert!(
        refused(entry(exact(1), 3, call(vec![vec![1], vec![1]]))).contains("has no priorities")
    );
    let member = TableEntry {
        action: TableAction::Member(1),
        ..entry(exact(1), 0, call(vec![]))
    };
    assert!(refused(member).contains("it has no action profile"));
    assert!(
        p.table("u")
            .unwrap_err()
            .to_string()
            .contains("table `u` does not exist")
    );
}

/// The handle is the same in every instance of the program.
fn q_to() -> ActionId {
    let p = with_table(json!([key_field("exact")]), "exact", json!({})).load();
    p.table_action(p.table("t").unwrap(), "to").unwrap()
}

#[test]
fn defaults_change_and_come_back() {
    let mut p = with_table(json!([key_field("exact")]), "exact", json!({})).load();
    let t = p.table("t").unwrap();
    let call = to(&p, 4, 0);
    p.set_default_entry(t, Some(TableAction::Direct(call.clone())))
        .unwrap();
    assert_eq!(port(&mut p, 1), 4);
    assert_eq!(p.default_entry(t), Some(&TableAction::Direct(call.clone())));
    p.set_default_entry(t, None).unwrap();
    assert_eq!(port(&mut p, 1), 0);
    let fixed = json!({"default_entry": {"action_id": 3, "action_const": true, "action_data": [],
        "action_entry_const": true}});
    let mut p = with_table(json!([key_field("exact")]), "exact", fixed).load();
    let error = p
        .set_default_entry(t, Some(TableAction::Direct(call)))
        .unwrap_err();
    assert!(matches!(error, ControlError::Const { .. }));
}

#[test]
fn const_entries_keep_their_order_and_stay() {
    let e = |key: u32, mask: u32, port: u32, priority: u32| {
        json!({
        "match_key": [{"match_type": "ternary", "key": format!("{key:#010x}"), "mask": format!("{mask:#010x}")}],
        "action_entry": {"action_id": 2, "action_data": [format!("{port:#x}"), "0x0"]}, "priority": priority})
    };
    let entries = json!({"entries": [e(1, 1, 11, 1), e(0, 0, 12, 2)]});
    let mut p = with_table(json!([key_field("ternary")]), "ternary", entries).load();
    let t = p.table("t").unwrap();
    assert_eq!((port(&mut p, 3), port(&mut p, 4)), (11, 12));
    let priorities: Vec<i32> = p.entries(t).map(|e| e.entry.priority).collect();
    assert_eq!(priorities, [2, 1], "as P4Runtime has them: higher wins");
    let error = p.delete_entry(t, &[MatchKey::Any], 1).unwrap_err();
    assert!(matches!(error, ControlError::Const { .. }));
}

#[test]
fn idle_entries_are_found_and_hits_wake_them() {
    let mut p = with_table(json!([key_field("exact")]), "exact", json!({})).load();
    let t = p.table("t").unwrap();
    let e = TableEntry {
        idle_timeout: Some(Duration::from_micros(100)),
        ..entry(exact(7), 0, to(&p, 1, 1))
    };
    let id = p.insert_entry(at(0), t, e).unwrap();
    assert!(p.take_idle_entries(at(99)).is_empty());
    // The hit is at 10 us, see `ingress`.
    port(&mut p, 7);
    assert!(p.take_idle_entries(at(109)).is_empty());
    assert_eq!(p.take_idle_entries(at(110)), [(t, id)]);
    // Still idle: told again after another timeout.
    assert!(p.take_idle_entries(at(209)).is_empty());
    assert_eq!(p.take_idle_entries(at(210)), [(t, id)]);
}

fn with_selector() -> Pipeline {
    let indirect = json!({"type": "indirect_ws", "action_profile": "ap", "default_entry": null});
    let mut fixture = with_table(json!([key_field("lpm")]), "lpm", indirect);
    fixture.json["pipelines"][0]["action_profiles"] = json!([{"name": "ap", "id": 0, "max_size": 4,
        "selector": {"algo": "identity", "input": [field("h", "value")]}}]);
    fixture.load()
}

#[test]
fn groups_spread_by_hash_and_weight() {
    let mut p = with_selector();
    let (t, ap) = (p.table("t").unwrap(), p.profile("ap").unwrap());
    for member in [3, 1, 2] {
        let call = to(&p, member as u8, 0);
        p.insert_member(ap, member, call).unwrap();
    }
    let member = |member, weight| GroupMember {
        member,
        weight,
        watch_port: None,
    };
    let group = Group {
        members: vec![member(3, 1), member(1, 2)],
        max_size: 0,
    };
    p.insert_group(ap, 8, group.clone()).unwrap();
    let lpm = |value: u8, prefix_len| MatchKey::Lpm {
        value: vec![value, 0, 0, 0],
        prefix_len,
    };
    let with = |key, action| TableEntry {
        action,
        ..entry(
            key,
            0,
            ActionCall {
                action: q_to(),
                params: vec![],
            },
        )
    };
    p.insert_entry(at(0), t, with(lpm(0, 0), TableAction::Group(8)))
        .unwrap();
    p.insert_entry(at(0), t, with(lpm(10, 8), TableAction::Member(2)))
        .unwrap();
    // Buckets 1, 1, 3 in order of members; the hash is the value.
    let ports: Vec<u16> = (0..6).map(|v| port(&mut p, v)).collect();
    assert_eq!(ports, [1, 1, 3, 1, 1, 3]);
    assert_eq!(port(&mut p, 10 << 24 | 5), 2);
    // A member that changes changes what its groups do.
    let call = to(&p, 30, 0);
    p.modify_member(ap, 3, call).unwrap();
    assert_eq!(port(&mut p, 2), 30);
    assert!(matches!(
        p.delete_member(ap, 3),
        Err(ControlError::InUse { .. })
    ));
    assert!(matches!(
        p.delete_member(ap, 2),
        Err(ControlError::InUse { .. })
    ));
    assert!(matches!(
        p.delete_group(ap, 8),
        Err(ControlError::InUse { .. })
    ));
    p.modify_group(
        ap,
        8,
        Group {
            members: vec![member(2, 1)],
            max_size: 0,
        },
    )
    .unwrap();
    assert_eq!(port(&mut p, 2), 2);
    p.modify_group(ap, 8, Group::default()).unwrap();
    assert_eq!(port(&mut p, 2), 0, "an empty group does nothing");
    p.delete_entry(t, &[lpm(0, 0)], 0).unwrap();
    p.delete_group(ap, 8).unwrap();
    p.delete_member(ap, 3).unwrap();
    assert_eq!(p.members(ap).map(|m| m.0).collect::<Vec<_>>(), [1, 2]);
    let unknown = p.insert_group(ap, 9, group).unwrap_err();
    assert!(unknown.to_string().contains("member `ap#3`"), "{unknown}");
}

#[test]
fn members_that_watch_a_port_are_left_out_while_it_is_down() {
    let mut p = with_selector();
    let (t, ap) = (p.table("t").unwrap(), p.profile("ap").unwrap());
    for member in [1, 2] {
        let call = to(&p, member as u8, 0);
        p.insert_member(ap, member, call).unwrap();
    }
    let member = |member| GroupMember {
        member,
        weight: 1,
        watch_port: Some(member),
    };
    let group = Group {
        members: vec![member(1), member(2)],
        max_size: 0,
    };
    p.set_port_up(2, false);
    p.insert_group(ap, 8, group).unwrap();
    let lpm = |value: u8, prefix_len| MatchKey::Lpm {
        value: vec![value, 0, 0, 0],
        prefix_len,
    };
    let shot = |port: u8| WeightedAction {
        call: to(&with_selector(), port, 0),
        weight: 1,
        watch_port: Some(port.into()),
    };
    let with = |key, action| TableEntry {
        action,
        ..entry(key, 0, to(&with_selector(), 0, 0))
    };
    let group = TableAction::Group(8);
    p.insert_entry(at(0), t, with(lpm(0, 0), group)).unwrap();
    let set = TableAction::Set(vec![shot(1), shot(2)]);
    p.insert_entry(at(0), t, with(lpm(128, 8), set)).unwrap();
    let ports = |p: &mut Pipeline| {
        let of = |p: &mut Pipeline, base: u32| [port(p, base), port(p, base + 1)];
        (of(p, 0), of(p, 128 << 24))
    };
    assert_eq!(ports(&mut p), ([1, 1], [1, 1]));
    p.set_port_up(2, true);
    assert_eq!(ports(&mut p), ([1, 2], [1, 2]));
    p.set_port_up(1, false);
    assert_eq!(ports(&mut p), ([2, 2], [2, 2]));
    p.set_port_up(2, false);
    assert_eq!(ports(&mut p), ([0, 0], [0, 0]), "nothing is left");
}

#[test]
fn one_shot_sets_spread_too() {
    let mut p = with_selector();
    let t = p.table("t").unwrap();
    let action = |port| WeightedAction {
        call: to(&with_selector(), port, 0),
        weight: 1,
        watch_port: None,
    };
    let set = TableAction::Set(vec![action(4), action(6)]);
    let e = TableEntry {
        action: set,
        ..entry(MatchKey::Any, 0, to(&p, 0, 0))
    };
    p.insert_entry(at(0), t, e).unwrap();
    assert_eq!((port(&mut p, 0), port(&mut p, 1)), (4, 6));
    let direct = entry(exact(1), 0, to(&p, 1, 1));
    assert!(
        p.insert_entry(at(0), t, direct)
            .unwrap_err()
            .to_string()
            .contains("it has an action profile")
    );
}

#[test]
fn replication_is_checked() {
    let mut p = Fixture::new(&[], &[]).load();
    let r = Replica {
        port: 1,
        instance: 1,
    };
    assert!(p.insert_multicast_group(0, vec![r]).is_err());
    assert!(
        p.insert_multicast_group(1, vec![r, r])
            .unwrap_err()
            .to_string()
            .contains("listed twice")
    );
    p.insert_multicast_group(1, vec![r]).unwrap();
    assert!(matches!(
        p.insert_multicast_group(1, vec![]),
        Err(ControlError::AlreadyExists { .. })
    ));
    p.delete_multicast_group(1).unwrap();
    assert!(matches!(
        p.delete_multicast_group(1),
        Err(ControlError::NotFound { .. })
    ));
    assert!(matches!(
        p.delete_clone_session(1),
        Err(ControlError::NotFound { .. })
    ));
}

#[test]
fn value_sets_steer_the_parser() {
    let mut fixture = Fixture::new(&[set("standard_metadata", "egress_spec", hex(1))], &[]);
    fixture.json["parse_vsets"] =
        json!([{"name": "vs", "id": 0, "compressed_bitwidth": 8, "max_size": 2}]);
    fixture.json["parsers"][0]["parse_states"][0]["transitions"] = json!([
        {"type": "parse_vset", "value": "vs", "mask": null, "next_state": "element"},
        {"type": "default", "value": null, "mask": null, "next_state": null}]);
    let mut p = fixture.load();
    let vs = p.value_set("vs").unwrap();
    let extracted = |p: &mut Pipeline, n: usize| {
        let (_, packet) = unicast(ingress(p, &frame(&[0; 3][..n], 0, b"")));
        format!("{packet:?}").contains(&format!("payload_at: {}", 23 + n))
    };
    assert!(!extracted(&mut p, 1));
    let even = MatchKey::Ternary {
        value: vec![0],
        mask: vec![1],
    };
    p.set_value_set(vs, &[vec![MatchKey::Exact(vec![1])], vec![even]])
        .unwrap();
    assert!(extracted(&mut p, 1) && extracted(&mut p, 2) && !extracted(&mut p, 3));
    let wide = p
        .set_value_set(vs, &[vec![MatchKey::Exact(vec![1, 0])]])
        .unwrap_err();
    assert!(
        wide.to_string().contains("does not fit in 8 bits"),
        "{wide}"
    );
    let full = p
        .set_value_set(vs, &[(); 3].map(|()| vec![exact(1)]))
        .unwrap_err();
    assert!(matches!(full, ControlError::Full { size: 2, .. }));
}
