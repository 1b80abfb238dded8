//! Action of a table entry: a direct action, a member or group of the table's action profile, or a
//! one-shot set of actions (spec, "Action Specification" and "One Shot Action Selector
//! Programming").

use ebb_pipeline::ActionId;
use ebb_pipeline::control::{ControlError, TableAction, WeightedAction};

use crate::entities::action::{Use, decode_action, encode_action};
use crate::entities::selector::{Semantics, check_size, check_weight, watch_port};
use crate::entities::{Context, TablePlan};
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

/// The action for the pipeline, and a one-shot set in its canonical form for reads.
pub fn decode_table_action(
    ctx: &mut Context,
    table: &config::Table,
    plan: &TablePlan,
    action: &p4::TableAction,
    for_use: Use,
) -> Result<(TableAction, Option<p4::TableAction>)> {
    let Some(kind) = &action.r#type else {
        return Err(EntityError::invalid("the action is empty"));
    };
    let indirect = table.implementation_id != 0;
    let action = match kind {
        Type::Action(action) if !indirect => {
            let refs = &table.action_refs;
            let find = action_ids(plan);
            let call = decode_action(ctx.info, ctx.names, refs, action, for_use, find)?;
            TableAction::Direct(call)
        }
        Type::Action(_) => {
            return Err(EntityError::invalid(format!(
                "the table has the action profile '{}': give a member, a group or an action set, \
                 not an action",
                ctx.info.action_profile(table.implementation_id)?.name()
            )));
        }
        _ if !indirect => {
            return Err(EntityError::invalid(
                "the table has no action profile: give an action, not a member, group or action set",
            ));
        }
        Type::ActionProfileMemberId(id) => {
            check_member(ctx, table, *id)?;
            TableAction::Member(*id)
        }
        Type::ActionProfileGroupId(id) => {
            check_group(ctx, table, *id)?;
            TableAction::Group(*id)
        }
        Type::ActionProfileActionSet(set) => {
            let (set, canonical) = decode_set(ctx, table, plan, set)?;
            return Ok((set, Some(canonical)));
        }
    };
    Ok((action, None))
}

/// The pipeline's ids of the actions of a table.
fn action_ids(plan: &TablePlan) -> impl Fn(&config::Action) -> Result<ActionId, ControlError> {
    |action| {
        let found = plan.actions.get(&action.id()).copied();
        found.ok_or_else(|| ControlError::NotFound {
            kind: "action",
            name: action.name().to_owned(),
        })
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
    ctx: &mut Context,
    table: &config::Table,
    plan: &TablePlan,
    set: &p4::ActionProfileActionSet,
) -> Result<(TableAction, p4::TableAction)> {
    let info = ctx.info;
    let profile = info.action_profile(table.implementation_id)?;
    let semantics = check_set(ctx, profile, set)?;
    let mut canonical = set.clone();
    let mut actions = Vec::new();
    for (i, item) in canonical.action_profile_actions.iter_mut().enumerate() {
        let mut decode = || {
            let action = item.action.as_ref();
            let action = action.ok_or_else(|| EntityError::invalid("has no action"))?;
            let refs = &table.action_refs;
            let find = action_ids(plan);
            let call = decode_action(info, ctx.names, refs, action, Use::Entry, find)?;
            item.action = encode_action(info, ctx.names, refs, ctx.pipeline, &call);
            Ok(WeightedAction {
                call,
                weight: check_weight(profile, semantics, item.weight)?,
                watch_port: watch_port(item.watch_kind.as_ref().map(watched))?,
            })
        };
        let action = decode().map_err(|e: EntityError| e.at(format!("action set, item {}", i + 1)));
        actions.push(action?);
    }
    let weight = actions.iter().map(|a| a.weight as usize).sum();
    // Too large a group is RESOURCE_EXHAUSTED, too large a set INVALID_ARGUMENT.
    check_size(profile, semantics, 0, actions.len(), weight)
        .map_err(|e| EntityError::invalid(e.message))?;
    let canonical = p4::TableAction {
        r#type: Some(Type::ActionProfileActionSet(canonical)),
    };
    Ok((TableAction::Set(actions), canonical))
}

/// Checks all of a set but its actions, and returns how its size is counted.
fn check_set(
    ctx: &Context,
    profile: &config::ActionProfile,
    set: &p4::ActionProfileActionSet,
) -> Result<Semantics> {
    use p4::action_profile_action_set::{ActionSelectionMode, SizeSemantics};
    if !profile.with_selector {
        return Err(EntityError::invalid(format!(
            "action profile '{}' has no selector, so it takes no action sets; give a member",
            profile.name()
        )));
    }
    let stored = ctx.store.profiles.get(&profile.id());
    if stored.is_some_and(|p| !p.members.is_empty() || !p.groups.is_empty()) {
        return Err(EntityError::invalid(format!(
            "action selector '{}' has members or groups, which do not mix with action sets; delete \
             them first",
            profile.name()
        )));
    }
    if set.action_profile_actions.is_empty() {
        return Err(EntityError::invalid("the action set is empty"));
    }
    // The selector hashes the fields that the program names; there is no other mode.
    match ActionSelectionMode::try_from(set.action_selection_mode) {
        Ok(ActionSelectionMode::DefaultModeDeterminedByActionSelector)
        | Ok(ActionSelectionMode::Hash) => {}
        Ok(ActionSelectionMode::Random) => {
            return Err(EntityError::unimplemented(format!(
                "action_selection_mode RANDOM (2): a v1model selector hashes; allowed: {MODES}"
            )));
        }
        Err(_) => {
            let mode = set.action_selection_mode;
            return Err(EntityError::invalid(format!(
                "action_selection_mode {mode}; allowed: {MODES}"
            )));
        }
    }
    match SizeSemantics::try_from(set.size_semantics) {
        Ok(SizeSemantics::SumOfMembers) => Ok(Semantics::Members),
        Ok(SizeSemantics::SumOfWeights) => Ok(Semantics::Weights),
        Ok(SizeSemantics::DefaultSizeDeterminedByActionSelector) => Ok(Semantics::of(profile)),
        Err(_) => Err(EntityError::invalid(format!(
            "size_semantics {}; allowed: DEFAULT_SIZE_DETERMINED_BY_ACTION_SELECTOR (0), \
             SUM_OF_WEIGHTS (1), SUM_OF_MEMBERS (2)",
            set.size_semantics
        ))),
    }
}

const MODES: &str = "DEFAULT_MODE_DETERMINED_BY_ACTION_SELECTOR (0), HASH (1)";

/// The port that an action watches, as the client wrote it.
fn watched(kind: &WatchKind) -> Vec<u8> {
    #[allow(deprecated)]
    match kind {
        WatchKind::Watch(port) => port.to_be_bytes().into(),
        WatchKind::WatchPort(port) => port.clone(),
    }
}
