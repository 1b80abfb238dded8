//! Packets between the passes of a switch, and what is remembered of them.

use ebb_pipeline::{Deflect, Packet, Preserved, instance_type};
use ebb_traffic_manager::PortId;

use super::lineage::Lineage;
use crate::trace::Watches;

/// Most passes that one packet may owe to resubmission, recirculation, cloning and deflection, all
/// together.
pub const MAX_PASSES: u8 = 64;

/// A packet between ingress and egress.
#[derive(Debug)]
pub(super) struct Queued {
    /// The packet with its headers and metadata.
    pub(super) packet: Box<Packet>,
    /// v1model's `egress_rid`: the number of the copy, 0 if it is none.
    pub(super) egress_rid: u16,
    /// Its way so far.
    pub(super) journey: Journey,
}

/// The way of a packet, across its passes.
#[derive(Clone, Debug)]
pub(super) struct Journey {
    /// The port it came in at.
    pub(super) ingress_port: PortId,
    /// Its number, counted from 1 in the order of arrival at the switch; copies share it.
    pub(super) packet_id: u64,
    /// Passes it owes to resubmission, recirculation, cloning and deflection.
    pub(super) passes: u8,
    /// How often it has been deflected; a recirculation starts anew.
    pub(super) deflections: u8,
    /// The watches that trace it.
    pub(super) watches: Watches,
    /// The copies made of it and its relatives.
    pub(super) lineage: Lineage,
}

impl Journey {
    /// The way of this packet, or of a copy, in its next pass.
    pub(super) fn next_pass(self) -> Self {
        Self {
            passes: self.passes + 1,
            ..self
        }
    }

    /// Whether another copy of this packet may be made. If so, it is counted.
    pub(super) fn may_copy(&mut self) -> bool {
        self.passes == 0 || self.lineage.take_copy()
    }
}

/// A packet before ingress.
pub(super) struct Entering {
    /// The bytes of the packet.
    pub(super) frame: Vec<u8>,
    /// v1model's `instance_type`: why it enters.
    pub(super) instance_type: u32,
    /// User metadata that it keeps from its last pass; `None` if it is new.
    pub(super) preserved: Option<Preserved>,
    /// Place of its deflection; `None` if it was not deflected.
    pub(super) deflect: Option<Deflect>,
    /// Its way so far.
    pub(super) journey: Journey,
}

impl Entering {
    /// A new packet.
    pub(super) fn new(frame: Vec<u8>, journey: Journey) -> Self {
        Self {
            frame,
            instance_type: instance_type::NORMAL,
            preserved: None,
            deflect: None,
            journey,
        }
    }
}
