//! When packets of VMs conformed, or left a VM that is not paced, for the hosts that receive them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};

use ebb_transport::tenant::Departures;
use ebb_units::Instant;

/// Packets of a VM that are remembered: more than buffers of a path hold.
const REMEMBERED: usize = 4096;

/// The last departures of every VM, by the identification of its packets. The
/// frame that hosts hand over to each other makes what was noted before it visible.
pub struct Noted(BTreeMap<Ipv4Addr, Box<[AtomicU64]>>);

impl Noted {
    /// None yet, of the VMs with these addresses.
    pub fn of(addresses: impl Iterator<Item = Ipv4Addr>) -> Self {
        let none = || (0..REMEMBERED).map(|_| AtomicU64::new(0)).collect();
        Noted(addresses.map(|address| (address, none())).collect())
    }
}

impl Departures for Noted {
    fn note(&self, from: Ipv4Addr, identification: u16, at: Instant) {
        if let Some(times) = self.0.get(&from) {
            let slot = usize::from(identification) % REMEMBERED;
            times[slot].store(at.as_picos(), Ordering::Relaxed);
        }
    }

    fn at(&self, from: Ipv4Addr, identification: u16) -> Option<Instant> {
        let times = self.0.get(&from)?;
        let slot = usize::from(identification) % REMEMBERED;
        Some(Instant::from_picos(times[slot].load(Ordering::Relaxed)))
    }
}
