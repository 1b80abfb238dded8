//! Depth of a queue.

use serde::{Deserialize, Serialize};

use crate::config::DepthUnit;

/// Depth in packets and in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Depth {
    /// Number of packets.
    pub packets: u64,
    /// Sum of their lengths.
    pub bytes: u64,
}

impl Depth {
    /// The depth in the unit in which P4 sees it.
    pub fn in_unit(self, unit: DepthUnit) -> u64 {
        match unit {
            DepthUnit::Packets => self.packets,
            DepthUnit::Bytes => self.bytes,
        }
    }

    /// A packet of `len` bytes has joined.
    pub(crate) fn add(&mut self, len: u64) {
        self.packets += 1;
        self.bytes += len;
    }

    /// A packet of `len` bytes has left.
    pub(crate) fn remove(&mut self, len: u64) {
        self.packets -= 1;
        self.bytes -= len;
    }

    /// The sum of both.
    pub(crate) fn plus(self, other: Depth) -> Depth {
        Depth {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
        }
    }

    /// Depth without this part.
    pub(crate) fn minus(self, part: Depth) -> Depth {
        Depth {
            packets: self.packets - part.packets,
            bytes: self.bytes - part.bytes,
        }
    }
}
