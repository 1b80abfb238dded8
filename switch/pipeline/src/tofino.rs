//! The data plane of Tofino: both gresses parse and deparse the packet, and metadata come in front of it.
//!
//! ```text
//! ingress metadata ─ port metadata ─ packet ─► ingress ─► bytes ─► queues
//!          egress metadata ─ bytes of ingress ─► egress ─► bytes ─► link
//! ```
//!
//! Names, widths and meanings are those of TNA; docs/porting-tofino.md lists what is a guess.

use std::collections::BTreeMap;

use ebb_units::Instant;

use crate::Pipeline;
use crate::action::{Primitive, TofinoPrimitive};
use crate::control::Replica;
use crate::drop_reason::DropReason;
use crate::error::LoadError;
use crate::generator::Generator;
use crate::layout::Layout;
use crate::machine::Machine;
use crate::outcome::*;
use crate::packet::{Packet, Preserved};
use crate::program::{Emit, Next};
use crate::slot::Place;

/// Parts of a program for Tofino that v1model does not have.
#[derive(Debug)]
pub(crate) struct Tofino {
    /// Generation of the chip, 1 or 2.
    pub generation: u8,
    /// Its pipelines; one at least.
    pub pipes: Vec<Blocks>,
    /// The fields of intrinsic metadata.
    fields: Fields,
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
struct Fields {
    egress_port: Option<Place>,
    bypass_egress: Option<Place>,
    deflect_on_drop: Option<Place>,
    group_a: Option<Place>,
    group_b: Option<Place>,
    exclusion: Option<Place>,
    copy_to_cpu: Option<Place>,
    rid: Option<Place>,
    ingress_drop: Option<Place>,
    egress_drop: Option<Place>,
    /// The time of arrival, by gress.
    times: [Option<Place>; 2],
    /// The errors of the parser of egress.
    egress_errors: Option<Place>,
    /// Fields of a report to the ghost thread: the queue and its length.
    reported: [Option<Place>; 2],
    /// By gress: what deparsers choose by, `mirror_type`, `resubmit_type` and `digest_type`. One that nothing has
    /// written is not valid on the chip, and chooses nothing; here it has the largest number until then.
    selectors: [[Option<Place>; 3]; 2],
}

/// Requests of a deparser, what primitives need besides, and what the control plane sets.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// The headers that it emits, in order, whether valid or not.
    pub emitted: Vec<u32>,
    /// A copy: the session, and the header in front of it.
    pub mirror: Option<(u32, Option<u32>)>,
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
const NO_PORT: u16 = 0x1ff;
/// Pipes of a chip, each of which has 128 numbers of ports.
pub(crate) const MAX_PIPES: usize = 4;
/// Bytes of the frame check sequence, which the chip counts.
const FCS_BYTES: u32 = 4;
/// The list that [`Preserved`] has for the bytes of a resubmission.
const RESUBMITTED_BYTES: u32 = u32::MAX;
/// Bits of `drop_ctl`: unicast, multicast and resubmission; the copy to the CPU; mirroring.
const DROP_PACKET: u64 = 1;
const DROP_CPU_COPY: u64 = 2;
const DROP_MIRROR: u64 = 4;

/// Most headers that a deparser emits: one that jumps back without end is cut off.
const MAX_EMITTED: usize = 1024;

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
                exclusion: queueing("level2_exclusion_id")?,
                copy_to_cpu: queueing("copy_to_cpu")?,
                rid: queueing("rid")?,
                ingress_drop: known("ingress_intrinsic_metadata_for_deparser_t", "drop_ctl")?,
                egress_drop: known("egress_intrinsic_metadata_for_deparser_t", "drop_ctl")?,
                times: parsed("global_tstamp")?,
                egress_errors: known("egress_intrinsic_metadata_from_parser_t", "parser_err")?,
                reported: [
                    known("ghost_intrinsic_metadata_t", "qid")?,
                    known("ghost_intrinsic_metadata_t", "qlength")?,
                ],
                selectors: [selectors("ingress")?, selectors("egress")?],
            },
        })
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
    fn recirculation_port(&self) -> u16 {
        if self.generation == 1 { 68 } else { 6 }
    }

    /// Bytes of port metadata behind those of ingress.
    fn port_metadata_bytes(&self) -> usize {
        if self.generation == 1 { 8 } else { 24 }
    }

    /// Bytes of a cell of the buffer.
    fn cell_bytes(&self) -> u64 {
        if self.generation == 1 { 80 } else { 176 }
    }

    /// Bytes in front of a packet at the parser of ingress.
    fn ingress_front(&self, now: Instant, input: &IngressInput, of_port: &[u8]) -> Front {
        let resubmitted = input.preserved.as_ref();
        let resubmitted = resubmitted.filter(|p| p.field_list == RESUBMITTED_BYTES);
        let flag = u64::from(resubmitted.is_some()) << 63;
        let port = u64::from(input.ingress_port & 0x1ff) << 48;
        let mut front = Front::default();
        front.put(flag | port | nanoseconds(now) & low(48), 8);
        let most = self.port_metadata_bytes();
        let behind = &mut front.bytes[8..8 + most];
        match resubmitted {
            Some(p) => behind
                .iter_mut()
                .zip(&p.words)
                .for_each(|(to, word)| *to = *word as u8),
            None => behind.iter_mut().zip(of_port).for_each(|(to, b)| *to = *b),
        }
        front.length += most;
        front
    }

    /// Bytes in front of a packet at the parser of egress. `arrived` is its length at ingress in bytes, with FCS.
    fn egress_front(&self, input: &EgressInput, deflected: bool, arrived: u32) -> Front {
        let (depth, time) = match self.generation {
            1 => (low(19), low(18)),
            _ => (low(19), low(32)),
        };
        let mut front = Front::default();
        front.put(u64::from(input.egress_port & 0x1ff), 2);
        front.put(u64::from(input.enq_qdepth) & depth, 3);
        front.put(u64::from(input.congestion[0] & 3), 1);
        front.put(nanoseconds(input.enq_timestamp) & time, 4);
        front.put(u64::from(input.deq_qdepth) & depth, 3);
        front.put(u64::from(input.congestion[1] & 3), 1);
        front.put(0, 1);
        front.put(input.deq_timedelta.as_nanos() & time, 4);
        front.put(u64::from(input.egress_rid), 2);
        front.put(0, 1);
        front.put(u64::from(input.queue_id), 1);
        front.put(0, 1);
        front.put(u64::from(deflected), 1);
        front.put(u64::from(arrived) & low(16), 2);
        if self.generation == 2 {
            front.put(0, 1);
        }
        front
    }
}

/// Most bytes of metadata in front of a packet.
const MAX_FRONT_BYTES: usize = 32;

/// Metadata in front of a packet.
#[derive(Default)]
struct Front {
    bytes: [u8; MAX_FRONT_BYTES],
    length: usize,
}

impl Front {
    /// Adds the low bytes of a number.
    fn put(&mut self, value: u64, bytes: usize) {
        let end = self.length + bytes;
        self.bytes[self.length..end].copy_from_slice(&value.to_be_bytes()[8 - bytes..]);
        self.length = end;
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

fn nanoseconds(time: Instant) -> u64 {
    time.as_picos() / 1000
}

fn low(bits: u32) -> u64 {
    crate::bits::low_mask(bits)
}

impl Fields {
    /// Takes the port and the groups of a packet away.
    fn leave_no_way(&self, words: &mut [u64]) {
        let none = [
            (self.egress_port, u64::from(NO_PORT)),
            (self.group_a, 0),
            (self.group_b, 0),
        ];
        for (place, value) in none {
            if let Some(place) = place {
                place.set(words, value);
            }
        }
    }

    fn get(words: &[u64], place: Option<Place>) -> u64 {
        place.map_or(0, |place| place.get(words))
    }
}

impl Pipeline {
    /// Bytes of a cell of the buffer, in which Tofino counts the depth of queues; `None` for v1model.
    pub fn cell_bytes(&self) -> Option<u64> {
        self.program.tofino().map(|t| t.cell_bytes())
    }

    /// Whether the program has a ghost thread, which the length of queues is to be reported to.
    pub fn has_ghost(&self) -> bool {
        self.program
            .tofino()
            .is_some_and(|t| t.pipes.iter().any(|pipe| pipe.ghost.is_some()))
    }

    /// Reports the length of a queue in cells to the ghost thread. The number of the queue is `port * 8 + queue`.
    pub fn report_length(&mut self, now: Instant, port: u16, queue: u8, cells: u64) {
        let program = self.program.clone();
        let Some(tofino) = program.tofino() else {
            return;
        };
        let mut packet = self.state.pool.packet(&program.layout.initial, Vec::new());
        let values = [u64::from(port) * 8 + u64::from(queue), cells.min(low(18))];
        for (place, value) in tofino.fields.reported.iter().zip(values) {
            if let Some(place) = place {
                place.set(&mut packet.words, value);
            }
        }
        let mut machine = self.machine(&mut packet, now);
        let pipe = &tofino.pipes[tofino.pipe_of(port)];
        machine.interpret(|m| m.pipeline(pipe.ghost));
        self.state.pool.recycle(packet);
    }

    /// Sets the port to which `copy_to_cpu` of programs for Tofino sends; `None`: nowhere.
    pub fn set_cpu_port(&mut self, port: Option<u16>) {
        self.state.tofino.cpu_port = port;
    }

    /// The port to which `copy_to_cpu` sends.
    pub fn cpu_port(&self) -> Option<u16> {
        self.state.tofino.cpu_port
    }

    /// Sets the bytes behind the metadata of packets of a port, as many as the chip has at most; none are zeros.
    pub fn set_port_metadata(&mut self, port: u16, bytes: Option<Vec<u8>>) {
        let all = &mut self.state.tofino.port_metadata;
        match bytes {
            Some(bytes) => all.insert(port, bytes),
            None => all.remove(&port),
        };
    }

    /// The ports whose bytes are set, with them.
    pub fn port_metadata(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let all = self.state.tofino.port_metadata.iter();
        all.map(|(port, bytes)| (*port, bytes.as_slice()))
    }

    /// The packet generators; `None` if the program is not for Tofino.
    pub fn generator(&mut self) -> Option<&mut Generator> {
        let generation = self.program.tofino()?.generation;
        let new = || Box::new(Generator::new(generation));
        Some(self.state.generator.get_or_insert_with(new))
    }

    /// When a packet generator has something to do next; `None` if none has.
    #[inline]
    pub fn next_generated(&self) -> Option<Instant> {
        self.state.generator.as_ref()?.next()
    }

    /// The next packet of a generator that is due, and the port at which ingress sees it.
    pub fn take_generated(&mut self, now: Instant) -> Option<(u16, Vec<u8>)> {
        self.state.generator.as_mut()?.take(now)
    }

    /// Tells the packet generators of a port that has gone down.
    pub fn generate_for_port(&mut self, now: Instant, port: u16) {
        if let Some(generator) = &mut self.state.generator {
            generator.port_down(now, port);
        }
    }

    /// Tells the packet generators of a packet that comes back to ingress by this port.
    pub fn generate_for_packet(&mut self, now: Instant, port: u16, frame: &[u8]) {
        if let Some(generator) = &mut self.state.generator {
            generator.comes_back(now, port, frame);
        }
    }

    /// Whether a port leads back to ingress on the chip, if it is not connected: port 68 of each pipe on Tofino,
    /// port 6 on Tofino 2, and the ports of a pipeline that is not the first.
    pub fn recirculates(&self, port: u16) -> bool {
        let Some(tofino) = self.program.tofino() else {
            return false;
        };
        port & 0x7f == tofino.recirculation_port() || port < NO_PORT && tofino.pipe_of(port) > 0
    }

    /// The port that leads back to ingress in the first pipe; `None` for other architectures.
    pub fn recirculation_port(&self) -> Option<u16> {
        let tofino = self.program.tofino();
        tofino.map(Tofino::recirculation_port)
    }

    /// The number of the pipeline of the program that a port belongs to; 0 for v1model.
    pub fn pipe_of(&self, port: u16) -> usize {
        let tofino = self.program.tofino();
        tofino.map_or(0, |tofino| tofino.pipe_of(port))
    }

    /// Names of the pipelines of a program for Tofino that has several, by number.
    pub fn pipe_names(&self) -> &[String] {
        &self.program.pipe_names
    }

    /// The port to which a packet goes that its queue refuses; `None` if it has not asked for that.
    pub fn deflects_to(&self, packet: &Packet, port: u16) -> Option<u16> {
        let tofino = self.program.tofino()?;
        let wanted = Fields::get(&packet.words, tofino.fields.deflect_on_drop);
        let already = self.program.standard.instance_type.get(&packet.words);
        let to = (port & 0x180) | tofino.recirculation_port();
        (wanted != 0 && already != u64::from(instance_type::DEFLECTED)).then_some(to)
    }

    /// Notes that a packet is deflected, for its `deflection_flag`.
    pub fn mark_deflected(&self, packet: &mut Packet) {
        let place = self.program.standard.instance_type;
        place.set(&mut packet.words, u64::from(instance_type::DEFLECTED));
    }

    /// Ingress of Tofino, from the parser to the deparser.
    pub(crate) fn tofino_ingress(
        &mut self,
        now: Instant,
        frame: Vec<u8>,
        input: &IngressInput,
    ) -> IngressOutcome {
        let program = self.program.clone();
        let Some(tofino) = program.tofino() else {
            unreachable!("the program is for Tofino")
        };
        let length = frame.len() as u32;
        let of_port = self.state.tofino.port_metadata.get(&input.ingress_port);
        let of_port = of_port.map_or(&[][..], Vec::as_slice);
        let front = tofino.ingress_front(now, input, of_port);
        let front_bytes = front.length;
        let mut packet = self.with_front(&front, frame);
        packet.ingress_port = input.ingress_port;
        packet.packet_id = input.packet_id;
        packet.ingress_length = length + FCS_BYTES;
        let fields = &tofino.fields;
        if let Some(port) = fields.egress_port {
            port.set(&mut packet.words, u64::from(NO_PORT));
        }
        let half = Half {
            pipe: tofino.pipe_of(input.ingress_port),
            gress: Gress::Ingress,
        };
        let error = self.pass(now, &mut packet, half, tofino);
        if let Some(reason) = packet.requests.failed {
            return IngressOutcome::dropped(self.drop_tofino(packet, reason));
        }
        if error != program.errors.no_error && tofino.pipes[half.pipe].ingress_errors.is_none() {
            return IngressOutcome::dropped(self.drop_tofino(packet, DropReason::ParserError));
        }
        let digest = packet.requests.digest.take();
        let digest = digest.and_then(|id| self.digest_of(&packet, id));
        let drops = Fields::get(&packet.words, fields.ingress_drop);
        let mirror = self
            .state
            .tofino
            .mirror
            .filter(|_| drops & DROP_MIRROR == 0);
        let clone = mirror.and_then(|(session, header)| {
            let original = packet.frame[front_bytes..].to_vec();
            self.mirror(session, header, &packet, &original)
        });
        let is_dropped = drops & DROP_PACKET != 0;
        let wants_copy = Fields::get(&packet.words, fields.copy_to_cpu) != 0;
        let cpu = self.state.tofino.cpu_port;
        let cpu = cpu.filter(|_| wants_copy && drops & DROP_CPU_COPY == 0);
        let verdict = if is_dropped && cpu.is_none() {
            IngressVerdict::Dropped(self.drop_tofino(packet, DropReason::IngressMarkToDrop))
        } else if let Some(header) = self.state.tofino.resubmit.filter(|_| !is_dropped) {
            self.state.stats.resubmits += 1;
            let bytes = self.header_bytes(&packet, header);
            IngressVerdict::Resubmit {
                preserved: Preserved {
                    field_list: RESUBMITTED_BYTES,
                    words: bytes.into_iter().map(u64::from).collect(),
                },
                frame: self.state.pool.take_frame(packet).split_off(front_bytes),
            }
        } else {
            self.write_headers(now, &mut packet, half);
            if is_dropped {
                fields.leave_no_way(&mut packet.words);
            }
            self.destination(packet, fields, cpu)
        };
        IngressOutcome {
            clone,
            digest,
            verdict,
        }
    }

    /// Where a packet goes that ingress has not dropped: to a port, to copies, or nowhere. `cpu` gets a copy, too.
    fn destination(
        &mut self,
        packet: Box<Packet>,
        fields: &Fields,
        cpu: Option<u16>,
    ) -> IngressVerdict {
        let words = &packet.words;
        let port = fields.egress_port.map_or(NO_PORT, |p| p.get(words) as u16);
        let groups = [fields.group_a, fields.group_b].map(|g| Fields::get(words, g) as u16);
        if groups == [0, 0] && cpu.is_none() {
            return match port {
                NO_PORT => {
                    let reason = DropReason::IngressMarkToDrop;
                    IngressVerdict::Dropped(self.drop_tofino(packet, reason))
                }
                egress_spec => IngressVerdict::Unicast {
                    egress_spec,
                    priority: self.priority(&packet),
                    packet,
                },
            };
        }
        let rid = Fields::get(words, fields.rid) as u16;
        let excluded = Fields::get(words, fields.exclusion) as u16;
        let is_pruned = |r: &&Replica| excluded != 0 && r.instance == rid && r.port == excluded;
        let unicast = (port != NO_PORT).then_some(Replica { port, instance: 0 });
        let members = groups.iter().filter(|g| **g != 0);
        let members = members.flat_map(|g| self.multicast_replicas(*g));
        let members = members.filter(|r| !is_pruned(r)).copied();
        let cpu = cpu.map(|port| Replica { port, instance: 0 });
        let replicas = unicast.into_iter().chain(members).chain(cpu).collect();
        IngressVerdict::Copies { replicas, packet }
    }

    /// Egress of Tofino, from the parser to the deparser.
    pub(crate) fn tofino_egress(
        &mut self,
        now: Instant,
        mut packet: Box<Packet>,
        input: &EgressInput,
    ) -> EgressOutcome {
        let program = self.program.clone();
        let Some(tofino) = program.tofino() else {
            unreachable!("the program is for Tofino")
        };
        let fields = &tofino.fields;
        if Fields::get(&packet.words, fields.bypass_egress) != 0 {
            let frame = self.state.pool.take_frame(packet);
            return EgressOutcome {
                clone: None,
                verdict: EgressVerdict::Transmit(frame),
            };
        }
        let kind = program.standard.instance_type.get(&packet.words);
        let deflected = kind == u64::from(instance_type::DEFLECTED);
        let whole = packet.truncated_to;
        packet.frame.truncate(whole);
        let length = packet.frame.len();
        let front = tofino.egress_front(input, deflected, packet.ingress_length);
        let (port, id) = (packet.ingress_port, packet.packet_id);
        let frame = self.state.pool.take_frame(packet);
        let mut packet = self.with_front(&front, frame);
        (packet.ingress_port, packet.packet_id) = (port, id);
        packet.ingress_length = length as u32 + FCS_BYTES;
        let half = Half {
            pipe: tofino.pipe_of(input.egress_port),
            gress: Gress::Egress,
        };
        self.pass(now, &mut packet, half, tofino);
        if let Some(reason) = packet.requests.failed {
            let verdict = EgressVerdict::Dropped(self.drop_tofino(packet, reason));
            return EgressOutcome {
                clone: None,
                verdict,
            };
        }
        let drops = Fields::get(&packet.words, fields.egress_drop);
        self.write_headers(now, &mut packet, half);
        if drops & DROP_PACKET == 0 {
            self.count_departing(&packet);
        }
        let mirror = self
            .state
            .tofino
            .mirror
            .filter(|_| drops & DROP_MIRROR == 0);
        let clone = mirror.and_then(|(session, header)| {
            let sent = std::mem::take(&mut packet.frame);
            let copy = self.mirror(session, header, &packet, &sent);
            packet.frame = sent;
            copy
        });
        let verdict = match drops & DROP_PACKET {
            0 => EgressVerdict::Transmit(self.state.pool.take_frame(packet)),
            _ => EgressVerdict::Dropped(self.drop_tofino(packet, DropReason::EgressMarkToDrop)),
        };
        EgressOutcome { clone, verdict }
    }

    /// A packet that has not been parsed, with bytes in front of its frame.
    fn with_front(&mut self, front: &Front, mut frame: Vec<u8>) -> Box<Packet> {
        let length = frame.len();
        frame.resize(front.length + length, 0);
        frame.copy_within(..length, front.length);
        frame[..front.length].copy_from_slice(&front.bytes[..front.length]);
        self.state.pool.packet(&self.program.layout.initial, frame)
    }

    /// Parses a packet, and runs the control and the deparser of a gress. Returns the error of the parser.
    fn pass(&mut self, now: Instant, packet: &mut Packet, half: Half, tofino: &Tofino) -> u32 {
        let Half { pipe, gress } = half;
        let blocks = &tofino.pipes[pipe];
        let errors = match gress {
            Gress::Ingress => blocks.ingress_errors,
            Gress::Egress => tofino.fields.egress_errors,
        };
        if let Some(place) = tofino.fields.times[gress as usize] {
            place.set(&mut packet.words, nanoseconds(now));
        }
        for place in tofino.fields.selectors[gress as usize].iter().flatten() {
            place.set(&mut packet.words, u64::MAX);
        }
        self.state.tofino.emitted.clear();
        self.state.tofino.departing.clear();
        (self.state.tofino.mirror, self.state.tofino.resubmit) = (None, None);
        let no_error = self.program.errors.no_error;
        // Without a field for errors ingress drops a packet that has one.
        let goes_on = |m: &mut Machine, error| match errors {
            Some(place) => {
                let bits = m.error_bits(error);
                place.set(&mut m.packet.words, bits);
                true
            }
            None => error == no_error || matches!(gress, Gress::Egress),
        };
        let mut machine = self.machine(packet, now);
        let error = match machine.native() {
            Some(native) => machine.half_native(native, half, goes_on),
            None => machine.half_interpreted(blocks, gress, goes_on),
        };
        if error != no_error {
            self.state.stats.parser_error(error);
        }
        error
    }

    /// Puts the headers that the deparser emits in front of what the parser left.
    fn write_headers(&mut self, now: Instant, packet: &mut Packet, half: Half) {
        let mut machine = self.machine(packet, now);
        let native = machine.native();
        match native.is_some_and(|native| machine.write_native(native, half)) {
            true => packet.note_whole(),
            false => self.write_emitted(now, packet),
        }
    }

    /// The same, by the interpreter.
    pub(crate) fn write_emitted(&mut self, now: Instant, packet: &mut Packet) {
        let emitted = std::mem::take(&mut self.state.tofino.emitted);
        let mut machine = self.machine(packet, now);
        machine.interpret(|m| m.write_headers_of(&emitted));
        self.state.tofino.emitted = emitted;
        packet.note_whole();
    }

    /// Gives counters of the bytes that leave those that the packet has now, in the place of those it came with.
    fn count_departing(&mut self, packet: &Packet) {
        let leaves = packet.frame.len() as u64 + u64::from(FCS_BYTES);
        let more = leaves.wrapping_sub(u64::from(packet.ingress_length));
        let state = &mut self.state;
        for counted in state.tofino.departing.drain(..) {
            match counted {
                Departing::Cell(counter, index) => {
                    let counter = &mut state.counters[counter as usize];
                    if let Some([_, bytes]) = counter.cells.get_mut(index as usize) {
                        *bytes = bytes.wrapping_add(more);
                    }
                }
                Departing::Entry(table, entry) => state.tables[table].add_bytes(entry, more),
            }
        }
    }

    /// A copy for a mirror session: its header and the packet, together no longer than the session lets through.
    fn mirror(
        &mut self,
        session: u32,
        header: Option<u32>,
        packet: &Packet,
        bytes: &[u8],
    ) -> Option<CloneRequest> {
        let most = self.clone_session(session)?.packet_length_bytes as usize;
        self.state.stats.clones += 1;
        let mut frame = self.header_bytes(packet, header);
        frame.extend_from_slice(bytes);
        if most > 0 {
            frame.truncate(most);
        }
        let mut copy = self.state.pool.packet(&self.program.layout.initial, frame);
        copy.ingress_length += FCS_BYTES;
        copy.ingress_port = packet.ingress_port;
        copy.packet_id = packet.packet_id;
        Some(CloneRequest {
            session,
            packet: copy,
        })
    }

    /// The bytes of a header, valid or not: the deparser takes them as a list of fields. None if there is none.
    fn header_bytes(&self, packet: &Packet, header: Option<u32>) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(header) = header.map(|header| self.program.layout.header_at(header)) {
            header.pieces.append(&packet.words, &mut bytes);
        }
        bytes
    }

    fn drop_tofino(&mut self, packet: Box<Packet>, reason: DropReason) -> DropReason {
        self.state.pool.recycle(packet);
        self.state.stats.dropped(reason)
    }
}

impl IngressOutcome {
    pub(crate) fn dropped(reason: DropReason) -> IngressOutcome {
        IngressOutcome {
            clone: None,
            digest: None,
            verdict: IngressVerdict::Dropped(reason),
        }
    }
}

impl Machine<'_> {
    /// Parser, control and deparser of half a pipeline. `goes_on` sees the error of the parser, and says whether the
    /// packet is to be processed. Returns the error.
    fn half_interpreted(
        &mut self,
        blocks: &Blocks,
        gress: Gress,
        goes_on: impl FnOnce(&mut Self, u32) -> bool,
    ) -> u32 {
        let mut error = self.program.errors.no_error;
        self.interpret(|m| {
            error = m.parse_from(blocks.parsers[gress as usize]);
            if goes_on(m, error) {
                m.pipeline(blocks.controls[gress as usize]);
                m.end_control();
                m.run(&blocks.deparsers[gress as usize], &[]);
            }
        });
        error
    }

    /// Runs the control of half a pipeline.
    pub fn control(&mut self, half: Half) {
        let program = self.program;
        if let Some(tofino) = program.tofino() {
            self.pipeline(tofino.pipes[half.pipe].controls[half.gress as usize]);
        }
    }

    /// Ends a control: `exit` does not end the deparser as well.
    pub fn end_control(&mut self) {
        self.packet.requests.exit = self.packet.requests.failed.is_some();
    }

    /// The bits of `parser_err` for an error of P4.
    fn error_bits(&self, error: u32) -> u64 {
        let errors = &self.program.errors;
        match error {
            e if e == errors.no_error => 0,
            e if e == errors.packet_too_short => 0x2,
            e if e == errors.parser_timeout => 0x10,
            e if e == errors.stack_out_of_bounds => 0x40,
            // No case of a select matched.
            _ => 0x1,
        }
    }

    /// Runs a primitive.
    pub fn tofino_step(&mut self, primitive: &TofinoPrimitive, data: &[u64]) {
        match primitive {
            TofinoPrimitive::Emit(_) if self.state.tofino.emitted.len() >= MAX_EMITTED => {
                self.fail(DropReason::NoTermination);
            }
            TofinoPrimitive::Emit(header) => self.state.tofino.emitted.push(*header),
            TofinoPrimitive::Mirror(session, header) => {
                let session = session.index(&self.scope(data)) as u32;
                self.state.tofino.mirror = Some((session, *header));
            }
            TofinoPrimitive::Resubmit(header) => self.state.tofino.resubmit = Some(*header),
            TofinoPrimitive::CountDeparting(Some((counter, index))) => {
                let index = index.index(&self.scope(data));
                self.state.counters[*counter as usize]
                    .count(index, u64::from(self.packet.ingress_length));
                let counted = Departing::Cell(*counter, index);
                self.state.tofino.departing.push(counted);
            }
            TofinoPrimitive::CountDeparting(None) => {
                let tofino = &mut self.state.tofino;
                let counted = Departing::Entry(tofino.table, tofino.entry);
                tofino.departing.push(counted);
            }
            TofinoPrimitive::EntryIndex(to) => {
                // No register has as many cells, so that a miss reads 0 and writes nothing.
                let index = self.state.tofino.entry.unwrap_or(u32::MAX);
                self.store(to, i128::from(index), data);
            }
            TofinoPrimitive::Filter {
                to,
                filter,
                index,
                of,
            } => {
                let scope = self.scope(data);
                let (index, x) = (index.index(&scope), of.index(&scope));
                let state = &mut *self.state;
                let made = state.filters[*filter as usize].of(index, x, self.now, &mut state.rng);
                self.store(to, i128::from(made), data);
            }
            TofinoPrimitive::Math { to, of, unit } => {
                let x = of.index(&self.scope(data));
                self.store(to, i128::from(unit.of(x)), data);
            }
            TofinoPrimitive::WholeHash(to, calculation) => {
                let hash = self.calculate(*calculation);
                self.store(to, i128::from(hash), data);
            }
            TofinoPrimitive::CountLess(counter, cell, less) => {
                let scope = self.scope(data);
                let (cell, less) = (cell.index(&scope), less.index(&scope));
                let bytes = u64::from(self.packet.ingress_length).saturating_sub(less);
                self.state.counters[*counter as usize].count(cell, bytes);
            }
        }
    }

    /// Writes headers into the frame, in front of the payload.
    fn write_headers_of(&mut self, emitted: &[u32]) {
        let program = self.program;
        let emits = emitted.iter().map(|h| Emit::new(&program.layout, *h));
        let words = &self.packet.words;
        let valid: Vec<Emit> = emits.filter(|emit| emit.is_valid(words)).collect();
        let bytes = valid.iter().map(|emit| emit.bits(words) / 8).sum();
        self.packet.make_room(bytes);
        let mut at = 0;
        for emit in &valid {
            at += self.emit(emit, at);
        }
        if self.is_traced() {
            self.note_deparse();
        }
    }
}
