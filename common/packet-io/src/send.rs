//! Sending in batches.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use thiserror::Error;

use crate::PacketSocket;
use crate::offload::Offload;
use crate::system::check;

/// The most frames that one system call sends.
pub const MAX_SEND_BATCH: usize = 64;

/// A frame to send.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingFrame<'a> {
    /// The frame, from the Ethernet header on.
    pub bytes: &'a [u8],
    /// Work that the kernel is to do; [`Offload::NONE`] unless the socket was opened with
    /// [`SocketOptions::offloads`](crate::SocketOptions::offloads).
    pub offload: Offload,
}

impl<'a> From<&'a [u8]> for OutgoingFrame<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        OutgoingFrame {
            bytes,
            offload: Offload::NONE,
        }
    }
}

/// Reason why the first frame of a batch was not sent.
#[derive(Debug, Error)]
pub enum SendError {
    /// `EAGAIN`: the socket's send buffer is full. `ppoll` reports `OUT` once there is room.
    #[error("the socket's buffer is full")]
    Full,
    /// `ENOBUFS`, `ENOMEM`: the queue of the interface (its qdisc; on a veth, that of the other end)
    /// has dropped the frame. No event says that there is room again; `ppoll` may report `OUT` at once.
    #[error("the interface's queue is full")]
    QueueFull,
    /// `ENETDOWN`; see the crate's documentation.
    #[error("the interface is down")]
    Down,
    /// `EMSGSIZE`: longer than the MTU allows. It can never be sent.
    #[error("the frame is longer than the interface's MTU allows")]
    TooLong,
    /// `EINVAL`: shorter than an Ethernet header, or its [`Offload`] is wrong. It can never be sent.
    #[error("the frame is malformed")]
    Malformed,
    /// Among them `ENXIO` and `ENODEV`: the interface is gone.
    #[error(transparent)]
    Other(io::Error),
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => SendError::Full,
            Some(libc::ENOBUFS | libc::ENOMEM) => SendError::QueueFull,
            Some(libc::ENETDOWN) => SendError::Down,
            Some(libc::EMSGSIZE) => SendError::TooLong,
            Some(libc::EINVAL) => SendError::Malformed,
            _ => SendError::Other(error),
        }
    }
}

impl PacketSocket {
    /// Sends the first frames, at most [`MAX_SEND_BATCH`], without waiting, and returns their number: at least 1 unless
    /// `frames` is empty. An error is about the first frame, and none of the others was sent: skip it or try again.
    pub fn send_batch<'a, F: Into<OutgoingFrame<'a>>>(
        &self,
        frames: impl IntoIterator<Item = F>,
    ) -> Result<usize, SendError> {
        let mut offloads = [[0; Offload::BYTES]; MAX_SEND_BATCH];
        let mut vectors = [const { MaybeUninit::<[libc::iovec; 2]>::uninit() }; MAX_SEND_BATCH];
        let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; MAX_SEND_BATCH];
        // Without `offloads` the first vector, its header, is left out.
        let (first, count) = if self.offloads() { (0, 2) } else { (1, 1) };
        let mut batch = 0;
        for frame in frames.into_iter().take(MAX_SEND_BATCH) {
            let frame: OutgoingFrame<'a> = frame.into();
            if self.offloads() {
                offloads[batch] = frame.offload.emit();
            } else if frame.offload != Offload::NONE {
                // It would be wrong on the wire without the kernel's work.
                if batch == 0 {
                    return Err(SendError::Malformed);
                }
                break;
            }
            let vector = vectors[batch].write([
                libc::iovec {
                    iov_base: offloads[batch].as_mut_ptr().cast(),
                    iov_len: Offload::BYTES,
                },
                libc::iovec {
                    iov_base: frame.bytes.as_ptr().cast_mut().cast(),
                    iov_len: frame.bytes.len(),
                },
            ]);
            // SAFETY: plain data for which all zeroes are valid (null pointers, zero lengths).
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = vector[first..].as_mut_ptr();
            header.msg_hdr.msg_iovlen = count;
            headers[batch].write(header);
            batch += 1;
        }
        if batch == 0 {
            return Ok(0);
        }
        // SAFETY: the first `batch` headers are initialised and point to their own vectors, which
        // point to frames that live for 'a and to `offloads`; the kernel only reads all of these.
        let sent = unsafe {
            libc::sendmmsg(
                self.fd().as_raw_fd(),
                headers.as_mut_ptr().cast(),
                batch as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        Ok(check(sent)? as usize)
    }
}
