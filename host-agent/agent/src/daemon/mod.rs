//! The daemon of a host, or the same inside a command: applications ask for transfers over the
//! local API, the engine carries them out.
//!
//! ```text
//!  clients ── thread each ──┐                       ┌── sinks: hash, write
//!  prepare: hash, resolve ──┴─► Mailbox ─► Service ─┴── outbox thread of each client
//!                                (wakes)   (engine)
//! ```
//!
//! What is done with all of it is the [`ebb_host::Host`] in the service.

mod clients;
mod fair_queue;
mod prepare;
mod service;
mod sink;
mod sinks;
mod storage;

use std::os::fd::OwnedFd;
use std::sync::mpsc;

pub use clients::accept_all;
pub use service::{Lifetime, Service};

use ebb_host::{ClientId, Key, Prepared, Update};

use crate::api::message::Request;
use crate::api::socket::Connection;
use crate::machine::waker::Waker;
use clients::Outbox;

/// What other threads send to the engine.
pub enum Command {
    Connected {
        client: ClientId,
        outbox: Outbox,
    },
    Gone {
        client: ClientId,
    },
    Request {
        client: ClientId,
        request: Request,
        descriptor: Option<OwnedFd>,
        /// Told when the engine has seen it: a client has one request waiting at a time.
        seen: mpsc::SyncSender<()>,
    },
    Prepared {
        ticket: u64,
        result: Prepared,
    },
    Sink {
        sink: Key,
        update: Update,
    },
}

/// The way to the engine.
#[derive(Clone)]
pub struct Mailbox {
    commands: mpsc::Sender<Command>,
    waker: Waker,
}

impl Mailbox {
    fn new(waker: Waker) -> (Self, mpsc::Receiver<Command>) {
        let (commands, inbox) = mpsc::channel();
        (Mailbox { commands, waker }, inbox)
    }

    fn send(&self, command: Command) {
        // Fails only when the engine has ended, and then the process ends.
        let _ = self.commands.send(command);
        self.waker.wake();
    }

    fn wake(&self) {
        self.waker.wake();
    }

    /// Serves the client in this process.
    pub fn connect(&self, connection: Connection) -> std::io::Result<()> {
        clients::start(0, connection, self)
    }
}
