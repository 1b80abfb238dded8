//! The ports of a switch: which have a link, and how these are.

use ebb_traffic_manager::{ConfigError, Count};
use ebb_units::{BitRate, Duration, Instant};

use super::export::Exports;
use super::{PortId, Switch};

impl Switch {
    /// The purpose of a port that therefore can have neither link nor interface; `None` for other
    /// ports.
    pub(crate) fn reserved_role(&self, port: PortId) -> Option<&'static str> {
        (self.options.cpu_port == Some(port)).then_some("CPU port")
    }

    /// Checks that the program has room for the state of another port.
    pub(crate) fn check_new_port(&self, port: PortId) -> Result<(), ConfigError> {
        let Some(pipeline) = &self.pipeline else {
            return Ok(());
        };
        let ports = self.ports().chain([port]);
        Exports::new(self.manager.config(), pipeline, ports).map(|_| ())
    }

    /// Notes that a port has an interface or a link.
    pub(crate) fn connect_port(&mut self, now: Instant, port: PortId) {
        self.links.connect(port);
        self.manager.open_port(now, port);
    }

    /// Whether a port has an interface or a link, or is the CPU port.
    pub(super) fn is_connected(&self, port: PortId) -> bool {
        self.links.is_connected(port)
    }

    /// Whether a port has an interface or a link.
    pub(super) fn has_link(&self, port: PortId) -> bool {
        self.is_connected(port) && self.options.cpu_port != Some(port)
    }

    /// The ports that have an interface or a link.
    pub fn ports(&self) -> impl Iterator<Item = PortId> + Clone + use<'_> {
        let ports = self.links.connected();
        ports.filter(|port| self.options.cpu_port != Some(*port))
    }

    /// Delay of frames that come from outside, before they arrive at the port.
    pub(crate) fn rx_delay(&self, port: PortId) -> Duration {
        self.manager.rx_delay(port)
    }

    /// Delay from the last bit of a frame leaving the port to its arrival at the other end.
    pub(crate) fn tx_delay(&self, port: PortId) -> Duration {
        self.manager.tx_delay(port)
    }

    /// Notes that the link behind a port has gone down or come up. While it is down, members of
    /// action selectors that watch it are not chosen.
    pub fn set_port_up(&mut self, port: PortId, up: bool) {
        let was_up = self.links.is_up(port);
        self.links.set_up(port, up);
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.set_port_up(port.into(), up);
            if was_up && !up {
                pipeline.generate_for_port(self.now, port);
            }
        }
    }

    /// Whether the link behind a port is up.
    pub fn is_port_up(&self, port: PortId) -> bool {
        self.links.is_up(port)
    }

    /// Packets and bytes that came in at a port since the start, MAC control frames aside.
    pub fn received(&self, port: PortId) -> Count {
        self.links.received(port)
    }

    /// Counts a frame that came in.
    pub(super) fn count_received(&mut self, port: PortId, bytes: usize) {
        self.links.count(port, bytes as u64);
    }

    /// Limits the rate of a port to that of the link behind it; `None` lifts the limit.
    pub(crate) fn limit_rate(&mut self, now: Instant, port: PortId, rate: Option<BitRate>) {
        self.manager.limit_rate(now, port, rate);
    }

    /// Allows a port to send this many frames; see [`TrafficManager::set_credit`].
    pub(crate) fn set_credit(&mut self, port: PortId, frames: Option<u64>) {
        self.manager.set_credit(self.now, port, frames);
        self.schedule(port);
        self.run();
    }
}
