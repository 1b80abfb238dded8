//! Locks on files, which the kernel lets go of however their holder ends.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Whether the lock is ours now; it stays with the open file.
pub fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: no pointers; the descriptor is open as long as `file` lives.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        error => Err(error),
    }
}
