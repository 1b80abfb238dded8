//! Where packets were lost outside the traffic manager and the pipeline.

use std::collections::BTreeMap;
use std::fmt;

use ebb_traffic_manager::Count;
use serde::Serialize;

/// Why a packet was dropped, other than by the pipeline or the traffic manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropReason {
    /// The switch has no P4 program yet. Counted at the ingress port.
    NoProgram,
    /// The multicast group has no member or does not exist. Counted at the ingress port.
    NoReplica,
    /// Resubmitted, recirculated or deflected too often. Counted at the ingress port.
    PassLimit,
    /// Too many copies were made of one packet that went round. Counted at the ingress port.
    CopyLimit,
    /// The egress port has neither interface nor link.
    NoSuchPort,
    /// The interface is down or has vanished.
    PortDown,
    /// The queueing discipline of the interface dropped the frame, or it still waited for room there
    /// at the end.
    InterfaceBusy,
    FrameTooLong,
    FrameTooShort,
    /// The receive buffer in the kernel was full: the switch did not get enough CPU time.
    KernelDrop,
    /// The link behind the port is down. Of a link from a host, counted where it ends.
    LinkDown,
    /// The link behind the port lost the frame. Of a link from a host, counted where it ends.
    LinkLoss,
    /// The link behind the port flipped a bit of the frame, which went on: no drop. Of a link from a
    /// host, counted where it ends.
    LinkCorrupt,
    /// The controller did not take packet-ins fast enough, or there is none.
    NoController,
}

impl DropReason {
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
            DropReason::NoController => "no-controller",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Drops of one switch by port and reason, whoever dropped.
#[derive(Debug, Default)]
pub(crate) struct DropLedger {
    counts: BTreeMap<(u16, &'static str), Count>,
    packets: u64,
}

impl DropLedger {
    /// All of them.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    pub(crate) fn add(&mut self, port: u16, reason: &'static str, packets: u64, bytes: u64) {
        self.packets += packets;
        let count = self.counts.entry((port, reason)).or_default();
        count.packets += packets;
        count.bytes += bytes;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &'static str, Count)> {
        self.counts
            .iter()
            .map(|((port, reason), count)| (*port, *reason, *count))
    }
}
