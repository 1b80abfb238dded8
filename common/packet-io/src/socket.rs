//! Packet sockets: opening, options and state.

use std::ffi::CString;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::filter::Filter;
use crate::system::{check, get_option, set_option};

/// Bytes that the kernel accounts for a full Ethernet frame: a buffer of 2048 and its `sk_buff`.
pub const FULL_FRAME_BYTES: usize = 2304;

/// Destination addresses of frames that the interface accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReceiveMode {
    /// Own address, broadcast, and all multicast groups, even those that the kernel has not joined.
    #[default]
    AllMulticast,
    /// Everything.
    Promiscuous,
}

/// Settings of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Frames that the socket receives.
    pub receive_mode: ReceiveMode,
    /// `None`: every frame. With a filter: only IPv4 packets and MAC control frames that pass it.
    pub filter: Option<Filter>,
    /// Size of the kernel's buffer in each direction, bytes; beyond the system's limit only with
    /// CAP_NET_ADMIN.
    pub buffer_bytes: libc::c_int,
    /// Received frames have a time stamp, of their arrival; in the first milliseconds after opening it
    /// may be that of reading, since the kernel enables time stamps late.
    pub timestamps: bool,
    /// Frames are received and sent with an [`Offload`](crate::Offload); receive buffers should then
    /// have slots of [`MAX_OFFLOADED_FRAME_BYTES`](crate::MAX_OFFLOADED_FRAME_BYTES).
    pub offloads: bool,
    /// Sent frames bypass the queueing discipline of the interface, and its limits.
    pub bypass_qdisc: bool,
}

impl Default for SocketOptions {
    fn default() -> Self {
        SocketOptions {
            receive_mode: ReceiveMode::default(),
            filter: None,
            // 300 ms of full frames at 100 Mbit/s, so that a process that waits for the CPU loses
            // nothing.
            buffer_bytes: 4 << 20,
            timestamps: false,
            offloads: false,
            bypass_qdisc: false,
        }
    }
}

/// A raw packet socket on one interface. It never blocks, and does not receive outgoing frames.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    /// Number of the interface.
    index: libc::c_int,
    offloads: bool,
}

impl PacketSocket {
    /// Needs CAP_NET_RAW in the network namespace of the interface.
    pub fn open(interface: &str, options: &SocketOptions) -> io::Result<Self> {
        let index = interface_index(interface)?;
        let flags = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // Protocol 0: nothing arrives until `bind` has chosen the interface.
        // SAFETY: no pointers; the result is checked before it is owned.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, flags, 0) })?;
        let socket = PacketSocket {
            // SAFETY: a fresh descriptor that nothing else owns.
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
            index,
            offloads: options.offloads,
        };
        socket.prepare(options)?;
        Ok(socket)
    }

    fn prepare(&self, options: &SocketOptions) -> io::Result<()> {
        let fd = self.as_fd();
        let switch = |level, name, on: bool| set_option(fd, level, name, &libc::c_int::from(on));
        switch(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, true)?;
        switch(libc::SOL_PACKET, libc::PACKET_AUXDATA, true)?;
        if options.timestamps {
            switch(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, true)?;
        }
        if options.offloads {
            switch(libc::SOL_PACKET, libc::PACKET_VNET_HDR, true)?;
        }
        if options.bypass_qdisc {
            switch(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, true)?;
        }
        for names in [RECEIVE_BUFFER, SEND_BUFFER] {
            set_buffer(fd, names, options.buffer_bytes)?;
        }
        if let Some(filter) = &options.filter {
            filter.attach(fd)?;
        }
        self.join(options.receive_mode)?;
        // Whoever takes frames of one type gets them after programs at the interface have dropped some.
        self.bind(libc::ETH_P_ALL)
    }

    fn join(&self, mode: ReceiveMode) -> io::Result<()> {
        let kind = match mode {
            ReceiveMode::AllMulticast => libc::PACKET_MR_ALLMULTI,
            ReceiveMode::Promiscuous => libc::PACKET_MR_PROMISC,
        };
        let membership = libc::packet_mreq {
            mr_ifindex: self.index,
            mr_type: kind as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        let name = libc::PACKET_ADD_MEMBERSHIP;
        set_option(self.as_fd(), libc::SOL_PACKET, name, &membership)
    }

    fn bind(&self, ethertype: libc::c_int) -> io::Result<()> {
        // SAFETY: plain data for which all zeroes are valid.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_protocol = (ethertype as u16).to_be();
        address.sll_ifindex = self.index;
        // SAFETY: the pointer and the size describe `address`, which outlives the call.
        check(unsafe {
            libc::bind(
                self.fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        })?;
        Ok(())
    }

    /// Replaces the filter of a socket that was opened with one. Frames that it has received stay.
    pub fn set_filter(&self, filter: &Filter) -> io::Result<()> {
        filter.attach(self.as_fd())
    }

    /// Frames that the kernel dropped because the socket buffer was full, since the last call.
    pub fn take_kernel_drops(&self) -> io::Result<u64> {
        let mut statistics = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        // SAFETY: two integers.
        unsafe {
            let name = libc::PACKET_STATISTICS;
            get_option(self.as_fd(), libc::SOL_PACKET, name, &mut statistics)?;
        }
        Ok(statistics.tp_drops.into())
    }

    /// Sets the most bytes that the kernel holds of sent frames, at the interface and in its queueing
    /// discipline, before sending fails with [`Full`](crate::SendError::Full): as the kernel accounts
    /// them ([`FULL_FRAME_BYTES`]), at least 4608. The last frame may exceed it.
    pub fn limit_unsent(&self, bytes: usize) -> io::Result<()> {
        // The kernel doubles what it is given.
        let half = libc::c_int::try_from(bytes / 2).unwrap_or(libc::c_int::MAX);
        set_buffer(self.as_fd(), SEND_BUFFER, half)
    }

    /// Bytes of sent frames that the kernel holds, as it accounts them. Some queueing disciplines give the
    /// bytes back before a frame has left, among them netem with a delay.
    pub fn unsent_bytes(&self) -> io::Result<usize> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the request writes one integer, to a local that outlives the call.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
        Ok(usize::try_from(bytes).unwrap_or(0))
    }

    /// The pending error of the socket, which this clears.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let mut code: libc::c_int = 0;
        // SAFETY: an integer.
        unsafe { get_option(self.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR, &mut code)? };
        Ok((code != 0).then(|| io::Error::from_raw_os_error(code)))
    }

    /// False: the interface was deleted or has left the namespace, and the socket is useless, even if
    /// there is a new interface of the name.
    pub fn interface_exists(&self) -> bool {
        let mut name = [0; libc::IF_NAMESIZE];
        // SAFETY: the buffer has the size that the call asks for.
        let named = unsafe { libc::if_indextoname(self.index.cast_unsigned(), name.as_mut_ptr()) };
        // The number may be that of a later interface, or of this one after it was in another namespace.
        !named.is_null() && self.is_bound()
    }

    /// The kernel unbinds a socket when its interface is deleted, and never binds it again.
    fn is_bound(&self) -> bool {
        // SAFETY: plain data for which all zeroes are valid.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        let mut size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the pointers are to locals that outlive the call, which writes `size` bytes at
        // most.
        let result = unsafe {
            let address = (&raw mut address).cast();
            libc::getsockname(self.fd.as_raw_fd(), address, &raw mut size)
        };
        result == 0 && address.sll_ifindex == self.index
    }

    pub(crate) fn index(&self) -> libc::c_int {
        self.index
    }

    pub(crate) fn offloads(&self) -> bool {
        self.offloads
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The two options for a buffer: one that goes beyond the limit of the system, which needs
/// CAP_NET_ADMIN, and one that does not.
type BufferOption = [libc::c_int; 2];

const RECEIVE_BUFFER: BufferOption = [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF];
const SEND_BUFFER: BufferOption = [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF];

fn set_buffer(
    fd: BorrowedFd<'_>,
    [forced, usual]: BufferOption,
    bytes: libc::c_int,
) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, forced, &bytes)
        .or_else(|_| set_option(fd, libc::SOL_SOCKET, usual, &bytes))
}

/// The number of an interface.
pub fn interface_index(name: &str) -> io::Result<libc::c_int> {
    let c_name = CString::new(name).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    // SAFETY: a valid C string that outlives the call.
    match unsafe { libc::if_nametoindex(c_name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index as libc::c_int),
    }
}
