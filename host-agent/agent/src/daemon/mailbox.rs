//! Commands from other threads to the engine.

use std::os::fd::OwnedFd;
use std::sync::mpsc;

use ebb_host::{ClientId, Key, Prepared, Update};

use super::outbox::Outbox;
use crate::api::message::Request;
use crate::machine::waker::Waker;

/// A message of another thread to the engine.
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
        /// Notified when the engine has taken the request: only one request of a client waits at a time.
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

/// Sends commands to the engine.
#[derive(Clone)]
pub struct Mailbox {
    commands: mpsc::Sender<Command>,
    waker: Waker,
}

impl Mailbox {
    pub fn new(waker: Waker) -> (Self, mpsc::Receiver<Command>) {
        let (commands, inbox) = mpsc::channel();
        (Mailbox { commands, waker }, inbox)
    }

    pub fn send(&self, command: Command) {
        // Fails only when the engine has ended, and then the process ends.
        let _ = self.commands.send(command);
        self.waker.wake();
    }

    pub fn wake(&self) {
        self.waker.wake();
    }
}
