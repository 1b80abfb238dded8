//! A partition: the nodes that one thread runs.

use ebb_pipeline::{Frames, Pool};
use ebb_units::{Duration, Instant};

use super::access::{Access, Settings};
use super::calendar::{Calendar, Crossing};
use super::event_queue::EventQueue;
use super::host::Host;
use super::node::Node;
use super::{Address, NodeId, Work};
use crate::control::{Command, NodeControl, Request};
use crate::drops::DropReason;
use crate::lateness::Late;
use crate::switch::{PortId, Switch};

/// The nodes that one thread runs, with the time of each one's next event.
pub struct Partition<H> {
    /// The nodes, ordered by id.
    pub(super) nodes: Vec<Node<H>>,
    /// Settings of all nodes of the network.
    pub(super) settings: Settings,
    /// Events to come at the nodes.
    calendar: Calendar,
    /// Memory for the packets of all switches, used in turn.
    pool: Pool,
    /// The shortest delay of a link between two of the nodes, without links of passive hosts.
    window: Duration,
    /// For each partition, the shortest delay of a link to it; [`Duration::MAX`] without links.
    lookahead: Vec<Duration>,
    /// Everything before this time has happened.
    ran_until: Instant,
}

impl<H: Host> Partition<H> {
    /// Partition `number` of so many, without nodes.
    pub(super) fn new(number: u32, partitions: usize) -> Self {
        Self {
            nodes: Vec::new(),
            settings: Settings::default(),
            calendar: Calendar::new(number, partitions),
            pool: Pool::default(),
            window: Duration::ZERO,
            lookahead: vec![Duration::MAX; partitions],
            ran_until: Instant::ZERO,
        }
    }

    /// Adds a node with its pending events and returns its index.
    pub(super) fn add(&mut self, node: Node<H>, events: EventQueue) -> u32 {
        self.nodes.push(node);
        self.calendar.add(events);
        (self.nodes.len() - 1) as u32
    }

    /// Takes a node, with its events, to another partition.
    pub(super) fn take(&mut self, index: u32) -> (Node<H>, EventQueue) {
        let node = std::mem::take(&mut self.nodes[index as usize]);
        (node, self.calendar.take(index))
    }

    /// Takes the partition of every node. To be called when the nodes of all partitions are in place.
    pub(super) fn prepare(&mut self, addresses: &[Address]) {
        for index in 0..self.nodes.len() {
            self.nodes[index].relocate(addresses);
            self.enlist(index as u32);
        }
    }

    /// Reads the delays of the links, which the configuration of a switch may have changed.
    pub fn measure(&mut self) {
        self.measure_host_links();
        self.window = Duration::MAX;
        self.lookahead = vec![Duration::MAX; self.calendar.partitions()];
        for node in &self.nodes {
            for (port, link) in node.ports() {
                let least = match link.to.partition == self.calendar.number() {
                    true if node.is_passive()
                        || self.nodes[link.to.index as usize].is_passive() =>
                    {
                        continue;
                    }
                    true => &mut self.window,
                    false => &mut self.lookahead[link.to.partition as usize],
                };
                *least = node.delay(port, link).min(*least);
            }
        }
    }

    /// Reads the delays of hosts' links at the switches at their other ends.
    fn measure_host_links(&mut self) {
        for index in 0..self.nodes.len() {
            let node = &self.nodes[index];
            let Some(link) = node.as_host().and_then(|_| node.link(0)) else {
                continue;
            };
            // If the switch is elsewhere, the network sets the delay.
            if link.to.partition == self.calendar.number() {
                let switch = self.nodes[link.to.index as usize].as_switch();
                let delay = switch.map_or(Duration::ZERO, |s| s.rx_delay(link.peer.port));
                self.nodes[index].set_delay(0, delay);
            }
        }
    }

    /// For each partition, the shortest time that a frame takes to get there.
    pub fn lookahead(&self) -> &[Duration] {
        &self.lookahead
    }

    /// Work of the nodes so far.
    pub fn work(&self) -> Work {
        Work {
            packet_hops: self.nodes.iter().map(|n| n.packet_hops).sum(),
            events: self.nodes.iter().map(|n| n.events).sum(),
        }
    }

    /// When the next event happens at a node; `None` if none is pending.
    pub fn next_event(&self) -> Option<Instant> {
        self.calendar.next_time()
    }

    /// Puts a node on the list for its next event, unless it is there for that time or earlier.
    fn enlist(&mut self, index: u32) {
        let node = &self.nodes[index as usize];
        if let Some(next) = node.next_event(self.calendar.of(index)) {
            self.calendar.enlist(index, next);
        }
    }

    /// Handles all events before `horizon`.
    pub fn run(&mut self, horizon: Instant) {
        while let Some(next) = self.next_event().filter(|next| *next < horizon) {
            self.take_turn(next, horizon);
        }
        self.ran_until = self.ran_until.max(horizon);
    }

    /// Like [`run`](Self::run), but for at most this many turns.
    pub fn run_some(&mut self, horizon: Instant, turns: usize) {
        for _ in 0..turns {
            match self.next_event().filter(|next| *next < horizon) {
                Some(next) => self.take_turn(next, horizon),
                None => {
                    self.ran_until = self.ran_until.max(horizon);
                    return;
                }
            }
        }
        // Everything before the next event has happened.
        let next = self.next_event().unwrap_or(horizon);
        self.ran_until = self.ran_until.max(next.min(horizon));
    }

    /// Lets each node handle its events in a window that begins with the next event, at `next`.
    /// The window is so short that no node hears from another one in it, and ends before `horizon`.
    // A function of its own: `tools/count_instructions` counts while it runs.
    #[inline(never)]
    pub(crate) fn take_turn(&mut self, next: Instant, horizon: Instant) {
        // Even where a link has no delay, the window must hold the next event.
        let window = self.window.max(Duration::from_picos(1));
        let horizon = horizon.min(next + window);
        while let Some(index) = self.calendar.pop_before(horizon) {
            let node = &mut self.nodes[index as usize];
            node.run(index, horizon, &mut self.calendar, &mut self.pool);
            self.enlist(index);
        }
    }

    /// Everything before has happened.
    pub fn ran_until(&self) -> Instant {
        self.ran_until
    }

    /// The frames that go to nodes of another partition.
    pub fn take_crossing(&mut self, to: usize) -> Vec<Crossing> {
        self.calendar.take_crossing(to)
    }

    /// Takes frames from another partition.
    pub fn accept(&mut self, crossing: impl IntoIterator<Item = Crossing>) {
        crossing
            .into_iter()
            .for_each(|each| self.calendar.deliver(each));
    }

    /// Takes frames from another partition that may come after their time; those arrive at the time
    /// reached here. Returns how many they are.
    pub fn accept_late(&mut self, crossing: impl IntoIterator<Item = Crossing>) -> u64 {
        let mut late = 0;
        for mut crossing in crossing {
            if crossing.at < self.ran_until {
                crossing.at = self.ran_until;
                late += 1;
            }
            self.calendar.deliver(crossing);
        }
        late
    }

    /// Sends a frame of a host whose last bit leaves it at this time.
    pub fn inject(&mut self, host: u32, at: Instant, frame: Vec<u8>) {
        self.nodes[host as usize].inject(at, frame, &mut self.calendar);
    }

    /// Gives access to a node at this time; what it then wants to send is sent.
    pub(super) fn with_node<R>(
        &mut self,
        index: u32,
        now: Instant,
        f: impl FnOnce(&mut Access<'_, H>) -> R,
    ) -> R {
        let node = &mut self.nodes[index as usize];
        node.sample(now);
        if let Some(switch) = node.as_switch_mut() {
            switch.advance(now);
        }
        let result = f(&mut Access {
            node,
            now,
            settings: self.settings,
        });
        node.collect(index, &mut self.calendar);
        self.enlist(index);
        result
    }

    /// Gives access to one node after the other at this time.
    pub(super) fn with_all_nodes(&mut self, now: Instant, f: &mut dyn FnMut(&mut dyn NodeControl)) {
        for index in 0..self.nodes.len() {
            self.with_node(index as u32, now, |access| f(access));
        }
    }

    /// Executes a command of another thread, sent through a [`ControlHandle`](crate::ControlHandle), at
    /// this time. False: it was the command to end.
    pub fn obey(&mut self, Command(request): Command, now: Instant) -> bool {
        match request {
            Request::At(id, work) => {
                // A command for a node that is not here is dropped, which its sender notices.
                if let Some(index) = self.index_of(id) {
                    self.with_node(index, now, |access| work(access));
                }
            }
            Request::Everywhere(mut work) => self.with_all_nodes(now, &mut *work),
            Request::Stop => return false,
        }
        true
    }

    /// Index of a node of this partition; `None` if the node is elsewhere.
    fn index_of(&self, id: NodeId) -> Option<u32> {
        let index = self.nodes.binary_search_by_key(&id, Node::id).ok()?;
        Some(index as u32)
    }

    /// The switch at the other end of a host's link, and its port there.
    fn switch_of(&mut self, host: u32) -> Option<(&mut Switch, PortId)> {
        let link = self.nodes[host as usize].link(0)?;
        let (index, port) = (link.to.index as usize, link.peer.port);
        Some((self.nodes[index].as_switch_mut()?, port))
    }

    /// Makes the switch at the other end of a host's link count frames that the host's port lost.
    pub fn count_drop(&mut self, host: u32, reason: DropReason, packets: u64, bytes: u64) {
        if let Some((switch, port)) = self.switch_of(host) {
            switch.count_interface_drop(port, reason, packets, bytes);
        }
    }

    /// Passes on to the switch at the other end of a host's link how late frames were at the host.
    pub fn note_lateness(&mut self, host: u32, late: &Late) {
        if let Some((switch, _)) = self.switch_of(host) {
            switch.note_lateness(late);
        }
    }

    /// Lets the switch at the other end of a host's link send this many frames from now on, and
    /// none after them until this is called again; `None` lifts the limit.
    pub fn set_credit(&mut self, host: u32, now: Instant, frames: Option<u64>) {
        let Some(link) = self.nodes[host as usize].link(0) else {
            return;
        };
        // An interface and its switch are always in one partition.
        let (index, port) = (link.to.index, link.peer.port);
        self.with_node(index, now, |access| {
            if let Some(switch) = access.node.as_switch_mut() {
                switch.set_credit(port, frames);
            }
        });
    }

    /// Whether the delays of links may have changed since the last call.
    pub fn take_delays_changed(&mut self) -> bool {
        let mut any = false;
        for switch in self.nodes.iter_mut().filter_map(Node::as_switch_mut) {
            any |= switch.take_delays_changed();
        }
        any
    }

    /// Exchanges the memory for frames with a caller that reads and sends between the turns: one
    /// store for all uses stays the smallest.
    pub fn exchange_frames(&mut self, frames: &mut Frames) {
        std::mem::swap(self.pool.frames(), frames);
    }

    /// The host at an index; `None` if it is a switch.
    pub fn host_mut(&mut self, index: u32) -> Option<&mut H> {
        self.nodes[index as usize].as_host_mut()
    }

    /// All hosts with their indices.
    pub fn hosts(&self) -> impl Iterator<Item = (u32, &H)> {
        let nodes = (0..).zip(&self.nodes);
        nodes.filter_map(|(index, node)| Some((index, node.as_host()?)))
    }

    /// Makes what captures have recorded visible to their readers.
    pub fn flush_captures(&mut self) {
        self.nodes.iter_mut().for_each(Node::flush_captures);
    }
}
