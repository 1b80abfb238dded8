//! SIGINT and SIGTERM ask the agent to end: whatever thread the kernel interrupts, the handler
//! notes it and wakes the engine.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::machine::waker::{Waker, wake_descriptor};

static ASKED_TO_END: AtomicBool = AtomicBool::new(false);
/// The descriptor of the waker of the engine of this process, or -1.
static ENGINE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn note(_: libc::c_int) {
    // SAFETY: the location of this thread's errno is always valid. The thread that was interrupted
    // may be about to look at it.
    let errno = unsafe { *libc::__errno_location() };
    ASKED_TO_END.store(true, Ordering::SeqCst);
    let engine = ENGINE.load(Ordering::SeqCst);
    if engine >= 0 {
        wake_descriptor(engine);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Signals wake the engine as long as this lives.
pub struct Signals {
    _waker: Waker,
}

impl Signals {
    pub fn install(waker: Waker) -> std::io::Result<Self> {
        ENGINE.store(waker.as_fd().as_raw_fd(), Ordering::SeqCst);
        for signal in [libc::SIGINT, libc::SIGTERM] {
            // SAFETY: `sigaction` is plain data for which zeroes are valid; the pointer is to a
            // local that outlives the call; the handler is async-signal-safe.
            let result = unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = note as extern "C" fn(libc::c_int) as libc::sighandler_t;
                action.sa_flags = libc::SA_RESTART;
                libc::sigaction(signal, &raw const action, std::ptr::null_mut())
            };
            if result != 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(Signals { _waker: waker })
    }

    pub fn asked_to_end(&self) -> bool {
        ASKED_TO_END.load(Ordering::SeqCst)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        ENGINE.store(-1, Ordering::SeqCst);
    }
}
