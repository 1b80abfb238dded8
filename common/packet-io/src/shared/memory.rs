//! Memory that two processes share: a memfd whose length neither of them can change.
//!
//! A peer that made the file shorter would end whoever reads behind its end (SIGBUS). So the maker seals it, and who is
//! given one looks for the seals and the length before it maps it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use crate::system::{check, map_shared};

/// Seals that a file of a peer must have, and that one of ours has.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// A mapping of a shared file, unmapped when dropped. The other process may write to any byte of it at any time: it is
/// read and written through pointers, and nothing refers to it.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and is not bound to a thread; what lies in it, both sides reach only
// by atomics and copies.
unsafe impl Send for SharedMemory {}
// SAFETY: as above; there is no state but the mapping.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Makes and maps a file of zeroes, which is sealed; the descriptor is for the other process.
    pub fn create(bytes: usize) -> io::Result<(Self, OwnedFd)> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: a valid C string; the result is checked before it is owned.
        let fd = check(unsafe { libc::memfd_create(c"ebb-ring".as_ptr(), flags) })?;
        // SAFETY: a fresh descriptor that nothing else owns.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: no pointers.
        check(unsafe { libc::ftruncate(fd, length) })?;
        // SAFETY: no pointers.
        check(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, SEALS) })?;
        let memory = Self::map_checked(&file, bytes)?;
        Ok((memory, file))
    }

    /// Maps a file that another process has made. An error: it is not sealed, or has another length.
    pub fn map(file: &OwnedFd, bytes: usize) -> io::Result<Self> {
        // SAFETY: no pointers.
        let seals = check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) })?;
        if seals & SEALS != SEALS {
            return Err(refused("the shared memory could be made shorter"));
        }
        // SAFETY: plain data for which all zeroes are valid.
        let mut status: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a local that outlives the call.
        check(unsafe { libc::fstat(file.as_raw_fd(), &raw mut status) })?;
        if usize::try_from(status.st_size) != Ok(bytes) {
            return Err(refused(
                "the shared memory has another length than was said",
            ));
        }
        Self::map_checked(file, bytes)
    }

    fn map_checked(file: &OwnedFd, bytes: usize) -> io::Result<Self> {
        let base = map_shared(file.as_fd(), bytes)?;
        Ok(SharedMemory { base, bytes })
    }

    /// The memory from byte `at` on, of which the caller will touch `bytes`.
    ///
    /// # Panics
    /// If that is not all in the memory.
    pub fn at(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(
            at <= self.bytes && bytes <= self.bytes - at,
            "inside the memory"
        );
        // SAFETY: inside the mapping.
        unsafe { self.base.as_ptr().add(at) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it: pointers into it do not outlive calls.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

pub(crate) fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// User at the other end of a Unix socket, by the kernel's word.
pub(crate) fn peer_user(socket: BorrowedFd<'_>) -> io::Result<libc::uid_t> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: libc::uid_t::MAX,
        gid: libc::gid_t::MAX,
    };
    // SAFETY: three integers.
    unsafe { crate::system::get_option(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, &mut peer)? };
    Ok(peer.uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memfd(bytes: libc::off_t, seals: libc::c_int) -> OwnedFd {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: a valid C string, and descriptors that are checked before they are owned.
        unsafe {
            let fd = check(libc::memfd_create(c"test".as_ptr(), flags)).unwrap();
            check(libc::ftruncate(fd, bytes)).unwrap();
            check(libc::fcntl(fd, libc::F_ADD_SEALS, seals)).unwrap();
            OwnedFd::from_raw_fd(fd)
        }
    }

    #[test]
    fn a_peer_cannot_make_it_shorter() {
        let (memory, file) = SharedMemory::create(8192).unwrap();
        memory.at(8191, 1);
        for length in [0, 4096, 16_384] {
            // SAFETY: no pointers.
            let result = unsafe { libc::ftruncate(file.as_raw_fd(), length) };
            assert_eq!(result, -1, "{length}");
        }
        SharedMemory::map(&file, 8192).unwrap();
    }

    #[test]
    fn what_a_peer_could_make_shorter_is_not_mapped() {
        for seals in [
            0,
            libc::F_SEAL_SHRINK,
            libc::F_SEAL_SHRINK | libc::F_SEAL_GROW,
        ] {
            let error = SharedMemory::map(&memfd(4096, seals), 4096).unwrap_err();
            assert!(error.to_string().contains("shorter"), "{error}");
        }
        let error = SharedMemory::map(&memfd(4096, SEALS), 8192).unwrap_err();
        assert!(error.to_string().contains("another length"), "{error}");
        SharedMemory::map(&memfd(4096, SEALS), 4096).unwrap();
        // A file of another kind has no seals.
        let null = std::fs::File::open("/dev/null").unwrap();
        SharedMemory::map(&null.into(), 4096).unwrap_err();
    }
}
