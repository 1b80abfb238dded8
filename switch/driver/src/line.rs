//! Common state of both directions of an interface: its socket, and whether the interface exists.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use ebb_engine::DropReason;
use ebb_packet_io::{PacketSocket, SendError};
use tracing::{info, warn};

use crate::batch::{Batch, Dropped};
use crate::clock::Clock;

/// An open interface. One thread may receive through it while another one sends.
#[derive(Debug)]
pub(crate) struct Line {
    /// Switch, port and interface, for messages.
    label: String,
    /// The socket, bound to the interface.
    socket: PacketSocket,
    /// Number of the [`State`].
    state: AtomicU8,
    /// Whether the kernel had no room for a frame, which waits with those after it.
    full: AtomicBool,
}

/// Whether the interface is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The interface works, as far as is known.
    Up,
    /// The interface exists and is down; it may come back.
    Down,
    /// The interface does not exist any more, and the socket has become useless.
    Gone,
}

impl Line {
    /// A line over a socket that was just opened.
    pub fn new(label: String, socket: PacketSocket) -> Self {
        Self {
            label,
            socket,
            state: AtomicU8::new(State::Up as u8),
            full: AtomicBool::new(false),
        }
    }

    /// Switch, port and interface, for messages.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The socket.
    pub fn socket(&self) -> &PacketSocket {
        &self.socket
    }

    /// Whether the socket is worth polling: the interface exists, as far as is known.
    pub fn is_present(&self) -> bool {
        self.state.load(Ordering::Relaxed) != State::Gone as u8
    }

    /// Allows sending again, after the kernel took no more.
    pub fn unblock(&self) {
        self.full.store(false, Ordering::Relaxed);
    }

    /// Sends frames in order until the kernel takes no more. Frames that the interface refuses are
    /// dropped and noted in the batch.
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

    /// The reason to count for a frame that was refused; errors of the interface are noted.
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

    /// Finds out whether an interface that is down still exists: the kernel reports only that it went
    /// down, and does so before a deleted one is gone.
    pub fn look_for_interface(&self) {
        let down = self.state.load(Ordering::Relaxed) == State::Down as u8;
        if down && !self.socket.interface_exists() {
            self.note_error(&io::Error::from_raw_os_error(libc::ENODEV));
        }
    }

    /// Notes that the interface is down or gone, and warns if that is news.
    pub fn note_error(&self, error: &io::Error) {
        let (state, what) = match self.socket.interface_exists() {
            true => (State::Down, "is down"),
            false => (
                State::Gone,
                "has vanished; it is opened again when it is back",
            ),
        };
        // Both directions see the change; one of them reports it.
        if self.state.swap(state as u8, Ordering::Relaxed) != state as u8 {
            warn!("{}: {what} ({error})", self.label);
        }
    }

    /// Notes that the interface works, and says so if it was down.
    pub fn note_up(&self) {
        let (down, up) = (State::Down as u8, State::Up as u8);
        let relaxed = Ordering::Relaxed;
        // This is called for every batch, and a load is cheaper than a compare-and-exchange.
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
