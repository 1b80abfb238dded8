//! Arguments and outcomes of the ingress and egress pipelines, as behavioral-model's
//! `docs/simple_switch.md` describes it.

use ebb_units::{Duration, Instant};

use crate::control::Replica;
use crate::drop_reason::DropReason;
use crate::ids::DigestId;
use crate::packet::{Packet, Preserved};

/// Values of v1model's `standard_metadata.instance_type`: why a packet is in the pipeline.
pub mod instance_type {
    /// It came from outside.
    pub const NORMAL: u32 = 0;
    /// It is a clone made by ingress.
    pub const INGRESS_CLONE: u32 = 1;
    /// It is a clone made by egress.
    pub const EGRESS_CLONE: u32 = 2;
    /// It was recirculated after egress.
    pub const RECIRCULATED: u32 = 4;
    /// It is a replica of a multicast packet.
    pub const REPLICATION: u32 = 5;
    /// It was resubmitted after ingress.
    pub const RESUBMITTED: u32 = 6;
    /// The traffic manager had no room and hands it back to ingress; BMv2 has no such value.
    pub const DEFLECTED: u32 = 7;
}

/// Facts about a frame that ingress must know besides its bytes.
#[derive(Clone, Debug, Default)]
pub struct IngressInput {
    /// The port at which it came in.
    pub ingress_port: u16,
    /// Its number, for tracing only; clones and replicas have the same.
    pub packet_id: u64,
    /// Why it enters; see [`instance_type`].
    pub instance_type: u32,
    /// Fields that a resubmit or recirculation preserved; `None` for other packets.
    pub preserved: Option<Preserved>,
    /// Why it was deflected; `None` unless `instance_type` is [`instance_type::DEFLECTED`].
    pub deflect: Option<Deflect>,
}

/// The circumstances in which the traffic manager deflected a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deflect {
    /// The port for which it could not be queued.
    pub egress_port: u16,
    /// Depth of its queue there, in the unit that the switch is configured for.
    pub enq_qdepth: u32,
}

/// Everything that follows from ingress. The clone and the digest come first, then the verdict.
#[derive(Debug)]
pub struct IngressOutcome {
    /// A clone to make; `None` if the program asked for none.
    pub clone: Option<CloneRequest>,
    /// A message to send; `None` if the program asked for none.
    pub digest: Option<Digest>,
    /// Fate of the packet.
    pub verdict: IngressVerdict,
}

/// Fate of a packet after ingress.
#[derive(Debug)]
pub enum IngressVerdict {
    /// The frame, as it came, goes to ingress again, with [`instance_type::RESUBMITTED`] and what
    /// is preserved.
    Resubmit {
        /// The frame as it came.
        frame: Vec<u8>,
        /// Fields that the program preserves.
        preserved: Preserved,
    },
    /// One replica goes to each of
    /// [`Pipeline::multicast_replicas`](crate::Pipeline::multicast_replicas). `instance_type` is
    /// [`instance_type::REPLICATION`] already.
    Multicast {
        /// Number of the group.
        group: u16,
        /// The packet after ingress.
        packet: Box<Packet>,
    },
    /// A copy of the packet, which may be several at one port, goes to each of these. Only Tofino says so, where a
    /// packet may go to a port and to two groups.
    Copies {
        /// The copies. Empty: none is left.
        replicas: Vec<Replica>,
        /// The packet after ingress.
        packet: Box<Packet>,
    },
    /// The packet goes to one port.
    Unicast {
        /// Output port.
        egress_spec: u16,
        /// Queue, or v1model's `priority`.
        priority: u8,
        /// The packet after ingress.
        packet: Box<Packet>,
    },
    /// The packet is dropped.
    Dropped(DropReason),
}

impl IngressVerdict {
    /// The outcome of a packet that asks for nothing else.
    #[inline]
    pub(crate) fn alone(self) -> IngressOutcome {
        IngressOutcome {
            clone: None,
            digest: None,
            verdict: self,
        }
    }
}

/// A request to send a copy to every replica of a clone session. The packet is ready for egress:
/// the frame as it came, parsed again, if ingress cloned it; the packet as it left egress, if
/// egress did.
#[derive(Debug)]
pub struct CloneRequest {
    /// The clone session.
    pub session: u32,
    /// The packet.
    pub packet: Box<Packet>,
}

/// Advanced flow control: a program for Tofino 2 stops a queue or lets it resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePause {
    /// The port that the queue is of.
    pub port: u16,
    /// Its number, 0 to 15.
    pub queue: u8,
    /// Whether it is to stop; otherwise it resumes.
    pub paused: bool,
}

/// A message for the control plane: the values of a learn list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The learn list.
    pub digest: DigestId,
    /// The values, each big-endian, with as many bytes as the field needs.
    pub values: Vec<Vec<u8>>,
}

/// Times and depths of a packet's queue when it leaves that, for its metadata.
#[derive(Clone, Copy, Debug, Default)]
pub struct EgressInput {
    /// The port it leaves by.
    pub egress_port: u16,
    /// The number of the replica; 0 for unicast packets.
    pub egress_rid: u16,
    /// Value of `instance_type`; `None` leaves the one that ingress or the clone has set.
    pub instance_type: Option<u32>,
    /// The queue it was in.
    pub queue_id: u8,
    /// When it was queued.
    pub enq_timestamp: Instant,
    /// Depth of the queue at that time, without the packet.
    pub enq_qdepth: u32,
    /// How long it was queued.
    pub deq_timedelta: Duration,
    /// Depth of the queue that it leaves behind.
    pub deq_qdepth: u32,
    /// How full the queue was at these two times, from 0 to 3. Only programs for Tofino see it.
    pub congestion: [u8; 2],
}

/// Everything that follows from egress. The clone comes first, then the verdict.
#[derive(Debug)]
pub struct EgressOutcome {
    /// A clone to make; `None` if the program asked for none.
    pub clone: Option<CloneRequest>,
    /// Fate of the packet.
    pub verdict: EgressVerdict,
}

/// Fate of a packet after egress.
#[derive(Debug)]
pub enum EgressVerdict {
    /// The frame goes onto the link.
    Transmit(Vec<u8>),
    /// The frame goes to ingress, with [`instance_type::RECIRCULATED`] and what is preserved.
    Recirculate {
        /// The frame after the deparser.
        frame: Vec<u8>,
        /// Fields that the program preserves.
        preserved: Preserved,
    },
    /// The packet is dropped.
    Dropped(DropReason),
}

impl EgressVerdict {
    /// The outcome of a packet that asks for nothing else.
    #[inline]
    pub(crate) fn alone(self) -> EgressOutcome {
        EgressOutcome {
            clone: None,
            verdict: self,
        }
    }
}
