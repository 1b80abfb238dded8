//! The data plane of PSA: both gresses parse and deparse the packet, and deparsers send metadata to parsers.
//!
//! ```text
//! packet ─► ingress ─► bytes, normal_meta ─► queues ─► egress ─► bytes ─► link
//!   ▲          ├ as it came, clone_i2e_meta ─►┘ ▲         ├ bytes, clone_e2e_meta ─► queues
//!   └──────────┴ as it came, resubmit_meta      └─────────┘
//! ```
//!
//! Names, initial values and order are those of the specification, section 6; docs/psa.md lists what is a guess.

use ebb_bmv2_json as json;
use ebb_units::Instant;

use crate::Pipeline;
use crate::drop_reason::DropReason;
use crate::error::LoadError;
use crate::layout::Layout;
use crate::outcome::*;
use crate::packet::{Packet, Preserved};
use crate::pipeline::{preserve, restore};
use crate::program::{Other, Program};
use crate::slot::Place;
use crate::tofino::{Blocks, place};

/// Parts of a program for PSA that v1model does not have.
#[derive(Debug)]
pub(crate) struct Psa {
    blocks: Blocks,
    fields: Fields,
    lists: Lists,
}

/// Fields of the architecture's metadata (specification, section 6), by gress where they are an array; `None` if no
/// block of the program has them.
#[derive(Debug)]
struct Fields {
    /// Input of parser and control: `ingress_port`, in egress `egress_port`.
    ports: [[Option<Place>; 2]; 2],
    /// Input of parser and control: `packet_path`.
    paths: [[Option<Place>; 2]; 2],
    /// Input of the control: its time stamp.
    times: [Option<Place>; 2],
    /// Input of the control: `parser_error`.
    errors: [Option<Place>; 2],
    /// Input of egress: `class_of_service`.
    class: Option<Place>,
    /// Input of egress: `instance`.
    instance: Option<Place>,
    /// Input of egress's deparser: the egress port.
    deparser_port: Option<Place>,
    /// Output of the control: `clone`.
    clone: [Option<Place>; 2],
    /// Output of the control: `clone_session_id`.
    session: [Option<Place>; 2],
    /// Output of the control: `drop`.
    drop: [Option<Place>; 2],
    /// Output of ingress: `resubmit`.
    resubmit: Option<Place>,
    /// Output of ingress: `multicast_group`.
    group: Option<Place>,
    /// Output of ingress: `egress_port`.
    port: Option<Place>,
    /// Output of ingress: `class_of_service`.
    given_class: Option<Place>,
}

/// Numbers of field lists: metadata that a deparser sends.
#[derive(Debug)]
struct Lists {
    normal: u32,
    clone_i2e: u32,
    clone_e2e: u32,
    resubmit: u32,
    recirculate: u32,
}

/// Members of `PSA_PacketPath_t`.
mod path {
    pub const NORMAL: u64 = 0;
    pub const NORMAL_UNICAST: u64 = 1;
    pub const NORMAL_MULTICAST: u64 = 2;
    pub const CLONE_I2E: u64 = 3;
    pub const CLONE_E2E: u64 = 4;
    pub const RESUBMIT: u64 = 5;
    pub const RECIRCULATE: u64 = 6;
}

/// Ports of PSA that stand for no link; here they are numbers that no other port has.
const RECIRCULATE: u64 = 0xffff_fffa;
const CPU: u64 = 0xffff_fffd;
const RECIRCULATE_HERE: u16 = 0xfffa;

impl Psa {
    /// Finds the fields of a program.
    pub fn load(source: &json::Program, layout: &Layout, blocks: Blocks) -> Result<Psa, LoadError> {
        let known = |ty: &str, field: &str| place(layout, &format!("psa_{ty}_metadata_t.{field}"));
        let inputs = |field: &str, gress: &str| -> Result<[Option<Place>; 2], LoadError> {
            Ok([
                known(&format!("{gress}_parser_input"), field)?,
                known(&format!("{gress}_input"), field)?,
            ])
        };
        let outputs = |field: &str| -> Result<[Option<Place>; 2], LoadError> {
            Ok([
                known("ingress_output", field)?,
                known("egress_output", field)?,
            ])
        };
        let list = |name: &str| {
            let found = source.field_lists.iter().find(|list| list.name == name);
            found
                .map(|list| list.id)
                .ok_or_else(|| LoadError::missing("field list", name))
        };
        Ok(Psa {
            blocks,
            fields: Fields {
                ports: [
                    inputs("ingress_port", "ingress")?,
                    inputs("egress_port", "egress")?,
                ],
                paths: [
                    inputs("packet_path", "ingress")?,
                    inputs("packet_path", "egress")?,
                ],
                times: [
                    known("ingress_input", "ingress_timestamp")?,
                    known("egress_input", "egress_timestamp")?,
                ],
                errors: [
                    known("ingress_input", "parser_error")?,
                    known("egress_input", "parser_error")?,
                ],
                class: known("egress_input", "class_of_service")?,
                instance: known("egress_input", "instance")?,
                deparser_port: known("egress_deparser_input", "egress_port")?,
                clone: outputs("clone")?,
                session: outputs("clone_session_id")?,
                drop: outputs("drop")?,
                resubmit: known("ingress_output", "resubmit")?,
                group: known("ingress_output", "multicast_group")?,
                port: known("ingress_output", "egress_port")?,
                given_class: known("ingress_output", "class_of_service")?,
            },
            lists: Lists {
                normal: list("normal_meta")?,
                clone_i2e: list("clone_i2e_meta")?,
                clone_e2e: list("clone_e2e_meta")?,
                resubmit: list("resubmit_meta")?,
                recirculate: list("recirculate_meta")?,
            },
        })
    }
}

fn set(words: &mut [u64], places: &[Option<Place>], value: u64) {
    for place in places.iter().flatten() {
        place.set(words, value);
    }
}

fn get(words: &[u64], place: Option<Place>) -> u64 {
    place.map_or(0, |place| place.get(words))
}

/// Metadata that a deparser has filled, as it is kept for another pass.
fn sent(program: &Program, packet: &Packet, list: u32) -> Preserved {
    preserve(program, packet, list)
}

impl Pipeline {
    /// Ingress of PSA, from the parser to the deparser.
    pub(crate) fn psa_ingress(
        &mut self,
        now: Instant,
        frame: Vec<u8>,
        input: &IngressInput,
    ) -> IngressOutcome {
        let program = self.program.clone();
        let Some(Other::Psa(psa)) = &program.other else {
            unreachable!("the program is for PSA")
        };
        let fields = &psa.fields;
        let mut packet = self.state.pool.packet(&program.layout.initial, frame);
        packet.ingress_port = input.ingress_port;
        packet.packet_id = input.packet_id;
        packet.ingress_length = packet.frame.len() as u32;
        if let Some(preserved) = &input.preserved {
            restore(&program, &mut packet, preserved);
        }
        let (way, port) = match input.instance_type {
            instance_type::RESUBMITTED => (path::RESUBMIT, u64::from(input.ingress_port)),
            instance_type::RECIRCULATED => (path::RECIRCULATE, RECIRCULATE),
            _ => (path::NORMAL, u64::from(input.ingress_port)),
        };
        set(&mut packet.words, &fields.ports[0], port);
        set(&mut packet.words, &fields.paths[0], way);
        set(&mut packet.words, &fields.drop[..1], 1);
        let made_by_deparser = [psa.lists.normal, psa.lists.clone_i2e, psa.lists.resubmit];
        self.psa_pass(now, &mut packet, 0, (psa, &made_by_deparser));
        if let Some(reason) = packet.requests.failed {
            return IngressOutcome::dropped(self.drop_psa(packet, reason));
        }
        let digest = packet.requests.ask().digest.take();
        let digest = digest.and_then(|id| self.digest_of(&packet, id));
        let clone = (get(&packet.words, fields.clone[0]) != 0).then(|| {
            let original = packet.frame.clone();
            let session = get(&packet.words, fields.session[0]) as u32;
            let kind = (instance_type::INGRESS_CLONE, psa.lists.clone_i2e);
            self.psa_clone(session, &packet, original, kind, psa)
        });
        let verdict = if get(&packet.words, fields.drop[0]) != 0 {
            IngressVerdict::Dropped(self.drop_psa(packet, DropReason::IngressMarkToDrop))
        } else if get(&packet.words, fields.resubmit) != 0 {
            self.state.stats.resubmits += 1;
            IngressVerdict::Resubmit {
                preserved: sent(&program, &packet, psa.lists.resubmit),
                frame: self.state.pool.take_frame(packet),
            }
        } else {
            self.write_emitted(now, &mut packet);
            self.psa_destination(packet, fields)
        };
        IngressOutcome {
            clone: clone.flatten(),
            digest,
            verdict,
        }
    }

    /// Where a packet goes that ingress has not dropped: to a group, or to a port.
    fn psa_destination(&mut self, mut packet: Box<Packet>, fields: &Fields) -> IngressVerdict {
        let kind = self.program.standard.instance_type;
        let (group, port) = (
            get(&packet.words, fields.group),
            get(&packet.words, fields.port),
        );
        if group != 0 {
            kind.set(&mut packet.words, u64::from(instance_type::REPLICATION));
            return match u16::try_from(group) {
                Ok(group) => IngressVerdict::Multicast { group, packet },
                Err(_) => {
                    let replicas = Vec::new();
                    IngressVerdict::Copies { replicas, packet }
                }
            };
        }
        kind.set(&mut packet.words, u64::from(instance_type::NORMAL));
        let egress_spec = match port {
            RECIRCULATE => Some(RECIRCULATE_HERE),
            CPU => self.state.tofino.cpu_port,
            port => u16::try_from(port).ok().filter(|p| *p != RECIRCULATE_HERE),
        };
        match egress_spec {
            Some(egress_spec) => IngressVerdict::Unicast {
                egress_spec,
                priority: self.priority(&packet),
                packet,
            },
            None => IngressVerdict::Dropped(self.drop_psa(packet, DropReason::IngressMarkToDrop)),
        }
    }

    /// Egress of PSA, from the parser to the deparser.
    pub(crate) fn psa_egress(
        &mut self,
        now: Instant,
        packet: Box<Packet>,
        input: &EgressInput,
    ) -> EgressOutcome {
        let program = self.program.clone();
        let Some(Other::Psa(psa)) = &program.other else {
            unreachable!("the program is for PSA")
        };
        let (fields, lists) = (&psa.fields, &psa.lists);
        let kind = program.standard.instance_type.get(&packet.words) as u32;
        let (way, list) = match kind {
            instance_type::INGRESS_CLONE => (path::CLONE_I2E, lists.clone_i2e),
            instance_type::EGRESS_CLONE => (path::CLONE_E2E, lists.clone_e2e),
            instance_type::REPLICATION => (path::NORMAL_MULTICAST, lists.normal),
            _ => (path::NORMAL_UNICAST, lists.normal),
        };
        let came_with = sent(&program, &packet, list);
        let class = get(&packet.words, fields.given_class);
        let (ingress_port, id) = (packet.ingress_port, packet.packet_id);
        let frame = self.state.pool.take_frame(packet);
        let mut packet = self.state.pool.packet(&program.layout.initial, frame);
        (packet.ingress_port, packet.packet_id) = (ingress_port, id);
        packet.ingress_length = packet.frame.len() as u32;
        restore(&program, &mut packet, &came_with);
        let port = match input.egress_port {
            RECIRCULATE_HERE => RECIRCULATE,
            port if Some(port) == self.state.tofino.cpu_port => CPU,
            port => u64::from(port),
        };
        let words = &mut packet.words;
        set(words, &fields.ports[1], port);
        set(words, &[fields.deparser_port], port);
        set(words, &fields.paths[1], way);
        set(words, &[fields.class], class);
        set(words, &[fields.instance], u64::from(input.egress_rid));
        let made_by_deparser = [lists.clone_e2e, lists.recirculate];
        self.psa_pass(now, &mut packet, 1, (psa, &made_by_deparser));
        if let Some(reason) = packet.requests.failed {
            let verdict = EgressVerdict::Dropped(self.drop_psa(packet, reason));
            return EgressOutcome {
                clone: None,
                verdict,
            };
        }
        self.write_emitted(now, &mut packet);
        let clone = (get(&packet.words, fields.clone[1]) != 0).then(|| {
            let session = get(&packet.words, fields.session[1]) as u32;
            let kind = (instance_type::EGRESS_CLONE, lists.clone_e2e);
            let bytes = packet.frame.clone();
            self.psa_clone(session, &packet, bytes, kind, psa)
        });
        let verdict = if get(&packet.words, fields.drop[1]) != 0 {
            EgressVerdict::Dropped(self.drop_psa(packet, DropReason::EgressMarkToDrop))
        } else if input.egress_port == RECIRCULATE_HERE {
            self.state.stats.recirculates += 1;
            EgressVerdict::Recirculate {
                preserved: sent(&program, &packet, lists.recirculate),
                frame: self.state.pool.take_frame(packet),
            }
        } else {
            EgressVerdict::Transmit(self.state.pool.take_frame(packet))
        };
        EgressOutcome {
            clone: clone.flatten(),
            verdict,
        }
    }

    /// Parses a packet, and runs the control and the deparser of a gress. `lists` are what the deparser fills, which
    /// nothing is left in of what the parser was given.
    fn psa_pass(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        gress: usize,
        (psa, lists): (&Psa, &[u32]),
    ) {
        let program = self.program.clone();
        set(
            &mut packet.words,
            &[psa.fields.times[gress]],
            now.as_micros(),
        );
        self.state.tofino.emitted.clear();
        let mut error = program.errors.no_error;
        let mut machine = self.machine(packet, now);
        machine.interpret(|m| {
            error = m.parse_from(psa.blocks.parsers[gress]);
            set(
                &mut m.packet.words,
                &[psa.fields.errors[gress]],
                u64::from(error),
            );
            m.pipeline(psa.blocks.controls[gress]);
            m.end_control();
            for list in lists {
                clear(&program, m.packet, *list);
            }
            m.run(&psa.blocks.deparsers[gress], &[]);
        });
        if error != program.errors.no_error {
            self.state.stats.parser_error(error);
        }
    }

    /// A copy for a clone session, with the class of service of the session. None: there is no such session.
    fn psa_clone(
        &mut self,
        session: u32,
        packet: &Packet,
        mut bytes: Vec<u8>,
        (kind, list): (u32, u32),
        psa: &Psa,
    ) -> Option<CloneRequest> {
        let found = self.clone_session(session)?;
        let (most, class) = (found.packet_length_bytes as usize, found.class_of_service);
        self.state.stats.clones += 1;
        if most > 0 {
            bytes.truncate(most);
        }
        let program = self.program.clone();
        let mut copy = self.state.pool.packet(&program.layout.initial, bytes);
        copy.ingress_port = packet.ingress_port;
        copy.packet_id = packet.packet_id;
        restore(&program, &mut copy, &sent(&program, packet, list));
        program
            .standard
            .instance_type
            .set(&mut copy.words, u64::from(kind));
        set(&mut copy.words, &[psa.fields.given_class], u64::from(class));
        Some(CloneRequest {
            session,
            packet: copy,
        })
    }

    fn drop_psa(&mut self, packet: Box<Packet>, reason: DropReason) -> DropReason {
        self.state.pool.recycle(packet);
        self.state.stats.dropped(reason)
    }
}

/// Puts the fields of a list back to what they are in a new packet.
fn clear(program: &Program, packet: &mut Packet, list: u32) {
    let ranges = program.field_lists.get(&list).map(|list| &list.ranges[..]);
    for (at, words) in ranges.unwrap_or_default() {
        let range = *at as usize..(*at + *words) as usize;
        packet.words[range.clone()].copy_from_slice(&program.layout.initial[range]);
    }
}
