//! The part of openconfig-interfaces that a switch has: the leaves of an interface, and their values at one instant.

use std::sync::Arc;

use crate::device::PortState;

/// The module of all nodes except those of modules that augment it.
pub const INTERFACES: &str = "openconfig-interfaces";
/// The module that augments it with the port numbers of P4Runtime.
pub const P4RT: &str = "openconfig-p4rt";

/// Value of a leaf.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Name of an interface.
    Name(Arc<str>),
    /// Word of an enum.
    Word(&'static str),
    Flag(bool),
    /// Up to 32 bits.
    Number(u32),
    /// 64 bits, which JSON of RFC 7951 has as a string.
    Counter(u64),
}

/// A leaf that every interface has.
pub struct Leaf {
    /// The names from the interface down to it.
    pub path: &'static [&'static str],
    pub module: &'static str,
    value: fn(&Interface) -> Value,
}

/// An interface at one instant.
#[derive(Clone, Debug)]
struct Interface {
    name: Arc<str>,
    state: PortState,
}

/// The leaves of an interface. Those below one node are neighbours.
pub static LEAVES: [Leaf; 15] = [
    leaf(&["name"], |i| Value::Name(i.name.clone())),
    leaf(&["config", "name"], |i| Value::Name(i.name.clone())),
    leaf(&["config", "enabled"], |_| Value::Flag(true)),
    of_p4rt(&["config", "id"], |i| Value::Number(i.state.port.into())),
    leaf(&["state", "name"], |i| Value::Name(i.name.clone())),
    leaf(&["state", "enabled"], |_| Value::Flag(true)),
    of_p4rt(&["state", "id"], |i| Value::Number(i.state.port.into())),
    leaf(&["state", "ifindex"], |i| {
        Value::Number(i.state.port.into())
    }),
    leaf(&["state", "admin-status"], |_| Value::Word("UP")),
    leaf(&["state", "oper-status"], |i| {
        Value::Word(if i.state.is_up { "UP" } else { "DOWN" })
    }),
    leaf(&["state", "counters", "in-pkts"], |i| {
        Value::Counter(i.state.received.packets)
    }),
    leaf(&["state", "counters", "in-octets"], |i| {
        Value::Counter(i.state.received.bytes)
    }),
    leaf(&["state", "counters", "out-pkts"], |i| {
        Value::Counter(i.state.sent.packets)
    }),
    leaf(&["state", "counters", "out-octets"], |i| {
        Value::Counter(i.state.sent.bytes)
    }),
    leaf(&["state", "counters", "out-discards"], |i| {
        Value::Counter(i.state.refused.packets)
    }),
];

const fn leaf(path: &'static [&'static str], value: fn(&Interface) -> Value) -> Leaf {
    Leaf {
        path,
        module: INTERFACES,
        value,
    }
}

const fn of_p4rt(path: &'static [&'static str], value: fn(&Interface) -> Value) -> Leaf {
    Leaf {
        path,
        module: P4RT,
        value,
    }
}

impl Leaf {
    /// Whether it changes with every packet, so that a client that leaves the mode of a subscription to the switch gets
    /// samples.
    pub fn is_counter(&self) -> bool {
        self.path.contains(&"counters")
    }
}

/// The interfaces of a switch: ports and their names. They never change.
pub struct Interfaces(Vec<(u16, Arc<str>)>);

/// A leaf of one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index into the interfaces.
    pub interface: u16,
    /// Index into [`LEAVES`].
    pub leaf: u8,
}

impl Place {
    pub fn leaf(self) -> &'static Leaf {
        &LEAVES[usize::from(self.leaf)]
    }
}

/// The values of all leaves at one instant.
pub struct Sample {
    /// Nanoseconds since 1970.
    pub at_ns: i64,
    /// None: the switch has no such port.
    interfaces: Vec<Option<Interface>>,
}

impl Interfaces {
    pub fn new(ports: Vec<(u16, String)>) -> Self {
        Self(
            ports
                .into_iter()
                .map(|(p, name)| (p, name.into()))
                .collect(),
        )
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, name)| &**name)
    }

    pub fn name(&self, place: Place) -> &str {
        &self.0[usize::from(place.interface)].1
    }

    /// A sample of the states of the ports at an instant.
    pub fn sample(&self, at_ns: i64, states: &[PortState]) -> Sample {
        let interface = |(port, name): &(u16, Arc<str>)| {
            let state = states.iter().find(|state| state.port == *port)?.clone();
            let name = name.clone();
            Some(Interface { name, state })
        };
        Sample {
            at_ns,
            interfaces: self.0.iter().map(interface).collect(),
        }
    }
}

impl Sample {
    /// None: the switch has no such port.
    pub fn value(&self, place: Place) -> Option<Value> {
        let interface = self.interfaces[usize::from(place.interface)].as_ref()?;
        Some((place.leaf().value)(interface))
    }
}
