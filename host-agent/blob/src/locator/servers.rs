//! Servers, as the locator has heard of them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ebb_units::Instant;

use super::state::{Change, Config, ServerRecord};
use crate::message::Progress;
use crate::name::Stamp;

/// A server, as far as this start of the locator has heard of it.
pub struct Live {
    pub record: ServerRecord,
    /// When it was last heard; at first, when the locator started.
    pub heard: Instant,
    /// Stamp of its last question.
    pub turn: Stamp,
    pub free_bytes: Option<u64>,
    pub repair: Option<Progress>,
}

/// The servers of the configuration, as the database knows them. Those that it knew and that are servers
/// no more are as good as dead.
pub fn open(
    now: Instant,
    config: &Config,
    records: &BTreeMap<Ipv4Addr, ServerRecord>,
    changes: &mut Vec<Change>,
) -> BTreeMap<Ipv4Addr, Live> {
    let mut servers = BTreeMap::new();
    for address in records.keys().chain(&config.servers) {
        let known = records.get(address).copied();
        let configured = config.servers.contains(address);
        // A new one belongs to no row before it has said which folder it has.
        let record = ServerRecord {
            store: known.and_then(|known| known.store),
            alive: configured && known.is_some_and(|known| known.alive),
        };
        if known != Some(record) {
            changes.push(Change::Server(*address, record));
        }
        if configured {
            let live = Live {
                record,
                heard: now,
                turn: Stamp::default(),
                free_bytes: None,
                repair: None,
            };
            servers.insert(*address, live);
        }
    }
    servers
}
