//! The folder of a replica, and the order in which a tract gets into it.

use std::io;

use crate::name::Digest;

/// A folder of files. A crash loses what was not synced: content of a file without
/// [`sync`](Disk::sync), and new names without [`sync_names`](Disk::sync_names).
pub trait Disk {
    /// Names of all files.
    fn names(&mut self) -> io::Result<Vec<String>>;
    /// The digest of the content. `None`: there is no such file.
    fn sha256(&mut self, name: &str) -> io::Result<Option<Digest>>;
    /// Makes the content of a file durable.
    fn sync(&mut self, name: &str) -> io::Result<()>;
    /// Renames a file atomically, replacing one with the new name: at no time is the new name that of an
    /// incomplete file.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
    /// Makes the names of files durable.
    fn sync_names(&mut self) -> io::Result<()>;
    /// Deletes a file.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}

/// Moves a complete temporary file to its final name, durably: when this returns, no crash loses the file,
/// and at no time has the name been that of an incomplete file.
pub fn keep(disk: &mut impl Disk, temporary: &str, name: &str) -> io::Result<()> {
    disk.sync(temporary)?;
    disk.rename(temporary, name)?;
    disk.sync_names()
}
