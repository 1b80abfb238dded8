//! The daemon of a host, or the same inside a command: applications ask for transfers over the
//! local API, the engine carries them out.
//!
//! ```text
//!  clients ── thread each ──┐                       ┌── sinks: hash, write
//!  prepare: hash, resolve ──┼─► Mailbox ─► Service ─┤
//!  timers ──────────────────┘    (wakes)   (engine) └── outbox thread of each client
//! ```

mod askers;
mod clients;
mod fetching;
mod prepare;
mod receiving;
mod sending;
mod service;
mod serving;
mod sink;
mod sinks;
mod timers;
mod transfers;
mod turns;

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::mpsc;

pub use clients::accept_all;
pub use service::{Lifetime, Service};

use ebb_transport::{FetchRequest, Scheme};

use crate::api::message::Request;
use crate::api::socket::Connection;
use crate::waker::Waker;
use clients::{ClientId, Outbox};

/// What other threads have for the engine.
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
        result: prepare::Prepared,
    },
    Sink {
        id: sinks::SinkId,
        update: sinks::Update,
    },
    Timer(timers::Timer),
    /// Another host asks for an object.
    Requested {
        scheme: Scheme,
        request: FetchRequest,
        peer: Ipv4Addr,
    },
    /// There may be room for what `peer` has asked for and waits for.
    Answer {
        peer: Ipv4Addr,
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
