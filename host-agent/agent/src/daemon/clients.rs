//! Connections of clients: a thread that reads and one that writes for each, so that a client that
//! stalls holds up nobody else.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use ebb_host::ClientId;

use super::mailbox::{Command, Mailbox};
use super::outbox::Outbox;
use crate::api::message::{Error, ErrorCode, Outcome, Reply, Request};
use crate::api::socket::{Connection, Listener, Received};
use crate::machine::warning_limit::WarningLimit;

/// A client that takes no message for so long is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// Takes clients until the process ends.
pub fn accept_all(listener: &Listener, mailbox: &Mailbox) {
    let mut last: ClientId = 1;
    let (mut strangers, mut failures) = (WarningLimit::default(), WarningLimit::default());
    loop {
        match listener.accept() {
            Ok(Some(connection)) => {
                last += 1;
                if let Err(error) = start(last, connection, mailbox) {
                    tracing::warn!("cannot serve a client: {error}");
                }
            }
            Ok(None) => {
                if let Some(clients) = strangers.count(Instant::now()) {
                    tracing::warn!("connections of other users were turned away: {clients}");
                }
            }
            Err(error) => {
                if failures.count(Instant::now()).is_some() {
                    tracing::warn!("cannot take a client on {}: {error}", listener.address());
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

/// Serves the client in this process.
pub fn serve_own(connection: Connection, mailbox: &Mailbox) -> io::Result<()> {
    start(0, connection, mailbox)
}

/// Serves one client.
fn start(client: ClientId, connection: Connection, mailbox: &Mailbox) -> io::Result<()> {
    connection.set_send_timeout(PATIENCE)?;
    let connection = Arc::new(connection);
    let (outbox, to_write) = Outbox::new(&connection);
    std::thread::Builder::new()
        .name(format!("client-{client}-out"))
        .spawn(move || to_write.write_all())?;
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

fn read(
    client: ClientId,
    connection: &Connection,
    outbox: &Outbox,
    mailbox: &Mailbox,
) -> io::Result<()> {
    let (mut message, mut descriptor) = (Vec::new(), None);
    let (seen, is_seen) = sync_channel(1);
    loop {
        let received = connection.receive(&mut message, &mut descriptor)?;
        if received == Received::Closed {
            return Ok(());
        }
        match serde_json::from_slice::<Request>(&message) {
            Ok(request) if received == Received::WithoutDescriptor => {
                let lost = "the daemon cannot take the descriptor: it has as many as it may, or the message has \
                            more than one";
                let result = Outcome::Error(Error::new(ErrorCode::TooMany, lost));
                outbox.send(&Reply {
                    id: request.id,
                    result,
                });
            }
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
                let result = Outcome::Error(Error::new(ErrorCode::BadRequest, error));
                outbox.send(&Reply { id, result });
            }
        }
    }
}
