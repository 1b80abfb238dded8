//! SIGINT and SIGTERM ask the agent to end. They are blocked but while it sleeps, so that none is
//! missed between looking and sleeping.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED_TO_END: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: libc::c_int) {
    ASKED_TO_END.store(true, Ordering::Relaxed);
}

/// The signal mask for sleeping.
pub struct Signals {
    while_sleeping: libc::sigset_t,
}

impl Signals {
    pub fn install() -> std::io::Result<Self> {
        // SAFETY: `sigaction` and `sigset_t` are plain data for which zeroes are valid; all
        // pointers are to locals that outlive the calls; the handler only stores to an atomic.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as extern "C" fn(libc::c_int) as libc::sighandler_t;
            let mut blocked: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut blocked);
            for signal in [libc::SIGINT, libc::SIGTERM] {
                libc::sigaddset(&raw mut blocked, signal);
                if libc::sigaction(signal, &raw const action, std::ptr::null_mut()) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            let mut before: libc::sigset_t = std::mem::zeroed();
            if libc::sigprocmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            for signal in [libc::SIGINT, libc::SIGTERM] {
                libc::sigdelset(&raw mut before, signal);
            }
            Ok(Signals {
                while_sleeping: before,
            })
        }
    }

    pub fn asked_to_end(&self) -> bool {
        ASKED_TO_END.load(Ordering::Relaxed)
    }

    pub fn mask_while_sleeping(&self) -> &libc::sigset_t {
        &self.while_sleeping
    }
}
