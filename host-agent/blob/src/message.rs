//! What the locator is asked, and what it answers. As JSON one object each; `docs/blob-store.md`.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::name::{Digest, Stamp, TractName};
use crate::table::Table;

/// A question with its number, which comes back with the answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Call {
    pub id: u64,
    #[serde(flatten)]
    pub request: Request,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Begin to write a blob: [`Reply::Begun`].
    Begin { name: String },
    /// The write goes on: [`Reply::Renewed`] or [`Reply::NotOpen`].
    Renew { write: Stamp },
    /// The tracts are stored; make them the content of the blob: [`Reply::Committed`],
    /// [`Reply::Conflict`], [`Reply::NotOpen`] or [`Reply::Moved`].
    Commit {
        write: Stamp,
        name: String,
        tracts: Vec<Stored>,
    },
    /// [`Reply::Found`] or [`Reply::Missing`].
    Lookup { name: String },
    /// Names after this one, in order: [`Reply::Page`].
    List { after: Option<String> },
    /// A replica's question.
    Replica { me: Identity, want: ReplicaRequest },
    /// Have every server check and complete what it should hold: [`Reply::Repairing`].
    Repair {},
    /// [`Reply::Status`].
    Status {},
}

/// A replica, and how recent its question is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    pub server: Ipv4Addr,
    /// Identity of its folder: another one at the same address has nothing of what that held.
    pub store: u64,
    /// Grows with every question, so that one that comes late changes nothing.
    pub turn: Stamp,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ReplicaRequest {
    /// It is there: [`Reply::Beaten`].
    Beat {
        free_bytes: u64,
        repair: Option<Progress>,
    },
    /// Which tracts it should hold or is believed to: [`Reply::Duties`].
    Duties { after: Option<Cursor> },
    /// It holds some tracts, and others no more: [`Reply::Settled`].
    Settle {
        held: Vec<TractName>,
        lost: Vec<TractName>,
    },
    /// Which of these it may delete: [`Reply::Garbage`].
    Garbage { tracts: Vec<TractName> },
}

/// A tract that a client has stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    pub bytes: u64,
    pub sha256: Digest,
    /// Version of its row when it was stored.
    pub row_version: u64,
    /// Replicas of the row that have said that it is on their disk.
    pub replicas: BTreeSet<Ipv4Addr>,
}

/// The content of a name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blob {
    /// 1 for the first content of the name, and one more for each that replaces it.
    pub version: u64,
    pub write: Stamp,
    pub tracts: Vec<Tract>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tract {
    pub bytes: u64,
    pub sha256: Digest,
    /// Servers that hold it.
    pub holders: BTreeSet<Ipv4Addr>,
}

impl Blob {
    pub fn bytes(&self) -> u64 {
        self.tracts.iter().map(|tract| tract.bytes).sum()
    }

    pub fn tract_name(&self, index: usize) -> TractName {
        TractName {
            write: self.write,
            index: index as u32,
            sha256: self.tracts[index].sha256,
        }
    }
}

/// A blob in a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    pub name: String,
    pub version: u64,
    pub bytes: u64,
}

/// A tract that a replica should hold, or is believed to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Duty {
    pub tract: TractName,
    pub bytes: u64,
    /// It belongs to a row of the replica.
    pub wanted: bool,
    /// The replica is recorded as one that holds it.
    pub listed: bool,
    /// Other servers that hold it.
    pub sources: BTreeSet<Ipv4Addr>,
}

/// A place among all tracts: that of a tract.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cursor {
    pub name: String,
    pub tract: usize,
}

/// How far the repair of a replica is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Which repair: that of [`Reply::Repairing`].
    pub repair: Stamp,
    pub done: bool,
    /// Tracts looked at.
    pub checked: u64,
    /// Tracts among them whose content was not what their name says.
    pub damaged: u64,
    /// Copied from other servers.
    pub copied: u64,
    pub copied_bytes: u64,
    /// Wanted, and no other server had it.
    pub failed: u64,
    /// Files of replaced or abandoned blobs, and copies that are needed no more.
    pub deleted: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    pub address: Ipv4Addr,
    pub alive: bool,
    /// Rows that it belongs to.
    pub rows: usize,
    /// `None`: it has not been heard since the locator started.
    pub free_bytes: Option<u64>,
    pub repair: Option<Progress>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    pub blobs: usize,
    pub tracts: usize,
    /// Tracts that not all replicas of their row hold.
    pub short: usize,
    /// Tracts that no server holds.
    pub lost: usize,
    pub servers: Vec<Server>,
    pub table: Table,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reply {
    Begun {
        write: Stamp,
        /// Version of the content that the write replaces; 0: there is none.
        base: u64,
        /// The write is forgotten if nothing is heard of it for so long.
        patience_ms: u64,
        /// Replicas that have to hold a tract before the write takes effect.
        least: usize,
        table: Table,
    },
    Renewed {},
    Committed {
        version: u64,
    },
    /// Another write has taken effect since this one began; this one never will.
    Conflict {
        version: u64,
    },
    /// The write is unknown, too old, or another one has taken effect since.
    NotOpen {
        /// Version of the content of its name.
        version: u64,
    },
    /// Rows have changed since the tracts were stored.
    Moved {
        table: Table,
    },
    Found {
        blob: Blob,
    },
    Missing {},
    Page {
        /// Revision of the set of all blobs: pages of one revision are of one moment.
        revision: Stamp,
        blobs: Vec<Listed>,
        more: bool,
    },
    Beaten {
        /// The repair that this server is to do.
        repair: Option<Stamp>,
    },
    Duties {
        duties: Vec<Duty>,
        /// Where the rest begins; `None`: that was all.
        next: Option<Cursor>,
    },
    Settled {},
    Garbage {
        tracts: Vec<TractName>,
    },
    Repairing {
        repair: Stamp,
    },
    Status(Status),
    /// It is not done, for a reason that people understand.
    Refused {
        reason: String,
    },
}
