//! The data plane of one switch: what happens to a frame between its arrival and its departure.

use ebb_units::Instant;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::control::{CloneSession, Replica};
use crate::drop_reason::DropReason;
use crate::error::LoadError;
use crate::machine::Machine;
use crate::native::Native;
use crate::outcome::*;
use crate::packet::{CloneCall, Packet, Pool, Preserved};
use crate::program::{Other, Program};
use crate::slot::Place;
use crate::state::State;
use crate::stats::PipelineStats;
use crate::trace::TraceEvent;

/// A switch without ports and queues.
#[derive(Debug)]
pub struct Pipeline {
    /// The program, shared with other switches.
    pub(crate) program: Arc<Program>,
    /// Everything that changes.
    pub(crate) state: State,
}

impl Pipeline {
    /// A switch in its initial state. Only tables, arrays and statistics belong to it alone.
    pub fn new(program: Arc<Program>) -> Pipeline {
        let state = State::new(&program);
        Pipeline { program, state }
    }

    /// A switch with a program that no other switch shares.
    pub fn load(program: &ebb_bmv2_json::Program) -> Result<Pipeline, LoadError> {
        Program::load(program).map(Pipeline::new)
    }

    /// Like [`load`](Self::load), with [`Program::load_interpreted`].
    pub fn load_interpreted(program: &ebb_bmv2_json::Program) -> Result<Pipeline, LoadError> {
        Program::load_interpreted(program).map(Pipeline::new)
    }

    /// Like [`load`](Self::load), with [`Program::load_plain`].
    pub fn load_plain(program: &ebb_bmv2_json::Program) -> Result<Pipeline, LoadError> {
        Program::load_plain(program).map(Pipeline::new)
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Sets the seed of P4's `random()`, which is 0 by default.
    pub fn set_seed(&mut self, seed: u64) {
        self.state.rng = SmallRng::seed_from_u64(seed);
    }

    /// Sets the value of `egress_spec` that means drop, which is 511 by default.
    pub fn set_drop_port(&mut self, port: u16) {
        self.state.drop_port = port;
    }

    /// Whether the program is for v1model, where one parser and one deparser serve both pipelines.
    pub fn is_v1model(&self) -> bool {
        self.program.other.is_none()
    }

    /// Whether the program is for PSA.
    pub fn is_psa(&self) -> bool {
        matches!(self.program.other, Some(Other::Psa(_)))
    }

    /// Parses a frame and runs the ingress pipeline.
    pub fn ingress(
        &mut self,
        now: Instant,
        frame: Vec<u8>,
        input: &IngressInput,
    ) -> IngressOutcome {
        self.state.stats.ingress_packets += 1;
        if let Some(other) = &self.program.other {
            return match other {
                Other::Tofino(_) => self.tofino_ingress(now, frame, input),
                Other::Psa(_) => self.psa_ingress(now, frame, input),
            };
        }
        let plain = input.preserved.is_some() || input.deflect.is_some() || self.sets_all();
        let mut packet = match plain {
            true => self.arrive(now, frame, input),
            false => {
                let words = self.program.layout.initial.len();
                self.state.pool.unset_packet(words, frame)
            }
        };
        packet.ingress_port = input.ingress_port;
        packet.packet_id = input.packet_id;
        let input = (!plain).then_some(input);
        self.machine(&mut packet, now).arrive(input);
        match packet.requests.any() {
            true => self.after_ingress(now, packet),
            false => self.forward(packet),
        }
    }

    /// Whether all words of packets are set before anything runs: for the interpreter, or where somebody may read any
    /// field. Otherwise native code sets those that the program reads.
    fn sets_all(&self) -> bool {
        let all = self.state.interprets || self.state.sets_all.load(Ordering::Relaxed);
        all || self.program.native.is_none()
    }

    /// The packet as it is before the parser runs.
    #[inline(never)]
    fn arrive(&mut self, now: Instant, frame: Vec<u8>, input: &IngressInput) -> Box<Packet> {
        let length = frame.len() as u64;
        let mut packet = self.new_packet(frame);
        if let Some(preserved) = &input.preserved {
            restore(&self.program, &mut packet, preserved);
        }
        let standard = &self.program.standard;
        let words = packet.words.as_mut_slice();
        set(words, standard.ingress_port, u64::from(input.ingress_port));
        set(words, standard.packet_length, length);
        set(
            words,
            standard.instance_type,
            u64::from(input.instance_type),
        );
        set_if(words, standard.ingress_global_timestamp, now.as_micros());
        if let Some(deflect) = input.deflect {
            set(words, standard.egress_port, u64::from(deflect.egress_port));
            set_if(words, standard.enq_qdepth, u64::from(deflect.enq_qdepth));
        }
        packet
    }

    /// A packet with its words as the program needs them at the start. For a trace, or where somebody
    /// may read any field, these are all of them.
    pub(crate) fn new_packet(&mut self, frame: Vec<u8>) -> Box<Packet> {
        let initial = &self.program.layout.initial;
        let native = self.program.native.as_ref().filter(|_| !self.sets_all());
        let pool = &mut self.state.pool;
        match native {
            None => pool.packet(initial, frame),
            Some(native) => {
                let mut packet = pool.unset_packet(initial.len(), frame);
                native.initialise(&self.program, &mut packet.words);
                packet
            }
        }
    }

    /// Makes a packet one that has not been parsed, with its words as [`new_packet`](Self::new_packet) has them.
    pub(crate) fn begin_again(&mut self, packet: &mut Packet) {
        let native = self.program.native.as_ref().filter(|_| !self.sets_all());
        #[cfg(test)]
        self.state.pool.leave_rest(packet);
        match native {
            None => packet.words.copy_from_slice(&self.program.layout.initial),
            Some(native) => native.initialise(&self.program, &mut packet.words),
        }
        packet.requests = Default::default();
        packet.truncated_to = usize::MAX;
    }

    /// Fate of a packet after ingress that has requests, in the order of BMv2.
    #[cold]
    fn after_ingress(&mut self, now: Instant, mut packet: Box<Packet>) -> IngressOutcome {
        let requests = std::mem::take(&mut packet.requests);
        if let Some(reason) = requests.failed {
            return IngressVerdict::Dropped(self.drop_packet(packet, reason)).alone();
        }
        let clone = requests
            .clone
            .and_then(|call| self.clone_ingress(now, &packet, call));
        let digest = requests.digest.and_then(|id| self.digest_of(&packet, id));
        let verdict = if let Some(list) = requests.resubmit {
            self.state.stats.resubmits += 1;
            let preserved = preserve(&self.program, &packet, list);
            IngressVerdict::Resubmit {
                frame: self.state.pool.take_frame(packet),
                preserved,
            }
        } else {
            let mut verdict = self.forward(packet).verdict;
            if let (IngressVerdict::Unicast { packet, .. }, Some(list)) =
                (&mut verdict, requests.recirculate)
            {
                // It stays with the packet until it has left egress; replicas lose it.
                packet.requests.ask().recirculate = Some(list);
            }
            verdict
        };
        IngressOutcome {
            clone,
            digest,
            verdict,
        }
    }

    /// Where a packet goes by its metadata after ingress: to a group, nowhere, or to a port.
    #[inline(always)]
    fn forward(&mut self, mut packet: Box<Packet>) -> IngressOutcome {
        packet.requests.exit = false;
        let standard = &self.program.standard;
        let words = packet.words.as_mut_slice();
        let egress_spec = get(words, standard.egress_spec) as u16;
        let group = standard.mcast_grp.map_or(0, |slot| get(words, slot) as u16);
        if group != 0 {
            let replication = u64::from(instance_type::REPLICATION);
            set(words, standard.instance_type, replication);
            return IngressVerdict::Multicast { group, packet }.alone();
        }
        if egress_spec == self.state.drop_port {
            let reason = self.drop_packet(packet, DropReason::IngressMarkToDrop);
            return IngressVerdict::Dropped(reason).alone();
        }
        set(
            words,
            standard.instance_type,
            u64::from(instance_type::NORMAL),
        );
        let priority = standard.priority.map_or(0, |slot| get(words, slot) as u8);
        IngressVerdict::Unicast {
            egress_spec,
            priority,
            packet,
        }
        .alone()
    }

    /// A clone made by ingress: the frame as it came, parsed again, with the metadata that the
    /// field list names.
    fn clone_ingress(
        &mut self,
        now: Instant,
        packet: &Packet,
        call: CloneCall,
    ) -> Option<CloneRequest> {
        let length = self.clone_session(call.session)?.packet_length_bytes;
        self.state.stats.clones += 1;
        let pool = &mut self.state.pool;
        let frame = pool.copy_frame(&packet.frame);
        let mut copy = pool.packet(&self.program.layout.initial, frame);
        copy.ingress_port = packet.ingress_port;
        copy.packet_id = packet.packet_id;
        copy.ingress_length = packet.ingress_length;
        let port = self.program.standard.ingress_port;
        set(&mut copy.words, port, u64::from(packet.ingress_port));
        // The parser does to the copy what it did to the packet.
        let trace = self.state.trace.take();
        let mut machine = self.machine(&mut copy, now);
        machine.begin();
        machine.measure();
        self.state.trace = trace;
        self.reset_clone(
            &mut copy,
            packet,
            call,
            instance_type::INGRESS_CLONE,
            length,
        );
        Some(CloneRequest {
            session: call.session,
            packet: copy,
        })
    }

    /// A clone made by egress: the packet as it is, with the metadata that the field list names.
    fn clone_egress(&mut self, packet: &Packet, call: CloneCall) -> Option<CloneRequest> {
        let length = self.clone_session(call.session)?.packet_length_bytes;
        self.state.stats.clones += 1;
        let mut copy = self.state.pool.copy(packet);
        self.reset_clone(&mut copy, packet, call, instance_type::EGRESS_CLONE, length);
        Some(CloneRequest {
            session: call.session,
            packet: copy,
        })
    }

    fn reset_clone(
        &self,
        copy: &mut Packet,
        original: &Packet,
        call: CloneCall,
        instance_type: u32,
        length: u32,
    ) {
        copy.requests = Default::default();
        for (at, words) in &self.program.layout.metadata {
            copy.words[*at as usize..(*at + *words) as usize].fill(0);
        }
        let preserved = preserve(&self.program, original, call.field_list);
        restore(&self.program, copy, &preserved);
        self.program.measure(copy);
        let standard = &self.program.standard;
        set(
            &mut copy.words,
            standard.instance_type,
            u64::from(instance_type),
        );
        if length != 0 {
            copy.truncate(length as usize);
        }
    }

    /// The values of a learn list.
    pub(crate) fn digest_of(&mut self, packet: &Packet, id: u32) -> Option<Digest> {
        let index = self.program.digests.iter().position(|d| d.id == id)?;
        self.state.stats.digests += 1;
        let values = self.program.digests[index]
            .fields
            .iter()
            .map(|s| {
                let words = &packet.words[s.at as usize..(s.at + s.words) as usize];
                crate::bits::to_bytes(words, s.bits)
            })
            .collect();
        Some(Digest {
            digest: crate::DigestId(index as u32),
            values,
        })
    }

    /// Runs the egress pipeline and, unless the packet is dropped, turns it into a frame again.
    pub fn egress(
        &mut self,
        now: Instant,
        mut packet: Box<Packet>,
        input: &EgressInput,
    ) -> EgressOutcome {
        self.state.stats.egress_packets += 1;
        if let Some(other) = &self.program.other {
            return match other {
                Other::Tofino(_) => self.tofino_egress(now, packet, input),
                Other::Psa(_) => self.psa_egress(now, packet, input),
            };
        }
        let plain = self.sets_all() || self.program.usage.queueing_times;
        if plain {
            self.depart(now, &mut packet, input);
        } else if let Some(instance_type) = input.instance_type {
            let place = self.program.standard.instance_type;
            set(&mut packet.words, place, u64::from(instance_type));
        }
        let input = (!plain).then_some(input);
        let is_written = self.machine(&mut packet, now).egress(input);
        match (is_written, packet.requests.any()) {
            (true, false) => EgressVerdict::Transmit(self.state.pool.take_frame(packet)).alone(),
            (true, true) => self.written(packet, None).alone(),
            (false, true) => self.after_egress(now, packet),
            (false, false) => {
                packet.requests.exit = false;
                self.leave(now, packet, None).alone()
            }
        }
    }

    /// Fate of a packet after egress that has requests.
    #[cold]
    fn after_egress(&mut self, now: Instant, mut packet: Box<Packet>) -> EgressOutcome {
        let requests = std::mem::take(&mut packet.requests);
        if let Some(reason) = requests.failed {
            return EgressVerdict::Dropped(self.drop_packet(packet, reason)).alone();
        }
        let clone = requests
            .clone
            .and_then(|call| self.clone_egress(&packet, call));
        let verdict = self.leave(now, packet, requests.recirculate);
        EgressOutcome { clone, verdict }
    }

    /// Turns a packet into a frame again, unless it is dropped. `recirculate` is the field list with
    /// which egress wants it to go to ingress.
    #[cold]
    fn leave(
        &mut self,
        now: Instant,
        mut packet: Box<Packet>,
        recirculate: Option<u32>,
    ) -> EgressVerdict {
        let egress_spec = get(&packet.words, self.program.standard.egress_spec) as u16;
        if egress_spec == self.state.drop_port {
            let reason = self.drop_packet(packet, DropReason::EgressMarkToDrop);
            return EgressVerdict::Dropped(reason);
        }
        self.machine(&mut packet, now).deparse();
        self.written(packet, recirculate)
    }

    /// Fate of a packet after the deparser.
    #[inline(never)]
    fn written(&mut self, packet: Box<Packet>, recirculate: Option<u32>) -> EgressVerdict {
        if let Some(reason) = packet.requests.failed {
            return EgressVerdict::Dropped(self.drop_packet(packet, reason));
        }
        // The deparser may ask for it, too.
        match packet.requests.recirculate.or(recirculate) {
            Some(list) => {
                self.state.stats.recirculates += 1;
                EgressVerdict::Recirculate {
                    preserved: preserve(&self.program, &packet, list),
                    frame: self.state.pool.take_frame(packet),
                }
            }
            None => EgressVerdict::Transmit(self.state.pool.take_frame(packet)),
        }
    }

    /// Sets the metadata that a packet has when it leaves its queue.
    fn depart(&self, now: Instant, packet: &mut Packet, input: &EgressInput) {
        let standard = &self.program.standard;
        let length = u64::from(packet.packet_length);
        let words = packet.words.as_mut_slice();
        set(words, standard.egress_port, u64::from(input.egress_port));
        set_if(words, standard.egress_rid, u64::from(input.egress_rid));
        if let Some(instance_type) = input.instance_type {
            set(words, standard.instance_type, u64::from(instance_type));
        }
        // It must differ from the drop port.
        let spec = u64::from(self.state.drop_port).wrapping_add(1);
        set(words, standard.egress_spec, spec);
        set(words, standard.packet_length, length);
        set_if(words, standard.egress_global_timestamp, now.as_micros());
        set_if(
            words,
            standard.enq_timestamp,
            input.enq_timestamp.as_micros(),
        );
        set_if(words, standard.enq_qdepth, u64::from(input.enq_qdepth));
        set_if(
            words,
            standard.deq_timedelta,
            input.deq_timedelta.as_micros(),
        );
        set_if(words, standard.deq_qdepth, u64::from(input.deq_qdepth));
        set_if(words, standard.qid, u64::from(input.queue_id));
    }

    /// The frame of a packet right after ingress, with its checksums updated, for a packet that the
    /// traffic manager deflects.
    pub fn deparse(&mut self, mut packet: Box<Packet>) -> Result<Vec<u8>, DropReason> {
        self.machine(&mut packet, Instant::ZERO).deparse();
        match packet.requests.failed {
            None => Ok(self.state.pool.take_frame(packet)),
            Some(reason) => Err(self.drop_packet(packet, reason)),
        }
    }

    /// A copy of a packet in pooled memory.
    pub fn clone_packet(&mut self, packet: &Packet) -> Box<Packet> {
        self.state.pool.copy(packet)
    }

    /// Takes the memory of a packet back. A packet may also just be dropped, but then the next one
    /// allocates.
    pub fn recycle(&mut self, packet: Box<Packet>) {
        self.state.pool.recycle(packet);
    }

    /// Exchanges the memory for packets. The switches of one thread use one pool in turn: then what a packet of
    /// one of them leaves in the caches serves the next.
    pub fn exchange_pool(&mut self, pool: &mut Pool) {
        std::mem::swap(&mut self.state.pool, pool);
    }

    /// The packet's `standard_metadata.priority`: its queue, 0 the lowest.
    pub fn priority(&self, packet: &Packet) -> u8 {
        self.program
            .standard
            .priority
            .map_or(0, |slot| get(&packet.words, slot) as u8)
    }

    /// The copies of a multicast group; none if the group does not exist.
    pub fn multicast_replicas(&self, group: u16) -> &[Replica] {
        self.state.multicast.get(&group).map_or(&[], Vec::as_slice)
    }

    /// A clone session; `None` if it does not exist.
    pub fn clone_session(&self, session: u32) -> Option<&CloneSession> {
        self.state.clone_sessions.get(&session)
    }

    /// Counts of the pipeline.
    pub fn stats(&self) -> &PipelineStats {
        &self.state.stats
    }

    /// The name of a P4 error; `None` if the program does not declare it.
    pub fn error_name(&self, code: u32) -> Option<&str> {
        self.program.error_names.get(&code).map(String::as_str)
    }

    /// From now on interprets packets and notes what happens to them.
    pub fn start_trace(&mut self) {
        self.state.trace.get_or_insert_default();
        self.state.interprets = true;
    }

    /// Ends tracing and returns what was noted since [`start_trace`](Self::start_trace).
    pub fn take_trace(&mut self) -> Vec<TraceEvent> {
        self.state.interprets = !self.state.hashes.is_empty();
        self.state.trace.take().unwrap_or_default()
    }

    /// Counts a dropped packet and takes its memory back.
    fn drop_packet(&mut self, packet: Box<Packet>, reason: DropReason) -> DropReason {
        self.state.pool.recycle(packet);
        self.state.stats.dropped(reason)
    }

    pub(crate) fn machine<'a>(&'a mut self, packet: &'a mut Packet, now: Instant) -> Machine<'a> {
        Machine {
            program: &self.program,
            state: &mut self.state,
            packet,
            now,
        }
    }
}

impl<'a> Machine<'a> {
    /// The native code; `None` if there is none, or if the packet is traced, because only the
    /// interpreter can note steps, or a hash is set at run time.
    pub fn native(&self) -> Option<&'a Native> {
        self.program
            .native
            .as_ref()
            .filter(|_| !self.state.interprets)
    }

    /// Parses the packet, verifies its checksums and runs the ingress pipeline. Native code sets the words from the
    /// input first; `None`: they are set.
    #[inline]
    fn arrive(&mut self, input: Option<&IngressInput>) {
        match self.native() {
            Some(native) => self.arrive_native(native, input),
            None => {
                self.begin_interpreted();
                self.ingress_interpreted();
            }
        }
    }

    /// Parses the packet and verifies its checksums.
    fn begin(&mut self) {
        match self.native() {
            Some(native) => self.begin_native(native),
            None => self.begin_interpreted(),
        }
    }

    /// Counts what the parser found: the P4 error, and whether the checksums were right.
    #[inline]
    pub fn note_beginning(&mut self, error: u32, right: bool) {
        if error != self.program.errors.no_error {
            self.state.stats.parser_error(error);
        }
        if !right {
            self.state.stats.checksum_errors += 1;
        }
    }

    fn begin_interpreted(&mut self) {
        let (mut error, mut right) = (self.program.errors.no_error, true);
        self.interpret(|machine| {
            error = machine.parse();
            right = machine.verify_checksums();
        });
        let standard = &self.program.standard;
        let words = &mut self.packet.words;
        set_if(words, standard.parser_error, u64::from(error));
        set_if(words, standard.checksum_error, u64::from(!right));
        self.note_beginning(error, right);
    }

    pub fn ingress_interpreted(&mut self) {
        self.fetch_fields();
        self.interpret(|machine| machine.pipeline(machine.program.ingress));
        self.measure();
    }

    /// Runs the egress pipeline, and perhaps the deparser. Native code sets the words from the input first; `None`:
    /// they are set. Returns whether the headers are written.
    #[inline]
    fn egress(&mut self, input: Option<&EgressInput>) -> bool {
        match self.native() {
            Some(native) => self.egress_native(native, input),
            None => {
                self.egress_interpreted();
                false
            }
        }
    }

    pub fn egress_interpreted(&mut self) {
        self.fetch_fields();
        self.interpret(|machine| machine.pipeline(machine.program.egress));
        self.measure();
    }
}

#[inline]
fn set(words: &mut [u64], place: Place, value: u64) {
    place.set(words, value);
}

#[inline]
fn set_if(words: &mut [u64], place: Option<Place>, value: u64) {
    if let Some(place) = place {
        set(words, place, value);
    }
}

fn get(words: &[u64], place: Place) -> u64 {
    place.get(words)
}

/// The values of a field list.
pub(crate) fn preserve(program: &Program, packet: &Packet, field_list: u32) -> Preserved {
    let words = match program.field_lists.get(&field_list) {
        None => Vec::new(),
        Some(list) => list
            .ranges
            .iter()
            .flat_map(|(at, n)| &packet.words[*at as usize..(*at + *n) as usize])
            .copied()
            .collect(),
    };
    Preserved { field_list, words }
}

/// Sets the fields of a field list to preserved values.
pub(crate) fn restore(program: &Program, packet: &mut Packet, preserved: &Preserved) {
    let Some(list) = program.field_lists.get(&preserved.field_list) else {
        return;
    };
    let mut values = preserved.words.iter();
    for (at, n) in &list.ranges {
        for (word, value) in packet.words[*at as usize..(*at + *n) as usize]
            .iter_mut()
            .zip(&mut values)
        {
            *word = *value;
        }
    }
}
