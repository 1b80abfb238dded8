//! The beginning of a stream: an object, a request to send one, or the answer that there is none.
//! Formats: `docs/wire-format.md`.

use crate::object::{EnvelopeError, EnvelopeHeader, MAX_NAME_BYTES};

const REQUEST_MAGIC: &[u8; 4] = b"EBBF";
const REFUSAL_MAGIC: &[u8; 4] = b"EBBE";
const REQUEST_VERSION: u8 = 1;
const REQUEST_FIXED_BYTES: usize = 4 + 1 + 1 + 2 + 4 + 1 + 1 + 2;
const REFUSAL_FIXED_BYTES: usize = 4 + 2 + 2;
/// More of a refusal's sentence is cut off.
pub const MAX_REFUSAL_BYTES: usize = 512;
/// As many as the header's 4 bits can say.
pub const MAX_SENDERS: u8 = 15;

/// Asks the receiver of this stream to send an object to the address that the request came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchRequest {
    /// Name of the object.
    pub name: String,
    /// Where the object is to be sent.
    pub reply_port: u16,
    /// 0 (normal) to 7 (most urgent).
    pub priority: u8,
    /// Id of the many-to-one session; 0 if `senders` is 1.
    pub session: u32,
    /// 0-based, below `senders`.
    pub sender: u8,
    /// 1..=15. With 1 the object comes as a session of its own.
    pub senders: u8,
}

impl FetchRequest {
    /// Bytes of the request. Fails if the name is not a single path component.
    pub fn encode(&self) -> Result<Vec<u8>, EnvelopeError> {
        EnvelopeHeader::check_name(&self.name)?;
        let mut out = Vec::with_capacity(REQUEST_FIXED_BYTES + self.name.len());
        out.extend_from_slice(REQUEST_MAGIC);
        out.extend_from_slice(&[REQUEST_VERSION, self.priority]);
        out.extend_from_slice(&self.reply_port.to_be_bytes());
        out.extend_from_slice(&self.session.to_be_bytes());
        out.extend_from_slice(&[self.sender, self.senders]);
        out.extend_from_slice(&(self.name.len() as u16).to_be_bytes());
        out.extend_from_slice(self.name.as_bytes());
        Ok(out)
    }

    fn parse(bytes: &[u8]) -> Result<Option<Self>, EnvelopeError> {
        let Some(fixed) = bytes.first_chunk::<REQUEST_FIXED_BYTES>() else {
            return Ok(None);
        };
        let &[
            _,
            _,
            _,
            _,
            version,
            priority,
            p0,
            p1,
            s0,
            s1,
            s2,
            s3,
            sender,
            senders,
            n0,
            n1,
        ] = fixed;
        let bad = |what: String| Err(EnvelopeError::BadRequest { what });
        if version != REQUEST_VERSION {
            return bad(format!("version {version}, known is {REQUEST_VERSION}"));
        }
        if senders == 0 || senders > MAX_SENDERS || sender >= senders {
            return bad(format!("sender {sender} of {senders}"));
        }
        let reply_port = u16::from_be_bytes([p0, p1]);
        if reply_port == 0 {
            return bad("reply port 0".to_owned());
        }
        let Some(name) = rest(
            &bytes[REQUEST_FIXED_BYTES..],
            u16::from_be_bytes([n0, n1]),
            MAX_NAME_BYTES,
        )?
        else {
            return Ok(None);
        };
        let name = std::str::from_utf8(name).map_err(|_| EnvelopeError::BadName {
            name: name.escape_ascii().to_string(),
        })?;
        EnvelopeHeader::check_name(name)?;
        Ok(Some(FetchRequest {
            name: name.to_owned(),
            reply_port,
            priority: priority.min(7),
            session: u32::from_be_bytes([s0, s1, s2, s3]),
            sender,
            senders,
        }))
    }
}

/// Why a request is not served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusalCode {
    /// The server offers no object of this name.
    Unknown = 1,
    /// The server serves as many as it may.
    Busy = 2,
    /// The server has it and cannot send it.
    Unreadable = 3,
}

impl RefusalCode {
    /// A code of a later version is one more reason not to get the object.
    fn of(code: u16) -> Self {
        match code {
            1 => RefusalCode::Unknown,
            2 => RefusalCode::Busy,
            _ => RefusalCode::Unreadable,
        }
    }
}

/// The answer to a request that is not served, sent to its reply port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Kind of refusal.
    pub code: RefusalCode,
    /// For people.
    pub message: String,
}

impl Refusal {
    /// Bytes of the refusal; a message that is too long is cut.
    pub fn encode(&self) -> Vec<u8> {
        let mut end = self.message.len().min(MAX_REFUSAL_BYTES);
        while !self.message.is_char_boundary(end) {
            end -= 1;
        }
        let message = &self.message.as_bytes()[..end];
        let mut out = Vec::with_capacity(REFUSAL_FIXED_BYTES + message.len());
        out.extend_from_slice(REFUSAL_MAGIC);
        out.extend_from_slice(&(self.code as u16).to_be_bytes());
        out.extend_from_slice(&(message.len() as u16).to_be_bytes());
        out.extend_from_slice(message);
        out
    }

    fn parse(bytes: &[u8]) -> Result<Option<Self>, EnvelopeError> {
        let Some(&[_, _, _, _, c0, c1, n0, n1]) = bytes.first_chunk::<REFUSAL_FIXED_BYTES>() else {
            return Ok(None);
        };
        let message = rest(
            &bytes[REFUSAL_FIXED_BYTES..],
            u16::from_be_bytes([n0, n1]),
            MAX_REFUSAL_BYTES,
        )?;
        Ok(message.map(|message| Refusal {
            code: RefusalCode::of(u16::from_be_bytes([c0, c1])),
            message: String::from_utf8_lossy(message).escape_debug().to_string(),
        }))
    }
}

/// Exactly `length` bytes, which end the stream; `None` if some are still to come.
fn rest(bytes: &[u8], length: u16, limit: usize) -> Result<Option<&[u8]>, EnvelopeError> {
    let length = usize::from(length);
    if length > limit || bytes.len() > length {
        return Err(EnvelopeError::BadRequest {
            what: format!(
                "{} bytes where {length} are announced and {limit} allowed",
                bytes.len()
            ),
        });
    }
    Ok((bytes.len() == length).then_some(bytes))
}

/// The beginning of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StreamHead {
    /// An object follows.
    Object(EnvelopeHeader),
    /// A request for an object.
    Request(FetchRequest),
    /// The answer to a request that is not served.
    Refusal(Refusal),
}

impl StreamHead {
    /// No head is longer.
    pub const MAX_BYTES: usize = 1024;

    /// Looks at the first bytes of a stream. `None`: more of them are needed to tell.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, EnvelopeError> {
        let Some(magic) = bytes.first_chunk::<4>() else {
            return Ok(None);
        };
        if magic == REQUEST_MAGIC {
            Ok(FetchRequest::parse(bytes)?.map(StreamHead::Request))
        } else if magic == REFUSAL_MAGIC {
            Ok(Refusal::parse(bytes)?.map(StreamHead::Refusal))
        } else {
            Ok(EnvelopeHeader::read(bytes)?.map(StreamHead::Object))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> FetchRequest {
        FetchRequest {
            name: "a.bin".into(),
            reply_port: 61_234,
            priority: 3,
            session: 0xdead_beef,
            sender: 1,
            senders: 3,
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let bytes = request().encode().unwrap();
        assert_eq!(
            bytes,
            *b"EBBF\x01\x03\xef\x32\xde\xad\xbe\xef\x01\x03\x00\x05a.bin"
        );
        let refusal = Refusal {
            code: RefusalCode::Busy,
            message: "later".into(),
        };
        assert_eq!(refusal.encode(), *b"EBBE\x00\x02\x00\x05later");
    }

    #[test]
    fn a_head_is_known_from_its_last_byte_on() {
        let header = EnvelopeHeader {
            name: "b".into(),
            content_bytes: 9,
            sha256: [7; 32],
        };
        let refusal = Refusal {
            code: RefusalCode::Unknown,
            message: "no such object".into(),
        };
        for (bytes, head) in [
            (request().encode().unwrap(), StreamHead::Request(request())),
            (refusal.encode(), StreamHead::Refusal(refusal)),
            (header.encode().unwrap(), StreamHead::Object(header)),
        ] {
            for end in 0..bytes.len() {
                assert_eq!(StreamHead::read(&bytes[..end]), Ok(None), "{head:?} {end}");
            }
            assert_eq!(StreamHead::read(&bytes), Ok(Some(head)));
            assert!(bytes.len() <= StreamHead::MAX_BYTES);
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let good = request().encode().unwrap();
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            bytes
        };
        let longer = [&good[..], b"x"].concat();
        for bytes in [
            with(4, 2),
            with(12, 3),
            with(13, 0),
            with(13, 16),
            with(14, 1),
            with(16, b'/'),
            with(17, 0xff),
            longer,
        ] {
            assert!(StreamHead::read(&bytes).is_err(), "{bytes:?}");
        }
        let mut port = good.clone();
        port[6..8].fill(0);
        assert!(StreamHead::read(&port).is_err());
    }

    #[test]
    fn a_long_refusal_is_cut_at_a_character() {
        let refusal = Refusal {
            code: RefusalCode::Unreadable,
            message: "ä".repeat(300),
        };
        let Ok(Some(StreamHead::Refusal(read))) = StreamHead::read(&refusal.encode()) else {
            panic!("not a refusal");
        };
        assert_eq!(read.message, "ä".repeat(256));
    }
}
