//! Sleeping until something happens.

use std::io;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::system::check;

/// A descriptor to wait for and what happened to it.
#[repr(transparent)]
pub struct PollFd<'a> {
    raw: libc::pollfd,
    descriptor: PhantomData<BorrowedFd<'a>>,
}

impl<'a> PollFd<'a> {
    fn new(fd: BorrowedFd<'a>, events: libc::c_short) -> Self {
        PollFd {
            raw: libc::pollfd {
                fd: fd.as_raw_fd(),
                events,
                revents: 0,
            },
            descriptor: PhantomData,
        }
    }

    /// Ends the sleep when there is something to read.
    pub fn readable(fd: BorrowedFd<'a>) -> Self {
        Self::new(fd, libc::POLLIN)
    }

    /// Ends the sleep also when there is room to write, if `also`.
    #[must_use]
    pub fn or_writable(mut self, also: bool) -> Self {
        if also {
            self.raw.events |= libc::POLLOUT;
        }
        self
    }

    /// Whether the last [`wait`] found an error, see [`PacketSocket::take_error`](crate::PacketSocket::take_error).
    pub fn has_failed(&self) -> bool {
        self.raw.revents & libc::POLLERR != 0
    }

    /// Whether the last [`wait`] found something to read.
    pub fn is_readable(&self) -> bool {
        self.raw.revents & libc::POLLIN != 0
    }
}

/// Sleeps until something happens to a descriptor or `patience` is over (`None`: no limit). A signal
/// ends the sleep as well; the descriptors then show nothing.
pub fn wait(fds: &mut [PollFd<'_>], patience: Option<Duration>) -> io::Result<()> {
    let timeout = patience.map(|patience| libc::timespec {
        tv_sec: patience.as_secs().min(i64::MAX as u64) as libc::time_t,
        tv_nsec: patience.subsec_nanos().into(),
    });
    let timeout = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `PollFd` is a `pollfd`; all pointers are to values that outlive the call, or null
    // where that is allowed.
    let result = unsafe {
        libc::ppoll(
            fds.as_mut_ptr().cast(),
            fds.len() as libc::nfds_t,
            timeout,
            std::ptr::null(),
        )
    };
    if result < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        for fd in fds {
            fd.raw.revents = 0;
        }
    }
    Ok(())
}

/// Asks the kernel to wake this thread on time instead of up to 50 us later to save energy.
/// Failure leaves that default, which is only less exact.
pub fn wake_up_on_time() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Whether this thread runs before all that have no real-time priority.
pub fn runs_in_real_time() -> bool {
    // SAFETY: no pointers; 0 is the calling thread.
    let policy = unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
    policy == libc::SCHED_FIFO || policy == libc::SCHED_RR
}

/// Lets this thread run before all others of the machine (SCHED_FIFO), with priority 1 (lowest) to
/// 99; threads that it starts do not. Needs CAP_SYS_NICE. A thread that never sleeps then starves
/// the rest of its processor.
pub fn run_in_real_time(priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the pointer is to a local that outlives the call; 0 is the calling thread.
    check(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) })?;
    Ok(())
}
