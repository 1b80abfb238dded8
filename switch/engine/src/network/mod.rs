//! A network: nodes (switches and hosts), the links between them, and the partitions that run them.
//! Both clocks use it.
//!
//! Nodes share nothing but links. In a partition each node works off its own events by time, and
//! events of the same time in an order that depends only on its links
//! ([`event_queue::EventQueue`]). So nothing depends on which node runs first, or where. What a
//! node sends reaches another one no sooner than after the link's delay. Hence the nodes of a
//! partition take turns as long as the shortest delay between them, and partitions must hear from
//! each other only as often as the shortest delay between *them* demands. How they do that is up to
//! the clock: [`simulation`](crate::simulation), or a user of [`drive`](crate::drive).

mod access;
mod arrivals;
mod calendar;
mod event;
mod event_queue;
mod host;
mod link;
mod node;
mod partition;
mod plan;
mod samples;
mod trace;

use ebb_units::{Duration, Instant};
use thiserror::Error;

use crate::capture::OpenSink;
use crate::control::{Command, NodeControl, Request};
use crate::switch::{PortId, Switch};
use access::{Access, Settings};
use calendar::Address;
use event_queue::EventQueue;
use node::Node;
use plan::Edge;
use samples::Sampler;

pub use calendar::Crossing;
pub use host::Host;
pub use link::{LinkInfo, LinkState, LinkStateError};
pub use partition::Partition;
pub use samples::QueueSample;

/// The number of a switch or host in its [`Network`], counted from 0 in the order of being added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// A port of a node. A host has only port 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodePort {
    /// The node.
    pub node: NodeId,
    /// The number of its port.
    pub port: PortId,
}

/// A request that a network cannot fulfil.
#[derive(Clone, Debug, PartialEq, Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
pub enum NetworkError {
    /// A port already has a link.
    #[error("port {port} of \"{node}\" is connected twice; a port has one link or interface")]
    Taken { node: String, port: PortId },
    /// A port of a switch serves another purpose.
    #[error("port {port} of switch \"{node}\" is its {role}; connect another port")]
    Reserved {
        node: String,
        port: PortId,
        role: &'static str,
    },
    /// The program of a switch has no room for the port.
    #[error("port {port} of switch \"{node}\": {problem}")]
    Unfit {
        node: String,
        port: PortId,
        problem: String,
    },
    /// A port has no link.
    #[error("port {port} of \"{node}\" has no link")]
    NoLink { node: String, port: PortId },
    /// The node is a host, and only a switch will do.
    #[error("\"{node}\" is no switch")]
    NotASwitch { node: String },
    /// A link cannot have this state.
    #[error("link of \"{node}\", port {port}: {problem}")]
    LinkState {
        node: String,
        port: PortId,
        problem: LinkStateError,
    },
    /// No capture runs at the port.
    #[error("no capture runs at port {port} of \"{node}\"")]
    NoCapture { node: String, port: PortId },
    /// A capture failed; the text says what and where.
    #[error("{0}")]
    Capture(String),
}

/// How much a network has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Frames that arrived at switches, each of which went through a P4 pipeline.
    pub packet_hops: u64,
    /// Events at all nodes.
    pub events: u64,
}

/// Which links may lead from one partition to another.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Shorter links stay within a partition.
    pub least_delay: Duration,
    /// Whether links to hosts may be cut.
    pub hosts: bool,
}

/// Switches and hosts of type `H`, with the links between them.
pub struct Network<H> {
    /// At least one partition. Until the nodes are spread, the first one has them all.
    partitions: Vec<Partition<H>>,
    /// Where each node is.
    addresses: Vec<Address>,
    /// The time that has been reached.
    now: Instant,
    /// Settings of all nodes.
    settings: Settings,
}

impl<H: Host> Network<H> {
    /// A network without nodes, at time zero.
    pub fn new() -> Self {
        Self {
            partitions: vec![Partition::new(0, 1)],
            addresses: Vec::new(),
            now: Instant::ZERO,
            settings: Settings::default(),
        }
    }

    /// Sets the seed from which it follows which frames links lose and corrupt; 1 by default.
    pub fn set_seed(&mut self, seed: u64) {
        self.set(Settings { seed });
    }

    fn set(&mut self, settings: Settings) {
        self.settings = settings;
        for partition in &mut self.partitions {
            partition.settings = settings;
        }
    }

    /// Adds a switch.
    pub fn add_switch(&mut self, switch: Switch) -> NodeId {
        let id = NodeId(self.addresses.len());
        self.add(Node::switch(id, switch))
    }

    /// Adds a host.
    pub fn add_host(&mut self, host: H) -> NodeId {
        let id = NodeId(self.addresses.len());
        self.add(Node::host(id, host))
    }

    /// Adds a node to the first partition. This must happen before the nodes are spread.
    fn add(&mut self, node: Node<H>) -> NodeId {
        let id = node.id();
        let index = self.partitions[0].add(node, EventQueue::new());
        self.addresses.push(Address {
            partition: 0,
            index,
        });
        id
    }

    /// Links two ports. Rate and delay of a direction are those in the profile of the switch port
    /// that sends. A host has a serialiser of its own, and the delay of its frames is the
    /// `rx_delay` of the switch port.
    pub fn connect(&mut self, a: NodePort, b: NodePort) -> Result<(), NetworkError> {
        let now = self.now;
        for near in [a, b] {
            self.node(near.node).check_port(near.port)?;
        }
        for (near, far) in [(a, b), (b, a)] {
            let address = self.addresses[far.node.0];
            self.node_mut(near.node)
                .connect(now, near.port, far, address);
        }
        Ok(())
    }

    /// The time that has been reached.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Moves the clock on; it never goes back.
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// The switch with this id; `None` if it is a host.
    pub fn switch(&self, id: NodeId) -> Option<&Switch> {
        self.node(id).as_switch()
    }

    /// The host with this id; `None` if it is a switch.
    pub fn host(&self, id: NodeId) -> Option<&H> {
        self.node(id).as_host()
    }

    /// The name of a node.
    pub fn name(&self, id: NodeId) -> &str {
        self.node(id).name()
    }

    /// All switches, in the order of their ids.
    pub fn switches(&self) -> impl Iterator<Item = (NodeId, &Switch)> {
        self.ids()
            .filter_map(|id| Some((id, self.node(id).as_switch()?)))
    }

    /// All hosts, in the order of their ids.
    pub fn hosts(&self) -> impl Iterator<Item = (NodeId, &H)> {
        self.ids()
            .filter_map(|id| Some((id, self.node(id).as_host()?)))
    }

    fn ids(&self) -> impl Iterator<Item = NodeId> + use<H> {
        (0..self.addresses.len()).map(NodeId)
    }

    fn node(&self, id: NodeId) -> &Node<H> {
        let address = self.addresses[id.0];
        &self.partitions[address.partition as usize].nodes[address.index as usize]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node<H> {
        let address = self.addresses[id.0];
        &mut self.partitions[address.partition as usize].nodes[address.index as usize]
    }

    /// Takes a node, with its events, out of its partition.
    fn take(&mut self, id: NodeId) -> (Node<H>, EventQueue) {
        let address = self.addresses[id.0];
        self.partitions[address.partition as usize].take(address.index)
    }

    /// Gives access to a switch at the present time; what it then wants to send is sent.
    pub fn with_switch<R>(&mut self, id: NodeId, f: impl FnOnce(&mut Switch) -> R) -> Option<R> {
        self.with_node(id, |access| access.node.as_switch_mut().map(f))
    }

    /// Gives access to a host, which is woken when it then wants to be.
    pub fn with_host<R>(&mut self, id: NodeId, f: impl FnOnce(&mut H) -> R) -> Option<R> {
        self.with_node(id, |access| access.node.as_host_mut().map(f))
    }

    fn with_node<R>(&mut self, id: NodeId, f: impl FnOnce(&mut Access<'_, H>) -> R) -> R {
        let (address, now) = (self.addresses[id.0], self.now);
        let partition = &mut self.partitions[address.partition as usize];
        let result = partition.with_node(address.index, now, f);
        self.deliver();
        result
    }

    /// Sets the state of a link in the direction in which this port sends.
    pub fn set_link(&mut self, from: NodePort, state: LinkState) -> Result<(), NetworkError> {
        self.with_node(from.node, |access| access.set_link(from.port, state))
    }

    /// The states of all directions of all links, ordered by node and port.
    pub fn link_states(&self) -> Vec<LinkInfo> {
        let ids = self.ids();
        ids.flat_map(|id| self.node(id).link_states()).collect()
    }

    /// Puts a switch into its initial state without a program: queues, tables and statistics are
    /// gone. Its listener stays and is not notified.
    pub fn restart_switch(&mut self, id: NodeId) -> Result<(), NetworkError> {
        self.with_node(id, |access| access.restart())
    }

    /// Captures what a switch port receives and sends. If a capture already runs there, it ends.
    pub fn start_capture(&mut self, at: NodePort, open: OpenSink) -> Result<(), NetworkError> {
        self.with_node(at.node, |access| access.start_capture(at.port, open))
    }

    /// Ends the capture at a port; what it recorded is complete then.
    pub fn stop_capture(&mut self, at: NodePort) -> Result<(), NetworkError> {
        self.with_node(at.node, |access| access.stop_capture(at.port))
    }

    /// Makes what captures have recorded so far visible to their readers.
    pub(crate) fn flush_captures(&mut self) {
        self.partitions
            .iter_mut()
            .for_each(Partition::flush_captures);
    }

    /// From now on samples the depths of these queues (port, queue) of a switch, every so often;
    /// earlier choices are forgotten.
    pub fn sample_queues(&mut self, switch: NodeId, queues: &[(PortId, u8)], every: Duration) {
        let sampler = Sampler::new(switch, queues.to_vec(), self.now, every);
        self.node_mut(switch).sampler = Some(Box::new(sampler));
    }

    /// The samples since the last call, ordered by time and then by switch.
    pub fn take_queue_samples(&mut self) -> Vec<QueueSample> {
        let now = self.now;
        let mut samples = Vec::new();
        for id in self.ids() {
            let node = self.node_mut(id);
            node.sample(now);
            if let Some(sampler) = &mut node.sampler {
                samples.extend(sampler.take());
            }
        }
        samples.sort_by_key(|sample| sample.at);
        samples
    }

    /// Does what another thread asks for through a [`ControlHandle`](crate::ControlHandle), at the
    /// present time. False if it asks for the end.
    pub fn obey(&mut self, command: Command) -> bool {
        let now = self.now;
        let goes_on = match command {
            Command(Request::At(id, work)) => {
                // A command for a node that does not exist is dropped, which its sender notices.
                if let Some(address) = self.addresses.get(id.0).copied() {
                    let partition = &mut self.partitions[address.partition as usize];
                    partition.with_node(address.index, now, |access| work(access));
                }
                true
            }
            Command(Request::Everywhere(mut work)) => {
                for partition in &mut self.partitions {
                    partition.with_all_nodes(now, &mut *work);
                }
                true
            }
            Command(Request::Stop) => false,
        };
        self.deliver();
        goes_on
    }

    /// Spreads the nodes over at most `parts` partitions, each with about the same number of link
    /// ends and with neighbours together.
    pub fn spread(&mut self, parts: usize, cut: Cut) {
        self.measure();
        let edges: Vec<Edge> = self.edges(cut).collect();
        let part_of = plan::plan(self.addresses.len(), &edges, parts);
        let parts = part_of.iter().max().map_or(1, |last| last + 1);
        let nodes: Vec<_> = self.ids().map(|id| self.take(id)).collect();
        let mut moved: Vec<Partition<H>> = (0..parts)
            .map(|number| Partition::new(number as u32, parts))
            .collect();
        for ((node, events), part) in nodes.into_iter().zip(part_of) {
            let id = node.id();
            self.addresses[id.0] = Address {
                partition: part as u32,
                index: moved[part].add(node, events),
            };
        }
        for partition in &mut moved {
            partition.prepare(&self.addresses);
        }
        self.partitions = moved;
        self.set(self.settings);
        self.measure();
    }

    /// The links as the plan of partitions sees them.
    fn edges(&self, cut: Cut) -> impl Iterator<Item = Edge> {
        let ids = self.ids();
        let directions = ids.flat_map(move |id| {
            let node = self.node(id);
            node.ports().map(move |(port, link)| {
                let far = self.node(link.peer.node);
                let back = far.link(link.peer.port);
                let back = back.map(|back| far.delay(link.peer.port, back));
                let delay = node.delay(port, link).min(back.unwrap_or(Duration::MAX));
                let host = node.as_host().is_some() || far.as_host().is_some();
                Edge {
                    ends: [id.0, link.peer.node.0],
                    tight: delay < cut.least_delay || host && !cut.hosts,
                }
            })
        });
        // Each link has two directions and counts once.
        directions.filter(|edge| edge.ends[0] <= edge.ends[1])
    }

    /// Learns the delays of all links, which the configuration of a switch may have changed.
    pub(crate) fn measure(&mut self) {
        for id in self.ids() {
            let host = self.node(id).as_host().is_some();
            let peer = self.node(id).link(0).map(|link| link.peer);
            if let Some(peer) = peer.filter(|_| host) {
                let far = self.node(peer.node).as_switch();
                let delay = far.map_or(Duration::ZERO, |s| s.rx_delay(peer.port));
                self.node_mut(id).set_delay(0, delay);
            }
        }
        self.partitions.iter_mut().for_each(Partition::measure);
    }

    /// The partitions, one for each thread; just one before [`spread`](Self::spread).
    pub fn partitions(&mut self) -> &mut [Partition<H>] {
        &mut self.partitions
    }

    /// The number of the partition that runs each node.
    pub fn partition_of(&self) -> impl Iterator<Item = u32> {
        self.addresses.iter().map(|address| address.partition)
    }

    /// The shortest delay of a link between two partitions; [`Duration::MAX`] without such links.
    pub(crate) fn lookahead(&self) -> Duration {
        let all = self.partitions.iter().flat_map(Partition::lookahead);
        all.min().copied().unwrap_or(Duration::MAX)
    }

    /// When the next event happens; `None` if none is pending.
    pub fn next_event(&self) -> Option<Instant> {
        let next = self.partitions.iter().filter_map(Partition::next_event);
        next.min()
    }

    /// Hands over the frames that go from one partition to another.
    pub fn deliver(&mut self) {
        for from in 0..self.partitions.len() {
            for to in 0..self.partitions.len() {
                let crossing = self.partitions[from].take_crossing(to);
                self.partitions[to].accept(crossing);
            }
        }
    }

    /// Work of all nodes so far.
    pub fn work(&self) -> Work {
        let works = self.partitions.iter().map(Partition::work);
        works.fold(Work::default(), |sum, work| Work {
            packet_hops: sum.packet_hops + work.packet_hops,
            events: sum.events + work.events,
        })
    }

    /// Says whether a hash is taken of all that happens from now on, as is the default.
    pub fn set_traced(&mut self, traced: bool) {
        for id in self.ids() {
            self.node_mut(id).set_traced(traced);
        }
    }

    /// A hash of everything that happened at every node, in order. Runs with the same hash were the
    /// same.
    pub fn trace_hash(&self) -> u64 {
        self.ids()
            .fold(0, |hash, id| trace::mix(hash, self.node(id).trace_hash()))
    }
}

impl<H: Host> Default for Network<H> {
    fn default() -> Self {
        Self::new()
    }
}
