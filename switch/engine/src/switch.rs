//! One switch: the pipeline, the traffic manager, and the ways a packet takes between them.
//!
//! Where a packet goes after ingress and after egress is what behavioral-model's
//! `docs/simple_switch.md` says, with two additions. The traffic manager may hand a packet back: it
//! then enters ingress again as a deflection (docs/architecture.md, "Data path of one switch"). And
//! a packet that has been through the pipeline [`MAX_PASSES`] times is dropped, and so is what a packet makes of
//! itself beyond [`MAX_COPIES`], so that no program can occupy the switch for ever.

mod lineage;
mod queueing;
mod visits;

use std::collections::{BTreeSet, VecDeque};

use ebb_pipeline::{
    CloneRequest, Deflect, Digest, EgressInput, EgressVerdict, EntryId, IngressInput,
    IngressVerdict, Packet, Pipeline, Pool, Preserved, TableId, control::Replica, instance_type,
};
use ebb_traffic_manager::{
    ConfigError, Count, Departure, Depth, PortStatistics, TrafficManager, TrafficManagerConfig,
};
use ebb_units::{BitRate, Duration, Instant};

use crate::conservation::{Account, Ledger};
use crate::drops::{DropLedger, DropReason};
use crate::ecn::carries_ce;
use crate::lateness::{Late, Lateness, LatenessReport};
use crate::trace::{Event, Tracer, Watches};

pub use ebb_traffic_manager::PortId;
use lineage::Lineage;
pub use lineage::MAX_COPIES;

/// Passes through ingress or egress that resubmission, recirculation, cloning and deflection may
/// add up to for one packet.
pub const MAX_PASSES: u8 = 64;
/// v1model's queue depths are 19 bits wide; greater depths stay at the greatest value.
const MAX_DEPTH: u64 = (1 << 19) - 1;

/// What identifies a switch and does not change.
#[derive(Clone, Debug)]
pub struct SwitchOptions {
    pub name: String,
    pub device_id: u64,
    /// The port whose packets are packet-ins and packet-outs.
    pub cpu_port: Option<PortId>,
    /// The `egress_spec` that drops.
    pub drop_port: PortId,
}

/// What a switch tells its controller.
#[derive(Debug)]
pub enum Notice {
    PacketIn(Vec<u8>),
    Digest(Digest),
    /// An entry was not hit for its idle timeout. Told again after another timeout.
    Idle {
        table: TableId,
        entry: EntryId,
    },
}

/// Takes notices; false if it could not.
pub type Listener = Box<dyn FnMut(Notice) -> bool + Send>;

/// What a switch wants to happen at some time.
#[derive(Debug)]
pub(crate) enum Effect {
    /// A transmission is due.
    Serve(PortId),
    /// The last bit of a frame is at the far end of the port's link, or at the controller.
    Send { port: PortId, frame: Vec<u8> },
}

/// A packet between ingress and egress.
#[derive(Debug)]
struct Queued {
    packet: Box<Packet>,
    egress_rid: u16,
    journey: Journey,
}

/// What the switch remembers of a packet across passes.
#[derive(Clone, Debug)]
struct Journey {
    ingress_port: PortId,
    packet_id: u64,
    passes: u8,
    /// How often it has been deflected.
    deflections: u8,
    /// Who wants to know what happens to it.
    watches: Watches,
    lineage: Lineage,
}

/// A packet before ingress.
struct Entering {
    frame: Vec<u8>,
    instance_type: u32,
    preserved: Option<Preserved>,
    deflect: Option<Deflect>,
    journey: Journey,
}

pub struct Switch {
    options: SwitchOptions,
    now: Instant,
    pipeline: Option<Pipeline>,
    manager: TrafficManager<Queued>,
    /// The configuration at the start, for the next one.
    start_config: TrafficManagerConfig,
    /// Since this was last asked, the delays of links may have changed.
    delays_changed: bool,
    connected: Vec<bool>,
    /// For each port, when it will be served, by an [`Effect::Serve`] or because it is due.
    serve_at: Vec<Option<Instant>>,
    effects: Vec<(Instant, Effect)>,
    entering: VecDeque<Entering>,
    /// Ports with a transmission that starts now.
    due: VecDeque<PortId>,
    /// Work memory.
    replicas: Vec<Replica>,
    /// Inside the switch.
    drops: DropLedger,
    /// Drops of frames that never got in, or had been sent.
    outside_drops: DropLedger,
    ledger: Ledger,
    lateness: Lateness,
    packets_seen: u64,
    listener: Option<Listener>,
    tracer: Tracer,
    ports_down: BTreeSet<PortId>,
}

impl Switch {
    pub fn new(
        options: SwitchOptions,
        traffic_manager: TrafficManagerConfig,
    ) -> Result<Self, ConfigError> {
        let cpu_port = options.cpu_port;
        let start_config = spare_cpu_port(traffic_manager, cpu_port);
        let mut switch = Self {
            options,
            now: Instant::ZERO,
            pipeline: None,
            manager: TrafficManager::new(start_config.clone())?,
            start_config,
            delays_changed: false,
            connected: Vec::new(),
            serve_at: Vec::new(),
            effects: Vec::new(),
            entering: VecDeque::new(),
            due: VecDeque::new(),
            replicas: Vec::new(),
            drops: DropLedger::default(),
            outside_drops: DropLedger::default(),
            ledger: Ledger::default(),
            lateness: Lateness::default(),
            packets_seen: 0,
            listener: None,
            tracer: Tracer::default(),
            ports_down: BTreeSet::new(),
        };
        if let Some(port) = cpu_port {
            switch.connect_port(Instant::ZERO, port);
        }
        Ok(switch)
    }

    pub fn name(&self) -> &str {
        &self.options.name
    }

    pub fn device_id(&self) -> u64 {
        self.options.device_id
    }

    pub fn cpu_port(&self) -> Option<PortId> {
        self.options.cpu_port
    }

    pub fn now(&self) -> Instant {
        self.now
    }

    pub fn pipeline(&self) -> Option<&Pipeline> {
        self.pipeline.as_ref()
    }

    pub fn pipeline_mut(&mut self) -> Option<&mut Pipeline> {
        self.pipeline.as_mut()
    }

    /// Replaces the program. Packets that wait in queues belong to the old one and are dropped.
    pub fn install(&mut self, mut pipeline: Pipeline) {
        self.manager.clear(self.now);
        self.tracer.flush();
        pipeline.set_drop_port(self.options.drop_port);
        for port in &self.ports_down {
            pipeline.set_port_up((*port).into(), false);
        }
        self.pipeline = Some(pipeline);
    }

    /// The link behind a port has gone down or come up. Members of groups that watch it are not
    /// chosen while it is down.
    pub fn set_port_up(&mut self, port: PortId, up: bool) {
        match up {
            true => self.ports_down.remove(&port),
            false => self.ports_down.insert(port),
        };
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.set_port_up(port.into(), up);
        }
    }

    /// Everything is as at the start, without a program. Ports stay connected, and frames that have
    /// left are on their way.
    pub(crate) fn restart(&mut self) {
        // It was valid at the start.
        let Ok(manager) = TrafficManager::new(self.start_config.clone()) else {
            return;
        };
        self.manager = manager;
        for port in 0..self.connected.len() {
            if self.connected[port] {
                self.manager.open_port(self.now, port as PortId);
            }
        }
        self.pipeline = None;
        self.tracer.flush();
        self.serve_at.fill(None);
        self.drops = DropLedger::default();
        self.outside_drops = DropLedger::default();
        self.ledger = Ledger::default();
        self.lateness = Lateness::default();
        self.delays_changed = true;
    }

    /// What waits in a queue of a port.
    pub fn queue_depth(&self, port: PortId, queue: u8) -> Depth {
        self.manager.depth(port, queue)
    }

    /// The link behind a port is slower than the port (`None`: it is not).
    pub(crate) fn limit_rate(&mut self, now: Instant, port: PortId, rate: Option<BitRate>) {
        self.manager.limit_rate(now, port, rate);
    }

    /// The link behind a port takes so many frames from now on; see
    /// [`TrafficManager::set_credit`].
    pub(crate) fn set_credit(&mut self, port: PortId, frames: Option<u64>) {
        self.manager.set_credit(self.now, port, frames);
        self.schedule(port);
        self.run();
    }

    /// Whether the delays of links may have changed since the last call.
    pub(crate) fn take_delays_changed(&mut self) -> bool {
        std::mem::take(&mut self.delays_changed)
    }

    pub fn traffic_manager_config(&self) -> &TrafficManagerConfig {
        self.manager.config()
    }

    pub fn statistics(&self) -> Vec<PortStatistics> {
        self.manager.statistics()
    }

    pub fn set_traffic_manager_config(
        &mut self,
        config: TrafficManagerConfig,
    ) -> Result<(), ConfigError> {
        let config = spare_cpu_port(config, self.options.cpu_port);
        self.manager.reconfigure(self.now, config)?;
        self.delays_changed = true;
        for port in 0..self.serve_at.len() {
            self.schedule(port as PortId);
        }
        self.run();
        Ok(())
    }

    pub fn reset_statistics(&mut self) {
        self.manager.reset_statistics(self.now);
        self.lateness = Lateness::default();
        if cfg!(debug_assertions) {
            self.ledger.restart(self.account());
        }
    }

    /// Who takes packet-ins and digests.
    pub fn set_listener(&mut self, listener: Option<Listener>) {
        self.listener = listener;
    }

    /// Looks for entries that have become idle. To be called now and then.
    pub fn check_idle_entries(&mut self) {
        let Some(pipeline) = &mut self.pipeline else {
            return;
        };
        for (table, entry) in pipeline.take_idle_entries(self.now) {
            self.notify(Notice::Idle { table, entry });
        }
    }

    /// A packet from the controller. False if the switch has no CPU port.
    pub fn packet_out(&mut self, frame: Vec<u8>) -> bool {
        match self.options.cpu_port {
            Some(port) => {
                self.receive(port, frame);
                true
            }
            None => false,
        }
    }

    pub fn drops(&self) -> impl Iterator<Item = (PortId, &'static str, Count)> {
        self.drops.iter().chain(self.outside_drops.iter())
    }

    pub(crate) fn note_lateness(&mut self, late: &Late) {
        self.lateness.note(late);
    }

    /// How late it was at its interfaces; nothing under a virtual clock.
    pub fn lateness(&self) -> LatenessReport {
        self.lateness.report()
    }

    pub fn count_interface_drop(
        &mut self,
        port: PortId,
        reason: DropReason,
        packets: u64,
        bytes: u64,
    ) {
        self.outside_drops
            .add(port, reason.as_str(), packets, bytes);
    }

    /// What a port is for if it cannot have a link or an interface.
    pub(crate) fn reserved_role(&self, port: PortId) -> Option<&'static str> {
        (self.options.cpu_port == Some(port)).then_some("CPU port")
    }

    pub(crate) fn connect_port(&mut self, now: Instant, port: PortId) {
        let index = usize::from(port);
        if self.connected.len() <= index {
            self.connected.resize(index + 1, false);
        }
        self.connected[index] = true;
        self.manager.open_port(now, port);
    }

    pub(crate) fn rx_delay(&self, port: PortId) -> Duration {
        self.manager.rx_delay(port)
    }

    /// From the last bit of a frame leaving the port to its arrival at the other end.
    pub(crate) fn tx_delay(&self, port: PortId) -> Duration {
        self.manager.tx_delay(port)
    }

    /// Time goes on. To be called before anything else at that time.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// What the switch wants to happen. Give the vector back, empty, to keep its memory.
    pub(crate) fn take_effects(&mut self) -> Vec<(Instant, Effect)> {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn give_back(&mut self, effects: Vec<(Instant, Effect)>) {
        if self.effects.is_empty() {
            self.effects = effects;
        }
    }

    /// The last bit of a frame has arrived at a port.
    pub(crate) fn receive(&mut self, port: PortId, frame: Vec<u8>) {
        self.packets_seen += 1;
        self.ledger.came(1);
        let journey = Journey {
            ingress_port: port,
            packet_id: self.packets_seen,
            passes: 0,
            deflections: 0,
            watches: self.tracer.admit(port),
            lineage: Lineage::default(),
        };
        // Nothing else waits: `run` leaves nothing.
        self.ingress(Entering {
            frame,
            instance_type: instance_type::NORMAL,
            preserved: None,
            deflect: None,
            journey,
        });
        self.run();
    }

    /// Transmissions are due at a port.
    pub(crate) fn serve(&mut self, port: PortId) {
        self.start(port);
        self.run();
    }

    /// A frame sent to the CPU port.
    pub(crate) fn packet_in(&mut self, frame: Vec<u8>) {
        let port = self.options.cpu_port.unwrap_or_default();
        let len = frame.len() as u64;
        if !self.notify(Notice::PacketIn(frame)) {
            self.count_interface_drop(port, DropReason::NoController, 1, len);
        }
    }

    fn notify(&mut self, notice: Notice) -> bool {
        self.listener
            .as_mut()
            .is_some_and(|listener| listener(notice))
    }

    fn drop_one(&mut self, port: PortId, reason: &'static str, bytes: u64) {
        self.tracer.note(|| Event::Dropped { reason });
        self.drops.add(port, reason, 1, bytes);
    }

    fn drop_packet(&mut self, packet: Box<Packet>, journey: &Journey, reason: DropReason) {
        let len = packet.wire_len() as u64;
        self.drop_one(journey.ingress_port, reason.as_str(), len);
        self.recycle(packet);
    }

    /// Does everything there is to do now: packets before ingress, including those that come back
    /// meanwhile, and transmissions that start.
    fn run(&mut self) {
        loop {
            if let Some(entering) = self.entering.pop_front() {
                self.ingress(entering);
            } else if let Some(port) = self.due.pop_front() {
                self.start(port);
            } else {
                break;
            }
        }
        self.check_conservation();
    }

    fn account(&self) -> Account {
        Account {
            dropped: self.drops.packets() + self.manager.dropped_packets(),
            queued: self.manager.queued().packets,
        }
    }

    fn check_conservation(&self) {
        if cfg!(debug_assertions) {
            let missing = self.ledger.missing(self.account());
            assert!(
                missing == 0,
                "{}: {missing} packets are neither sent nor dropped nor queued: {:?}, {:?}",
                self.name(),
                self.ledger,
                self.account()
            );
        }
    }

    /// Starts the transmission that is due at a port.
    fn start(&mut self, port: PortId) {
        self.serve_at[usize::from(port)] = None;
        if let Some(departure) = self.manager.dequeue(self.now, port) {
            self.egress(port, departure);
        }
        self.schedule(port);
    }

    fn pass_ingress(&mut self, entering: Entering) {
        let Entering {
            frame, mut journey, ..
        } = entering;
        let (port, len) = (journey.ingress_port, frame.len() as u64);
        if journey.passes >= MAX_PASSES {
            return self.drop_one(port, DropReason::PassLimit.as_str(), len);
        }
        let Some(pipeline) = &mut self.pipeline else {
            return self.drop_one(port, DropReason::NoProgram.as_str(), len);
        };
        let input = IngressInput {
            ingress_port: port,
            packet_id: journey.packet_id,
            instance_type: entering.instance_type,
            preserved: entering.preserved,
            deflect: entering.deflect,
        };
        let outcome = pipeline.ingress(self.now, frame, &input);
        self.collect_trace();
        if let Some(clone) = outcome.clone {
            self.clone_packet(clone, &mut journey);
        }
        if let Some(digest) = outcome.digest {
            self.tracer.note(|| Event::Digest {
                values: digest.values.clone(),
            });
            // A digest is a hint; P4Runtime lets the switch lose it.
            self.notify(Notice::Digest(digest));
        }
        match outcome.verdict {
            IngressVerdict::Resubmit { frame, preserved } => {
                self.tracer.note(|| Event::Resubmitted);
                self.entering.push_back(Entering {
                    frame,
                    instance_type: instance_type::RESUBMITTED,
                    preserved: Some(preserved),
                    deflect: None,
                    journey: journey.next_pass(),
                });
            }
            IngressVerdict::Multicast { group, packet } => self.multicast(group, packet, journey),
            IngressVerdict::Unicast {
                egress_spec,
                priority,
                packet,
            } => {
                let queued = Queued {
                    packet,
                    egress_rid: 0,
                    journey,
                };
                self.offer(egress_spec, priority, queued);
            }
            IngressVerdict::Dropped(reason) => self.drop_one(port, reason.name(), len),
        }
    }

    fn multicast(&mut self, group: u16, packet: Box<Packet>, journey: Journey) {
        let mut replicas = std::mem::take(&mut self.replicas);
        replicas.clear();
        if let Some(pipeline) = &self.pipeline {
            replicas.extend_from_slice(pipeline.multicast_replicas(group));
        }
        self.tracer.note(|| Event::Multicast {
            group,
            replicas: replicas.clone(),
        });
        if replicas.is_empty() {
            self.drop_packet(packet, &journey, DropReason::NoReplica);
        } else {
            self.replicate(&replicas, None, 0, packet, journey);
        }
        self.replicas = replicas;
    }

    fn clone_packet(&mut self, clone: CloneRequest, original: &mut Journey) {
        self.ledger.came(1);
        if !original.may_copy() {
            return self.drop_packet(clone.packet, original, DropReason::CopyLimit);
        }
        let journey = original.clone().next_pass();
        if journey.passes >= MAX_PASSES {
            return self.drop_packet(clone.packet, &journey, DropReason::PassLimit);
        }
        let session = self
            .pipeline
            .as_ref()
            .and_then(|p| p.clone_session(clone.session));
        self.tracer.note(|| Event::Cloned {
            session: clone.session,
            replicas: session.map_or_else(Vec::new, |s| s.replicas.clone()),
        });
        // A session that does not exist makes no copy, as on BMv2.
        let Some(session) = session.cloned() else {
            self.ledger.consumed(1);
            return self.recycle(clone.packet);
        };
        let queue = Some(session.class_of_service as u8);
        let truncate = session.packet_length_bytes as usize;
        self.replicate(&session.replicas, queue, truncate, clone.packet, journey);
    }

    /// Copies a packet for every replica; `queue` overrides the packet's own priority.
    fn replicate(
        &mut self,
        replicas: &[Replica],
        queue: Option<u8>,
        truncate_bytes: usize,
        mut packet: Box<Packet>,
        mut journey: Journey,
    ) {
        let Some(pipeline) = &mut self.pipeline else {
            return;
        };
        if truncate_bytes > 0 {
            packet.truncate(truncate_bytes);
        }
        let queue = queue.unwrap_or_else(|| pipeline.priority(&packet));
        let Some((last, others)) = replicas.split_last() else {
            self.ledger.consumed(1);
            return self.recycle(packet);
        };
        self.ledger.came(others.len() as u64);
        for replica in others {
            if !journey.may_copy() {
                let len = packet.wire_len() as u64;
                self.drop_one(journey.ingress_port, DropReason::CopyLimit.as_str(), len);
                continue;
            }
            // Offering a copy may need the pipeline, so it is borrowed anew for each.
            let Some(pipeline) = &mut self.pipeline else {
                return;
            };
            let queued = Queued {
                packet: pipeline.clone_packet(&packet),
                egress_rid: replica.instance,
                journey: journey.clone(),
            };
            self.offer(replica.port, queue, queued);
        }
        let queued = Queued {
            packet,
            egress_rid: last.instance,
            journey,
        };
        self.offer(last.port, queue, queued);
    }

    /// Gives the pipeline other memory for packets; see [`Pipeline::exchange_pool`].
    pub(crate) fn exchange_pool(&mut self, pool: &mut Pool) {
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.exchange_pool(pool);
        }
    }

    fn recycle(&mut self, packet: Box<Packet>) {
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.recycle(packet);
        }
    }

    fn pass_egress(&mut self, port: PortId, departure: Departure<Queued>) {
        let Departure {
            packet: queued,
            queue,
            enqueued_at,
            start,
            ..
        } = departure;
        // Queues are emptied when a program is replaced, so there is one.
        let Some(pipeline) = &mut self.pipeline else {
            return;
        };
        let unit = self.manager.depth_unit();
        let input = EgressInput {
            egress_port: port,
            egress_rid: queued.egress_rid,
            instance_type: None,
            queue_id: queue,
            enq_timestamp: enqueued_at,
            enq_qdepth: departure.depth_at_enqueue.in_unit(unit).min(MAX_DEPTH) as u32,
            deq_timedelta: start.since(enqueued_at),
            deq_qdepth: departure.depth_at_dequeue.in_unit(unit).min(MAX_DEPTH) as u32,
        };
        let mut journey = queued.journey;
        let outcome = pipeline.egress(start, queued.packet, &input);
        self.collect_trace();
        if let Some(clone) = outcome.clone {
            self.clone_packet(clone, &mut journey);
        }
        match outcome.verdict {
            EgressVerdict::Transmit(frame) => self.transmit(port, queue, start, frame),
            EgressVerdict::Recirculate { frame, preserved } => {
                self.tracer.note(|| Event::Recirculated);
                self.entering.push_back(Entering {
                    frame,
                    instance_type: instance_type::RECIRCULATED,
                    preserved: Some(preserved),
                    deflect: None,
                    journey: Journey {
                        deflections: 0,
                        ..journey.next_pass()
                    },
                });
            }
            EgressVerdict::Dropped(reason) => {
                self.tracer.note(|| Event::Dropped {
                    reason: reason.name(),
                });
                self.manager.egress_dropped(port, queue, departure.len);
            }
        }
    }

    fn transmit(&mut self, port: PortId, queue: u8, start: Instant, frame: Vec<u8>) {
        let len = frame.len() as u64;
        let connected = self.connected.get(usize::from(port));
        if !connected.copied().unwrap_or_default() {
            return self.drop_one(port, DropReason::NoSuchPort.as_str(), len);
        }
        let sent = self
            .manager
            .transmit(port, queue, start, len, carries_ce(&frame));
        self.ledger.sent();
        self.tracer.note(|| Event::Sent {
            port,
            arrival: sent.arrival,
            frame: frame.clone(),
        });
        self.effects
            .push((sent.arrival, Effect::Send { port, frame }));
    }

    /// Makes sure that the port is served when its next transmission is due.
    fn schedule(&mut self, port: PortId) {
        let Some(deadline) = self.manager.next_deadline(port) else {
            return;
        };
        let index = usize::from(port);
        if self.serve_at.len() <= index {
            self.serve_at.resize(index + 1, None);
        }
        if self.serve_at[index].is_some_and(|at| at <= deadline) {
            return;
        }
        self.serve_at[index] = Some(deadline);
        if deadline <= self.now {
            self.due.push_back(port);
        } else {
            self.effects.push((deadline, Effect::Serve(port)));
        }
    }
}

impl Journey {
    fn next_pass(self) -> Self {
        Self {
            passes: self.passes + 1,
            ..self
        }
    }

    /// Whether another packet may be made of this one. If so, it is counted.
    fn may_copy(&mut self) -> bool {
        self.passes == 0 || self.lineage.take_copy()
    }
}

/// The CPU port is no link: unless the configuration lists it, "default" does not apply to it.
fn spare_cpu_port(
    mut config: TrafficManagerConfig,
    cpu_port: Option<PortId>,
) -> TrafficManagerConfig {
    if let Some(port) = cpu_port.filter(|port| !config.lists_port(*port)) {
        config.set_unlimited(port);
    }
    config
}
