//! The writes that bring a store back: what RECONCILE_AND_COMMIT replays on the new pipeline.

use tonic::Code;

use crate::entities::table_read::key_entry;
use crate::entities::{Context, Kind, entity, write};
use crate::error::Result;
use crate::p4info::Index;
use crate::proto::p4;
use crate::proto::p4::packet_replication_engine_entry::Type;
use crate::proto::p4::update;
use crate::store::{Entry, Store};

/// Updates in the order of their dependencies.
pub fn restore_updates(info: &Index, store: &Store) -> Vec<p4::Update> {
    let mut out = Vec::new();
    let mut push = |kind: update::Type, value: Kind| {
        out.push(p4::Update {
            r#type: kind as i32,
            entity: Some(entity(value)),
        });
    };
    for (profile, contents) in &store.profiles {
        for (id, action) in &contents.members {
            let member = p4::ActionProfileMember {
                action_profile_id: *profile,
                member_id: *id,
                action: Some(action.clone()),
            };
            push(update::Type::Insert, Kind::ActionProfileMember(member));
        }
        for group in contents.groups.values() {
            let group = Kind::ActionProfileGroup(group.clone());
            push(update::Type::Insert, group);
        }
    }
    for (id, contents) in &store.tables {
        let Some(table) = info.tables.get(id) else {
            continue;
        };
        for (key, entry) in contents.entries.iter().filter(|(_, e)| !e.is_const) {
            let restored = with_entry(key_entry(table, key), entry);
            push(update::Type::Insert, Kind::TableEntry(restored));
        }
        if contents.default.action.is_some() {
            let default = p4::TableEntry {
                table_id: *id,
                is_default_action: true,
                ..Default::default()
            };
            let restored = with_entry(default, &contents.default);
            push(update::Type::Modify, Kind::TableEntry(restored));
        }
    }
    for ((meter_id, index), config) in &store.meters {
        let meter = p4::MeterEntry {
            meter_id: *meter_id,
            index: Some(p4::Index { index: *index }),
            config: Some(*config),
            counter_data: None,
        };
        push(update::Type::Modify, Kind::MeterEntry(meter));
    }
    let groups = store.multicast_groups.values().cloned();
    let sessions = store.clone_sessions.values().cloned();
    let groups = groups.map(Type::MulticastGroupEntry);
    for kind in groups.chain(sessions.map(Type::CloneSessionEntry)) {
        let entry = p4::PacketReplicationEngineEntry { r#type: Some(kind) };
        push(
            update::Type::Insert,
            Kind::PacketReplicationEngineEntry(entry),
        );
    }
    for (id, config) in &store.digests {
        let digest = p4::DigestEntry {
            digest_id: *id,
            config: Some(*config),
        };
        push(update::Type::Insert, Kind::DigestEntry(digest));
    }
    for (id, members) in &store.value_sets {
        let set = p4::ValueSetEntry {
            value_set_id: *id,
            members: members.clone(),
        };
        push(update::Type::Modify, Kind::ValueSetEntry(set));
    }
    out
}

fn with_entry(key: p4::TableEntry, entry: &Entry) -> p4::TableEntry {
    #[allow(deprecated)]
    p4::TableEntry {
        action: entry.action.clone(),
        meter_config: entry.meter,
        controller_metadata: entry.notes.controller_metadata,
        metadata: entry.notes.metadata.clone(),
        idle_timeout_ns: entry.notes.idle_timeout_ns,
        ..key
    }
}

/// An entry that the new program brings itself is changed to what it was.
pub fn restore(ctx: &mut Context, update: &p4::Update) -> Result<()> {
    match write(ctx, update) {
        Err(error) if error.code == Code::AlreadyExists => {
            let modify = p4::Update {
                r#type: update::Type::Modify as i32,
                entity: update.entity.clone(),
            };
            write(ctx, &modify)
        }
        result => result,
    }
}
