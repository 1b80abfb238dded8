//! Parser of the stream of a persistent connection: frames and their bodies.

use arrayvec::ArrayVec;

use super::frame::{FRAME_BYTES, Frame};

/// Kind of the next bytes.
#[derive(Debug)]
enum Body {
    /// Length of a frame.
    None,
    /// Remaining bytes of the object; `keep` is false if they are discarded.
    Object { left: u64, keep: bool },
    /// Length of the reason of a refusal.
    Reason {
        number: u32,
        left: usize,
        text: Vec<u8>,
    },
}

/// Next element of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Frame(Frame),
    /// Bytes of the object: their number, and whether they are its last.
    Bytes {
        count: usize,
        last: bool,
    },
    /// A refusal with its reason, fit for a terminal.
    Refused {
        number: u32,
        reason: String,
    },
}

/// State of the parser.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Bytes of an incomplete frame.
    head: ArrayVec<u8, FRAME_BYTES>,
    /// Remainder of the body of the last frame.
    body: Body,
    /// Bytes taken so far.
    taken: u64,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Inbox {
            head: ArrayVec::new(),
            body: Body::None,
            taken: 0,
        }
    }

    /// Bytes of the peer's stream that have been taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether a frame or its body is incomplete.
    pub(super) fn is_within(&self) -> bool {
        !self.head.is_empty() || !matches!(self.body, Body::None)
    }

    /// Discards the rest of the object that is arriving.
    pub(super) fn discard(&mut self) {
        if let Body::Object { keep, .. } = &mut self.body {
            *keep = false;
        }
    }

    /// Takes bytes off `rest` up to the end of the next element. None: it is incomplete. The error names the
    /// bytes that are no frame.
    pub(super) fn next(&mut self, rest: &mut &[u8]) -> Result<Option<Found>, String> {
        loop {
            let available = rest.len();
            let mut take = |most: usize| {
                let (now, later) = rest.split_at(most.min(available));
                *rest = later;
                self.taken += now.len() as u64;
                now
            };
            match &mut self.body {
                Body::None => {
                    let now = take(FRAME_BYTES - self.head.len());
                    self.head.extend(now.iter().copied());
                    let Ok(bytes) = self.head[..].try_into() else {
                        return Ok(None);
                    };
                    let frame = Frame::parse(bytes)?;
                    self.head.clear();
                    match frame {
                        // Nothing follows.
                        Frame::Object { bytes: 0, .. } | Frame::Taken { .. } => {}
                        Frame::Object { bytes, .. } => {
                            self.body = Body::Object {
                                left: bytes,
                                keep: true,
                            };
                        }
                        Frame::Refused { number, bytes } => {
                            self.body = Body::Reason {
                                number,
                                left: usize::from(bytes),
                                text: Vec::new(),
                            };
                            continue;
                        }
                    }
                    return Ok(Some(Found::Frame(frame)));
                }
                Body::Object { left, keep } => {
                    if available == 0 {
                        return Ok(None);
                    }
                    let most = usize::try_from(*left).unwrap_or(usize::MAX);
                    let count = take(most).len();
                    *left -= count as u64;
                    let (last, keep) = (*left == 0, *keep);
                    if last {
                        self.body = Body::None;
                    }
                    if keep {
                        return Ok(Some(Found::Bytes { count, last }));
                    }
                }
                Body::Reason { number, left, text } => {
                    let now = take(*left);
                    text.extend_from_slice(now);
                    *left -= now.len();
                    if *left > 0 {
                        return Ok(None);
                    }
                    let reason = String::from_utf8_lossy(text).escape_debug().to_string();
                    let number = *number;
                    self.body = Body::None;
                    return Ok(Some(Found::Refused { number, reason }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(inbox: &mut Inbox, bytes: &[u8], step: usize) -> (Vec<Found>, usize) {
        let (mut found, mut object_bytes) = (Vec::new(), 0);
        for piece in bytes.chunks(step) {
            let mut rest = piece;
            while let Some(next) = inbox.next(&mut rest).unwrap() {
                match next {
                    Found::Bytes { count, last } => {
                        object_bytes += count;
                        if last {
                            found.push(Found::Bytes { count: 0, last });
                        }
                    }
                    other => found.push(other),
                }
            }
            assert!(rest.is_empty());
        }
        (found, object_bytes)
    }

    #[test]
    fn pieces_do_not_matter() {
        let object = |number, bytes| Frame::Object {
            number,
            port: 9,
            bytes,
        };
        let mut stream = Vec::new();
        stream.extend(object(0, 5).encode());
        stream.extend(b"12345");
        stream.extend(Frame::Taken { number: 3 }.encode());
        stream.extend(object(1, 0).encode());
        stream.extend(
            Frame::Refused {
                number: 4,
                bytes: 3,
            }
            .encode(),
        );
        stream.extend(b"n\no");
        let expected = [
            Found::Frame(object(0, 5)),
            Found::Bytes {
                count: 0,
                last: true,
            },
            Found::Frame(Frame::Taken { number: 3 }),
            Found::Frame(object(1, 0)),
            Found::Refused {
                number: 4,
                reason: "n\\no".to_owned(),
            },
        ];
        for step in [1, 2, 7, 16, 17, 100] {
            let mut inbox = Inbox::new();
            let (found, bytes) = all(&mut inbox, &stream, step);
            assert_eq!((&found[..], bytes), (&expected[..], 5), "step {step}");
            assert!(!inbox.is_within());
            assert_eq!(inbox.taken(), stream.len() as u64);
        }
    }

    #[test]
    fn what_nobody_wants_is_skipped() {
        let mut inbox = Inbox::new();
        let object = Frame::Object {
            number: 0,
            port: 9,
            bytes: 10,
        };
        let mut rest = &object.encode()[..];
        assert_eq!(inbox.next(&mut rest), Ok(Some(Found::Frame(object))));
        inbox.discard();
        let (found, bytes) = all(&mut inbox, &[0; 10], 3);
        assert_eq!((found.len(), bytes), (0, 0));
        assert!(!inbox.is_within());
    }
}
