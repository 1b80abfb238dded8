//! The way from the engine to a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use serde::Serialize;

use crate::api::socket::Connection;

/// The most messages that wait for a client, which is given up if there is one more.
const MAX_WAITING: usize = 16_384;
/// The most bytes of messages that wait for a client, which is given up if there are more: beyond the
/// records of 4096 transfers that end at once.
const MAX_WAITING_BYTES: usize = 16 << 20;
/// While more messages than this wait for a client, it gets no progress notices.
const BUSY_MESSAGES: usize = 64;

/// The way to a client.
#[derive(Clone)]
pub struct Outbox {
    /// Messages to write; after `None` the connection is closed.
    messages: Sender<Option<String>>,
    waiting: Arc<Waiting>,
    connection: Arc<Connection>,
}

/// Messages that are not written yet.
#[derive(Default)]
struct Waiting {
    messages: AtomicUsize,
    bytes: AtomicUsize,
    /// There were too many: the connection is closed.
    given_up: AtomicBool,
}

impl Waiting {
    /// Counts a message more. False: it is one too many.
    fn add(&self, bytes: usize) -> bool {
        let messages = self.messages.fetch_add(1, Ordering::Relaxed) + 1;
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        messages <= MAX_WAITING && bytes <= MAX_WAITING_BYTES
    }

    fn subtract(&self, bytes: usize) {
        self.messages.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Outbox {
    /// With what is to be written to `connection` by a thread of its own.
    pub fn new(connection: &Arc<Connection>) -> (Self, ToWrite) {
        let (messages, to_write) = channel();
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
        let bytes = text.len();
        if !self.waiting.add(bytes) {
            self.waiting.subtract(bytes);
            if !self.waiting.given_up.swap(true, Ordering::Relaxed) {
                tracing::warn!("a client does not read: it is given up");
                self.connection.close();
            }
        } else if self.messages.send(Some(text)).is_err() {
            // Its thread has ended, and with it the connection.
            self.waiting.subtract(bytes);
        }
    }

    /// Whether more messages wait than for a client that wants to know how far things are.
    pub fn is_busy(&self) -> bool {
        self.waiting.messages.load(Ordering::Relaxed) > BUSY_MESSAGES
    }

    /// Closes the connection when all messages have been read.
    pub fn finish(&self) {
        // Fails if the connection has ended already.
        let _ = self.messages.send(None);
    }
}

/// The messages that wait for a client.
pub struct ToWrite {
    messages: Receiver<Option<String>>,
    waiting: Arc<Waiting>,
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
            self.waiting.subtract(message.len());
        }
        self.connection.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::socket::Received;

    #[test]
    fn a_client_that_does_not_read_is_given_up_before_its_answers_take_much_memory() {
        let (daemon, client) = Connection::pair().unwrap();
        let (outbox, to_write) = Outbox::new(&Arc::new(daemon));
        let answer = "x".repeat(60_000);
        for _ in 0..MAX_WAITING_BYTES / answer.len() {
            outbox.send(&answer);
        }
        client.send(b"it is connected", None).unwrap();
        for _ in 0..100 {
            outbox.send(&answer);
        }
        assert!(client.send(b"it is not", None).is_err());
        let kept: usize = to_write
            .messages
            .try_iter()
            .flatten()
            .map(|m| m.len())
            .sum();
        assert!(kept <= MAX_WAITING_BYTES, "{kept}");
    }

    #[test]
    fn a_client_that_reads_gets_all_messages_and_is_not_given_up() {
        let (daemon, client) = Connection::pair().unwrap();
        let (outbox, to_write) = Outbox::new(&Arc::new(daemon));
        let writing = std::thread::spawn(|| to_write.write_all());
        let answer = "x".repeat(60_000);
        let (mut message, mut descriptor) = (Vec::new(), None);
        for _ in 0..2 * MAX_WAITING_BYTES / answer.len() {
            outbox.send(&answer);
            let received = client.receive(&mut message, &mut descriptor);
            assert_eq!(received.unwrap(), Received::Message);
        }
        outbox.finish();
        writing.join().unwrap();
        assert!(!outbox.is_busy());
        let received = client.receive(&mut message, &mut descriptor);
        assert_eq!(received.unwrap(), Received::Closed);
    }
}
