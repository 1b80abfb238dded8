//! A directory as the disk of a replica.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ebb_blob::{Digest, Disk};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

pub struct Folder(pub Arc<OwnedFd>);

impl Folder {
    fn open(&self, name: &str) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        rustix::fs::openat(&self.0, name, flags, Mode::empty()).map(File::from)
    }
}

impl Disk for Folder {
    fn names(&mut self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            // Names that are no text are none of ours.
            if let Ok(name) = entry?.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn sha256(&mut self, name: &str) -> io::Result<Option<Digest>> {
        match self.open(name) {
            Ok(file) => sha256(file).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.open(name)?.sync_all()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    fn sync_names(&mut self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }
}

/// The digest of what can still be read.
pub fn sha256(mut content: impl Read) -> io::Result<Digest> {
    let mut hash = Sha256::new();
    let mut part = vec![0; 1 << 18];
    loop {
        match content.read(&mut part)? {
            0 => return Ok(Digest(hash.finalize().into())),
            n => hash.update(&part[..n]),
        }
    }
}
