//! Writes that have begun.

use std::collections::BTreeMap;

use ebb_units::{Duration, Instant};

use crate::name::Stamp;

/// Most writes that are open at a time.
pub const MAX_OPEN: usize = 4096;

/// A write that has begun.
pub struct Write {
    pub name: String,
    /// Version of the content when it began.
    pub base: u64,
    /// When it is forgotten.
    pub until: Instant,
}

/// Writes that have begun. They are not in the database: a restart ends them all.
pub struct Writes {
    pub open: BTreeMap<Stamp, Write>,
    pub patience: Duration,
    /// The number of the last one.
    pub last: u64,
}

impl Writes {
    pub fn new(patience: Duration) -> Self {
        Writes {
            open: BTreeMap::new(),
            patience,
            last: 0,
        }
    }

    pub fn forget_old(&mut self, now: Instant) {
        self.open.retain(|_, write| write.until > now);
    }

    pub fn is_open(&self, write: Stamp) -> bool {
        self.open.contains_key(&write)
    }
}
