//! The state of a locator.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ebb_units::Instant;

use super::catalog::Catalog;
use super::servers::{self, Live};
use super::state::{Change, Config, Snapshot};
use super::writes::Writes;
use crate::name::Stamp;
use crate::table::{Row, Table, choose};

/// The state of the locator.
pub struct Locator {
    pub(crate) config: Config,
    /// Number of its starts, this one included.
    pub(crate) start: u64,
    pub(crate) table: Table,
    pub(crate) catalog: Catalog,
    pub(crate) writes: Writes,
    pub(crate) servers: BTreeMap<Ipv4Addr, Live>,
    /// The number of the last repair; 0: none since the start.
    pub(crate) repair: u64,
}

impl Locator {
    /// Starts from the content of the database. The changes that are returned have to be durable before the first
    /// request is handled.
    pub fn open(
        now: Instant,
        config: Config,
        snapshot: Snapshot,
    ) -> Result<(Self, Vec<Change>), String> {
        config.check()?;
        let start = snapshot.start + 1;
        let mut changes = vec![Change::Start(start)];
        let servers = servers::open(now, &config, &snapshot.servers, &mut changes);
        let rows = match snapshot.rows.len() {
            0 => vec![
                Row {
                    version: 0,
                    replicas: Vec::new(),
                };
                config.rows
            ],
            _ => snapshot.rows.into_values().collect(),
        };
        let mut locator = Locator {
            writes: Writes::new(config.write_patience),
            catalog: Catalog::new(start, snapshot.blobs),
            config,
            start,
            table: Table { rows },
            servers,
            repair: 0,
        };
        locator.fill_rows(&mut changes);
        Ok((locator, changes))
    }

    /// Gives every row the servers that it should have now. Without any alive, rows stay as they are.
    pub(crate) fn fill_rows(&mut self, changes: &mut Vec<Change>) {
        let alive = self
            .servers
            .iter()
            .filter(|(_, server)| server.record.alive);
        let alive: Vec<_> = alive.map(|(address, _)| *address).collect();
        if alive.is_empty() {
            return;
        }
        for (number, row) in self.table.rows.iter_mut().enumerate() {
            let replicas = choose(number, alive.iter().copied(), self.config.copies);
            if replicas != row.replicas {
                row.version += 1;
                row.replicas = replicas;
                changes.push(Change::Row(number, row.clone()));
            }
        }
    }

    /// The stamp of a number that is unique within this start.
    pub(crate) fn stamp(&self, number: u64) -> Stamp {
        let start = self.start;
        Stamp { start, number }
    }
}
