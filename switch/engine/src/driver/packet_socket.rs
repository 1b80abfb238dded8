//! An AF_PACKET socket on one interface. All system calls that are not in `rustix` are here.
//!
//! Frames are timestamped by the kernel when they arrive, so that a process that gets the CPU late
//! still sees when they came. The kernel strips a VLAN tag before a packet socket sees the frame;
//! it is put back from the auxiliary data, as libpcap does.

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Frames per system call.
const BATCH: usize = 32;
/// The longest frame that can be received, with room for jumbo frames.
pub const MAX_FRAME_BYTES: usize = 10_240;
/// Bytes of an 802.1Q tag; each buffer has this much room in front.
const VLAN_TAG: usize = 4;
const MAC_ADDRESSES: usize = 12;
const SLOT: usize = VLAN_TAG + MAX_FRAME_BYTES;
/// Room for the timestamp and the auxiliary data of one frame.
const CONTROL_WORDS: usize = 16;
/// Asked of the kernel for each direction. Enough for 200 ms of full frames at 100 Mbit/s, so that
/// a process that waits for the CPU loses nothing.
const SOCKET_BUFFER_BYTES: libc::c_int = 4 << 20;
const ETHERTYPE_VLAN: u16 = 0x8100;

/// A frame as it came from the kernel.
pub struct ReceivedFrame<'a> {
    pub bytes: &'a [u8],
    /// Nanoseconds of CLOCK_REALTIME, if the kernel said.
    pub realtime_ns: Option<u64>,
    /// The sender left the L4 checksum to hardware that does not exist here.
    pub checksum_missing: bool,
}

/// What one call to [`PacketSocket::receive`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    pub frames: usize,
    /// Frames longer than [`MAX_FRAME_BYTES`], thrown away.
    pub too_long: usize,
    /// The socket is empty.
    pub drained: bool,
}

/// Buffers for one batch, shared by all sockets of a thread.
pub struct ReceiveBuffers {
    bytes: Vec<u8>,
    control: Vec<[u64; CONTROL_WORDS]>,
}

impl ReceiveBuffers {
    pub fn new() -> Self {
        Self {
            bytes: vec![0; BATCH * SLOT],
            control: vec![[0; CONTROL_WORDS]; BATCH],
        }
    }
}

impl Default for ReceiveBuffers {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

impl PacketSocket {
    /// Opens a promiscuous raw socket on the interface that does not see its own frames.
    pub fn open(interface: &str) -> io::Result<Self> {
        let index = interface_index(interface)?;
        // Protocol 0: nothing arrives until `bind` has chosen the interface.
        let flags = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers; the result is checked before it is owned.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, flags, 0) })?;
        // SAFETY: a fresh descriptor that nothing else owns.
        let socket = Self {
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
        };
        let one: libc::c_int = 1;
        socket.set_option(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &one)?;
        socket.set_option(libc::SOL_PACKET, libc::PACKET_AUXDATA, &one)?;
        socket.set_option(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &one)?;
        for direction in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
            socket.set_option(libc::SOL_SOCKET, direction, &SOCKET_BUFFER_BYTES)?;
        }
        // SAFETY: plain data for which all zeroes are valid.
        let mut membership: libc::packet_mreq = unsafe { zeroed() };
        membership.mr_ifindex = index;
        membership.mr_type = libc::PACKET_MR_PROMISC as libc::c_ushort;
        socket.set_option(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
        socket.bind(index)?;
        Ok(socket)
    }

    fn bind(&self, index: libc::c_int) -> io::Result<()> {
        // SAFETY: plain data for which all zeroes are valid.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index;
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

    fn set_option<T>(&self, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
        // SAFETY: the pointer and the size describe `value`, which outlives the call.
        check(unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                level,
                name,
                std::ptr::from_ref(value).cast(),
                size_of::<T>() as libc::socklen_t,
            )
        })?;
        Ok(())
    }

    fn get_option<T>(
        &self,
        level: libc::c_int,
        name: libc::c_int,
        value: &mut T,
    ) -> io::Result<()> {
        let mut size = size_of::<T>() as libc::socklen_t;
        // SAFETY: the pointer and the size describe `value`, which outlives the call.
        check(unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                level,
                name,
                std::ptr::from_mut(value).cast(),
                &raw mut size,
            )
        })?;
        Ok(())
    }

    /// Receives up to one batch without waiting.
    pub fn receive(
        &self,
        buffers: &mut ReceiveBuffers,
        mut deliver: impl FnMut(ReceivedFrame<'_>),
    ) -> io::Result<Received> {
        // SAFETY: plain data for which all zeroes are valid (null pointers, zero lengths).
        let mut vectors: [libc::iovec; BATCH] = unsafe { zeroed() };
        // SAFETY: as above.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        let slots = buffers.bytes.chunks_exact_mut(SLOT);
        for (((vector, header), slot), control) in vectors
            .iter_mut()
            .zip(&mut headers)
            .zip(slots)
            .zip(&mut buffers.control)
        {
            vector.iov_base = slot[VLAN_TAG..].as_mut_ptr().cast();
            vector.iov_len = MAX_FRAME_BYTES;
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of_val(control);
        }
        // SAFETY: every header points to its own vector, slot and control area, all of which
        // outlive the call; the lengths are theirs.
        let count = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let count = match check(count) {
            Ok(count) => count as usize,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
            Err(e) => return Err(e),
        };
        let mut received = Received {
            frames: count,
            too_long: 0,
            drained: count < BATCH,
        };
        for (header, slot) in headers[..count]
            .iter()
            .zip(buffers.bytes.chunks_exact_mut(SLOT))
        {
            if header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
                received.too_long += 1;
                continue;
            }
            // SAFETY: the kernel filled this header and its control area in the call above.
            let notes = unsafe { Notes::read(&header.msg_hdr) };
            let end = VLAN_TAG + header.msg_len as usize;
            let start = match notes.vlan_tag {
                Some(tag) if end >= VLAN_TAG + MAC_ADDRESSES => {
                    slot.copy_within(VLAN_TAG..VLAN_TAG + MAC_ADDRESSES, 0);
                    slot[MAC_ADDRESSES..MAC_ADDRESSES + VLAN_TAG].copy_from_slice(&tag);
                    0
                }
                _ => VLAN_TAG,
            };
            deliver(ReceivedFrame {
                bytes: &slot[start..end],
                realtime_ns: notes.realtime_ns,
                checksum_missing: notes.checksum_missing,
            });
        }
        Ok(received)
    }

    /// Sends up to one batch without waiting and says how many frames went. An error belongs to
    /// the first frame.
    pub fn send(&self, frames: &[Vec<u8>]) -> io::Result<usize> {
        // SAFETY: plain data for which all zeroes are valid (null pointers, zero lengths).
        let mut vectors: [libc::iovec; BATCH] = unsafe { zeroed() };
        // SAFETY: as above.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        let batch = frames.len().min(BATCH);
        for ((vector, header), frame) in vectors.iter_mut().zip(&mut headers).zip(frames) {
            vector.iov_base = frame.as_ptr().cast_mut().cast();
            vector.iov_len = frame.len();
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the first `batch` headers point to their own vector, which points to a frame;
        // all outlive the call, and the kernel only reads the frames.
        let sent = unsafe {
            libc::sendmmsg(
                self.fd.as_raw_fd(),
                headers.as_mut_ptr(),
                batch as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        Ok(check(sent)? as usize)
    }

    /// Frames that the kernel dropped because the socket buffer was full, since the last call.
    pub fn take_kernel_drops(&self) -> io::Result<u64> {
        // SAFETY: plain data for which all zeroes are valid.
        let mut statistics: libc::tpacket_stats = unsafe { zeroed() };
        self.get_option(libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut statistics)?;
        Ok(statistics.tp_drops.into())
    }

    /// The pending error of the socket, which this clears.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let mut code: libc::c_int = 0;
        self.get_option(libc::SOL_SOCKET, libc::SO_ERROR, &mut code)?;
        Ok((code != 0).then(|| io::Error::from_raw_os_error(code)))
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
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

/// What the kernel says about a frame beside its bytes.
#[derive(Default)]
struct Notes {
    realtime_ns: Option<u64>,
    vlan_tag: Option<[u8; VLAN_TAG]>,
    checksum_missing: bool,
}

impl Notes {
    /// # Safety
    /// `header` must have been filled by `recvmmsg`, and its control area must be alive.
    unsafe fn read(header: &libc::msghdr) -> Self {
        let mut notes = Self::default();
        // SAFETY: the caller vouches for the header; the CMSG functions stay inside its control
        // area, and the kernel wrote whole structures of the kind that level and type say.
        unsafe {
            let mut message = libc::CMSG_FIRSTHDR(header);
            while !message.is_null() {
                let data = libc::CMSG_DATA(message);
                match ((*message).cmsg_level, (*message).cmsg_type) {
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let time: libc::timespec = data.cast::<libc::timespec>().read_unaligned();
                        notes.realtime_ns =
                            Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
                    }
                    (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                        notes.auxiliary(&data.cast::<libc::tpacket_auxdata>().read_unaligned());
                    }
                    _ => {}
                }
                message = libc::CMSG_NXTHDR(header, message);
            }
        }
        notes
    }

    fn auxiliary(&mut self, data: &libc::tpacket_auxdata) {
        self.checksum_missing = data.tp_status & libc::TP_STATUS_CSUMNOTREADY != 0;
        if data.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
            let known = data.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let ethertype = if known {
                data.tp_vlan_tpid
            } else {
                ETHERTYPE_VLAN
            };
            let mut tag = [0; VLAN_TAG];
            tag[..2].copy_from_slice(&ethertype.to_be_bytes());
            tag[2..].copy_from_slice(&data.tp_vlan_tci.to_be_bytes());
            self.vlan_tag = Some(tag);
        }
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
