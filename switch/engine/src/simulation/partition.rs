//! The nodes that one thread runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ebb_units::{Duration, Instant};

use super::node::{Crossing, Host, Node};
use super::{Address, Work};
use crate::switch::Switch;

pub(super) struct Partition<H> {
    number: u32,
    pub nodes: Vec<Node<H>>,
    /// When which node has something to do. An entry counts if it is the node's `listed` time.
    list: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Frames for nodes of other partitions.
    crossing: Vec<Vec<Crossing>>,
    sent: Vec<Crossing>,
}

impl<H> Default for Partition<H> {
    fn default() -> Self {
        Self {
            number: 0,
            nodes: Vec::new(),
            list: BinaryHeap::new(),
            crossing: vec![Vec::new()],
            sent: Vec::new(),
        }
    }
}

impl<H: Host> Partition<H> {
    pub fn add(&mut self, node: Node<H>) -> u32 {
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    /// To be called when the nodes of all partitions are in place.
    pub fn prepare(
        &mut self,
        number: u32,
        partitions: usize,
        address_of: &impl Fn(Address) -> Option<Address>,
    ) {
        self.number = number;
        self.crossing = (0..partitions).map(|_| Vec::new()).collect();
        for index in 0..self.nodes.len() {
            self.nodes[index].relocate(address_of);
            self.nodes[index].listed = Instant::FAR_FUTURE;
            self.enlist(index as u32);
        }
    }

    pub fn shortest_delay(&self) -> Duration {
        let delays = self.nodes.iter().map(Node::shortest_delay);
        delays.min().unwrap_or(Duration::MAX)
    }

    pub fn work(&self) -> Work {
        Work {
            packet_hops: self.nodes.iter().map(|n| n.packet_hops).sum(),
            events: self.nodes.iter().map(|n| n.events).sum(),
        }
    }

    pub fn next_event(&self) -> Option<Instant> {
        Some(self.list.peek()?.0.0)
    }

    /// Notes when the node has something to do next.
    fn enlist(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        if let Some(next) = node.next_event()
            && next < node.listed
        {
            node.listed = next;
            self.list.push(Reverse((next, index)));
        }
    }

    /// Lets every node work off its events before `horizon`.
    pub fn run(&mut self, horizon: Instant) {
        while let Some(&Reverse((at, index))) = self.list.peek()
            && at < horizon
        {
            self.list.pop();
            let node = &mut self.nodes[index as usize];
            if node.listed != at {
                continue;
            }
            node.listed = Instant::FAR_FUTURE;
            node.run(horizon, &mut self.sent);
            self.enlist(index);
            self.dispatch();
        }
    }

    /// Puts what a node sent where it belongs.
    fn dispatch(&mut self) {
        let mut sent = std::mem::take(&mut self.sent);
        for crossing in sent.drain(..) {
            if crossing.to.partition == self.number {
                self.place(crossing);
            } else {
                self.crossing[crossing.to.partition as usize].push(crossing);
            }
        }
        self.sent = sent;
    }

    fn place(&mut self, crossing: Crossing) {
        let Crossing { to, at, event } = crossing;
        let node = &mut self.nodes[to.index as usize];
        node.push(at, event);
        if at < node.listed {
            node.listed = at;
            self.list.push(Reverse((at, to.index)));
        }
    }

    pub fn take_crossing(&mut self, to: usize) -> Vec<Crossing> {
        std::mem::take(&mut self.crossing[to])
    }

    pub fn accept(&mut self, crossing: Vec<Crossing>) {
        for crossing in crossing {
            self.place(crossing);
        }
    }

    pub fn with_switch<R>(
        &mut self,
        index: u32,
        now: Instant,
        f: impl FnOnce(&mut Switch) -> R,
    ) -> Option<R> {
        let node = &mut self.nodes[index as usize];
        let switch = node.as_switch_mut()?;
        switch.advance(now);
        let result = f(switch);
        node.collect(&mut self.sent);
        self.enlist(index);
        self.dispatch();
        Some(result)
    }

    pub fn with_host<R>(&mut self, index: u32, f: impl FnOnce(&mut H) -> R) -> Option<R> {
        let node = &mut self.nodes[index as usize];
        let result = f(node.as_host_mut()?);
        self.enlist(index);
        Some(result)
    }
}
