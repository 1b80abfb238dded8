//! The traffic manager: all ports of one switch, created as they are named.

use ebb_units::{BitRate, Duration, Instant};

use crate::admission::{Admission, Arrival, Departure};
use crate::config::{ConfigError, DepthUnit, TrafficManagerConfig};
use crate::depth::Depth;
use crate::ingress::Ingress;
use crate::limits::CLASSES;
use crate::port::{Port, PrefetchSpan};
use crate::port_id::{PauseChange, PortId};
use crate::ports::Ports;
use crate::pushed_out::PushedOut;
use crate::queue::PausedBy;
use crate::serialiser::Transmission;
use crate::statistics::PortStatistics;

/// The traffic manager of one switch, for packets of type `P`. A port is created when it is first
/// named, with the profile that the configuration gives it, or like BMv2's ports if it gives none.
#[derive(Debug)]
pub struct TrafficManager<P> {
    /// The ports with their queues.
    ports: Ports<P>,
    /// Packets that came in on each port and are still here; `None` if neither flow control nor
    /// ingress buffers have been configured.
    ingress: Option<Box<Ingress<P>>>,
    /// Packets that gave way to others and have not been taken by the caller.
    pushed_out: Vec<PushedOut<P>>,
}

impl<P> TrafficManager<P> {
    /// A traffic manager without ports; the error says what is wrong with the configuration.
    pub fn new(config: TrafficManagerConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            ingress: Ingress::new(&config),
            ports: Ports::new(config),
            pushed_out: Vec::new(),
        })
    }

    /// The configuration in force.
    pub fn config(&self) -> &TrafficManagerConfig {
        &self.ports.config
    }

    /// Unit in which P4 sees queue depths.
    pub fn depth_unit(&self) -> DepthUnit {
        self.ports.config.depth_unit
    }

    /// Replaces the configuration while traffic flows. Queued packets stay where their queue still
    /// exists; a frame being serialised keeps the link until it is out at the old rate.
    pub fn reconfigure(
        &mut self,
        now: Instant,
        config: TrafficManagerConfig,
    ) -> Result<(), ConfigError> {
        config.validate()?;
        self.ports.configure(now, config);
        match &mut self.ingress {
            Some(ingress) => ingress.configure(now, &mut self.ports),
            None => self.ingress = Ingress::started(now, &mut self.ports),
        }
        Ok(())
    }

    /// Gives ports whose queues nobody has configured as many as the program can name: all of them for Tofino, and
    /// otherwise as many as in BMv2 without options. Nothing waits.
    pub fn fit_queues(&mut self, now: Instant, all: bool) {
        self.ports.fit(now, all);
    }

    /// Drops all packets that wait, because the program they belong to is replaced; queues that it paused resume.
    pub fn clear(&mut self, now: Instant) {
        for (_, port) in self.ports.iter_mut() {
            port.clear(now);
        }
        if let Some(ingress) = &mut self.ingress {
            ingress.clear(now, &mut self.ports);
        }
    }

    /// Creates the port if it does not exist, so that it has statistics before its first packet.
    pub fn open_port(&mut self, now: Instant, port: PortId) {
        self.ports.open(now, port);
    }

    /// Offers a packet to a queue of a port, which takes it or hands it back.
    pub fn enqueue(
        &mut self,
        now: Instant,
        port: PortId,
        arrival: Arrival,
        packet: P,
    ) -> Admission<P> {
        let Self {
            ports, pushed_out, ..
        } = self;
        match &mut self.ingress {
            None => {
                let chosen = ports.open(now, port);
                chosen.enqueue(now, port, arrival, packet, pushed_out)
            }
            Some(ingress) => ingress.enqueue(now, ports, pushed_out, port, arrival, packet),
        }
    }

    /// Takes a packet that need not wait, as [`enqueue`](Self::enqueue) and [`dequeue`](Self::dequeue) would: the link
    /// of the port is free, and the queue takes the packet and has the only one that may leave. True: the caller has
    /// the [`Departure`]; it starts now, and finds and leaves an empty queue. False: nothing was done.
    #[inline]
    pub fn pass(&mut self, now: Instant, port: PortId, arrival: &Arrival) -> bool {
        let port = self.ports.get_mut(port).filter(|_| self.ingress.is_none());
        port.is_some_and(|port| port.pass(now, arrival))
    }

    /// When the port's next transmission starts, or `None` if it has nothing to send.
    pub fn next_deadline(&self, port: PortId) -> Option<Instant> {
        self.ports.get(port)?.next_deadline()
    }

    /// Memory that arrivals at a port and its next departures will touch, for a caller that has it
    /// fetched into the caches: the port itself. Once it is there,
    /// [`queues_ahead`](Self::queues_ahead) can tell where its queues lie, and these in turn where
    /// their packets lie ([`packets_ahead`](Self::packets_ahead)).
    pub fn port_ahead(&self, port: PortId) -> Option<PrefetchSpan> {
        Some(self.ports.get(port)?.ahead())
    }

    /// Memory of the queues of a port that arrivals and departures will touch.
    pub fn queues_ahead(&self, port: PortId) -> Option<impl Iterator<Item = PrefetchSpan>> {
        Some(self.ports.get(port)?.queues_ahead())
    }

    /// Memory of the first few packets in the queue that will be served next.
    pub fn packets_ahead(&self, port: PortId) -> Option<PrefetchSpan> {
        self.ports.get(port)?.packets_ahead()
    }

    /// Packets that will probably leave the port before a time. It is a guess, since the scheduler
    /// is not asked. None: no queue has any.
    pub fn leaving(&self, port: PortId, before: Instant) -> Option<impl Iterator<Item = &P>> {
        self.ports.get(port)?.leaving(before)
    }

    /// The packet whose transmission starts at the deadline of the port, if that is not after
    /// `now`. Call it until it gives `None`, with [`transmit`](Self::transmit) or
    /// [`egress_dropped`](Self::egress_dropped) in between.
    pub fn dequeue(&mut self, now: Instant, port: PortId) -> Option<Departure<P>> {
        let departure = self.ports.get_mut(port)?.dequeue(now)?;
        if let Some(ingress) = &mut self.ingress {
            ingress.departed(&mut self.ports, port, &departure);
        }
        Some(departure)
    }

    /// Sends a dequeued packet with the length `len` that egress left it. `ecn_ce` says whether its
    /// ECN field is "congestion experienced", for the statistics.
    pub fn transmit(
        &mut self,
        port: PortId,
        queue: u8,
        start: Instant,
        len: u64,
        ecn_ce: bool,
    ) -> Transmission {
        self.ports
            .open(start, port)
            .transmit(queue, start, len, ecn_ce)
    }

    /// Sends a MAC control frame of `len` bytes: after the frame that is being serialised, and before
    /// all that waits in queues.
    pub fn transmit_control(&mut self, now: Instant, port: PortId, len: u64) -> Transmission {
        self.ports.open(now, port).transmit_control(now, len)
    }

    /// Counts a MAC control frame of `len` bytes that came in on a port and was taken.
    pub fn control_received(&mut self, now: Instant, port: PortId, len: u64) {
        self.ports.open(now, port).control_received(len);
    }

    /// Counts a pause of a queue by the neighbour that was not renewed and so has ended.
    pub fn pause_expired(&mut self, port: PortId, queue: u8) {
        if let Some(port) = self.ports.get_mut(port) {
            port.pause_expired(queue);
        }
    }

    /// Counts a pause of a queue by the neighbour that lasts for too long.
    pub fn pause_storm(&mut self, port: PortId, queue: u8) {
        if let Some(port) = self.ports.get_mut(port) {
            port.pause_storm(queue);
        }
    }

    /// The rate at which a port sends, that of its link where it is lower; zero means no limit.
    pub fn rate(&self, port: PortId) -> BitRate {
        let port = self.ports.get(port);
        port.map_or(BitRate::default(), Port::effective_rate)
    }

    /// Whether [`take_pause`](Self::take_pause), [`take_woken`](Self::take_woken) and
    /// [`take_pushed_out`](Self::take_pushed_out) have nothing: nearly always, without flow control.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.ingress.is_none() && self.pushed_out.is_empty()
    }

    /// The next request to a neighbour, after a packet came, left or was moved. Call it after
    /// every [`enqueue`](Self::enqueue), [`dequeue`](Self::dequeue),
    /// [`reconfigure`](Self::reconfigure) and [`clear`](Self::clear) until it gives `None`.
    pub fn take_pause(&mut self) -> Option<PauseChange> {
        self.ingress.as_mut()?.pauses.pop_front()
    }

    /// A port whose [`next_deadline`](Self::next_deadline) may have changed although it was not
    /// named, because a packet was moved to its queues from an ingress buffer. Call it like
    /// [`take_pause`](Self::take_pause).
    pub fn take_woken(&mut self) -> Option<PortId> {
        self.ingress.as_mut()?.woken.pop()
    }

    /// A packet that was pushed out, the last one first. Call it after every [`enqueue`](Self::enqueue) until it gives
    /// `None`.
    pub fn take_pushed_out(&mut self) -> Option<PushedOut<P>> {
        self.pushed_out.pop()
    }

    /// Counts a dequeued packet of `len` bytes that egress dropped, other than a [pruned](Self::pruned) one.
    pub fn egress_dropped(&mut self, port: PortId, queue: u8, len: u64) {
        if let Some(port) = self.ports.get_mut(port) {
            port.egress_dropped(queue, len);
        }
    }

    /// Counts a dequeued replica of `len` bytes that egress dropped at the port by which its packet came in. It is no
    /// loss.
    pub fn pruned(&mut self, port: PortId, queue: u8, len: u64) {
        if let Some(port) = self.ports.get_mut(port) {
            port.pruned(queue, len);
        }
    }

    /// Pauses or resumes a queue, as priority flow control does (IEEE 802.1Qbb). The frame that is
    /// being serialised still goes out.
    pub fn set_paused(&mut self, now: Instant, port: PortId, queue: u8, paused: bool) {
        let port = self.ports.open(now, port);
        port.set_paused(now, queue, PausedBy::Neighbour, paused);
    }

    /// The same as the program asks, by advanced flow control. A queue that both pause resumes when both let it.
    pub fn set_paused_by_program(&mut self, now: Instant, port: PortId, queue: u8, paused: bool) {
        let port = self.ports.open(now, port);
        port.set_paused(now, queue, PausedBy::Program, paused);
    }

    /// Delay configured for frames that arrive on the port from outside.
    pub fn rx_delay(&self, port: PortId) -> Duration {
        let profile = || self.ports.config.profile_of(port);
        match self.ports.get(port) {
            Some(port) => port.rx_delay(),
            None => Duration::from_nanos(profile().map_or(0, |p| p.rx_delay_ns)),
        }
    }

    /// Time that a frame takes from its last bit on the port to ingress.
    pub fn pipeline_delay(&self, port: PortId) -> Duration {
        let profile = || self.ports.config.profile_of(port);
        match self.ports.get(port) {
            Some(port) => port.pipeline_delay(),
            None => Duration::from_nanos(profile().map_or(0, |p| p.pipeline_delay_ns)),
        }
    }

    /// Propagation delay configured for frames that leave the port.
    pub fn tx_delay(&self, port: PortId) -> Duration {
        let profile = || self.ports.config.profile_of(port);
        match self.ports.get(port) {
            Some(port) => port.tx_delay(),
            None => Duration::from_nanos(profile().map_or(0, |p| p.delay_ns)),
        }
    }

    /// Lowers the rate of a port below that of its profile, for as long as the link behind it is
    /// slow; `None` ends that. The frame that is being serialised goes out at the old rate.
    pub fn limit_rate(&mut self, now: Instant, port: PortId, limit: Option<BitRate>) {
        self.ports.open(now, port).limit_rate(now, limit);
    }

    /// Allows the port to send this many frames from now on, and none after them until this is
    /// called again; `None` lifts the limit. This serves a link that is slower than the port and
    /// shows it only by refusing frames (credit-based flow control). Packets that egress drops use
    /// up no credit.
    pub fn set_credit(&mut self, now: Instant, port: PortId, frames: Option<u64>) {
        self.ports.open(now, port).set_credit(now, frames);
    }

    /// How much waits in a queue of a port.
    pub fn depth(&self, port: PortId, queue: u8) -> Depth {
        let port = self.ports.get(port);
        port.map_or(Depth::default(), |port| port.depth(queue))
    }

    /// How many quarters of its own capacity a queue with this depth fills, 0 to 3; 0 if it has no capacity of its own.
    pub fn quarters(&self, port: PortId, queue: u8, depth: Depth) -> u8 {
        let port = self.ports.get(port);
        port.map_or(0, |port| port.quarters(queue, depth))
    }

    /// Bytes that wait for a port in each of the first eight queues and in those above it; with an ingress stage, only
    /// those in the queues of the port itself.
    pub fn drain_bytes(&self, port: PortId) -> [u64; CLASSES] {
        self.ports.get(port).map_or([0; CLASSES], Port::drain_bytes)
    }

    /// How much waits in all queues of all ports, and in ingress buffers for them.
    pub fn queued(&self) -> Depth {
        let depths = self.ports.iter().map(|(_, port)| port.queued());
        depths.fold(Depth::default(), Depth::plus)
    }

    /// Packets dropped since the statistics began, by the traffic manager and by egress.
    pub fn dropped_packets(&self) -> u64 {
        let ports = self.ports.iter();
        ports.map(|(_, port)| port.dropped_packets()).sum()
    }

    /// Statistics of all ports that exist, by port number.
    pub fn statistics(&self, now: Instant) -> Vec<PortStatistics> {
        let ports = self.ports.iter();
        ports.map(|(id, port)| port.statistics(now, id)).collect()
    }

    /// Sets the statistics of all ports to zero.
    pub fn reset_statistics(&mut self, now: Instant) {
        for (_, port) in self.ports.iter_mut() {
            port.reset_statistics(now);
        }
    }
}
