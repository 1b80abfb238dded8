//! Connections of clients: a thread that reads and one that writes for each, so that a client that
//! stalls holds up nobody else.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use ebb_host::ClientId;
use serde::Serialize;

use super::{Command, Mailbox};
use crate::api::message::{Error, ErrorCode, Outcome, Reply, Request};
use crate::api::socket::{Connection, Listener};

/// The most messages that wait for a client, which is given up if there is one more.
const MAX_WAITING: usize = 16_384;
/// A client that takes no message for so long is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// While more messages than this wait for a client, it is not told how far its transfers are.
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

/// Takes clients until the process ends.
pub fn accept_all(listener: &Listener, mailbox: &Mailbox) {
    let mut last: ClientId = 1;
    loop {
        match listener.accept() {
            Ok(Some(connection)) => {
                last += 1;
                if let Err(error) = start(last, connection, mailbox) {
                    tracing::warn!("cannot serve a client: {error}");
                }
            }
            Ok(None) => tracing::warn!("a client of another user was turned away"),
            Err(error) => {
                tracing::warn!("cannot take a client on {}: {error}", listener.address());
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

/// Serves one client.
pub fn start(client: ClientId, connection: Connection, mailbox: &Mailbox) -> io::Result<()> {
    connection.set_send_timeout(PATIENCE)?;
    let connection = Arc::new(connection);
    let (messages, to_write) = sync_channel(MAX_WAITING);
    let outbox = Outbox {
        messages,
        waiting: Arc::default(),
        connection: connection.clone(),
    };
    let waiting = outbox.waiting.clone();
    let writer = connection.clone();
    std::thread::Builder::new()
        .name(format!("client-{client}-out"))
        .spawn(move || write(&writer, &to_write, &waiting))?;
    let mailbox = mailbox.clone();
    mailbox.send(Command::Connected {
        client,
        outbox: outbox.clone(),
    });
    std::thread::Builder::new()
        .name(format!("client-{client}-in"))
        .spawn(move || {
            if let Err(error) = read(client, &connection, &outbox, &mailbox) {
                tracing::debug!("client {client}: {error}");
            }
            mailbox.send(Command::Gone { client });
        })?;
    Ok(())
}

fn write(connection: &Connection, messages: &Receiver<Option<String>>, waiting: &AtomicUsize) {
    while let Ok(Some(message)) = messages.recv() {
        if connection.send(message.as_bytes(), None).is_err() {
            // The client has gone or does not read, which the reading thread notices.
            break;
        }
        waiting.fetch_sub(1, Ordering::Relaxed);
    }
    connection.close();
}

fn read(
    client: ClientId,
    connection: &Connection,
    outbox: &Outbox,
    mailbox: &Mailbox,
) -> io::Result<()> {
    let (mut message, mut descriptor) = (Vec::new(), None);
    let (seen, is_seen) = sync_channel(1);
    while connection.receive(&mut message, &mut descriptor)? {
        match serde_json::from_slice::<Request>(&message) {
            Ok(request) => {
                mailbox.send(Command::Request {
                    client,
                    request,
                    descriptor: descriptor.take(),
                    seen: seen.clone(),
                });
                // However fast a client asks, it has one request in the mailbox.
                if is_seen.recv().is_err() {
                    return Ok(());
                }
            }
            Err(error) => {
                let id = serde_json::from_slice::<serde_json::Value>(&message)
                    .ok()
                    .and_then(|value| value.get("id")?.as_u64())
                    .unwrap_or(0);
                let error = Error::new(ErrorCode::BadRequest, error);
                outbox.send(&Reply {
                    id,
                    result: Outcome::Error(error),
                });
            }
        }
    }
    Ok(())
}
