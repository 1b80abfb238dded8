//! What takes long before a transfer can start, in threads of its own: to open and hash a source
//! of many GB, and to have an address resolved.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use ebb_transport::object::{Envelope, EnvelopeHeader, GeneratedSource, ObjectSource};

use super::{Command, Mailbox};
use crate::api::message::{Error, ErrorCode, Generate};
use crate::next_hop::NextHops;
use crate::objects::{FileSource, OpenError};

const THREADS: usize = 4;
/// Hashes that are remembered.
const MAX_KNOWN: usize = 1024;

/// Where the content of an object comes from.
pub enum Source {
    /// None is needed.
    None,
    /// It has been prepared before.
    Ready(Arc<Envelope>),
    /// A file of the application.
    Descriptor(OwnedFd),
    Generated(Generate),
    /// The first of these directories that has a file of the name.
    Directories(Vec<Arc<OwnedFd>>),
}

/// Something to prepare.
pub struct Task {
    /// Comes back with the result.
    pub ticket: u64,
    pub name: String,
    pub source: Source,
    /// Hosts that have to be reachable; one of them, if there is nothing to send.
    pub hosts: Vec<Ipv4Addr>,
    /// Nobody wants the result any more.
    pub cancelled: Arc<AtomicBool>,
}

/// The object, unless none was asked for.
pub type Prepared = Result<Option<Arc<Envelope>>, Error>;

/// Content that will not be other content later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    /// A file as it was when it was hashed: device, inode, length, times of change in ns.
    File(u64, u64, u64, i128, i128),
    /// Length and seed.
    Generated(u64, u64),
}

#[derive(Default)]
struct Shared {
    tasks: Mutex<VecDeque<Task>>,
    changed: Condvar,
    known: Mutex<Hashes>,
}

/// Of what has been sent before.
type Hashes = BTreeMap<Version, [u8; 32]>;

pub struct Preparer(Arc<Shared>);

impl Preparer {
    pub fn start(hops: &NextHops, mailbox: &Mailbox) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        for index in 0..THREADS {
            let (shared, hops, mailbox) = (shared.clone(), hops.clone(), mailbox.clone());
            std::thread::Builder::new()
                .name(format!("prepare-{index}"))
                .spawn(move || {
                    loop {
                        let task = next(&shared);
                        let (ticket, hops) = (task.ticket, &hops);
                        let result = prepare(task, hops, &shared.known);
                        mailbox.send(Command::Prepared { ticket, result });
                    }
                })?;
        }
        Ok(Preparer(shared))
    }

    pub fn submit(&self, task: Task) {
        let tasks = self.0.tasks.lock();
        tasks
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(task);
        self.0.changed.notify_one();
    }
}

fn next(shared: &Shared) -> Task {
    let mut tasks = shared.tasks.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(task) = tasks.pop_front() {
            return task;
        }
        let woken = shared.changed.wait(tasks);
        tasks = woken.unwrap_or_else(PoisonError::into_inner);
    }
}

fn prepare(task: Task, hops: &NextHops, known: &Mutex<Hashes>) -> Prepared {
    let io = |error: &dyn std::fmt::Display| {
        Error::new(
            ErrorCode::Io,
            format!("cannot send `{}`: {error}", task.name.escape_debug()),
        )
    };
    let resolved = task.hosts.iter().map(|host| hops.resolve(*host));
    let (reachable, unreachable): (Vec<_>, Vec<_>) = resolved.partition(Result::is_ok);
    let is_fetch = matches!(task.source, Source::None);
    if let Some(Err(error)) = unreachable.into_iter().next()
        && (!is_fetch || reachable.is_empty())
    {
        return Err(Error::new(ErrorCode::Io, format!("{error:#}")));
    }
    let (content, version): (Arc<dyn ObjectSource>, _) = match task.source {
        Source::None => return Ok(None),
        Source::Ready(envelope) => return Ok(Some(envelope)),
        Source::Generated(Generate { bytes, seed }) => {
            let version = Version::Generated(bytes, seed);
            (Arc::new(GeneratedSource { seed, bytes }), Some(version))
        }
        // The application may write to it again at any time.
        Source::Descriptor(descriptor) => {
            let source = FileSource::new(descriptor).map_err(|error| io(&format!("{error:#}")))?;
            (Arc::new(source), None)
        }
        Source::Directories(directories) => {
            let source = open_in(&directories, &task.name)?;
            let version = source.version().map_err(|error| io(&error))?;
            (Arc::new(source), Some(version))
        }
    };
    let hash = version.and_then(|version| lock(known).get(&version).copied());
    let envelope = match hash {
        Some(sha256) => {
            let header = EnvelopeHeader {
                name: task.name.clone(),
                content_bytes: content.len(),
                sha256,
            };
            Envelope::with_header(header, content)
        }
        None => hash_all(&task.name, content, task.cancelled),
    };
    let envelope = envelope.map_err(|error| io(&error))?;
    if let Some(version) = version {
        let mut known = lock(known);
        while known.len() >= MAX_KNOWN {
            known.pop_first();
        }
        known.insert(version, envelope.header().sha256);
    }
    Ok(Some(Arc::new(envelope)))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_in(directories: &[Arc<OwnedFd>], name: &str) -> Result<FileSource, Error> {
    for directory in directories {
        match FileSource::open_in(directory.as_fd(), name) {
            Ok(source) => return Ok(source),
            Err(OpenError::NotThere) => {}
            Err(OpenError::Io(error)) => {
                let message = format!("cannot read `{name}`: {error}");
                return Err(Error::new(ErrorCode::Io, message));
            }
        }
    }
    let message = format!("there is no object `{name}` here");
    Err(Error::new(ErrorCode::Unknown, message))
}

fn hash_all(
    name: &str,
    content: Arc<dyn ObjectSource>,
    cancelled: Arc<AtomicBool>,
) -> Result<Envelope, ebb_transport::object::EnvelopeError> {
    let header = EnvelopeHeader::of(name, &Cancellable(&*content, cancelled))?;
    Envelope::with_header(header, content)
}

/// Ends with an error when nobody wants it any more.
struct Cancellable<'a>(&'a dyn ObjectSource, Arc<AtomicBool>);

impl ObjectSource for Cancellable<'_> {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if self.1.load(Ordering::Relaxed) {
            return Err(io::Error::other("cancelled"));
        }
        self.0.read_at(offset, buf)
    }
}

impl FileSource {
    fn version(&self) -> io::Result<Version> {
        let metadata = self.metadata()?;
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Ok(Version::File(
            metadata.dev(),
            metadata.ino(),
            metadata.len(),
            ns(metadata.mtime(), metadata.mtime_nsec()),
            ns(metadata.ctime(), metadata.ctime_nsec()),
        ))
    }
}
