//! Gives the hosts their transfers shortly before these start, so that a schedule can have any
//! length.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;

use ebb_engine::simulation::{NodeId, Simulation};
use ebb_units::{Duration, Instant};
use ebb_workload::HostId;

use crate::host::SimHost;
use crate::node::Node;
use crate::workload::Transfers;

/// Where a host is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The node of the simulation.
    pub node: NodeId,
    /// Its number among the VMs there; 0 for a host without VMs.
    pub member: usize,
}

impl Place {
    /// The host. None: there is none.
    pub fn host(self, simulation: &Simulation<Node>) -> Option<&SimHost> {
        simulation.host(self.node)?.members().get(self.member)
    }

    /// Gives access to the host, to change it.
    pub fn with_host(self, simulation: &mut Simulation<Node>, change: impl FnOnce(&mut SimHost)) {
        simulation.with_host(self.node, |node| {
            change(&mut node.members_mut()[self.member])
        });
    }
}

/// The transfers that the hosts have not been given yet.
pub struct Feed {
    /// These transfers, by start.
    transfers: Peekable<Transfers>,
    /// The hosts, by their numbers in the transfers.
    hosts: Vec<Place>,
    /// How many transfers are left, by part of the workload.
    left: BTreeMap<String, u64>,
    /// By how much they start earlier than they say, since so much time has been skipped.
    nearer: Duration,
}

impl Feed {
    /// A feed of all transfers. `counts` says how many each part of the workload has.
    pub fn new(transfers: Transfers, hosts: Vec<Place>, counts: BTreeMap<String, u64>) -> Self {
        Feed {
            transfers: transfers.peekable(),
            hosts,
            left: counts,
            nearer: Duration::ZERO,
        }
    }

    /// Whether no transfers are left of the named parts of the workload, or of all parts if none is
    /// named.
    pub fn is_empty(&mut self, traffic: &[String]) -> bool {
        if traffic.is_empty() {
            return self.transfers.peek().is_none();
        }
        let left = |name: &String| self.left.get(name).copied().unwrap_or(0);
        traffic.iter().all(|name| left(name) == 0)
    }

    /// The host with this number in the transfers.
    pub fn place(&self, host: HostId) -> Place {
        self.hosts[host.index()]
    }

    /// When the next transfer starts; `None` if there is none.
    pub fn next_start(&mut self) -> Option<Instant> {
        let next = self.transfers.peek()?;
        Some(Instant::from_nanos(next.start_ns - self.nearer.as_nanos()))
    }

    /// All transfers that are left start earlier by a time, before which none of them would.
    pub fn come_nearer(&mut self, by: Duration) {
        self.nearer += by;
    }

    /// Gives the hosts the transfers that start before `end`: both ends of them, because a receiver may have to
    /// act on what it gets, and servers on what is fetched.
    pub fn advance(&mut self, simulation: &mut Simulation<Node>, end: Instant) {
        let now = simulation.now();
        while self.next_start().is_some_and(|start| start < end)
            && let Some(mut transfer) = self.transfers.next()
        {
            transfer.start_ns -= self.nearer.as_nanos();
            if let Some(left) = self.left.get_mut(&*transfer.traffic) {
                *left = left.saturating_sub(1);
            }
            let transfer = Arc::new(transfer);
            let concerned: Vec<HostId> = transfer
                .sources
                .iter()
                .chain(&transfer.destinations)
                .copied()
                .collect();
            for host in concerned {
                let transfer = transfer.clone();
                let place = self.hosts[host.index()];
                place.with_host(simulation, |host| host.add(now, transfer));
            }
        }
    }
}
