//! Carriers of the frames of an interface: a packet socket, or a ring that is shared with the switch.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::{
    Filter, PacketSocket, ReceiveBuffers, ReceiveRing, Received, ReceivedFrame, SendError,
};

/// Frames in and out, in batches and without waiting.
pub trait FrameIo {
    /// Hands over waiting frames in order, and stops when it has handed over about `enough` of them.
    ///
    /// An error of a packet socket is that of its interface; any of a ring means its end.
    fn receive(
        &mut self,
        enough: usize,
        take: &mut dyn FnMut(ReceivedFrame<'_>),
    ) -> io::Result<Received>;

    /// Sends the first frames and returns their number, at least 1 unless there are none. An error is about the first
    /// frame, and none of the others was sent.
    fn send(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> Result<usize, SendError>;

    /// Replaces the filter of what is received.
    fn set_filter(&mut self, filter: &Filter) -> io::Result<()>;

    /// Frames that there was no room for at the receiving end, since the last call.
    fn take_drops(&mut self) -> io::Result<u64>;

    /// To be called before [`wait`](crate::wait) on the descriptor, which becomes readable with the next frame. True:
    /// frames are there already, so there should be no wait.
    fn prepare_to_wait(&mut self) -> bool;

    /// To be called when [`wait`](crate::wait) is over, with what it found: that there is something to read, or an
    /// error. An error is as one of [`receive`](Self::receive).
    fn note_wait(&mut self, readable: bool, failed: bool) -> io::Result<()>;

    /// Readable when there are frames.
    fn descriptor(&self) -> BorrowedFd<'_>;
}

/// A packet socket with its receive ring or buffers.
pub struct PacketIo {
    socket: PacketSocket,
    /// `None`: frames are received by system calls into the buffers.
    ring: Option<ReceiveRing>,
    buffers: ReceiveBuffers,
}

impl PacketIo {
    /// `ring`: that of the socket.
    pub fn new(socket: PacketSocket, ring: Option<ReceiveRing>, buffers: ReceiveBuffers) -> Self {
        PacketIo {
            socket,
            ring,
            buffers,
        }
    }

    /// The socket.
    pub fn socket(&self) -> &PacketSocket {
        &self.socket
    }
}

impl FrameIo for PacketIo {
    fn receive(
        &mut self,
        enough: usize,
        take: &mut dyn FnMut(ReceivedFrame<'_>),
    ) -> io::Result<Received> {
        match &mut self.ring {
            Some(ring) => ring.receive(&self.socket, enough, take),
            None => self.socket.receive(&mut self.buffers, enough, take),
        }
    }

    fn send(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> Result<usize, SendError> {
        self.socket.send_batch(frames)
    }

    fn set_filter(&mut self, filter: &Filter) -> io::Result<()> {
        self.socket.set_filter(filter)
    }

    fn take_drops(&mut self) -> io::Result<u64> {
        self.socket.take_kernel_drops()
    }

    fn prepare_to_wait(&mut self) -> bool {
        false
    }

    fn note_wait(&mut self, _readable: bool, failed: bool) -> io::Result<()> {
        // A mapped ring does not report it, and unless it is read it ends every wait.
        if failed && let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        Ok(())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
