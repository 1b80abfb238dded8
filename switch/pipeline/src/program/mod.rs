//! A loaded program: everything that does not change while packets pass.

mod load;
mod tables;

use std::collections::HashMap;
use std::sync::Arc;

use ebb_bmv2_json as json;

use crate::action::{Action, Primitive};
use crate::bits::low_mask;
use crate::calculation::Calculation;
use crate::error::LoadError;
use crate::expr::Condition;
use crate::hash::Algorithm;
use crate::layout::{Layout, Slot};
use crate::native::Native;
use crate::parser::{ErrorCodes, Parser};
use crate::state::Blueprint;
use crate::trace::Source;
use load::load;

/// A compiled program. It does not change, and any number of switches share it:
/// [`Pipeline::new`](crate::Pipeline::new).
#[derive(Debug)]
pub struct Program {
    pub(crate) layout: Layout,
    pub(crate) standard: StandardMetadata,
    pub(crate) errors: ErrorCodes,
    pub(crate) error_names: HashMap<u32, String>,
    pub(crate) actions: Vec<Action>,
    pub(crate) calculations: Vec<Calculation>,
    /// One for every calculation.
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) parser: Parser,
    pub(crate) verify: Vec<Checksum>,
    pub(crate) update: Vec<Checksum>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) ingress: Next,
    pub(crate) egress: Next,
    /// Headers in the order in which they are emitted.
    pub(crate) emit: Vec<Emit>,
    pub(crate) deparser_calls: Vec<Primitive>,
    pub(crate) field_lists: HashMap<u32, FieldList>,
    pub(crate) digests: Vec<DigestSpec>,
    pub(crate) table_names: HashMap<String, u32>,
    pub(crate) value_set_names: HashMap<String, u32>,
    pub(crate) names: crate::action::Names,
    pub(crate) blueprint: Blueprint,
    /// The same as native code.
    pub(crate) native: Option<Native>,
}

impl Program {
    /// Compiles a BMv2 JSON program, to native code where there is a code generator for the machine.
    pub fn load(program: &json::Program) -> Result<Arc<Program>, LoadError> {
        let mut program = load(program, true)?;
        program.native = Native::compile(&program);
        Ok(Arc::new(program))
    }

    /// The same without native code: slower, and with the same results.
    pub fn load_interpreted(program: &json::Program) -> Result<Arc<Program>, LoadError> {
        Ok(Arc::new(load(program, true)?))
    }

    /// The oracle of the tests: big integers, fields and keys bit by bit, every table looked up.
    pub fn load_plain(program: &json::Program) -> Result<Arc<Program>, LoadError> {
        Ok(Arc::new(load(program, false)?))
    }
}

/// What the deparser has to know of every header, valid or not.
#[derive(Debug)]
pub(crate) struct Emit {
    pub header: u32,
    pub valid_at: u32,
    pub fixed_bits: u32,
    /// Word with the current width of the variable-length field.
    pub length_at: Option<u32>,
}

impl Emit {
    pub fn new(layout: &Layout, header: u32) -> Emit {
        let h = layout.header_at(header);
        Emit {
            header,
            valid_at: h.valid_at,
            fixed_bits: h.fixed_bits,
            length_at: h.variable.and_then(|f| h.fields[f as usize].length_at),
        }
    }

    #[inline]
    pub fn is_valid(&self, words: &[u64]) -> bool {
        words[self.valid_at as usize] != 0
    }

    #[inline]
    pub fn bits(&self, words: &[u64]) -> usize {
        let variable = self.length_at.map_or(0, |at| words[at as usize] as usize);
        self.fixed_bits as usize + variable
    }
}

/// The next node of a pipeline; `None` is its end.
pub(crate) type Next = Option<u32>;

#[derive(Debug)]
pub(crate) enum Node {
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

#[derive(Debug)]
pub(crate) struct TableNode {
    pub table: u32,
    /// Next by action.
    pub by_action: Vec<(u32, Next)>,
    /// Instead, next by hit and by miss.
    pub by_hit: Option<(Next, Next)>,
    /// After a miss without a default action.
    pub base: Next,
}

impl TableNode {
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

#[derive(Debug)]
pub(crate) struct Checksum {
    pub target: Slot,
    pub target_valid_at: u32,
    pub calculation: u32,
    pub condition: Option<Condition>,
}

/// Words to carry over, as ranges.
#[derive(Debug, Default)]
pub(crate) struct FieldList {
    pub ranges: Vec<(u32, u32)>,
}

#[derive(Debug)]
pub(crate) struct DigestSpec {
    pub name: String,
    pub id: u32,
    pub fields: Vec<Slot>,
}

/// The fields of `standard_metadata_t` that the target reads and writes. Those that older programs
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

/// A field of one word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub at: u32,
    pub mask: u64,
}

impl Place {
    /// `name` is the field's, for the error if it is too wide.
    pub fn of(name: &str, slot: Slot) -> Result<Place, LoadError> {
        match slot {
            Slot {
                at, words: 1, bits, ..
            } => Ok(Place {
                at,
                mask: low_mask(bits),
            }),
            _ => Err(LoadError::new(
                name,
                format!("it has {} bits, v1model's has at most 64", slot.bits),
            )),
        }
    }

    #[inline]
    pub fn set(self, words: &mut [u64], value: u64) {
        words[self.at as usize] = value & self.mask;
    }

    #[inline]
    pub fn get(self, words: &[u64]) -> u64 {
        words[self.at as usize]
    }
}

impl StandardMetadata {
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
        // p4c announces these under the P4_14 names, as aliases.
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
