//! A whole network under a virtual clock: switches, hosts and the links between them, as a
//! discrete-event simulation that runs on several cores and gives the same result on any number.
//!
//! Nodes (switches and hosts) share nothing but links. What a node sends reaches another one after
//! the link's delay at the earliest, so all nodes can run through a window as long as the shortest
//! delay without hearing from each other (conservative synchronisation; Chandy and Misra 1979,
//! bounded lag: Lubachevsky 1989). In a window every node works off its own events in the order of
//! their time; events of the same time in an order that depends on the links only. Nothing that
//! happens depends on which node runs first, or where.

mod event;
mod node;
mod partition;
mod rendezvous;

use std::thread;

use ebb_units::{Duration, Instant};
use thiserror::Error;

use crate::switch::{PortId, Switch};
use node::Node;
use partition::Partition;
use rendezvous::Rendezvous;

pub use node::Host;

/// A switch or a host of a [`Simulation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// A port of a node. A host has port 0 only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePort {
    pub node: NodeId,
    pub port: PortId,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LinkError {
    #[error("port {port} of \"{node}\" has a link already")]
    Taken { node: String, port: PortId },
    #[error("port {port} of switch \"{node}\" is its {role}; connect another port")]
    Reserved {
        node: String,
        port: PortId,
        role: &'static str,
    },
}

/// What a simulation has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Frames that arrived at switches: each went through a P4 pipeline.
    pub packet_hops: u64,
    pub events: u64,
}

/// Where a node is: which partition runs it, and its place there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    partition: u32,
    index: u32,
}

pub struct Simulation<H> {
    /// At least one. Empty except the first until [`spread`](Self::spread).
    partitions: Vec<Partition<H>>,
    addresses: Vec<Address>,
    /// No link is faster.
    window: Duration,
    now: Instant,
}

impl<H: Host> Simulation<H> {
    pub fn new() -> Self {
        Self {
            partitions: vec![Partition::default()],
            addresses: Vec::new(),
            window: Duration::MAX,
            now: Instant::ZERO,
        }
    }

    pub fn add_switch(&mut self, switch: Switch) -> NodeId {
        self.add(Node::switch(switch))
    }

    pub fn add_host(&mut self, host: H) -> NodeId {
        self.add(Node::host(host))
    }

    fn add(&mut self, node: Node<H>) -> NodeId {
        let index = self.partitions[0].add(node);
        self.addresses.push(Address {
            partition: 0,
            index,
        });
        NodeId(self.addresses.len() - 1)
    }

    /// Joins two ports. Rate and delay of each direction are those of the sending switch port's
    /// profile; a host has its own serialiser, and the switch port's `rx_delay` is its delay.
    pub fn connect(&mut self, a: NodePort, b: NodePort) -> Result<(), LinkError> {
        let now = self.now;
        for near in [a, b] {
            self.node_mut(near.node).check_port(near.port)?;
        }
        for (near, far) in [(a, b), (b, a)] {
            let address = self.addresses[far.node.0];
            self.node_mut(near.node)
                .connect(now, near.port, address, far.port);
        }
        Ok(())
    }

    pub fn now(&self) -> Instant {
        self.now
    }

    pub fn switch(&self, id: NodeId) -> Option<&Switch> {
        self.node(id).as_switch()
    }

    pub fn host(&self, id: NodeId) -> Option<&H> {
        self.node(id).as_host()
    }

    /// Gives access to a switch at the present time; packets it wants to send are sent.
    pub fn with_switch<R>(&mut self, id: NodeId, f: impl FnOnce(&mut Switch) -> R) -> Option<R> {
        let (address, now) = (self.addresses[id.0], self.now);
        let partition = &mut self.partitions[address.partition as usize];
        let result = partition.with_switch(address.index, now, f);
        self.deliver();
        result
    }

    /// Gives access to a host; it is woken when it then wants to be.
    pub fn with_host<R>(&mut self, id: NodeId, f: impl FnOnce(&mut H) -> R) -> Option<R> {
        let address = self.addresses[id.0];
        self.partitions[address.partition as usize].with_host(address.index, f)
    }

    pub fn switches(&self) -> impl Iterator<Item = (NodeId, &Switch)> {
        self.ids()
            .filter_map(|id| Some((id, self.node(id).as_switch()?)))
    }

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

    /// Spreads the nodes over `partitions` threads, in the order in which they were added: nodes that
    /// talk to each other should have been added next to each other.
    pub fn spread(&mut self, partitions: usize) {
        let partitions = partitions.clamp(1, self.addresses.len().max(1));
        let mut nodes: Vec<Option<Node<H>>> = (0..self.addresses.len()).map(|_| None).collect();
        for (id, address) in self.addresses.iter().enumerate() {
            let node =
                &mut self.partitions[address.partition as usize].nodes[address.index as usize];
            nodes[id] = Some(std::mem::take(node));
        }
        let mut moved: Vec<Partition<H>> = (0..partitions).map(|_| Partition::default()).collect();
        let before = self.addresses.clone();
        let count = nodes.len();
        for (id, node) in nodes.into_iter().flatten().enumerate() {
            let partition = id * partitions / count;
            let index = moved[partition].add(node);
            self.addresses[id] = Address {
                partition: partition as u32,
                index,
            };
        }
        let address_of = |old: Address| {
            let same = |a: &Address| a.partition == old.partition && a.index == old.index;
            before.iter().position(same).map(|id| self.addresses[id])
        };
        // Positions are looked up once per link; networks have thousands at most.
        for (number, partition) in moved.iter_mut().enumerate() {
            partition.prepare(number as u32, partitions, &address_of);
        }
        self.partitions = moved;
    }

    /// When something happens next.
    pub fn next_event(&self) -> Option<Instant> {
        self.partitions
            .iter()
            .filter_map(Partition::next_event)
            .min()
    }

    /// Lets everything happen that is due before `end`, or until `stop` says so, which is asked
    /// every now and then with the time reached. The clock then shows `end`, or where it stopped.
    pub fn run_until(&mut self, end: Instant, stop: impl FnMut(Instant, Work) -> bool + Send) {
        self.measure_host_links();
        self.window = self
            .partitions
            .iter()
            .map(Partition::shortest_delay)
            .min()
            .unwrap_or(Duration::MAX);
        self.deliver();
        let reached = if self.partitions.len() == 1 || self.window.is_zero() {
            self.run_alone(end, stop)
        } else {
            self.run_together(end, stop)
        };
        self.now = self.now.max(reached);
    }

    /// Of a host's link the switch knows the delay, and that may have changed.
    fn measure_host_links(&mut self) {
        for id in self.ids() {
            let host = self.node(id).as_host().is_some();
            if let Some((to, port)) = self.node(id).far_end(0).filter(|_| host) {
                let far = &self.partitions[to.partition as usize].nodes[to.index as usize];
                let delay = far.as_switch().map_or(Duration::ZERO, |s| s.rx_delay(port));
                self.node_mut(id).set_delay(0, delay);
            }
        }
    }

    fn run_alone(&mut self, end: Instant, mut stop: impl FnMut(Instant, Work) -> bool) -> Instant {
        let mut rounds = 0u64;
        while let Some(next) = self.next_event() {
            if next >= end {
                break;
            }
            let horizon = horizon(next, self.window, end);
            for partition in &mut self.partitions {
                partition.run(horizon);
            }
            self.deliver();
            rounds += 1;
            if rounds.is_multiple_of(ASK_EVERY) && stop(next, self.work()) {
                return next;
            }
        }
        end
    }

    /// One thread per partition. They agree on every window, and hand over frames between two windows.
    fn run_together(
        &mut self,
        end: Instant,
        stop: impl FnMut(Instant, Work) -> bool + Send,
    ) -> Instant {
        let window = self.window;
        let meeting = Rendezvous::new(self.partitions.len());
        let meeting = &meeting;
        let mut stop = Some(stop);
        thread::scope(|scope| {
            let runs: Vec<_> = self
                .partitions
                .iter_mut()
                .enumerate()
                .map(|(number, partition)| {
                    let ask = if number == 0 { stop.take() } else { None };
                    scope.spawn(move || run_partition(partition, number, meeting, window, end, ask))
                })
                .collect();
            // A panic in a partition is one of ours, and goes on here.
            let reached = runs.into_iter().map(|run| match run.join() {
                Ok(reached) => reached,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            reached.min().unwrap_or(end)
        })
    }

    /// Hands over the frames that left one partition for another.
    fn deliver(&mut self) {
        for from in 0..self.partitions.len() {
            for to in 0..self.partitions.len() {
                let crossing = self.partitions[from].take_crossing(to);
                self.partitions[to].accept(crossing);
            }
        }
    }

    pub fn work(&self) -> Work {
        let works = self.partitions.iter().map(Partition::work);
        works.fold(Work::default(), |sum, work| Work {
            packet_hops: sum.packet_hops + work.packet_hops,
            events: sum.events + work.events,
        })
    }

    /// A hash of everything that happened at every node, in its order: two runs with the same hash
    /// were the same.
    pub fn trace_hash(&self) -> u64 {
        self.ids()
            .fold(0, |hash, id| event::mix(hash, self.node(id).trace_hash()))
    }
}

impl<H: Host> Default for Simulation<H> {
    fn default() -> Self {
        Self::new()
    }
}

/// Windows between two questions whether to stop.
const ASK_EVERY: u64 = 1024;

/// Until when all nodes can run if the next event is at `next`: exclusive, and after `next` even
/// where a link without delay makes windows of a picosecond.
fn horizon(next: Instant, window: Duration, end: Instant) -> Instant {
    (next + window.max(Duration::from_picos(1))).min(end)
}

fn run_partition<H: Host>(
    partition: &mut Partition<H>,
    number: usize,
    meeting: &Rendezvous,
    window: Duration,
    end: Instant,
    mut stop: Option<impl FnMut(Instant, Work) -> bool>,
) -> Instant {
    // A partition that panics must not leave the others waiting.
    let _leaving = meeting.guard();
    let mut rounds = 0u64;
    loop {
        let asked = rounds.is_multiple_of(ASK_EVERY);
        meeting.post(number, partition.next_event());
        if asked {
            meeting.post_work(number, partition.work());
        }
        // What the others have done is as of the last time: good enough for a progress bar.
        if asked
            && let Some(stop) = &mut stop
            && stop(meeting.last_start(), meeting.work())
        {
            meeting.stop();
        }
        let Some(next) = meeting.agree() else {
            return meeting.last_start();
        };
        if next >= end {
            return end;
        }
        partition.run(horizon(next, window, end));
        meeting.exchange(number, partition);
        rounds += 1;
    }
}
