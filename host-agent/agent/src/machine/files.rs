//! Objects as files: where they are read from and written to.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use ebb_host::Unusable;
use ebb_printable::printable;
use ebb_transport::Objection;
use ebb_transport::object::ObjectSource;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::machine::folder::Folder;

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

    /// A regular file in `dir`: no path leads out of it, be it by name or by symbolic link, and none
    /// is hidden by a leading dot.
    pub fn open_in(dir: BorrowedFd<'_>, name: &str) -> Result<Self, OpenError> {
        // Opening a FIFO would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        // As those that no object is received under.
        if name.starts_with('.') {
            return Err(OpenError::NotThere);
        }
        match rustix::fs::openat2(dir, name, flags, Mode::empty(), beneath) {
            Ok(descriptor) => FileSource::new(descriptor).map_err(|_| OpenError::NotThere),
            // A peer does not learn whether there is something that it may not have.
            Err(Errno::NOENT | Errno::XDEV | Errno::LOOP | Errno::NXIO | Errno::NOTDIR) => {
                Err(OpenError::NotThere)
            }
            Err(error) => Err(OpenError::Io(error.into())),
        }
    }
}

/// Why a file of a directory cannot be served.
#[derive(Debug)]
pub enum OpenError {
    /// There is no regular file of the name.
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

/// The lock of a receiver on its file: it fails at once if another one has it, and the kernel lets go
/// of it however its holder ends.
const EXCLUSIVE: FlockOperation = FlockOperation::NonBlockingLockExclusive;

fn is_temporary(name: &str) -> bool {
    name.starts_with(TEMPORARY_PREFIX)
}

/// Treatment of an existing file with the name of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// It stays, and the object is refused.
    Keep,
    Replace,
    /// It is replaced, and no crash of the machine takes the new one away.
    ReplaceForGood,
}

impl Existing {
    pub fn of(overwrite: bool) -> Self {
        match overwrite {
            true => Existing::Replace,
            false => Existing::Keep,
        }
    }
}

/// Whether a file may have the name that a peer chose. No leading dot: `ls` and shell patterns do
/// not look behind it, while shells and other programs read what is there as settings. And nothing
/// that does not print: whoever lists the directory would send it to a terminal.
pub fn check_file_name(name: &str) -> Result<(), Unusable> {
    let shown = printable(name);
    let why = if name.starts_with('.') {
        "has a leading dot"
    } else if shown != name {
        "has characters that do not print"
    } else {
        return Ok(());
    };
    Err(Unusable {
        reason: format!(
            "`{shown}` is refused: no file whose name {why} is received into a directory"
        ),
        objection: Some(Objection::BadName),
    })
}

/// A file that disappears unless it is kept. It is locked while its receiver lives.
pub struct Temporary {
    file: File,
    dir: Arc<OwnedFd>,
    path: String,
}

impl Temporary {
    /// Under a name made of `unique` until it is kept.
    pub fn create(dir: Arc<OwnedFd>, unique: &str) -> anyhow::Result<Self> {
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
        let _ = rustix::fs::flock(&temporary.file, EXCLUSIVE);
        Ok(temporary)
    }

    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives the file its name. A symbolic link of that name is a file that is there, whatever it
    /// points to.
    pub fn keep(self, name: &str, existing: Existing) -> anyhow::Result<()> {
        let (dir, path) = (&self.dir, &self.path);
        match existing {
            Existing::Replace => {
                rustix::fs::renameat(dir, path, dir, name).map_err(io::Error::from)
            }
            Existing::ReplaceForGood => ebb_blob::keep(&mut Folder(dir.clone()), path, name),
            Existing::Keep => rename_to_new(dir, path, name).map_err(io::Error::from),
        }
        .map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => is_there(name).into(),
            _ => anyhow::Error::from(error)
                .context(format!("cannot rename to `{}`", printable(name))),
        })
    }
}

fn is_there(name: &str) -> Unusable {
    let shown = printable(name);
    Unusable {
        reason: format!(
            "`{shown}` is there already, and nothing is overwritten unless `--overwrite` says so"
        ),
        objection: Some(Objection::NameTaken),
    }
}

/// Renames, in one step, unless the new name is taken.
fn rename_to_new(dir: &OwnedFd, path: &str, name: &str) -> Result<(), Errno> {
    match rustix::fs::renameat_with(dir, path, dir, name, RenameFlags::NOREPLACE) {
        // A file system that cannot do that (NFS, some of FUSE) can make a second name.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(dir, path, dir, name, AtFlags::empty())
        }
        result => result,
    }
}

/// Fails if a file of that name is there, so that nothing is received in vain. The last word is
/// that of [`Temporary::keep`].
pub fn check_free(dir: &OwnedFd, name: &str) -> anyhow::Result<()> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Err(is_there(name).into()),
        // Whatever else is wrong with the name shows when the file gets it.
        Err(_) => Ok(()),
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
        // One that vanishes meanwhile, or is somebody's, is none of ours; nor is what a symbolic
        // link that took its place points to.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        if let Ok(file) = rustix::fs::open(entry.path(), flags, Mode::empty())
            && rustix::fs::flock(&file, EXCLUSIVE).is_ok()
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Allows this process more open files: many systems let a process have 1024 unless it asks for more. What the system
/// refuses is left as it is.
pub fn allow_many() {
    const MANY: u64 = 65_536;
    let present = getrlimit(Resource::Nofile);
    let most = present.maximum.map_or(MANY, |maximum| maximum.min(MANY));
    if present.current.is_some_and(|current| current < most) {
        let wanted = Rlimit {
            current: Some(most),
            ..present
        };
        let _ = setrlimit(Resource::Nofile, wanted);
    }
}

/// Whether writing to it can wait for a reader: a pipe, a socket, a terminal or another character device.
pub fn is_stream(descriptor: impl AsFd) -> bool {
    matches!(
        kind(descriptor),
        Ok(FileType::Fifo | FileType::Socket | FileType::CharacterDevice)
    )
}

fn kind(descriptor: impl AsFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(
        rustix::fs::fstat(descriptor)?.st_mode,
    ))
}

/// A descriptor for the same file to which writing need not wait. For a terminal that is another one: whoever shares
/// the first, such as a shell, goes on waiting. Neither files of the kernel such as eventfds nor directories are
/// written to.
pub fn without_waiting(descriptor: OwnedFd) -> io::Result<OwnedFd> {
    match kind(&descriptor)? {
        FileType::RegularFile | FileType::BlockDevice | FileType::Fifo | FileType::Socket => {
            Ok(descriptor)
        }
        FileType::CharacterDevice => {
            // Nobody gets more rights than the descriptor has.
            let rights = rustix::fs::fcntl_getfl(&descriptor)? & OFlags::ACCMODE;
            if rights == OFlags::RDONLY {
                return Err(Errno::BADF.into());
            }
            let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            Ok(rustix::fs::open(path, flags, Mode::empty())?)
        }
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no file, pipe, socket or terminal",
        )),
    }
}

#[cfg(test)]
mod tests {
    use ebb_testkit::{Folder, names};

    use super::*;
    use std::io::Write;

    fn open(folder: &Folder) -> Arc<OwnedFd> {
        Arc::new(open_directory(folder).unwrap())
    }

    #[test]
    fn a_file_has_its_name_only_when_it_is_kept() {
        let dir = Folder::new("files");
        let mut kept = Temporary::create(open(&dir), "1").unwrap();
        let dropped = Temporary::create(open(&dir), "2").unwrap();
        kept.file().write_all(b"content").unwrap();
        assert_eq!(names(&dir), [".ebb-1.part", ".ebb-2.part"]);
        kept.keep("a", Existing::Keep).unwrap();
        drop(dropped);
        assert_eq!(names(&dir), ["a"]);
    }

    #[test]
    fn a_file_that_is_there_stays_unless_it_may_be_replaced() {
        let dir = Folder::new("files");
        let outside = Folder::new("files");
        let target = outside.join("target");
        for path in [dir.join("a"), target.clone()] {
            std::fs::write(path, "precious").unwrap();
        }
        std::os::unix::fs::symlink(&target, dir.join("link")).unwrap();
        std::os::unix::fs::symlink(outside.join("none"), dir.join("dangling")).unwrap();
        let keep = |name: &str, existing| {
            let mut temporary = Temporary::create(open(&dir), "1").unwrap();
            temporary.file().write_all(b"new").unwrap();
            temporary.keep(name, existing)
        };
        for name in ["a", "link", "dangling"] {
            for error in [
                keep(name, Existing::Keep).unwrap_err(),
                check_free(&open(&dir), name).unwrap_err(),
            ] {
                assert!(error.to_string().contains("is there already"), "{error}");
            }
        }
        assert_eq!(std::fs::read(dir.join("a")).unwrap(), b"precious");
        // The link is replaced, not what it points to.
        for name in ["a", "link", "dangling"] {
            keep(name, Existing::Replace).unwrap();
            assert_eq!(std::fs::read(dir.join(name)).unwrap(), b"new");
        }
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
        assert_eq!(names(&outside), ["target"]);
        assert_eq!(names(&dir), ["a", "dangling", "link"]);
        check_free(&open(&dir), "b").unwrap();
        keep("b", Existing::Keep).unwrap();
    }

    #[test]
    fn no_object_gets_a_name_that_hides_or_does_not_print() {
        for name in [".bashrc", ".ebb-1.part", "..", ".", ".\u{1b}]0;x"] {
            let error = check_file_name(name).unwrap_err().to_string();
            assert!(error.contains("leading dot"), "{error}");
            assert!(!error.contains('\u{1b}'), "{error}");
        }
        for name in ["a\u{1b}[2J", "a\nb", "txt.\u{202e}exe", "\u{9b}"] {
            let error = check_file_name(name).unwrap_err().to_string();
            assert!(error.contains("do not print"), "{error}");
        }
        for name in ["a.b", "Übung 1.txt", "-rf", "日本"] {
            check_file_name(name).unwrap();
        }
    }

    #[test]
    fn only_what_nobody_writes_is_a_leftover() {
        let dir = Folder::new("files");
        for name in [".ebb-old.part", ".ebb-kept", "x.part", "precious"] {
            dir.write(name, "x");
        }
        std::os::unix::fs::symlink("precious", dir.join(".ebb-link.part")).unwrap();
        let open = Temporary::create(open(&dir), "1").unwrap();
        remove_leftovers(&dir).unwrap();
        assert_eq!(
            names(&dir),
            [
                ".ebb-1.part",
                ".ebb-kept",
                ".ebb-link.part",
                "precious",
                "x.part"
            ]
        );
        drop(open);
    }

    #[test]
    fn no_name_and_no_link_leads_out_of_a_served_directory() {
        let outside = Folder::new("files");
        let secret = outside.write("secret", "secret");
        let dir = Folder::new("files");
        dir.write("good", "good");
        dir.write(".hidden", "key");
        dir.make_dir("sub");
        std::os::unix::fs::symlink(&secret, dir.join("absolute")).unwrap();
        let relative = Path::new("..").join(outside.file_name().unwrap());
        std::os::unix::fs::symlink(relative.join("secret"), dir.join("relative")).unwrap();
        std::os::unix::fs::symlink("good", dir.join("inside")).unwrap();
        let fd = open(&dir);
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
            ".hidden",
        ] {
            let result = FileSource::open_in(fd.as_fd(), name);
            assert!(matches!(result, Err(OpenError::NotThere)), "{name}");
        }
    }

    #[test]
    fn only_regular_files_are_sources() {
        let dir = Folder::new("files");
        assert!(FileSource::new(open_directory(&dir).unwrap()).is_err());
        let (_, writer) = std::io::pipe().unwrap();
        assert!(FileSource::new(writer.into()).is_err());
    }

    #[test]
    fn content_is_written_to_files_pipes_sockets_and_devices_alone() {
        let folder = Folder::new("destinations");
        let (_reader, writer) = std::io::pipe().unwrap();
        let null = |write| File::options().read(true).write(write).open("/dev/null");
        let regular = File::create(folder.join("file")).unwrap();
        for good in [writer.into(), null(true).unwrap().into(), regular.into()] {
            without_waiting(good).unwrap();
        }
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
        let directory = open_directory(&folder).unwrap();
        for bad in [event, directory, null(false).unwrap().into()] {
            assert!(without_waiting(bad).is_err());
        }
    }
}
