//! The ports of a switch by their links: connected, up, and what came in.

use std::collections::BTreeSet;

use ebb_traffic_manager::{Count, PortId};

/// The ports of a switch by their links.
#[derive(Default)]
pub(super) struct PortLinks {
    /// Whether each port has an interface or a link, or is the CPU port, by port number.
    connected: Vec<bool>,
    /// Ports whose links are down.
    down: BTreeSet<PortId>,
    /// Packets and bytes that came in, by port number.
    received: Vec<Count>,
}

impl PortLinks {
    /// Notes that a port has an interface or a link.
    pub(super) fn connect(&mut self, port: PortId) {
        let index = usize::from(port);
        if self.connected.len() <= index {
            self.connected.resize(index + 1, false);
            self.received.resize(index + 1, Count::default());
        }
        self.connected[index] = true;
    }

    /// Whether a port has an interface or a link, or is the CPU port.
    pub(super) fn is_connected(&self, port: PortId) -> bool {
        let connected = self.connected.get(usize::from(port));
        connected.copied().unwrap_or_default()
    }

    /// Ports that have an interface or a link, and the CPU port.
    pub(super) fn connected(&self) -> impl Iterator<Item = PortId> + Clone + use<'_> {
        let ports = (0..).zip(&self.connected);
        ports.filter_map(|(port, is_connected)| is_connected.then_some(port))
    }

    /// Notes that the link of a port has gone down or come up.
    pub(super) fn set_up(&mut self, port: PortId, up: bool) {
        match up {
            true => self.down.remove(&port),
            false => self.down.insert(port),
        };
    }

    /// Ports whose links are down.
    pub(super) fn down(&self) -> impl Iterator<Item = PortId> {
        self.down.iter().copied()
    }

    /// Whether the link of a port is up.
    pub(super) fn is_up(&self, port: PortId) -> bool {
        !self.down.contains(&port)
    }

    /// Packets and bytes that came in at a port.
    pub(super) fn received(&self, port: PortId) -> Count {
        let received = self.received.get(usize::from(port));
        received.copied().unwrap_or_default()
    }

    /// Counts a packet that came in at a port.
    pub(super) fn count(&mut self, port: PortId, bytes: u64) {
        if let Some(received) = self.received.get_mut(usize::from(port)) {
            received.add(bytes);
        }
    }
}
