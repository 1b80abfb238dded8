//! Wakes the engine from other threads and from signal handlers.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// Ends the engine's sleep. Waking twice before it looks is waking once.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked before it is owned.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nothing else owns.
        Ok(Waker(Arc::new(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    pub fn wake(&self) {
        wake_descriptor(self.0.as_raw_fd());
    }

    /// Whether somebody woke us since the last call.
    pub fn take(&self) -> bool {
        let mut count = 0u64;
        // SAFETY: the pointer and the length describe `count`, which outlives the call.
        let read = unsafe {
            libc::read(
                self.0.as_raw_fd(),
                (&raw mut count).cast(),
                size_of::<u64>(),
            )
        };
        // Nothing to read is EAGAIN.
        read == size_of::<u64>() as isize
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// For signal handlers: nothing but one `write`, which is async-signal-safe.
pub fn wake_descriptor(fd: libc::c_int) {
    let one = 1u64;
    // SAFETY: the pointer and the length describe `one`, which outlives the call. It fails only
    // when the counter is at its limit, and then the engine is awake.
    unsafe { libc::write(fd, (&raw const one).cast(), size_of::<u64>()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waking_twice_is_waking_once() {
        let waker = Waker::new().unwrap();
        assert!(!waker.take());
        let other = waker.clone();
        std::thread::spawn(move || {
            other.wake();
            other.wake();
        })
        .join()
        .unwrap();
        assert!(waker.take());
        assert!(!waker.take());
    }
}
