//! Packets between the passes of a switch.

use ebb_pipeline::{IngressInput, Journey};

/// Most passes that one packet may owe to resubmission, recirculation, cloning and deflection, all
/// together.
pub const MAX_PASSES: u8 = 64;

/// A packet before ingress.
pub(super) struct Entering {
    /// The bytes of the packet.
    pub(super) frame: Vec<u8>,
    /// All else that ingress must know of it.
    pub(super) input: IngressInput,
    /// Its way so far.
    pub(super) journey: Journey,
}

impl Entering {
    /// A packet with this v1model's `instance_type`, which says why it enters. It was not deflected
    /// and keeps no user metadata from its last pass.
    pub(super) fn new(frame: Vec<u8>, journey: Journey, instance_type: u32) -> Self {
        Self {
            frame,
            input: Self::input(&journey, instance_type),
            journey,
        }
    }

    /// All that ingress must know of such a packet but its bytes.
    #[inline]
    pub(super) fn input(journey: &Journey, instance_type: u32) -> IngressInput {
        IngressInput {
            ingress_port: journey.ingress_port,
            packet_id: journey.packet_id,
            instance_type,
            preserved: None,
            deflect: None,
        }
    }
}
