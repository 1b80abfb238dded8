//! The two ends of a ring.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{SystemTime, UNIX_EPOCH};

use super::memory::{SharedMemory, refused};
use super::socket::{self, Greeting};
use super::spsc::{Broken, Consumer, Direction, Producer};
use crate::filter_message::MAX_FILTER_BYTES;
use crate::{Filter, FrameIo, MAX_FRAME_BYTES, Received, ReceivedFrame, SendError};

/// The shortest frame: an Ethernet header.
const MIN_FRAME_BYTES: usize = 14;
/// First byte of a message: its kind.
const WAKE_UP: u8 = 0;
const FILTER: u8 = 1;
/// Most messages that one call reads, so that a peer that sends many delays nobody else.
const MESSAGES_PER_CALL: usize = 16;

/// The common part of both ends.
#[derive(Debug)]
struct End {
    connection: OwnedFd,
    producer: Producer,
    consumer: Consumer,
    /// Timestamp (CLOCK_REALTIME) of all frames written since the last [`flush`](Self::flush). `None`: there are none.
    written_at_ns: Option<u64>,
}

impl End {
    fn new(connection: OwnedFd, out: Direction, back: Direction) -> Self {
        End {
            connection,
            producer: Producer::new(out),
            consumer: Consumer::new(back),
            written_at_ns: None,
        }
    }

    /// Writes the first `kept` bytes of a frame; [`flush`](Self::flush) publishes them. False: the ring has no room.
    fn write(&mut self, frame: &[u8], kept: usize) -> Result<bool, Broken> {
        let at = *self.written_at_ns.get_or_insert_with(realtime_ns);
        self.producer.push(&frame[..kept], frame.len(), at)
    }

    /// Publishes the written frames to the peer, and wakes it if it sleeps.
    fn flush(&mut self) {
        self.written_at_ns = None;
        if self.producer.publish() {
            // A full socket still holds earlier wake-ups; that the peer has gone, the next read reports.
            let _ = self.send_message(&[WAKE_UP]);
        }
    }

    fn receive(
        &mut self,
        most: usize,
        take: &mut dyn FnMut(ReceivedFrame<'_>),
    ) -> io::Result<Received> {
        self.consumer.want_wake_up(false);
        Ok(self.consumer.receive(most, take)?)
    }

    fn send_message(&self, message: &[u8]) -> io::Result<()> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the pointer and the length are those of `message`, which outlives the call.
        let sent = unsafe {
            let fd = self.connection.as_raw_fd();
            libc::send(fd, message.as_ptr().cast(), message.len(), flags)
        };
        match sent < 0 {
            true => Err(io::Error::last_os_error()),
            false => Ok(()),
        }
    }

    /// Reads at most [`MESSAGES_PER_CALL`] messages, and passes all but wake-ups to `handle`. An error: the peer has
    /// gone, or `handle` refuses a message.
    fn read_messages(&self, mut handle: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        // Kind and filter, and one byte more: a message that is too long is not cut to a valid one.
        let mut message = [0; MAX_FILTER_BYTES + 2];
        for _ in 0..MESSAGES_PER_CALL {
            // SAFETY: the pointer and the length are those of `message`, which outlives the call.
            let length = unsafe {
                let (fd, to) = (self.connection.as_raw_fd(), message.as_mut_ptr());
                libc::recv(fd, to.cast(), message.len(), libc::MSG_DONTWAIT)
            };
            let length = match usize::try_from(length) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => length,
                Err(_) => match io::Error::last_os_error() {
                    none if none.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    other => return Err(other),
                },
            };
            match &message[..length] {
                [WAKE_UP] => {}
                message => handle(message)?,
            }
        }
        Ok(())
    }
}

impl From<Broken> for io::Error {
    fn from(broken: Broken) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, broken)
    }
}

/// The host's end: a path to the switch beside the kernel's interface.
#[derive(Debug)]
pub struct HostRing(End);

impl HostRing {
    /// Connects to the socket of a [`RingListener`], which root or the user of this process must have made. Nothing
    /// arrives before [`set_filter`](FrameIo::set_filter).
    pub fn connect(path: &Path) -> io::Result<Self> {
        let (connection, greeting, file) = socket::connect(path)?;
        let memory = Arc::new(SharedMemory::map(&file, greeting.total_bytes())?);
        let [to_host, to_switch] = greeting.directions(&memory);
        Ok(HostRing(End::new(connection, to_switch, to_host)))
    }
}

impl FrameIo for HostRing {
    fn receive(
        &mut self,
        enough: usize,
        take: &mut dyn FnMut(ReceivedFrame<'_>),
    ) -> io::Result<Received> {
        self.0.receive(enough, take)
    }

    /// [`Full`](SendError::Full): the switch has not yet read earlier frames. No wake-up comes when it has: the caller
    /// tries again.
    fn send(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> Result<usize, SendError> {
        let mut sent = 0;
        let mut problem = None;
        for frame in frames {
            problem = match frame.len() {
                ..MIN_FRAME_BYTES => Some(SendError::Malformed),
                MIN_FRAME_BYTES..=MAX_FRAME_BYTES => match self.0.write(frame, frame.len()) {
                    Ok(true) => None,
                    Ok(false) => Some(SendError::Full),
                    Err(broken) => Some(SendError::Other(broken.into())),
                },
                _ => Some(SendError::TooLong),
            };
            if problem.is_some() {
                break;
            }
            sent += 1;
        }
        self.0.flush();
        match problem {
            Some(problem) if sent == 0 => Err(problem),
            _ => Ok(sent),
        }
    }

    fn set_filter(&mut self, filter: &Filter) -> io::Result<()> {
        let rules = filter.encode();
        let rules = rules.ok_or_else(|| refused("a filter has too many rules for a ring"))?;
        self.0.send_message(&[&[FILTER], &rules[..]].concat())
    }

    fn take_drops(&mut self) -> io::Result<u64> {
        Ok(self.0.consumer.take_lost())
    }

    fn prepare_to_wait(&mut self) -> bool {
        self.0.consumer.want_wake_up(true);
        fence(Ordering::SeqCst);
        self.0.consumer.has_frames()
    }

    fn note_wait(&mut self, readable: bool, failed: bool) -> io::Result<()> {
        self.0.consumer.want_wake_up(false);
        if readable || failed {
            let nothing_else = |_: &[u8]| Err(refused("the switch says what no switch says"));
            self.0.read_messages(nothing_else)?;
        }
        Ok(())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.connection.as_fd()
    }
}

/// The switch's end, for one host: it carries the frames that pass the host's filter.
#[derive(Debug)]
pub struct SwitchRing {
    end: End,
    filter: Filter,
}

impl SwitchRing {
    pub(super) fn new(connection: OwnedFd, memory: &Arc<SharedMemory>, greeting: Greeting) -> Self {
        let [to_host, to_switch] = greeting.directions(memory);
        SwitchRing {
            end: End::new(connection, to_host, to_switch),
            filter: Filter::new(),
        }
    }

    /// The filter of the host.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Hands over frames of the host in order, at most `most`. An error: the ring has to be closed.
    pub fn receive(
        &mut self,
        most: usize,
        take: &mut dyn FnMut(ReceivedFrame<'_>),
    ) -> io::Result<Received> {
        self.end.receive(most, take)
    }

    /// Writes the part of a frame that the host's filter keeps; [`flush`](Self::flush) publishes it. A frame that the
    /// filter rejects is skipped. One that is too long, or for which the ring has no room, counts as lost, which the
    /// host can read. An error: the ring has to be closed.
    pub fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        let Some(kept) = self.filter.kept(frame) else {
            return Ok(());
        };
        if frame.len() > MAX_FRAME_BYTES || !self.end.write(frame, kept)? {
            self.end.producer.count_lost(1);
        }
        Ok(())
    }

    /// Publishes the written frames to the host.
    pub fn flush(&mut self) {
        self.end.flush();
    }

    /// Asks the host for a wake-up with its next frame. The caller then issues a fence (`SeqCst`), checks
    /// [`has_frames`](Self::has_frames), and only then sleeps on the [descriptor](AsFd).
    pub fn want_wake_up(&self) {
        self.end.consumer.want_wake_up(true);
    }

    /// Whether frames wait.
    pub fn has_frames(&self) -> bool {
        self.end.consumer.has_frames()
    }

    /// Applies new filters of the host; to be called when the descriptor is readable. An error: the ring has to be
    /// closed.
    pub fn read_messages(&mut self) -> io::Result<()> {
        let filter = &mut self.filter;
        self.end.read_messages(|message| {
            *filter = match message {
                [FILTER, rules @ ..] => Filter::decode(rules),
                _ => None,
            }
            .ok_or_else(|| refused("the host says what no host says"))?;
            Ok(())
        })
    }
}

impl AsFd for SwitchRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.connection.as_fd()
    }
}

fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}
