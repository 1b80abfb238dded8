//! What a table entry does: a direct action, a member or group of the table's action profile, or a
//! one-shot set of actions (spec, "Action Specification" and "One Shot Action Selector
//! Programming").

use ebb_pipeline::control::{TableAction, WeightedAction};

use crate::bytes;
use crate::entities::Context;
use crate::entities::action::{Use, decode_action};
use crate::entities::action_profile::{check_size, check_weight};
use crate::error::{EntityError, Result};
use crate::p4info::Object;
use crate::proto::config;
use crate::proto::p4;
use crate::proto::p4::action_profile_action::WatchKind;
use crate::proto::p4::table_action::Type;

pub fn direct_action(action: p4::Action) -> p4::TableAction {
    p4::TableAction {
        r#type: Some(Type::Action(action)),
    }
}

/// The action for the pipeline, and its canonical form for reads.
pub fn decode_table_action(
    ctx: &Context,
    table: &config::Table,
    action: &p4::TableAction,
    for_use: Use,
) -> Result<(TableAction, p4::TableAction)> {
    let Some(kind) = &action.r#type else {
        return Err(EntityError::invalid("the action is empty"));
    };
    let indirect = table.implementation_id != 0;
    match kind {
        Type::Action(action) if !indirect => {
            let id = ctx.pipeline.table(table.name())?;
            let find = |name: &str| ctx.pipeline.table_action(id, name);
            let (call, canonical) =
                decode_action(ctx.info, &table.action_refs, action, for_use, find)?;
            Ok((TableAction::Direct(call), direct_action(canonical)))
        }
        Type::Action(_) => Err(EntityError::invalid(format!(
            "the table has the action profile '{}': give a member, a group or an action set, \
             not an action",
            ctx.info.action_profile(table.implementation_id)?.name()
        ))),
        _ if !indirect => Err(EntityError::invalid(
            "the table has no action profile: give an action, not a member, group or action set",
        )),
        Type::ActionProfileMemberId(id) => {
            check_member(ctx, table, *id)?;
            Ok((TableAction::Member(*id), action.clone()))
        }
        Type::ActionProfileGroupId(id) => {
            check_group(ctx, table, *id)?;
            Ok((TableAction::Group(*id), action.clone()))
        }
        Type::ActionProfileActionSet(set) => decode_set(ctx, table, set),
    }
}

fn check_member(ctx: &Context, table: &config::Table, id: u32) -> Result<()> {
    let profile = ctx.info.action_profile(table.implementation_id)?;
    let stored = ctx.store.profiles.get(&profile.id());
    if stored.is_some_and(|p| p.members.contains_key(&id)) {
        return Ok(());
    }
    Err(EntityError::not_found(format!(
        "action profile '{}' has no member {id}; insert it first",
        profile.name()
    )))
}

fn check_group(ctx: &Context, table: &config::Table, id: u32) -> Result<()> {
    let profile = ctx.info.action_profile(table.implementation_id)?;
    if !profile.with_selector {
        return Err(EntityError::invalid(format!(
            "action profile '{}' has no selector, so it has no groups; give a member",
            profile.name()
        )));
    }
    let stored = ctx.store.profiles.get(&profile.id());
    if stored.is_some_and(|p| p.groups.contains_key(&id)) {
        return Ok(());
    }
    Err(EntityError::not_found(format!(
        "action selector '{}' has no group {id}; insert it first",
        profile.name()
    )))
}

fn decode_set(
    ctx: &Context,
    table: &config::Table,
    set: &p4::ActionProfileActionSet,
) -> Result<(TableAction, p4::TableAction)> {
    let profile = ctx.info.action_profile(table.implementation_id)?;
    check_set(profile, set)?;
    let id = ctx.pipeline.profile(profile.name())?;
    let mut canonical = set.clone();
    let mut actions = Vec::new();
    for (i, item) in canonical.action_profile_actions.iter_mut().enumerate() {
        let mut decode = || {
            let action = item.action.as_ref();
            let action = action.ok_or_else(|| EntityError::invalid("has no action"))?;
            let find = |name: &str| ctx.pipeline.profile_action(id, name);
            let (call, canonical) =
                decode_action(ctx.info, &table.action_refs, action, Use::Entry, find)?;
            item.action = Some(canonical);
            Ok(WeightedAction {
                call,
                weight: check_weight(profile, item.weight)?,
                watch_port: watch_port(item.watch_kind.as_ref())?,
            })
        };
        let action = decode().map_err(|e: EntityError| e.at(format!("action set, item {}", i + 1)));
        actions.push(action?);
    }
    let weight = actions.iter().map(|a| a.weight as usize).sum();
    check_size(profile, 0, actions.len(), weight)?;
    let canonical = p4::TableAction {
        r#type: Some(Type::ActionProfileActionSet(canonical)),
    };
    Ok((TableAction::Set(actions), canonical))
}

fn check_set(profile: &config::ActionProfile, set: &p4::ActionProfileActionSet) -> Result<()> {
    if !profile.with_selector {
        return Err(EntityError::invalid(format!(
            "action profile '{}' has no selector, so it takes no action sets; give a member",
            profile.name()
        )));
    }
    if set.action_profile_actions.is_empty() {
        return Err(EntityError::invalid("the action set is empty"));
    }
    // The selector hashes the fields that the program names; there is no per-group mode.
    if set.action_selection_mode != 0 || set.size_semantics != 0 {
        return Err(EntityError::unimplemented(
            "action_selection_mode and size_semantics can only be the defaults of the selector",
        ));
    }
    Ok(())
}

fn watch_port(kind: Option<&WatchKind>) -> Result<Option<u32>> {
    #[allow(deprecated)]
    match kind {
        None => Ok(None),
        Some(WatchKind::Watch(port)) => Ok(u32::try_from(*port).ok()),
        Some(WatchKind::WatchPort(port)) if port.is_empty() => Ok(None),
        Some(WatchKind::WatchPort(port)) => watch_bytes(port).map(Some),
    }
}

pub fn watch_bytes(port: &[u8]) -> Result<u32> {
    let port = bytes::canonical(port, 32).map_err(|e| e.at("watch_port"))?;
    Ok(bytes::to_u64(&port).unwrap_or_default() as u32)
}
