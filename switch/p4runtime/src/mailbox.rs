//! Messages that wait for one client, bounded in number and in bytes: a client that does not read must not take the
//! memory of the machine, whatever the size of the packets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

use crate::proto::p4::StreamMessageResponse;

pub type Outgoing = Result<StreamMessageResponse, Status>;

/// Messages that there is room for beyond the limit: the error that ends the stream.
const LAST_WORD: usize = 1;

/// Limits of the messages that wait.
#[derive(Clone, Copy)]
pub struct Limits {
    pub messages: usize,
    /// A single message may be larger.
    pub bytes: usize,
}

/// Limits of the mailbox of a controller. Beyond them, packets and digests are dropped; a controller that misses an
/// arbitration notice would be wrong about its rights, so its stream ends.
pub const OF_CONTROLLER: Limits = Limits {
    messages: 4096,
    bytes: 16 << 20,
};
/// Most bytes that may wait when an error for a message of the controller is added.
pub const ERRORS_BYTES: usize = 64 << 10;

pub struct Mailbox<T> {
    sender: mpsc::Sender<(usize, Result<T, Status>)>,
    waiting: Arc<AtomicUsize>,
    limits: Limits,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    Full,
    /// Nobody reads any more.
    Closed,
}

impl<T: Message + 'static> Mailbox<T> {
    /// A mailbox, and the stream of messages that its client gets.
    pub fn new(
        limits: Limits,
    ) -> (
        Self,
        impl Stream<Item = Result<T, Status>> + Send + Unpin + use<T>,
    ) {
        let (sender, receiver) = mpsc::channel(limits.messages + LAST_WORD);
        let waiting = Arc::new(AtomicUsize::new(0));
        let mailbox = Self {
            sender,
            waiting: waiting.clone(),
            limits,
        };
        let taken = ReceiverStream::new(receiver).map(move |(bytes, message)| {
            waiting.fetch_sub(bytes, Ordering::Relaxed);
            message
        });
        (mailbox, taken)
    }

    pub fn try_send(&self, message: T) -> Result<(), Refused> {
        self.try_send_if(message, |before, bytes| {
            before == 0 || before + bytes <= self.limits.bytes
        })
    }

    /// Sends an error that the client has earned, unless others wait already.
    pub fn try_send_error(&self, message: T) -> Result<(), Refused> {
        self.try_send_if(message, |before, bytes| before + bytes <= ERRORS_BYTES)
    }

    /// Whether there is no room for another message, however short.
    pub fn is_full(&self) -> bool {
        let bytes = self.waiting.load(Ordering::Relaxed);
        self.sender.capacity() <= LAST_WORD || bytes >= self.limits.bytes
    }

    /// Whether nobody reads any more.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    fn try_send_if(
        &self,
        message: T,
        is_room: impl FnOnce(usize, usize) -> bool,
    ) -> Result<(), Refused> {
        let bytes = message.encoded_len();
        let before = self.waiting.fetch_add(bytes, Ordering::Relaxed);
        let full = self.sender.capacity() <= LAST_WORD || !is_room(before, bytes);
        let sent = match full && !self.sender.is_closed() {
            true => Err(Refused::Full),
            false => self
                .sender
                .try_send((bytes, Ok(message)))
                .map_err(|e| match e {
                    mpsc::error::TrySendError::Full(_) => Refused::Full,
                    mpsc::error::TrySendError::Closed(_) => Refused::Closed,
                }),
        };
        if sent.is_err() {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        }
        sent
    }

    /// Ends the stream with an error, after what waits.
    pub fn fail(self, error: Status) {
        let _ = self.sender.try_send((0, Err(error)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::p4::PacketIn;
    use crate::proto::p4::stream_message_response::Update;

    fn packet(bytes: usize) -> StreamMessageResponse {
        let packet = PacketIn {
            payload: vec![0; bytes],
            ..Default::default()
        };
        StreamMessageResponse {
            update: Some(Update::Packet(packet)),
        }
    }

    #[tokio::test]
    async fn it_is_full_by_messages_or_by_bytes_and_has_room_again_when_read() {
        for (bytes, expected) in [(10, OF_CONTROLLER.messages), (1 << 20, 15)] {
            let (mailbox, mut taken) = Mailbox::new(OF_CONTROLLER);
            let sent = (0..).take_while(|_| mailbox.try_send(packet(bytes)).is_ok());
            assert_eq!(sent.count(), expected);
            assert_eq!(mailbox.try_send(packet(bytes)), Err(Refused::Full));
            assert_eq!(taken.next().await.unwrap().unwrap(), packet(bytes));
            assert_eq!(mailbox.try_send(packet(bytes)), Ok(()));
            assert_eq!(mailbox.try_send(packet(bytes)), Err(Refused::Full));
            // However full it is, the reason for its end comes.
            mailbox.fail(Status::aborted("why"));
            let last = taken.filter_map(Result::err).next().await;
            assert_eq!(last.map(|status| status.code()), Some(tonic::Code::Aborted));
        }
    }

    #[tokio::test]
    async fn a_message_beyond_the_bound_comes_alone() {
        let (mailbox, mut taken) = Mailbox::new(OF_CONTROLLER);
        assert_eq!(mailbox.try_send(packet(2 * OF_CONTROLLER.bytes)), Ok(()));
        assert_eq!(mailbox.try_send(packet(1)), Err(Refused::Full));
        assert!(taken.next().await.is_some());
        assert_eq!(mailbox.try_send(packet(1)), Ok(()));
        drop(taken);
        assert_eq!(mailbox.try_send(packet(1)), Err(Refused::Closed));
    }
    #[tokio::test]
    async fn errors_wait_in_a_small_part_of_it_and_leave_room_for_the_rest() {
        let (mailbox, mut taken) = Mailbox::new(OF_CONTROLLER);
        assert_eq!(
            mailbox.try_send_error(packet(ERRORS_BYTES)),
            Err(Refused::Full)
        );
        let sent = (0..1000).take_while(|_| mailbox.try_send_error(packet(1 << 10)).is_ok());
        assert!((60..64).contains(&sent.count()));
        assert_eq!(mailbox.try_send(packet(1 << 20)), Ok(()));
        for _ in 0..64 {
            assert!(taken.next().await.is_some());
        }
        assert_eq!(mailbox.try_send_error(packet(1 << 10)), Ok(()));
    }
}
