//! Parser value sets.

use std::collections::BTreeSet;

use crate::entities::matching::{FieldKey, decode_key, encode_key};
use crate::entities::{Change, Context, Kind, entity, selected};
use crate::error::{EntityError, Result};
use crate::p4info::Object;
use crate::proto::config::match_field::{Match, MatchType};
use crate::proto::p4::field_match::FieldMatchType;
use crate::proto::{config, p4};

pub fn write(ctx: &mut Context, change: Change, entry: &p4::ValueSetEntry) -> Result<()> {
    change.only_modify("a value set")?;
    write_members(ctx, entry, |fields, _| fields.to_vec())
}

/// Sets the members of a value set of Tofino, whose parser compares each field under a mask: fields that the program
/// compares exactly may have one.
pub fn write_masked_value_set(ctx: &mut Context, entry: &p4::ValueSetEntry) -> Result<()> {
    write_members(ctx, entry, |fields, member| {
        let given = |field: &config::MatchField| {
            let mut given = member.r#match.iter().filter(|of| of.field_id == field.id);
            let kind = given.next().and_then(|of| of.field_match_type.as_ref());
            match kind {
                Some(FieldMatchType::Ternary(_)) => config::MatchField {
                    r#match: Some(Match::MatchType(MatchType::Ternary as i32)),
                    ..field.clone()
                },
                _ => field.clone(),
            }
        };
        fields.iter().map(given).collect()
    })
}

/// Sets the members; `fields_of` says how each is compared.
fn write_members(
    ctx: &mut Context,
    entry: &p4::ValueSetEntry,
    fields_of: impl Fn(&[config::MatchField], &p4::ValueSetMember) -> Vec<config::MatchField>,
) -> Result<()> {
    let set = ctx.info.find(&ctx.info.value_sets, entry.value_set_id)?;
    let place = |e: EntityError| e.at(format!("value set '{}'", set.name()));
    let size = set.size.max(0) as usize;
    if entry.members.len() > size {
        return Err(place(EntityError::exhausted(format!(
            "{} members; its size is {size}",
            entry.members.len()
        ))));
    }
    let (mut keys, mut seen, mut kept) = (Vec::new(), BTreeSet::new(), Vec::new());
    for (i, member) in entry.members.iter().enumerate() {
        let place = |e: EntityError| place(e.at(format!("member {}", i + 1)));
        let fields = fields_of(&set.r#match, member);
        let key = decode_key(&fields, &member.r#match, ctx.names).map_err(place)?;
        if !seen.insert(key.clone()) {
            return Err(place(EntityError::already_exists("is listed twice")));
        }
        kept.push(p4::ValueSetMember {
            r#match: encode_key(&fields, &key, ctx.names),
        });
        keys.push(key);
    }
    let id = ctx.pipeline.value_set(set.name())?;
    let members: Vec<Vec<_>> = keys
        .iter()
        .map(|key| key.iter().cloned().map(FieldKey::into_pipeline).collect())
        .collect();
    ctx.pipeline.set_value_set(id, &members)?;
    ctx.store.value_sets.insert(entry.value_set_id, kept);
    Ok(())
}

pub fn read(ctx: &Context, filter: &p4::ValueSetEntry, out: &mut Vec<p4::Entity>) -> Result<()> {
    ctx.info
        .check_filter(&ctx.info.value_sets, filter.value_set_id)?;
    for (id, _) in selected(&ctx.info.value_sets, filter.value_set_id) {
        let members = ctx.store.value_sets.get(&id).cloned();
        out.push(entity(Kind::ValueSetEntry(p4::ValueSetEntry {
            value_set_id: id,
            members: members.unwrap_or_default(),
        })));
    }
    Ok(())
}
