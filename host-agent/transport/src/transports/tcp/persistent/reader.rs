//! The peer's stream, read as far as the application takes objects, and cut into items.

use super::super::connection::Connection;
use super::frame::Frame;
use super::inbox::{Found, Inbox};
use crate::buffers::BufferPool;

/// One item of the peer's stream.
pub(super) enum Item {
    /// A frame.
    Frame(Frame),
    /// Bytes of the object that the last frame announced.
    Bytes {
        /// The bytes, in a buffer of the pool.
        bytes: Vec<u8>,
        /// These are the last of the object.
        last: bool,
    },
    /// A refusal with its reason, fit for a terminal.
    Refused {
        /// Number of the object.
        number: u32,
        /// The peer's reason.
        reason: String,
    },
}

/// The receiving side of the stream.
pub(super) struct Reader {
    inbox: Inbox,
    /// Bytes received but not parsed, from `parsed` on, because too many objects are unconfirmed.
    unparsed: Vec<u8>,
    /// Offset in `unparsed` up to which it has been parsed.
    parsed: usize,
}

impl Reader {
    pub(super) fn new() -> Self {
        Reader {
            inbox: Inbox::new(),
            unparsed: Vec::new(),
            parsed: 0,
        }
    }

    /// Offset in the peer's stream up to which it has been parsed.
    pub(super) fn offset(&self) -> u64 {
        self.inbox.taken()
    }

    /// Whether the peer stopped within a frame or its body.
    pub(super) fn is_within(&self) -> bool {
        self.inbox.is_within()
    }

    /// Whether everything that has arrived has been parsed.
    pub(super) fn has_all(&self, connection: &Connection) -> bool {
        connection.unread_bytes() == 0 && self.unparsed.is_empty()
    }

    /// Skips the rest of the object that is arriving.
    pub(super) fn discard(&mut self) {
        self.inbox.discard();
    }

    /// The next item; none if more bytes must arrive first. The error says what is no frame.
    pub(super) fn next(
        &mut self,
        connection: &mut Connection,
        buffers: &mut BufferPool,
    ) -> Result<Option<Item>, String> {
        while !self.has_all(connection) {
            if self.unparsed.is_empty() {
                self.unparsed = buffers.take();
                connection.read(&mut self.unparsed);
                self.parsed = 0;
            }
            if let Some(item) = self.parse(buffers)? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// The next item in what has been read.
    fn parse(&mut self, buffers: &mut BufferPool) -> Result<Option<Item>, String> {
        let bytes = std::mem::take(&mut self.unparsed);
        let mut rest = &bytes[self.parsed..];
        let found = self.inbox.next(&mut rest)?;
        let end = bytes.len() - rest.len();
        self.parsed = end;
        let item = match found {
            // All of it is of one object: it need not be copied.
            Some(Found::Bytes { count, last }) if count == bytes.len() => {
                return Ok(Some(Item::Bytes { bytes, last }));
            }
            Some(Found::Bytes { count, last }) => {
                let mut of_object = buffers.take();
                of_object.extend_from_slice(&bytes[end - count..end]);
                let bytes = of_object;
                Some(Item::Bytes { bytes, last })
            }
            Some(Found::Frame(frame)) => Some(Item::Frame(frame)),
            Some(Found::Refused { number, reason }) => Some(Item::Refused { number, reason }),
            None => None,
        };
        if end == bytes.len() {
            buffers.put(bytes);
        } else {
            self.unparsed = bytes;
        }
        Ok(item)
    }
}
