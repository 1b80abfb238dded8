//! Slow work before a transfer can start, in threads of its own: opening and hashing a source of many GB,
//! and resolving an address. Objects are hashed a part at a time, clients in turn ([`super::fair_queue`]), so
//! that a small one does not wait for the large ones of other clients.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ebb_host::{ClientId, Content, Error, ErrorCode, Prepared};
use ebb_printable::printable;
use ebb_transport::object::{
    ContentHash, Envelope, EnvelopeError, EnvelopeHeader, GeneratedSource, ObjectSource,
};

use super::fair_queue::FairQueue;
use super::mailbox::{Command, Mailbox};
use crate::api::message::Generate;
use crate::machine::files::{FileSource, OpenError};
use crate::machine::lock::lock;
use crate::machine::next_hop::NextHops;

/// Threads of a preparer.
const THREADS: usize = 4;
/// Most threads that work for one client: its disk or its network may not answer.
const THREADS_OF_ONE: usize = THREADS - 1;
/// Bytes of an object that are hashed per turn: some ms.
const PART_BYTES: u64 = 1 << 20;
/// The most hashes that are remembered.
const MAX_KNOWN: usize = 1024;

/// Source of an object's content.
pub enum Source {
    /// A file of the application.
    Descriptor(OwnedFd),
    Generated(Generate),
    /// The first of these directories that has a file of the name.
    Directories(Vec<Arc<OwnedFd>>),
}

/// Something to prepare; its content is taken when that is opened.
type Task = ebb_host::Task<Source>;

/// Identity of content, now and later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    /// A file as it was when it was hashed: device, inode, length, times of change in ns.
    File(u64, u64, u64, i128, i128),
    /// Content that is made here: length and seed.
    Generated(u64, u64),
}

/// The SHA-256 of objects that were prepared before.
type Hashes = BTreeMap<Version, [u8; 32]>;

/// The client for whom something is prepared; for what other hosts fetch, the one that offers it.
type Owner = Option<ClientId>;

/// State that the threads of a preparer share.
struct Shared {
    queue: FairQueue<Owner, Work>,
    known: Mutex<Hashes>,
}

enum Work {
    /// A task that has not begun. The flag is set when its result is no longer needed.
    New(Task, Arc<AtomicBool>),
    Hashing(Box<Hashing>),
}

/// An object that is being hashed.
struct Hashing {
    task: Task,
    cancelled: Arc<AtomicBool>,
    content: Arc<dyn ObjectSource>,
    version: Option<Version>,
    hash: ContentHash,
}

/// Result of a step of the work.
enum Step {
    /// The result for a ticket.
    Done(u64, Prepared),
    /// There is more to do.
    Rest(Work),
}

/// The threads that prepare, as the engine sees them.
pub struct Preparer(Arc<Shared>);

impl Preparer {
    pub fn start(hops: &NextHops, mailbox: &Mailbox) -> io::Result<Self> {
        let (hops, mailbox) = (hops.clone(), mailbox.clone());
        Self::start_with(
            move |host| hops.resolve(host).map(|_| ()),
            move |ticket, result| mailbox.send(Command::Prepared { ticket, result }),
        )
    }

    /// `resolve` looks a host up, `pass` takes the results with their tickets.
    fn start_with(
        resolve: impl Fn(Ipv4Addr) -> anyhow::Result<()> + Clone + Send + 'static,
        pass: impl Fn(u64, Prepared) + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: FairQueue::new(THREADS_OF_ONE),
            known: Mutex::default(),
        });
        for index in 0..THREADS {
            let (shared, resolve, pass) = (shared.clone(), resolve.clone(), pass.clone());
            std::thread::Builder::new()
                .name(format!("prepare-{index}"))
                .spawn(move || {
                    loop {
                        let (owner, work) = shared.queue.take();
                        let rest = match step(work, &resolve, &shared.known) {
                            Step::Done(ticket, result) => {
                                pass(ticket, result);
                                None
                            }
                            Step::Rest(work) => Some(work),
                        };
                        shared.queue.give_back(owner, rest);
                    }
                })?;
        }
        Ok(Preparer(shared))
    }

    /// Prepares an object, unless `cancelled` is set before that is done.
    pub fn submit(&self, task: Task, cancelled: Arc<AtomicBool>) {
        self.0.queue.push(task.owner, Work::New(task, cancelled));
    }
}

fn step(
    work: Work,
    resolve: &impl Fn(Ipv4Addr) -> anyhow::Result<()>,
    known: &Mutex<Hashes>,
) -> Step {
    match work {
        Work::New(task, cancelled) => begin(task, cancelled, resolve, known),
        Work::Hashing(hashing) => go_on(hashing, known),
    }
}

fn cannot_send(name: &str, error: &dyn std::fmt::Display) -> Error {
    let message = format!("cannot send `{}`: {error}", printable(name));
    Error::new(ErrorCode::Io, message)
}

/// Looks the hosts up and opens the object. One whose hash is known is done.
fn begin(
    mut task: Task,
    cancelled: Arc<AtomicBool>,
    resolve: &impl Fn(Ipv4Addr) -> anyhow::Result<()>,
    known: &Mutex<Hashes>,
) -> Step {
    let ticket = task.ticket;
    let content = std::mem::replace(&mut task.content, Content::None);
    let opened =
        check_hosts(&task, &content, &cancelled, resolve).and_then(|()| open(&task, content));
    let (content, version) = match opened {
        Err(error) => return Step::Done(ticket, Err(error)),
        Ok(Opened::Prepared(envelope)) => return Step::Done(ticket, Ok(envelope)),
        Ok(Opened::Content(content, version)) => (content, version),
    };
    let hash = version.and_then(|version| lock(known).get(&version).copied());
    match hash {
        Some(sha256) => Step::Done(ticket, envelope(&task.name, sha256, content)),
        None => Step::Rest(Work::Hashing(Box::new(Hashing {
            task,
            cancelled,
            content,
            version,
            hash: ContentHash::default(),
        }))),
    }
}

/// Hashes the next part.
fn go_on(mut hashing: Box<Hashing>, known: &Mutex<Hashes>) -> Step {
    let Hashing {
        task,
        cancelled,
        content,
        version,
        hash,
    } = &mut *hashing;
    if cancelled.load(Ordering::Relaxed) {
        return Step::Done(task.ticket, Err(cannot_send(&task.name, &"cancelled")));
    }
    match hash.read_on(&**content, PART_BYTES) {
        Err(error) => Step::Done(task.ticket, Err(cannot_send(&task.name, &error))),
        Ok(None) => Step::Rest(Work::Hashing(hashing)),
        Ok(Some(sha256)) => {
            if let Some(version) = *version {
                let mut known = lock(known);
                while known.len() >= MAX_KNOWN {
                    known.pop_first();
                }
                known.insert(version, sha256);
            }
            Step::Done(task.ticket, envelope(&task.name, sha256, content.clone()))
        }
    }
}

fn envelope(name: &str, sha256: [u8; 32], content: Arc<dyn ObjectSource>) -> Prepared {
    let header = EnvelopeHeader {
        name: name.to_owned(),
        content_bytes: content.len(),
        sha256,
    };
    Envelope::with_header(header, content)
        .map(|envelope| Some(Arc::new(envelope)))
        .map_err(|error: EnvelopeError| cannot_send(name, &error))
}

/// All hosts of something to send have to be reachable: it fails with the first that is not. Of those that something
/// is fetched from one has to be.
fn check_hosts(
    task: &Task,
    content: &Content<Source>,
    cancelled: &AtomicBool,
    resolve: &impl Fn(Ipv4Addr) -> anyhow::Result<()>,
) -> Result<(), Error> {
    let one_is_enough = matches!(content, Content::None);
    let (mut reachable, mut unreachable) = (0, None);
    for host in &task.hosts {
        // Each host that does not answer takes seconds.
        if cancelled.load(Ordering::Relaxed) {
            return Err(cannot_send(&task.name, &"cancelled"));
        }
        match resolve(*host) {
            Ok(()) => reachable += 1,
            Err(error) => {
                let error = Error::new(ErrorCode::Io, format!("{error:#}"));
                if !one_is_enough {
                    return Err(error);
                }
                unreachable.get_or_insert(error);
            }
        }
    }
    match unreachable {
        Some(error) if reachable == 0 => Err(error),
        _ => Ok(()),
    }
}

/// Content that is to be hashed.
enum Opened {
    /// Nothing: the result is known.
    Prepared(Option<Arc<Envelope>>),
    /// This content. Without a version it may have another hash the next time.
    Content(Arc<dyn ObjectSource>, Option<Version>),
}

fn open(task: &Task, content: Content<Source>) -> Result<Opened, Error> {
    let io = |error: &dyn std::fmt::Display| cannot_send(&task.name, error);
    let source = match content {
        Content::None => return Ok(Opened::Prepared(None)),
        Content::Ready(envelope) => return Ok(Opened::Prepared(Some(envelope))),
        Content::From(source) => source,
    };
    Ok(match source {
        Source::Generated(Generate { bytes, seed }) => {
            let version = Version::Generated(bytes, seed);
            Opened::Content(Arc::new(GeneratedSource { seed, bytes }), Some(version))
        }
        // The application may write to it again at any time.
        Source::Descriptor(descriptor) => {
            let source = FileSource::new(descriptor).map_err(|error| io(&format!("{error:#}")))?;
            Opened::Content(Arc::new(source), None)
        }
        Source::Directories(directories) => {
            let source = open_in(&directories, &task.name)?;
            let version = source.version().map_err(|error| io(&error))?;
            Opened::Content(Arc::new(source), Some(version))
        }
    })
}

fn open_in(directories: &[Arc<OwnedFd>], name: &str) -> Result<FileSource, Error> {
    for directory in directories {
        match FileSource::open_in(directory.as_fd(), name) {
            Ok(source) => return Ok(source),
            Err(OpenError::NotThere) => {}
            Err(OpenError::Io(error)) => {
                let message = format!("cannot read `{}`: {error}", printable(name));
                return Err(Error::new(ErrorCode::Io, message));
            }
        }
    }
    let message = format!("there is no object `{}` here", printable(name));
    Err(Error::new(ErrorCode::Unknown, message))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// Longer than a busy machine takes for a part of each of some objects.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn task(owner: Owner, ticket: u64, bytes: u64) -> Task {
        Task {
            ticket,
            owner,
            name: format!("object-{ticket}"),
            content: Content::From(Source::Generated(Generate { bytes, seed: 0 })),
            hosts: Vec::new(),
        }
    }

    #[test]
    fn huge_objects_of_one_client_hold_up_neither_others_nor_its_own_small_ones() {
        let (sender, results) = mpsc::channel();
        let pass = move |ticket, result: Prepared| {
            let _ = sender.send((ticket, result.is_ok()));
        };
        let preparer = Preparer::start_with(|_| Ok(()), pass).unwrap();
        let cancelled = Arc::<AtomicBool>::default();
        // A year of hashing.
        let huge = 1 << 55;
        for ticket in 0..2 * THREADS as u64 {
            preparer.submit(task(Some(1), ticket, huge), cancelled.clone());
        }
        for (ticket, owner) in [(100, Some(2)), (101, None), (102, Some(1))] {
            preparer.submit(task(owner, ticket, 100), cancelled.clone());
            assert_eq!(results.recv_timeout(PATIENCE), Ok((ticket, true)));
        }
        cancelled.store(true, Ordering::Relaxed);
        let mut ended: Vec<u64> = (0..2 * THREADS)
            .map(|_| results.recv_timeout(PATIENCE).unwrap())
            .map(|(ticket, good)| {
                assert!(!good);
                ticket
            })
            .collect();
        ended.sort_unstable();
        assert_eq!(ended, Vec::from_iter(0..2 * THREADS as u64));
    }

    #[test]
    fn hosts_that_do_not_answer_take_one_client_and_no_other() {
        let (sender, results) = mpsc::channel();
        let pass = move |ticket, _: Prepared| {
            let _ = sender.send(ticket);
        };
        let resolve = |host: Ipv4Addr| {
            if host == Ipv4Addr::UNSPECIFIED {
                std::thread::park_timeout(PATIENCE * 2);
            }
            Ok(())
        };
        let preparer = Preparer::start_with(resolve, pass).unwrap();
        for ticket in 0..2 * THREADS as u64 {
            let mut stuck = task(Some(1), ticket, 1);
            stuck.hosts = vec![Ipv4Addr::UNSPECIFIED];
            preparer.submit(stuck, Arc::default());
        }
        preparer.submit(task(Some(2), 100, 1), Arc::default());
        assert_eq!(results.recv_timeout(PATIENCE), Ok(100));
    }

    #[test]
    fn nobody_waits_for_the_hosts_of_a_transfer_that_has_failed_or_has_no_client() {
        let (sender, results) = mpsc::channel();
        let pass = move |ticket, result: Prepared| {
            let _ = sender.send((ticket, result.err().map(|error| error.message)));
        };
        let (asked, tried) = mpsc::channel();
        let gone = Arc::<AtomicBool>::default();
        let client_goes = gone.clone();
        let resolve = move |host: Ipv4Addr| {
            let _ = asked.send(host);
            if host == Ipv4Addr::BROADCAST {
                client_goes.store(true, Ordering::Relaxed);
            }
            anyhow::bail!("nobody answers for {host}")
        };
        let preparer = Preparer::start_with(resolve, pass).unwrap();
        let mut sent = task(Some(1), 1, 1);
        sent.hosts = (1..100).map(Ipv4Addr::from).collect();
        preparer.submit(sent, Arc::default());
        let (ticket, message) = results.recv_timeout(PATIENCE).unwrap();
        assert_eq!(ticket, 1);
        assert!(message.unwrap().contains("nobody answers for 0.0.0.1"));
        assert_eq!(tried.try_iter().count(), 1);

        let mut fetched = task(Some(1), 2, 1);
        fetched.content = Content::None;
        fetched.hosts = vec![
            Ipv4Addr::LOCALHOST,
            Ipv4Addr::BROADCAST,
            Ipv4Addr::UNSPECIFIED,
        ];
        preparer.submit(fetched, gone);
        assert_eq!(results.recv_timeout(PATIENCE).unwrap().0, 2);
        assert_eq!(tried.try_iter().count(), 2);
    }
}
