//! Wakes the engine from other threads and from signal handlers.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebb_packet_io::{PollFd, wait};
use ebb_units::Duration;

/// Ends the engine's sleep. Waking twice before it looks is waking once.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    fd: OwnedFd,
    /// Somebody woke the engine, and it has not looked yet: looking costs no system call.
    woken: AtomicBool,
}

impl Waker {
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked before it is owned.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nothing else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let woken = AtomicBool::new(false);
        Ok(Waker(Arc::new(Shared { fd, woken })))
    }

    pub fn wake(&self) {
        if !self.0.woken.swap(true, Ordering::AcqRel) {
            wake_descriptor(self.0.fd.as_raw_fd());
        }
    }

    /// Sleeps until somebody wakes us, at most so long.
    pub fn wait(&self, patience: Duration) -> io::Result<()> {
        let mut fds = [PollFd::readable(self.as_fd())];
        wait(&mut fds, Some(patience.into()), None)?;
        if fds[0].is_readable() {
            self.drain();
        }
        Ok(())
    }

    /// Whether somebody woke us since the last call.
    pub fn take(&self) -> bool {
        self.0.woken.swap(false, Ordering::AcqRel)
    }

    /// Makes the descriptor unready, so that sleeping works again. To be called before
    /// [`take`](Self::take): who wakes in between is found by that.
    pub fn drain(&self) {
        let mut count = 0u64;
        // SAFETY: the pointer and the length describe `count`, which outlives the call. Nothing to
        // read is EAGAIN and just as well.
        unsafe {
            libc::read(
                self.0.fd.as_raw_fd(),
                (&raw mut count).cast(),
                size_of::<u64>(),
            )
        };
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
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
