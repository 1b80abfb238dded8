//! The way from the engine to a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use serde::Serialize;

use crate::api::socket::Connection;

/// The most messages that wait for a client, which is given up if there is one more.
const MAX_WAITING: usize = 16_384;
/// While more messages than this wait for a client, it gets no progress notices.
const BUSY_MESSAGES: usize = 64;

/// The way to a client.
#[derive(Clone)]
pub struct Outbox {
    /// Messages to write; after `None` the connection is closed.
    messages: SyncSender<Option<String>>,
    /// Messages that are not written yet.
    waiting: Arc<AtomicUsize>,
    connection: Arc<Connection>,
}

impl Outbox {
    /// With what is to be written to `connection` by a thread of its own.
    pub fn new(connection: &Arc<Connection>) -> (Self, ToWrite) {
        let (messages, to_write) = sync_channel(MAX_WAITING);
        let outbox = Outbox {
            messages,
            waiting: Arc::default(),
            connection: connection.clone(),
        };
        let to_write = ToWrite {
            messages: to_write,
            waiting: outbox.waiting.clone(),
            connection: connection.clone(),
        };
        (outbox, to_write)
    }

    /// Has a message written, and never waits for that.
    pub fn send(&self, message: &impl Serialize) {
        let Ok(text) = serde_json::to_string(message) else {
            return;
        };
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if self.messages.try_send(Some(text)).is_err() {
            tracing::warn!("a client does not read: it is given up");
            self.close();
        }
    }

    /// Whether more messages wait than for a client that wants to know how far things are.
    pub fn is_busy(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > BUSY_MESSAGES
    }

    /// Closes the connection when all messages have been read.
    pub fn finish(&self) {
        if self.messages.try_send(None).is_err() {
            self.close();
        }
    }

    fn close(&self) {
        self.connection.close();
    }
}

/// The messages that wait for a client.
pub struct ToWrite {
    messages: Receiver<Option<String>>,
    waiting: Arc<AtomicUsize>,
    connection: Arc<Connection>,
}

impl ToWrite {
    /// Writes messages until the last one, then closes the connection.
    pub fn write_all(self) {
        while let Ok(Some(message)) = self.messages.recv() {
            if self.connection.send(message.as_bytes(), None).is_err() {
                // The client has gone or does not read, which the reading thread notices.
                break;
            }
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        self.connection.close();
    }
}
