//! A node: a switch or a host with its pending events and its links.

use std::io;

use ebb_pipeline::Pool;
use ebb_units::{Duration, Instant};

use super::calendar::Calendar;
use super::event::Event;
use super::event_queue::EventQueue;
use super::host::Host;
use super::link::{Link, LinkInfo, LinkState, Sender};
use super::samples::Sampler;
use super::trace::{Trace, mix};
use super::{Address, NetworkError, NodeId, NodePort};
use crate::capture::{Direction, FrameSink, OpenSink};
use crate::switch::{PortId, Sent, Switch};

/// Kind of a node.
#[derive(Default)]
enum Kind<H> {
    /// Nothing; only while nodes are moved between partitions.
    #[default]
    Nobody,
    Switch(Box<Switch>),
    Host(Box<H>),
}

/// A switch or a host of type `H`, its events and its links.
pub(super) struct Node<H> {
    /// Its number in the network.
    id: NodeId,
    /// The switch or the host.
    kind: Kind<H>,
    /// The link of each port, by port number; `None` for ports without one.
    links: Vec<Option<Link>>,
    /// The capture of each port, by port number; `None` for ports without one.
    captures: Vec<Option<Box<dyn FrameSink>>>,
    /// Samples its queues; `None` if nobody wants that.
    pub sampler: Option<Box<Sampler>>,
    /// Hash of what happens at it; `None` if nobody wants it.
    trace: Option<Trace>,
    /// Frames that arrived at it so far, if it is a switch.
    pub packet_hops: u64,
    /// Events at it so far.
    pub events: u64,
}

impl<H> Default for Node<H> {
    fn default() -> Self {
        Self {
            id: NodeId(usize::MAX),
            kind: Kind::Nobody,
            links: Vec::new(),
            captures: Vec::new(),
            sampler: None,
            trace: Some(Trace::default()),
            packet_hops: 0,
            events: 0,
        }
    }
}

impl<H: Host> Node<H> {
    /// A node that is a switch.
    pub fn switch(id: NodeId, switch: Switch) -> Self {
        Self {
            id,
            kind: Kind::Switch(Box::new(switch)),
            ..Self::default()
        }
    }

    /// A node that is a host.
    pub fn host(id: NodeId, host: H) -> Self {
        Self {
            id,
            kind: Kind::Host(Box::new(host)),
            ..Self::default()
        }
    }

    /// Its number in the network.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// The switch, unless it is a host.
    pub fn as_switch(&self) -> Option<&Switch> {
        match &self.kind {
            Kind::Switch(switch) => Some(switch),
            _ => None,
        }
    }

    /// The switch, unless it is a host.
    pub fn as_switch_mut(&mut self) -> Option<&mut Switch> {
        match &mut self.kind {
            Kind::Switch(switch) => Some(switch),
            _ => None,
        }
    }

    /// The host, unless it is a switch.
    pub fn as_host(&self) -> Option<&H> {
        match &self.kind {
            Kind::Host(host) => Some(host),
            _ => None,
        }
    }

    /// The host, unless it is a switch.
    pub fn as_host_mut(&mut self) -> Option<&mut H> {
        match &mut self.kind {
            Kind::Host(host) => Some(host),
            _ => None,
        }
    }

    /// Whether it is a host that sends nothing while the network runs.
    pub fn is_passive(&self) -> bool {
        self.as_host().is_some_and(Host::is_passive)
    }

    /// The name of the switch or host.
    pub fn name(&self) -> &str {
        match &self.kind {
            Kind::Nobody => "",
            Kind::Switch(switch) => switch.name(),
            Kind::Host(host) => host.name(),
        }
    }

    /// Checks that the port can get a link.
    pub fn check_port(&self, port: PortId) -> Result<(), NetworkError> {
        let node = || self.name().to_owned();
        if let Some(role) = self.as_switch().and_then(|s| s.reserved_role(port)) {
            return Err(NetworkError::Reserved {
                node: node(),
                port,
                role,
            });
        }
        if let Some(Err(problem)) = self.as_switch().map(|s| s.check_new_port(port)) {
            return Err(NetworkError::Unfit {
                node: node(),
                port,
                problem: problem.to_string(),
            });
        }
        match self.link(port) {
            Some(_) => Err(NetworkError::Taken { node: node(), port }),
            None => Ok(()),
        }
    }

    /// Gives a port a link to `peer`, which is found at `to`.
    pub fn connect(&mut self, now: Instant, port: PortId, peer: NodePort, to: Address) {
        let index = usize::from(port);
        if self.links.len() <= index {
            self.links.resize(index + 1, None);
        }
        self.links[index] = Some(Link::new(peer, to));
        if let Kind::Switch(switch) = &mut self.kind {
            switch.connect_port(now, port);
        }
    }

    /// The link of a port.
    pub fn link(&self, port: PortId) -> Option<&Link> {
        self.links.get(usize::from(port))?.as_ref()
    }

    fn link_mut(&mut self, port: PortId) -> Result<&mut Link, NetworkError> {
        let error = NetworkError::NoLink {
            node: self.name().to_owned(),
            port,
        };
        let link = self.links.get_mut(usize::from(port));
        link.and_then(Option::as_mut).ok_or(error)
    }

    /// All ports that have a link.
    pub fn ports(&self) -> impl Iterator<Item = (PortId, &Link)> {
        let links = (0..).zip(&self.links);
        links.filter_map(|(port, link)| Some((port, link.as_ref()?)))
    }

    /// The state of each link in the direction in which this node sends.
    pub fn link_states(&self) -> impl Iterator<Item = LinkInfo> {
        self.ports().map(|(port, link)| LinkInfo {
            from: NodePort {
                node: self.id,
                port,
            },
            to: link.peer,
            state: link.state(),
        })
    }

    /// Sets the state of a link in the direction in which this node sends. `seed` decides which
    /// frames are hit.
    pub fn set_link(
        &mut self,
        now: Instant,
        port: PortId,
        state: LinkState,
        seed: u64,
    ) -> Result<(), NetworkError> {
        let node = || self.name().to_owned();
        state
            .validate()
            .map_err(|problem| NetworkError::LinkState {
                node: node(),
                port,
                problem,
            })?;
        let key = mix(mix(seed, self.id.0 as u64), port.into());
        self.link_mut(port)?;
        let paced = match &mut self.kind {
            Kind::Nobody => false,
            Kind::Switch(switch) => {
                switch.limit_rate(now, port, state.rate());
                switch.set_port_up(port, state.up);
                true
            }
            Kind::Host(host) => host.limit_rate(state.rate()),
        };
        self.link_mut(port)?.set_state(state, key, paced);
        Ok(())
    }

    /// Puts a switch into its initial state without a program. Its links stay as they are.
    pub fn restart(&mut self, now: Instant) -> Result<(), NetworkError> {
        let Kind::Switch(switch) = &mut self.kind else {
            let node = self.name().to_owned();
            return Err(NetworkError::NotASwitch { node });
        };
        switch.advance(now);
        switch.restart();
        for (port, link) in (0..).zip(&self.links) {
            if let Some(rate) = link.as_ref().and_then(|link| link.state().rate()) {
                switch.limit_rate(now, port, Some(rate));
            }
        }
        Ok(())
    }

    /// Captures what a port of a switch receives and sends.
    pub fn start_capture(&mut self, port: PortId, open: OpenSink) -> Result<(), NetworkError> {
        if self.as_switch().is_none() {
            let node = self.name().to_owned();
            return Err(NetworkError::NotASwitch { node });
        }
        self.link_mut(port)?;
        let sink = open()?;
        let index = usize::from(port);
        if self.captures.len() <= index {
            self.captures.resize_with(index + 1, || None);
        }
        self.captures[index] = Some(sink);
        Ok(())
    }

    /// Ends a capture. All that was captured is in the sink when this returns.
    pub fn stop_capture(&mut self, port: PortId) -> Result<(), NetworkError> {
        let capture = self.captures.get_mut(usize::from(port));
        match capture.and_then(Option::take) {
            Some(mut sink) => Ok(sink.flush()?),
            None => Err(NetworkError::NoCapture {
                node: self.name().to_owned(),
                port,
            }),
        }
    }

    /// Makes what captures have recorded visible to their readers.
    pub fn flush_captures(&mut self) {
        for port in 0..self.captures.len() {
            let name = self.name().to_owned();
            record(&mut self.captures, &name, port as PortId, |sink| {
                sink.flush()
            });
        }
    }

    /// Sets the delay of a link beyond the time at which this node says that frames arrive.
    pub fn set_delay(&mut self, port: PortId, delay: Duration) {
        if let Ok(link) = self.link_mut(port) {
            link.delay = delay;
        }
    }

    /// Learns where the nodes at the other ends are, after nodes have moved.
    pub fn relocate(&mut self, addresses: &[Address]) {
        for link in self.links.iter_mut().flatten() {
            link.to = addresses[link.peer.node.0];
        }
    }

    /// Says whether a hash is taken of what happens from now on.
    pub fn set_traced(&mut self, traced: bool) {
        self.trace = traced.then(Trace::default);
    }

    /// The time from sending a frame through a port to its arrival.
    pub fn delay(&self, port: PortId, link: &Link) -> Duration {
        let propagation = self.as_switch().map(|switch| switch.tx_delay(port));
        link.delay + propagation.unwrap_or_default()
    }

    /// When something happens at it next, these being its pending events; `None` if nothing is known to.
    pub fn next_event(&self, pending: &EventQueue) -> Option<Instant> {
        let own = match &self.kind {
            Kind::Nobody => None,
            Kind::Switch(switch) => switch.next_task(),
            Kind::Host(host) => host.next_wake(),
        };
        Instant::earliest([pending.next_time(), own])
    }

    /// Hash of what happened at it so far.
    pub fn trace_hash(&self) -> u64 {
        self.trace.unwrap_or_default().value()
    }

    /// Works off all events of the node with this index before `horizon`. `pool` is the thread's memory for packets.
    pub fn run(&mut self, index: u32, horizon: Instant, calendar: &mut Calendar, pool: &mut Pool) {
        self.prefetch(index, horizon, calendar);
        match &mut self.kind {
            Kind::Nobody => {}
            Kind::Switch(switch) => {
                switch.exchange_pool(pool);
                self.run_switch(index, horizon, calendar);
                if let Kind::Switch(switch) = &mut self.kind {
                    switch.exchange_pool(pool);
                }
            }
            Kind::Host(host) => {
                host.exchange_frames(pool.frames());
                self.run_host(index, horizon, calendar);
                if let Kind::Host(host) = &mut self.kind {
                    host.exchange_frames(pool.frames());
                }
            }
        }
        calendar.end_turn(index);
    }

    /// Works off all events of a switch before `horizon`.
    fn run_switch(&mut self, index: u32, horizon: Instant, calendar: &mut Calendar) {
        loop {
            let task = self.as_switch().and_then(Switch::next_task);
            let pending = calendar.of(index);
            if let Some(at) = task.filter(|at| *at < horizon && !pending.goes_before(*at)) {
                self.do_tasks(at);
            } else if let Some((at, event)) = pending.pop_before(horizon) {
                self.do_event(at, event);
            } else {
                return;
            }
            self.collect(index, calendar);
        }
    }

    /// Lets a switch do what it has set itself to do at this time.
    fn do_tasks(&mut self, now: Instant) {
        self.events += 1;
        self.sample(now);
        if let Kind::Switch(switch) = &mut self.kind {
            switch.advance(now);
            switch.do_tasks();
        }
    }

    /// Lets an event happen at a switch.
    fn do_event(&mut self, now: Instant, event: Event) {
        self.note(now, &event);
        self.sample(now);
        let Kind::Switch(switch) = &mut self.kind else {
            return;
        };
        if let Event::Receive { port, frame, .. } = &event
            && !self.captures.is_empty()
        {
            record(&mut self.captures, switch.name(), *port, |sink| {
                sink.record(Direction::In, now, frame)
            });
        }
        switch.advance(now);
        match event {
            Event::Receive { port, frame, .. } => {
                self.packet_hops += u64::from(switch.receive(port, frame));
            }
            Event::Fault {
                port,
                reason,
                bytes,
                ..
            } => switch.count_interface_drop(port, reason, 1, bytes),
            Event::Serve(port) => switch.serve(port),
        }
    }

    /// Fetches what the events before `horizon` will touch into the caches, as far as that is
    /// known, all at once: else the processor would wait for each in turn.
    fn prefetch(&self, index: u32, horizon: Instant, calendar: &mut Calendar) {
        calendar.prepare(index);
        let pending = calendar.of(index);
        if let Kind::Switch(switch) = &self.kind {
            // It is unknown which way frames go. If they are few, fetching all ports would be in
            // vain.
            let ports = pending.ports();
            match pending.has_arrivals(ports.len(), horizon) {
                true => {
                    switch.prefetch_ports(|| ports.iter().copied(), horizon);
                    calendar.prefetch(self.links.iter().flatten().map(|link| &link.to));
                }
                false => switch.prefetch_ports(|| pending.departures(horizon), horizon),
            }
        }
    }

    /// Takes the samples that are due up to `now`, before anything happens at that time.
    pub fn sample(&mut self, now: Instant) {
        if let (Some(sampler), Kind::Switch(switch)) = (&mut self.sampler, &self.kind) {
            sampler.advance(now, switch);
        }
    }

    /// Schedules what the switch wants to happen, and passes on what it has sent.
    #[inline]
    pub fn collect(&mut self, index: u32, calendar: &mut Calendar) {
        let Kind::Switch(switch) = &mut self.kind else {
            return;
        };
        while let Some((at, port)) = switch.next_service() {
            calendar.of(index).push_departure(at, port);
        }
        while let Some(Sent { at, port, frame }) = switch.next_sent() {
            if !self.captures.is_empty() {
                let left = at - switch.tx_delay(port);
                let name = switch.name();
                record(&mut self.captures, name, port, |sink| {
                    sink.record(Direction::Out, left, &frame)
                });
            }
            // A switch sends only to connected ports and to its CPU port.
            let Some(Some(link)) = self.links.get_mut(usize::from(port)) else {
                switch.packet_in(frame);
                continue;
            };
            // The frame arrives at this time, unless the link delays it more.
            let bytes = frame.len() as u64;
            if let Some(fault) = link.send(at, frame, Sender::Switch, calendar) {
                switch.count_interface_drop(port, fault, 1, bytes);
            }
        }
    }

    /// Sends a frame of the host whose last bit leaves it at this time.
    pub fn inject(&mut self, at: Instant, frame: Vec<u8>, calendar: &mut Calendar) {
        if let Some(Some(link)) = self.links.first_mut() {
            link.send(at, frame, Sender::Host, calendar);
        }
    }

    /// Works off all events of a host before `horizon`.
    fn run_host(&mut self, index: u32, horizon: Instant, calendar: &mut Calendar) {
        loop {
            let pending = calendar.of(index);
            let wake = self.as_host().and_then(Host::next_wake);
            let next = Instant::earliest([pending.next_in_order(), wake]);
            let Some(now) = next.filter(|next| *next < horizon) else {
                return;
            };
            let arrival = pending.pop_due(now);
            match &arrival {
                Some((at, event)) => self.note(*at, event),
                None => self.events += 1,
            }
            let Kind::Host(host) = &mut self.kind else {
                return;
            };
            match arrival {
                Some((at, Event::Receive { frame, .. })) => host.receive(at, frame),
                _ => host.wake(now),
            }
            while let Some((at, frame)) = host.poll_transmit(now) {
                if let Some(Some(link)) = self.links.first_mut() {
                    link.send(at, frame, Sender::Host, calendar);
                }
            }
        }
    }

    /// Counts an event and takes it into the hash.
    fn note(&mut self, at: Instant, event: &Event) {
        self.events += 1;
        if let Some(trace) = &mut self.trace {
            trace.note(at, event);
        }
    }
}

/// Passes something to the capture of a port of the switch with this name. A capture that fails ends; the switch goes
/// on.
#[cold]
fn record(
    captures: &mut [Option<Box<dyn FrameSink>>],
    name: &str,
    port: PortId,
    f: impl FnOnce(&mut dyn FrameSink) -> io::Result<()>,
) {
    let Some(slot) = captures.get_mut(usize::from(port)) else {
        return;
    };
    if let Some(Err(error)) = slot.as_mut().map(|sink| f(sink.as_mut())) {
        *slot = None;
        tracing::warn!("{name}, port {port}: packet capture stopped: {error}");
    }
}

impl From<io::Error> for NetworkError {
    fn from(error: io::Error) -> Self {
        NetworkError::Capture(error.to_string())
    }
}
