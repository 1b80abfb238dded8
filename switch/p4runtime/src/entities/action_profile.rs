//! Members and groups of action profiles and selectors (spec, "ActionProfileMember &
//! ActionProfileGroup").

use std::collections::BTreeSet;

use ebb_pipeline::ProfileId;
use ebb_pipeline::control::{ActionCall, Group, GroupMember};

use crate::entities::action::{Use, decode_action, encode_action};
use crate::entities::selector::{Semantics, check_size, check_weight, watch_port};
use crate::entities::{Change, Context, Kind, entity, selected};
use crate::error::{EntityError, Result};
use crate::p4info::Object;
use crate::proto::config;
use crate::proto::p4;
use crate::proto::p4::action_profile_group::member::WatchKind;
use crate::store::Profile;

pub fn write_member(
    ctx: &mut Context,
    change: Change,
    entry: &p4::ActionProfileMember,
) -> Result<()> {
    let profile = ctx.info.action_profile(entry.action_profile_id)?;
    member(ctx, change, profile, entry).map_err(|e| {
        e.at(format!(
            "action profile '{}', member {}",
            profile.name(),
            entry.member_id
        ))
    })
}

fn member(
    ctx: &mut Context,
    change: Change,
    profile: &config::ActionProfile,
    entry: &p4::ActionProfileMember,
) -> Result<()> {
    let id = ctx.pipeline.profile(profile.name())?;
    let member = entry.member_id;
    check_existence(
        change,
        member,
        stored(ctx, profile).members.contains_key(&member),
    )?;
    match change {
        Change::Insert => {
            check_no_sets(ctx, profile)?;
            let (used, size) = (stored(ctx, profile).members.len(), profile.size);
            if size > 0 && used >= size as usize {
                return Err(EntityError::exhausted(format!(
                    "the profile is full: it has {used} members, its size is {size}"
                )));
            }
            let (call, canonical) = member_action(ctx, profile, id, entry)?;
            ctx.pipeline.insert_member(id, member, call)?;
            stored(ctx, profile).members.insert(member, canonical);
        }
        Change::Modify => {
            let (call, canonical) = member_action(ctx, profile, id, entry)?;
            ctx.pipeline.modify_member(id, member, call)?;
            stored(ctx, profile).members.insert(member, canonical);
        }
        Change::Delete => {
            ctx.pipeline.delete_member(id, member)?;
            stored(ctx, profile).members.remove(&member);
        }
    }
    Ok(())
}

/// A selector has one-shot sets or members and groups (spec, "One Shot Action Selector Programming").
fn check_no_sets(ctx: &Context, profile: &config::ActionProfile) -> Result<()> {
    if profile.table_ids.iter().any(|t| ctx.store.has_sets(*t)) {
        return Err(EntityError::invalid(
            "a table of this selector has entries with action sets, which do not mix with members \
             and groups; delete them first",
        ));
    }
    Ok(())
}

/// The action of a member must be one of the tables that share the profile.
fn member_action(
    ctx: &mut Context,
    profile: &config::ActionProfile,
    id: ProfileId,
    entry: &p4::ActionProfileMember,
) -> Result<(ActionCall, p4::Action)> {
    let action = entry.action.as_ref();
    let action = action.ok_or_else(|| EntityError::invalid("has no action"))?;
    let table = profile.table_ids.first().copied().unwrap_or_default();
    let refs = &ctx.info.table(table)?.action_refs;
    let find = |action: &config::Action| ctx.pipeline.profile_action(id, action.name());
    let call = decode_action(ctx.info, ctx.names, refs, action, Use::Entry, find)?;
    let canonical = encode_action(ctx.info, ctx.names, refs, ctx.pipeline, &call);
    Ok((call, canonical.unwrap_or_default()))
}

pub fn write_group(
    ctx: &mut Context,
    change: Change,
    entry: &p4::ActionProfileGroup,
) -> Result<()> {
    if change == Change::Modify {
        let profile = ctx.info.action_profile(entry.action_profile_id)?;
        let old = stored(ctx, profile).groups.get(&entry.group_id);
        if let Some(old) = old.filter(|old| old.max_size != entry.max_size) {
            return Err(EntityError::invalid(format!(
                "action selector '{}', group {}: max_size is {} and cannot be changed to {}",
                profile.name(),
                entry.group_id,
                old.max_size,
                entry.max_size
            )));
        }
    }
    write_resizable_group(ctx, change, entry)
}

/// As [`write_group`], but MODIFY may change the largest size too, which P4Runtime forbids and BF Runtime does not.
pub fn write_resizable_group(
    ctx: &mut Context,
    change: Change,
    entry: &p4::ActionProfileGroup,
) -> Result<()> {
    let profile = ctx.info.action_profile(entry.action_profile_id)?;
    group(ctx, change, profile, entry).map_err(|e| {
        e.at(format!(
            "action selector '{}', group {}",
            profile.name(),
            entry.group_id
        ))
    })
}

fn group(
    ctx: &mut Context,
    change: Change,
    profile: &config::ActionProfile,
    entry: &p4::ActionProfileGroup,
) -> Result<()> {
    if !profile.with_selector {
        return Err(EntityError::invalid(
            "the profile has no selector, so it has no groups",
        ));
    }
    let id = ctx.pipeline.profile(profile.name())?;
    let exists = stored(ctx, profile).groups.contains_key(&entry.group_id);
    check_existence(change, entry.group_id, exists)?;
    match change {
        Change::Delete => {
            ctx.pipeline.delete_group(id, entry.group_id)?;
            stored(ctx, profile).groups.remove(&entry.group_id);
            return Ok(());
        }
        Change::Modify => {
            let group = checked_group(ctx, profile, entry)?;
            ctx.pipeline.modify_group(id, entry.group_id, group)?;
        }
        Change::Insert => {
            check_no_sets(ctx, profile)?;
            let group = checked_group(ctx, profile, entry)?;
            ctx.pipeline.insert_group(id, entry.group_id, group)?;
        }
    }
    stored(ctx, profile)
        .groups
        .insert(entry.group_id, entry.clone());
    Ok(())
}

fn checked_group(
    ctx: &mut Context,
    profile: &config::ActionProfile,
    entry: &p4::ActionProfileGroup,
) -> Result<Group> {
    let max = profile.max_group_size.max(0);
    // The spec wants max_size above 0 where the P4Info has a limit. Clients that leave it out mean
    // that limit, so it is taken as such.
    if entry.max_size < 0 || (max > 0 && entry.max_size > max) {
        return Err(EntityError::invalid(format!(
            "max_size {}; allowed: 0 to {max}",
            entry.max_size
        )));
    }
    let semantics = Semantics::of(profile);
    let mut seen = BTreeSet::new();
    let mut members = Vec::new();
    for given in &entry.members {
        let id = given.member_id;
        if !seen.insert(id) {
            return Err(EntityError::invalid(format!(
                "member {id} is listed twice; use its weight"
            )));
        }
        if !stored(ctx, profile).members.contains_key(&id) {
            return Err(EntityError::not_found(format!(
                "member {id} does not exist; insert it first"
            )));
        }
        let place = |e: EntityError| e.at(format!("member {id}"));
        members.push(GroupMember {
            member: id,
            weight: check_weight(profile, semantics, given.weight).map_err(place)?,
            watch_port: watch_port(given.watch_kind.as_ref().map(watched)).map_err(place)?,
        });
    }
    let weight = members.iter().map(|m| m.weight as usize).sum();
    check_size(profile, semantics, entry.max_size, members.len(), weight)?;
    check_total(
        stored(ctx, profile),
        profile,
        entry,
        (members.len(), weight),
    )?;
    Ok(Group {
        members,
        max_size: entry.max_size as u32,
    })
}

/// Where the program says what `size` is the sum of, the groups together keep to it (spec, "ActionProfile").
/// Without a word from the program BMv2 has no such limit, and programs for it count on that.
fn check_total(
    stored: &Profile,
    profile: &config::ActionProfile,
    entry: &p4::ActionProfileGroup,
    (members, weight): (usize, usize),
) -> Result<()> {
    if profile.selector_size_semantics.is_none() || profile.size <= 0 {
        return Ok(());
    }
    let others = stored
        .groups
        .values()
        .filter(|g| g.group_id != entry.group_id);
    let others = others.flat_map(|g| &g.members);
    let (total, what) = match Semantics::of(profile) {
        Semantics::Members => (others.count() + members, "members"),
        Semantics::Weights => {
            // An unset weight, where weights are not allowed, is that of one member.
            let weights = others.map(|m| m.weight.max(1) as usize);
            (weights.sum::<usize>() + weight, "weights of members")
        }
    };
    match total as i64 > profile.size {
        false => Ok(()),
        true => Err(EntityError::exhausted(format!(
            "the groups of the selector would have {total} {what} together; its size is {}",
            profile.size
        ))),
    }
}

pub fn read_members(
    ctx: &Context,
    filter: &p4::ActionProfileMember,
    out: &mut Vec<p4::Entity>,
) -> Result<()> {
    let profiles = &ctx.info.action_profiles;
    ctx.info.check_filter(profiles, filter.action_profile_id)?;
    for (profile, stored) in selected(&ctx.store.profiles, filter.action_profile_id) {
        for (id, action) in selected(&stored.members, filter.member_id) {
            out.push(entity(Kind::ActionProfileMember(p4::ActionProfileMember {
                action_profile_id: profile,
                member_id: id,
                action: Some(action.clone()),
            })));
        }
    }
    Ok(())
}

pub fn read_groups(
    ctx: &Context,
    filter: &p4::ActionProfileGroup,
    out: &mut Vec<p4::Entity>,
) -> Result<()> {
    let profiles = &ctx.info.action_profiles;
    ctx.info.check_filter(profiles, filter.action_profile_id)?;
    for (_, stored) in selected(&ctx.store.profiles, filter.action_profile_id) {
        for (_, group) in selected(&stored.groups, filter.group_id) {
            out.push(entity(Kind::ActionProfileGroup(group.clone())));
        }
    }
    Ok(())
}

fn check_existence(change: Change, id: u32, exists: bool) -> Result<()> {
    match (change, id) {
        (Change::Insert, 0) => Err(EntityError::invalid("0 is no valid id")),
        _ => change.check_existence(exists),
    }
}

fn stored<'a>(ctx: &'a mut Context, profile: &config::ActionProfile) -> &'a mut Profile {
    ctx.store.profiles.entry(profile.id()).or_default()
}

/// The port that a member watches, as the client wrote it.
fn watched(kind: &WatchKind) -> Vec<u8> {
    #[allow(deprecated)]
    match kind {
        WatchKind::Watch(port) => port.to_be_bytes().into(),
        WatchKind::WatchPort(port) => port.clone(),
    }
}
