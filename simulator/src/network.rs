//! Input of a simulation: a JSON file that the runner (`ebb_experiments.run.simulator`) makes from a scenario.
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `transport` | | of all hosts: a transport that `ebb-agent transports` lists |
//! | `transport_of` | {} | parts of the workload that another transport carries, by their names |
//! | `params` | {} | as `ebb-agent params` prints them; `nic.catch_up_packets` is taken for 0, `engine` and `faults` are ignored |
//! | `seed` | | of session ids, path entropy, and what links lose |
//! | `switches` | | `name`, `device_id`, `grpc_server_addr`, `cpu_port`, `drop_port`, `traffic_manager` (its configuration until the controller says otherwise), `program` (that of all), `bf_rt_schema` (`file`, `name` of the program for clients; none: BF Runtime is not served) |
//! | `program` | | the program that all switches start with, as if a controller had installed it: `json` and `p4info` (files, relative to this one), `cookie` (by which a controller knows it); none: they wait for one |
//! | `hosts` | | `name`, `ip`, `mac`, `gateway_mac`; `rack`, `pod` (labels for workloads), `rate_bps` (`params.nic.rate_bps`); `vms` ([]: the host itself takes part in transfers, and otherwise these do), `external` (false; a program outside plays it, and it takes part in no transfer) |
//! | `hosts.vms` | | `name`, `ip`, `dscp` (of all that it sends), `guarantee` (`rate_bps`, `burst_bytes`, `peak_bps`; none: it is not paced), `receive_bps` (what others may send to it, without messages; the rate of the guarantee) |
//! | `hypervisor` | | if there are VMs: `batch_ns`, `hose_ns` (between messages), `message_ns` (the longest time of one) |
//! | `links` | | pairs of `{node, port}`; a host has port 0 |
//! | `workload` | | a workload file (`docs/workloads.md`), relative to this one; its hosts are those above unless it has its own `[[host]]`, with their names |
//! | `transfers` | [] | instead of a workload: objects as `ebb-agent workload` prints them. `id`, `start_ns`, `sources`, `destinations`, `bytes`; `kind` (`send-one-to-one`), `priority` (0), `after` (of another with the same start) .. |
//! | `content` | `zeros` | of the objects; `pattern`: different bytes everywhere, compared at the receiver |
//! | `coding_bps` | 0 | rate at which a host codes blocks of SCDP and Trevi, one after the other; 0: instantly |
//! | `packet_ns`, `packets_at_once` | 0, 16 | processing time of a host per arriving packet, and how many it processes at a time |
//! | `forgeries` | [] | hosts that make up notifications of drops: `host`, `targets` (names), `every_ns`, `start_ns` (0), `stop_ns`, `dscp`, `overhears_after_ns` (none: they are about flows that do not exist) |
//! | `fabric_socket` | | serves `ebb.fabric.v1.Fabric` at this Unix socket: faults, restarts, captures; relative to this file |
//! | `captures` | `captures` | the folder for the captures that somebody asks it for; relative to this file |
//! | `ends_with` | [] | parts of the workload, by name: a run with `flows` ends with the last of their transfers, even if others are still under way; none: with all |
//! | `arrivals_every_ns` | 0 | period of the samples of how much of every object has arrived, the first one period after the start; 0: none |
//! | `skip` | false | whether rounds that repeat each other are skipped (`docs/simulation.md`) |
//! | `reaction_ns` | 1000 | what arrives at external hosts is written at multiples of this time |
//! | `patience_ns` | 10 s | how long a fetch waits for its first byte |
//!
//! Times and rates are those of the simulation: whoever writes the file has slowed them down.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use ebb_engine::simulation::{NodeId, NodePort};
use ebb_engine::{Switch, SwitchOptions};
use ebb_host::TrafficTransports;
use ebb_p4runtime::{ProgramFiles, Schema};
use ebb_traffic_manager::TrafficManagerConfig;
use ebb_transport::TransportKind;
use ebb_transport::tenant::{HypervisorEntry, VmEntry};
use ebb_units::Duration;
use ebb_wire::MacAddress;
use ebb_workload::{HostId, PlacedHost};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::catalog::{Catalog, Content};
use crate::host::Identity;
use crate::workload::{Plan, TransferEntry};

/// The content of a network file; the table above has the keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    #[serde(alias = "scheme")]
    pub transport: TransportKind,
    #[serde(default)]
    pub transport_of: BTreeMap<String, TransportKind>,
    #[serde(default)]
    pub params: Params,
    pub seed: u64,
    pub switches: Vec<SwitchEntry>,
    #[serde(default)]
    pub program: Option<ProgramFiles>,
    pub hosts: Vec<HostEntry>,
    #[serde(default)]
    pub hypervisor: Option<HypervisorEntry>,
    pub links: Vec<[End; 2]>,
    #[serde(default)]
    pub workload: Option<PathBuf>,
    #[serde(default)]
    pub transfers: Vec<TransferEntry>,
    #[serde(default)]
    pub content: Content,
    #[serde(default)]
    pub coding_bps: u64,
    #[serde(default)]
    pub packet_ns: u64,
    #[serde(default = "sixteen")]
    pub packets_at_once: u16,
    #[serde(default)]
    pub forgeries: Vec<ForgeryEntry>,
    #[serde(default = "ten_seconds")]
    pub patience_ns: u64,
    #[serde(default)]
    pub fabric_socket: Option<PathBuf>,
    #[serde(default = "captures")]
    pub captures: PathBuf,
    #[serde(default)]
    pub ends_with: Vec<String>,
    #[serde(default)]
    pub arrivals_every_ns: u64,
    #[serde(default)]
    pub skip: bool,
    #[serde(default = "one_microsecond")]
    pub reaction_ns: u64,
    /// The folder of the network file, which its relative paths start from.
    #[serde(skip)]
    pub folder: PathBuf,
}

fn captures() -> PathBuf {
    "captures".into()
}

fn sixteen() -> u16 {
    16
}

fn one_microsecond() -> u64 {
    1_000
}

fn ten_seconds() -> u64 {
    10_000_000_000
}

/// Simulated hosts use no machine and make no mistakes.
pub type Params = ebb_transport::Params<IgnoredAny, IgnoredAny>;

/// A switch of the network file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchEntry {
    pub name: String,
    pub device_id: u64,
    pub grpc_server_addr: SocketAddr,
    pub cpu_port: Option<u16>,
    pub drop_port: u16,
    /// Configuration until the controller sets another one.
    pub traffic_manager: TrafficManagerConfig,
    #[serde(default)]
    pub program: Option<ProgramFiles>,
    #[serde(default)]
    pub bf_rt_schema: Option<SchemaFile>,
}

/// The schema of BF Runtime of a program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemaFile {
    /// The file that `--bf-rt-schema` of ebb-p4c wrote.
    pub file: PathBuf,
    /// Name of the program for clients.
    pub name: String,
}

impl SchemaFile {
    /// The same file, whose path is relative to this folder.
    pub fn within(self, folder: &Path) -> Self {
        Self {
            file: folder.join(self.file),
            ..self
        }
    }

    /// The schema.
    pub fn read(&self) -> Result<Schema> {
        Ok(Schema::read(&self.name, &self.file)?)
    }
}

/// A host of the network file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostEntry {
    pub name: String,
    pub ip: Ipv4Addr,
    pub mac: String,
    pub gateway_mac: String,
    #[serde(default)]
    pub rack: Option<String>,
    #[serde(default)]
    pub pod: Option<String>,
    #[serde(default)]
    pub rate_bps: Option<u64>,
    #[serde(default)]
    pub vms: Vec<VmEntry>,
    #[serde(default)]
    pub external: bool,
}

/// A host of the network file that makes up notifications.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForgeryEntry {
    pub host: String,
    pub targets: Vec<String>,
    pub every_ns: u64,
    #[serde(default)]
    pub start_ns: u64,
    pub stop_ns: u64,
    pub dscp: u8,
    /// It names packets that its target sent this long before, at least the longest delay of a link. None:
    /// packets of flows that do not exist.
    #[serde(default)]
    pub overhears_after_ns: Option<u64>,
}

/// One end of a link.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    pub node: String,
    /// Port of a switch; a host has only port 0.
    #[serde(default)]
    pub port: u16,
}

impl Network {
    /// Reads a network file.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = ebb_files::read(path).with_context(|| format!("cannot read {shown}"))?;
        let network = serde_json::from_slice(&text);
        let network: Self = network.map_err(|error| anyhow!("{shown}: {error}"))?;
        Ok(Network {
            folder: path.parent().unwrap_or(Path::new("")).to_owned(),
            ..network
        })
    }

    /// Checks that names and addresses are unique.
    pub fn check_names(&self) -> Result<()> {
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

    /// Checks that nothing is asked for that skipping would falsify.
    pub fn check_skip(&self) -> Result<()> {
        for (given, what) in [
            (
                self.arrivals_every_ns > 0,
                "arrivals_every_ns: arrivals over time",
            ),
            (!self.forgeries.is_empty(), "forgeries: their times"),
            (
                self.hypervisor.is_some(),
                "hypervisor: the delays of its messages",
            ),
            (
                self.hosts.iter().any(|host| host.external),
                "external hosts: their times",
            ),
        ] {
            ensure!(
                !(self.skip && given),
                "skip: not with {what} cannot be skipped; remove one of the two"
            );
        }
        Ok(())
    }

    /// The transfers: drawn from a workload file, or those of the network file.
    pub fn plan(&mut self) -> Result<Plan> {
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
    pub fn catalog(&self, plan: &Plan) -> Result<Catalog> {
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
    pub fn build(self) -> Result<Switch> {
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
    pub fn addresses(&self) -> impl Iterator<Item = (&str, Ipv4Addr)> {
        let vms = self.vms.iter().map(|vm| (&*vm.name, vm.ip));
        std::iter::once((&*self.name, self.ip)).chain(vms)
    }

    /// How the host, or a VM of it, is attached; `id` is its number in the workload.
    pub fn identity(&self, name: &str, ip: Ipv4Addr, id: Option<HostId>) -> Result<Identity> {
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
    pub fn find(&self, nodes: &BTreeMap<String, NodeId>) -> Result<NodePort> {
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
pub fn labels(hosts: &[HostEntry]) -> Vec<PlacedHost> {
    let taking_part = hosts.iter().filter(|host| !host.external);
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
    taking_part.flat_map(members).collect()
}
