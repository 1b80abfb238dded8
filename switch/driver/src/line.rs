//! What both directions of an interface share: its socket, and whether it is there.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use ebb_engine::DropReason;
use ebb_packet_io::{PacketSocket, SendError};
use tracing::{info, warn};

use crate::batch::Batch;
use crate::clock::Clock;

/// One thread may receive while another one sends.
#[derive(Debug)]
pub(crate) struct Line {
    /// Names switch, port and interface in messages.
    label: String,
    socket: PacketSocket,
    /// A [`State`].
    state: AtomicU8,
    /// The kernel takes no more: frames wait, and those after them too.
    full: AtomicBool,
}

/// Frames that never got in or out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dropped {
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
            full: AtomicBool::new(false),
        }
    }

    pub fn label(&self) -> &str {
        &self.label
    }

    pub fn socket(&self) -> &PacketSocket {
        &self.socket
    }

    /// Whether the socket is worth polling: the interface is there, or nobody knows better.
    pub fn is_present(&self) -> bool {
        self.state.load(Ordering::Relaxed) != State::Gone as u8
    }

    /// Frames are sent again, after the kernel took no more.
    pub fn unblock(&self) {
        self.full.store(false, Ordering::Relaxed);
    }

    /// Sends frames in order until the kernel takes no more. What the interface refuses is dropped,
    /// and told.
    pub fn send(&self, batch: &mut Batch, clock: Clock) {
        let mut done = 0;
        while let Some(first) = batch.frames.get(done)
            && !self.full.load(Ordering::Relaxed)
        {
            let rest = &batch.frames[done..];
            if !self.is_present() {
                batch.drops.push(Dropped {
                    reason: DropReason::PortDown,
                    packets: rest.len() as u64,
                    bytes: rest.iter().map(|f| f.len() as u64).sum(),
                });
                done = batch.len();
                break;
            }
            match self.socket.send_batch(rest.iter().map(Vec::as_slice)) {
                Ok(sent) => {
                    self.note_up();
                    done += sent;
                }
                Err(SendError::Full) => self.full.store(true, Ordering::Relaxed),
                Err(error) => {
                    batch.drops.push(Dropped {
                        reason: self.note_send_error(error),
                        packets: 1,
                        bytes: first.len() as u64,
                    });
                    done += 1;
                }
            }
        }
        if done > 0 {
            batch.finish(done, clock.now());
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

    /// Has it found out whether an interface that is down is there at all: the kernel tells only that
    /// it has gone down, and that before it is gone.
    pub fn look_for_interface(&self) {
        let down = self.state.load(Ordering::Relaxed) == State::Down as u8;
        if down && !self.socket.interface_exists() {
            self.note_error(&io::Error::from_raw_os_error(libc::ENODEV));
        }
    }

    pub fn note_error(&self, error: &io::Error) {
        let (state, what) = match self.socket.interface_exists() {
            true => (State::Down, "is down"),
            false => (
                State::Gone,
                "has vanished; it is opened again when it is back",
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
