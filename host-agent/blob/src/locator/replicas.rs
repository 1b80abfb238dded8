//! Replicas: which are alive, what each should hold, and what each says that it holds.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ebb_units::Instant;

use super::core::Locator;
use super::state::{Change, ServerRecord};
use crate::message::{Blob, Cursor, Duty, Identity, Progress, ReplicaRequest, Reply};
use crate::name::TractName;

/// Most tracts in one answer.
const PAGE: usize = 128;
/// Most tracts in one question.
pub(crate) const MAX_NAMED: usize = 256;

impl Locator {
    pub(crate) fn replica(
        &mut self,
        now: Instant,
        me: Identity,
        want: ReplicaRequest,
        changes: &mut Vec<Change>,
    ) -> Option<Reply> {
        let Some(server) = self.servers.get_mut(&me.server) else {
            let reason = format!(
                "{} is none of the servers that the locator was given",
                me.server
            );
            return Some(Reply::Refused { reason });
        };
        if me.turn.start < server.turn.start {
            let reason = format!(
                "a later start of {} has been heard; if its clock was set back, restart the locator",
                me.server
            );
            return Some(Reply::Refused { reason });
        }
        if me.turn <= server.turn {
            return None;
        }
        server.turn = me.turn;
        server.heard = now;
        let before = server.record;
        server.record = ServerRecord {
            store: Some(me.store),
            alive: true,
        };
        if server.record != before {
            changes.push(Change::Server(me.server, server.record));
        }
        if before.store.is_some_and(|store| store != me.store) {
            self.forget_holder(me.server, changes);
        }
        if !before.alive {
            self.fill_rows(changes);
        }
        Some(match want {
            ReplicaRequest::Beat { free_bytes, repair } => self.beat(me.server, free_bytes, repair),
            ReplicaRequest::Duties { after } => self.duties(me.server, after.as_ref()),
            ReplicaRequest::Settle { held, lost } if held.len() + lost.len() <= MAX_NAMED => {
                self.settle(me.server, &held, true, changes);
                self.settle(me.server, &lost, false, changes);
                Reply::Settled {}
            }
            ReplicaRequest::Garbage { tracts } if tracts.len() <= MAX_NAMED => {
                self.garbage(me.server, tracts, changes)
            }
            ReplicaRequest::Settle { .. } | ReplicaRequest::Garbage { .. } => {
                let reason = format!("a question about more than {MAX_NAMED} tracts");
                Reply::Refused { reason }
            }
        })
    }

    /// A server has a new folder: it holds no tracts any more, and open writes have to store theirs there
    /// again.
    fn forget_holder(&mut self, server: Ipv4Addr, changes: &mut Vec<Change>) {
        let holds = |blob: &Blob| blob.tracts.iter().any(|t| t.holders.contains(&server));
        let blobs = self.catalog.blobs().iter().filter(|(_, blob)| holds(blob));
        let names: Vec<String> = blobs.map(|(name, _)| name.clone()).collect();
        for name in names {
            if let Some(blob) = self.catalog.get_mut(&name) {
                for tract in &mut blob.tracts {
                    tract.holders.remove(&server);
                }
                changes.push(Change::Blob(name, blob.clone()));
            }
        }
        for (number, row) in self.table.rows.iter_mut().enumerate() {
            if row.replicas.contains(&server) {
                row.version += 1;
                changes.push(Change::Row(number, row.clone()));
            }
        }
    }

    fn beat(&mut self, server: Ipv4Addr, free_bytes: u64, repair: Option<Progress>) -> Reply {
        let last = self.stamp(self.repair);
        let Some(live) = self.servers.get_mut(&server) else {
            return Reply::Beaten { repair: None };
        };
        live.free_bytes = Some(free_bytes);
        live.repair = repair.filter(|progress| progress.repair.start == last.start);
        let done = live
            .repair
            .is_some_and(|progress| progress.repair == last && progress.done);
        Reply::Beaten {
            repair: (last.number > 0 && !done).then_some(last),
        }
    }

    fn duties(&self, server: Ipv4Addr, after: Option<&Cursor>) -> Reply {
        let mut duties = Vec::new();
        for (name, blob) in self.catalog.from(after.map_or("", |cursor| &cursor.name)) {
            let skipped = after.filter(|cursor| cursor.name == *name);
            let skipped = skipped.map_or(0, |cursor| cursor.tract);
            for (index, tract) in blob.tracts.iter().enumerate().skip(skipped) {
                let wanted = self.table.row(name, index).replicas.contains(&server);
                let listed = tract.holders.contains(&server);
                if !wanted && !listed {
                    continue;
                }
                if duties.len() == PAGE {
                    let next = Some(Cursor {
                        name: name.clone(),
                        tract: index,
                    });
                    return Reply::Duties { duties, next };
                }
                let sources = tract.holders.iter().filter(|holder| **holder != server);
                duties.push(Duty {
                    tract: blob.tract_name(index),
                    bytes: tract.bytes,
                    wanted,
                    listed,
                    sources: sources.copied().collect(),
                });
            }
        }
        Reply::Duties { duties, next: None }
    }

    /// Records that a server holds tracts, or holds them no more.
    fn settle(
        &mut self,
        server: Ipv4Addr,
        tracts: &[TractName],
        held: bool,
        changes: &mut Vec<Change>,
    ) {
        let mut changed = BTreeSet::new();
        for tract in tracts {
            let Some((name, blob)) = self.catalog.owner(tract) else {
                continue;
            };
            let holders = &mut blob.tracts[tract.index as usize].holders;
            let change = match held {
                true => holders.insert(server),
                false => holders.remove(&server),
            };
            if change {
                changed.insert(name.to_owned());
            }
        }
        self.changed(changed, changes);
    }

    /// Answers which tracts a server may delete: those of no blob and no open write, and surplus copies,
    /// where all replicas of the row have the tract. The server is no longer recorded as their holder.
    fn garbage(
        &mut self,
        server: Ipv4Addr,
        tracts: Vec<TractName>,
        changes: &mut Vec<Change>,
    ) -> Reply {
        let mut changed = BTreeSet::new();
        let mut may_go = Vec::new();
        for tract in tracts {
            let Some((name, blob)) = self.catalog.owner(&tract) else {
                if !self.writes.is_open(tract.write) {
                    may_go.push(tract);
                }
                continue;
            };
            let index = tract.index as usize;
            let row = self.table.row(name, index);
            let holders = &mut blob.tracts[index].holders;
            let held = row
                .replicas
                .iter()
                .filter(|replica| holders.contains(replica));
            let complete = held.count() == row.replicas.len().max(self.config.least);
            if complete && !row.replicas.contains(&server) {
                if holders.remove(&server) {
                    changed.insert(name.to_owned());
                }
                may_go.push(tract);
            }
        }
        self.changed(changed, changes);
        Reply::Garbage { tracts: may_go }
    }

    fn changed(&self, names: BTreeSet<String>, changes: &mut Vec<Change>) {
        for name in names {
            if let Some(blob) = self.catalog.get(&name) {
                changes.push(Change::Blob(name, blob.clone()));
            }
        }
    }
}
