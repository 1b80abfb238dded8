//! What both directions of an interface share: its socket, and whether it is there.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use ebb_packet_io::{PacketSocket, SendError};
use tracing::{info, warn};

use crate::drops::DropReason;

/// One thread may receive while another one sends.
pub(super) struct Line {
    /// Names switch, port and interface in messages.
    label: String,
    socket: PacketSocket,
    /// A [`State`].
    state: AtomicU8,
}

/// Frames that never got in or out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dropped {
    pub reason: DropReason,
    pub packets: u64,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Up,
    /// The interface exists and is down; it may come back.
    Down,
    /// The interface does not exist any more, and the socket is of no more use.
    Gone,
}

impl Line {
    pub fn new(label: String, socket: PacketSocket) -> Self {
        Self {
            label,
            socket,
            state: AtomicU8::new(State::Up as u8),
        }
    }

    pub fn label(&self) -> &str {
        &self.label
    }

    pub fn socket(&self) -> &PacketSocket {
        &self.socket
    }

    /// Whether the socket is worth polling.
    pub fn is_present(&self) -> bool {
        self.state.load(Ordering::Relaxed) != State::Gone as u8
    }

    /// Sends frames in order. What the interface does not take is dropped, and told.
    pub fn send(&self, frames: &[Vec<u8>], drops: &mut Vec<Dropped>) {
        let mut rest = frames;
        while let Some(first) = rest.first() {
            if !self.is_present() {
                drops.push(Dropped {
                    reason: DropReason::PortDown,
                    packets: rest.len() as u64,
                    bytes: rest.iter().map(|f| f.len() as u64).sum(),
                });
                return;
            }
            match self.socket.send_batch(rest.iter().map(Vec::as_slice)) {
                Ok(sent) => {
                    self.note_up();
                    rest = &rest[sent..];
                }
                Err(error) => {
                    drops.push(Dropped {
                        reason: self.note_send_error(error),
                        packets: 1,
                        bytes: first.len() as u64,
                    });
                    rest = &rest[1..];
                }
            }
        }
    }

    fn note_send_error(&self, error: SendError) -> DropReason {
        match error {
            SendError::Full | SendError::QueueFull => return DropReason::InterfaceBusy,
            SendError::TooLong => return DropReason::FrameTooLong,
            SendError::Malformed => return DropReason::FrameTooShort,
            SendError::Down => self.note_error(&io::Error::from_raw_os_error(libc::ENETDOWN)),
            SendError::Other(error) => self.note_error(&error),
        }
        DropReason::PortDown
    }

    pub fn note_error(&self, error: &io::Error) {
        let (state, what) = match self.socket.interface_exists() {
            true => (State::Down, "is down"),
            false => (
                State::Gone,
                "has vanished; restart the switch when it is back",
            ),
        };
        // Both directions see it; one tells.
        if self.state.swap(state as u8, Ordering::Relaxed) != state as u8 {
            warn!("{}: {what} ({error})", self.label);
        }
    }

    pub fn note_up(&self) {
        let (down, up) = (State::Down as u8, State::Up as u8);
        let relaxed = Ordering::Relaxed;
        // Every batch comes by here: a look is cheaper than an exchange.
        if self.state.load(relaxed) == down
            && self
                .state
                .compare_exchange(down, up, relaxed, relaxed)
                .is_ok()
        {
            info!("{}: is up again", self.label);
        }
    }
}
