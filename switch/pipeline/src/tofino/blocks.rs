//! The blocks of a program for Tofino, the fields of intrinsic metadata, and what its deparsers ask for.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ebb_units::Instant;

use crate::action::{Primitive, TofinoPrimitive};
use crate::control::Replica;
use crate::error::LoadError;
use crate::layout::Layout;
use crate::outcome::QueuePause;
use crate::program::{Emit, Next};
use crate::slot::Place;
use crate::stateful::Registers;

/// Parts of a program for Tofino that v1model does not have.
#[derive(Debug)]
pub(crate) struct Tofino {
    /// Generation of the chip, 1 or 2.
    pub generation: u8,
    /// Its pipelines; one at least.
    pub pipes: Vec<Blocks>,
    /// The fields of intrinsic metadata.
    pub(super) fields: Fields,
}

/// The blocks of a pipeline. Those of two gresses are in the order ingress, egress.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// Where the parsers begin.
    pub parsers: [Option<u32>; 2],
    /// Where the controls begin.
    pub controls: [Next; 2],
    /// The primitives of the deparsers.
    pub deparsers: [Vec<Primitive>; 2],
    /// How many primitives are in front of the headers that a deparser always emits at its end, and these; `None` if
    /// it does not always emit the same ones.
    pub tails: [Option<(usize, Vec<Emit>)>; 2],
    /// Where the control of the ghost thread begins; `None` if there is none.
    pub ghost: Next,
    /// The errors of the parser of ingress. Programs that do not look at them have no field for them, and their
    /// packets are dropped.
    pub ingress_errors: Option<Place>,
}

impl Blocks {
    /// The headers that a deparser always emits at its end, valid or not; `None` if it does not always emit the
    /// same ones.
    pub fn emits(&self, gress: Gress) -> Option<&[Emit]> {
        let (_, emits) = self.tails[gress as usize].as_ref()?;
        Some(emits)
    }

    /// Primitives of a deparser in front of [`emits`](Self::emits); all without.
    pub fn before_emits(&self, gress: Gress) -> &[Primitive] {
        let body = &self.deparsers[gress as usize];
        match &self.tails[gress as usize] {
            Some((start, _)) => &body[..*start],
            None => body,
        }
    }
}

/// Fields of intrinsic metadata; `None` if no block of the program has them.
#[derive(Debug)]
pub(super) struct Fields {
    pub(super) egress_port: Option<Place>,
    pub(super) bypass_egress: Option<Place>,
    pub(super) deflect_on_drop: Option<Place>,
    pub(super) group_a: Option<Place>,
    pub(super) group_b: Option<Place>,
    /// By level: what excludes copies of a group.
    pub(super) exclusions: [Option<Place>; 2],
    pub(super) copy_to_cpu: Option<Place>,
    pub(super) rid: Option<Place>,
    pub(super) ingress_drop: Option<Place>,
    pub(super) egress_drop: Option<Place>,
    /// The time of arrival, by gress.
    pub(super) times: [Option<Place>; 2],
    /// The errors of the parser of egress.
    pub(super) egress_errors: Option<Place>,
    /// By gress: the message of advanced flow control.
    pub(super) flow_control: [Option<Place>; 2],
    /// Fields of a report to the ghost thread: the queue and its length.
    pub(super) reported: [Option<Place>; 2],
    /// By gress: what deparsers choose by, `mirror_type`, `resubmit_type` and `digest_type`. One that nothing has
    /// written is not valid on the chip, and chooses nothing; here it has the largest number until then.
    pub(super) selectors: [[Option<Place>; 3]; 2],
}

/// Requests of a deparser, what primitives need besides, and what the control plane sets.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// The headers that it emits, in order, whether valid or not.
    pub emitted: Vec<u32>,
    /// A copy: the session, and the header in front of it.
    pub mirror: Option<(u32, Option<u32>)>,
    /// A queue to stop, or to let resume.
    pub pause: Option<QueuePause>,
    /// A resubmission, and the header in the place of port metadata.
    pub resubmit: Option<Option<u32>>,
    /// The entry that the table has hit whose action runs, for its direct registers.
    pub entry: Option<u32>,
    /// The table that was applied last.
    pub table: usize,
    /// Counters of the bytes that leave, which have counted the packet before these are known.
    pub departing: Vec<Departing>,
    /// The port to which `copy_to_cpu` sends; `None`: nowhere.
    pub cpu_port: Option<u16>,
    /// Bytes behind the metadata of packets of a port, by port; zeros for the others.
    pub port_metadata: BTreeMap<u16, Vec<u8>>,
    /// The registers of the pipes behind the first; empty: nothing was written to any.
    pub other_pipes: Vec<Registers>,
    /// Ports that lead back to ingress because they are told to.
    pub looped: BTreeSet<u16>,
    /// The ids by which level 1 excludes copies, by group and copy; the others are never excluded by it.
    pub exclusions: BTreeMap<u16, HashMap<Replica, u16>>,
    /// The number of the group of packets that have none: 0, unless that is a group.
    pub no_group: u16,
}

/// A counter of Tofino 2 that counts the bytes of a packet that leave the deparser.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Departing {
    /// A cell of an array.
    Cell(u32, u64),
    /// The entry of a table; none: its default entry.
    Entry(usize, Option<u32>),
}

/// The port that is none, in `ucast_egress_port`.
pub(super) const NO_PORT: u16 = 0x1ff;
/// Pipes of a chip, each of which has 128 numbers of ports.
pub(crate) const MAX_PIPES: usize = 4;
/// Bytes of the frame check sequence, which the chip counts.
pub(super) const FCS_BYTES: u32 = 4;
/// The list that [`Preserved`] has for the bytes of a resubmission.
pub(super) const RESUBMITTED_BYTES: u32 = u32::MAX;
/// Bits of `drop_ctl`: unicast, multicast and resubmission; the copy to the CPU; mirroring.
pub(super) const DROP_PACKET: u64 = 1;
pub(super) const DROP_CPU_COPY: u64 = 2;
pub(super) const DROP_MIRROR: u64 = 4;

/// Most headers that a deparser emits: one that jumps back without end is cut off.
pub(super) const MAX_EMITTED: usize = 1024;

/// Which half of the pipeline.
#[derive(Clone, Copy)]
pub(crate) enum Gress {
    Ingress,
    Egress,
}

/// A half of a pipeline with this number.
#[derive(Clone, Copy)]
pub(crate) struct Half {
    pub pipe: usize,
    pub gress: Gress,
}

impl Tofino {
    /// Finds the fields of a program.
    pub fn load(layout: &Layout, generation: u8, pipes: Vec<Blocks>) -> Result<Tofino, LoadError> {
        let known = |ty: &str, field: &str| place(layout, &format!("{ty}.{field}"));
        let queueing = |field| known("ingress_intrinsic_metadata_for_tm_t", field);
        let parsed = |field: &str| -> Result<[Option<Place>; 2], LoadError> {
            Ok([
                known("ingress_intrinsic_metadata_from_parser_t", field)?,
                known("egress_intrinsic_metadata_from_parser_t", field)?,
            ])
        };
        let selectors = |gress: &str| -> Result<[Option<Place>; 3], LoadError> {
            let ty = format!("{gress}_intrinsic_metadata_for_deparser_t");
            Ok([
                known(&ty, "mirror_type")?,
                known(&ty, "resubmit_type")?,
                known(&ty, "digest_type")?,
            ])
        };
        Ok(Tofino {
            generation,
            pipes,
            fields: Fields {
                egress_port: queueing("ucast_egress_port")?,
                bypass_egress: queueing("bypass_egress")?,
                deflect_on_drop: queueing("deflect_on_drop")?,
                group_a: queueing("mcast_grp_a")?,
                group_b: queueing("mcast_grp_b")?,
                exclusions: [
                    queueing("level1_exclusion_id")?,
                    queueing("level2_exclusion_id")?,
                ],
                copy_to_cpu: queueing("copy_to_cpu")?,
                rid: queueing("rid")?,
                ingress_drop: known("ingress_intrinsic_metadata_for_deparser_t", "drop_ctl")?,
                egress_drop: known("egress_intrinsic_metadata_for_deparser_t", "drop_ctl")?,
                times: parsed("global_tstamp")?,
                egress_errors: known("egress_intrinsic_metadata_from_parser_t", "parser_err")?,
                flow_control: [
                    known("ingress_intrinsic_metadata_for_deparser_t", "adv_flow_ctl")?,
                    known("egress_intrinsic_metadata_for_deparser_t", "adv_flow_ctl")?,
                ],
                reported: [
                    known("ghost_intrinsic_metadata_t", "qid")?,
                    known("ghost_intrinsic_metadata_t", "qlength")?,
                ],
                selectors: [selectors("ingress")?, selectors("egress")?],
            },
        })
    }

    /// The fields by which a deparser chooses, which have their largest number until something is written to them.
    pub fn selectors(&self, gress: Gress) -> impl Iterator<Item = Place> + use<> {
        self.fields.selectors[gress as usize].into_iter().flatten()
    }

    /// The fields of intrinsic metadata that the program has.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        let fields = &self.fields;
        let single = [
            fields.egress_port,
            fields.bypass_egress,
            fields.deflect_on_drop,
            fields.group_a,
            fields.group_b,
            fields.copy_to_cpu,
            fields.rid,
            fields.ingress_drop,
            fields.egress_drop,
            fields.egress_errors,
        ];
        let errors = self.pipes.iter().map(|blocks| blocks.ingress_errors);
        let places = single.into_iter().chain(errors).chain(fields.times);
        let places = places.chain(fields.flow_control).chain(fields.reported);
        places
            .chain(fields.exclusions)
            .chain(fields.selectors.into_iter().flatten())
            .flatten()
    }

    /// The number of the pipeline that a port belongs to. Of Tofino, neighbouring pipes run different ones, and of
    /// Tofino 2 both halves of the chip, as in switches with 32 ports, whose outer pipes run the first.
    pub fn pipe_of(&self, port: u16) -> usize {
        let (pipe, count) = (usize::from(port >> 7), self.pipes.len());
        match self.generation {
            1 => pipe % count,
            _ => pipe * count / MAX_PIPES % count,
        }
    }

    /// The port that leads back to ingress in the first pipe, and in the others behind the number of the pipe.
    pub(super) fn recirculation_port(&self) -> u16 {
        if self.generation == 1 { 68 } else { 6 }
    }

    /// Bytes of port metadata behind those of ingress.
    pub(super) fn port_metadata_bytes(&self) -> usize {
        if self.generation == 1 { 8 } else { 24 }
    }

    /// Bytes of a cell of the buffer.
    pub(super) fn cell_bytes(&self) -> u64 {
        if self.generation == 1 { 80 } else { 176 }
    }
}

/// Where the last primitives of a deparser begin, if these are all of its `emit`, and every packet comes to them; and
/// their headers.
pub(crate) fn tail(body: &[Primitive], layout: &Layout) -> Option<(usize, Vec<Emit>)> {
    let emitted = |primitive: &Primitive| match primitive {
        Primitive::Tofino(TofinoPrimitive::Emit(header)) => Some(*header),
        _ => None,
    };
    let start = body.iter().rposition(|p| emitted(p).is_none());
    let start = start.map_or(0, |last| last + 1);
    let (front, emits) = body.split_at(start);
    let leads_past = |primitive: &Primitive| match primitive {
        Primitive::Jump(to) | Primitive::JumpUnless(_, to) => {
            to.constant().is_none_or(|to| to > start as u64)
        }
        Primitive::Exit => true,
        other => emitted(other).is_some(),
    };
    if emits.len() > MAX_EMITTED || front.iter().any(leads_past) {
        return None;
    }
    let emits = emits.iter().filter_map(emitted);
    Some((start, emits.map(|h| Emit::new(layout, h)).collect()))
}

/// The place of a field by its alias; `None` if the program has none.
pub(crate) fn place(layout: &Layout, name: &str) -> Result<Option<Place>, LoadError> {
    let slot = layout.known(name);
    slot.map(|slot| Place::of(name, slot)).transpose()
}

pub(super) fn nanoseconds(time: Instant) -> u64 {
    time.as_picos() / 1000
}

pub(super) fn low(bits: u32) -> u64 {
    crate::bits::low_mask(bits)
}

impl Fields {
    /// Takes the port and the groups of a packet away.
    pub(super) fn leave_no_way(&self, words: &mut [u64], no_group: u16) {
        if let Some(place) = self.egress_port {
            place.set(words, u64::from(NO_PORT));
        }
        for place in [self.group_a, self.group_b].into_iter().flatten() {
            place.set(words, u64::from(no_group));
        }
    }

    pub(super) fn get(words: &[u64], place: Option<Place>) -> u64 {
        place.map_or(0, |place| place.get(words))
    }

    /// The request of a packet to a queue, at the end of a gress.
    pub(super) fn queue_pause(&self, words: &[u64], gress: Gress) -> Option<QueuePause> {
        queue_pause(Self::get(words, self.flow_control[gress as usize]))
    }
}

/// The message in `adv_flow_ctl`, from its highest bit on: whether it is of a queue (1), pipe (2), MAC (4), unused (3),
/// queue of the MAC's eight channels (7), credit (15). Queues are in the mode XOFF: a credit stops, none resumes.
fn queue_pause(message: u64) -> Option<QueuePause> {
    let bits = |from: u32, width: u32| message >> from & low(width);
    let (pipe, mac, queue) = (bits(29, 2), bits(25, 4), bits(15, 7));
    (bits(31, 1) == 1).then_some(QueuePause {
        port: (pipe << 7 | mac << 3 | queue >> 4) as u16,
        queue: (queue & 0xf) as u8,
        paused: bits(0, 15) != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_pipe_mac_and_queue() {
        // Pipe 1, MAC 1, queue 16 of the MAC, which is queue 0 of its second channel: port 137.
        let message = 1 << 31 | 1 << 29 | 1 << 25 | 16 << 15;
        let pause = |paused| QueuePause {
            port: 137,
            queue: 0,
            paused,
        };
        assert_eq!(queue_pause(message | 1), Some(pause(true)));
        assert_eq!(queue_pause(message), Some(pause(false)));
        assert_eq!(queue_pause(message & !(1 << 31)), None);
        let last = queue_pause(u64::from(u32::MAX)).unwrap();
        assert_eq!((last.port, last.queue, last.paused), (511, 15, true));
    }
}
