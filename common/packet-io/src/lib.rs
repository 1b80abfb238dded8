//! Ethernet frames in batches: on a Linux interface, through AF_PACKET, or over memory shared with the switch.
//!
//! ```text
//!  PacketSocket::receive_batch ──recvmmsg──► ReceiveBuffers ──► ReceivedFrame (a slice, and what the kernel says)
//!  ReceiveRing::receive      ──mapped────► slots of the ring ──► the same, lent to a closure
//!  PacketSocket::send_batch    ◄──────────── slices (and, with offloads, what is left to the kernel)
//!  HostRing ◄──memfd──► SwitchRing           frames between a host and its switch, without the kernel
//!  FrameIo                                   what packet sockets and rings of a host have in common
//!  wait                        ──ppoll─────► packet sockets and other descriptors
//! ```
//!
//! Nothing is allocated or copied per frame here: buffers are allocated once, frames are slices of them.
//! All unsafe code of packet I/O is in this crate.
//!
//! # When the interface goes
//!
//! *Down*: [`PacketSocket::receive_batch`] and [`PacketSocket::send_batch`] report `ENETDOWN`, the
//! first once, the second for every frame. The socket stays good: when the interface is up again
//! frames flow again, without a new socket. *Deleted*: the socket is dead for ever, even if an
//! interface of the same name comes; [`PacketSocket::interface_exists`] distinguishes the two.
//! `ppoll` says `ERR` in both cases until [`PacketSocket::take_error`] or a receive has read the error.
//!
//! # What a frame from a local TCP sender looks like
//!
//! Over a veth, the kernel leaves out the TCP checksum and the segmentation: frames of 64 KB with
//! partial checksums arrive, because nobody is thought to look. A socket without
//! [`SocketOptions::offloads`] gets them as they are, with
//! [`ReceivedFrame::checksum_missing`] set; a socket with it gets an [`Offload`] that says what is
//! missing, and can hand the same back to the kernel when it sends.

mod filter;
mod filter_message;
mod frame_io;
mod offload;
mod receive;
mod ring;
mod send;
mod shared;
mod socket;
mod system;
mod wait;
mod withhold;

pub use filter::{Bits, Filter, PortOffset};
pub use frame_io::{FrameIo, PacketIo};
pub use offload::{Offload, Segmentation};
pub use receive::{
    Batch, MAX_FRAME_BYTES, MAX_OFFLOADED_FRAME_BYTES, ReceiveBuffers, Received, ReceivedFrame,
};
pub use ring::{RING_SLOT_BYTES, ReceiveRing};
pub use send::{MAX_SEND_BATCH, OutgoingFrame, SendError};
pub use shared::{HostRing, RingListener, SwitchRing};
pub use socket::{FULL_FRAME_BYTES, PacketSocket, ReceiveMode, SocketOptions, interface_index};
pub use wait::{PollFd, run_in_real_time, runs_in_real_time, wait, wake_up_on_time};
pub use withhold::{Withheld, Withholding};
