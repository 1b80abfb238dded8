//! Packets that were lost outside the traffic manager and the pipeline, and where.

use std::collections::BTreeMap;
use std::fmt;

use ebb_traffic_manager::Count;
use serde::Serialize;

/// Why a packet was dropped, other than by the pipeline or the traffic manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropReason {
    /// The switch has no P4 program yet. It counts at the ingress port.
    NoProgram,
    /// The multicast group does not exist or has no member. It counts at the ingress port.
    NoReplica,
    /// The packet was resubmitted, recirculated, cloned or deflected too often. It counts at the
    /// ingress port.
    PassLimit,
    /// Too many copies were made of one packet that went round. It counts at the ingress port.
    CopyLimit,
    /// The egress port has neither an interface nor a link.
    NoSuchPort,
    /// The interface is down or does not exist any more.
    PortDown,
    /// The queueing discipline of the interface dropped the frame, or the frame still waited for
    /// room there at the end.
    InterfaceBusy,
    /// The frame is longer than the interface accepts, or than the switch receives.
    FrameTooLong,
    /// The frame is too short to be sent.
    FrameTooShort,
    /// The receive buffer of the kernel was full: the switch did not get enough CPU time.
    KernelDrop,
    /// The link behind the port is down. For a link from a host this counts at the switch port at
    /// its end.
    LinkDown,
    /// The link behind the port lost the frame. For a link from a host this counts at the switch
    /// port at its end.
    LinkLoss,
    /// The link behind the port flipped a bit of the frame, which went on: this is no drop. For a
    /// link from a host it counts at the switch port at its end.
    LinkCorrupt,
    /// The frame is a MAC control frame (IEEE 802.3, clause 31) that the port has no use for: its
    /// opcode or its address is not that of PFC, such as PAUSE, or no queue of the port is lossless.
    MacControlIgnored,
    /// The frame is a MAC control frame that is too short or too long, or a PFC frame that names no
    /// class.
    MacControlMalformed,
    /// The controller did not take packet-ins fast enough, or there is no controller.
    NoController,
}

impl DropReason {
    /// The name of the reason in statistics and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            DropReason::NoProgram => "no-program",
            DropReason::NoReplica => "no-replica",
            DropReason::PassLimit => "pass-limit",
            DropReason::CopyLimit => "copy-limit",
            DropReason::NoSuchPort => "no-such-port",
            DropReason::PortDown => "port-down",
            DropReason::InterfaceBusy => "interface-busy",
            DropReason::FrameTooLong => "frame-too-long",
            DropReason::FrameTooShort => "frame-too-short",
            DropReason::KernelDrop => "kernel-drop",
            DropReason::LinkDown => "link-down",
            DropReason::LinkLoss => "link-loss",
            DropReason::LinkCorrupt => "link-corrupt",
            DropReason::MacControlIgnored => "mac-control-ignored",
            DropReason::MacControlMalformed => "mac-control-malformed",
            DropReason::NoController => "no-controller",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Drops of one switch by port and reason. The reasons include those of the pipeline.
#[derive(Debug, Default)]
pub(crate) struct DropLedger {
    /// The drops of each port and reason that occurred.
    counts: BTreeMap<(u16, &'static str), Count>,
    /// Dropped packets in total.
    packets: u64,
}

impl DropLedger {
    /// Dropped packets in total.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// Counts dropped packets and their bytes.
    pub(crate) fn add(&mut self, port: u16, reason: &'static str, packets: u64, bytes: u64) {
        self.packets += packets;
        let count = self.counts.entry((port, reason)).or_default();
        count.packets += packets;
        count.bytes += bytes;
    }

    /// All counts, ordered by port and reason.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &'static str, Count)> {
        self.counts
            .iter()
            .map(|((port, reason), count)| (*port, *reason, *count))
    }
}
