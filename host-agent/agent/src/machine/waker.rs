//! Wakes the engine from other threads and on signals.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebb_packet_io::{PollFd, wait};
use ebb_units::Duration;

/// Ends the engine's sleep: a pipe that has something to read. Waking twice before the engine looks
/// is waking once.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    reader: PipeReader,
    writer: PipeWriter,
    /// Whether the engine was woken and has not noticed; reading this costs no system call.
    woken: AtomicBool,
}

impl Waker {
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let woken = AtomicBool::new(false);
        Ok(Waker(Arc::new(Shared {
            reader,
            writer,
            woken,
        })))
    }

    pub fn wake(&self) {
        if !self.0.woken.swap(true, Ordering::AcqRel) {
            // Fails only when the pipe is full, and then the engine is awake.
            let _ = (&self.0.writer).write(&[0]);
        }
    }

    /// Sleeps until the waker is called, at most this long.
    pub fn wait(&self, patience: Duration) -> io::Result<()> {
        let mut fds = [PollFd::readable(self.as_fd())];
        wait(&mut fds, Some(patience.into()))?;
        if fds[0].is_readable() {
            self.drain();
        }
        Ok(())
    }

    /// Whether the waker was called since the last call.
    pub fn take(&self) -> bool {
        self.0.woken.swap(false, Ordering::AcqRel)
    }

    /// Makes the descriptor unready, so that sleeping works again. To be called when it is readable
    /// and before [`take`](Self::take): who wakes in between is found by that.
    pub fn drain(&self) {
        // A wake-up and each signal since the last look are one byte each; more are read next time.
        let _ = (&self.0.reader).read(&mut [0; 64]);
    }

    /// For signal handlers, which write a byte to it.
    pub fn for_signals(&self) -> io::Result<OwnedFd> {
        Ok(self.0.writer.try_clone()?.into())
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.reader.as_fd()
    }
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
        waker.wait(Duration::MAX).unwrap();
        assert!(waker.take());
        assert!(!waker.take());
    }
}
