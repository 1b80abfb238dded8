//! Input of a simulation: a JSON file that the runner (`ebb_experiments.sim`) makes from a scenario.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `transport` | | of all hosts: a transport that `ebb-agent transports` lists |
//! | `transport_of` | {} | parts of the workload that another transport carries, by their names |
//! | `params` | {} | as `ebb-agent params` prints them; `nic.catch_up_packets` is taken for 0, `engine` and `faults` are ignored |
//! | `seed` | | of session ids, path entropy, and what links lose |
//! | `switches` | | `name`, `device_id`, `grpc_server_addr`, `cpu_port`, `drop_port`, `traffic_manager` (its configuration until the controller says otherwise) |
//! | `program` | | the program that all switches start with, as if a controller had installed it: `json` and `p4info` (files, relative to this one), `cookie` (by which a controller knows it); none: they wait for one |
//! | `hosts` | | `name`, `ip`, `mac`, `gateway_mac`; `rack`, `pod` (labels for workloads), `rate_bps` (`params.nic.rate_bps`); `vms` ([]: the host itself takes part in transfers, and otherwise these do) |
//! | `hosts.vms` | | `name`, `ip`, `dscp` (of all that it sends), `guarantee` (`rate_bps`, `burst_bytes`, `peak_bps`; none: it is not paced), `receive_bps` (what others may send to it, without messages; the rate of the guarantee) |
//! | `hypervisor` | | if there are VMs: `batch_ns`, `hose_ns` (between messages), `message_ns` (the longest time of one) |
//! | `links` | | pairs of `{node, port}`; a host has port 0 |
//! | `workload` | | a workload file (`docs/workloads.md`), relative to this one; its hosts are those above unless it has its own `[[host]]`, with their names |
//! | `transfers` | [] | instead of a workload: objects as `ebb-agent workload` prints them. `id`, `start_ns`, `sources`, `destinations`, `bytes`; `kind` (`send-one-to-one`), `priority` (0), `after` (of another with the same start) .. |
//! | `content` | `zeros` | of the objects; `pattern`: different bytes everywhere, compared at the receiver |
//! | `coding_bps` | 0 | how fast a host codes a source block of SCDP, one after the other; 0: in no time |
//! | `packet_ns`, `packets_at_once` | 0, 16 | what a host takes for each packet that arrives, and how many it works on at a time |
//! | `forgeries` | [] | hosts that make up notifications of drops: `host`, `targets` (names), `every_ns`, `start_ns` (0), `stop_ns`, `dscp` |
//! | `fabric_socket` | | serves `ebb.fabric.v1.Fabric` at this Unix socket: faults, restarts, captures; relative to this file |
//! | `captures` | `captures` | the folder for the captures that somebody asks it for; relative to this file |
//! | `ends_with` | [] | parts of the workload: a run that is to end with its transfers ends with those of these, whatever the others do; none: with all |
//! | `arrivals_every_ns` | 0 | how often it is noted how much of every object has arrived, from so long after the start on; 0: never |
//! | `patience_ns` | 10 s | how long a fetch waits for its first byte |
//!
//! Times and rates are those of the simulation: whoever writes the file has slowed them down.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result, anyhow, bail, ensure};
use ebb_engine::simulation::{NodeId, NodePort, Simulation};
use ebb_engine::{Switch, SwitchOptions};
use ebb_host::TrafficTransports;
use ebb_p4runtime::ProgramFiles;
use ebb_p4runtime::proto::p4::ForwardingPipelineConfig;
use ebb_traffic_manager::TrafficManagerConfig;
use ebb_transport::nic::NicParams;
use ebb_transport::tenant::{HypervisorEntry, VmEntry};
use ebb_transport::{Suite, TransportKind};
use ebb_units::{BitRate, Duration, Instant};
use ebb_wire::MacAddress;
use ebb_workload::{HostId, PlacedHost};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::catalog::{Catalog, Content};
use crate::departures::Noted;
use crate::feed::Place;
use crate::host::{Forgery, Identity, Overheard, Parts, SimHost, Transports};
use crate::machine::Machine;
use crate::node::Node;
use crate::workload::{Plan, Survey, TransferEntry};

/// The content of a network file; the table above has the keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    #[serde(alias = "scheme")]
    transport: TransportKind,
    #[serde(default)]
    transport_of: BTreeMap<String, TransportKind>,
    #[serde(default)]
    params: Params,
    seed: u64,
    switches: Vec<SwitchEntry>,
    #[serde(default)]
    program: Option<ProgramFiles>,
    hosts: Vec<HostEntry>,
    #[serde(default)]
    hypervisor: Option<HypervisorEntry>,
    links: Vec<[End; 2]>,
    #[serde(default)]
    workload: Option<PathBuf>,
    #[serde(default)]
    transfers: Vec<TransferEntry>,
    #[serde(default)]
    content: Content,
    #[serde(default)]
    coding_bps: u64,
    #[serde(default)]
    packet_ns: u64,
    #[serde(default = "sixteen")]
    packets_at_once: u16,
    #[serde(default)]
    forgeries: Vec<ForgeryEntry>,
    #[serde(default = "ten_seconds")]
    patience_ns: u64,
    #[serde(default)]
    fabric_socket: Option<PathBuf>,
    #[serde(default = "captures")]
    captures: PathBuf,
    #[serde(default)]
    ends_with: Vec<String>,
    #[serde(default)]
    arrivals_every_ns: u64,
    /// The folder of the network file, which its relative paths start from.
    #[serde(skip)]
    folder: PathBuf,
}

fn captures() -> PathBuf {
    "captures".into()
}

fn sixteen() -> u16 {
    16
}

fn ten_seconds() -> u64 {
    10_000_000_000
}

/// Simulated hosts use no machine and make no mistakes.
type Params = ebb_transport::Params<IgnoredAny, IgnoredAny>;

/// A switch of the network file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchEntry {
    name: String,
    device_id: u64,
    grpc_server_addr: SocketAddr,
    cpu_port: Option<u16>,
    drop_port: u16,
    /// Configuration until the controller sets another one.
    traffic_manager: TrafficManagerConfig,
}

/// A host of the network file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostEntry {
    name: String,
    ip: Ipv4Addr,
    mac: String,
    gateway_mac: String,
    #[serde(default)]
    rack: Option<String>,
    #[serde(default)]
    pod: Option<String>,
    #[serde(default)]
    rate_bps: Option<u64>,
    #[serde(default)]
    vms: Vec<VmEntry>,
}

/// A host of the network file that makes up notifications.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ForgeryEntry {
    host: String,
    targets: Vec<String>,
    every_ns: u64,
    #[serde(default)]
    start_ns: u64,
    stop_ns: u64,
    dscp: u8,
    /// It names packets that its target has sent so long ago, at least the longest delay of a link. None:
    /// packets of flows that do not exist.
    #[serde(default)]
    overhears_after_ns: Option<u64>,
}

/// One end of a link.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    node: String,
    /// Port of a switch; a host has only port 0.
    #[serde(default)]
    port: u16,
}

/// A switch of the simulation and how controllers reach it.
pub struct SimSwitch {
    /// Its number in the simulation.
    pub node: NodeId,
    /// Its P4Runtime device id.
    pub device_id: u64,
    /// Where P4Runtime is served for it.
    pub grpc_address: SocketAddr,
}

/// A simulation whose clock has not run yet, and what belongs to it.
pub struct Built {
    /// The network.
    pub simulation: Simulation<Node>,
    /// The switches, in the order of the file.
    pub switches: Vec<SimSwitch>,
    /// Program that they start with; `None`: none.
    pub program: Option<ForwardingPipelineConfig>,
    /// The hosts, in the order of the file.
    pub hosts: Vec<NodeId>,
    /// The links, in the order of the file.
    pub links: Vec<[NodePort; 2]>,
    /// Socket of the fabric service; `None` if it is not served.
    pub fabric_socket: Option<PathBuf>,
    /// Folder for packet captures.
    pub captures: PathBuf,
    /// The transfers.
    pub plan: Plan,
    /// The hosts that take part in transfers, by their numbers there, with their names.
    pub planned: Vec<(Place, String)>,
    /// Properties of the transfers that are known in advance.
    pub survey: Survey,
    /// Parts of the workload with which a run ends; empty means all.
    pub ends_with: Vec<String>,
    /// Counts the transfers that have ended.
    pub ended: Arc<AtomicU64>,
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

impl Network {
    /// Reads a network file.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
        let network = serde_json::from_slice(&text);
        let network: Self = network.map_err(|error| anyhow!("{shown}: {error}"))?;
        Ok(Network {
            folder: path.parent().unwrap_or(Path::new("")).to_owned(),
            ..network
        })
    }

    /// Builds the simulation, or says what in the file makes no sense.
    pub fn build(mut self) -> Result<Built> {
        let mut suite = self.params.suite();
        // Nobody wakes up late in virtual time.
        suite.nic.catch_up_packets = 0;
        suite.validate().map_err(anyhow::Error::msg)?;
        self.check_names()?;
        let plan = self.plan()?;
        let catalog = Arc::new(self.catalog(&plan)?);
        let survey = plan.survey(&catalog.transports, &catalog.addresses)?;
        survey.check_names("ends_with", self.ends_with.iter())?;
        survey.check_names("transport_of", self.transport_of.keys())?;
        let program = self.program.take();
        let program = program.map(|files| files.within(&self.folder).read());
        let program = program.transpose()?;
        let mut simulation = Simulation::new();
        simulation.set_seed(self.seed);
        let mut ids = BTreeMap::new();
        let mut switches = Vec::new();
        for entry in self.switches {
            let (name, grpc_address) = (entry.name.clone(), entry.grpc_server_addr);
            let device_id = entry.device_id;
            let node = simulation.add_switch(entry.build()?);
            ids.insert(name, node);
            switches.push(SimSwitch {
                node,
                device_id,
                grpc_address,
            });
        }
        let labels = labels(&self.hosts);
        let numbers = (0..).zip(plan.hosts(&labels));
        let numbers: BTreeMap<String, HostId> = numbers
            .map(|(number, host)| (host.name.clone(), HostId(number)))
            .collect();
        let (mut forgeries, mut seen) = forgeries(&self.forgeries, &self.hosts)?;
        let ended = Arc::<AtomicU64>::default();
        let vms = self.hosts.iter().flat_map(|host| &host.vms);
        let departures = Arc::new(Noted::of(vms.map(|vm| vm.ip)));
        let mut hosts = Vec::new();
        let mut planned = vec![None; numbers.len()];
        let mut seeds = self.seed..;
        for mut entry in self.hosts {
            let vms = std::mem::take(&mut entry.vms);
            let mut nic = suite.nic;
            nic.rate_bps = entry.rate_bps.unwrap_or(nic.rate_bps);
            // `own`: the interface that a host has by itself; transports know that of the link.
            let mut make = |name: &str, ip: Ipv4Addr, own: NicParams| -> Result<SimHost> {
                let seed = seeds.next().unwrap_or_default();
                let suite = Suite {
                    nic,
                    ..suite.clone()
                };
                let transports = Transports::new(&catalog.transports, ip, &suite, seed);
                let parts = Parts {
                    transports: transports.map_err(anyhow::Error::msg)?,
                    nic: own,
                    coding: BitRate::from_bps(self.coding_bps),
                    processing: (
                        Duration::from_nanos(self.packet_ns),
                        usize::from(self.packets_at_once),
                    ),
                    forgery: forgeries.remove(name),
                    overheard: seen.remove(name),
                    catalog: catalog.clone(),
                    seed,
                    ended: ended.clone(),
                    arrivals_every: Duration::from_nanos(self.arrivals_every_ns),
                };
                let number = numbers.get(name).copied();
                SimHost::new(entry.identity(name, ip, number)?, parts)
            };
            let (node, members) = if vms.is_empty() {
                let host = make(&entry.name, entry.ip, nic)?;
                (Node::Host(host), vec![entry.name.clone()])
            } else {
                let names = vms.iter().map(|vm| vm.name.clone()).collect();
                let hypervisor = self.hypervisor;
                let hypervisor =
                    hypervisor.context("hypervisor: it is missing, and there are VMs")?;
                let params = hypervisor.params(catalog.transports.all(), &nic);
                let params = params.map_err(anyhow::Error::msg)?;
                let virtual_nic = NicParams {
                    rate_bps: 0,
                    pfc: false,
                    ..nic
                };
                let guest = |vm: VmEntry| -> Result<_> {
                    let guest = vm.guest(&nic, &params).map_err(anyhow::Error::msg)?;
                    Ok((make(&vm.name, vm.ip, virtual_nic)?, guest))
                };
                let guests = vms.into_iter().map(guest).collect::<Result<_>>()?;
                let identity = entry.identity(&entry.name, entry.ip, None)?;
                let machine = Machine::new(identity, nic, params, guests, departures.clone());
                (Node::Machine(Box::new(machine)), names)
            };
            let node = simulation.add_host(node);
            for (member, name) in members.into_iter().enumerate() {
                if let Some(number) = numbers.get(&name) {
                    planned[number.index()] = Some((Place { node, member }, name));
                }
            }
            ids.insert(entry.name, node);
            hosts.push(node);
        }
        let mut links = Vec::new();
        for [a, b] in self.links {
            let ends = [a.find(&ids)?, b.find(&ids)?];
            simulation.connect(ends[0], ends[1])?;
            links.push(ends);
        }
        Ok(Built {
            simulation,
            switches,
            program,
            hosts,
            links,
            fabric_socket: self.fabric_socket.map(|socket| self.folder.join(socket)),
            captures: self.folder.join(self.captures),
            plan,
            // `catalog` has found all of them, so none is missing.
            planned: planned.into_iter().flatten().collect(),
            survey,
            ends_with: self.ends_with,
            ended,
        })
    }

    /// Checks that names and addresses are unique.
    fn check_names(&self) -> Result<()> {
        let switches = self.switches.iter().map(|switch| &switch.name);
        let hosts = self.hosts.iter().map(|host| &host.name);
        let vms = self.hosts.iter().flat_map(|host| &host.vms);
        let mut names = std::collections::BTreeSet::new();
        for name in switches.chain(hosts).chain(vms.map(|vm| &vm.name)) {
            ensure!(names.insert(name), "two nodes have the name {name}");
        }
        let mut addresses = BTreeMap::new();
        for (name, ip) in self.hosts.iter().flat_map(HostEntry::addresses) {
            if let Some(other) = addresses.insert(ip, name) {
                bail!("{other} and {name} have the address {ip}");
            }
        }
        Ok(())
    }

    /// The transfers: drawn from a workload file, or those of the network file.
    fn plan(&mut self) -> Result<Plan> {
        let labels = labels(&self.hosts);
        match (&self.workload, std::mem::take(&mut self.transfers)) {
            (None, transfers) => Plan::listed(transfers, &labels),
            (Some(file), transfers) if transfers.is_empty() => {
                Plan::read(&self.folder.join(file), labels)
            }
            (Some(_), _) => bail!("workload and transfers: give one of them"),
        }
    }

    /// Common knowledge of the hosts.
    fn catalog(&self, plan: &Plan) -> Result<Catalog> {
        let all = labels(&self.hosts);
        let addresses = self.hosts.iter().flat_map(HostEntry::addresses);
        let addresses: BTreeMap<_, _> = addresses.collect();
        let address = |host: &PlacedHost| {
            let found = addresses.get(&*host.name).copied();
            found.with_context(|| format!("the workload's host {} is not in hosts", host.name))
        };
        let planned = plan.hosts(&all).iter();
        Ok(Catalog {
            transports: TrafficTransports {
                default: self.transport,
                of_traffic: self.transport_of.clone(),
            },
            addresses: planned.map(address).collect::<Result<_>>()?,
            names: plan.names(),
            content: self.content,
            patience: Duration::from_nanos(self.patience_ns),
        })
    }
}

impl SwitchEntry {
    /// The switch, which has no program yet.
    fn build(self) -> Result<Switch> {
        let place = format!("traffic manager of {}", self.name);
        let options = SwitchOptions {
            name: self.name,
            device_id: self.device_id,
            cpu_port: self.cpu_port,
            drop_port: self.drop_port,
        };
        Switch::new(options, self.traffic_manager).context(place)
    }
}

impl HostEntry {
    /// Names and addresses of the host and its VMs.
    fn addresses(&self) -> impl Iterator<Item = (&str, Ipv4Addr)> {
        let vms = self.vms.iter().map(|vm| (&*vm.name, vm.ip));
        std::iter::once((&*self.name, self.ip)).chain(vms)
    }

    /// How the host, or a VM of it, is attached; `id` is its number in the workload.
    fn identity(&self, name: &str, ip: Ipv4Addr, id: Option<HostId>) -> Result<Identity> {
        let address = |what, text: &str| {
            let parsed = text.parse::<MacAddress>();
            parsed.with_context(|| format!("{what} of host {}", self.name))
        };
        Ok(Identity {
            name: name.to_owned(),
            address: ip,
            mac: address("mac", &self.mac)?,
            gateway: address("gateway_mac", &self.gateway_mac)?,
            id,
        })
    }
}

impl End {
    /// The port that is meant, among the nodes of the network.
    fn find(&self, nodes: &BTreeMap<String, NodeId>) -> Result<NodePort> {
        let node = nodes.get(&self.node);
        let node = node.with_context(|| format!("link to {}: there is no such node", self.node))?;
        Ok(NodePort {
            node: *node,
            port: self.port,
        })
    }
}

/// Those who take part in transfers, as a workload sees them: hosts, and instead of hosts with VMs
/// these.
fn labels(hosts: &[HostEntry]) -> Vec<PlacedHost> {
    let members = |host: &HostEntry| -> Vec<PlacedHost> {
        let own = host.addresses().skip(usize::from(!host.vms.is_empty()));
        let own = own.take(host.vms.len().max(1));
        let labels = own.map(|(name, ip)| PlacedHost {
            name: name.to_owned(),
            address: Some(ip),
            rack: host.rack.clone(),
            pod: host.pod.clone(),
        });
        labels.collect()
    };
    hosts.iter().flat_map(members).collect()
}
