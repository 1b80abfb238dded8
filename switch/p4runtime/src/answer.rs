//! The answer to a Read on its way to the client. It is made at the switch's pace, since no write comes
//! between its parts, and the client may well write before it has read all of it (finsy and
//! p4runtime-shell delete what they read). So what a slow client has not taken waits here: the first
//! parts as messages, the others encoded, which is a tenth of the memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prost::Message;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

/// Parts of an answer that wait as messages, which take about 20 MB.
const UNPACKED: usize = 128;
/// Bytes that wait encoded in all answers of a device together, enough for ten million entries.
const PACKED_BYTES: usize = 512 << 20;

/// How many bytes of a device's answers wait encoded for their clients.
#[derive(Debug, Default)]
pub struct Waiting(AtomicUsize);

impl Waiting {
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The bytes of one part, or of a whole answer, which are counted for as long as it waits.
pub struct Share {
    bytes: usize,
    of: Arc<Waiting>,
}

impl Share {
    pub fn take(of: &Arc<Waiting>, bytes: usize) -> Result<Self, Status> {
        let before = of.0.fetch_add(bytes, Ordering::Relaxed);
        let share = Self {
            bytes,
            of: of.clone(),
        };
        match before + bytes > PACKED_BYTES {
            false => Ok(share),
            true => Err(Status::resource_exhausted(format!(
                "{before} bytes of answers wait for clients that do not fetch them; read the answers \
                 that you asked for, or ask for less at once"
            ))),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

enum Part<M> {
    Message(M, OwnedSemaphorePermit),
    Packed(Vec<u8>, Share),
}

impl<M: Message + Default> Part<M> {
    fn unpack(self) -> Result<M, Status> {
        match self {
            Part::Message(response, room) => {
                drop(room);
                Ok(response)
            }
            Part::Packed(bytes, share) => {
                drop(share);
                M::decode(bytes.as_slice())
                    .map_err(|e| Status::internal(format!("a part of the answer is damaged: {e}")))
            }
        }
    }
}

/// An answer of messages `M`.
pub struct Answer<M> {
    parts: UnboundedSender<Result<Part<M>, Status>>,
    room: Arc<Semaphore>,
    waiting: Arc<Waiting>,
}

impl<M: Message + Default> Answer<M> {
    /// An answer, and the stream of responses that the client gets.
    pub fn new(
        all: Arc<Waiting>,
    ) -> (
        Self,
        impl Stream<Item = Result<M, Status>> + Send + Unpin + use<M>,
    ) {
        let (parts, waiting) = unbounded_channel();
        let waiting = UnboundedReceiverStream::new(waiting);
        let answer = Self {
            parts,
            room: Arc::new(Semaphore::new(UNPACKED)),
            waiting: all,
        };
        (answer, waiting.map(|part| part.and_then(Part::unpack)))
    }

    pub fn part(&self, response: M) -> Result<(), Status> {
        let part = match self.room.clone().try_acquire_owned() {
            Ok(room) => Part::Message(response, room),
            Err(_) => {
                let share = Share::take(&self.waiting, response.encoded_len())?;
                Part::Packed(response.encode_to_vec(), share)
            }
        };
        self.send(Ok(part))
    }

    /// Returns when nobody reads the answer any more.
    pub async fn closed(&self) {
        self.parts.closed().await;
    }

    /// Ends the answer with an error.
    pub fn fail(self, status: Status) {
        // Nobody may be listening any more.
        let _ = self.send(Err(status));
    }

    fn send(&self, part: Result<Part<M>, Status>) -> Result<(), Status> {
        let sent = self.parts.send(part);
        sent.map_err(|_| Status::cancelled("nobody reads the answer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::p4;
    use crate::proto::p4::ReadResponse;

    fn response(n: i32) -> ReadResponse {
        let entry = p4::TableEntry {
            priority: n,
            ..Default::default()
        };
        let entity = Some(p4::entity::Entity::TableEntry(entry));
        ReadResponse {
            entities: vec![p4::Entity { entity }],
        }
    }

    #[tokio::test]
    async fn all_parts_come_in_order_however_late_they_are_taken() {
        let (answer, mut taken) = Answer::new(Arc::default());
        let last = 2 * UNPACKED as i32;
        for n in 0..last {
            answer.part(response(n)).unwrap();
        }
        for n in 0..last {
            assert_eq!(taken.next().await.unwrap().unwrap(), response(n));
        }
        answer.part(response(last)).unwrap();
        answer.fail(Status::unknown("some failed"));
        assert_eq!(taken.next().await.unwrap().unwrap(), response(last));
        assert!(taken.next().await.unwrap().is_err());
        assert!(taken.next().await.is_none());
    }

    #[test]
    fn without_a_client_there_is_no_more_to_do() {
        let (answer, taken) = Answer::new(Arc::default());
        drop(taken);
        assert!(answer.part(response(1)).is_err());
    }

    #[tokio::test]
    async fn what_nobody_fetches_is_bounded_for_all_answers_together() {
        let all = Arc::<Waiting>::default();
        all.0.store(PACKED_BYTES - 100, Ordering::Relaxed);
        let (answer, mut taken) = Answer::new(all.clone());
        for n in 0..UNPACKED as i32 {
            answer.part(response(n)).unwrap();
        }
        let mut added = 0;
        while answer.part(response(1)).is_ok() {
            added += 1;
        }
        assert!((1..100).contains(&added), "{added}");
        while taken.next().await.is_some() {
            added -= 1;
            if added == -(UNPACKED as i32) {
                break;
            }
        }
        assert_eq!(all.0.load(Ordering::Relaxed), PACKED_BYTES - 100);
        answer.part(response(1)).unwrap();
    }
}
