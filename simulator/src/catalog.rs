//! Common knowledge of the hosts of a run: each other's addresses, and the content of the objects.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use ebb_host::{ObjectNames, TrafficTransports};
use ebb_transport::object::ObjectSource;
use ebb_transport::object::{Envelope, EnvelopeError, EnvelopeHeader, GeneratedSource};
use ebb_units::Duration;
use ebb_workload::Transfer;
use serde::Deserialize;

/// The content of objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// All bytes are zero, which costs least.
    #[default]
    Zeros,
    /// The bytes differ everywhere, so that an object which is put together wrongly is noticed.
    Pattern,
}

/// Common knowledge of the hosts of a run.
pub struct Catalog {
    /// The transports of all hosts.
    pub transports: TrafficTransports,
    /// Addresses of the hosts, by their numbers in the workload.
    pub addresses: Vec<Ipv4Addr>,
    /// Names of the objects, the same that `ebb-agent bench` uses.
    pub names: ObjectNames,
    /// Content of the objects.
    pub content: Content,
    /// Time that a fetch waits for its first byte.
    pub patience: Duration,
}

impl Catalog {
    /// The stream of a transfer, the same at every host that has the object. Its hash is zero,
    /// because receivers know what to expect.
    pub fn envelope(&self, transfer: &Transfer) -> Result<Envelope, EnvelopeError> {
        let header = EnvelopeHeader {
            name: self.names.of(transfer.id),
            content_bytes: transfer.bytes,
            sha256: [0; 32],
        };
        let content: Arc<dyn ObjectSource> = match self.content {
            Content::Zeros => Arc::new(Zeros(transfer.bytes)),
            Content::Pattern => Arc::new(pattern(transfer.id, transfer.bytes)),
        };
        Envelope::with_header(header, content)
    }

    /// Whether these bytes stand at `offset` in the content of a transfer.
    pub fn is_intact(&self, transfer: u64, offset: u64, bytes: &[u8]) -> bool {
        match self.content {
            Content::Zeros => bytes.iter().fold(0, |all, byte| all | byte) == 0,
            Content::Pattern => {
                let mut expected = vec![0; bytes.len()];
                let source = pattern(transfer, offset + bytes.len() as u64);
                source.read_at(offset, &mut expected).is_ok() && expected == bytes
            }
        }
    }
}

/// Content of [`Content::Pattern`] for a transfer.
fn pattern(seed: u64, bytes: u64) -> GeneratedSource {
    GeneratedSource { seed, bytes }
}

/// This many zero bytes.
struct Zeros(u64);

impl ObjectSource for Zeros {
    fn len(&self) -> u64 {
        self.0
    }

    fn read_at(&self, _: u64, buf: &mut [u8]) -> io::Result<()> {
        buf.fill(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog(content: Content) -> Catalog {
        Catalog {
            transports: ebb_transport::TransportKind::Ndp.into(),
            addresses: Vec::new(),
            names: ObjectNames::new(0),
            content,
            patience: Duration::ZERO,
        }
    }

    #[test]
    fn a_wrong_byte_is_found() {
        for content in [Content::Zeros, Content::Pattern] {
            let catalog = catalog(content);
            let mut bytes = match content {
                Content::Zeros => vec![0; 100],
                Content::Pattern => {
                    let mut bytes = vec![0; 100];
                    pattern(3, 200).read_at(50, &mut bytes).unwrap();
                    bytes
                }
            };
            assert!(catalog.is_intact(3, 50, &bytes));
            bytes[99] ^= 1;
            assert!(!catalog.is_intact(3, 50, &bytes));
        }
        assert!(!catalog(Content::Pattern).is_intact(3, 51, &[0; 8]));
    }
}
