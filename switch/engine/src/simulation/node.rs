//! A switch or a host, its pending events and its links.

use ebb_units::{Duration, Instant};

use super::event::{Event, mix};
use super::{Address, LinkError};
use crate::event_queue::EventQueue;
use crate::switch::{Effect, PortId, Switch};

/// A host as the simulation sees it. Sans-IO: it gets the time and says when it wants to be woken.
pub trait Host: Send {
    fn name(&self) -> &str;
    /// The last bit of a frame has arrived.
    fn receive(&mut self, now: Instant, frame: Vec<u8>);
    /// The time it asked for has come.
    fn wake(&mut self, now: Instant);
    /// When to wake it, if nothing arrives before.
    fn next_wake(&self) -> Option<Instant>;
    /// A frame that starts to leave now, and when its last bit is out. `None`: nothing more now.
    fn poll_transmit(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)>;
}

/// Where a port leads.
#[derive(Clone, Copy, Debug)]
struct Link {
    to: Address,
    port: PortId,
    /// Beyond the time at which the sender says that the frame arrives.
    delay: Duration,
    /// Frames sent so far.
    sent: u32,
}

/// A frame on its way to another node.
#[derive(Debug)]
pub(super) struct Crossing {
    pub to: Address,
    pub at: Instant,
    pub event: Event,
}

#[derive(Default)]
enum Kind<H> {
    /// Only while nodes are moved.
    #[default]
    Nobody,
    Switch(Box<Switch>),
    Host(Box<H>),
}

pub(super) struct Node<H> {
    kind: Kind<H>,
    events_due: EventQueue<Event>,
    links: Vec<Option<Link>>,
    /// The earliest time at which the partition has it on its list.
    pub listed: Instant,
    trace: u64,
    pub packet_hops: u64,
    pub events: u64,
}

impl<H> Default for Node<H> {
    fn default() -> Self {
        Self {
            kind: Kind::Nobody,
            events_due: EventQueue::new(),
            links: Vec::new(),
            listed: Instant::FAR_FUTURE,
            trace: 0,
            packet_hops: 0,
            events: 0,
        }
    }
}

impl<H: Host> Node<H> {
    pub fn switch(switch: Switch) -> Self {
        Self {
            kind: Kind::Switch(Box::new(switch)),
            ..Self::default()
        }
    }

    pub fn host(host: H) -> Self {
        Self {
            kind: Kind::Host(Box::new(host)),
            ..Self::default()
        }
    }

    pub fn as_switch(&self) -> Option<&Switch> {
        match &self.kind {
            Kind::Switch(switch) => Some(switch),
            _ => None,
        }
    }

    pub fn as_switch_mut(&mut self) -> Option<&mut Switch> {
        match &mut self.kind {
            Kind::Switch(switch) => Some(switch),
            _ => None,
        }
    }

    pub fn as_host(&self) -> Option<&H> {
        match &self.kind {
            Kind::Host(host) => Some(host),
            _ => None,
        }
    }

    pub fn as_host_mut(&mut self) -> Option<&mut H> {
        match &mut self.kind {
            Kind::Host(host) => Some(host),
            _ => None,
        }
    }

    fn name(&self) -> String {
        match &self.kind {
            Kind::Nobody => String::new(),
            Kind::Switch(switch) => switch.name().to_owned(),
            Kind::Host(host) => host.name().to_owned(),
        }
    }

    /// Whether the port can get a link.
    pub fn check_port(&self, port: PortId) -> Result<(), LinkError> {
        let node = || self.name();
        if let Some(role) = self.as_switch().and_then(|s| s.reserved_role(port)) {
            return Err(LinkError::Reserved {
                node: node(),
                port,
                role,
            });
        }
        if self
            .links
            .get(usize::from(port))
            .is_some_and(Option::is_some)
        {
            return Err(LinkError::Taken { node: node(), port });
        }
        Ok(())
    }

    pub fn connect(&mut self, now: Instant, port: PortId, to: Address, far_port: PortId) {
        let index = usize::from(port);
        if self.links.len() <= index {
            self.links.resize(index + 1, None);
        }
        self.links[index] = Some(Link {
            to,
            port: far_port,
            delay: Duration::ZERO,
            sent: 0,
        });
        if let Kind::Switch(switch) = &mut self.kind {
            switch.connect_port(now, port);
        }
    }

    /// Where a port leads.
    pub fn far_end(&self, port: PortId) -> Option<(Address, PortId)> {
        let link = self.links.get(usize::from(port))?.as_ref()?;
        Some((link.to, link.port))
    }

    /// Frames take so long beyond the time at which the node says that they arrive.
    pub fn set_delay(&mut self, port: PortId, delay: Duration) {
        if let Some(Some(link)) = self.links.get_mut(usize::from(port)) {
            link.delay = delay;
        }
    }

    /// The nodes have moved.
    pub fn relocate(&mut self, address_of: &impl Fn(Address) -> Option<Address>) {
        for link in self.links.iter_mut().flatten() {
            if let Some(to) = address_of(link.to) {
                link.to = to;
            }
        }
    }

    /// The shortest time from the node's sending a frame to its arrival at another node.
    pub fn shortest_delay(&self) -> Duration {
        let links = (0..).zip(&self.links);
        let delays = links.filter_map(|(port, link)| {
            let propagation = match &self.kind {
                Kind::Switch(switch) => switch.tx_delay(port),
                _ => Duration::ZERO,
            };
            link.map(|link| link.delay + propagation)
        });
        delays.min().unwrap_or(Duration::MAX)
    }

    pub fn push(&mut self, at: Instant, event: Event) {
        self.events_due.push(at, event.rank(), event);
    }

    pub fn next_event(&self) -> Option<Instant> {
        let wake = self.as_host().and_then(Host::next_wake);
        self.events_due.next_time().into_iter().chain(wake).min()
    }

    pub fn trace_hash(&self) -> u64 {
        self.trace
    }

    /// Works off all events before `horizon`.
    pub fn run(&mut self, horizon: Instant, out: &mut Vec<Crossing>) {
        match &self.kind {
            Kind::Nobody => {}
            Kind::Switch(_) => self.run_switch(horizon, out),
            Kind::Host(_) => self.run_host(horizon, out),
        }
    }

    fn run_switch(&mut self, horizon: Instant, out: &mut Vec<Crossing>) {
        while let Some((now, event)) = self.events_due.pop_before(horizon) {
            self.note(now, &event);
            let Kind::Switch(switch) = &mut self.kind else {
                return;
            };
            switch.advance(now);
            match event {
                Event::Receive { port, frame, .. } => {
                    self.packet_hops += 1;
                    switch.receive(port, frame);
                }
                Event::Serve(port) => switch.serve(port),
            }
            self.collect(out);
        }
    }

    /// Schedules what the switch wants to happen.
    pub fn collect(&mut self, out: &mut Vec<Crossing>) {
        let Kind::Switch(switch) = &mut self.kind else {
            return;
        };
        let mut to_controller = Vec::new();
        for (at, effect) in switch.drain_effects() {
            match effect {
                Effect::Serve(port) => {
                    let event = Event::Serve(port);
                    self.events_due.push(at, event.rank(), event);
                }
                Effect::Send { port, frame } => {
                    match self.links.get_mut(usize::from(port)) {
                        Some(Some(link)) => out.push(link.send(at, frame)),
                        // A switch sends to connected ports and to its CPU port only.
                        _ => to_controller.push(frame),
                    }
                }
            }
        }
        for frame in to_controller {
            switch.packet_in(frame);
        }
    }

    fn run_host(&mut self, horizon: Instant, out: &mut Vec<Crossing>) {
        while let Some(now) = self.next_event().filter(|next| *next < horizon) {
            let arrival = self.events_due.pop_due(now);
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
                    out.push(link.send(at, frame));
                }
            }
        }
    }

    /// Takes an event into the trace. Of a frame, its length and what its headers can be.
    fn note(&mut self, at: Instant, event: &Event) {
        const HEADERS_BYTES: usize = 96;
        self.events += 1;
        self.trace = mix(self.trace, at.as_picos());
        match event {
            Event::Receive { port, frame, .. } => {
                self.trace = mix(self.trace, u64::from(*port) << 32 | frame.len() as u64);
                let (words, _) = frame[..frame.len().min(HEADERS_BYTES)].as_chunks::<8>();
                for word in words {
                    self.trace = mix(self.trace, u64::from_le_bytes(*word));
                }
            }
            Event::Serve(port) => self.trace = mix(self.trace, 1 << 63 | u64::from(*port)),
        }
    }
}

impl Link {
    fn send(&mut self, at: Instant, frame: Vec<u8>) -> Crossing {
        let sequence = self.sent;
        // Only the order of frames that arrive at the same time matters.
        self.sent = self.sent.wrapping_add(1);
        Crossing {
            to: self.to,
            at: at + self.delay,
            event: Event::Receive {
                port: self.port,
                sequence,
                frame,
            },
        }
    }
}
