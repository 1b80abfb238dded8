//! The blobs by name, and by the write that made them.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::message::{Blob, Listed, Reply};
use crate::name::{Stamp, TractName};

/// Blobs in one page of a list.
const PAGE: usize = 500;
/// Most blobs; bounds the memory of the locator, with the next one.
const MAX_BLOBS: usize = 100_000;
/// Most tracts of all blobs together.
const MAX_ALL_TRACTS: usize = 1 << 20;

pub struct Catalog {
    blobs: BTreeMap<String, Blob>,
    /// The names by the writes that made their content.
    writes: BTreeMap<Stamp, String>,
    tracts: usize,
    /// Counts changes of contents.
    revision: Stamp,
}

impl Catalog {
    pub fn new(start: u64, blobs: BTreeMap<String, Blob>) -> Self {
        let writes = blobs.iter().map(|(name, blob)| (blob.write, name.clone()));
        Catalog {
            writes: writes.collect(),
            tracts: blobs.values().map(|blob| blob.tracts.len()).sum(),
            revision: Stamp { start, number: 0 },
            blobs,
        }
    }

    pub fn blobs(&self) -> &BTreeMap<String, Blob> {
        &self.blobs
    }

    pub fn get(&self, name: &str) -> Option<&Blob> {
        self.blobs.get(name)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Blob> {
        self.blobs.get_mut(name)
    }

    /// Blobs from a name on.
    pub fn from(&self, name: &str) -> impl Iterator<Item = (&String, &Blob)> {
        self.blobs
            .range::<str, _>((Bound::Included(name), Bound::Unbounded))
    }

    /// The version of the content of a name; 0: it has none.
    pub fn version(&self, name: &str) -> u64 {
        self.get(name).map_or(0, |blob| blob.version)
    }

    /// Checks that there is room for a blob of this many tracts.
    pub fn check_room(&self, name: &str, tracts: usize) -> Result<(), String> {
        let replaced = self.get(name).map(|blob| blob.tracts.len());
        let blobs = self.blobs.len() + usize::from(replaced.is_none());
        if blobs > MAX_BLOBS {
            return Err(format!("there are {MAX_BLOBS} blobs, and no more are kept"));
        }
        if self.tracts - replaced.unwrap_or(0) + tracts > MAX_ALL_TRACTS {
            return Err(format!(
                "no room for {tracts} tracts beside {}; no more than {MAX_ALL_TRACTS} are kept",
                self.tracts
            ));
        }
        Ok(())
    }

    pub fn insert(&mut self, name: String, blob: Blob) {
        self.revision.number += 1;
        self.tracts += blob.tracts.len();
        self.writes.insert(blob.write, name.clone());
        if let Some(replaced) = self.blobs.insert(name, blob) {
            self.tracts -= replaced.tracts.len();
            self.writes.remove(&replaced.write);
        }
    }

    /// The blob whose content a tract is part of, with its name.
    pub fn owner(&mut self, tract: &TractName) -> Option<(&str, &mut Blob)> {
        let name = self.writes.get(&tract.write)?;
        let blob = self.blobs.get_mut(name)?;
        let part = blob.tracts.get(tract.index as usize)?;
        (part.sha256 == tract.sha256).then_some((name.as_str(), blob))
    }

    pub fn page(&self, after: Option<&str>) -> Reply {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.blobs.range::<str, _>((start, Bound::Unbounded));
        let blobs = rest.by_ref().take(PAGE).map(|(name, blob)| Listed {
            name: name.clone(),
            version: blob.version,
            bytes: blob.bytes(),
        });
        Reply::Page {
            revision: self.revision,
            blobs: blobs.collect(),
            more: rest.next().is_some(),
        }
    }
}
