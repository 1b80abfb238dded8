//! Counts of a switch beside those of its traffic manager.

use ebb_traffic_manager::{Count, PortId, TrafficManager};

use crate::conservation::{Account, Ledger};
use crate::drops::{DropLedger, DropReason};
use crate::lateness::Lateness;

/// Drops, lateness, and the balance of packets.
#[derive(Default)]
pub(super) struct Tally {
    /// Drops inside the switch.
    inside: DropLedger,
    /// Drops of frames that had not entered the switch, or had left it.
    outside: DropLedger,
    /// Balance of packets, so that none is lost without being counted.
    pub(super) ledger: Ledger,
    /// Lateness of frames at the interfaces.
    pub(super) lateness: Lateness,
}

impl Tally {
    /// Counts a drop inside the switch.
    pub(super) fn drop_one(&mut self, port: PortId, reason: &'static str, bytes: u64) {
        self.inside.add(port, reason, 1, bytes);
    }

    /// Counts frames that were lost before they entered the switch, or after they had left it.
    pub(super) fn drop_outside(
        &mut self,
        port: PortId,
        reason: DropReason,
        packets: u64,
        bytes: u64,
    ) {
        self.outside.add(port, reason.as_str(), packets, bytes);
    }

    /// Drops by port and reason.
    pub(super) fn drops(&self) -> impl Iterator<Item = (PortId, &'static str, Count)> {
        self.inside.iter().chain(self.outside.iter())
    }

    /// Sets the statistics to zero.
    pub(super) fn reset<P>(&mut self, manager: &TrafficManager<P>) {
        self.lateness = Lateness::default();
        if cfg!(debug_assertions) {
            self.ledger.restart(self.account(manager));
        }
    }

    /// Packets by the statistics and the queues.
    fn account<P>(&self, manager: &TrafficManager<P>) -> Account {
        Account {
            dropped: self.inside.packets() + manager.dropped_packets(),
            queued: manager.queued().packets,
        }
    }

    /// Checks in debug builds that no packet of the switch with this name is lost without being
    /// counted.
    pub(super) fn check<P>(&self, name: &str, manager: &TrafficManager<P>) {
        if cfg!(debug_assertions) {
            let missing = self.ledger.missing(self.account(manager));
            assert!(
                missing == 0,
                "{name}: {missing} packets are neither sent nor dropped nor queued: {:?}, {:?}",
                self.ledger,
                self.account(manager)
            );
        }
    }
}
