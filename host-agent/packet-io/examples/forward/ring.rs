//! A mapped receive ring, TPACKET_V2. (V3 hands over whole blocks, after a timeout of at least a
//! millisecond: no use where latency counts.)

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use ebb_packet_io::PacketSocket;

const FRAME_BYTES: usize = 2048;
const FRAMES: usize = 1024;
const BLOCK_BYTES: usize = 1 << 16;
/// Frames taken at a time, as many as a batch has.
const BATCH: usize = 32;

pub struct Ring {
    base: *mut u8,
    next: usize,
}

impl Ring {
    pub fn map(socket: &PacketSocket) -> io::Result<Self> {
        let fd = socket.as_fd().as_raw_fd();
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: (FRAMES * FRAME_BYTES / BLOCK_BYTES) as u32,
            tp_frame_size: FRAME_BYTES as u32,
            tp_frame_nr: FRAMES as u32,
        };
        // SAFETY: pointers and sizes describe locals that outlive the calls; the result of `mmap`
        // is checked.
        unsafe {
            let size = size_of_val(&version) as libc::socklen_t;
            let value = (&raw const version).cast();
            if libc::setsockopt(fd, libc::SOL_PACKET, libc::PACKET_VERSION, value, size) < 0 {
                return Err(io::Error::last_os_error());
            }
            let size = size_of_val(&request) as libc::socklen_t;
            let value = (&raw const request).cast();
            if libc::setsockopt(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, value, size) < 0 {
                return Err(io::Error::last_os_error());
            }
            let base = libc::mmap(
                std::ptr::null_mut(),
                FRAMES * FRAME_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd,
                0,
            );
            if base == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            Ok(Ring {
                base: base.cast(),
                next: 0,
            })
        }
    }

    fn header(&self, index: usize) -> *mut libc::tpacket2_hdr {
        let slot = (self.next + index) % FRAMES;
        // SAFETY: inside the mapping.
        unsafe { self.base.add(slot * FRAME_BYTES).cast() }
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: inside the mapping, aligned, and written by both sides as a whole word.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header(index)).tp_status) }
    }

    /// Frames that wait, up to a batch.
    pub fn ready(&self) -> usize {
        (0..BATCH)
            .take_while(|&index| {
                self.status(index).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
            })
            .count()
    }

    /// One of those that are ready.
    pub fn frame(&self, index: usize) -> &[u8] {
        let header = self.header(index);
        // SAFETY: the kernel has handed this slot over, and says where in it the frame is.
        unsafe {
            let start = usize::from((*header).tp_mac);
            let len = ((*header).tp_snaplen as usize).min(FRAME_BYTES - start);
            std::slice::from_raw_parts(header.cast::<u8>().add(start), len)
        }
    }

    /// Gives the first `count` back.
    pub fn release(&mut self, count: usize) {
        for index in 0..count {
            let status = self.status(index);
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        self.next = (self.next + count) % FRAMES;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing refers to it any more.
        unsafe { libc::munmap(self.base.cast(), FRAMES * FRAME_BYTES) };
    }
}
