//! Parser value sets.

use std::collections::BTreeSet;

use crate::entities::matching::{FieldKey, decode_key, encode_key};
use crate::entities::{Change, Context, Kind, entity, selected};
use crate::error::{EntityError, Result};
use crate::p4info::Object;
use crate::proto::p4;

pub fn write(ctx: &mut Context, change: Change, entry: &p4::ValueSetEntry) -> Result<()> {
    change.only_modify("a value set")?;
    let set = ctx.info.find(&ctx.info.value_sets, entry.value_set_id)?;
    let place = |e: EntityError| e.at(format!("value set '{}'", set.name()));
    let size = set.size.max(0) as usize;
    if entry.members.len() > size {
        return Err(place(EntityError::exhausted(format!(
            "{} members; its size is {size}",
            entry.members.len()
        ))));
    }
    let (mut keys, mut seen) = (Vec::new(), BTreeSet::new());
    for (i, member) in entry.members.iter().enumerate() {
        let place = |e: EntityError| place(e.at(format!("member {}", i + 1)));
        let key = decode_key(&set.r#match, &member.r#match, ctx.names).map_err(place)?;
        if !seen.insert(key.clone()) {
            return Err(place(EntityError::already_exists("is listed twice")));
        }
        keys.push(key);
    }
    let id = ctx.pipeline.value_set(set.name())?;
    let members = keys
        .iter()
        .map(|key| key.iter().cloned().map(FieldKey::into_pipeline).collect());
    ctx.pipeline.set_value_set(id, members.collect())?;
    let members = keys.iter().map(|key| p4::ValueSetMember {
        r#match: encode_key(&set.r#match, key, ctx.names),
    });
    ctx.store
        .value_sets
        .insert(entry.value_set_id, members.collect());
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
