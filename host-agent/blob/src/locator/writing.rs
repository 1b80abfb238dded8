//! Writes: one that began when a name had some content takes effect only while it still has that.

use ebb_units::Instant;

use super::core::Locator;
use super::state::Change;
use super::writes::{MAX_OPEN, Write};
use crate::limits::{MAX_TRACT_BYTES, MAX_TRACTS};
use crate::message::{Blob, Reply, Stored, Tract};
use crate::name::{Stamp, check_blob_name};

impl Locator {
    pub(crate) fn begin(&mut self, now: Instant, name: String) -> Reply {
        if let Err(reason) = check_blob_name(&name) {
            return Reply::Refused { reason };
        }
        if self.writes.open.len() >= MAX_OPEN {
            let reason = format!("{MAX_OPEN} writes are open, and no more may be; try again later");
            return Reply::Refused { reason };
        }
        let base = self.catalog.version(&name);
        self.writes.last += 1;
        let write = self.stamp(self.writes.last);
        let until = now + self.writes.patience;
        self.writes.open.insert(write, Write { name, base, until });
        Reply::Begun {
            write,
            base,
            patience_ms: self.writes.patience.as_micros() / 1000,
            least: self.config.least,
            table: self.table.clone(),
        }
    }

    pub(crate) fn renew(&mut self, now: Instant, write: Stamp) -> Reply {
        match self.writes.open.get_mut(&write) {
            Some(open) => {
                open.until = now + self.writes.patience;
                Reply::Renewed {}
            }
            None => Reply::NotOpen { version: 0 },
        }
    }

    /// Whether tracts may become the content of a blob: neither too many nor too long, each where its row in the
    /// present table says, on enough replicas. Otherwise the answer to the client.
    fn check_tracts(&self, name: &str, tracts: &[Stored]) -> Result<(), Reply> {
        if tracts.len() > MAX_TRACTS {
            let reason = format!(
                "a blob of {} tracts; at most {MAX_TRACTS} are kept",
                tracts.len()
            );
            return Err(Reply::Refused { reason });
        }
        if let Some(tract) = tracts.iter().find(|tract| tract.bytes > MAX_TRACT_BYTES) {
            let bytes = tract.bytes;
            let reason = format!("a tract of {bytes} bytes; at most {MAX_TRACT_BYTES} are kept");
            return Err(Reply::Refused { reason });
        }
        let rows = || (0..tracts.len()).map(|index| self.table.row(name, index));
        if tracts
            .iter()
            .zip(rows())
            .any(|(tract, row)| tract.row_version != row.version)
        {
            return Err(Reply::Moved {
                table: self.table.clone(),
            });
        }
        for (index, (tract, row)) in tracts.iter().zip(rows()).enumerate() {
            let held = tract
                .replicas
                .iter()
                .filter(|server| row.replicas.contains(server));
            let (held, least) = (held.count(), self.config.least);
            if held < least || held < tract.replicas.len() {
                let reason = format!(
                    "tract {index} is on {held} replicas of its row, and {least} are needed"
                );
                return Err(Reply::Refused { reason });
            }
        }
        Ok(())
    }

    pub(crate) fn commit(
        &mut self,
        write: Stamp,
        name: String,
        tracts: &[Stored],
        changes: &mut Vec<Change>,
    ) -> Reply {
        let current = self.catalog.get(&name);
        let version = current.map_or(0, |blob| blob.version);
        // Asked again, because the answer was lost.
        if current.is_some_and(|blob| blob.write == write) {
            return Reply::Committed { version };
        }
        let base = match self.writes.open.get(&write) {
            Some(open) if open.name == name => open.base,
            _ => return Reply::NotOpen { version },
        };
        if version != base {
            self.writes.open.remove(&write);
            return Reply::Conflict { version };
        }
        if let Err(reply) = self.check_tracts(&name, tracts) {
            return reply;
        }
        if let Err(reason) = self.catalog.check_room(&name, tracts.len()) {
            return Reply::Refused { reason };
        }
        self.writes.open.remove(&write);
        let version = base + 1;
        let tracts = tracts.iter().map(|tract| Tract {
            bytes: tract.bytes,
            sha256: tract.sha256,
            holders: tract.replicas.clone(),
        });
        let blob = Blob {
            version,
            write,
            tracts: tracts.collect(),
        };
        changes.push(Change::Blob(name.clone(), blob.clone()));
        self.catalog.insert(name, blob);
        Reply::Committed { version }
    }
}
