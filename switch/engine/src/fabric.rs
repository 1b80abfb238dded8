//! Any number of switches and the links between them, driven by one event queue.
//!
//! The fabric has no clock: the caller injects frames, runs it until a time, and collects what
//! left. The driver runs it under the wall clock; networks with hosts in them, in virtual time, are
//! `simulation`, with the same switches.

use std::collections::{BTreeMap, VecDeque};

use ebb_units::Instant;
use thiserror::Error;

use crate::event_queue::EventQueue;
use crate::switch::{Effect, PortId, Switch};

/// Which switch of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub usize);

/// A port of a switch of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    pub switch: SwitchId,
    pub port: PortId,
}

/// A frame whose last bit arrived at the outside end of an external port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub at: Instant,
    pub from: Endpoint,
    pub frame: Vec<u8>,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum WiringError {
    #[error(
        "port {port} of switch \"{switch}\" is connected twice; a port has one link or interface"
    )]
    Taken { switch: String, port: PortId },
    #[error("port {port} of switch \"{switch}\" is its {role}; connect another port")]
    Reserved {
        switch: String,
        port: PortId,
        role: &'static str,
    },
}

#[derive(Debug)]
enum Event {
    /// A frame's last bit arrives at a port from outside the switch.
    Receive { at: Endpoint, frame: Vec<u8> },
    /// A transmission is due at a port.
    Serve(Endpoint),
    /// A frame sent to the CPU port reaches the controller.
    PacketIn { switch: SwitchId, frame: Vec<u8> },
    /// A frame's last bit arrives at the outside end of an external port.
    Emit { from: Endpoint, frame: Vec<u8> },
}

#[derive(Clone, Copy, Debug)]
enum Far {
    Link(Endpoint),
    Outside,
}

pub struct Fabric {
    switches: Vec<Switch>,
    far_ends: BTreeMap<Endpoint, Far>,
    events: EventQueue<Event>,
    /// Events so far: those of the same time happen in the order in which they were added.
    added: u64,
    outputs: VecDeque<Output>,
    now: Instant,
}

impl Fabric {
    pub fn new() -> Self {
        Self {
            switches: Vec::new(),
            far_ends: BTreeMap::new(),
            events: EventQueue::new(),
            added: 0,
            outputs: VecDeque::new(),
            now: Instant::ZERO,
        }
    }

    pub fn add_switch(&mut self, switch: Switch) -> SwitchId {
        self.switches.push(switch);
        SwitchId(self.switches.len() - 1)
    }

    /// Joins two ports by a link inside the fabric. Rate and delay of each direction are those of
    /// the sending port's profile.
    pub fn connect(&mut self, a: Endpoint, b: Endpoint) -> Result<(), WiringError> {
        self.wire(a, Far::Link(b))?;
        self.wire(b, Far::Link(a))
    }

    /// Makes a port external: what it sends is an [`Output`].
    pub fn attach(&mut self, port: Endpoint) -> Result<(), WiringError> {
        self.wire(port, Far::Outside)
    }

    fn wire(&mut self, near: Endpoint, far: Far) -> Result<(), WiringError> {
        let now = self.now;
        let switch = &mut self.switches[near.switch.0];
        let (name, port) = (|| switch.name().to_owned(), near.port);
        if let Some(role) = switch.reserved_role(port) {
            return Err(WiringError::Reserved {
                switch: name(),
                port,
                role,
            });
        }
        if self.far_ends.contains_key(&near) {
            return Err(WiringError::Taken {
                switch: name(),
                port,
            });
        }
        switch.connect_port(now, port);
        self.far_ends.insert(near, far);
        Ok(())
    }

    pub fn now(&self) -> Instant {
        self.now
    }

    pub fn switches(&self) -> impl Iterator<Item = (SwitchId, &Switch)> {
        self.switches
            .iter()
            .enumerate()
            .map(|(index, switch)| (SwitchId(index), switch))
    }

    pub fn switch(&self, id: SwitchId) -> &Switch {
        &self.switches[id.0]
    }

    /// Gives access to a switch at the present time; packets it wants to send are sent.
    pub fn with_switch<R>(&mut self, id: SwitchId, f: impl FnOnce(&mut Switch) -> R) -> R {
        let switch = &mut self.switches[id.0];
        switch.advance(self.now);
        let result = f(switch);
        self.collect_effects(id);
        result
    }

    /// A frame's last bit arrives at a port from outside at time `at`, or now if that has passed.
    /// The port's receive delay is added.
    pub fn inject(&mut self, at: Instant, port: Endpoint, frame: Vec<u8>) {
        let delay = self.switches[port.switch.0].rx_delay(port.port);
        let at = at.max(self.now) + delay;
        self.schedule(at, Event::Receive { at: port, frame });
    }

    /// When something happens next without anything arriving from outside.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.events.next_time()
    }

    /// Lets everything happen that is due until `now`, in order.
    pub fn run_until(&mut self, now: Instant) {
        while let Some((at, event)) = self.events.pop_due(now) {
            self.now = self.now.max(at);
            self.handle(event);
        }
        self.now = self.now.max(now);
    }

    /// The frames that left through external ports, oldest first.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn handle(&mut self, event: Event) {
        let at = match event {
            Event::Receive { at, frame } => {
                let switch = &mut self.switches[at.switch.0];
                switch.advance(self.now);
                switch.receive(at.port, frame);
                at
            }
            Event::Serve(at) => {
                let switch = &mut self.switches[at.switch.0];
                switch.advance(self.now);
                switch.serve(at.port);
                at
            }
            Event::PacketIn { switch, frame } => {
                return self.switches[switch.0].packet_in(frame);
            }
            Event::Emit { from, frame } => {
                let at = self.now;
                return self.outputs.push_back(Output { at, from, frame });
            }
        };
        self.collect_effects(at.switch);
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.added += 1;
        self.events.push(at, self.added, event);
    }

    fn collect_effects(&mut self, switch: SwitchId) {
        for (at, effect) in self.switches[switch.0].drain_effects() {
            let event = match effect {
                Effect::Serve(port) => Event::Serve(Endpoint { switch, port }),
                Effect::Send { port, frame } => {
                    let from = Endpoint { switch, port };
                    match self.far_ends.get(&from) {
                        Some(Far::Link(to)) => Event::Receive { at: *to, frame },
                        Some(Far::Outside) => Event::Emit { from, frame },
                        // A switch sends to connected ports and to its CPU port only.
                        None => Event::PacketIn { switch, frame },
                    }
                }
            };
            self.added += 1;
            self.events.push(at, self.added, event);
        }
    }
}

impl Default for Fabric {
    fn default() -> Self {
        Self::new()
    }
}
