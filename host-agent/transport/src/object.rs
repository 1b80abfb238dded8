//! The object envelope of `docs/wire-format.md`, and where the bytes of an object come from.
//!
//! ```text
//! "EBB1" | name length (16) | content length (64) | SHA-256 of the content (256) | name | content
//! ```

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::splitmix::splitmix64;

const MAGIC: &[u8; 4] = b"EBB1";
const FIXED_BYTES: usize = 4 + 2 + 8 + 32;
/// The longest file name of the usual file systems.
pub const MAX_NAME_BYTES: usize = 255;

/// Bytes that can be read at any offset, and again: retransmissions and repair symbols need them.
pub trait ObjectSource: Send + Sync {
    /// Length in bytes.
    fn len(&self) -> u64;

    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buf` with the bytes from `offset` on. The caller stays within [`len`](Self::len).
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()>;
}

impl ObjectSource for Vec<u8> {
    fn len(&self) -> u64 {
        Vec::len(self) as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(buf.len())?))
            .ok_or(std::io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }
}

/// A reproducible object of any size that needs no memory: word i is a hash of (seed, i).
#[derive(Clone, Copy, Debug)]
pub struct GeneratedSource {
    /// Seed of its content.
    pub seed: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl GeneratedSource {
    fn word(&self, index: u64) -> [u8; 8] {
        splitmix64(self.seed, index).to_le_bytes()
    }
}

impl ObjectSource for GeneratedSource {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        let (index, from) = (offset / 8, (offset % 8) as usize);
        // The end of a word, whole words, and the beginning of one.
        let (first, rest) = buf.split_at_mut(buf.len().min((8 - from) % 8));
        first.copy_from_slice(&self.word(index)[from..][..first.len()]);
        let (words, last) = rest.as_chunks_mut();
        let index = index + u64::from(from != 0);
        for (index, word) in (index..).zip(words.iter_mut()) {
            *word = self.word(index);
        }
        let word = self.word(index + words.len() as u64);
        last.copy_from_slice(&word[..last.len()]);
        Ok(())
    }
}

/// Name, length and hash of the content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnvelopeHeader {
    /// File name of the object: a single path component of at most 255 bytes.
    pub name: String,
    /// Length of the content.
    pub content_bytes: u64,
    /// SHA-256 of the content.
    pub sha256: [u8; 32],
}

impl EnvelopeHeader {
    /// A name is a single path component.
    pub fn check_name(name: &str) -> Result<(), EnvelopeError> {
        let bad = name.is_empty()
            || name.len() > MAX_NAME_BYTES
            || name == "."
            || name == ".."
            || name.contains(['/', '\\', '\0']);
        if bad {
            Err(EnvelopeError::BadName {
                name: name.escape_debug().to_string(),
            })
        } else {
            Ok(())
        }
    }

    /// Reads the content once for its hash.
    pub fn of(name: &str, content: &dyn ObjectSource) -> Result<Self, EnvelopeError> {
        EnvelopeHeader::check_name(name)?;
        let mut hash = ContentHash::default();
        loop {
            if let Some(sha256) = hash.read_on(content, u64::MAX)? {
                return Ok(EnvelopeHeader {
                    name: name.to_owned(),
                    content_bytes: content.len(),
                    sha256,
                });
            }
        }
    }

    /// Looks at the first bytes of an envelope. `None`: more of them are needed.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, EnvelopeError> {
        let Some(fixed) = bytes.first_chunk::<FIXED_BYTES>() else {
            let n = bytes.len().min(MAGIC.len());
            return if bytes[..n] == MAGIC[..n] {
                Ok(None)
            } else {
                Err(EnvelopeError::NotAnEnvelope)
            };
        };
        if &fixed[..4] != MAGIC {
            return Err(EnvelopeError::NotAnEnvelope);
        }
        let name_bytes = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        if name_bytes > MAX_NAME_BYTES {
            return Err(EnvelopeError::BadName {
                name: format!("<{name_bytes} bytes>"),
            });
        }
        bytes
            .get(..FIXED_BYTES + name_bytes)
            .map(parse_head)
            .transpose()
    }

    /// How many bytes precede the content.
    pub fn head_bytes(&self) -> usize {
        FIXED_BYTES + self.name.len()
    }

    /// The bytes that precede the content.
    pub fn encode(&self) -> Result<Vec<u8>, EnvelopeError> {
        EnvelopeHeader::check_name(&self.name)?;
        let mut out = Vec::with_capacity(FIXED_BYTES + self.name.len());
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&(self.name.len() as u16).to_be_bytes());
        out.extend_from_slice(&self.content_bytes.to_be_bytes());
        out.extend_from_slice(&self.sha256);
        out.extend_from_slice(self.name.as_bytes());
        Ok(out)
    }
}

/// The hash of a content, a part at a time, so that several can be made in turns.
#[derive(Default)]
pub struct ContentHash {
    hash: Sha256,
    offset: u64,
}

impl ContentHash {
    /// Reads up to `most` bytes more. The hash, if that was the end.
    pub fn read_on(
        &mut self,
        content: &dyn ObjectSource,
        most: u64,
    ) -> Result<Option<[u8; 32]>, EnvelopeError> {
        let end = content.len().min(self.offset.saturating_add(most));
        let mut buf = vec![0; (end - self.offset).min(256 << 10) as usize];
        while self.offset < end {
            let n = (end - self.offset).min(buf.len() as u64) as usize;
            content
                .read_at(self.offset, &mut buf[..n])
                .map_err(|error| EnvelopeError::Read {
                    offset: self.offset,
                    error: error.to_string(),
                })?;
            self.hash.update(&buf[..n]);
            self.offset += n as u64;
        }
        let is_all = self.offset == content.len();
        Ok(is_all.then(|| self.hash.finalize_reset().into()))
    }
}

/// An envelope in front of the source of its content.
pub struct Envelope {
    header: EnvelopeHeader,
    head: Vec<u8>,
    content: Arc<dyn ObjectSource>,
}

impl Envelope {
    /// Reads the content once for its hash.
    pub fn new(name: &str, content: Arc<dyn ObjectSource>) -> Result<Self, EnvelopeError> {
        Self::with_header(EnvelopeHeader::of(name, &*content)?, content)
    }

    /// For content whose hash is known.
    pub fn with_header(
        header: EnvelopeHeader,
        content: Arc<dyn ObjectSource>,
    ) -> Result<Self, EnvelopeError> {
        let head = header.encode()?;
        Ok(Envelope {
            header,
            head,
            content,
        })
    }

    /// Name, length and hash of the content.
    pub fn header(&self) -> &EnvelopeHeader {
        &self.header
    }
}

impl ObjectSource for Envelope {
    fn len(&self) -> u64 {
        self.head.len() as u64 + self.content.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        let head = self
            .head
            .get(usize::try_from(offset).unwrap_or(usize::MAX)..)
            .unwrap_or(&[]);
        let n = head.len().min(buf.len());
        let (from_head, from_content) = buf.split_at_mut(n);
        from_head.copy_from_slice(&head[..n]);
        if from_content.is_empty() {
            return Ok(());
        }
        self.content
            .read_at(offset + n as u64 - self.head.len() as u64, from_content)
    }
}

/// Takes an envelope apart as its bytes arrive, and checks the hash.
#[derive(Default)]
pub struct EnvelopeReader {
    head: Vec<u8>,
    header: Option<EnvelopeHeader>,
    hash: Sha256,
    received: u64,
}

impl EnvelopeReader {
    /// A reader before the first byte.
    pub fn new() -> Self {
        Self::default()
    }

    /// Known once enough bytes have arrived.
    pub fn header(&self) -> Option<&EnvelopeHeader> {
        self.header.as_ref()
    }

    /// Takes the next bytes of the stream; returns those of them that are content.
    pub fn push<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], EnvelopeError> {
        let mut rest = bytes;
        while self.header.is_none() {
            // First as much as every envelope has, then what this one says it has.
            let want = match self.head.len() {
                0..FIXED_BYTES => FIXED_BYTES,
                _ => FIXED_BYTES + usize::from(u16::from_be_bytes([self.head[4], self.head[5]])),
            };
            rest = self.fill(rest, want);
            self.header = EnvelopeHeader::read(&self.head)?;
            if self.head.len() < want {
                return Ok(&[]);
            }
        }
        let content_bytes = self.header.as_ref().map_or(0, |h| h.content_bytes);
        if rest.len() as u64 > content_bytes - self.received {
            return Err(EnvelopeError::TooLong { content_bytes });
        }
        self.hash.update(rest);
        self.received += rest.len() as u64;
        Ok(rest)
    }

    /// The stream has ended.
    pub fn finish(self) -> Result<EnvelopeHeader, EnvelopeError> {
        let header = self.header.ok_or(EnvelopeError::NotAnEnvelope)?;
        if self.received != header.content_bytes {
            return Err(EnvelopeError::TooShort {
                content_bytes: header.content_bytes,
                received: self.received,
            });
        }
        if <[u8; 32]>::from(self.hash.finalize()) != header.sha256 {
            return Err(EnvelopeError::HashMismatch);
        }
        Ok(header)
    }

    /// Moves bytes to `head` until it has `want` of them.
    fn fill<'a>(&mut self, bytes: &'a [u8], want: usize) -> &'a [u8] {
        let n = want.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..n]);
        &bytes[n..]
    }
}

fn parse_head(head: &[u8]) -> Result<EnvelopeHeader, EnvelopeError> {
    let (fixed, name) = head
        .split_at_checked(FIXED_BYTES)
        .ok_or(EnvelopeError::NotAnEnvelope)?;
    let name = std::str::from_utf8(name).map_err(|_| EnvelopeError::BadName {
        name: name.escape_ascii().to_string(),
    })?;
    EnvelopeHeader::check_name(name)?;
    let mut content_bytes = [0; 8];
    content_bytes.copy_from_slice(&fixed[6..14]);
    let mut sha256 = [0; 32];
    sha256.copy_from_slice(&fixed[14..]);
    Ok(EnvelopeHeader {
        name: name.to_owned(),
        content_bytes: u64::from_be_bytes(content_bytes),
        sha256,
    })
}

/// Why an object is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
pub enum EnvelopeError {
    #[error("the stream is no object envelope (it does not start with \"EBB1\" or ends too soon)")]
    NotAnEnvelope,
    #[error("object name `{name}` is not a single path component of 1..255 bytes")]
    BadName { name: String },
    #[error(
        "the stream goes on after the {content_bytes} bytes of content that its envelope announces"
    )]
    TooLong { content_bytes: u64 },
    #[error("the stream ended after {received} of the {content_bytes} bytes of content")]
    TooShort { content_bytes: u64, received: u64 },
    #[error("the SHA-256 of the content differs from the one in the envelope")]
    HashMismatch,
    #[error("the request for an object is damaged: {what}")]
    BadRequest { what: String },
    #[error("cannot read the object at byte {offset}: {error}")]
    Read { offset: u64, error: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(envelope: &Envelope) -> Vec<u8> {
        let mut bytes = vec![0; envelope.len() as usize];
        envelope.read_at(0, &mut bytes).unwrap();
        bytes
    }

    fn generated(bytes: u64) -> Envelope {
        Envelope::new("a.bin", Arc::new(GeneratedSource { seed: 7, bytes })).unwrap()
    }

    fn read(bytes: &[u8], step: usize) -> Result<(EnvelopeHeader, Vec<u8>), EnvelopeError> {
        let mut reader = EnvelopeReader::new();
        let mut content = Vec::new();
        for chunk in bytes.chunks(step) {
            content.extend_from_slice(reader.push(chunk)?);
        }
        Ok((reader.finish()?, content))
    }

    #[test]
    fn an_envelope_survives_any_fragmentation() {
        let envelope = generated(1000);
        let bytes = stream(&envelope);
        assert_eq!(bytes.len(), FIXED_BYTES + 5 + 1000);
        for step in [1, 7, 51, 52, 1432, 5000] {
            let (header, content) = read(&bytes, step).unwrap();
            assert_eq!(&header, envelope.header());
            assert_eq!(content, bytes[FIXED_BYTES + 5..]);
        }
    }

    #[test]
    fn reading_at_any_offset_gives_the_same_bytes() {
        let envelope = generated(100);
        let bytes = stream(&envelope);
        for from in 0..bytes.len() {
            for most in [0, 1, 5, 13, 30] {
                let mut part = vec![0; (bytes.len() - from).min(most)];
                envelope.read_at(from as u64, &mut part).unwrap();
                assert_eq!(part, bytes[from..from + part.len()]);
            }
        }
    }

    #[test]
    fn an_empty_object_is_an_object() {
        assert_eq!(read(&stream(&generated(0)), 10).unwrap().0.content_bytes, 0);
    }

    #[test]
    fn what_is_not_the_object_is_refused() {
        let good = stream(&generated(100));
        let mut flipped = good.clone();
        flipped[120] ^= 1;
        assert_eq!(read(&flipped, 64), Err(EnvelopeError::HashMismatch));
        assert_eq!(
            read(&good[..140], 64),
            Err(EnvelopeError::TooShort {
                content_bytes: 100,
                received: 89
            })
        );
        let longer = [&good[..], b"x"].concat();
        assert_eq!(
            read(&longer, 64),
            Err(EnvelopeError::TooLong { content_bytes: 100 })
        );
        assert_eq!(
            read(b"GET / HTTP/1.1\r\n\r\n", 64),
            Err(EnvelopeError::NotAnEnvelope)
        );
        assert_eq!(read(&[b'x'; 100], 64), Err(EnvelopeError::NotAnEnvelope));
        assert_eq!(read(&good[..20], 64), Err(EnvelopeError::NotAnEnvelope));
    }

    #[test]
    fn a_name_cannot_leave_the_directory() {
        for name in [
            "",
            ".",
            "..",
            "../x",
            "/etc/passwd",
            "a\\b",
            "a\0b",
            &"n".repeat(256),
        ] {
            let error = Envelope::new(name, Arc::new(Vec::new())).err();
            assert!(
                matches!(error, Some(EnvelopeError::BadName { .. })),
                "{name:?}"
            );
        }
        let mut bytes = stream(&generated(0));
        let at = bytes.len() - 5;
        bytes[at..].copy_from_slice(b"../xx");
        assert!(matches!(
            read(&bytes, 9),
            Err(EnvelopeError::BadName { .. })
        ));
    }
}
