//! The nodes that one thread runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ebb_pipeline::{Frames, Pool};
use ebb_units::{Duration, Instant};

use super::access::{Access, Settings};
use super::host::Host;
use super::link::Crossing;
use super::node::Node;
use super::{Address, NodeId, Work};
use crate::control::{Command, NodeControl, Request};
use crate::drops::DropReason;
use crate::lateness::Late;
use crate::prefetch::prefetch;
use crate::switch::{PortId, Switch};

pub struct Partition<H> {
    number: u32,
    /// In the order of their ids.
    pub(super) nodes: Vec<Node<H>>,
    pub(super) settings: Settings,
    /// When which node has something to do. An entry counts if it is the node's `listed` time.
    list: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Frames for nodes of other partitions.
    crossing: Vec<Vec<Crossing>>,
    sent: Vec<Crossing>,
    /// Memory for the packets of all switches.
    pool: Pool,
    /// No link between two of the nodes that may answer is faster.
    window: Duration,
    /// For each partition: no link to it is faster.
    lookahead: Vec<Duration>,
    /// Everything before has happened.
    ran_until: Instant,
}

impl<H> Default for Partition<H> {
    fn default() -> Self {
        Self {
            number: 0,
            nodes: Vec::new(),
            settings: Settings::default(),
            list: BinaryHeap::new(),
            crossing: vec![Vec::new()],
            sent: Vec::new(),
            pool: Pool::default(),
            window: Duration::ZERO,
            lookahead: vec![Duration::MAX],
            ran_until: Instant::ZERO,
        }
    }
}

impl<H: Host> Partition<H> {
    pub(super) fn add(&mut self, node: Node<H>) -> u32 {
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    /// To be called when the nodes of all partitions are in place.
    pub(super) fn prepare(&mut self, number: u32, partitions: usize, addresses: &[Address]) {
        self.number = number;
        self.crossing = (0..partitions).map(|_| Vec::new()).collect();
        for index in 0..self.nodes.len() {
            self.nodes[index].relocate(addresses);
            self.nodes[index].listed = Instant::FAR_FUTURE;
            self.enlist(index as u32);
        }
    }

    /// Learns the delays of the links, which the configuration of a switch may have changed.
    pub fn measure(&mut self) {
        self.measure_host_links();
        self.window = Duration::MAX;
        self.lookahead = vec![Duration::MAX; self.crossing.len()];
        for node in &self.nodes {
            for (port, link) in node.ports() {
                let least = match link.to.partition == self.number {
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

    /// The delay of a host's link is the switch's to know.
    fn measure_host_links(&mut self) {
        for index in 0..self.nodes.len() {
            let node = &self.nodes[index];
            let Some(link) = node.as_host().and_then(|_| node.link(0)) else {
                continue;
            };
            // The network knows the delay of a switch elsewhere.
            if link.to.partition == self.number {
                let switch = self.nodes[link.to.index as usize].as_switch();
                let delay = switch.map_or(Duration::ZERO, |s| s.rx_delay(link.peer.port));
                self.nodes[index].set_delay(0, delay);
            }
        }
    }

    /// For each partition, the shortest time that a frame is on its way there.
    pub fn lookahead(&self) -> &[Duration] {
        &self.lookahead
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

    /// Lets everything happen that is due before `horizon`.
    pub fn run(&mut self, horizon: Instant) {
        while let Some(next) = self.next_event().filter(|next| *next < horizon) {
            self.take_turn(next, horizon);
        }
        self.ran_until = self.ran_until.max(horizon);
    }

    /// The same, but no longer than for so many turns.
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
        // All that is before the next event has happened.
        let next = self.next_event().unwrap_or(horizon);
        self.ran_until = self.ran_until.max(next.min(horizon));
    }

    /// Lets every node work off what is due in a window that begins with the next event, at `next`,
    /// and in which no node hears from another; at most before `horizon`.
    pub(crate) fn take_turn(&mut self, next: Instant, horizon: Instant) {
        // It has events even where a link has no delay.
        let window = self.window.max(Duration::from_picos(1));
        let horizon = horizon.min(next + window);
        while let Some(&Reverse((at, index))) = self.list.peek()
            && at < horizon
        {
            self.list.pop();
            let node = &mut self.nodes[index as usize];
            if node.listed != at {
                continue;
            }
            node.listed = Instant::FAR_FUTURE;
            node.run(horizon, &mut self.sent, &mut self.pool);
            self.enlist(index);
            self.dispatch();
        }
    }

    /// Everything before has happened.
    pub fn ran_until(&self) -> Instant {
        self.ran_until
    }

    /// Puts what a node sent where it belongs.
    fn dispatch(&mut self) {
        let mut sent = std::mem::take(&mut self.sent);
        // The wait for a single place overlaps with nothing.
        if sent.len() > 1 {
            self.prefetch_places(&sent);
        }
        for crossing in sent.drain(..) {
            if crossing.to.partition == self.number {
                self.place(crossing);
            } else {
                self.crossing[crossing.to.partition as usize].push(crossing);
            }
        }
        self.sent = sent;
    }

    /// Where frames go was last touched a turn ago. Step by step for all of them, so that the waiting overlaps.
    fn prefetch_places(&self, sent: &[Crossing]) {
        let here = || {
            let here = sent.iter().filter(|c| c.to.partition == self.number);
            here.map(|c| (self.nodes[c.to.index as usize].agenda(), c.event.port()))
        };
        for (agenda, _) in here() {
            prefetch(std::slice::from_ref(agenda), 2);
        }
        for (agenda, port) in here() {
            agenda.prefetch_place(port);
        }
        for (agenda, port) in here() {
            agenda.prefetch_end(port);
        }
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

    pub fn accept(&mut self, crossing: impl IntoIterator<Item = Crossing>) {
        for crossing in crossing {
            self.place(crossing);
        }
    }

    /// The same for frames that can come when their time has passed, which are then there at once.
    /// Returns how many did.
    pub fn accept_late(&mut self, crossing: impl IntoIterator<Item = Crossing>) -> u64 {
        let mut late = 0;
        for mut crossing in crossing {
            if crossing.at < self.ran_until {
                crossing.at = self.ran_until;
                late += 1;
            }
            self.place(crossing);
        }
        late
    }

    /// A frame leaves a host at a time.
    pub fn inject(&mut self, host: u32, at: Instant, frame: Vec<u8>) {
        self.nodes[host as usize].inject(at, frame, &mut self.sent);
        self.dispatch();
    }

    /// Gives access to a node at a time; what it then wants to send is sent.
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
        node.collect(&mut self.sent);
        self.enlist(index);
        self.dispatch();
        result
    }

    pub(super) fn with_all_nodes(&mut self, now: Instant, f: &mut dyn FnMut(&mut dyn NodeControl)) {
        for index in 0..self.nodes.len() {
            self.with_node(index as u32, now, |access| f(access));
        }
    }

    /// Does what another thread asks for through a [`ControlHandle`](crate::ControlHandle), at a time.
    /// False if it asks for the end.
    pub fn obey(&mut self, Command(request): Command, now: Instant) -> bool {
        match request {
            Request::At(id, work) => {
                // A command for a node that is not here is dropped, which tells its sender.
                if let Some(index) = self.index_of(id) {
                    self.with_node(index, now, |access| work(access));
                }
            }
            Request::Everywhere(mut work) => self.with_all_nodes(now, &mut *work),
            Request::Stop => return false,
        }
        true
    }

    /// The place of a node of this partition.
    fn index_of(&self, id: NodeId) -> Option<u32> {
        let index = self.nodes.binary_search_by_key(&id, Node::id).ok()?;
        Some(index as u32)
    }

    /// The switch at the end of a host's link, and its port there.
    fn switch_of(&mut self, host: u32) -> Option<(&mut Switch, PortId)> {
        let link = self.nodes[host as usize].link(0)?;
        let (index, port) = (link.to.index as usize, link.peer.port);
        Some((self.nodes[index].as_switch_mut()?, port))
    }

    /// Has the switch at the end of a host's link count frames that the host's port lost.
    pub fn count_drop(&mut self, host: u32, reason: DropReason, packets: u64, bytes: u64) {
        if let Some((switch, port)) = self.switch_of(host) {
            switch.count_interface_drop(port, reason, packets, bytes);
        }
    }

    /// Has it take notice of how late frames were at the host.
    pub fn note_lateness(&mut self, host: u32, late: &Late) {
        if let Some((switch, _)) = self.switch_of(host) {
            switch.note_lateness(late);
        }
    }

    /// Has the switch at the end of a host's link send it so many frames from now on, and then none
    /// until this is called again; `None`: as many as there are.
    pub fn set_credit(&mut self, host: u32, now: Instant, frames: Option<u64>) {
        let Some(link) = self.nodes[host as usize].link(0) else {
            return;
        };
        // An interface and its switch are in one partition.
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

    /// Exchanges the memory for frames, for who reads and sends between the turns: one store for all
    /// is the smallest.
    pub fn exchange_frames(&mut self, frames: &mut Frames) {
        std::mem::swap(self.pool.frames(), frames);
    }

    pub fn host_mut(&mut self, index: u32) -> Option<&mut H> {
        self.nodes[index as usize].as_host_mut()
    }

    /// Places of the hosts.
    pub fn hosts(&self) -> impl Iterator<Item = (u32, &H)> {
        let nodes = (0..).zip(&self.nodes);
        nodes.filter_map(|(index, node)| Some((index, node.as_host()?)))
    }

    pub fn flush_captures(&mut self) {
        self.nodes.iter_mut().for_each(Node::flush_captures);
    }
}
