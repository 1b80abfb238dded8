//! Requests to the locator.

use ebb_units::Instant;

use super::core::Locator;
use super::state::Change;
use crate::message::{Reply, Request, Server, Status};

impl Locator {
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

    /// When [`handle_deadline`](Self::handle_deadline) has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        let alive = self.servers.values().filter(|server| server.record.alive);
        alive
            .map(|server| server.heard + self.config.dead_after)
            .min()
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
}
