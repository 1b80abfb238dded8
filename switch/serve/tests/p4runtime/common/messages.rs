//! Messages about the program of `fixture/entities.p4`.

use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::entity::Entity;
use ebb_p4runtime::proto::p4::field_match::{self, FieldMatchType};
use ebb_p4runtime::proto::p4::packet_replication_engine_entry::Type as Replication;
use ebb_p4runtime::proto::p4::table_action::Type;

pub const SOURCE: u32 = 47890762;
pub const ROUTE: u32 = 43142405;
pub const BRIDGE: u32 = 47281156;
pub const ACL: u32 = 37519123;
pub const WELL_KNOWN: u32 = 35477515;
pub const PRESET: u32 = 39699581;
pub const NO_ACTION: u32 = 21257015;
pub const DROP: u32 = 25652968;
pub const FORWARD: u32 = 29683729;
pub const SET_NEXT_HOP: u32 = 23610595;
pub const PERMIT: u32 = 32656341;
pub const METER_IT: u32 = 18720968;
pub const COLOUR_IT: u32 = 27432527;
pub const TO_CPU: u32 = 30506512;
pub const ECMP: u32 = 294941400;
pub const PORT_IN: u32 = 318420407;
pub const PORT_METER: u32 = 350933998;
pub const LAST_SEEN: u32 = 377784649;
pub const IP_TYPES: u32 = 62580879;
pub const LEARNED: u32 = 400350661;

pub fn action(id: u32, params: &[&[u8]]) -> p4::Action {
    let param = |(i, value): (usize, &&[u8])| p4::action::Param {
        param_id: i as u32 + 1,
        value: value.to_vec(),
    };
    p4::Action {
        action_id: id,
        params: params.iter().enumerate().map(param).collect(),
    }
}

pub fn does(kind: Type) -> Option<p4::TableAction> {
    Some(p4::TableAction { r#type: Some(kind) })
}

pub fn direct(id: u32, params: &[&[u8]]) -> Option<p4::TableAction> {
    does(Type::Action(action(id, params)))
}

pub fn field(id: u32, kind: FieldMatchType) -> p4::FieldMatch {
    p4::FieldMatch {
        field_id: id,
        field_match_type: Some(kind),
    }
}

pub fn exact(id: u32, value: &[u8]) -> p4::FieldMatch {
    let value = value.to_vec();
    field(id, FieldMatchType::Exact(field_match::Exact { value }))
}

pub fn lpm(id: u32, value: &[u8], prefix_len: i32) -> p4::FieldMatch {
    let value = value.to_vec();
    let lpm = field_match::Lpm { value, prefix_len };
    field(id, FieldMatchType::Lpm(lpm))
}

pub fn ternary(id: u32, value: &[u8], mask: &[u8]) -> p4::FieldMatch {
    let (value, mask) = (value.to_vec(), mask.to_vec());
    let ternary = field_match::Ternary { value, mask };
    field(id, FieldMatchType::Ternary(ternary))
}

pub fn range(id: u32, low: &[u8], high: &[u8]) -> p4::FieldMatch {
    let (low, high) = (low.to_vec(), high.to_vec());
    field(id, FieldMatchType::Range(field_match::Range { low, high }))
}

pub fn bridge(mac: &[u8], port: &[u8]) -> p4::TableEntry {
    p4::TableEntry {
        table_id: BRIDGE,
        r#match: vec![exact(1, mac)],
        action: direct(FORWARD, &[port]),
        ..Default::default()
    }
}

pub fn route(action: Option<p4::TableAction>) -> p4::TableEntry {
    p4::TableEntry {
        table_id: ROUTE,
        r#match: vec![lpm(1, &[10, 0, 0, 0], 8)],
        action,
        ..Default::default()
    }
}

pub fn acl(priority: i32, matches: Vec<p4::FieldMatch>) -> p4::TableEntry {
    p4::TableEntry {
        table_id: ACL,
        r#match: matches,
        priority,
        action: direct(DROP, &[]),
        ..Default::default()
    }
}

/// An entry of the table that the program fills.
pub fn preset(priority: i32, value: &[u8], mask: &[u8], action: u32) -> p4::TableEntry {
    let matches = (mask != [0]).then(|| ternary(1, value, mask));
    p4::TableEntry {
        table_id: PRESET,
        r#match: matches.into_iter().collect(),
        priority,
        action: direct(action, &[]),
        ..Default::default()
    }
}

/// An entry with a meter.
pub fn limited() -> p4::TableEntry {
    p4::TableEntry {
        action: direct(METER_IT, &[]),
        ..acl(5, vec![range(2, &[1], &[9])])
    }
}

pub fn default(table_id: u32, action: Option<p4::TableAction>) -> p4::TableEntry {
    p4::TableEntry {
        table_id,
        is_default_action: true,
        action,
        ..Default::default()
    }
}

pub fn one_shot(actions: Vec<p4::ActionProfileAction>) -> Option<p4::TableAction> {
    does(Type::ActionProfileActionSet(p4::ActionProfileActionSet {
        action_profile_actions: actions,
        ..Default::default()
    }))
}

pub fn member(id: u32, port: u8) -> Entity {
    Entity::ActionProfileMember(p4::ActionProfileMember {
        action_profile_id: ECMP,
        member_id: id,
        action: Some(action(SET_NEXT_HOP, &[&[port], &[2, 0, 0, 0, 0, port]])),
    })
}

pub fn group(id: u32, members: &[(u32, i32)]) -> Entity {
    let member = |(member_id, weight): &(u32, i32)| p4::action_profile_group::Member {
        member_id: *member_id,
        weight: *weight,
        watch_kind: None,
    };
    Entity::ActionProfileGroup(p4::ActionProfileGroup {
        action_profile_id: ECMP,
        group_id: id,
        members: members.iter().map(member).collect(),
        max_size: 0,
    })
}

/// A filter for all entries of a table, or of all tables with id 0.
pub fn table(id: u32) -> Entity {
    Entity::TableEntry(p4::TableEntry {
        table_id: id,
        ..Default::default()
    })
}

pub fn index(index: i64) -> Option<p4::Index> {
    Some(p4::Index { index })
}

pub fn count(packets: i64) -> p4::CounterData {
    p4::CounterData {
        packet_count: packets,
        byte_count: 0,
    }
}

pub fn port_in(port: Option<i64>, data: Option<p4::CounterData>) -> Entity {
    Entity::CounterEntry(p4::CounterEntry {
        counter_id: PORT_IN,
        index: port.and_then(index),
        data,
    })
}

pub fn rates() -> p4::MeterConfig {
    p4::MeterConfig {
        cir: 1000,
        cburst: 100,
        pir: 2000,
        pburst: 200,
        eburst: 0,
    }
}

pub fn replica(port: u8, instance: u32) -> p4::Replica {
    p4::Replica {
        port_kind: Some(p4::replica::PortKind::Port(vec![port])),
        instance,
        backup_replicas: Vec::new(),
    }
}

pub fn replication(kind: Replication) -> Entity {
    Entity::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry { r#type: Some(kind) })
}

pub fn multicast(id: u32, replicas: Vec<p4::Replica>) -> Entity {
    replication(Replication::MulticastGroupEntry(p4::MulticastGroupEntry {
        multicast_group_id: id,
        replicas,
        metadata: b"mine".to_vec(),
    }))
}

/// A frame of 60 bytes, whose addresses end in these bytes.
pub fn frame(to: u8, from: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    (frame[5], frame[11]) = (to, from);
    frame
}
