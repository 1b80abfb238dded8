//! A packet between ingress and egress: its headers as words, and its bytes.

use crate::frames::Frames;
use crate::stock::Stock;

/// A packet that has been parsed. It owns the frame it came in; its payload stays where it is until
/// it leaves, and its headers are written over the old ones.
#[derive(Debug, Default)]
pub struct Packet {
    /// Validity, stack counters and fields; see `layout`.
    pub(crate) words: Vec<u64>,
    /// The frame as it came in, until it is deparsed; the payload starts at `payload_at`.
    pub(crate) frame: Vec<u8>,
    pub(crate) payload_at: usize,
    pub(crate) requests: Requests,
    pub(crate) ingress_port: u16,
    pub(crate) packet_id: u64,
    /// What counters and meters count.
    pub(crate) ingress_length: u32,
    /// `standard_metadata.packet_length`: follows headers that are added and removed.
    pub(crate) packet_length: u32,
    pub(crate) truncated_to: usize,
    /// Bytes of valid headers that the deparser emits, as of the last `measure`.
    pub(crate) header_bytes: usize,
}

/// What primitives asked for, to be done when the pipeline ends. The last call counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Requests {
    pub clone: Option<CloneCall>,
    pub digest: Option<u32>,
    pub resubmit: Option<u32>,
    pub recirculate: Option<u32>,
    pub exit: bool,
    pub failed: Option<crate::DropReason>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CloneCall {
    pub session: u32,
    pub field_list: u32,
}

/// Values that a resubmit or recirculate carries to the next pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preserved {
    pub(crate) field_list: u32,
    pub(crate) words: Vec<u64>,
}

impl Packet {
    /// What the next pipeline will touch, for those who have it fetched into the cache: the fields, and
    /// the frame.
    pub fn memory(&self) -> (&[u64], &[u8]) {
        (&self.words, &self.frame)
    }

    /// Bytes the packet would have if it were deparsed now.
    pub fn wire_len(&self) -> usize {
        (self.header_bytes + self.frame.len() - self.payload_at).min(self.truncated_to)
    }

    pub fn ingress_port(&self) -> u16 {
        self.ingress_port
    }

    pub fn packet_id(&self) -> u64 {
        self.packet_id
    }

    /// Cuts the packet when it is deparsed. Of several calls the smallest counts.
    pub fn truncate(&mut self, bytes: usize) {
        self.truncated_to = self.truncated_to.min(bytes);
    }

    /// The payload as far as truncation leaves it, behind `header_bytes` of headers.
    pub(crate) fn payload(&self, header_bytes: usize) -> &[u8] {
        &self.frame[self.payload_at..][..self.payload_len(header_bytes)]
    }

    fn payload_len(&self, header_bytes: usize) -> usize {
        let room = self.truncated_to.saturating_sub(header_bytes);
        (self.frame.len() - self.payload_at).min(room)
    }

    /// Puts the payload, as far as truncation leaves it, behind room for that many bytes of headers.
    pub(crate) fn make_room(&mut self, header_bytes: usize) {
        let payload = self.payload_at..self.payload_at + self.payload_len(header_bytes);
        let len = header_bytes + payload.len();
        // Nearly always the headers are as long as they were.
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

/// Memory of packets that are gone, for those that come: [`Pipeline::exchange_pool`](crate::Pipeline::exchange_pool).
#[derive(Debug, Default)]
pub struct Pool {
    packets: Stock<Box<Packet>>,
    frames: Frames,
}

/// More than wait in queues is not worth keeping.
const PACKETS: usize = 65_536;

impl Pool {
    /// For replicas and clones, and for what hosts of the same thread send.
    pub fn frames(&mut self) -> &mut Frames {
        &mut self.frames
    }

    /// A packet that has not been parsed.
    pub(crate) fn packet(&mut self, initial: &[u64], frame: Vec<u8>) -> Box<Packet> {
        let length = frame.len() as u32;
        let mut packet = self.packets.take().unwrap_or_default();
        packet.words.clear();
        packet.words.extend_from_slice(initial);
        *packet = Packet {
            words: std::mem::take(&mut packet.words),
            frame,
            payload_at: 0,
            requests: Requests::default(),
            ingress_port: 0,
            packet_id: 0,
            ingress_length: length,
            packet_length: length,
            truncated_to: usize::MAX,
            header_bytes: 0,
        };
        packet
    }

    pub(crate) fn copy(&mut self, packet: &Packet) -> Box<Packet> {
        let frame = self.copy_frame(&packet.frame);
        let mut copy = self.packet(&packet.words, frame);
        copy.payload_at = packet.payload_at;
        copy.ingress_port = packet.ingress_port;
        copy.packet_id = packet.packet_id;
        copy.ingress_length = packet.ingress_length;
        copy.packet_length = packet.packet_length;
        copy.truncated_to = packet.truncated_to;
        copy.header_bytes = packet.header_bytes;
        copy
    }

    pub(crate) fn copy_frame(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut copy = self.frames.take(frame.len());
        copy.extend_from_slice(frame);
        copy
    }

    /// Words of the packet that ended last.
    #[cfg(test)]
    pub(crate) fn last_words(&self) -> Option<&[u64]> {
        self.packets.last().map(|packet| packet.words.as_slice())
    }

    /// The frame of a packet that ends here.
    pub(crate) fn take_frame(&mut self, mut packet: Box<Packet>) -> Vec<u8> {
        let frame = std::mem::take(&mut packet.frame);
        if self.packets.len() < PACKETS {
            self.packets.give(packet).for_each(drop);
        }
        frame
    }

    pub(crate) fn recycle(&mut self, packet: Box<Packet>) {
        let frame = self.take_frame(packet);
        self.frames.give(frame);
    }
}
