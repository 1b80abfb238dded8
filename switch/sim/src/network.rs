//! What to simulate: a JSON file that the runner (`ebb_experiments.sim`) makes from a scenario.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use ebb_engine::simulation::{NodeId, NodePort, Simulation};
use ebb_engine::{Switch, SwitchOptions};
use ebb_traffic_manager::TrafficManagerConfig;
use ebb_transport::ndp::NdpParams;
use ebb_transport::nic::NicParams;
use ebb_transport::pacer::PacerParams;
use ebb_transport::scdp::ScdpParams;
use ebb_transport::tcp::TcpParams;
use ebb_transport::{DscpParams, EPHEMERAL_PORTS, Scheme, Suite};
use ebb_units::Instant;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::host::{Identity, SimHost, Start};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    pub scheme: Scheme,
    /// As `ebb-agent params` prints them.
    pub params: Params,
    pub seed: u64,
    switches: Vec<SwitchEntry>,
    hosts: Vec<HostEntry>,
    links: Vec<[End; 2]>,
    flows: Vec<FlowEntry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    nic: NicParams,
    dscp: DscpParams,
    ndp: NdpParams,
    scdp: ScdpParams,
    tcp: TcpParams,
    pacer: PacerParams,
    /// How the agent uses its machine.
    #[serde(rename = "engine")]
    _engine: IgnoredAny,
    #[serde(rename = "faults")]
    _faults: IgnoredAny,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchEntry {
    name: String,
    device_id: u64,
    grpc_server_addr: SocketAddr,
    cpu_port: Option<u16>,
    drop_port: u16,
    /// Until the controller says otherwise.
    traffic_manager: TrafficManagerConfig,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostEntry {
    name: String,
    ip: Ipv4Addr,
    mac: String,
    gateway_mac: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    node: String,
    /// Of a switch; a host has one only.
    #[serde(default)]
    port: u16,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FlowEntry {
    id: u64,
    from: String,
    to: String,
    bytes: u64,
    start_at_ns: u64,
    #[serde(default)]
    priority: u8,
}

/// A simulation that has not begun.
pub struct Built {
    pub simulation: Simulation<SimHost>,
    /// The switches in the order of the file, with their gRPC addresses.
    pub switches: Vec<(NodeId, u64, SocketAddr)>,
    pub hosts: Vec<NodeId>,
}

impl Network {
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
        serde_json::from_slice(&text).map_err(|error| anyhow!("{shown}: {error}"))
    }

    pub fn build(self) -> Result<Built> {
        let Params {
            nic,
            dscp,
            ndp,
            scdp,
            tcp,
            pacer,
            ..
        } = self.params;
        let suite = Suite {
            // Nobody wakes up late in virtual time.
            nic: NicParams {
                catch_up_packets: 0,
                ..nic
            },
            dscp,
            ndp,
            scdp,
            tcp,
            pacer,
        };
        suite.validate().map_err(anyhow::Error::msg)?;
        let addresses: BTreeMap<_, _> = self.hosts.iter().map(|h| (h.name.clone(), h.ip)).collect();
        let mut starts = schedule(self.flows, &addresses)?;
        let mut simulation = Simulation::new();
        let mut ids = BTreeMap::new();
        let mut switches = Vec::new();
        for entry in self.switches {
            let options = SwitchOptions {
                name: entry.name.clone(),
                device_id: entry.device_id,
                cpu_port: entry.cpu_port,
                drop_port: entry.drop_port,
            };
            let switch = Switch::new(options, entry.traffic_manager)
                .with_context(|| format!("traffic manager of {}", entry.name))?;
            let id = simulation.add_switch(switch);
            ids.insert(entry.name, id);
            switches.push((id, entry.device_id, entry.grpc_server_addr));
        }
        let mut hosts = Vec::new();
        for (seed, entry) in (self.seed..).zip(self.hosts) {
            let transport = self
                .scheme
                .transport(entry.ip, &suite, EPHEMERAL_PORTS, seed)
                .map_err(anyhow::Error::msg)?;
            let identity = Identity {
                name: entry.name.clone(),
                mac: entry.mac.parse()?,
                gateway: entry.gateway_mac.parse()?,
            };
            let starts = starts.remove(&entry.name).unwrap_or_default();
            let host = SimHost::new(identity, transport, suite.nic, starts)?;
            let id = simulation.add_host(host);
            if ids.insert(entry.name.clone(), id).is_some() {
                bail!("two nodes have the name {}", entry.name);
            }
            hosts.push(id);
        }
        for [a, b] in self.links {
            let end = |end: &End| -> Result<NodePort> {
                let node = ids
                    .get(&end.node)
                    .with_context(|| format!("link to {}: there is no such node", end.node))?;
                Ok(NodePort {
                    node: *node,
                    port: end.port,
                })
            };
            simulation.connect(end(&a)?, end(&b)?)?;
        }
        Ok(Built {
            simulation,
            switches,
            hosts,
        })
    }
}

/// The flows of each host, by time.
fn schedule(
    flows: Vec<FlowEntry>,
    addresses: &BTreeMap<String, Ipv4Addr>,
) -> Result<BTreeMap<String, VecDeque<Start>>> {
    let mut starts: BTreeMap<String, VecDeque<Start>> = BTreeMap::new();
    for flow in flows {
        for host in [&flow.from, &flow.to] {
            if !addresses.contains_key(host) {
                bail!("flow {}: there is no host {host}", flow.id);
            }
        }
        if flow.from == flow.to {
            bail!("flow {}: {} sends to itself", flow.id, flow.from);
        }
        starts.entry(flow.from).or_default().push_back(Start {
            id: flow.id,
            at: Instant::from_nanos(flow.start_at_ns),
            to: addresses[&flow.to],
            bytes: flow.bytes,
            priority: flow.priority,
        });
    }
    for flows in starts.values_mut() {
        flows.make_contiguous().sort_by_key(|start| start.at);
    }
    Ok(starts)
}
