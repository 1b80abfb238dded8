//! A packet between ingress and egress: its headers as words, and its bytes.

/// A packet that has been parsed. Copying it copies two flat buffers.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Validity, stack counters and fields; see `layout`.
    pub(crate) words: Vec<u64>,
    /// The frame as it came in; the payload starts at `payload_at`.
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
    /// Bytes of valid headers that the deparser emits, as of the end of the last pipeline.
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
        let payload = &self.frame[self.payload_at..];
        let room = self.truncated_to.saturating_sub(header_bytes);
        &payload[..payload.len().min(room)]
    }
}

/// Memory of packets that are gone.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: Vec<(Vec<u64>, Vec<u8>)>,
}

/// More than a switch holds in its queues is not worth keeping.
const POOL_LIMIT: usize = 4096;

impl Pool {
    /// A packet that has not been parsed.
    pub fn packet(&mut self, initial: &[u64], frame: &[u8]) -> Packet {
        let (mut w, mut f) = self.free.pop().unwrap_or_default();
        w.clear();
        w.extend_from_slice(initial);
        f.clear();
        f.extend_from_slice(frame);
        Packet {
            words: w,
            frame: f,
            payload_at: 0,
            requests: Requests::default(),
            ingress_port: 0,
            packet_id: 0,
            ingress_length: frame.len() as u32,
            packet_length: frame.len() as u32,
            truncated_to: usize::MAX,
            header_bytes: 0,
        }
    }

    pub fn copy(&mut self, packet: &Packet) -> Packet {
        let (mut words, mut frame) = self.free.pop().unwrap_or_default();
        words.clear();
        words.extend_from_slice(&packet.words);
        frame.clear();
        frame.extend_from_slice(&packet.frame);
        Packet {
            words,
            frame,
            requests: Requests::default(),
            ..*packet
        }
    }

    pub fn recycle(&mut self, packet: Packet) {
        if self.free.len() < POOL_LIMIT {
            self.free.push((packet.words, packet.frame));
        }
    }
}
