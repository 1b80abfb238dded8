//! The ports of one switch, created as they are named.

use ebb_units::Instant;

use crate::config::{Profile, TrafficManagerConfig};
use crate::limits::{CLASSES, MAX_QUEUES};
use crate::port::Port;
use crate::port_id::PortId;

/// A port with its profile of the configuration, or the one for ports that have none.
#[cold]
fn create<P>(
    now: Instant,
    port: PortId,
    config: &TrafficManagerConfig,
    fallback: &Profile,
) -> Box<Port<P>> {
    Box::new(Port::new(now, config.profile_of(port).unwrap_or(fallback)))
}

/// All ports. Each has the profile that the configuration gives it, or is like BMv2's ports if it
/// gives none.
#[derive(Debug)]
pub(crate) struct Ports<P> {
    /// The configuration in force.
    pub(crate) config: TrafficManagerConfig,
    /// Profile of ports for which the configuration has none.
    fallback: Profile,
    /// The ports by number; `None` for those that were never named.
    ports: Vec<Option<Box<Port<P>>>>,
}

impl<P> Ports<P> {
    /// No port so far.
    pub(crate) fn new(config: TrafficManagerConfig) -> Self {
        Self {
            config,
            fallback: Profile::like_bmv2(CLASSES as u8),
            ports: Vec::new(),
        }
    }

    /// Gives ports that have no profile as many queues as programs of an architecture can name.
    pub(crate) fn fit(&mut self, now: Instant, all: bool) {
        let count = if all { MAX_QUEUES } else { CLASSES };
        let fallback = Profile::like_bmv2(count as u8);
        let mut config = self.config.clone();
        if config.fit(all) || fallback != self.fallback {
            self.fallback = fallback;
            self.configure(now, config);
        }
    }

    /// Gives all ports their profiles of another configuration.
    pub(crate) fn configure(&mut self, now: Instant, config: TrafficManagerConfig) {
        self.config = config;
        for (id, port) in (0..).zip(&mut self.ports) {
            if let Some(port) = port {
                port.configure(now, self.config.profile_of(id).unwrap_or(&self.fallback));
            }
        }
    }

    /// The port, which is created if it does not exist.
    #[inline]
    pub(crate) fn open(&mut self, now: Instant, port: PortId) -> &mut Port<P> {
        let index = usize::from(port);
        if self.ports.len() <= index {
            self.make_place(index);
        }
        let (config, fallback) = (&self.config, &self.fallback);
        self.ports[index].get_or_insert_with(|| create(now, port, config, fallback))
    }

    /// Makes a place for the port with this number.
    #[cold]
    fn make_place(&mut self, index: usize) {
        self.ports.resize_with(index + 1, || None);
    }

    /// The port if it exists.
    pub(crate) fn get(&self, port: PortId) -> Option<&Port<P>> {
        self.ports.get(usize::from(port))?.as_deref()
    }

    /// The port if it exists.
    pub(crate) fn get_mut(&mut self, port: PortId) -> Option<&mut Port<P>> {
        self.ports.get_mut(usize::from(port))?.as_deref_mut()
    }

    /// The ports that exist, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PortId, &Port<P>)> {
        let ports = (0..).zip(&self.ports);
        ports.filter_map(|(id, port)| Some((id, port.as_deref()?)))
    }

    /// The ports that exist, by number.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (PortId, &mut Port<P>)> {
        let ports = (0..).zip(&mut self.ports);
        ports.filter_map(|(id, port)| Some((id, port.as_deref_mut()?)))
    }
}
