//! Objects as files: where they are read from and written to.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use ebb_transport::object::ObjectSource;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};

use crate::file_lock::try_lock;

/// A file to be sent, read piece by piece.
pub struct FileSource {
    file: File,
    bytes: u64,
}

impl FileSource {
    /// A regular file or a memfd.
    pub fn new(descriptor: OwnedFd) -> anyhow::Result<Self> {
        let file = File::from(descriptor);
        let metadata = file.metadata().context("cannot read the file")?;
        anyhow::ensure!(metadata.is_file(), "it is not a regular file");
        Ok(FileSource {
            file,
            bytes: metadata.len(),
        })
    }

    pub fn metadata(&self) -> io::Result<std::fs::Metadata> {
        self.file.metadata()
    }

    /// A regular file in `dir`: no path leads out of it, be it by name or by symbolic link.
    pub fn open_in(dir: BorrowedFd<'_>, name: &str) -> Result<Self, OpenError> {
        // Opening a FIFO would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        use rustix::io::Errno;
        if is_temporary(name) {
            return Err(OpenError::NotThere);
        }
        match rustix::fs::openat2(dir, name, flags, Mode::empty(), beneath) {
            Ok(descriptor) => FileSource::new(descriptor).map_err(|_| OpenError::NotThere),
            // Also what is in no state to be told from what is not there.
            Err(Errno::NOENT | Errno::XDEV | Errno::LOOP | Errno::NXIO | Errno::NOTDIR) => {
                Err(OpenError::NotThere)
            }
            Err(error) => Err(OpenError::Io(error.into())),
        }
    }
}

/// Why a file of a directory is not served.
#[derive(Debug)]
pub enum OpenError {
    /// Not there, or nothing to be served.
    NotThere,
    Io(io::Error),
}

impl ObjectSource for FileSource {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file
            .read_exact_at(buf, offset)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => io::Error::new(
                    error.kind(),
                    "the file has become shorter since it was opened",
                ),
                _ => error,
            })
    }
}

const TEMPORARY_PREFIX: &str = ".ebb-";
const TEMPORARY_SUFFIX: &str = ".part";

fn is_temporary(name: &str) -> bool {
    name.starts_with(TEMPORARY_PREFIX)
}

/// A file that disappears unless it is kept. It is locked while its receiver lives.
pub struct Temporary {
    file: File,
    dir: Arc<OwnedFd>,
    path: String,
}

impl Temporary {
    /// For the object `name`, under a name made of `unique` until it is kept.
    pub fn create(dir: Arc<OwnedFd>, name: &str, unique: &str) -> anyhow::Result<Self> {
        anyhow::ensure!(
            !is_temporary(name),
            "`{}` is refused: names with {TEMPORARY_PREFIX} are for temporary files",
            name.escape_debug()
        );
        let path = format!("{TEMPORARY_PREFIX}{unique}{TEMPORARY_SUFFIX}");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let file = rustix::fs::openat(&dir, &path, flags, mode)
            .with_context(|| format!("cannot create `{path}`"))?;
        let temporary = Temporary {
            file: File::from(file),
            dir,
            path,
        };
        // A file system without locks only keeps more of what a killed receiver leaves.
        let _ = try_lock(&temporary.file);
        Ok(temporary)
    }

    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives the file its name; an older one of that name is replaced.
    pub fn keep(self, name: &str) -> anyhow::Result<()> {
        rustix::fs::renameat(&self.dir, &self.path, &self.dir, name)
            .with_context(|| format!("cannot rename to `{name}`"))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename there is nothing left to remove.
        let _ = rustix::fs::unlinkat(&self.dir, &self.path, AtFlags::empty());
    }
}

/// Opens a directory to receive into or to serve from.
pub fn open_directory(path: &Path) -> anyhow::Result<OwnedFd> {
    let shown = path.display();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOTDIR) => anyhow::bail!("{shown} is not a directory"),
        result => {
            result.with_context(|| format!("cannot use the directory {shown}; does it exist?"))
        }
    }
}

pub fn is_directory(descriptor: &OwnedFd) -> bool {
    rustix::fs::fstat(descriptor)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Removes the temporary files of receivers that were killed: nobody holds their locks.
pub fn remove_leftovers(dir: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !is_temporary(&name)
            || !name.ends_with(TEMPORARY_SUFFIX)
            || !entry.file_type()?.is_file()
        {
            continue;
        }
        // One that vanishes meanwhile, or is somebody's, is none of ours.
        if let Ok(file) = File::open(entry.path())
            && try_lock(&file).unwrap_or(false)
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Whether writing to it can wait for a reader.
pub fn is_stream(descriptor: impl AsFd) -> bool {
    rustix::fs::fstat(descriptor).is_ok_and(|stat| {
        let kind = FileType::from_raw_mode(stat.st_mode);
        matches!(kind, FileType::Fifo | FileType::Socket)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::path::PathBuf;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("ebb-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Dir(path)
        }

        fn open(&self) -> Arc<OwnedFd> {
            Arc::new(open_directory(&self.0).unwrap())
        }

        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).unwrap();
            let mut names: Vec<String> = entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_file_has_its_name_only_when_it_is_kept() {
        let dir = Dir::new("keep");
        let mut kept = Temporary::create(dir.open(), "a", "1").unwrap();
        let dropped = Temporary::create(dir.open(), "b", "2").unwrap();
        kept.file().write_all(b"content").unwrap();
        assert_eq!(dir.names(), [".ebb-1.part", ".ebb-2.part"]);
        kept.keep("a").unwrap();
        drop(dropped);
        assert_eq!(dir.names(), ["a"]);
        assert!(Temporary::create(dir.open(), ".ebb-x", "3").is_err());
    }

    #[test]
    fn only_what_nobody_writes_is_a_leftover() {
        let dir = Dir::new("leftovers");
        for name in [".ebb-old.part", ".ebb-kept", "x.part", "precious"] {
            std::fs::write(dir.0.join(name), "x").unwrap();
        }
        let open = Temporary::create(dir.open(), "a", "1").unwrap();
        remove_leftovers(&dir.0).unwrap();
        assert_eq!(
            dir.names(),
            [".ebb-1.part", ".ebb-kept", "precious", "x.part"]
        );
        drop(open);
    }

    #[test]
    fn no_name_and_no_link_leads_out_of_a_served_directory() {
        let outside = Dir::new("outside");
        let secret = outside.0.join("secret");
        std::fs::write(&secret, "secret").unwrap();
        let dir = Dir::new("served");
        std::fs::write(dir.0.join("good"), "good").unwrap();
        std::fs::create_dir(dir.0.join("sub")).unwrap();
        std::os::unix::fs::symlink(&secret, dir.0.join("absolute")).unwrap();
        let relative = Path::new("..").join(outside.0.file_name().unwrap());
        std::os::unix::fs::symlink(relative.join("secret"), dir.0.join("relative")).unwrap();
        std::os::unix::fs::symlink("good", dir.0.join("inside")).unwrap();
        let fd = dir.open();
        for name in ["good", "inside"] {
            assert_eq!(FileSource::open_in(fd.as_fd(), name).unwrap().len(), 4);
        }
        let secret = secret.to_str().unwrap();
        for name in [
            "absolute",
            "relative",
            "sub",
            "..",
            "none",
            secret,
            ".ebb-1.part",
        ] {
            let result = FileSource::open_in(fd.as_fd(), name);
            assert!(matches!(result, Err(OpenError::NotThere)), "{name}");
        }
    }

    #[test]
    fn only_regular_files_are_sources() {
        let dir = Dir::new("sources");
        assert!(FileSource::new(open_directory(&dir.0).unwrap()).is_err());
        let (_, writer) = std::io::pipe().unwrap();
        assert!(FileSource::new(writer.into()).is_err());
    }
}
