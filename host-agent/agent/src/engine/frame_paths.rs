//! Paths of frames between this host and its switch: the interface, and a ring in shared memory if the switch has one.
//!
//! The ring carries the frames that this process sends, and those that its filter, which the switch knows, selects. The
//! interface stays open for frames that arrive before the switch knows the filter and for those of other processes. If
//! the ring ends, all frames go over the interface again.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use ebb_packet_io::{
    Filter, FrameIo, HostRing, PacketIo, PacketSocket, PollFd, ReceivedFrame, SendError, wait,
};

use crate::machine::waker::Waker;

/// The interface of this host, and its ring.
pub struct FramePaths {
    interface: PacketIo,
    /// `None`: all frames go over the interface.
    ring: Option<HostRing>,
    /// Error of the interface that the last wait has found.
    failure: Option<io::Error>,
}

/// Path by which a frame arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FramePath {
    /// The interface, while there is no ring.
    Interface,
    /// The interface, beside a ring: broadcast, multicast and MAC control frames arrive by both.
    BesideRing,
    /// The ring.
    Ring,
}

impl FramePaths {
    /// Opens the ring that the switch offers at the socket `ring`. None: the interface alone.
    pub fn open(interface: PacketIo, ring: Option<&Path>) -> anyhow::Result<Self> {
        let connect = |path: &Path| {
            HostRing::connect(path).with_context(|| {
                let path = path.display();
                format!(
                    "no ring with the switch at {path}: does `ebb-switch --fabric` run, with `rings` \
                     in its file? Without --ring frames go over the interface"
                )
            })
        };
        Ok(FramePaths {
            interface,
            ring: ring.map(connect).transpose()?,
            failure: None,
        })
    }

    /// The socket of the interface.
    pub fn socket(&self) -> &PacketSocket {
        self.interface.socket()
    }

    /// Whether a wait ends when there is room for what could not be sent.
    pub fn says_when_there_is_room(&self) -> bool {
        self.ring.is_none()
    }

    /// Sends the first frames and returns their number; 0: none, as the ring has ended, and they are to be sent again.
    /// Errors as of [`FrameIo::send`].
    pub fn send<'a>(
        &mut self,
        mut frames: impl Iterator<Item = &'a [u8]>,
    ) -> Result<usize, SendError> {
        let Some(ring) = &mut self.ring else {
            return self.interface.send(&mut frames);
        };
        match ring.send(&mut frames) {
            Err(SendError::Other(error)) => {
                self.end_ring(&error);
                Ok(0)
            }
            result => result,
        }
    }

    /// Hands over what has arrived, about `enough` frames of either path; true: there may be more.
    pub fn receive(
        &mut self,
        enough: usize,
        mut take: impl FnMut(ReceivedFrame<'_>, FramePath),
    ) -> io::Result<bool> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let path = match self.ring {
            None => FramePath::Interface,
            Some(_) => FramePath::BesideRing,
        };
        let received = self
            .interface
            .receive(enough, &mut |frame| take(frame, path))?;
        let mut more = !received.drained;
        if let Some(ring) = &mut self.ring {
            match ring.receive(enough, &mut |frame| take(frame, FramePath::Ring)) {
                Ok(received) => more |= !received.drained,
                Err(error) => self.end_ring(&error),
            }
        }
        Ok(more)
    }

    /// Lets only these frames through from now on.
    pub fn set_filter(&mut self, filter: &Filter) -> io::Result<()> {
        if let Some(Err(error)) = self.ring.as_mut().map(|ring| ring.set_filter(filter)) {
            self.end_ring(&error);
        }
        self.interface.set_filter(filter)
    }

    /// Frames that there was no room for here, since the last call.
    pub fn take_drops(&mut self) -> u64 {
        let at_interface = self.interface.take_drops().unwrap_or(0);
        let in_ring = self
            .ring
            .as_mut()
            .map(|ring| ring.take_drops().unwrap_or(0));
        at_interface + in_ring.unwrap_or(0)
    }

    /// Sleeps until a frame arrives, there is room for what waits if it is `stuck`, the waker is called, or `patience`
    /// is over (`None`: no limit).
    pub fn wait(
        &mut self,
        patience: Option<Duration>,
        stuck: bool,
        waker: &Waker,
    ) -> io::Result<()> {
        if self.ring.as_mut().is_some_and(HostRing::prepare_to_wait) {
            return Ok(());
        }
        let ring = self
            .ring
            .as_ref()
            .map_or(waker.as_fd(), HostRing::descriptor);
        let mut fds = [
            PollFd::readable(self.interface.descriptor()).or_writable(stuck),
            PollFd::readable(waker.as_fd()),
            PollFd::readable(ring),
        ];
        let polled = 2 + usize::from(self.ring.is_some());
        wait(&mut fds[..polled], patience)?;
        let [interface, woken, ring] = fds.map(|fd| (fd.is_readable(), fd.has_failed()));
        self.failure = self.interface.note_wait(interface.0, interface.1).err();
        if woken.0 {
            waker.drain();
        }
        let ring = self.ring.as_mut().map(|it| it.note_wait(ring.0, ring.1));
        if let Some(Err(error)) = ring {
            self.end_ring(&error);
        }
        Ok(())
    }

    fn end_ring(&mut self, error: &io::Error) {
        tracing::warn!(
            "the ring with the switch has ended ({error}); frames go over the interface"
        );
        self.ring = None;
    }
}
