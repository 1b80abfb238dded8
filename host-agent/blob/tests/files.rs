//! A disk of a host that can crash: what was not synced may be gone afterwards, or torn.

use std::collections::BTreeMap;
use std::io;

use ebb_blob::{Digest, Disk};
use rand::Rng;
use rand::rngs::SmallRng;

struct Content {
    bytes: Vec<u8>,
    synced: bool,
}

/// A change of names since they were synced last.
enum Renaming {
    Set(String, usize),
    Remove(String),
    Rename(String, String),
}

#[derive(Default)]
pub struct Files {
    contents: Vec<Content>,
    /// By name, the number of the content.
    names: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    since: Vec<Renaming>,
    /// The host crashes in the operation of this number, counted from 1 for the next one; 0: it has. `None`: it does
    /// not crash by itself.
    pub fuse: Option<u32>,
    pub full: bool,
    /// Syncing does nothing.
    pub lies: bool,
}

fn apply(names: &mut BTreeMap<String, usize>, change: &Renaming) {
    match change {
        Renaming::Set(name, content) => drop(names.insert(name.clone(), *content)),
        Renaming::Remove(name) => drop(names.remove(name)),
        Renaming::Rename(from, to) => {
            if let Some(content) = names.remove(from) {
                names.insert(to.clone(), content);
            }
        }
    }
}

impl Files {
    pub fn new(lies: bool) -> Self {
        Files {
            lies,
            ..Files::default()
        }
    }

    pub fn has_crashed(&self) -> bool {
        self.fuse == Some(0)
    }

    fn operation(&mut self) -> io::Result<()> {
        if let Some(left) = &mut self.fuse {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return Err(io::Error::other("the host has crashed"));
            }
        }
        Ok(())
    }

    fn change(&mut self, change: Renaming) {
        apply(&mut self.names, &change);
        self.since.push(change);
    }

    pub fn write(&mut self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.operation()?;
        if self.full {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.contents.push(Content {
            bytes,
            synced: false,
        });
        let content = self.contents.len() - 1;
        self.change(Renaming::Set(name.to_owned(), content));
        Ok(())
    }

    pub fn read(&self, name: &str) -> Option<&[u8]> {
        let content = self.names.get(name)?;
        Some(&self.contents[*content].bytes)
    }

    /// A bit of one of the files that were written last changes by itself.
    pub fn rot(&mut self, rng: &mut SmallRng) {
        let last = self.contents.len().saturating_sub(20)..self.contents.len();
        if !last.is_empty() {
            let bytes = &mut self.contents[rng.random_range(last)].bytes;
            if !bytes.is_empty() {
                let place = rng.random_range(0..bytes.len());
                bytes[place] ^= 1 << rng.random_range(0..8);
            }
        }
    }

    /// Some of the changes of names since the last sync are on the disk, the first ones first; of
    /// content that was not synced, anything.
    pub fn crash(&mut self, rng: &mut SmallRng) {
        let kept = rng.random_range(0..=self.since.len());
        for change in &self.since[..kept] {
            apply(&mut self.durable, change);
        }
        self.names = self.durable.clone();
        self.since.clear();
        self.fuse = None;
        for content in self.contents.iter_mut().filter(|content| !content.synced) {
            let bytes = content.bytes.len();
            match rng.random_range(0..3) {
                0 => content.bytes.truncate(rng.random_range(0..=bytes)),
                1 => content.bytes = vec![0; bytes],
                _ => {}
            }
            content.synced = true;
        }
        // A replica that starts removes what receivers have left.
        let left: Vec<_> = self
            .names
            .keys()
            .filter(|name| name.starts_with('.'))
            .cloned()
            .collect();
        left.into_iter()
            .for_each(|name| self.change(Renaming::Remove(name)));
    }
}

impl Disk for Files {
    fn names(&mut self) -> io::Result<Vec<String>> {
        self.operation()?;
        Ok(self.names.keys().cloned().collect())
    }

    fn sha256(&mut self, name: &str) -> io::Result<Option<Digest>> {
        self.operation()?;
        Ok(self.read(name).map(Digest::of))
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.operation()?;
        let content = self.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        self.contents[*content].synced |= !self.lies;
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.operation()?;
        if !self.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.change(Renaming::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn sync_names(&mut self) -> io::Result<()> {
        self.operation()?;
        if !self.lies {
            self.durable = self.names.clone();
            self.since.clear();
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.operation()?;
        if !self.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.change(Renaming::Remove(name.to_owned()));
        Ok(())
    }
}
