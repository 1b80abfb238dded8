//! The source and sink of a simulated host's objects. Their content follows from their transfers,
//! so nothing is stored, and content is checked as it arrives.

use std::sync::Arc;

use ebb_host::{
    ClientId, Content, Error, ErrorCode, Key, Prepared, Pushed, Storage, Task, Unusable, Update,
};
use ebb_transport::StreamBytes;
use ebb_transport::object::EnvelopeHeader;
use ebb_workload::Transfer;

use crate::catalog::Catalog;

/// Makes objects and checks them.
pub struct Objects {
    /// Common knowledge of the objects.
    pub catalog: Arc<Catalog>,
}

/// An object that is being received.
pub struct Sink {
    /// Its transfer; `None` if the object is of another run.
    transfer: Option<u64>,
    /// Length of its content in bytes.
    content_bytes: u64,
    /// Bytes of the envelope that have not arrived.
    envelope_left: usize,
    /// Bytes of the content that have arrived.
    received: u64,
    /// Whether all of these were right.
    intact: bool,
}

impl Storage for Objects {
    type Source = Arc<Transfer>;
    /// Objects are kept nowhere.
    type Target = ();
    type Listening = ();
    type Sink = Sink;

    fn prepare(&mut self, task: Task<Arc<Transfer>>) -> Option<Prepared> {
        Some(match task.content {
            Content::None => Ok(None),
            Content::Ready(envelope) => Ok(Some(envelope)),
            Content::From(transfer) => match self.catalog.envelope(&transfer) {
                Ok(envelope) => Ok(Some(Arc::new(envelope))),
                Err(error) => Err(Error::new(ErrorCode::Io, error)),
            },
        })
    }

    fn cancel(&mut self, _ticket: u64) {}

    fn find(&self, _name: &str) -> Option<(ClientId, Arc<Transfer>)> {
        None
    }

    fn target(&mut self, (): &()) -> Option<()> {
        Some(())
    }

    fn open(&mut self, _: Key, _: Option<()>, header: &EnvelopeHeader) -> Result<Sink, Unusable> {
        Ok(Sink {
            transfer: self.catalog.names.transfer(&header.name),
            content_bytes: header.content_bytes,
            envelope_left: header.head_bytes(),
            received: 0,
            intact: true,
        })
    }

    fn push(&mut self, _: Key, sink: &mut Sink, bytes: StreamBytes) -> Pushed {
        let skipped = sink.envelope_left.min(bytes.len());
        sink.envelope_left -= skipped;
        let content = &bytes[skipped..];
        if let Some(transfer) = sink.transfer {
            sink.intact &= self.catalog.is_intact(transfer, sink.received, content);
        }
        sink.received += content.len() as u64;
        Pushed {
            pause: false,
            buffer: Some(bytes),
        }
    }

    fn decide(&mut self, _: Key, (): ()) {}

    fn end(&mut self, _: Key, sink: &mut Sink) -> Option<Update> {
        let right = sink.intact && sink.received == sink.content_bytes;
        Some(match right {
            true => Update::Done,
            false => Update::Failed("the content differs from what was sent".into()),
        })
    }

    fn close(&mut self, _: Key) {}
}
