//! Batches that are done as a whole or not at all (spec, "Batch Atomicity"). A batch runs between
//! two packets, so that no packet sees an update that is undone later: ROLLBACK_ON_ERROR and
//! DATAPLANE_ATOMIC are the same here.
//!
//! Not restored: tokens of meters, counters of their colours, and which of several entries of
//! one priority is the oldest.

use tonic::Code;

use crate::entities::{Context, Kind, Position, entity, read, table_read, update, write};
use crate::error::{EntityError, Result};
use crate::proto::p4;
use crate::proto::p4::packet_replication_engine_entry::Type as Replication;
use crate::proto::p4::update::Type;

/// Most cells whose old values are kept, beyond one for each update: enough to set all cells of a counter with a
/// million once.
const MOST_KEPT: usize = 1 << 20;

/// The results of all updates. After one that failed, none is in force.
pub fn write_all_or_nothing(ctx: &mut Context, updates: &[p4::Update]) -> Vec<Result<()>> {
    let mut done = Vec::new();
    let mut kept = 0;
    for (number, update) in updates.iter().enumerate() {
        // The present state has to be read before it changes.
        let before = inverse(ctx, update);
        kept += before.len();
        let written = match kept > updates.len() + MOST_KEPT {
            false => write(ctx, update),
            true => Err(EntityError::unimplemented(format!(
                "the batch changes more than {MOST_KEPT} cells by updates without index, too many to \
                 be undone; use CONTINUE_ON_ERROR or several batches"
            ))),
        };
        let Err(error) = written else {
            done.push(before);
            continue;
        };
        for update in done.iter().rev().flatten() {
            // It restores a state that was valid, so it is not expected to fail.
            if let Err(error) = write(ctx, update) {
                tracing::error!(%error, "an update of a batch could not be undone");
            }
        }
        let aborted = || EntityError {
            code: Code::Aborted,
            message: format!(
                "not done, because update {} of the batch failed",
                number + 1
            ),
        };
        let mut results: Vec<_> = updates.iter().map(|_| Err(aborted())).collect();
        results[number] = Err(error);
        return results;
    }
    vec![Ok(()); updates.len()]
}

/// The updates that undo an update, if it is possible at all.
pub fn inverse(ctx: &mut Context, change: &p4::Update) -> Vec<p4::Update> {
    let Some(whole) = change.entity.as_ref() else {
        return Vec::new();
    };
    let back = match change.r#type() {
        Type::Insert => return vec![update(Type::Delete, whole.clone())],
        Type::Modify => Type::Modify,
        Type::Delete => Type::Insert,
        Type::Unspecified => return Vec::new(),
    };
    let present = present(ctx, whole).into_iter();
    present.map(|entity| update(back, entity)).collect()
}

/// The entities that a write of this one would change, as they are now.
fn present(ctx: &mut Context, of: &p4::Entity) -> Vec<p4::Entity> {
    let Some(kind) = &of.entity else {
        return Vec::new();
    };
    if let Kind::TableEntry(entry) = kind {
        let before = table_read::snapshot(ctx, entry).into_iter();
        return before.map(|e| entity(Kind::TableEntry(e))).collect();
    }
    // Id 0 would select everything, and no write has it.
    let id = match kind {
        Kind::ActionProfileMember(e) => e.member_id,
        Kind::ActionProfileGroup(e) => e.group_id,
        Kind::PacketReplicationEngineEntry(e) => match &e.r#type {
            Some(Replication::MulticastGroupEntry(group)) => group.multicast_group_id,
            Some(Replication::CloneSessionEntry(session)) => session.session_id,
            None => 0,
        },
        Kind::CounterEntry(e) => e.counter_id,
        Kind::MeterEntry(e) => e.meter_id,
        Kind::RegisterEntry(e) => e.register_id,
        Kind::DigestEntry(e) => e.digest_id,
        Kind::ValueSetEntry(e) => e.value_set_id,
        Kind::DirectCounterEntry(_) | Kind::DirectMeterEntry(_) => 1,
        Kind::TableEntry(_) | Kind::ExternEntry(_) => 0,
    };
    let mut out = Vec::new();
    if id != 0 {
        // An entity that cannot be read cannot be written either.
        let _ = read(ctx, of, (&mut Position::default(), usize::MAX), &mut out);
    }
    out
}
