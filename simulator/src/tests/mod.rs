//! Networks of switches that run `router.p4`, without gRPC: routes are entered here.

mod arrivals;
mod closed_forms;
mod determinism;
mod external;
mod faults;
mod files;
mod hosts;
mod machines;
mod nics;
mod scavenger;
mod skipping;
mod transfers;
mod transports;
mod unended;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::source::SourceMap;
use ebb_pipeline::control::{ActionCall, MatchKey, Replica, TableAction, TableEntry};
use ebb_pipeline::{Pipeline, Program};
use ebb_transport::Role;
use ebb_units::Instant;
use serde_json::{Value, json};

use crate::build::Built;
use crate::host::{Arrivals, Ended, Notice};
use crate::network::Network;
use crate::run::Run;

const RATE_BPS: u64 = 1_000_000_000;
/// Delay of every link, in both directions.
const DELAY_NS: u64 = 1_000;
const MTU: u64 = 1500;
const ETHERNET: u64 = 14;

/// Compiled once.
fn router() -> Arc<Program> {
    static PROGRAM: OnceLock<Arc<Program>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let options = ebb_p4c::preprocess::Options::default();
        let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
        let text = include_str!("router.p4");
        let compiled =
            ebb_p4c::compile("router.p4", text, &options, &mut sources, &diagnostics).expect("ok");
        Program::load(&compiled.json).expect("loadable")
    });
    program.clone()
}

/// A tree of switches with hosts.
struct Topology {
    /// Hosts of each switch.
    hosts: Vec<usize>,
    /// Switches that are joined.
    links: Vec<(usize, usize)>,
    /// Packets in a data queue.
    queue_packets: u64,
}

impl Topology {
    /// Switches in a row, a host on the first and one on the last.
    fn path(switches: usize) -> Self {
        let mut hosts = vec![0; switches];
        hosts[0] += 1;
        hosts[switches - 1] += 1;
        Topology {
            hosts,
            links: (1..switches).map(|s| (s - 1, s)).collect(),
            queue_packets: 1000,
        }
    }

    fn star(hosts: usize) -> Self {
        Topology {
            hosts: vec![hosts],
            links: Vec::new(),
            queue_packets: 8,
        }
    }

    /// Racks around one switch in the middle.
    fn racks(racks: usize, hosts: usize) -> Self {
        let mut all = vec![hosts; racks];
        all.push(0);
        Topology {
            hosts: all,
            links: (0..racks).map(|rack| (rack, racks)).collect(),
            queue_packets: 8,
        }
    }

    /// Names, addresses and switches of the hosts.
    fn places(&self) -> Vec<(String, String, usize)> {
        let mut places = Vec::new();
        for (switch, hosts) in self.hosts.iter().enumerate() {
            for index in 0..*hosts {
                let name = format!("h{}", places.len() + 1);
                places.push((name, format!("10.0.{switch}.{}", index + 2), switch));
            }
        }
        places
    }

    /// All links with their ports: of switches from 1, of hosts 0.
    fn wired(&self) -> Vec<[(String, u16); 2]> {
        let mut ports = vec![0u16; self.hosts.len()];
        let mut next = |switch: usize| {
            ports[switch] += 1;
            (format!("s{switch}"), ports[switch])
        };
        let places = self.places();
        let host_links = places
            .into_iter()
            .map(|(name, _, switch)| [(name, 0), next(switch)]);
        let mut links: Vec<_> = host_links.collect();
        links.extend(self.links.iter().map(|&(a, b)| [next(a), next(b)]));
        links
    }

    /// The network file.
    fn network(&self, transport: &str) -> Value {
        let queue = |id: u8, packets: Option<u64>| json!({"id": id, "capacity_packets": packets, "on_full": "deflect"});
        let manager = json!({
            "profile": [{
                "name": "link",
                "rate_bps": RATE_BPS,
                "delay_ns": DELAY_NS,
                "rx_delay_ns": DELAY_NS,
                "queue": [queue(0, Some(self.queue_packets)), queue(7, None)],
            }],
            "ports": {"default": "link"},
        });
        let switches: Vec<Value> = (0..self.hosts.len())
            .map(|index| {
                json!({
                    "name": format!("s{index}"),
                    "device_id": index,
                    "grpc_server_addr": "127.0.0.1:0",
                    "cpu_port": 510,
                    "drop_port": 511,
                    "traffic_manager": manager,
                })
            })
            .collect();
        let hosts: Vec<Value> = self
            .places()
            .into_iter()
            .map(|(name, ip, switch)| {
                json!({
                    "name": name,
                    "mac": format!("02:00:00:00:00:{:02x}", name[1..].parse::<u8>().unwrap()),
                    "ip": ip,
                    "gateway_mac": "02:ff:00:00:00:00",
                    "rack": format!("r{switch}"),
                    "pod": "p0",
                })
            })
            .collect();
        let end = |(node, port): &(String, u16)| json!({"node": node, "port": port});
        let links: Vec<Value> = self
            .wired()
            .iter()
            .map(|[a, b]| json!([end(a), end(b)]))
            .collect();
        json!({
            "scheme": transport,
            "params": {"nic": {"rate_bps": RATE_BPS, "mtu_bytes": MTU}},
            "seed": 1,
            "switches": switches,
            "hosts": hosts,
            "links": links,
            "content": "pattern",
        })
    }

    /// Port of each switch towards each other node.
    fn routes(&self) -> BTreeMap<(String, String), u16> {
        let mut ports: BTreeMap<String, Vec<(u16, String)>> = BTreeMap::new();
        for [a, b] in self.wired() {
            ports
                .entry(a.0.clone())
                .or_default()
                .push((a.1, b.0.clone()));
            ports.entry(b.0).or_default().push((b.1, a.0));
        }
        let mut routes = BTreeMap::new();
        for from in ports.keys() {
            for (port, neighbour) in &ports[from] {
                // In a tree everything behind a port is reached by it.
                let mut found = BTreeSet::from([from.clone()]);
                let mut next = VecDeque::from([neighbour.clone()]);
                while let Some(node) = next.pop_front() {
                    if found.insert(node.clone()) {
                        routes.insert((from.clone(), node.clone()), *port);
                        next.extend(ports[&node].iter().map(|(_, far)| far.clone()));
                    }
                }
            }
        }
        routes
    }

    /// The network with programs and routes, as the controller would leave it.
    fn build(&self, network: Value) -> Built {
        let network: Network = serde_json::from_value(network).expect("a network");
        let mut built = network.build().expect("buildable");
        let routes = self.routes();
        let places = self.places();
        let names: Vec<String> = built.planned.iter().map(|(_, name)| name.clone()).collect();
        let mut groups = Vec::new();
        for (number, (address, receivers)) in (1..).zip(&built.survey.groups) {
            let members = receivers.iter().map(|host| names[host.index()].clone());
            groups.push((number, *address, members.collect::<Vec<_>>()));
        }
        let nodes: Vec<_> = built.switches.iter().map(|s| s.node).collect();
        for (index, node) in nodes.into_iter().enumerate() {
            let switch = format!("s{index}");
            built.simulation.with_switch(node, |s| {
                let mut pipeline = Pipeline::new(router());
                for (number, (name, ip, _)) in (1u8..).zip(&places) {
                    let port = routes[&(switch.clone(), name.clone())];
                    let mac = vec![2, 0, 0, 0, 0, number];
                    let parameters = vec![port.to_be_bytes().to_vec(), mac];
                    let ip: std::net::Ipv4Addr = ip.parse().unwrap();
                    route(&mut pipeline, ip, "forward", parameters);
                }
                for (number, address, members) in &groups {
                    let ports = members.iter().map(|m| routes[&(switch.clone(), m.clone())]);
                    // All but what the sender is behind: the egress drops what would go back.
                    let ports: BTreeSet<u16> = ports.collect();
                    let replicas = ports.into_iter().map(|port| Replica { port, instance: 1 });
                    pipeline
                        .insert_multicast_group(*number, replicas.collect())
                        .expect("a new group");
                    let group = vec![number.to_be_bytes().to_vec()];
                    route(&mut pipeline, *address, "multicast", group);
                }
                s.install(pipeline).expect("nothing is exported");
            });
        }
        built
    }

    fn run(&self, network: Value) -> Outcome {
        self.run_on(network, 1)
    }

    fn run_on(&self, network: Value, threads: usize) -> Outcome {
        self.run_with(network, threads, |_| {})
    }

    /// `before`: what happens before the clock runs.
    fn run_with(&self, network: Value, threads: usize, before: impl FnOnce(&mut Run)) -> Outcome {
        let mut built = self.build(network);
        built.simulation.spread(threads);
        let (mut run, _) = Run::new(built).unwrap();
        before(&mut run);
        let mut outcome = Outcome::default();
        while !run.is_over() && run.simulation.now() < Instant::from_nanos(60_000_000_000) {
            run.advance(Instant::from_nanos(60_000_000_000), |_, _| false);
            let told = run.report(|host, told| -> Result<(), ()> {
                match told {
                    Notice::Flow(ended) => outcome.flows.push((host.to_owned(), *ended)),
                    Notice::Failed { open, reason } => {
                        outcome.failed.push((open.transfer.id, reason));
                    }
                    Notice::NotStarted(open) => {
                        outcome
                            .not_started
                            .push((open.transfer.id, open.not_started()));
                    }
                    Notice::Arrivals { transfer, arrivals } => {
                        outcome.arrivals.insert(transfer, arrivals);
                    }
                }
                Ok(())
            });
            told.unwrap();
        }
        let open = run.incomplete();
        outcome.open = open
            .map(|(_, flow)| (flow.open.transfer.id, flow.arrived_bytes))
            .collect();
        outcome.unfinished = run.rest().count();
        outcome.drops = run
            .simulation
            .switches()
            .map(|(_, s)| s.drops().map(|(_, _, count)| count.packets).sum::<u64>())
            .sum();
        let wired = self.wired();
        for (index, (_, switch)) in run.simulation.switches().enumerate() {
            let name = format!("s{index}");
            for port in switch.statistics() {
                let here = (name.clone(), port.port);
                let peer = wired.iter().find_map(|[a, b]| match &here {
                    near if near == a => Some(&b.0),
                    near if near == b => Some(&a.0),
                    _ => None,
                });
                if let Some(peer) = peer {
                    let way = (name.clone(), peer.clone());
                    outcome.sent.insert(way, port.transmitted.bytes);
                }
            }
        }
        outcome.trace = run.simulation.trace_hash();
        outcome.at = run.simulation.now();
        outcome.done = (run.done().ended, run.done().unfinished);
        outcome
    }
}

fn route(pipeline: &mut Pipeline, to: std::net::Ipv4Addr, action: &str, params: Vec<Vec<u8>>) {
    let table = pipeline.table("IngressImpl.route").expect("a table");
    let name = format!("IngressImpl.{action}");
    let action = pipeline.table_action(table, &name).expect("an action");
    let entry = TableEntry {
        key: vec![MatchKey::Exact(to.octets().to_vec())],
        priority: 0,
        action: TableAction::Direct(ActionCall { action, params }),
        idle_timeout: None,
        metadata: Vec::new(),
    };
    pipeline
        .insert_entry(Instant::ZERO, table, entry)
        .expect("room");
}

#[derive(Default)]
struct Outcome {
    /// With the host that says so.
    flows: Vec<(String, Ended)>,
    failed: Vec<(u64, String)>,
    not_started: Vec<(u64, String)>,
    arrivals: BTreeMap<u64, Arrivals>,
    /// Objects that are open at the end: transfer, and bytes that have arrived.
    open: Vec<(u64, u64)>,
    unfinished: usize,
    drops: u64,
    /// Bytes that each port of a switch has sent, on the way to this node.
    sent: BTreeMap<(String, String), u64>,
    trace: u64,
    at: Instant,
    /// Ended, and not.
    done: (u64, u64),
}

impl Outcome {
    fn of(&self, role: Role, transfer: u64) -> Vec<&Ended> {
        let of = |ended: &&Ended| {
            let id = ended.open.as_ref().map(|open| open.transfer.id);
            ended.record.role == role && id == Some(transfer)
        };
        self.flows
            .iter()
            .map(|(_, ended)| ended)
            .filter(of)
            .collect()
    }

    fn sender(&self, transfer: u64) -> &Ended {
        self.of(Role::Sender, transfer)[0]
    }

    fn receiver(&self, transfer: u64) -> &Ended {
        self.of(Role::Receiver, transfer)[0]
    }

    /// Everything arrived, whole.
    fn assert_good(&self) {
        for (host, ended) in &self.flows {
            assert_eq!(
                ended.record.status,
                ebb_transport::Status::Finished,
                "{host}: {:?}",
                ended.record
            );
            let receiver = ended.record.role == Role::Receiver;
            assert_eq!(ended.intact, receiver.then_some(true), "{host}");
            let open = ended.open.as_ref().expect("a flow of a transfer");
            let object = ended.header.as_ref().expect("known");
            assert_eq!(object.content_bytes, open.transfer.bytes);
        }
        assert_eq!(self.failed, []);
        assert_eq!(self.unfinished, 0);
        assert_eq!(self.done.1, 0, "{:?}", self.done);
    }
}

fn with(mut network: Value, key: &str, value: Value) -> Value {
    network[key] = value;
    network
}

/// A lone object from the first to the last host.
fn lone(bytes: u64, start_ns: u64, hosts: usize) -> Value {
    json!([{
        "id": 0,
        "start_ns": start_ns,
        "sources": ["h1"],
        "destinations": [format!("h{hosts}")],
        "bytes": bytes,
    }])
}
