//! A store of named blobs on the hosts of a fabric, without I/O or clock: `docs/blob-store.md`.
//!
//! A blob is cut into tracts, which are immutable: each is named after the write that made it, its place
//! in the blob and its SHA-256. The [`Locator`] says which replicas a tract goes to and, for every name,
//! which tracts are its content; a write takes effect in one transaction there. [`Put`], [`Get`] and
//! [`List`] are what a client does, [`Replica`] is what a host does that stores tracts.
//!
//! Whoever runs these moves the bytes: an action says which tract goes where, an event what became of it.

mod asking;
mod client;
mod disk;
mod limits;
mod locator;
mod message;
mod name;
mod replica;
mod table;

pub use asking::Ask;
pub use client::{
    Action, Fetch, Get, GetOutcome, Got, List, ListOutcome, Piece, Put, PutOutcome, Store,
};
pub use disk::{Disk, keep};
pub use limits::{MAX_COPIES, MAX_NAME_BYTES, MAX_ROWS, MAX_TRACTS};
pub use locator::{Change, Config, Locator, ServerRecord, Snapshot};
pub use message::{
    Blob, Call, Cursor, Duty, Identity, Listed, Progress, ReplicaRequest, Reply, Request, Server,
    Status, Stored, Tract,
};
pub use name::{Digest, Stamp, TractName, check_blob_name};
pub use replica::{Replica, ReplicaAction};
pub use table::{Row, Table};
