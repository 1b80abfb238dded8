//! All ports of one switch.

use ebb_units::{BitRate, Duration, Instant};

use crate::config::{ConfigError, DepthUnit, Profile, TrafficManagerConfig};
use crate::port::{Admission, Ahead, Arrival, Departure, Port, Transmission};
use crate::queue::Depth;
use crate::statistics::PortStatistics;

/// A port number of the data plane.
pub type PortId = u16;

/// The traffic manager of one switch, for packets of type `P`. A port comes into being when it is
/// first named, with the profile that the configuration gives it, or as on BMv2 if it gives none.
#[derive(Debug)]
pub struct TrafficManager<P> {
    config: TrafficManagerConfig,
    fallback: Profile,
    ports: Vec<Option<Box<Port<P>>>>,
}

impl<P> TrafficManager<P> {
    pub fn new(config: TrafficManagerConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            config,
            fallback: Profile::like_bmv2(crate::MAX_QUEUES as u8),
            ports: Vec::new(),
        })
    }

    pub fn config(&self) -> &TrafficManagerConfig {
        &self.config
    }

    pub fn depth_unit(&self) -> DepthUnit {
        self.config.depth_unit
    }

    /// Replaces the configuration while traffic flows. Queued packets stay where their queue still
    /// exists; a frame being serialised keeps the link until it is out at the old rate.
    pub fn reconfigure(
        &mut self,
        now: Instant,
        config: TrafficManagerConfig,
    ) -> Result<(), ConfigError> {
        config.validate()?;
        self.config = config;
        for (id, port) in (0..).zip(&mut self.ports) {
            if let Some(port) = port {
                port.configure(now, self.config.profile_of(id).unwrap_or(&self.fallback));
            }
        }
        Ok(())
    }

    /// Drops everything that waits, because the program it belongs to is replaced.
    pub fn clear(&mut self, now: Instant) {
        for port in self.ports.iter_mut().flatten() {
            port.clear(now);
        }
    }

    /// Makes sure the port exists, so that it has statistics before its first packet.
    pub fn open_port(&mut self, now: Instant, port: PortId) {
        self.port_or_new(now, port);
    }

    /// Offers a packet to a queue of a port.
    pub fn enqueue(
        &mut self,
        now: Instant,
        port: PortId,
        arrival: Arrival,
        packet: P,
    ) -> Admission<P> {
        self.port_or_new(now, port).enqueue(now, arrival, packet)
    }

    /// When the port's next transmission starts, or `None` if it has nothing to send.
    pub fn next_deadline(&self, port: PortId) -> Option<Instant> {
        self.port(port)?.next_deadline()
    }

    /// What arrivals at a port and its next departures will touch, for those who have it fetched into the caches: the
    /// port. It tells where its queues are ([`queues_ahead`](Self::queues_ahead)), and they where their packets are.
    pub fn port_ahead(&self, port: PortId) -> Option<Ahead> {
        Some(self.port(port)?.ahead())
    }

    pub fn queues_ahead(&self, port: PortId) -> impl Iterator<Item = Ahead> {
        self.port(port).into_iter().flat_map(Port::queues_ahead)
    }

    /// The first few packets of the queue that will be served.
    pub fn packets_ahead(&self, port: PortId) -> Option<Ahead> {
        self.port(port)?.packets_ahead()
    }

    /// Packets that may well leave the port before a time: the scheduler has not been asked.
    pub fn leaving(&self, port: PortId, before: Instant) -> impl Iterator<Item = &P> {
        let port = self.port(port).into_iter();
        port.flat_map(move |port| port.leaving(before))
    }

    /// The packet whose transmission starts at the deadline of the port, if that is not after
    /// `now`. Call it until it gives `None`, with [`transmit`](Self::transmit) or
    /// [`egress_dropped`](Self::egress_dropped) in between.
    pub fn dequeue(&mut self, now: Instant, port: PortId) -> Option<Departure<P>> {
        self.port_mut(port)?.dequeue(now)
    }

    /// Sends a dequeued packet, with the length that egress left it. `ecn_ce` says that the frame
    /// carries congestion experienced, for the statistics.
    pub fn transmit(
        &mut self,
        port: PortId,
        queue: u8,
        start: Instant,
        len: u64,
        ecn_ce: bool,
    ) -> Transmission {
        self.port_or_new(start, port)
            .transmit(queue, start, len, ecn_ce)
    }

    /// Counts a dequeued packet that egress dropped.
    pub fn egress_dropped(&mut self, port: PortId, queue: u8, len: u64) {
        if let Some(port) = self.port_mut(port) {
            port.egress_dropped(queue, len);
        }
    }

    /// Stops or restarts a queue (802.1Qbb). The frame being serialised goes out.
    pub fn set_paused(&mut self, now: Instant, port: PortId, queue: u8, paused: bool) {
        self.port_or_new(now, port).set_paused(now, queue, paused);
    }

    /// The delay configured for frames that arrive on the port from outside.
    pub fn rx_delay(&self, port: PortId) -> Duration {
        let profile = || self.config.profile_of(port);
        match self.port(port) {
            Some(port) => port.rx_delay(),
            None => Duration::from_nanos(profile().map_or(0, |p| p.rx_delay_ns)),
        }
    }

    /// The propagation delay configured for frames that leave the port.
    pub fn tx_delay(&self, port: PortId) -> Duration {
        let profile = || self.config.profile_of(port);
        match self.port(port) {
            Some(port) => port.tx_delay(),
            None => Duration::from_nanos(profile().map_or(0, |p| p.delay_ns)),
        }
    }

    /// Lowers the rate of a port below that of its profile, for as long as the link behind it is that
    /// slow; `None`: it is not. The frame being serialised goes out at the old rate.
    pub fn limit_rate(&mut self, now: Instant, port: PortId, limit: Option<BitRate>) {
        self.port_or_new(now, port).limit_rate(limit);
    }

    /// The link behind a port takes so many frames from now on, and then none until this is called
    /// again; `None`: as many as there are. For a link that is slower than the port and tells so
    /// only by taking no more (credit-based flow control). Packets that egress drops take nothing.
    pub fn set_credit(&mut self, now: Instant, port: PortId, frames: Option<u64>) {
        self.port_or_new(now, port).set_credit(now, frames);
    }

    /// What waits in a queue of a port.
    pub fn depth(&self, port: PortId, queue: u8) -> Depth {
        let port = self.port(port);
        port.map_or(Depth::default(), |port| port.depth(queue))
    }

    /// What waits in all queues of all ports.
    pub fn queued(&self) -> Depth {
        let depths = self.ports.iter().flatten().map(|p| p.queued());
        depths.fold(Depth::default(), |sum, d| Depth {
            packets: sum.packets + d.packets,
            bytes: sum.bytes + d.bytes,
        })
    }

    /// Dropped since the statistics began, here and by egress.
    pub fn dropped_packets(&self) -> u64 {
        let ports = self.ports.iter().flatten();
        ports.map(|port| port.dropped_packets()).sum()
    }

    pub fn statistics(&self) -> Vec<PortStatistics> {
        let ports = (0..).zip(&self.ports);
        let open = ports.filter_map(|(id, port)| Some((id, port.as_ref()?)));
        open.map(|(id, port)| port.statistics(id)).collect()
    }

    pub fn reset_statistics(&mut self, now: Instant) {
        for port in self.ports.iter_mut().flatten() {
            port.reset_statistics(now);
        }
    }

    fn port(&self, port: PortId) -> Option<&Port<P>> {
        self.ports.get(usize::from(port))?.as_deref()
    }

    fn port_mut(&mut self, port: PortId) -> Option<&mut Port<P>> {
        self.ports.get_mut(usize::from(port))?.as_deref_mut()
    }

    fn port_or_new(&mut self, now: Instant, port: PortId) -> &mut Port<P> {
        let index = usize::from(port);
        if self.ports.len() <= index {
            self.ports.resize_with(index + 1, || None);
        }
        let (config, fallback) = (&self.config, &self.fallback);
        self.ports[index].get_or_insert_with(|| {
            let profile = config.profile_of(port).unwrap_or(fallback);
            Box::new(Port::new(now, profile))
        })
    }
}
