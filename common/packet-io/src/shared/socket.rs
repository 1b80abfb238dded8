//! The Unix socket over which a host gets a ring: the greeting with the memory, and the check of the peer's user.

use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::memory::{SharedMemory, peer_user, refused};
use super::spsc::{Direction, LEAST_DATA_BYTES};
use crate::system::{check, set_option};

/// Most bytes of data of one direction that a host maps.
const MOST_DATA_BYTES: usize = 64 << 20;
/// How long a host waits for the greeting.
const PATIENCE_SECONDS: libc::time_t = 5;

/// The first message of the switch, which comes with the descriptor of the memory: lengths of both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub to_host_bytes: u32,
    pub to_switch_bytes: u32,
}

impl Greeting {
    const NAME_AND_VERSION: [u8; 8] = *b"EbbRing1";
    const BYTES: usize = 16;

    pub fn emit(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&Self::NAME_AND_VERSION);
        bytes[8..12].copy_from_slice(&self.to_host_bytes.to_ne_bytes());
        bytes[12..].copy_from_slice(&self.to_switch_bytes.to_ne_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> io::Result<Self> {
        let ours = bytes.strip_prefix(&Self::NAME_AND_VERSION);
        let Some(&[a, b, c, d, e, f, g, h]) = ours else {
            return Err(refused("it is no switch of this version"));
        };
        let greeting = Greeting {
            to_host_bytes: u32::from_ne_bytes([a, b, c, d]),
            to_switch_bytes: u32::from_ne_bytes([e, f, g, h]),
        };
        let possible = |bytes: u32| {
            let range = LEAST_DATA_BYTES..=MOST_DATA_BYTES;
            bytes.is_power_of_two() && range.contains(&(bytes as usize))
        };
        match possible(greeting.to_host_bytes) && possible(greeting.to_switch_bytes) {
            true => Ok(greeting),
            false => Err(refused("the switch gives a ring of an impossible length")),
        }
    }

    pub fn total_bytes(self) -> usize {
        Direction::total_bytes(self.to_host_bytes as usize)
            + Direction::total_bytes(self.to_switch_bytes as usize)
    }

    /// The direction to the host, and that to the switch.
    pub fn directions(self, memory: &Arc<SharedMemory>) -> [Direction; 2] {
        let (first, second) = (self.to_host_bytes as usize, self.to_switch_bytes as usize);
        let after = Direction::total_bytes(first);
        [
            Direction::new(memory.clone(), 0, first),
            Direction::new(memory.clone(), after, second),
        ]
    }
}

/// Connects to a listener; returns the connection, its greeting and the file of the memory.
pub(super) fn connect(path: &Path) -> io::Result<(OwnedFd, Greeting, OwnedFd)> {
    let connection = try_connect(path)?;
    check_peer(connection.as_fd())?;
    let patience = libc::timeval {
        tv_sec: PATIENCE_SECONDS,
        tv_usec: 0,
    };
    let fd = connection.as_fd();
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &patience)?;
    let (greeting, file) = receive_with(&connection)?;
    Ok((connection, greeting, file))
}

pub(super) fn try_connect(path: &Path) -> io::Result<OwnedFd> {
    let socket = new_socket(0)?;
    with_address(path, |address, bytes| {
        // SAFETY: as in `bind`.
        check(unsafe { libc::connect(socket.as_raw_fd(), address, bytes) })
    })?;
    Ok(socket)
}

/// Checks that the peer is root, or the user of this process.
pub(super) fn check_peer(connection: BorrowedFd<'_>) -> io::Result<()> {
    let peer = peer_user(connection)?;
    // SAFETY: it has no arguments and cannot fail.
    let own = unsafe { libc::geteuid() };
    match peer == 0 || peer == own {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("the other end of the ring is of user {peer}"),
        )),
    }
}

pub(super) fn new_socket(flags: libc::c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | flags;
    // SAFETY: no pointers; the result is checked before it is owned.
    let fd = check(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: a fresh descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(super) fn with_address<T>(
    path: &Path,
    call: impl FnOnce(*const libc::sockaddr, libc::socklen_t) -> io::Result<T>,
) -> io::Result<T> {
    // SAFETY: plain data for which all zeroes are valid.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    let name = path.as_os_str().as_bytes();
    // A zero ends it.
    if name.len() >= address.sun_path.len() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "the path of a socket has fewer than {} bytes",
                address.sun_path.len()
            ),
        ));
    }
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    let bytes = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    call((&raw const address).cast(), bytes)
}

/// Room for a control message with one descriptor, aligned as such messages are.
type Control = [usize; 4];

fn header(part: &mut libc::iovec, control: &mut MaybeUninit<Control>) -> libc::msghdr {
    // SAFETY: plain data for which all zeroes are valid.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of::<Control>() as _;
    header
}

/// Sends a message together with a descriptor.
pub(super) fn send_with(connection: &OwnedFd, message: &[u8], file: &OwnedFd) -> io::Result<()> {
    let mut control = MaybeUninit::<Control>::zeroed();
    let mut part = libc::iovec {
        iov_base: message.as_ptr().cast_mut().cast(),
        iov_len: message.len(),
    };
    let mut header = header(&mut part, &mut control);
    let bytes = size_of::<libc::c_int>() as libc::c_uint;
    // SAFETY: the control area has room for one message with a descriptor, at which the CMSG functions point; all
    // pointers are to locals that outlive the call, which only reads them.
    let sent = unsafe {
        header.msg_controllen = libc::CMSG_SPACE(bytes) as _;
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = libc::SCM_RIGHTS;
        (*first).cmsg_len = libc::CMSG_LEN(bytes) as _;
        libc::CMSG_DATA(first)
            .cast::<libc::c_int>()
            .write_unaligned(file.as_raw_fd());
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        libc::sendmsg(connection.as_raw_fd(), &raw const header, flags)
    };
    match sent < 0 {
        true => Err(io::Error::last_os_error()),
        false => Ok(()),
    }
}

/// Receives the greeting together with the descriptor of the memory.
fn receive_with(connection: &OwnedFd) -> io::Result<(Greeting, OwnedFd)> {
    let mut message = [0; Greeting::BYTES + 1];
    let mut control = MaybeUninit::<Control>::zeroed();
    let mut part = libc::iovec {
        iov_base: message.as_mut_ptr().cast(),
        iov_len: message.len(),
    };
    let mut header = header(&mut part, &mut control);
    let bytes = size_of::<libc::c_int>() as libc::c_uint;
    // SAFETY: all pointers are to locals that outlive the call. There is room for one descriptor: the kernel closes
    // others. What it has written are whole control messages, in which the CMSG functions stay; a descriptor of them
    // is fresh and owned by nothing else.
    let (length, file) = unsafe {
        header.msg_controllen = libc::CMSG_SPACE(bytes) as _;
        let fd = connection.as_raw_fd();
        let length = libc::recvmsg(fd, &raw mut header, libc::MSG_CMSG_CLOEXEC);
        if length < 0 {
            return Err(io::Error::last_os_error());
        }
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        let file = match first.is_null() {
            false if (*first).cmsg_type == libc::SCM_RIGHTS => {
                let fd = libc::CMSG_DATA(first)
                    .cast::<libc::c_int>()
                    .read_unaligned();
                Some(OwnedFd::from_raw_fd(fd))
            }
            _ => None,
        };
        (length.cast_unsigned(), file)
    };
    let greeting = Greeting::parse(&message[..length])?;
    let file = file.ok_or_else(|| refused("the switch gives no memory"))?;
    Ok((greeting, file))
}
