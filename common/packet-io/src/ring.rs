//! A mapped ring for what a socket receives, TPACKET_V2: no system call and one copy per frame.
//!
//! The kernel writes frames into slots of the ring and hands them over one by one. (TPACKET_V3 packs
//! frames closer, but hands over blocks, after a timeout of at least a millisecond if they are not
//! full: no use where latency counts.) A frame that is longer than a slot comes through the queue of
//! the socket, in its turn.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::offload::Offload;
use crate::receive::{MAC_ADDRESSES, VLAN_TAG, vlan_tag};
use crate::system::{map_shared, set_option};
use crate::{MAX_FRAME_BYTES, PacketSocket, ReceiveBuffers, Received, ReceivedFrame};

/// Bytes of a slot for frames of the usual length: a full Ethernet frame and what the kernel says about it.
pub const RING_SLOT_BYTES: usize = 2048;
/// Bytes of the longest frame, without a VLAN tag, that fits into such a slot for certain.
const RING_FRAME_BYTES: usize = 1900;
/// Bytes that the kernel allocates at a time for the ring.
const BLOCK_BYTES: usize = 1 << 16;

/// Frames that a [`PacketSocket`] receives. Unmapped when dropped.
pub struct ReceiveRing {
    /// The beginning of the mapped memory.
    base: NonNull<u8>,
    slots: usize,
    slot_bytes: usize,
    /// The slot that is read next.
    next: usize,
    /// Buffers for frames that are too long for a slot.
    long: ReceiveBuffers,
}

// SAFETY: the mapping belongs to this value alone and is not bound to a thread.
unsafe impl Send for ReceiveRing {}

impl ReceiveRing {
    /// Has all further frames of the socket come through a ring of `bytes` (or a little more), which
    /// the kernel allocates at once, in slots of [`RING_SLOT_BYTES`]. What is in the socket's queue is lost.
    ///
    /// `EINVAL`: the socket has offloads, or a ring already. `ENOMEM`: there is no memory.
    pub fn map(socket: &PacketSocket, bytes: usize) -> io::Result<Self> {
        Self::map_slots(socket, bytes, RING_SLOT_BYTES)
    }

    /// The same with slots for frames of `frame_bytes`, at most [`MAX_FRAME_BYTES`], which is rounded up to a power of
    /// two with what the kernel says about a frame.
    pub fn map_for(socket: &PacketSocket, bytes: usize, frame_bytes: usize) -> io::Result<Self> {
        let notes = RING_SLOT_BYTES - RING_FRAME_BYTES;
        let slot_bytes = (frame_bytes.min(MAX_FRAME_BYTES) + notes).next_power_of_two();
        Self::map_slots(socket, bytes, slot_bytes.max(RING_SLOT_BYTES))
    }

    /// `slot_bytes`: a power of two, at most [`BLOCK_BYTES`].
    fn map_slots(socket: &PacketSocket, bytes: usize, slot_bytes: usize) -> io::Result<Self> {
        if socket.offloads() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let blocks = bytes.div_ceil(BLOCK_BYTES).max(1);
        let bytes = blocks * BLOCK_BYTES;
        let slots = bytes / slot_bytes;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as libc::c_uint,
            tp_block_nr: blocks as libc::c_uint,
            tp_frame_size: slot_bytes as libc::c_uint,
            tp_frame_nr: slots as libc::c_uint,
        };
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        let set =
            |name, value: libc::c_int| set_option(socket.fd(), libc::SOL_PACKET, name, &value);
        set(libc::PACKET_VERSION, version)?;
        // In front of a frame there is room for the tag that the kernel took out.
        set(libc::PACKET_RESERVE, VLAN_TAG as libc::c_int)?;
        // Frames that do not fit are queued as a whole.
        set(libc::PACKET_COPY_THRESH, 1)?;
        set_option(
            socket.fd(),
            libc::SOL_PACKET,
            libc::PACKET_RX_RING,
            &request,
        )?;
        let base = map_shared(socket.fd(), bytes)?;
        Ok(ReceiveRing {
            base,
            slots,
            slot_bytes,
            next: 0,
            long: ReceiveBuffers::new(1, MAX_FRAME_BYTES),
        })
    }

    /// Hands over what is there, up to `most` frames, in order and without waiting. The socket must
    /// be that of the ring.
    pub fn receive(
        &mut self,
        socket: &PacketSocket,
        most: usize,
        mut take: impl FnMut(ReceivedFrame<'_>),
    ) -> io::Result<Received> {
        let mut received = Received::default();
        while received.frames + received.too_long < most {
            let mut slot = self.slot();
            let status = slot.status().load(Ordering::Acquire);
            if status & libc::TP_STATUS_USER == 0 {
                received.drained = true;
                break;
            }
            if status & libc::TP_STATUS_COPY != 0 {
                let batch = socket.receive_batch(&mut self.long)?;
                received.too_long += batch.too_long;
                for frame in batch.iter() {
                    take(frame);
                    received.frames += 1;
                }
            } else if let Some(frame) = slot.frame(status) {
                take(frame);
                received.frames += 1;
            } else {
                received.too_long += 1;
            }
            slot.status()
                .store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % self.slots;
        }
        Ok(received)
    }

    fn slot(&mut self) -> Slot {
        // SAFETY: `next` is below `slots`, all of which are in the mapping.
        let begin = unsafe { self.base.add(self.next * self.slot_bytes) };
        Slot {
            begin,
            bytes: self.slot_bytes,
        }
    }
}

impl Drop for ReceiveRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no slice of it is left: `receive` lends them to a closure.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.slots * self.slot_bytes) };
    }
}

/// A slot of the ring. The kernel wrote its header and leaves it alone until it is given back.
struct Slot {
    begin: NonNull<u8>,
    bytes: usize,
}

impl Slot {
    fn status(&self) -> &AtomicU32 {
        let header = self.begin.as_ptr().cast::<libc::tpacket2_hdr>();
        // SAFETY: inside the mapping, aligned, and written by both sides as a whole word.
        unsafe { AtomicU32::from_ptr(&raw mut (*header).tp_status) }
    }

    /// A frame that the kernel has handed over; empty if it was cut because neither the slot nor the
    /// queue had room.
    fn frame(&mut self, status: u32) -> Option<ReceivedFrame<'_>> {
        // SAFETY: the slot is ours until its status changes, and so are all its bytes; the header is
        // plain data. Nothing else refers to them: `&mut self`.
        let (header, slot) = unsafe {
            let header = self.begin.cast::<libc::tpacket2_hdr>().read();
            let slot = std::slice::from_raw_parts_mut(self.begin.as_ptr(), self.bytes);
            (header, slot)
        };
        let (mut start, end) = (
            usize::from(header.tp_mac),
            usize::from(header.tp_mac) + header.tp_snaplen as usize,
        );
        if end == self.bytes && header.tp_snaplen < header.tp_len {
            return None;
        }
        let mut wire_bytes = header.tp_len as usize;
        if status & libc::TP_STATUS_VLAN_VALID != 0 && end - start >= MAC_ADDRESSES {
            let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let tag = vlan_tag(known.then_some(header.tp_vlan_tpid), header.tp_vlan_tci);
            slot.copy_within(start..start + MAC_ADDRESSES, start - VLAN_TAG);
            slot[start + MAC_ADDRESSES - VLAN_TAG..][..VLAN_TAG].copy_from_slice(&tag);
            start -= VLAN_TAG;
            wire_bytes += VLAN_TAG;
        }
        Some(ReceivedFrame {
            bytes: &slot[start..end],
            wire_bytes,
            realtime_ns: Some(u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec)),
            checksum_missing: status & libc::TP_STATUS_CSUMNOTREADY != 0,
            offload: Offload::NONE,
        })
    }
}
