//! Whether and how digests are sent. The lists themselves are in [`crate::digests`].

use crate::entities::{Change, Context, Kind, entity, selected};
use crate::error::{EntityError, Result};
use crate::p4info::Object;
use crate::proto::p4;

pub fn write(ctx: &mut Context, change: Change, entry: &p4::DigestEntry) -> Result<()> {
    let digest = ctx.info.find(&ctx.info.digests, entry.digest_id)?;
    let place = |e: EntityError| e.at(format!("digest '{}'", digest.name()));
    let exists = ctx.store.digests.contains_key(&entry.digest_id);
    match (change, exists) {
        (Change::Insert, true) => Err(EntityError::already_exists("exists; use MODIFY")),
        (Change::Modify | Change::Delete, false) => {
            Err(EntityError::not_found("does not exist; insert it first"))
        }
        (Change::Delete, true) => {
            ctx.store.digests.remove(&entry.digest_id);
            Ok(())
        }
        (Change::Insert | Change::Modify, _) => checked(entry).map(|config| {
            ctx.store.digests.insert(entry.digest_id, config);
        }),
    }
    .map_err(place)
}

fn checked(entry: &p4::DigestEntry) -> Result<p4::digest_entry::Config> {
    let config = entry.config.unwrap_or_default();
    if config.max_timeout_ns < 0 || config.max_list_size < 0 || config.ack_timeout_ns < 0 {
        return Err(EntityError::invalid(
            "max_timeout_ns, max_list_size and ack_timeout_ns are 0 and above",
        ));
    }
    Ok(config)
}

pub fn read(ctx: &Context, filter: &p4::DigestEntry, out: &mut Vec<p4::Entity>) -> Result<()> {
    if filter.digest_id != 0 {
        ctx.info.find(&ctx.info.digests, filter.digest_id)?;
    }
    for (id, config) in selected(&ctx.store.digests, filter.digest_id) {
        out.push(entity(Kind::DigestEntry(p4::DigestEntry {
            digest_id: id,
            config: Some(*config),
        })));
    }
    Ok(())
}
