//! Actions that a client asks its driver for.

use std::net::Ipv4Addr;

use crate::asking::Ask;
use crate::name::{Digest, TractName};

/// Most tracts of one operation that are on their way at a time.
pub const WINDOW: usize = 4;

/// A part of what a blob is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Length of its content.
    pub bytes: u64,
    /// Digest of its content.
    pub sha256: Digest,
}

/// Something that is to be done for a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Put this to the locator.
    Ask(Ask),
    /// Send a tract.
    Store(Store),
    /// Get a tract.
    Fetch(Fetch),
}

/// Send a tract to replicas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Store {
    /// Comes back with the result.
    pub transfer: u64,
    /// The tract.
    pub tract: TractName,
    /// One, or all of a multicast group.
    pub to: Vec<Ipv4Addr>,
}

/// Get a tract from one or several servers that are said to hold it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// Comes back with the result.
    pub transfer: u64,
    /// The tract.
    pub tract: TractName,
    /// Size of its content in bytes, as the locator knows it.
    pub bytes: u64,
    /// Whom to get it from.
    pub from: Vec<Ipv4Addr>,
}
