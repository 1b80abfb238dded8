//! Section `nic` of the parameters file.

use ebb_units::{BitRate, Duration};
use serde::{Deserialize, Serialize};

use crate::classes::Classes;

/// Queueing discipline of a host's link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueKind {
    /// No queue: when the link is free, the next packet is requested from the flows in turn.
    #[default]
    RoundRobin,
    /// First in, first out, as in the queue of a driver: flows fill it ahead of time, and the
    /// packets of one wait behind those of the others.
    Fifo,
}

/// Section `nic` of the parameters file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NicParams {
    /// Rate of the host's link. 0: no limit, frames leave as fast as the machine sends them.
    pub rate_bps: u64,
    /// Largest IPv4 packet.
    pub mtu_bytes: u16,
    /// Bytes of every frame beside the IPv4 packet and the 14 bytes of the Ethernet header: 0, or
    /// 24 for preamble (8), FCS (4) and inter-frame gap (12). The same as in the switches.
    pub frame_overhead_bytes: u32,
    /// A driver that wakes up late may send this many full frames (or pulls for them) at once, so
    /// that its lateness does not lower the rate. Keep it below the data queue of a switch.
    pub catch_up_packets: u32,
    /// The class of packets, by their DSCP: the queue that the switches have for it. A DSCP without
    /// an entry is of class 0.
    pub classes: Classes,
    /// Whether PFC frames of the neighbour stop classes. Without it they are ignored.
    pub pfc: bool,
    /// Time from the last bit of a PFC frame until it takes effect.
    pub pfc_response_ns: u64,
    /// Queueing discipline.
    pub queue: QueueKind,
    /// Packets of each class that a FIFO holds; 0: no limit. Linux has 1000 (`txqueuelen`).
    pub queue_packets: u32,
    /// Bytes of IPv4 packets of each class that a FIFO holds; 0: no limit.
    pub queue_bytes: u32,
    /// Arrived packets that transports get together, those of a TCP flow as one segment. 0 or 1: they
    /// get each as it arrives.
    pub coalesce_packets: u32,
    /// Longest time that an arrived packet waits for others.
    pub coalesce_ns: u64,
}

impl Default for NicParams {
    fn default() -> Self {
        NicParams {
            rate_bps: 1_000_000_000,
            mtu_bytes: 1500,
            frame_overhead_bytes: 0,
            catch_up_packets: 4,
            classes: Classes::default(),
            pfc: false,
            pfc_response_ns: 0,
            queue: QueueKind::RoundRobin,
            queue_packets: 1000,
            queue_bytes: 0,
            coalesce_packets: 0,
            coalesce_ns: 100_000,
        }
    }
}

const ETHERNET_HEADER_BYTES: u64 = 14;
/// More packets than this are never handed over together: they are 64 KB of the shortest, and what
/// waits costs memory.
const MOST_COALESCED: u32 = 1024;

impl NicParams {
    /// Rate of the link.
    pub fn rate(&self) -> BitRate {
        BitRate::from_bps(self.rate_bps)
    }

    /// Bytes that an IPv4 packet of `len` bytes occupies on the link.
    pub fn frame_bytes(&self, len: usize) -> u64 {
        len as u64 + ETHERNET_HEADER_BYTES + u64::from(self.frame_overhead_bytes)
    }

    /// How long a frame with an IPv4 packet of `len` bytes occupies the link.
    pub fn frame_time(&self, len: usize) -> Duration {
        self.rate().time_for(self.frame_bytes(len))
    }

    /// The time that `catch_up_packets` full frames take.
    pub fn catch_up(&self) -> Duration {
        self.frame_time(usize::from(self.mtu_bytes)) * u64::from(self.catch_up_packets)
    }

    /// Time from a PFC frame to its effect.
    pub fn pfc_response(&self) -> Duration {
        Duration::from_nanos(self.pfc_response_ns)
    }

    /// Longest time that frames wait for others.
    pub fn coalesce(&self) -> Duration {
        Duration::from_nanos(self.coalesce_ns)
    }

    /// Checks that values are in their ranges; the error names the parameter.
    pub fn validate(&self) -> Result<(), String> {
        if self.mtu_bytes < 576 {
            return Err(format!(
                "nic.mtu_bytes is {}; an IPv4 link carries at least 576",
                self.mtu_bytes
            ));
        }
        if self.pfc && self.rate_bps == 0 {
            return Err(
                "nic.pfc needs nic.rate_bps: pauses are counted in times of 512 bits".into(),
            );
        }
        if self.queue_bytes != 0 && self.queue_bytes < u32::from(self.mtu_bytes) {
            return Err(format!(
                "nic.queue_bytes is {}; 0 (no limit), or at least a packet of nic.mtu_bytes = {}",
                self.queue_bytes, self.mtu_bytes
            ));
        }
        if self.queue == QueueKind::Fifo && self.queue_packets == 0 && self.queue_bytes == 0 {
            return Err("a FIFO needs nic.queue_packets or nic.queue_bytes above 0".into());
        }
        if self.coalesce_packets > MOST_COALESCED {
            return Err(format!(
                "nic.coalesce_packets is {}; at most {MOST_COALESCED} make sense",
                self.coalesce_packets
            ));
        }
        if self.coalesce_packets > 1 && self.coalesce_ns == 0 {
            return Err("nic.coalesce_packets needs nic.coalesce_ns above 0: \
                 a packet must not wait for ever"
                .into());
        }
        Ok(())
    }
}
