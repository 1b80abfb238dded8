//! The Unix socket from which hosts get a ring; for root and for the user of the process.
//!
//! It lies in a folder that only this user can enter, and is named after its interface: peers choose no path.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::end::SwitchRing;
use super::memory::SharedMemory;
use super::socket::{Greeting, check_peer, new_socket, send_with, try_connect, with_address};
use crate::system::check;

/// Bytes of a ring to a host: 2700 full frames, or 330 ms at 100 Mbit/s, for times when its process waits for the CPU.
const TO_HOST_BYTES: usize = 4 << 20;
/// Bytes of a ring from a host, which waits while it is full.
const TO_SWITCH_BYTES: usize = 1 << 20;
/// Hosts that may wait to be accepted.
const BACKLOG: libc::c_int = 16;

/// The socket of one interface. Its file goes when this is dropped.
#[derive(Debug)]
pub struct RingListener {
    socket: OwnedFd,
    path: PathBuf,
}

impl RingListener {
    /// Listens at a path, in a folder of this user that no other can enter. A socket that a process has left there is
    /// replaced.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let folder = fs::symlink_metadata(path.parent().unwrap_or(Path::new(".")))?;
        // SAFETY: it has no arguments and cannot fail.
        let own = unsafe { libc::geteuid() };
        if !folder.is_dir() || folder.uid() != own || folder.mode() & 0o077 != 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "rings need a folder of this user alone (mode 0700)",
            ));
        }
        if fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
            match try_connect(path) {
                Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
                Err(_) => fs::remove_file(path)?,
            }
        }
        let socket = new_socket(libc::SOCK_NONBLOCK)?;
        with_address(path, |address, bytes| {
            // SAFETY: `with_address` gives a pointer and the size of what is there.
            check(unsafe { libc::bind(socket.as_raw_fd(), address, bytes) })
        })?;
        let listener = RingListener {
            socket,
            path: path.to_owned(),
        };
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        // SAFETY: no pointers.
        check(unsafe { libc::listen(listener.socket.as_raw_fd(), BACKLOG) })?;
        Ok(listener)
    }

    /// Accepts the next waiting host and gives it a ring, without blocking. `None`: no host waits. An error concerns
    /// one host, whose connection is closed.
    pub fn accept(&self) -> io::Result<Option<SwitchRing>> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let none = std::ptr::null_mut();
        // SAFETY: null for an address that is not asked for.
        let fd = unsafe { libc::accept4(self.socket.as_raw_fd(), none, none.cast(), flags) };
        let connection = match check(fd) {
            // SAFETY: a fresh descriptor that nothing else owns.
            Ok(fd) => unsafe { OwnedFd::from_raw_fd(fd) },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        check_peer(connection.as_fd())?;
        let greeting = Greeting {
            to_host_bytes: TO_HOST_BYTES as u32,
            to_switch_bytes: TO_SWITCH_BYTES as u32,
        };
        let (memory, file) = SharedMemory::create(greeting.total_bytes())?;
        send_with(&connection, &greeting.emit(), &file)?;
        Ok(Some(SwitchRing::new(
            connection,
            &Arc::new(memory),
            greeting,
        )))
    }
}

impl AsFd for RingListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for RingListener {
    fn drop(&mut self) {
        // If this fails, the next listener at the path replaces the file.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
