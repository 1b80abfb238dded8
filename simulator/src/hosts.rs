//! Builds the hosts of a network and the virtual machines on them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::RangeFrom;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result, anyhow, ensure};
use ebb_transport::Suite;
use ebb_transport::nic::NicParams;
use ebb_units::{BitRate, Duration, Instant};
use ebb_workload::HostId;

use crate::catalog::Catalog;
use crate::departures::Noted;
use crate::external::ExternalHost;
use crate::host::{Forgery, Overheard, Parts, SimHost, Transports};
use crate::machine::Machine;
use crate::network::{ForgeryEntry, HostEntry, Network, labels};
use crate::node::Node;
use crate::workload::Plan;

/// Builds one host after the other; the fields are what they share.
pub struct HostBuilder<'a> {
    network: &'a Network,
    suite: Suite,
    /// Common knowledge of the hosts.
    pub catalog: Arc<Catalog>,
    /// Counts the transfers that have ended.
    pub ended: Arc<AtomicU64>,
    /// Numbers in the workload, by name.
    numbers: BTreeMap<String, HostId>,
    forgeries: BTreeMap<String, Forgery>,
    overheard: BTreeMap<String, Arc<Overheard>>,
    departures: Arc<Noted>,
    seeds: RangeFrom<u64>,
}

impl<'a> HostBuilder<'a> {
    pub fn new(network: &'a Network, plan: &Plan) -> Result<Self> {
        let mut suite = network.params.suite();
        // Nobody wakes up late in virtual time.
        suite.nic.catch_up_packets = 0;
        suite.validate().map_err(anyhow::Error::msg)?;
        let labels = labels(&network.hosts);
        let numbers = plan.hosts(&labels).iter().map(|host| host.name.clone());
        let (forgeries, overheard) = forgeries(&network.forgeries, &network.hosts)?;
        let vms = network.hosts.iter().flat_map(|host| &host.vms);
        Ok(Self {
            suite,
            catalog: Arc::new(network.catalog(plan)?),
            ended: Arc::default(),
            numbers: numbers.zip((0..).map(HostId)).collect(),
            forgeries,
            overheard,
            departures: Arc::new(Noted::of(vms.map(|vm| vm.ip))),
            seeds: network.seed..,
            network,
        })
    }

    /// Its number in the workload; `None` if it takes part in no transfer.
    pub fn number(&self, name: &str) -> Option<HostId> {
        self.numbers.get(name).copied()
    }

    /// A host or a machine with VMs, and the names of those on it that can take part in transfers.
    pub fn node(&mut self, entry: &HostEntry) -> Result<(Node, Vec<String>)> {
        let mut nic = self.suite.nic;
        nic.rate_bps = entry.rate_bps.unwrap_or(nic.rate_bps);
        if entry.external {
            let name = &entry.name;
            ensure!(entry.vms.is_empty(), "host {name}: external, and with VMs");
            let host = ExternalHost::new(entry.name.clone(), nic);
            return Ok((Node::External(Box::new(host)), Vec::new()));
        }
        if entry.vms.is_empty() {
            let host = self.host(entry, &entry.name, entry.ip, [nic, nic])?;
            return Ok((Node::Host(host), vec![entry.name.clone()]));
        }
        let machine = self.machine(entry, nic)?;
        let names = entry.vms.iter().map(|vm| vm.name.clone()).collect();
        Ok((Node::Machine(Box::new(machine)), names))
    }

    fn machine(&mut self, entry: &HostEntry, nic: NicParams) -> Result<Machine> {
        let hypervisor = self.network.hypervisor.as_ref();
        let hypervisor = hypervisor.context("hypervisor: it is missing, and there are VMs")?;
        let params = hypervisor.params(self.catalog.transports.all(), &nic);
        let params = params.map_err(anyhow::Error::msg)?;
        let virtual_nic = NicParams {
            rate_bps: 0,
            pfc: false,
            ..nic
        };
        let mut guests = Vec::new();
        for vm in &entry.vms {
            let guest = vm.guest(&nic, &params).map_err(anyhow::Error::msg)?;
            let host = self.host(entry, &vm.name, vm.ip, [nic, virtual_nic])?;
            guests.push((host, guest));
        }
        let identity = entry.identity(&entry.name, entry.ip, None)?;
        let departures = self.departures.clone();
        Ok(Machine::new(identity, nic, params, guests, departures))
    }

    /// A host, or a VM of it; the interfaces: that of the link, which transports know, and its own.
    fn host(
        &mut self,
        entry: &HostEntry,
        name: &str,
        ip: Ipv4Addr,
        [nic, own]: [NicParams; 2],
    ) -> Result<SimHost> {
        let seed = self.seeds.next().unwrap_or_default();
        let suite = Suite {
            nic,
            ..self.suite.clone()
        };
        let transports = Transports::new(&self.catalog.transports, ip, &suite, seed);
        let parts = Parts {
            transports: transports.map_err(anyhow::Error::msg)?,
            nic: own,
            coding: BitRate::from_bps(self.network.coding_bps),
            processing: (
                Duration::from_nanos(self.network.packet_ns),
                usize::from(self.network.packets_at_once),
            ),
            forgery: self.forgeries.remove(name),
            overheard: self.overheard.remove(name),
            catalog: self.catalog.clone(),
            seed,
            ended: self.ended.clone(),
            arrivals_every: Duration::from_nanos(self.network.arrivals_every_ns),
        };
        SimHost::new(entry.identity(name, ip, self.number(name))?, parts)
    }
}

/// Packets that hosts forge, and the hosts that a forger overhears, by name.
type Forgeries = (BTreeMap<String, Forgery>, BTreeMap<String, Arc<Overheard>>);

fn forgeries(entries: &[ForgeryEntry], hosts: &[HostEntry]) -> Result<Forgeries> {
    let address = |name: &String| {
        let found = hosts.iter().find(|host| host.name == *name);
        found
            .map(|host| host.ip)
            .ok_or_else(|| anyhow!("forgeries: there is no host {name}"))
    };
    let mut forgeries = BTreeMap::new();
    let mut seen: BTreeMap<String, Arc<Overheard>> = BTreeMap::new();
    for entry in entries {
        let mut targets = Vec::new();
        for name in &entry.targets {
            let overheard = entry.overhears_after_ns.map(|after| {
                let new = || Arc::new(Overheard::new(Duration::from_nanos(after)));
                seen.entry(name.clone()).or_insert_with(new).clone()
            });
            targets.push((address(name)?, overheard));
        }
        address(&entry.host)?;
        ensure!(
            entry.every_ns > 0 && entry.dscp < 64 && !entry.targets.is_empty(),
            "forgeries of {}: every_ns must be above 0, dscp at most 63, and targets not empty",
            entry.host
        );
        let forgery = Forgery {
            targets,
            every: Duration::from_nanos(entry.every_ns),
            start: Instant::from_nanos(entry.start_ns),
            stop: Instant::from_nanos(entry.stop_ns),
            dscp: entry.dscp,
        };
        let other = forgeries.insert(entry.host.clone(), forgery);
        ensure!(other.is_none(), "forgeries: two of {}", entry.host);
    }
    Ok((forgeries, seen))
}
