//! State of a locator: its configuration, and the part that survives a crash.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ebb_units::Duration;
use serde::{Deserialize, Serialize};

use crate::limits::{MAX_COPIES, MAX_ROWS};
use crate::message::Blob;
use crate::table::Row;

/// Settings of the locator.
#[derive(Clone, Debug)]
pub struct Config {
    /// All servers, alive or not.
    pub servers: Vec<Ipv4Addr>,
    /// Replicas of a row; fewer if there are not enough live servers.
    pub copies: usize,
    /// Replicas that have to hold a tract before a write takes effect.
    pub least: usize,
    /// Rows of a new table; an existing table keeps its number of rows.
    pub rows: usize,
    /// Time without a message after which an open write is forgotten.
    pub write_patience: Duration,
    /// Time without a message after which a server is removed from its rows.
    pub dead_after: Duration,
}

impl Config {
    /// Three copies, or as many as there are servers; a majority of them before a write takes effect.
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

    /// Checks ranges; the error names the value.
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

/// State of a server that survives a crash of the locator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerRecord {
    /// Its folder. `None`: it has never sent a message.
    pub store: Option<u64>,
    /// Whether it belongs to rows.
    pub alive: bool,
}

/// Content of the database.
#[derive(Clone, Default, Debug)]
pub struct Snapshot {
    /// Number of starts of the locator.
    pub start: u64,
    /// Servers by address.
    pub servers: BTreeMap<Ipv4Addr, ServerRecord>,
    /// Rows by number.
    pub rows: BTreeMap<usize, Row>,
    /// Contents by name.
    pub blobs: BTreeMap<String, Blob>,
}

/// A change of the content of the database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Number of starts of the locator.
    Start(u64),
    /// A server has changed.
    Server(Ipv4Addr, ServerRecord),
    /// A row has changed.
    Row(usize, Row),
    /// A name has new content.
    Blob(String, Blob),
}

impl Snapshot {
    /// Applies a change.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Start(start) => self.start = start,
            Change::Server(address, record) => drop(self.servers.insert(address, record)),
            Change::Row(number, row) => drop(self.rows.insert(number, row)),
            Change::Blob(name, blob) => drop(self.blobs.insert(name, blob)),
        }
    }
}
