//! Where the objects of an agent come from and go to: files, pipes and what is made here, all of it
//! in other threads.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebb_host::{
    ClientId, Error, ErrorCode, Key, Prepared, Pushed, Storage, Task, Unusable, Update,
};
use ebb_transport::StreamBytes;
use ebb_transport::object::EnvelopeHeader;

use super::mailbox::Mailbox;
use super::prepare::{Preparer, Source};
use super::sink::{Directory, Target};
use super::sinks::{Backlog, Sinks};
use crate::api::message::Disposition;
use crate::machine::files::{Existing, check_file_name, is_directory, without_waiting};
use crate::machine::next_hop::NextHops;

/// Number of deliveries after which the engine looks for buffers that the sinks are done with.
const RECYCLE_INTERVAL: u64 = 32;

/// The most directories that a client may serve at a time.
const MAX_SERVED: usize = 64;

/// Treatment of objects that arrive at a listener.
pub struct Listening {
    pub into: Disposition,
    pub directory: Option<Arc<OwnedFd>>,
    pub existing: Existing,
}

/// The storage of the host: directories, descriptors and the threads that read and write them.
pub struct Objects {
    pub sinks: Sinks,
    preparer: Preparer,
    /// By ticket, the flag by which the preparer sees that its result is not wanted any more.
    preparing: BTreeMap<u64, Arc<AtomicBool>>,
    /// Directories whose files may be fetched, each with the client that serves it.
    directories: Vec<(ClientId, Arc<OwnedFd>)>,
    address: Ipv4Addr,
    /// The number in the name of the last temporary file.
    last_unique: u64,
    /// Buffers on their way back to a transport.
    returned: Vec<Vec<u8>>,
    /// Packets delivered so far.
    deliveries: u64,
}

impl Objects {
    pub fn start(address: Ipv4Addr, hops: &NextHops, mailbox: &Mailbox) -> io::Result<Self> {
        Ok(Objects {
            sinks: Sinks::start(mailbox.clone())?,
            preparer: Preparer::start(hops, mailbox)?,
            preparing: BTreeMap::new(),
            directories: Vec::new(),
            address,
            last_unique: 0,
            returned: Vec::new(),
            deliveries: 0,
        })
    }

    /// The result for a ticket has arrived.
    pub fn prepared(&mut self, ticket: u64) {
        self.preparing.remove(&ticket);
    }

    pub fn serve(&mut self, client: ClientId, directory: OwnedFd) -> Result<(), Error> {
        let owned = self
            .directories
            .iter()
            .filter(|(owner, _)| *owner == client);
        if owned.count() >= MAX_SERVED {
            let message = format!("this client serves {MAX_SERVED} directories");
            return Err(Error::new(ErrorCode::TooMany, message));
        }
        self.directories.push((client, Arc::new(directory)));
        Ok(())
    }

    pub fn client_gone(&mut self, client: ClientId) {
        self.directories.retain(|(owner, _)| *owner != client);
    }

    pub fn stop_serving(&mut self) {
        self.directories.clear();
    }

    /// Where content goes that comes with a descriptor, or none; in a directory, what becomes of a
    /// file that is there.
    pub fn target_of(
        &mut self,
        descriptor: Option<OwnedFd>,
        existing: Existing,
    ) -> Result<Target, Error> {
        Ok(match descriptor {
            None => Target::Discard,
            Some(directory) if is_directory(&directory) => {
                self.directory(Arc::new(directory), existing)
            }
            Some(descriptor) => {
                let descriptor = without_waiting(descriptor).map_err(|error| {
                    let message = format!("content cannot be written to the descriptor: {error}");
                    Error::new(ErrorCode::BadRequest, message)
                })?;
                Target::Descriptor(descriptor)
            }
        })
    }

    fn directory(&mut self, dir: Arc<OwnedFd>, existing: Existing) -> Target {
        self.last_unique += 1;
        let (pid, id) = (std::process::id(), self.last_unique);
        Target::Directory(Directory {
            dir,
            unique: format!("{}-{pid}-{id}", self.address),
            existing,
        })
    }
}

impl Storage for Objects {
    type Source = Source;
    type Target = Target;
    type Listening = Listening;
    type Sink = Arc<Backlog>;

    fn prepare(&mut self, task: Task<Source>) -> Option<Prepared> {
        let cancelled = Arc::<AtomicBool>::default();
        self.preparing.insert(task.ticket, cancelled.clone());
        self.preparer.submit(task, cancelled);
        None
    }

    fn cancel(&mut self, ticket: u64) {
        if let Some(cancelled) = self.preparing.remove(&ticket) {
            cancelled.store(true, Ordering::Relaxed);
        }
    }

    fn find(&self, _name: &str) -> Option<(ClientId, Source)> {
        let (owner, _) = self.directories.first()?;
        let directories = self.directories.iter();
        let directories = directories.map(|(_, dir)| dir.clone()).collect();
        Some((*owner, Source::Directories(directories)))
    }

    fn target(&mut self, listening: &Listening) -> Option<Target> {
        match (listening.into, &listening.directory) {
            (Disposition::Directory, Some(dir)) => {
                Some(self.directory(dir.clone(), listening.existing))
            }
            (Disposition::Ask, _) => None,
            _ => Some(Target::Discard),
        }
    }

    fn open(
        &mut self,
        key: Key,
        target: Option<Target>,
        header: &EnvelopeHeader,
    ) -> Result<Arc<Backlog>, Unusable> {
        // A name that no file may have is refused before its content comes.
        if let Some(Target::Directory(_)) = target {
            check_file_name(&header.name)?;
        }
        Ok(self.sinks.open(key, target))
    }

    fn push(&mut self, key: Key, backlog: &mut Arc<Backlog>, bytes: StreamBytes) -> Pushed {
        self.deliveries += 1;
        if self.returned.is_empty() && self.deliveries.is_multiple_of(RECYCLE_INTERVAL) {
            self.sinks.take_returned(&mut self.returned);
        }
        Pushed {
            pause: self.sinks.push(key, backlog, bytes.into_owned()),
            buffer: self.returned.pop().map(StreamBytes::Owned),
        }
    }

    fn decide(&mut self, key: Key, target: Target) {
        self.sinks.decide(key, target);
    }

    fn end(&mut self, key: Key, _: &mut Arc<Backlog>) -> Option<Update> {
        self.sinks.end(key);
        None
    }

    fn close(&mut self, key: Key) {
        self.sinks.drop_sink(key);
    }
}
