//! The passes of a packet: through ingress to the queues, through egress to the link.

use ebb_units::Instant;

use super::blocks::*;
use crate::Pipeline;
use crate::control::Replica;
use crate::drop_reason::DropReason;
use crate::machine::Machine;
use crate::outcome::*;
use crate::packet::{Packet, Preserved};

impl Pipeline {
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
        let mut packet = self.new_packet(frame);
        let of_port = self.state.tofino.port_metadata.get(&input.ingress_port);
        let of_port = of_port.map_or(&[][..], Vec::as_slice);
        tofino.ingress_front(now, input, of_port, &mut packet.front);
        packet.ingress_port = input.ingress_port;
        packet.packet_id = input.packet_id;
        packet.ingress_length = length + FCS_BYTES;
        let fields = &tofino.fields;
        if let Some(port) = fields.egress_port {
            port.set(&mut packet.words, u64::from(NO_PORT));
        }
        let no_group = self.state.tofino.no_group;
        if no_group != 0 {
            for place in [fields.group_a, fields.group_b].into_iter().flatten() {
                place.set(&mut packet.words, u64::from(no_group));
            }
        }
        let half = Half {
            pipe: tofino.pipe_of(input.ingress_port),
            gress: Gress::Ingress,
        };
        let (error, is_written) = self.in_pipe(input.ingress_port, |pipeline| {
            pipeline.pass(now, &mut packet, half, tofino)
        });
        if let Some(reason) = packet.requests.failed {
            return IngressOutcome::dropped(self.drop_tofino(packet, reason));
        }
        if error != program.errors.no_error && tofino.pipes[half.pipe].ingress_errors.is_none() {
            return IngressOutcome::dropped(self.drop_tofino(packet, DropReason::ParserError));
        }
        let digest = packet.requests.ask().digest.take();
        let digest = digest.and_then(|id| self.digest_of(&packet, id));
        let drops = Fields::get(&packet.words, fields.ingress_drop);
        let mirror = self
            .state
            .tofino
            .mirror
            .filter(|_| drops & DROP_MIRROR == 0);
        let clone = mirror.and_then(|(session, header)| {
            let original = packet.frame[packet.metadata_bytes..].to_vec();
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
            let behind = packet.metadata_bytes;
            IngressVerdict::Resubmit {
                preserved: Preserved {
                    field_list: RESUBMITTED_BYTES,
                    words: bytes.into_iter().map(u64::from).collect(),
                },
                frame: self.state.pool.take_frame(packet).split_off(behind),
            }
        } else {
            if !is_written {
                self.write_headers(now, &mut packet, half);
            }
            if is_dropped {
                fields.leave_no_way(&mut packet.words, no_group);
            }
            self.destination(packet, fields, cpu)
        };
        IngressOutcome {
            clone,
            digest,
            verdict,
        }
    }

    /// The verdict on a packet that ingress has not dropped: a port, copies, or a drop for want of a destination. `cpu`
    /// gets a copy, too.
    fn destination(
        &mut self,
        packet: Box<Packet>,
        fields: &Fields,
        cpu: Option<u16>,
    ) -> IngressVerdict {
        let words = &packet.words;
        let port = fields.egress_port.map_or(NO_PORT, |p| p.get(words) as u16);
        let groups = [fields.group_a, fields.group_b].map(|g| Fields::get(words, g) as u16);
        let no_group = self.state.tofino.no_group;
        if groups == [no_group; 2] && cpu.is_none() {
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
        let [first, second] = fields.exclusions.map(|e| Fields::get(words, e) as u16);
        let ids = &self.state.tofino.exclusions;
        let is_pruned = |group: u16, r: &Replica| {
            second != 0 && r.instance == rid && r.port == second
                || ids.get(&group).and_then(|ids| ids.get(r)) == Some(&first)
        };
        let unicast = (port != NO_PORT).then_some(Replica { port, instance: 0 });
        let members = groups.into_iter().filter(|group| *group != no_group);
        let members = members.flat_map(|group| {
            let all = self.multicast_replicas(group).iter().copied();
            let is_pruned = &is_pruned;
            all.filter(move |r| !is_pruned(group, r))
        });
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
            packet.join_front();
            let frame = self.state.pool.take_frame(packet);
            return EgressOutcome {
                clone: None,
                verdict: EgressVerdict::Transmit(frame),
            };
        }
        let kind = program.standard.instance_type.get(&packet.words);
        let deflected = kind == u64::from(instance_type::DEFLECTED);
        let length = packet.wire_len();
        if length == packet.truncated_to {
            packet.join_front();
            packet.frame.truncate(length);
        }
        let arrived = packet.ingress_length;
        self.begin_again(&mut packet);
        tofino.egress_front(input, deflected, arrived, &mut packet.front);
        packet.ingress_length = length as u32 + FCS_BYTES;
        let half = Half {
            pipe: tofino.pipe_of(input.egress_port),
            gress: Gress::Egress,
        };
        let (_, is_written) = self.in_pipe(input.egress_port, |pipeline| {
            pipeline.pass(now, &mut packet, half, tofino)
        });
        if let Some(reason) = packet.requests.failed {
            let verdict = EgressVerdict::Dropped(self.drop_tofino(packet, reason));
            return EgressOutcome {
                clone: None,
                verdict,
            };
        }
        let drops = Fields::get(&packet.words, fields.egress_drop);
        if !is_written {
            self.write_headers(now, &mut packet, half);
        }
        packet.join_front();
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

    /// Parses a packet, and runs the control and the deparser of a gress. Returns the error of the parser, and whether
    /// the headers are written. If not, the caller writes them unless the packet ends here.
    fn pass(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        half: Half,
        tofino: &Tofino,
    ) -> (u32, bool) {
        let Half { pipe, gress } = half;
        let blocks = &tofino.pipes[pipe];
        let errors = match gress {
            Gress::Ingress => blocks.ingress_errors,
            Gress::Egress => tofino.fields.egress_errors,
        };
        if let Some(place) = tofino.fields.times[gress as usize] {
            place.set(&mut packet.words, nanoseconds(now));
        }
        self.state.tofino.emitted.clear();
        self.state.tofino.departing.clear();
        (self.state.tofino.mirror, self.state.tofino.resubmit) = (None, None);
        packet.metadata_bytes = 0;
        let no_error = self.program.errors.no_error;
        // Without a field for errors of the parser, ingress drops packets with one.
        let accepts = |m: &mut Machine, error| match errors {
            Some(place) => {
                let bits = m.error_bits(error);
                place.set(&mut m.packet.words, bits);
                true
            }
            None => error == no_error || matches!(gress, Gress::Egress),
        };
        let mut machine = self.machine(packet, now);
        let (error, is_written) = match machine.native() {
            Some(native) => machine.half_native(native, half, accepts),
            None => {
                machine.packet.join_front();
                for place in tofino.selectors(gress) {
                    place.set(&mut machine.packet.words, u64::MAX);
                }
                (machine.half_interpreted(blocks, gress, accepts), false)
            }
        };
        match is_written {
            true => packet.note_whole(),
            false => packet.front.clear(),
        }
        self.state.tofino.pause = tofino.fields.queue_pause(&packet.words, gress);
        if error != no_error {
            self.state.stats.parser_error(error);
        }
        (error, is_written)
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
        machine.fetch_fields();
        machine.interpret(|m| m.write_headers_of(&emitted));
        self.state.tofino.emitted = emitted;
        packet.note_whole();
    }

    /// Corrects the counters of departing bytes, which have counted the length with which the packet arrived, to the
    /// length with which it leaves.
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
        copy.front.clear();
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
