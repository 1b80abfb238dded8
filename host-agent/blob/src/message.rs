//! Requests to the locator and its replies, one JSON object each; `docs/blob-store.md`.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::name::{Digest, Stamp, TractName};
use crate::table::Table;

/// A question with its number, which comes back with the answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Call {
    /// Number of the question.
    pub id: u64,
    /// The question.
    #[serde(flatten)]
    pub request: Request,
}

/// A question to the locator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Begin to write a blob: [`Reply::Begun`].
    Begin {
        /// Name of the blob.
        name: String,
    },
    /// The write goes on: [`Reply::Renewed`] or [`Reply::NotOpen`].
    Renew {
        /// The write.
        write: Stamp,
    },
    /// The tracts are stored; make them the content of the blob: [`Reply::Committed`],
    /// [`Reply::Conflict`], [`Reply::NotOpen`] or [`Reply::Moved`].
    Commit {
        /// The write.
        write: Stamp,
        /// Name of the blob.
        name: String,
        /// Its tracts, in order.
        tracts: Vec<Stored>,
    },
    /// [`Reply::Found`] or [`Reply::Missing`].
    Lookup {
        /// Name of the blob.
        name: String,
    },
    /// Names after this one, in order: [`Reply::Page`].
    List {
        /// The last name of the page before; none: the first page.
        after: Option<String>,
    },
    /// A replica's question.
    Replica {
        /// Who asks.
        me: Identity,
        /// The question.
        want: ReplicaRequest,
    },
    /// Have every server check and complete what it should hold: [`Reply::Repairing`].
    Repair {},
    /// [`Reply::Status`].
    Status {},
}

/// A replica, and how recent its question is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Address of the replica.
    pub server: Ipv4Addr,
    /// Identity of its folder: another one at the same address has nothing of what that held.
    pub store: u64,
    /// Grows with every question, so that one that comes late changes nothing.
    pub turn: Stamp,
}

/// A question of a replica.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ReplicaRequest {
    /// It is there: [`Reply::Beaten`].
    Beat {
        /// Room on its disk.
        free_bytes: u64,
        /// Its last repair.
        repair: Option<Progress>,
    },
    /// Which tracts it should hold or is believed to: [`Reply::Duties`].
    Duties {
        /// Where the page begins; none: the first.
        after: Option<Cursor>,
    },
    /// It holds some tracts, and others no more: [`Reply::Settled`].
    Settle {
        /// Tracts that it holds.
        held: Vec<TractName>,
        /// Tracts that it holds no more.
        lost: Vec<TractName>,
    },
    /// Which of these it may delete: [`Reply::Garbage`].
    Garbage {
        /// The tracts.
        tracts: Vec<TractName>,
    },
}

/// A tract that a client has stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// Length of its content.
    pub bytes: u64,
    /// Digest of its content.
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
    /// The write that made it.
    pub write: Stamp,
    /// Its tracts, in order.
    pub tracts: Vec<Tract>,
}

/// A part of a blob, and where it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tract {
    /// Length of its content.
    pub bytes: u64,
    /// Digest of its content.
    pub sha256: Digest,
    /// Servers that hold it.
    pub holders: BTreeSet<Ipv4Addr>,
}

impl Blob {
    /// Length of the blob.
    pub fn bytes(&self) -> u64 {
        self.tracts.iter().map(|tract| tract.bytes).sum()
    }

    /// Name of the tract at a place of the blob.
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
    /// Name of the blob.
    pub name: String,
    /// Version of its content.
    pub version: u64,
    /// Length of its content.
    pub bytes: u64,
}

/// A tract that a replica should hold, or is believed to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Duty {
    /// The tract.
    pub tract: TractName,
    /// Length of its content.
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
    /// Name of its blob.
    pub name: String,
    /// Its place in the blob.
    pub tract: usize,
}

/// How far the repair of a replica is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Which repair: that of [`Reply::Repairing`].
    pub repair: Stamp,
    /// Whether it has ended.
    pub done: bool,
    /// Tracts looked at.
    pub checked: u64,
    /// Tracts among them whose content was not what their name says.
    pub damaged: u64,
    /// Copied from other servers.
    pub copied: u64,
    /// Bytes of these.
    pub copied_bytes: u64,
    /// Wanted, and no other server had it.
    pub failed: u64,
    /// Files of replaced or abandoned blobs, and copies that are needed no more.
    pub deleted: u64,
}

/// A server, as the locator knows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its address.
    pub address: Ipv4Addr,
    /// Whether it was heard of late.
    pub alive: bool,
    /// Rows that it belongs to.
    pub rows: usize,
    /// `None`: it has not been heard since the locator started.
    pub free_bytes: Option<u64>,
    /// Its last repair; `None`: it has reported none.
    pub repair: Option<Progress>,
}

/// State of the store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// Blobs that have content.
    pub blobs: usize,
    /// Tracts of all blobs.
    pub tracts: usize,
    /// Tracts that not all replicas of their row hold.
    pub short: usize,
    /// Tracts that no server holds.
    pub lost: usize,
    /// All servers, alive or not.
    pub servers: Vec<Server>,
    /// The table that holds now.
    pub table: Table,
}

/// An answer of the locator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reply {
    /// A write has begun.
    Begun {
        /// Number of the write.
        write: Stamp,
        /// Version of the content that the write replaces; 0: there is none.
        base: u64,
        /// The write is forgotten if nothing is heard of it for so long.
        patience_ms: u64,
        /// Replicas that have to hold a tract before the write takes effect.
        least: usize,
        /// Which replicas tracts go to.
        table: Table,
    },
    /// The write goes on.
    Renewed {},
    /// The write has taken effect.
    Committed {
        /// Version of the content.
        version: u64,
    },
    /// Another write has taken effect since this one began; this one never will.
    Conflict {
        /// Version of that content.
        version: u64,
    },
    /// The write is unknown, too old, or another one has taken effect since.
    NotOpen {
        /// Version of the content of its name.
        version: u64,
    },
    /// Rows have changed since the tracts were stored.
    Moved {
        /// The rows as they are now.
        table: Table,
    },
    /// The name has content.
    Found {
        /// The content.
        blob: Blob,
    },
    /// The name has no content.
    Missing {},
    /// A part of the list.
    Page {
        /// Revision of the set of all blobs: pages of one revision are of one moment.
        revision: Stamp,
        /// Blobs of the page, by name.
        blobs: Vec<Listed>,
        /// Whether there are others behind it.
        more: bool,
    },
    /// The server is known to be there.
    Beaten {
        /// The repair that this server is to do.
        repair: Option<Stamp>,
    },
    /// Tracts that the server should hold.
    Duties {
        /// The tracts.
        duties: Vec<Duty>,
        /// Where the rest begins; `None`: that was all.
        next: Option<Cursor>,
    },
    /// The locator has noted what the server holds.
    Settled {},
    /// Tracts that the server may delete.
    Garbage {
        /// The tracts.
        tracts: Vec<TractName>,
    },
    /// All servers are asked to repair.
    Repairing {
        /// Number of the repair.
        repair: Stamp,
    },
    /// The state of the store.
    Status(Status),
    /// It is not done, for a reason that people understand.
    Refused {
        /// The reason, on one line.
        reason: String,
    },
}
