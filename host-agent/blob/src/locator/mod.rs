//! The locator: the table, the names with their content, and who holds which tract.
//!
//! All that has to survive a crash is in [`Snapshot`]. A request returns its changes and its answer; the
//! answer may be sent, and the next request handled, once the changes are durable. Then whatever has been
//! answered stays true, and a crash forgets only what nobody has been told: open writes apart, which it
//! forgets as a whole, so that none of them takes effect any more.

mod catalog;
mod replicas;
mod writes;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ebb_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

use crate::message::{Blob, Reply, Request, Server, Status};
use crate::name::Stamp;
use crate::table::{Row, Table, choose};
use crate::{MAX_COPIES, MAX_ROWS};
use catalog::Catalog;
use replicas::Live;
use writes::Writes;

#[derive(Clone, Debug)]
pub struct Config {
    /// All servers, alive or not.
    pub servers: Vec<Ipv4Addr>,
    /// Replicas of a row, if so many servers are alive.
    pub copies: usize,
    /// Replicas that have to hold a tract before a write takes effect.
    pub least: usize,
    /// Rows of a new table; one that is there keeps its length.
    pub rows: usize,
    /// A write of which nothing is heard for so long is forgotten.
    pub write_patience: Duration,
    /// A server of which nothing is heard for so long leaves its rows.
    pub dead_after: Duration,
}

impl Config {
    /// Three copies or as many as there are servers; most of them before a write takes effect.
    pub fn new(servers: Vec<Ipv4Addr>) -> Self {
        let copies = servers.len().min(3);
        Config {
            servers,
            copies,
            least: copies / 2 + 1,
            rows: 64,
            write_patience: Duration::from_secs(60),
            dead_after: Duration::from_secs(10),
        }
    }

    pub fn check(&self) -> Result<(), String> {
        let (servers, copies, least) = (self.servers.len(), self.copies, self.least);
        if !(1..=MAX_COPIES.min(servers)).contains(&copies) {
            return Err(format!(
                "{copies} copies on {servers} servers; expected 1 to {MAX_COPIES}, and no more than servers"
            ));
        }
        if !(1..=copies).contains(&least) {
            return Err(format!(
                "at least {least} of {copies} copies; expected 1 to {copies}"
            ));
        }
        if !(1..=MAX_ROWS).contains(&self.rows) {
            let rows = self.rows;
            return Err(format!("a table of {rows} rows; expected 1 to {MAX_ROWS}"));
        }
        Ok(())
    }
}

/// What of a server has to survive a crash of the locator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerRecord {
    /// The folder that it had. `None`: it has never been heard.
    pub store: Option<u64>,
    pub alive: bool,
}

/// What the database holds.
#[derive(Clone, Default, Debug)]
pub struct Snapshot {
    /// How often the locator has started.
    pub start: u64,
    pub servers: BTreeMap<Ipv4Addr, ServerRecord>,
    pub rows: BTreeMap<usize, Row>,
    pub blobs: BTreeMap<String, Blob>,
}

/// A change of what the database holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    Start(u64),
    Server(Ipv4Addr, ServerRecord),
    Row(usize, Row),
    Blob(String, Blob),
}

impl Snapshot {
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Start(start) => self.start = start,
            Change::Server(address, record) => drop(self.servers.insert(address, record)),
            Change::Row(number, row) => drop(self.rows.insert(number, row)),
            Change::Blob(name, blob) => drop(self.blobs.insert(name, blob)),
        }
    }
}

pub struct Locator {
    config: Config,
    /// How often it has started, this time included.
    start: u64,
    table: Table,
    catalog: Catalog,
    writes: Writes,
    servers: BTreeMap<Ipv4Addr, Live>,
    /// The number of the last repair; 0: none since the start.
    repair: u64,
}

impl Locator {
    /// Starts from what the database holds; the changes are to be durable before the first request.
    pub fn open(
        now: Instant,
        config: Config,
        snapshot: Snapshot,
    ) -> Result<(Self, Vec<Change>), String> {
        config.check()?;
        let start = snapshot.start + 1;
        let mut changes = vec![Change::Start(start)];
        let servers = replicas::open(now, &config, &snapshot.servers, &mut changes);
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

    /// Answers a question. `None`: it is one that a later question of the same replica has overtaken.
    pub fn handle(&mut self, now: Instant, request: Request) -> (Vec<Change>, Option<Reply>) {
        let mut changes = self.handle_deadline(now);
        let reply = match request {
            Request::Begin { name } => Some(self.begin(now, name)),
            Request::Renew { write } => Some(self.renew(now, write)),
            Request::Commit {
                write,
                name,
                tracts,
            } => Some(self.commit(write, name, &tracts, &mut changes)),
            Request::Lookup { name } => Some(match self.catalog.get(&name) {
                Some(blob) => Reply::Found { blob: blob.clone() },
                None => Reply::Missing {},
            }),
            Request::List { after } => Some(self.catalog.page(after.as_deref())),
            Request::Replica { me, want } => self.replica(now, me, want, &mut changes),
            Request::Repair {} => {
                self.repair += 1;
                Some(Reply::Repairing {
                    repair: self.stamp(self.repair),
                })
            }
            Request::Status {} => Some(Reply::Status(self.status())),
        };
        (changes, reply)
    }

    /// Takes servers that are silent out of their rows.
    pub fn handle_deadline(&mut self, now: Instant) -> Vec<Change> {
        self.writes.forget_old(now);
        let mut changes = Vec::new();
        let dead_after = self.config.dead_after;
        for (address, server) in &mut self.servers {
            if server.record.alive && server.heard + dead_after <= now {
                server.record.alive = false;
                changes.push(Change::Server(*address, server.record));
            }
        }
        if !changes.is_empty() {
            self.fill_rows(&mut changes);
        }
        changes
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        let alive = self.servers.values().filter(|server| server.record.alive);
        alive
            .map(|server| server.heard + self.config.dead_after)
            .min()
    }

    /// Gives every row the servers that it should have now. Without any alive, rows stay as they are.
    fn fill_rows(&mut self, changes: &mut Vec<Change>) {
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

    fn status(&self) -> Status {
        let mut status = Status {
            blobs: self.catalog.blobs().len(),
            tracts: 0,
            short: 0,
            lost: 0,
            servers: Vec::new(),
            table: self.table.clone(),
        };
        for (name, blob) in self.catalog.blobs() {
            for (index, tract) in blob.tracts.iter().enumerate() {
                let row = self.table.row(name, index);
                let held = row
                    .replicas
                    .iter()
                    .all(|server| tract.holders.contains(server));
                status.tracts += 1;
                status.short += usize::from(!held);
                status.lost += usize::from(tract.holders.is_empty());
            }
        }
        for (address, server) in &self.servers {
            let rows = self.table.rows.iter();
            status.servers.push(Server {
                address: *address,
                alive: server.record.alive,
                rows: rows.filter(|row| row.replicas.contains(address)).count(),
                free_bytes: server.free_bytes,
                repair: server.repair,
            });
        }
        status
    }

    fn stamp(&self, number: u64) -> Stamp {
        let start = self.start;
        Stamp { start, number }
    }
}

pub(crate) use replicas::MAX_NAMED;
