//! A packet in the pipeline: its headers as words, and its bytes.

use std::ops::Deref;

use crate::drop_reason::DropReason;
use crate::frames::Frames;
use crate::free_list::FreeList;
use crate::front::Front;
use crate::journey::Journey;
use crate::slot::Place;

/// A field that every packet of a program has.
#[derive(Clone, Copy, Debug)]
pub struct PacketField(pub(crate) Place);

/// A packet that has been parsed. It owns the frame it came in. The payload stays where it is until
/// the packet leaves, and the headers are written over the old ones.
#[derive(Debug, Default)]
pub struct Packet {
    /// Validity, stack counters and fields of all headers and metadata; see `layout`.
    pub(crate) words: Vec<u64>,
    /// The frame as it came in, until it is deparsed.
    pub(crate) frame: Vec<u8>,
    /// On Tofino, bytes in front of the frame that are apart from it; without meaning on other architectures.
    pub(crate) front: Front,
    /// On Tofino, how many bytes of metadata the frame begins with.
    pub(crate) metadata_bytes: usize,
    /// Where the payload starts in the frame.
    pub(crate) payload_at: usize,
    /// Requests of the program so far.
    pub(crate) requests: Requests,
    /// The port at which it came in.
    pub(crate) ingress_port: u16,
    /// Its number, for tracing.
    pub(crate) packet_id: u64,
    /// Length of the frame as it came in, in bytes, which counters and meters count.
    pub(crate) ingress_length: u32,
    /// Value of `standard_metadata.packet_length`; it follows headers that are added and removed.
    pub(crate) packet_length: u32,
    /// Most bytes that the packet keeps when it is deparsed.
    pub(crate) truncated_to: usize,
    /// Bytes of the valid headers that the deparser emits, as of the last `measure`.
    pub(crate) header_bytes: usize,
    /// Its way through the switch, while it waits there.
    pub journey: Journey,
}

/// Requests of primitives, which are carried out when the pipeline ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Requests {
    /// Whether the pipeline ends here.
    pub exit: bool,
    /// Whether anything was asked for; otherwise `asked` has the default.
    any: bool,
    /// Requests but for that, the last of each kind.
    asked: Asked,
}

/// Requests of primitives but for the end of the pipeline. The last one of a kind counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// A clone.
    pub clone: Option<CloneCall>,
    /// The learn list of a digest.
    pub digest: Option<u32>,
    /// The field list of a resubmit.
    pub resubmit: Option<u32>,
    /// The field list of a recirculation.
    pub recirculate: Option<u32>,
    /// Why the packet is dropped; `None` if it is not.
    pub failed: Option<DropReason>,
}

impl Requests {
    /// Whether there is any, apart from the end of the pipeline.
    #[inline]
    pub fn any(&self) -> bool {
        self.any
    }

    /// Asks for something.
    pub fn ask(&mut self) -> &mut Asked {
        self.any = true;
        &mut self.asked
    }

    /// Forgets all, which nearly always takes no more than to see that there is nothing.
    #[inline]
    pub fn clear(&mut self) {
        self.exit = false;
        if self.any {
            *self = Requests::default();
        }
    }
}

impl Deref for Requests {
    type Target = Asked;

    fn deref(&self) -> &Asked {
        &self.asked
    }
}

/// A clone that was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CloneCall {
    /// The clone session.
    pub session: u32,
    /// The fields to preserve.
    pub field_list: u32,
}

/// Values that a resubmit or recirculation carries to the next pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preserved {
    /// The list that says which fields they are.
    pub(crate) field_list: u32,
    /// Their words.
    pub(crate) words: Vec<u64>,
}

impl Packet {
    /// The fields and the frame, which the next pipeline will touch, for callers that have them
    /// fetched into the caches.
    pub fn memory(&self) -> (&[u64], &[u8]) {
        (&self.words, &self.frame)
    }

    /// Length in bytes that the packet would have if it were deparsed now.
    pub fn wire_len(&self) -> usize {
        (self.header_bytes + self.frame.len() - self.payload_at).min(self.truncated_to)
    }

    /// The port at which it came in.
    pub fn ingress_port(&self) -> u16 {
        self.ingress_port
    }

    /// Its number, for tracing.
    pub fn packet_id(&self) -> u64 {
        self.packet_id
    }

    /// Cuts the packet to this many bytes when it is deparsed. Of several calls the smallest
    /// counts.
    pub fn truncate(&mut self, bytes: usize) {
        self.truncated_to = self.truncated_to.min(bytes);
    }

    /// The payload as far as truncation leaves it, behind this many bytes of headers.
    pub(crate) fn payload(&self, header_bytes: usize) -> &[u8] {
        &self.frame[self.payload_at..][..self.payload_len(header_bytes)]
    }

    /// Length of the payload as far as truncation leaves it.
    fn payload_len(&self, header_bytes: usize) -> usize {
        let room = self.truncated_to.saturating_sub(header_bytes);
        (self.frame.len() - self.payload_at).min(room)
    }

    /// Notes that headers are written, so that all of the frame is payload for who looks at it next, behind a header
    /// that is apart.
    pub(crate) fn note_whole(&mut self) {
        (self.header_bytes, self.payload_at) = (self.front.header_bytes(), 0);
    }

    /// Puts the bytes in front of the frame into it.
    pub(crate) fn join_front(&mut self) {
        let front = self.front.all();
        if !front.is_empty() {
            let bytes = front.len();
            let length = self.frame.len();
            self.frame.resize(bytes + length, 0);
            self.frame.copy_within(..length, bytes);
            self.frame[..bytes].copy_from_slice(front);
            self.metadata_bytes = self.front.metadata_bytes();
            self.front.clear();
        }
    }

    /// Moves the payload, as far as truncation leaves it, behind room for this many bytes of
    /// headers.
    pub(crate) fn make_room(&mut self, header_bytes: usize) {
        let payload = self.payload_at..self.payload_at + self.payload_len(header_bytes);
        let len = header_bytes + payload.len();
        // Nearly always the headers have the length that they had.
        if payload.start != header_bytes {
            if self.frame.len() < len {
                self.frame.resize(len, 0);
            }
            self.frame.copy_within(payload, header_bytes);
            self.payload_at = header_bytes;
        }
        self.frame.truncate(len);
    }
}

/// Memory of packets that are gone, for packets to come; see
/// [`Pipeline::exchange_pool`](crate::Pipeline::exchange_pool).
#[derive(Debug, Default)]
pub struct Pool {
    /// The packets, without their frames.
    packets: FreeList<Box<Packet>>,
    /// The frames.
    frames: Frames,
    /// Value that packets which are gone leave in their words; `None`: the old one.
    #[cfg(test)]
    pub(crate) rest: Option<u64>,
}

/// Most packets that are kept; more hardly ever wait in queues.
const PACKETS: usize = 65_536;

impl Pool {
    /// Memory of frames: for replicas and clones, and for what hosts of the same thread send.
    pub fn frames(&mut self) -> &mut Frames {
        &mut self.frames
    }

    /// A packet that has not been parsed, with the words `initial`.
    pub(crate) fn packet(&mut self, initial: &[u64], frame: Vec<u8>) -> Box<Packet> {
        let mut packet = self.unset_packet(initial.len(), frame);
        packet.words.copy_from_slice(initial);
        packet
    }

    /// A packet that has not been parsed, with this many words, in which an earlier packet may have
    /// left anything.
    #[inline(always)]
    pub(crate) fn unset_packet(&mut self, length: usize, frame: Vec<u8>) -> Box<Packet> {
        let bytes = frame.len() as u32;
        let mut packet = self.packets.take().unwrap_or_default();
        // Field by field: a whole packet would be made elsewhere and then moved here.
        let Packet {
            words,
            frame: place,
            front: _,
            metadata_bytes: _,
            payload_at,
            requests,
            ingress_port,
            packet_id,
            ingress_length,
            packet_length,
            truncated_to,
            header_bytes,
            journey: _,
        } = &mut *packet;
        if words.len() != length {
            resize(words, length);
        }
        *place = frame;
        (*payload_at, *header_bytes, *truncated_to) = (0, 0, usize::MAX);
        requests.clear();
        (*ingress_port, *packet_id) = (0, 0);
        (*ingress_length, *packet_length) = (bytes, bytes);
        packet
    }

    /// A copy of a packet.
    pub(crate) fn copy(&mut self, packet: &Packet) -> Box<Packet> {
        let frame = self.copy_frame(&packet.frame);
        let mut copy = self.packet(&packet.words, frame);
        copy.front = packet.front.clone();
        copy.payload_at = packet.payload_at;
        copy.ingress_port = packet.ingress_port;
        copy.packet_id = packet.packet_id;
        copy.ingress_length = packet.ingress_length;
        copy.packet_length = packet.packet_length;
        copy.truncated_to = packet.truncated_to;
        copy.header_bytes = packet.header_bytes;
        copy
    }

    /// A copy of a frame.
    pub(crate) fn copy_frame(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut copy = self.frames.take(frame.len());
        copy.extend_from_slice(frame);
        copy
    }

    /// The words of the packet that ended last.
    #[cfg(test)]
    pub(crate) fn last_words(&self) -> Option<&[u64]> {
        self.packets.last().map(|packet| packet.words.as_slice())
    }

    /// Leaves in the words of a packet what packets that are gone do.
    #[cfg(test)]
    pub(crate) fn leave_rest(&self, packet: &mut Packet) {
        if let Some(rest) = self.rest {
            packet.words.fill(rest);
        }
    }

    /// The frame of a packet that ends here.
    #[inline]
    pub(crate) fn take_frame(&mut self, mut packet: Box<Packet>) -> Vec<u8> {
        #[cfg(test)]
        self.leave_rest(&mut packet);
        let frame = std::mem::take(&mut packet.frame);
        self.packets.give(packet);
        if self.packets.has_surplus() || self.packets.len() > PACKETS {
            self.free_packets();
        }
        frame
    }

    /// Frees packets that are too many.
    #[cold]
    #[inline(never)]
    fn free_packets(&mut self) {
        if self.packets.has_surplus() {
            self.packets.surplus().for_each(drop);
        }
        if self.packets.len() > PACKETS {
            self.packets.take();
        }
    }

    pub(crate) fn recycle(&mut self, packet: Box<Packet>) {
        let frame = self.take_frame(packet);
        self.frames.give(frame);
    }
}

/// Makes the words of a packet as many as a program has.
#[cold]
#[inline(never)]
fn resize(words: &mut Vec<u64>, length: usize) {
    words.clear();
    words.resize(length, 0);
}
