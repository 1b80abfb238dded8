//! Signals as a descriptor to wait for, so that none is missed and none interrupts.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub enum Signal {
    /// SIGINT or SIGTERM.
    End,
    /// SIGUSR1.
    Report,
}

pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Blocks the signals for this thread. Call it before there are others.
    pub fn open() -> io::Result<Self> {
        // SAFETY: `sigset_t` is plain data for which zeroes are valid; all pointers are to locals
        // that outlive the calls; the descriptor is checked before it is owned.
        unsafe {
            let mut signals: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut signals);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1] {
                libc::sigaddset(&raw mut signals, signal);
            }
            if libc::sigprocmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut()) < 0 {
                return Err(io::Error::last_os_error());
            }
            let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
            let fd = libc::signalfd(-1, &raw const signals, flags);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(SignalFd(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// The next signal that came, if one did.
    pub fn next(&self) -> Option<Signal> {
        // SAFETY: plain data for which all zeroes are valid.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the pointer and the size describe `info`, which outlives the call.
        let read = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), size) };
        if read != size as isize {
            return None;
        }
        if info.ssi_signo == libc::SIGUSR1 as u32 {
            Some(Signal::Report)
        } else {
            Some(Signal::End)
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
