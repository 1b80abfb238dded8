//! A loaded program: everything that does not change while packets pass.

mod actions;
mod architecture;
mod arrays;
mod follower;
mod load;
mod reads;
mod tables;
mod usage;
mod written;

use std::collections::HashMap;
use std::sync::Arc;

use ebb_bmv2_json as json;

use crate::action::{Action, Primitive};
use crate::calculation::{Calculation, Input};
use crate::dynamic_hash::Configurable;
use crate::error::LoadError;
use crate::expr::Condition;
use crate::hash::Algorithm;
use crate::layout::{Field, Layout};
use crate::names::Names;
use crate::native::Native;
use crate::parser::{ErrorCodes, Parser};
use crate::psa::Psa;
use crate::slot::{Place, Slot};
use crate::state::Blueprint;
use crate::table::TableSpec;
use crate::tofino::Tofino;
use crate::trace::Source;
pub(crate) use actions::ActionCompiler;
use load::load;
pub(crate) use usage::Usage;

/// A compiled program. It does not change, and any number of switches can share it; see
/// [`Pipeline::new`](crate::Pipeline::new).
#[derive(Debug)]
pub struct Program {
    /// Where headers and fields lie in a packet.
    pub(crate) layout: Layout,
    /// The standard metadata.
    pub(crate) standard: StandardMetadata,
    /// Codes of the parser's own errors.
    pub(crate) errors: ErrorCodes,
    /// Names of the P4 errors by code.
    pub(crate) error_names: HashMap<u32, String>,
    /// The actions.
    pub(crate) actions: Vec<Action>,
    /// The calculations.
    pub(crate) calculations: Vec<Calculation>,
    /// The algorithm of each calculation.
    pub(crate) algorithms: Vec<Algorithm>,
    /// Hashes that the control plane can set at run time.
    pub(crate) hashes: Vec<Configurable>,
    /// The parser.
    pub(crate) parser: Parser,
    /// The checksums to verify.
    pub(crate) verify: Vec<Checksum>,
    /// The checksums to update.
    pub(crate) update: Vec<Checksum>,
    /// The nodes of both pipelines.
    pub(crate) nodes: Vec<Node>,
    /// Where ingress starts.
    pub(crate) ingress: Next,
    /// Where egress starts.
    pub(crate) egress: Next,
    /// The headers in the order in which the deparser emits them.
    pub(crate) emit: Vec<Emit>,
    /// Primitives that the deparser runs first.
    pub(crate) deparser_calls: Vec<Primitive>,
    /// Field lists by number.
    pub(crate) field_lists: HashMap<u32, FieldList>,
    /// The learn lists.
    pub(crate) digests: Vec<DigestSpec>,
    /// Numbers of tables by name.
    pub(crate) table_names: HashMap<String, u32>,
    /// Numbers of value sets by name.
    pub(crate) value_set_names: HashMap<String, u32>,
    /// Arrays and calculations by name.
    pub(crate) names: Names,
    /// State that every switch with this program starts with.
    pub(crate) blueprint: Blueprint,
    /// Its second parser and its deparsers, if it is for another architecture; `None` for v1model.
    pub(crate) other: Option<Other>,
    /// Names of its pipelines, if it is for Tofino and has several.
    pub(crate) pipe_names: Vec<String>,
    /// Words that it reads and writes; empty without native code, which alone makes use of it.
    pub(crate) usage: Usage,
    /// The program as native code; `None` if there is no code generator for the machine, or if it
    /// is not wanted.
    pub(crate) native: Option<Native>,
}

impl Program {
    /// Compiles a BMv2 JSON program, to native code where there is a code generator for the
    /// machine.
    pub fn load(program: &json::Program) -> Result<Arc<Program>, LoadError> {
        let mut program = load(program, true)?;
        program.usage = match &program.other {
            None => Usage::of(&program),
            Some(Other::Tofino(tofino)) => {
                let halves = tofino.pipes.iter().flat_map(|blocks| {
                    [0, 1].map(|gress| follower::Half {
                        parser: blocks.parsers[gress],
                        control: blocks.controls[gress],
                        deparser: &blocks.deparsers[gress],
                    })
                });
                Usage::of_tofino(&program, tofino.places(), halves)
            }
            Some(Other::Psa(_)) => Usage::all(&program),
        };
        // Programs for PSA are interpreted.
        if !matches!(program.other, Some(Other::Psa(_))) {
            program.native = Native::compile(&program);
        }
        Ok(Arc::new(program))
    }

    /// Whether an action of a table needs to know which entry was hit.
    pub(crate) fn notes_entry(&self, table: &TableSpec) -> bool {
        let needs = |action: &Action| action.body.iter().any(Primitive::needs_entry);
        match table.profile {
            // Members of a shared profile may have actions that the table does not list.
            Some(_) => self.actions.iter().any(needs),
            None => table
                .actions
                .iter()
                .any(|action| needs(&self.actions[action.index()])),
        }
    }

    /// Compiles a program without native code: it is slower, with the same results.
    pub fn load_interpreted(program: &json::Program) -> Result<Arc<Program>, LoadError> {
        Ok(Arc::new(load(program, true)?))
    }

    /// Compiles a program as the oracle of the tests: with big integers, bit by bit, and a lookup
    /// in every table.
    pub fn load_plain(program: &json::Program) -> Result<Arc<Program>, LoadError> {
        Ok(Arc::new(load(program, false)?))
    }
}

/// Parts of a program for another architecture than v1model.
#[derive(Debug)]
pub(crate) enum Other {
    Tofino(Box<Tofino>),
    Psa(Box<Psa>),
}

impl Program {
    /// Its parts for Tofino; `None` for other architectures.
    pub(crate) fn tofino(&self) -> Option<&Tofino> {
        match &self.other {
            Some(Other::Tofino(tofino)) => Some(tofino),
            _ => None,
        }
    }
}

/// Facts about a header that the deparser must know, whether valid or not.
#[derive(Debug)]
pub(crate) struct Emit {
    /// Number of the header.
    pub header: u32,
    /// Word with its validity: 1 or 0.
    pub valid_at: u32,
    /// Width in bits, without the variable-length field.
    pub fixed_bits: u32,
    /// Word with the current width of the variable-length field; `None` if there is none.
    pub length_at: Option<u32>,
}

impl Emit {
    /// Facts about a header that the deparser must know.
    pub fn new(layout: &Layout, header: u32) -> Emit {
        let h = layout.header_at(header);
        Emit {
            header,
            valid_at: h.valid_at,
            fixed_bits: h.fixed_bits,
            length_at: h.variable.and_then(|f| h.fields[f as usize].length_at),
        }
    }

    /// Whether the header is valid in the packet.
    #[inline]
    pub fn is_valid(&self, words: &[u64]) -> bool {
        words[self.valid_at as usize] != 0
    }

    /// Current width in the packet, in bits.
    #[inline]
    pub fn bits(&self, words: &[u64]) -> usize {
        let variable = self.length_at.map_or(0, |at| words[at as usize] as usize);
        self.fixed_bits as usize + variable
    }
}

/// The next node of a pipeline; `None` is its end.
pub(crate) type Next = Option<u32>;

/// A node of a pipeline.
#[derive(Debug)]
pub(crate) enum Node {
    /// A table.
    Table(TableNode),
    Condition {
        source: Source,
        condition: Condition,
        then: Next,
        otherwise: Next,
    },
    Call {
        action: u32,
        next: Next,
    },
}

/// A table as a node: where a packet goes after it.
#[derive(Debug)]
pub(crate) struct TableNode {
    /// Number of the table.
    pub table: u32,
    /// The next node for each action.
    pub by_action: Vec<(u32, Next)>,
    /// The next nodes after a hit and after a miss, where that decides instead of the action.
    pub by_hit: Option<(Next, Next)>,
    /// The next node after a miss without a default action.
    pub base: Next,
}

impl TableNode {
    /// The node that follows.
    #[inline]
    pub fn next(&self, hit: bool, action: Option<u32>) -> Next {
        match (self.by_hit, action) {
            (Some((next, _)), _) if hit => next,
            (Some((_, next)), _) => next,
            (None, Some(action)) => self
                .by_action
                .iter()
                .find(|(a, _)| *a == action)
                .map_or(self.base, |(_, next)| *next),
            (None, None) => self.base,
        }
    }
}

/// A checksum of a header field.
#[derive(Debug)]
pub(crate) struct Checksum {
    /// The field.
    pub target: Slot,
    /// Word with its header's validity.
    pub target_valid_at: u32,
    /// The calculation of its value.
    pub calculation: u32,
    /// When it applies; `None` means always.
    pub condition: Option<Condition>,
    /// Where it lies, if it is the Internet checksum of its own header and applies whenever that is valid.
    pub own: Option<OwnChecksum>,
}

/// The Internet checksum of all fields of a header but itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnChecksum {
    /// Number of the header.
    pub header: u32,
    /// Its first byte there.
    pub byte: u32,
}

impl OwnChecksum {
    /// `None` if the checksum of a field has other inputs, or does not lie in two bytes of its own.
    fn of(layout: &Layout, header: u32, target: Slot, inputs: &[Input]) -> Option<OwnChecksum> {
        let h = layout.header_at(header);
        let fields = h.fields.iter();
        let others = fields.clone().filter(|field| field.slot != target);
        let is_input = |(field, input): (&Field, &Input)| match input {
            Input::Field(slot, valid_at, length_at) => {
                (*slot, *valid_at, *length_at) == (field.slot, h.valid_at, field.length_at)
            }
            _ => false,
        };
        let same = others.clone().count() == inputs.len() && others.zip(inputs).all(is_input);
        let before = fields.clone().take_while(|field| field.slot != target);
        let is_last = |field: &Field| field.length_at.is_none();
        let fixed = h.fields.iter().rev().skip(1).all(is_last);
        let bit: u32 = before.map(|field| field.slot.bits).sum();
        (same && fixed && h.home_at.is_some() && target.bits == 16 && bit.is_multiple_of(16))
            .then_some(OwnChecksum {
                header,
                byte: bit / 8,
            })
    }
}

/// The metadata to carry over to another pass.
#[derive(Debug, Default)]
pub(crate) struct FieldList {
    /// Its words, as pairs of first word and length.
    pub ranges: Vec<(u32, u32)>,
}

/// A learn list.
#[derive(Debug)]
pub(crate) struct DigestSpec {
    /// Its name in P4.
    pub name: String,
    /// Its number in the JSON file.
    pub id: u32,
    /// Its fields.
    pub fields: Vec<Slot>,
}

/// The fields of `standard_metadata_t` that the target reads and writes. Fields that older programs
/// lack are optional, as on BMv2.
#[derive(Debug)]
pub(crate) struct StandardMetadata {
    pub ingress_port: Place,
    pub egress_spec: Place,
    pub egress_port: Place,
    pub instance_type: Place,
    pub packet_length: Place,
    pub mcast_grp: Option<Place>,
    pub egress_rid: Option<Place>,
    pub priority: Option<Place>,
    pub parser_error: Option<Place>,
    pub checksum_error: Option<Place>,
    pub ingress_global_timestamp: Option<Place>,
    pub egress_global_timestamp: Option<Place>,
    pub enq_timestamp: Option<Place>,
    pub enq_qdepth: Option<Place>,
    pub deq_timedelta: Option<Place>,
    pub deq_qdepth: Option<Place>,
    pub qid: Option<Place>,
}

impl StandardMetadata {
    /// The fields that the program has.
    fn places(&self) -> impl Iterator<Item = Place> {
        let required = [
            self.ingress_port,
            self.egress_spec,
            self.egress_port,
            self.instance_type,
            self.packet_length,
        ];
        let others = [
            self.mcast_grp,
            self.egress_rid,
            self.priority,
            self.parser_error,
            self.checksum_error,
            self.ingress_global_timestamp,
            self.egress_global_timestamp,
            self.enq_timestamp,
            self.enq_qdepth,
            self.deq_timedelta,
            self.deq_qdepth,
            self.qid,
        ];
        required.into_iter().chain(others.into_iter().flatten())
    }

    fn load(layout: &Layout) -> Result<StandardMetadata, LoadError> {
        let known = |name: &str| {
            let slot = layout.known(name);
            slot.map(|slot| Place::of(name, slot)).transpose()
        };
        let standard = |field: &str| known(&format!("standard_metadata.{field}"));
        let required = |field: &str| {
            standard(field)?.ok_or_else(|| {
                LoadError::new(
                    format!("standard_metadata.{field}"),
                    "the program does not have it; is it written for v1model?",
                )
            })
        };
        // p4c announces these by their P4_14 names, as aliases.
        let alias = |header: &str, field: &str| match known(&format!("{header}.{field}"))? {
            None => standard(field),
            place => Ok(place),
        };
        let intrinsic = |field: &str| alias("intrinsic_metadata", field);
        let queueing = |field: &str| alias("queueing_metadata", field);
        Ok(StandardMetadata {
            ingress_port: required("ingress_port")?,
            egress_spec: required("egress_spec")?,
            egress_port: required("egress_port")?,
            instance_type: required("instance_type")?,
            packet_length: required("packet_length")?,
            mcast_grp: intrinsic("mcast_grp")?,
            egress_rid: intrinsic("egress_rid")?,
            priority: intrinsic("priority")?,
            parser_error: standard("parser_error")?,
            checksum_error: standard("checksum_error")?,
            ingress_global_timestamp: intrinsic("ingress_global_timestamp")?,
            egress_global_timestamp: intrinsic("egress_global_timestamp")?,
            enq_timestamp: queueing("enq_timestamp")?,
            enq_qdepth: queueing("enq_qdepth")?,
            deq_timedelta: queueing("deq_timedelta")?,
            deq_qdepth: queueing("deq_qdepth")?,
            qid: queueing("qid")?,
        })
    }
}
