//! The packet replication engine: multicast groups and clone sessions.

use std::collections::HashSet;

use ebb_pipeline::control::{CloneSession, ProtectedReplica, Replica};

use crate::bytes;
use crate::entities::{Change, Context, Kind, entity, selected};
use crate::error::{EntityError, Result};
use crate::proto::p4;
use crate::proto::p4::packet_replication_engine_entry::Type;
use crate::proto::p4::replica::PortKind;
use crate::translation::Names;

/// v1model: `bit<16> mcast_grp`; group 0 means no multicast.
const MAX_GROUP: u32 = 0xffff;
/// Group 0 of programs for Tofino, which P4Runtime cannot name.
pub const GROUP_0: u32 = u32::MAX;
/// BMv2's range of mirror session ids.
const MAX_SESSION: u32 = 0x7fff;
/// v1model: `bit<9> egress_port`.
const MAX_PORT: u64 = 0x1ff;
/// v1model: `bit<3> priority`.
const MAX_CLASS: u32 = 7;
/// Tofino: `bit<5> qid`.
const MAX_CLASS_OF_TOFINO: u32 = 31;

pub fn write(
    ctx: &mut Context,
    change: Change,
    entry: &p4::PacketReplicationEngineEntry,
) -> Result<()> {
    match &entry.r#type {
        Some(Type::MulticastGroupEntry(group)) => write_group(ctx, change, group)
            .map_err(|e| e.at(format!("multicast group {}", group.multicast_group_id))),
        Some(Type::CloneSessionEntry(session)) => write_session(ctx, change, session)
            .map_err(|e| e.at(format!("clone session {}", session.session_id))),
        None => Err(empty()),
    }
}

pub fn read(
    ctx: &Context,
    filter: &p4::PacketReplicationEngineEntry,
    out: &mut Vec<p4::Entity>,
) -> Result<()> {
    let push = |kind: Type| {
        entity(Kind::PacketReplicationEngineEntry(
            p4::PacketReplicationEngineEntry { r#type: Some(kind) },
        ))
    };
    match &filter.r#type {
        Some(Type::MulticastGroupEntry(f)) => {
            let groups = selected(&ctx.store.multicast_groups, f.multicast_group_id);
            out.extend(groups.map(|(_, g)| push(Type::MulticastGroupEntry(g.clone()))));
            Ok(())
        }
        Some(Type::CloneSessionEntry(f)) => {
            let sessions = selected(&ctx.store.clone_sessions, f.session_id);
            out.extend(sessions.map(|(_, s)| push(Type::CloneSessionEntry(s.clone()))));
            Ok(())
        }
        None => Err(empty()),
    }
}

fn write_group(ctx: &mut Context, change: Change, entry: &p4::MulticastGroupEntry) -> Result<()> {
    let given = entry.multicast_group_id;
    let id = match given {
        GROUP_0 if ctx.pipeline.cell_bytes().is_some() => 0,
        _ => checked_id(given, MAX_GROUP)?,
    };
    let exists = ctx.store.multicast_groups.contains_key(&given);
    change.check_existence(exists)?;
    if change == Change::Delete {
        ctx.pipeline.delete_multicast_group(id)?;
        ctx.store.multicast_groups.remove(&given);
        return Ok(());
    }
    let mut entry = entry.clone();
    let protected = checked_replicas(&mut entry.replicas, ctx.names)?;
    let replicas = protected.iter().map(|r| r.primary).collect();
    match change {
        Change::Modify => ctx.pipeline.modify_multicast_group(id, replicas)?,
        _ => ctx.pipeline.insert_multicast_group(id, replicas)?,
    }
    if protected.iter().any(|r| !r.backups.is_empty()) {
        ctx.pipeline.protect_multicast_group(id, protected)?;
    }
    ctx.store.multicast_groups.insert(given, entry);
    Ok(())
}

fn write_session(ctx: &mut Context, change: Change, entry: &p4::CloneSessionEntry) -> Result<()> {
    let id = checked_id(entry.session_id, MAX_SESSION)?;
    let exists = ctx.store.clone_sessions.contains_key(&id.into());
    change.check_existence(exists)?;
    if change == Change::Delete {
        ctx.pipeline.delete_clone_session(id.into())?;
        ctx.store.clone_sessions.remove(&id.into());
        return Ok(());
    }
    let mut entry = entry.clone();
    let replicas = checked_replicas(&mut entry.replicas, ctx.names)?;
    if replicas.iter().any(|r| !r.backups.is_empty()) {
        return Err(EntityError::unimplemented(
            "backup replicas are for multicast groups",
        ));
    }
    let most = match ctx.pipeline.cell_bytes() {
        Some(_) => MAX_CLASS_OF_TOFINO,
        None => MAX_CLASS,
    };
    if entry.class_of_service > most {
        return Err(EntityError::invalid(format!(
            "class_of_service {}; allowed: 0 to {most}",
            entry.class_of_service
        )));
    }
    let packet_length_bytes = u32::try_from(entry.packet_length_bytes).map_err(|_| {
        EntityError::out_of_range(format!(
            "packet_length_bytes {}; allowed: 0 (whole packets) and above",
            entry.packet_length_bytes
        ))
    })?;
    let session = CloneSession {
        replicas: replicas.into_iter().map(|r| r.primary).collect(),
        class_of_service: entry.class_of_service,
        packet_length_bytes,
    };
    match change {
        Change::Modify => ctx.pipeline.modify_clone_session(id.into(), session)?,
        _ => ctx.pipeline.insert_clone_session(id.into(), session)?,
    }
    ctx.store.clone_sessions.insert(id.into(), entry);
    Ok(())
}

fn checked_id(id: u32, max: u32) -> Result<u16> {
    match id {
        id if (1..=max).contains(&id) => Ok(id as u16),
        _ => Err(EntityError::invalid(format!("allowed: 1 to {max}"))),
    }
}

/// Checks replicas, and makes their ports canonical in the kind of field that the client used.
fn checked_replicas(replicas: &mut [p4::Replica], names: &Names) -> Result<Vec<ProtectedReplica>> {
    let mut seen = HashSet::new();
    let mut check = |port: u16, instance: u32| {
        let instance = u16::try_from(instance).map_err(|_| {
            EntityError::invalid(format!("instance {instance}; allowed: 0 to {}", u16::MAX))
        })?;
        let checked = Replica { port, instance };
        match seen.insert(checked) {
            true => Ok(checked),
            false => Err(EntityError::invalid("is listed twice")),
        }
    };
    let mut protect = |replica: &mut p4::Replica| {
        let primary = check(
            checked_port(replica.port_kind.as_mut(), names)?,
            replica.instance,
        )?;
        let mut backup = |backup: &mut p4::BackupReplica| {
            let port = checked_number(&mut backup.port, names)?;
            if port == primary.port {
                return Err(EntityError::invalid("has the port of the replica itself"));
            }
            check(port, backup.instance)
        };
        let backups = replica.backup_replicas.iter_mut().enumerate();
        let backups =
            backups.map(|(i, b)| backup(b).map_err(|e| e.at(format!("backup {}", i + 1))));
        Ok(ProtectedReplica {
            primary,
            backups: backups.collect::<Result<_>>()?,
        })
    };
    replicas
        .iter_mut()
        .enumerate()
        .map(|(i, r)| protect(r).map_err(|e: EntityError| e.at(format!("replica {}", i + 1))))
        .collect()
}

fn checked_port(port: Option<&mut PortKind>, names: &Names) -> Result<u16> {
    #[allow(deprecated)]
    match port {
        None => Err(EntityError::invalid("has no port")),
        Some(PortKind::EgressPort(port)) => in_range(u64::from(*port), names),
        Some(PortKind::Port(port)) => checked_number(port, names),
    }
}

/// Checks a port and makes it canonical.
fn checked_number(port: &mut Vec<u8>, names: &Names) -> Result<u16> {
    *port = bytes::canonical(port, 32)?;
    in_range(bytes::to_u64(port).unwrap_or(u64::MAX), names)
}

fn in_range(given: u64, names: &Names) -> Result<u16> {
    match names.replica_port(given) {
        port @ 0..=MAX_PORT => Ok(port as u16),
        _ => Err(EntityError::invalid(format!(
            "port {given}; allowed: 0 to {MAX_PORT}"
        ))),
    }
}

fn empty() -> EntityError {
    EntityError::invalid("the entry is empty; give a multicast group or a clone session")
}
