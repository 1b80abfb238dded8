//! An AF_PACKET socket that receives the IPv4 packets to our ports.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use anyhow::Context;
use ebb_units::Duration;

use crate::interface::Interface;
use crate::transports::{Selector, destination_port_at};
use crate::waker::Waker;

/// The longest frame that can be received, with room for jumbo frames.
const MAX_FRAME_BYTES: usize = 10_240;
/// Asked of the kernel for each direction: 300 ms of full frames at 100 Mbit/s, so that a process
/// that waits for the CPU loses nothing.
const SOCKET_BUFFER_BYTES: libc::c_int = 4 << 20;

pub struct PacketSocket {
    fd: OwnedFd,
    buffer: Vec<u8>,
    /// Of the interface.
    index: libc::c_uint,
}

/// Classic BPF over the frame: IPv4 protocol and destination port. One part per selector.
fn filter_program(selectors: &[Selector]) -> Vec<libc::sock_filter> {
    const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
    const LOAD_HEADER_BYTES: u16 = (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16;
    const LOAD_HALF_INDEXED: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_IND) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const JUMP_IF_ABOVE: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
    const JUMP_IF_NOT_BELOW: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let part = |selector: &Selector| {
        let Selector { protocol, ports } = *selector;
        let port_at = destination_port_at(protocol) as u32;
        [
            op(LOAD_BYTE, 0, 0, 14 + 9),
            op(JUMP_IF_EQUAL, 0, 4, protocol.0.into()),
            op(LOAD_HALF_INDEXED, 0, 0, 14 + port_at),
            op(JUMP_IF_NOT_BELOW, 0, 2, ports.first.into()),
            op(JUMP_IF_ABOVE, 1, 0, ports.last.into()),
            op(RETURN, 0, 0, u32::MAX),
        ]
    };
    let mut program = vec![op(LOAD_HEADER_BYTES, 0, 0, 14)];
    program.extend(selectors.iter().flat_map(part));
    program.push(op(RETURN, 0, 0, 0));
    program
}

impl PacketSocket {
    /// Opens the socket. It hears nothing until [`filter`](Self::filter) says what: agents on one
    /// host must not wake, or reset, each other.
    pub fn open(interface: &Interface) -> anyhow::Result<Self> {
        let flags = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // Protocol 0: nothing arrives until the filter is there and `bind` has been called.
        // SAFETY: no pointers; the result is checked before it is owned.
        let fd = unsafe { libc::socket(libc::AF_PACKET, flags, 0) };
        if fd < 0 {
            let error = io::Error::last_os_error();
            let hint = match error.raw_os_error() {
                Some(libc::EPERM) => "; run as root or with CAP_NET_RAW",
                _ => "",
            };
            return Err(error).context(format!("cannot open a packet socket{hint}"));
        }
        // SAFETY: a fresh descriptor that nothing else owns.
        let socket = PacketSocket {
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
            buffer: vec![0; MAX_FRAME_BYTES],
            index: interface.index.cast_unsigned(),
        };
        let prepare = || {
            socket.set_option(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
            for (forced, usual) in [
                (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
                (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
            ] {
                // Beyond the system's limit only with CAP_NET_ADMIN.
                socket
                    .set_option(libc::SOL_SOCKET, forced, &SOCKET_BUFFER_BYTES)
                    .or_else(|_| {
                        socket.set_option(libc::SOL_SOCKET, usual, &SOCKET_BUFFER_BYTES)
                    })?;
            }
            socket.filter(&[])?;
            socket.bind(interface.index)?;
            socket.hear_groups(interface.index)?;
            anyhow::Ok(())
        };
        prepare()
            .with_context(|| format!("cannot prepare the packet socket on `{}`", interface.name))?;
        Ok(socket)
    }

    /// Lets only these packets through from now on.
    pub fn filter(&self, selectors: &[Selector]) -> anyhow::Result<()> {
        let mut program = filter_program(selectors);
        let program = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        self.set_option(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
            .context("cannot filter what arrives at the packet socket")
    }

    fn bind(&self, index: i32) -> io::Result<()> {
        // SAFETY: plain data for which all zeroes are valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_IP as u16).to_be();
        address.sll_ifindex = index;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the pointer and the length describe `address`, which outlives the call.
        let result = unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) };
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// An interface may filter frames to groups that the kernel has not joined.
    fn hear_groups(&self, index: i32) -> io::Result<()> {
        // SAFETY: plain data for which all zeroes are valid.
        let mut membership: libc::packet_mreq = unsafe { std::mem::zeroed() };
        membership.mr_ifindex = index;
        membership.mr_type = libc::PACKET_MR_ALLMULTI as u16;
        self.set_option(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
    }

    fn set_option<T>(&self, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
        let len = size_of::<T>() as libc::socklen_t;
        // SAFETY: the pointer and the length describe `value`, which outlives the call.
        let result = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                level,
                name,
                (&raw const *value).cast(),
                len,
            )
        };
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// The next frame, if one is there.
    pub fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        // SAFETY: the pointer and the length describe `buffer`, which outlives the call.
        let len = unsafe {
            libc::recv(
                self.fd.as_raw_fd(),
                self.buffer.as_mut_ptr().cast(),
                self.buffer.len(),
                libc::MSG_TRUNC,
            )
        };
        if len < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(None),
                // It may come up again; until then flows time out. One that was deleted will not.
                Some(libc::ENETDOWN) if self.interface_exists() => Ok(None),
                _ => Err(error),
            };
        }
        // A longer one than fits is cut here, and found to be malformed by whoever parses it.
        Ok(Some(&self.buffer[..(len as usize).min(MAX_FRAME_BYTES)]))
    }

    fn interface_exists(&self) -> bool {
        let mut name = [0; libc::IF_NAMESIZE];
        // SAFETY: the buffer has the size that the call asks for.
        !unsafe { libc::if_indextoname(self.index, name.as_mut_ptr()) }.is_null()
    }

    /// False: the socket's buffer is full; try again when it is writable. While the interface is
    /// down a frame is lost, as on a cable that is not plugged in.
    pub fn send(&self, frame: &[u8]) -> io::Result<bool> {
        // SAFETY: the pointer and the length describe `frame`, which outlives the call.
        let sent =
            unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent >= 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ENETDOWN) => Ok(true),
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => Ok(false),
            _ => Err(error),
        }
    }

    /// Sleeps until a frame arrives, somebody wakes us or `patience` is over (`None`: no limit);
    /// with `for_room` also until there is room to send.
    pub fn wait(
        &self,
        patience: Option<Duration>,
        for_room: bool,
        waker: &Waker,
    ) -> io::Result<()> {
        let events = libc::POLLIN | if for_room { libc::POLLOUT } else { 0 };
        let poll = |fd, events| libc::pollfd {
            fd,
            events,
            revents: 0,
        };
        let mut polled = [
            poll(self.fd.as_raw_fd(), events),
            poll(waker.as_fd().as_raw_fd(), libc::POLLIN),
        ];
        let timeout = patience
            .map(std::time::Duration::from)
            .map(|patience| libc::timespec {
                tv_sec: patience.as_secs() as libc::time_t,
                tv_nsec: patience.subsec_nanos().into(),
            });
        let timeout = timeout
            .as_ref()
            .map_or(std::ptr::null(), |timeout| &raw const *timeout);
        // SAFETY: all pointers are to values that outlive the call, or null where that is allowed.
        let result = unsafe {
            libc::ppoll(
                polled.as_mut_ptr(),
                polled.len() as libc::nfds_t,
                timeout,
                std::ptr::null(),
            )
        };
        if result < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted {
                Ok(())
            } else {
                Err(error)
            };
        }
        Ok(())
    }
}

/// Asks the kernel to wake us on time instead of up to 50 us later to save energy.
pub fn wake_up_on_time() {
    // SAFETY: no pointers. Failure leaves the default, which is only less exact.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1usize) };
}
