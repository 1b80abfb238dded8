//! Whether and how digests are sent. The lists themselves are in [`crate::digests`].

use crate::entities::{Change, Context, Kind, entity, selected};
use crate::error::{EntityError, Result};
use crate::p4info::Object;
use crate::proto::p4;

pub fn write(ctx: &mut Context, change: Change, entry: &p4::DigestEntry) -> Result<()> {
    let digest = ctx.info.find(&ctx.info.digests, entry.digest_id)?;
    let place = |e: EntityError| e.at(format!("digest '{}'", digest.name()));
    let exists = ctx.store.digests.contains_key(&entry.digest_id);
    change.check_existence(exists).map_err(place)?;
    match change {
        Change::Delete => ctx.store.digests.remove(&entry.digest_id),
        _ => {
            let config = checked(entry).map_err(place)?;
            ctx.store.digests.insert(entry.digest_id, config)
        }
    };
    Ok(())
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
    ctx.info.check_filter(&ctx.info.digests, filter.digest_id)?;
    for (id, config) in selected(&ctx.store.digests, filter.digest_id) {
        out.push(entity(Kind::DigestEntry(p4::DigestEntry {
            digest_id: id,
            config: Some(*config),
        })));
    }
    Ok(())
}
