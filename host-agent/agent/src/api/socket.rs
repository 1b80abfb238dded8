//! The local socket: SOCK_SEQPACKET, so that one message is one JSON object and a descriptor
//! (SCM_RIGHTS) belongs to exactly one message.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags,
    SocketType, sockopt,
};

use super::MAX_MESSAGE_BYTES;

/// Descriptors that one message may carry; more than one are closed.
const MAX_DESCRIPTORS: usize = 4;
/// Clients that may wait to be accepted.
const BACKLOG: i32 = 128;
/// Name in the abstract namespace, which belongs to the network namespace, that is to the host.
const ABSTRACT_NAME: &[u8] = b"ebb-agent";

/// Where a daemon listens.
#[derive(Clone, Debug)]
pub enum Address {
    /// `@ebb-agent` of this network namespace.
    Host,
    Path(PathBuf),
}

impl Address {
    pub fn new(path: Option<&Path>) -> Self {
        path.map_or(Address::Host, |path| Address::Path(path.to_owned()))
    }

    fn socket_address(&self) -> io::Result<SocketAddrUnix> {
        Ok(match self {
            Address::Host => SocketAddrUnix::new_abstract_name(ABSTRACT_NAME)?,
            Address::Path(path) => SocketAddrUnix::new(path.as_path())?,
        })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Host => f.write_str("@ebb-agent"),
            Address::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(rustix::net::socket_with(
        family,
        kind,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Result of [`Connection::receive`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    Message,
    /// A message, of which a descriptor is lost: this process may have no more, or there were too many.
    WithoutDescriptor,
    /// The other end has closed.
    Closed,
}

/// One end of a connection. Sending and receiving may happen on different threads.
#[derive(Debug)]
pub struct Connection(OwnedFd);

impl Connection {
    /// Both ends, for a client and a daemon that share a process.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (a, b) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
        Ok((Connection(a), Connection(b)))
    }

    pub fn connect(address: &Address) -> io::Result<Self> {
        let socket = new_socket()?;
        rustix::net::connect(&socket, &address.socket_address()?)?;
        Ok(Connection(socket))
    }

    /// A message that cannot be sent for so long is an error.
    pub fn set_send_timeout(&self, timeout: Duration) -> io::Result<()> {
        Ok(sockopt::set_socket_timeout(
            &self.0,
            sockopt::Timeout::Send,
            Some(timeout),
        )?)
    }

    pub fn send(&self, message: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = descriptor.as_slice();
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let message = [IoSlice::new(message)];
        loop {
            match rustix::net::sendmsg(&self.0, &message, &mut control, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::INTR) => {}
                result => return Ok(result.map(|_| ())?),
            }
        }
    }

    /// Waits for the next message, which replaces `message`.
    pub fn receive(
        &self,
        message: &mut Vec<u8>,
        descriptor: &mut Option<OwnedFd>,
    ) -> io::Result<Received> {
        message.resize(MAX_MESSAGE_BYTES, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(message)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = rustix::net::recvmsg(&self.0, &mut parts, &mut control, flags)?;
        *descriptor = None;
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = part {
                for received in descriptors {
                    descriptor.get_or_insert(received);
                }
            }
        }
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a message is longer than {MAX_MESSAGE_BYTES} bytes"),
            ));
        }
        message.truncate(received.bytes);
        Ok(match received.bytes {
            0 => Received::Closed,
            _ if received.flags.contains(ReturnFlags::CTRUNC) => Received::WithoutDescriptor,
            _ => Received::Message,
        })
    }

    /// Both directions end, also for a thread that waits in [`receive`](Self::receive).
    pub fn close(&self) {
        // Fails only if the other end has closed already.
        let _ = rustix::net::shutdown(&self.0, Shutdown::Both);
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Takes connections of this user and of root.
pub struct Listener {
    socket: OwnedFd,
    address: Address,
}

impl Listener {
    pub fn bind(address: Address) -> io::Result<Self> {
        let socket = new_socket()?;
        let name = address.socket_address()?;
        match rustix::net::bind(&socket, &name) {
            Err(rustix::io::Errno::ADDRINUSE) if is_abandoned(&address) => {
                if let Address::Path(path) = &address {
                    std::fs::remove_file(path)?;
                }
                rustix::net::bind(&socket, &name)?;
            }
            result => result?,
        }
        if let Address::Path(path) = &address {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        }
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(Listener { socket, address })
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Waits for the next client. `None`: it may not use this daemon, and is gone.
    pub fn accept(&self) -> io::Result<Option<Connection>> {
        let socket = rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC)?;
        let peer = sockopt::socket_peercred(&socket)?.uid;
        let may = peer.is_root() || peer == rustix::process::geteuid();
        Ok(may.then_some(Connection(socket)))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Path(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether a socket file was left by a daemon that was killed: nobody listens on it.
fn is_abandoned(address: &Address) -> bool {
    matches!(address, Address::Path(path) if is_socket(path))
        && Connection::connect(address)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    fn receive(connection: &Connection) -> (Vec<u8>, Option<OwnedFd>) {
        let (mut message, mut descriptor) = (Vec::new(), None);
        let received = connection.receive(&mut message, &mut descriptor);
        assert_eq!(received.unwrap(), Received::Message);
        (message, descriptor)
    }

    #[test]
    fn messages_keep_their_bounds_and_descriptors() {
        let (a, b) = Connection::pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        a.send(b"one", None).unwrap();
        a.send(b"two", Some(writer.as_fd())).unwrap();
        drop(writer);
        assert_eq!(receive(&b).0, b"one");
        let (message, descriptor) = receive(&b);
        assert_eq!(message, b"two");
        let mut file = File::from(descriptor.unwrap());
        file.write_all(b"through").unwrap();
        drop(file);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        drop(a);
        let received = b.receive(&mut Vec::new(), &mut None);
        assert_eq!(received.unwrap(), Received::Closed);
    }

    #[test]
    fn it_is_told_that_a_descriptor_is_lost() {
        let (a, b) = Connection::pair().unwrap();
        let (reader, _writer) = std::io::pipe().unwrap();
        let many = [reader.as_fd(); MAX_DESCRIPTORS + 3];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&many)));
        let message = [IoSlice::new(b"all of these")];
        rustix::net::sendmsg(&a.0, &message, &mut control, SendFlags::NOSIGNAL).unwrap();
        let received = b.receive(&mut Vec::new(), &mut None);
        assert_eq!(received.unwrap(), Received::WithoutDescriptor);
    }

    #[test]
    fn what_is_too_long_is_an_error() {
        let (a, b) = Connection::pair().unwrap();
        a.send(&vec![b'x'; MAX_MESSAGE_BYTES + 1], None).unwrap();
        let error = b.receive(&mut Vec::new(), &mut None).unwrap_err();
        assert!(error.to_string().contains("longer than"), "{error}");
    }

    #[test]
    fn a_socket_that_a_killed_daemon_left_is_taken_over_and_a_file_is_not() {
        let folder = ebb_testkit::Folder::new("socket");
        let path = folder.join("s");
        let address = Address::Path(path.clone());
        let first = Listener::bind(address.clone()).unwrap();
        assert!(Listener::bind(address.clone()).is_err());
        // As if killed: the file stays.
        let left = std::mem::ManuallyDrop::new(first);
        rustix::net::shutdown(&left.socket, Shutdown::Both).unwrap();
        drop(Listener::bind(address.clone()).unwrap());
        assert!(!path.exists());
        std::fs::write(&path, "precious").unwrap();
        assert!(Listener::bind(address).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }
}
