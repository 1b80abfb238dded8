//! Wake-ups of a sleeping thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ebb_engine::drive::Wake;
use rustix::event::{EventfdFlags, eventfd};

/// An eventfd. It is readable from a call of `wake` until the thread acknowledges
/// it.
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

impl Waker {
    /// A waker that nobody has used.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Ok(Self(eventfd(0, flags)?))
    }

    /// Clears the wake-up. To be called before the thread looks for its reason, so that a wake-up
    /// for a later one is not lost.
    pub fn acknowledge(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

impl Wake for Waker {
    fn wake(&self) {
        // The write fails only if the counter is full, and then its reader is awake anyway.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
