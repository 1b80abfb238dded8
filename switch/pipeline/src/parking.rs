//! Packets that wait in a queue, without what nobody reads of them any more.
//!
//! The words of a packet of `fabric.p4` are 1.5 KB. Waiting, it needs its valid headers, a few bits of metadata, and
//! which headers are valid. The headers go where the old ones are: into the beginning of the frame, which the
//! deparser writes anew anyway. The rest is kept beside the frame. So what a packet leaves in its queue is no more
//! cache lines than its frame has in front of the payload.
//!
//! A packet for which there is no room, as one that has got another header, or one that has something unusual, such
//! as options, waits as it is; so do those of interpreted programs. Tests hold the two against each other.

use crate::layout::{Layout, Slot};
use crate::live::Live;
use crate::packet::Packet;
use crate::pipeline::Pipeline;
use crate::program::Program;
use crate::wire::Pieces;

/// Of what is kept beside the frame.
pub(crate) const KEPT_BYTES: usize = 32;

/// How packets of a program wait.
#[derive(Debug)]
pub(crate) struct Parking {
    /// Which headers are valid, counters of stacks, metadata. At most [`KEPT_BYTES`].
    pub kept: Pieces,
    /// Words that are always 1: metadata are valid.
    pub ones: Vec<u32>,
    /// One behind the other, at the start of the frame.
    pub headers: Vec<ParkedHeader>,
}

#[derive(Debug)]
pub(crate) struct ParkedHeader {
    pub valid_at: u32,
    /// The fixed fields.
    pub pieces: Pieces,
    /// Words of the variable-length field, which has to be empty, and of its length.
    pub empty: Vec<u32>,
    pub length_at: Option<u32>,
    /// Words that are read while the header is not valid; they have to be 0 then, as they are in a packet that
    /// never had it.
    pub zero: Vec<u32>,
}

impl Parking {
    /// `None` if there is too much to keep.
    pub fn new(program: &Program) -> Option<Parking> {
        let live = Live::after_the_queue(program);
        let layout = &program.layout;
        let (mut kept, mut ones, mut headers) = (Vec::new(), Vec::new(), Vec::new());
        for (number, header) in (0..).zip(&layout.headers) {
            let fields = header.fields.iter();
            if header.metadata {
                ones.push(header.valid_at);
                let slots = fields.flat_map(|f| [Some(f.slot), f.length_at.map(counter)]);
                kept.extend(slots.flatten().filter(|slot| live.field(*slot)));
                continue;
            }
            kept.push(header.valid_slot());
            if live.is_header(number) {
                let variable = header.variable.map(|f| &header.fields[f as usize]);
                headers.push(ParkedHeader {
                    valid_at: header.valid_at,
                    pieces: header.pieces.clone(),
                    empty: variable.map_or_else(Vec::new, |f| words(f.slot).collect()),
                    length_at: variable.and_then(|f| f.length_at),
                    zero: fields
                        .filter(|f| live.field(f.slot))
                        .flat_map(|f| words(f.slot).chain(f.length_at))
                        .collect(),
                });
            }
        }
        kept.extend(stack_counters(layout));
        let kept = Pieces::new(kept);
        (kept.bytes <= KEPT_BYTES).then_some(Parking {
            kept,
            ones,
            headers,
        })
    }
}

fn words(slot: Slot) -> impl Iterator<Item = u32> {
    slot.at..slot.at + slot.words
}

/// A word that counts elements or bits.
fn counter(at: u32) -> Slot {
    Slot {
        at,
        words: 1,
        bits: 32,
        signed: false,
    }
}

fn stack_counters(layout: &Layout) -> impl Iterator<Item = Slot> {
    let stacks = layout.stacks.iter().chain(&layout.union_stacks);
    stacks.map(|stack| counter(stack.next_at))
}

/// A packet between [`Pipeline::park`] and [`Pipeline::unpark`].
#[derive(Debug)]
pub struct Parked(Kind);

#[derive(Debug)]
enum Kind {
    Whole(Box<Packet>),
    Slim(Slim),
}

/// The headers are in the frame; see [`Parking`]. What primitives asked for has been done.
#[derive(Debug)]
struct Slim {
    frame: Vec<u8>,
    kept: [u8; KEPT_BYTES],
    packet_id: u64,
    truncated_to: usize,
    payload_at: u32,
    header_bytes: u32,
    ingress_length: u32,
    packet_length: u32,
    ingress_port: u16,
}

impl Parked {
    /// As it is, for one that does not wait.
    pub fn whole(packet: Box<Packet>) -> Parked {
        Parked(Kind::Whole(packet))
    }

    #[cfg(test)]
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.0, Kind::Whole(_))
    }

    /// What is read of it first, for those who have it fetched into the caches.
    pub fn frame(&self) -> &[u8] {
        match &self.0 {
            Kind::Whole(packet) => &packet.frame,
            Kind::Slim(slim) => &slim.frame,
        }
    }
}

impl Pipeline {
    /// For a packet between ingress and egress that is going to wait.
    pub fn park(&mut self, mut packet: Box<Packet>) -> Parked {
        let mut kept = [0; KEPT_BYTES];
        let mut machine = self.machine(&mut packet, ebb_units::Instant::ZERO);
        if !machine.native().is_some_and(|n| machine.park(n, &mut kept)) {
            return Parked::whole(packet);
        }
        let slim = Slim {
            kept,
            packet_id: packet.packet_id,
            truncated_to: packet.truncated_to,
            payload_at: packet.payload_at as u32,
            header_bytes: packet.header_bytes as u32,
            ingress_length: packet.ingress_length,
            packet_length: packet.packet_length,
            ingress_port: packet.ingress_port,
            frame: self.state.pool.take_frame(packet),
        };
        Parked(Kind::Slim(slim))
    }

    /// The packet again, as far as egress and deparser can see.
    pub fn unpark(&mut self, parked: Parked) -> Box<Packet> {
        let mut slim = match parked.0 {
            Kind::Whole(packet) => return packet,
            Kind::Slim(slim) => slim,
        };
        let initial = &self.program.layout.initial;
        let mut packet = self.state.pool.used_packet(initial, slim.frame);
        if cfg!(debug_assertions) {
            // Whoever reads what was not kept is to be found out.
            packet.words.fill(0xdead_dead_dead_dead);
        }
        packet.packet_id = slim.packet_id;
        packet.truncated_to = slim.truncated_to;
        packet.payload_at = slim.payload_at as usize;
        packet.header_bytes = slim.header_bytes as usize;
        packet.ingress_length = slim.ingress_length;
        packet.packet_length = slim.packet_length;
        packet.ingress_port = slim.ingress_port;
        let mut machine = self.machine(&mut packet, ebb_units::Instant::ZERO);
        if let Some(native) = &machine.program.native {
            machine.unpark(native, &mut slim.kept);
        }
        packet
    }
}
