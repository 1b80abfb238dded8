//! The class of a packet by its DSCP, as in the table `classes` of a fabric.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Classes of traffic, which are the priorities of PFC and the queues of a switch.
pub const CLASSES: usize = 8;
/// Number of DSCPs.
const DSCPS: usize = 64;
/// The byte of an IPv4 header with DSCP and ECN.
const DSCP_AT: usize = 1;

/// An entry of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassEntry {
    /// 0 to 63.
    pub dscp: u8,
    /// 0 to 7: the queue of the switches in which packets with the DSCP wait.
    pub queue: u8,
}

/// The class of every DSCP; those without an entry are of class 0, as in a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classes([u8; DSCPS]);

impl Default for Classes {
    fn default() -> Self {
        Classes([0; DSCPS])
    }
}

impl Classes {
    /// The table with these entries. The error is a text about the first entry that is out of range.
    pub fn new(entries: &[ClassEntry]) -> Result<Self, String> {
        let mut classes = Classes::default();
        for &ClassEntry { dscp, queue } in entries {
            let Some(class) = classes.0.get_mut(usize::from(dscp)) else {
                return Err(format!("nic.classes: {dscp} is not a DSCP; 0..63 are"));
            };
            if usize::from(queue) >= CLASSES {
                return Err(format!("nic.classes: there is no queue {queue}; 0..7 are"));
            }
            *class = queue;
        }
        Ok(classes)
    }

    /// The class of a DSCP.
    pub fn of(&self, dscp: u8) -> usize {
        usize::from(self.0[usize::from(dscp) % DSCPS])
    }

    /// The class of an IPv4 packet; 0 if it is too short for a DSCP.
    pub fn of_packet(&self, packet: &[u8]) -> usize {
        packet.get(DSCP_AT).map_or(0, |byte| self.of(byte >> 2))
    }

    /// The DSCPs of all classes in a bit mask, bit 0 for class 0.
    pub fn dscps(&self, classes: u8) -> DscpSet {
        match classes {
            0 => DscpSet::NONE,
            u8::MAX => DscpSet::ALL,
            _ => self
                .0
                .iter()
                .enumerate()
                .filter(|(_, class)| classes >> **class & 1 == 1)
                .fold(DscpSet::NONE, |set, (dscp, _)| set.with(dscp as u8)),
        }
    }
}

impl Serialize for Classes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.0.iter().enumerate().filter(|(_, queue)| **queue != 0);
        serializer.collect_seq(entries.map(|(dscp, &queue)| ClassEntry {
            dscp: dscp as u8,
            queue,
        }))
    }
}

impl<'de> Deserialize<'de> for Classes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = Vec::<ClassEntry>::deserialize(deserializer)?;
        Classes::new(&entries).map_err(serde::de::Error::custom)
    }
}

/// A set of DSCPs, such as those of the packets that a transport is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DscpSet(u64);

impl DscpSet {
    /// All 64 DSCPs.
    pub const ALL: DscpSet = DscpSet(u64::MAX);
    /// No DSCP.
    pub const NONE: DscpSet = DscpSet(0);

    /// The set with this DSCP, of which the low 6 bits count, added.
    #[must_use]
    pub fn with(self, dscp: u8) -> Self {
        DscpSet(self.0 | 1 << (u32::from(dscp) % DSCPS as u32))
    }

    /// Whether the DSCP is in the set.
    pub fn contains(self, dscp: u8) -> bool {
        self.0 >> (u32::from(dscp) % DSCPS as u32) & 1 == 1
    }

    /// Whether no DSCP is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}
