//! Receiving in batches.

use std::io;
use std::os::fd::AsRawFd;

use crate::PacketSocket;
use crate::offload::{Offload, Segmentation};
use crate::system::check;

/// Bytes of the longest frame on a wire, with room for jumbo frames.
pub const MAX_FRAME_BYTES: usize = 10_240;
/// Bytes of the longest frame that a sender leaves for the hardware to cut.
pub const MAX_OFFLOADED_FRAME_BYTES: usize = 65_536 + 64;
/// Bytes of an 802.1Q tag; each slot has so much room in front of the frame.
pub(crate) const VLAN_TAG: usize = 4;
pub(crate) const MAC_ADDRESSES: usize = 12;
const ETHERTYPE_VLAN: u16 = 0x8100;
/// Room for the timestamp and the auxiliary data of one frame.
const CONTROL_WORDS: usize = 16;

/// A frame as it came from the kernel.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedFrame<'a> {
    /// With its VLAN tag, if it had one: the kernel strips it, and it is put back.
    pub bytes: &'a [u8],
    /// Its length before a filter cut it ([`Filter::keeping`](crate::Filter::keeping)).
    pub wire_bytes: usize,
    /// Nanoseconds of CLOCK_REALTIME when the kernel got it; `None` without
    /// [`SocketOptions::timestamps`](crate::SocketOptions::timestamps).
    pub realtime_ns: Option<u64>,
    /// The sender left the L4 checksum to hardware.
    pub checksum_missing: bool,
    /// Work that was left to hardware; always [`Offload::NONE`] without
    /// [`SocketOptions::offloads`](crate::SocketOptions::offloads).
    pub offload: Offload,
}

/// Frames that one call received, in order.
#[derive(Debug)]
pub struct Batch<'a> {
    slots: &'a mut [u8],
    slot_bytes: usize,
    notes: &'a mut [Notes],
    /// Frames that did not fit into a slot, thrown away.
    pub too_long: usize,
    /// The socket had no more frames.
    pub drained: bool,
}

impl Batch<'_> {
    /// Frames of the batch, in the order of their arrival.
    pub fn iter(&self) -> impl Iterator<Item = ReceivedFrame<'_>> {
        (0..self.notes.len()).filter_map(|slot| self.get(slot))
    }

    /// The frame in one of the [`slots`](Self::slots).
    pub fn get(&self, slot: usize) -> Option<ReceivedFrame<'_>> {
        let notes = self.notes.get(slot).filter(|notes| notes.end > 0)?;
        let from = slot * self.slot_bytes;
        Some(ReceivedFrame {
            bytes: &self.slots[from + notes.start..from + notes.end],
            wire_bytes: (notes.end - notes.start).max(notes.wire_bytes),
            realtime_ns: notes.realtime_ns,
            checksum_missing: notes.checksum_missing,
            offload: notes.offload,
        })
    }

    /// Number of slots that were used; those of frames that were too long are empty.
    pub fn slots(&self) -> usize {
        self.notes.len()
    }

    /// Computes checksums that were left to hardware, except in frames that are still to be segmented.
    /// Needs a socket with offloads. Returns the number of frames for which that failed; the batch loses
    /// them.
    pub fn complete_checksums(&mut self) -> usize {
        let mut bad = 0;
        let slots = self.slots.chunks_exact_mut(self.slot_bytes);
        for (notes, slot) in self.notes.iter_mut().zip(slots) {
            let offload = &mut notes.offload;
            if offload.partial_checksum().is_none() || offload.segmentation() != Segmentation::None
            {
                continue;
            }
            if offload.complete_checksum(&mut slot[notes.start..notes.end]) {
                *offload = Offload::NONE;
                notes.checksum_missing = false;
            } else {
                notes.end = 0;
                bad += 1;
            }
        }
        bad
    }

    /// Whether no frame was received.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

/// Buffers for one batch. One set can serve all sockets of a thread in turn.
pub struct ReceiveBuffers {
    slots: Box<[u8]>,
    slot_bytes: usize,
    offloads: Box<[[u8; Offload::BYTES]]>,
    control: Box<[[u64; CONTROL_WORDS]]>,
    /// Per frame: the places for its `Offload` and for its bytes.
    vectors: Box<[[libc::iovec; 2]]>,
    headers: Box<[libc::mmsghdr]>,
    notes: Box<[Notes]>,
    /// Number of headers that the last call has changed.
    used: usize,
    /// Whether the last call was for a socket with offloads.
    with_offload: bool,
}

// SAFETY: the pointers in `vectors` and `headers` are to boxes that belong to the same value, and
// those do not move with it.
unsafe impl Send for ReceiveBuffers {}

impl ReceiveBuffers {
    /// For `frames` frames of up to `frame_bytes` each, such as [`MAX_FRAME_BYTES`].
    ///
    /// # Panics
    /// If there is not at least one frame.
    pub fn new(frames: usize, frame_bytes: usize) -> Self {
        assert!(frames > 0, "a batch has at least one frame");
        let slot_bytes = VLAN_TAG + frame_bytes;
        // SAFETY: plain data for which all zeroes are valid (null pointers, zero lengths).
        let (vector, header): (libc::iovec, libc::mmsghdr) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        ReceiveBuffers {
            slots: vec![0; frames * slot_bytes].into(),
            slot_bytes,
            offloads: vec![[0; Offload::BYTES]; frames].into(),
            control: vec![[0; CONTROL_WORDS]; frames].into(),
            vectors: vec![[vector; 2]; frames].into(),
            headers: vec![header; frames].into(),
            notes: vec![Notes::default(); frames].into(),
            used: frames,
            with_offload: false,
        }
    }

    /// Makes the headers that the last call has changed point to the buffers again, with their full
    /// lengths.
    fn prepare(&mut self, with_offload: bool) {
        if with_offload != self.with_offload {
            (self.used, self.with_offload) = (self.headers.len(), with_offload);
        }
        // A call that fails may have changed the first one.
        let used = std::mem::replace(&mut self.used, 1);
        let slots = self.slots.chunks_exact_mut(self.slot_bytes);
        let places = self.vectors.iter_mut().zip(slots);
        let notes = self.offloads.iter_mut().zip(&mut self.control);
        for ((header, (vectors, slot)), (offload, control)) in
            self.headers[..used].iter_mut().zip(places).zip(notes)
        {
            let slot = &mut slot[VLAN_TAG..];
            *vectors = [
                libc::iovec {
                    iov_base: offload.as_mut_ptr().cast(),
                    iov_len: Offload::BYTES,
                },
                libc::iovec {
                    iov_base: slot.as_mut_ptr().cast(),
                    iov_len: slot.len(),
                },
            ];
            // The kernel reads a single vector fastest.
            let vectors = &mut vectors[usize::from(!with_offload)..];
            header.msg_hdr.msg_iov = vectors.as_mut_ptr();
            header.msg_hdr.msg_iovlen = vectors.len() as _;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of_val(control) as _;
        }
    }
}

/// Result of a turn of receiving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Frames that were handed over.
    pub frames: usize,
    /// Frames that did not fit into a slot, thrown away.
    pub too_long: usize,
    /// The socket had no more frames.
    pub drained: bool,
}

impl PacketSocket {
    /// Hands over what is there in order and without waiting, in batches, until it was at least
    /// `enough` frames. Errors as of [`receive_batch`](Self::receive_batch).
    pub fn receive(
        &self,
        buffers: &mut ReceiveBuffers,
        enough: usize,
        mut take: impl FnMut(ReceivedFrame<'_>),
    ) -> io::Result<Received> {
        let mut received = Received::default();
        while received.frames + received.too_long < enough && !received.drained {
            let batch = self.receive_batch(buffers)?;
            for frame in batch.iter() {
                take(frame);
                received.frames += 1;
            }
            received.too_long += batch.too_long;
            received.drained = batch.drained;
        }
        Ok(received)
    }

    /// Receives what is there, up to one batch, without waiting. With nothing there the batch is
    /// empty and `drained`.
    ///
    /// `ENETDOWN`: the interface is down or gone (see the crate's documentation).
    pub fn receive_batch<'a>(&self, buffers: &'a mut ReceiveBuffers) -> io::Result<Batch<'a>> {
        buffers.prepare(self.offloads());
        let frames = buffers.headers.len();
        // SAFETY: every header points to its own vectors, slot and control area, all of which
        // belong to `buffers`, exclusively borrowed; the lengths are theirs.
        let count = unsafe {
            libc::recvmmsg(
                self.fd().as_raw_fd(),
                buffers.headers.as_mut_ptr(),
                frames as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let count = match check(count) {
            Ok(count) => count as usize,
            Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => 0,
            Err(e) => return Err(e),
        };
        buffers.used = count.max(1);
        let mut too_long = 0;
        let prefix = if self.offloads() { Offload::BYTES } else { 0 };
        let slots = buffers.slots.chunks_exact_mut(buffers.slot_bytes);
        let received = buffers.headers[..count].iter().zip(&mut buffers.notes);
        for (((header, notes), slot), offload) in received.zip(slots).zip(&buffers.offloads) {
            *notes = Notes::default();
            if header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
                too_long += 1;
                continue;
            }
            // SAFETY: the kernel filled this header and its control area in the call above.
            let vlan_tag = unsafe { notes.read(&header.msg_hdr) };
            if self.offloads() {
                notes.offload = Offload::parse(offload);
            }
            notes.start = VLAN_TAG;
            notes.end = VLAN_TAG + (header.msg_len as usize).saturating_sub(prefix);
            if let Some(tag) = vlan_tag
                && notes.end >= VLAN_TAG + MAC_ADDRESSES
            {
                slot.copy_within(VLAN_TAG..VLAN_TAG + MAC_ADDRESSES, 0);
                slot[MAC_ADDRESSES..MAC_ADDRESSES + VLAN_TAG].copy_from_slice(&tag);
                notes.start = 0;
                notes.offload.shift(VLAN_TAG as u16);
            }
        }
        Ok(Batch {
            slots: &mut buffers.slots,
            slot_bytes: buffers.slot_bytes,
            notes: &mut buffers.notes[..count],
            too_long,
            drained: count < frames,
        })
    }
}

/// Metadata of a frame from the kernel, and its place in its slot.
#[derive(Clone, Copy, Debug, Default)]
struct Notes {
    /// Where the frame begins in its slot.
    start: usize,
    /// Where it ends in its slot; 0: it did not fit.
    end: usize,
    /// Length of the frame as the kernel had it, and of the VLAN tag that it stripped.
    wire_bytes: usize,
    realtime_ns: Option<u64>,
    checksum_missing: bool,
    offload: Offload,
}

impl Notes {
    /// Reads the control messages; returns the VLAN tag that was stripped.
    ///
    /// # Safety
    /// `header` must have been filled by `recvmmsg`, and its control area must be alive.
    unsafe fn read(&mut self, header: &libc::msghdr) -> Option<[u8; VLAN_TAG]> {
        let mut tag = None;
        // SAFETY: the caller vouches for the header; the CMSG functions stay inside its control
        // area, and the kernel wrote whole structures of the kind that level and type say.
        unsafe {
            let mut message = libc::CMSG_FIRSTHDR(header);
            while !message.is_null() {
                let data = libc::CMSG_DATA(message);
                match ((*message).cmsg_level, (*message).cmsg_type) {
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let time: libc::timespec = data.cast::<libc::timespec>().read_unaligned();
                        self.realtime_ns =
                            Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
                    }
                    (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                        let data = data.cast::<libc::tpacket_auxdata>().read_unaligned();
                        self.checksum_missing = data.tp_status & libc::TP_STATUS_CSUMNOTREADY != 0;
                        let is_set = |flag| data.tp_status & flag != 0;
                        let kind =
                            is_set(libc::TP_STATUS_VLAN_TPID_VALID).then_some(data.tp_vlan_tpid);
                        tag = is_set(libc::TP_STATUS_VLAN_VALID)
                            .then(|| vlan_tag(kind, data.tp_vlan_tci));
                        self.wire_bytes = data.tp_len as usize + tag.map_or(0, |_| VLAN_TAG);
                    }
                    _ => {}
                }
                message = libc::CMSG_NXTHDR(header, message);
            }
        }
        tag
    }
}

/// The tag that the kernel took out of a frame; it may not say of which kind.
pub(crate) fn vlan_tag(ethertype: Option<u16>, control: u16) -> [u8; VLAN_TAG] {
    let [a, b] = ethertype.unwrap_or(ETHERTYPE_VLAN).to_be_bytes();
    let [c, d] = control.to_be_bytes();
    [a, b, c, d]
}
