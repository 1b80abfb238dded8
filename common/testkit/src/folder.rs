//! Temporary folders for tests.

use std::ops::Deref;
use std::path::{Path, PathBuf};

/// A new folder in the machine's temporary folder; removed with its content when dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// An empty folder; its name contains `what`.
    pub fn new(what: &str) -> Self {
        let path = std::env::temp_dir().join(crate::unique(what));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("a file");
        path
    }

    /// Makes a folder in it, if it is not there, and returns its path.
    pub fn make_dir(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        path
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Names of the files and folders in a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_its_own_and_goes_with_its_content() {
        let (one, other) = (Folder::new("same"), Folder::new("same"));
        assert_ne!(*one, *other);
        let file = one.write("b", "text");
        one.make_dir("a");
        assert_eq!(names(&one), ["a", "b"]);
        assert_eq!(names(&other), [""; 0]);
        drop(one);
        assert!(!file.exists() && other.exists());
    }
}
