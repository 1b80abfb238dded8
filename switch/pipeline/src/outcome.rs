//! What goes into the ingress and egress pipelines and what comes out, as
//! behavioral-model's `docs/simple_switch.md` orders it.

use ebb_units::{Duration, Instant};

use crate::ids::DigestId;
use crate::packet::{Packet, Preserved};

/// Values of `standard_metadata.instance_type`.
pub mod instance_type {
    pub const NORMAL: u32 = 0;
    pub const INGRESS_CLONE: u32 = 1;
    pub const EGRESS_CLONE: u32 = 2;
    /// Reserved by BMv2.
    pub const COALESCED: u32 = 3;
    pub const RECIRCULATED: u32 = 4;
    pub const REPLICATION: u32 = 5;
    pub const RESUBMITTED: u32 = 6;
    /// Ours: the traffic manager had no room and hands the packet back to ingress.
    pub const DEFLECTED: u32 = 7;
}

/// What a frame brings to ingress besides its bytes.
#[derive(Clone, Debug, Default)]
pub struct IngressInput {
    pub ingress_port: u16,
    /// Only for tracing; copied to clones and replicas.
    pub packet_id: u64,
    /// See [`instance_type`].
    pub instance_type: u32,
    /// What a resubmit or recirculate carried over.
    pub preserved: Option<Preserved>,
    /// Set together with [`instance_type::DEFLECTED`].
    pub deflect: Option<Deflect>,
}

/// Why the traffic manager deflected a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deflect {
    /// The port it could not be queued for.
    pub egress_port: u16,
    /// Depth of that queue, in the unit the switch is configured for.
    pub enq_qdepth: u32,
}

/// Everything that happens after ingress. The clone and the digest come first, then the verdict.
#[derive(Debug)]
pub struct IngressOutcome {
    pub clone: Option<CloneRequest>,
    pub digest: Option<Digest>,
    pub verdict: IngressVerdict,
}

#[derive(Debug)]
pub enum IngressVerdict {
    /// The frame as it came, to be given to ingress again with
    /// [`instance_type::RESUBMITTED`] and what is preserved.
    Resubmit {
        frame: Vec<u8>,
        preserved: Preserved,
    },
    /// One replica for each of [`Pipeline::multicast_replicas`](crate::Pipeline::multicast_replicas).
    /// `instance_type` is already [`instance_type::REPLICATION`].
    Multicast {
        group: u16,
        packet: Box<Packet>,
    },
    Unicast {
        egress_spec: u16,
        priority: u8,
        packet: Box<Packet>,
    },
    Dropped(DropReason),
}

/// A copy for every replica of a clone session. The packet is ready for egress: an
/// ingress-to-egress clone is the frame as it came, parsed again; an egress-to-egress clone is the
/// packet as it left egress.
#[derive(Debug)]
pub struct CloneRequest {
    pub session: u32,
    pub packet: Box<Packet>,
}

/// A message for the control plane: the fields of a learn list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    pub digest: DigestId,
    /// Big-endian, as many bytes as the field needs.
    pub values: Vec<Vec<u8>>,
}

/// What the queue adds to the packet's metadata.
#[derive(Clone, Copy, Debug, Default)]
pub struct EgressInput {
    pub egress_port: u16,
    /// The replica's instance number; 0 for unicast.
    pub egress_rid: u16,
    /// `None`: as the packet has it (what ingress or the clone set).
    pub instance_type: Option<u32>,
    pub queue_id: u8,
    pub enq_timestamp: Instant,
    pub enq_qdepth: u32,
    pub deq_timedelta: Duration,
    pub deq_qdepth: u32,
}

#[derive(Debug)]
pub struct EgressOutcome {
    pub clone: Option<CloneRequest>,
    pub verdict: EgressVerdict,
}

#[derive(Debug)]
pub enum EgressVerdict {
    Transmit(Vec<u8>),
    /// Give the frame to ingress with [`instance_type::RECIRCULATED`] and what is preserved.
    Recirculate {
        frame: Vec<u8>,
        preserved: Preserved,
    },
    Dropped(DropReason),
}

/// Why the pipeline itself dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropReason {
    /// `egress_spec` was the drop port after ingress.
    IngressMarkToDrop,
    /// `egress_spec` was the drop port after egress.
    EgressMarkToDrop,
    /// An `assert` was false.
    AssertFailed,
    /// An `assume` was false.
    AssumeFailed,
    /// The parser did not end, or an action jumped without end.
    NoTermination,
    /// A panic of the pipeline itself, which is a bug; what it said is on stderr.
    InternalError,
}

impl DropReason {
    pub const ALL: [DropReason; 6] = [
        DropReason::IngressMarkToDrop,
        DropReason::EgressMarkToDrop,
        DropReason::AssertFailed,
        DropReason::AssumeFailed,
        DropReason::NoTermination,
        DropReason::InternalError,
    ];

    pub fn name(self) -> &'static str {
        match self {
            DropReason::IngressMarkToDrop => "ingress-mark-to-drop",
            DropReason::EgressMarkToDrop => "egress-mark-to-drop",
            DropReason::AssertFailed => "assert-failed",
            DropReason::AssumeFailed => "assume-failed",
            DropReason::NoTermination => "no-termination",
            DropReason::InternalError => "internal-error",
        }
    }
}
