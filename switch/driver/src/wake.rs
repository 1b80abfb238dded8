//! What ends a thread's sleep.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ebb_engine::drive::Wake;
use rustix::event::{EventfdFlags, eventfd};

/// An eventfd: readable since somebody woke the thread, until the thread takes notice.
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

impl Waker {
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Ok(Self(eventfd(0, flags)?))
    }

    /// To be called before the thread looks for what it was woken for, so that nothing is overlooked.
    pub fn acknowledge(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

impl Wake for Waker {
    fn wake(&self) {
        // Fails only if the counter is full, and then its reader is awake anyway.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
