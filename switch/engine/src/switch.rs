//! One switch: a pipeline, a traffic manager, and the ways a packet takes between them.
//!
//! Where a packet goes after ingress and after egress follows behavioral-model's
//! `docs/simple_switch.md`, with two additions. The traffic manager may hand a packet back, which
//! then enters ingress again as a deflection (docs/architecture.md, "Data path of one switch"). And
//! no program can occupy the switch for ever: a packet that has been through the pipeline
//! [`MAX_PASSES`] times is dropped, and so are copies beyond [`MAX_COPIES`].

mod agenda;
mod copies;
mod effects;
mod export;
mod flow_control;
mod journey;
mod links;
mod pauses;
mod ports;
mod queueing;
mod ranks;
mod tally;
mod visits;

use std::collections::VecDeque;

pub use ebb_pipeline::MAX_COPIES;
use ebb_pipeline::{
    Digest, EgressInput, EgressVerdict, EntryId, IngressInput, IngressVerdict, Journey, Lineage,
    Packet, Pipeline, Pool, Preserved, TableId, control::Replica, instance_type,
};
use ebb_traffic_manager::{
    ConfigError, Count, Departure, Depth, PortStatistics, TrafficManager, TrafficManagerConfig,
};
use ebb_units::Instant;

use crate::drops::DropReason;
use crate::ecn::carries_ce;
use crate::lateness::{Late, LatenessReport};
use crate::trace::{Event, Tracer};

use agenda::{Agenda, Task};
pub use ebb_traffic_manager::PortId;
use effects::Effects;
pub(crate) use effects::Sent;
use export::Exports;
use flow_control::{FlowControl, is_mac_control};
use journey::Entering;
pub use journey::MAX_PASSES;
use links::PortLinks;
use ranks::Ranks;
use tally::Tally;

/// Greatest queue depth that P4 can see, because v1model's fields are 19 bits wide; greater depths
/// show as this.
const MAX_DEPTH: u64 = (1 << 19) - 1;

/// Identity of a switch, which does not change.
#[derive(Clone, Debug)]
pub struct SwitchOptions {
    /// Name of the switch in reports and messages.
    pub name: String,
    /// Its P4Runtime device id.
    pub device_id: u64,
    /// The port whose packets are packet-ins and packet-outs; `None` if there is none.
    pub cpu_port: Option<PortId>,
    /// The value of `egress_spec` that drops a packet.
    pub drop_port: PortId,
}

/// A message of a switch to its controller.
#[derive(Debug)]
pub enum Notice {
    /// A packet that the program sent to the CPU port.
    PacketIn(Vec<u8>),
    /// A digest of the program.
    Digest(Digest),
    /// An entry was not hit during its idle timeout. This is repeated after each further timeout.
    Idle {
        /// Its table.
        table: TableId,
        /// The entry.
        entry: EntryId,
    },
}

/// Takes notices; returns false if it could not take one.
pub type Listener = Box<dyn FnMut(Notice) -> bool + Send>;

/// A switch. Events come in through methods; what it wants to happen comes out as effects.
pub struct Switch {
    /// Its identity.
    options: SwitchOptions,
    /// The time that has been reached.
    now: Instant,
    /// The program; `None` until a controller installs one.
    pipeline: Option<Pipeline>,
    /// The queues.
    manager: TrafficManager<Box<Packet>>,
    /// The configuration at the start, to which a restart returns.
    start_config: TrafficManagerConfig,
    /// Whether the delays of links may have changed since this was last asked.
    delays_changed: bool,
    /// Its ports, as far as they have links.
    links: PortLinks,
    /// Effects for the caller, with their times.
    effects: Effects,
    /// Packets that come back to ingress now.
    entering: VecDeque<Entering>,
    /// Tasks that the switch has set itself.
    agenda: Agenda,
    /// The pauses of the links.
    flow_control: FlowControl,
    /// The registers of the program that show the state of queues.
    exports: Exports,
    /// Whether packets of the program may stop queues (advanced flow control of Tofino 2).
    pauses_queues: bool,
    /// The fields of its packets that queues with ranks go by; `None`: there are none.
    ranks: Option<Ranks>,
    /// Memory for the copies of a multicast group.
    replicas: Vec<Replica>,
    /// Its counts.
    tally: Tally,
    /// Frames received so far, for packet ids.
    packets_seen: u64,
    /// Takes what is for the controller; `None` if there is none.
    listener: Option<Listener>,
    /// Traces packets for those who watch.
    tracer: Tracer,
}

impl Switch {
    /// A switch without a program. The error says what is wrong with the configuration.
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
            links: PortLinks::default(),
            effects: Effects::default(),
            entering: VecDeque::new(),
            agenda: Agenda::default(),
            flow_control: FlowControl::default(),
            exports: Exports::default(),
            pauses_queues: false,
            ranks: None,
            replicas: Vec::new(),
            tally: Tally::default(),
            packets_seen: 0,
            listener: None,
            tracer: Tracer::default(),
        };
        if let Some(port) = cpu_port {
            switch.connect_port(Instant::ZERO, port);
        }
        Ok(switch)
    }

    /// Name of the switch.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// Its P4Runtime device id.
    pub fn device_id(&self) -> u64 {
        self.options.device_id
    }

    /// The port whose packets are packet-ins and packet-outs.
    pub fn cpu_port(&self) -> Option<PortId> {
        self.options.cpu_port
    }

    /// The time that has been reached.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The program and its state; `None` without a program.
    pub fn pipeline(&self) -> Option<&Pipeline> {
        self.pipeline.as_ref()
    }

    /// The program and its state; `None` without a program.
    pub fn pipeline_mut(&mut self) -> Option<&mut Pipeline> {
        self.pipeline.as_mut()
    }

    /// Replaces the program. Packets that wait in queues belong to the old one and are dropped. If
    /// it has not what the configuration of the traffic manager refers to, nothing changes, and the
    /// error says what is wrong.
    pub fn install(&mut self, mut pipeline: Pipeline) -> Result<(), ConfigError> {
        (self.exports, self.ranks) = self.bind(self.manager.config(), &pipeline)?;
        self.manager.clear(self.now);
        (self.manager).fit_queues(self.now, pipeline.cell_bytes().is_some());
        self.tracer.flush();
        pipeline.set_drop_port(self.options.drop_port);
        pipeline.set_cpu_port(self.options.cpu_port);
        for port in self.links.down() {
            pipeline.set_port_up(port.into(), false);
        }
        self.pauses_queues = pipeline.has_flow_control();
        self.pipeline = Some(pipeline);
        self.export_all();
        self.run();
        Ok(())
    }

    /// Checks that a program has what the configuration of the traffic manager refers to.
    pub fn check_program(&self, pipeline: &Pipeline) -> Result<(), ConfigError> {
        self.bind(self.manager.config(), pipeline).map(|_| ())
    }

    /// Finds in a program what a configuration refers to.
    fn bind(
        &self,
        config: &TrafficManagerConfig,
        pipeline: &Pipeline,
    ) -> Result<(Exports, Option<Ranks>), ConfigError> {
        let exports = Exports::new(config, pipeline, self.ports())?;
        Ok((exports, Ranks::new(config, pipeline)?))
    }

    /// Puts everything into its initial state, without a program. Ports stay connected, and frames
    /// that have left stay on their way.
    pub(crate) fn restart(&mut self) {
        // The configuration was valid at the start.
        let Ok(manager) = TrafficManager::new(self.start_config.clone()) else {
            return;
        };
        self.manager = manager;
        for port in self.links.connected() {
            self.manager.open_port(self.now, port);
        }
        self.pipeline = None;
        self.tracer.flush();
        self.agenda.clear();
        self.flow_control = FlowControl::default();
        self.exports = Exports::default();
        self.pauses_queues = false;
        self.ranks = None;
        self.effects.forget_services();
        self.tally = Tally::default();
        self.delays_changed = true;
    }

    /// Packets and bytes in a queue of a port.
    pub fn queue_depth(&self, port: PortId, queue: u8) -> Depth {
        self.manager.depth(port, queue)
    }

    /// Whether the delays of links may have changed since the last call.
    pub(crate) fn take_delays_changed(&mut self) -> bool {
        std::mem::take(&mut self.delays_changed)
    }

    /// The configuration of the traffic manager in force.
    pub fn traffic_manager_config(&self) -> &TrafficManagerConfig {
        self.manager.config()
    }

    /// Statistics of ports and queues.
    pub fn statistics(&self) -> Vec<PortStatistics> {
        self.manager.statistics(self.now)
    }

    /// Replaces the configuration of the traffic manager while traffic flows.
    pub fn set_traffic_manager_config(
        &mut self,
        config: TrafficManagerConfig,
    ) -> Result<(), ConfigError> {
        let config = spare_cpu_port(config, self.options.cpu_port);
        config.validate()?;
        let bound = match &self.pipeline {
            Some(pipeline) => self.bind(&config, pipeline)?,
            None => Default::default(),
        };
        self.manager.reconfigure(self.now, config)?;
        let tofino = (self.pipeline.as_ref()).is_some_and(|p| p.cell_bytes().is_some());
        self.manager.fit_queues(self.now, tofino);
        (self.exports, self.ranks) = bound;
        self.export_all();
        self.revise_pauses();
        self.delays_changed = true;
        for port in self.effects.ports() {
            self.schedule(port);
        }
        self.run();
        Ok(())
    }

    /// Sets the statistics of ports, queues and lateness to zero.
    pub fn reset_statistics(&mut self) {
        self.manager.reset_statistics(self.now);
        self.tally.reset(&self.manager);
    }

    /// Sets who takes packet-ins and digests; `None`: nobody.
    pub fn set_listener(&mut self, listener: Option<Listener>) {
        self.listener = listener;
    }

    /// Reports entries that have become idle to the listener. To be called now and then.
    pub fn check_idle_entries(&mut self) {
        let Some(pipeline) = &mut self.pipeline else {
            return;
        };
        for (table, entry) in pipeline.take_idle_entries(self.now) {
            self.notify(Notice::Idle { table, entry });
        }
    }

    /// Takes a packet from the controller. False if the switch has no CPU port.
    pub fn packet_out(&mut self, frame: Vec<u8>) -> bool {
        match self.options.cpu_port {
            Some(port) => {
                self.enter(port, frame);
                true
            }
            None => false,
        }
    }

    /// Drops by port and reason, without those of the traffic manager.
    pub fn drops(&self) -> impl Iterator<Item = (PortId, &'static str, Count)> {
        self.tally.drops()
    }

    /// Takes note of how late frames were at an interface.
    pub(crate) fn note_lateness(&mut self, late: &Late) {
        self.tally.lateness.note(late);
    }

    /// How late frames were at the interfaces; empty under a virtual clock.
    pub fn lateness(&self) -> LatenessReport {
        self.tally.lateness.report()
    }

    /// Counts frames that were lost at an interface or on a link.
    pub fn count_interface_drop(
        &mut self,
        port: PortId,
        reason: DropReason,
        packets: u64,
        bytes: u64,
    ) {
        self.tally.drop_outside(port, reason, packets, bytes);
    }

    /// Moves the clock on. To be called before anything else at that time.
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// The next frame that it has sent, in this order.
    #[inline]
    pub(crate) fn next_sent(&mut self) -> Option<Sent> {
        self.effects.next_sent()
    }

    /// A port that wants to be [served](Self::serve), and when. They have no order.
    #[inline]
    pub(crate) fn next_service(&mut self) -> Option<(Instant, PortId)> {
        self.effects.next_service()
    }

    /// Takes a frame whose last bit has arrived at a port. True if it is a packet, which enters
    /// ingress after the delay of the pipeline.
    #[inline]
    pub(crate) fn receive(&mut self, port: PortId, frame: Vec<u8>) -> bool {
        if is_mac_control(&frame) {
            self.receive_control(port, &frame);
            return false;
        }
        self.count_received(port, frame.len());
        let delay = self.manager.pipeline_delay(port);
        if delay.is_zero() {
            self.enter(port, frame);
        } else {
            self.agenda
                .add(self.now + delay, Task::Enter { port, frame });
        }
        true
    }

    /// When the switch has something to do by itself, other than to send what waits; `None` if it
    /// has not.
    #[inline]
    pub(crate) fn next_task(&self) -> Option<Instant> {
        let generated = self.pipeline.as_ref().and_then(Pipeline::next_generated);
        match generated {
            None => self.agenda.next(),
            generated => Instant::earliest([self.agenda.next(), generated]),
        }
    }

    /// Does everything that the switch has set itself to do until now.
    pub(crate) fn do_tasks(&mut self) {
        while let Some(task) = self.agenda.pop_due(self.now) {
            match task {
                Task::Obey { port, frame } => self.obey(port, &frame),
                Task::Review { port } => self.review_pauses(port),
                Task::Refresh { port } => self.refresh_pauses(port),
                Task::Export { export } => self.export_stale(export),
                Task::Enter { port, frame } => self.enter(port, frame),
            }
        }
        let now = self.now;
        while let Some((port, frame)) = self.pipeline.as_mut().and_then(|p| p.take_generated(now)) {
            self.enter(port, frame);
        }
        self.run();
    }

    /// Passes a frame to ingress, as a new packet.
    #[inline]
    fn enter(&mut self, port: PortId, frame: Vec<u8>) {
        self.packets_seen += 1;
        self.tally.ledger.came(1);
        let journey = Journey {
            ingress_port: port,
            packet_id: self.packets_seen,
            passes: 0,
            deflections: 0,
            egress_rid: 0,
            is_replica: false,
            watches: self.tracer.admit(port),
            lineage: Lineage::default(),
        };
        // No other packet waits for ingress, because `run` leaves none.
        let input = Entering::input(&journey, instance_type::NORMAL);
        self.ingress(frame, &input, journey);
        self.run();
    }

    /// Starts the transmission that is due at a port.
    pub(crate) fn serve(&mut self, port: PortId) {
        self.start(port);
        self.run();
    }

    /// Passes a frame that was sent to the CPU port to the controller.
    pub(crate) fn packet_in(&mut self, frame: Vec<u8>) {
        let port = self.options.cpu_port.unwrap_or_default();
        let len = frame.len() as u64;
        if !self.notify(Notice::PacketIn(frame)) {
            self.count_interface_drop(port, DropReason::NoController, 1, len);
        }
    }

    /// Passes something to the listener; false if it did not take it.
    fn notify(&mut self, notice: Notice) -> bool {
        self.listener
            .as_mut()
            .is_some_and(|listener| listener(notice))
    }

    /// Counts a dropped packet.
    fn drop_one(&mut self, port: PortId, reason: &'static str, bytes: u64) {
        self.tracer.note(|| Event::Dropped { reason });
        self.tally.drop_one(port, reason, bytes);
    }

    /// Counts a dropped packet and gives its memory back.
    fn drop_packet(&mut self, packet: Box<Packet>, journey: &Journey, reason: DropReason) {
        let len = packet.wire_len() as u64;
        self.drop_one(journey.ingress_port, reason.as_str(), len);
        self.recycle(packet);
    }

    /// Does everything there is to do now: ingress for packets that come back, and transmissions
    /// that start.
    #[inline]
    fn run(&mut self) {
        // Mostly there is nothing. To see that takes less than to ask for it.
        if !self.manager.is_settled() || !self.entering.is_empty() || self.effects.is_due() {
            self.run_all();
        }
        self.tally.check(&self.options.name, &self.manager);
    }

    #[inline(never)]
    fn run_all(&mut self) {
        loop {
            self.settle();
            if let Some(entering) = self.entering.pop_front() {
                self.ingress(entering.frame, &entering.input, entering.journey);
            } else if let Some(port) = self.effects.pop_due() {
                self.start(port);
            } else {
                break;
            }
        }
    }

    /// Starts the transmission that is due at a port, and schedules the next one.
    fn start(&mut self, port: PortId) {
        self.effects.served(port);
        if let Some(departure) = self.manager.dequeue(self.now, port) {
            self.export(port);
            self.egress(port, departure);
        }
        self.schedule(port);
    }

    /// Passes a packet through ingress and on to the queues.
    #[inline]
    fn pass_ingress(&mut self, frame: Vec<u8>, input: &IngressInput, mut journey: Journey) {
        let (port, len) = (journey.ingress_port, frame.len() as u64);
        if journey.passes >= MAX_PASSES {
            return self.drop_one(port, DropReason::PassLimit.as_str(), len);
        }
        let Some(pipeline) = &mut self.pipeline else {
            return self.drop_one(port, DropReason::NoProgram.as_str(), len);
        };
        let outcome = pipeline.ingress(self.now, frame, input);
        self.collect_trace();
        if self.pauses_queues {
            self.obey_program();
        }
        if let Some(clone) = outcome.clone {
            self.clone_packet(clone, &mut journey);
        }
        if let Some(digest) = outcome.digest {
            self.tracer.note(|| Event::Digest {
                values: digest.values.clone(),
            });
            // P4Runtime allows the switch to lose digests.
            self.notify(Notice::Digest(digest));
        }
        match outcome.verdict {
            IngressVerdict::Resubmit { frame, preserved } => {
                self.tracer.note(|| Event::Resubmitted);
                let journey = journey.next_pass();
                let mut entering = Entering::new(frame, journey, instance_type::RESUBMITTED);
                entering.input.preserved = Some(preserved);
                self.entering.push_back(entering);
            }
            IngressVerdict::Multicast { group, packet } => self.multicast(group, packet, journey),
            IngressVerdict::Copies { replicas, packet } => self.copies(&replicas, packet, journey),
            IngressVerdict::Unicast {
                egress_spec,
                priority,
                mut packet,
            } => {
                packet.journey = journey;
                self.forward(egress_spec, priority, packet);
            }
            IngressVerdict::Dropped(reason) => self.drop_one(port, reason.name(), len),
        }
    }

    /// Exchanges the pipeline's memory for packets; see [`Pipeline::exchange_pool`].
    pub(crate) fn exchange_pool(&mut self, pool: &mut Pool) {
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.exchange_pool(pool);
        }
    }

    /// Gives the memory of a packet back.
    fn recycle(&mut self, packet: Box<Packet>) {
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.recycle(packet);
        }
    }

    /// Passes a packet through egress and onto the link.
    #[inline]
    fn pass_egress(&mut self, port: PortId, departure: Departure<Box<Packet>>) {
        let Departure {
            mut packet,
            queue,
            enqueued_at,
            start,
            ..
        } = departure;
        // The queues are emptied when a program is replaced, so there is a program.
        let Some(pipeline) = &mut self.pipeline else {
            return;
        };
        let mut journey = std::mem::take(&mut packet.journey);
        let unit = self.manager.depth_unit();
        let cells = pipeline.cell_bytes();
        let shown = |depth: Depth| match cells {
            None => depth.in_unit(unit),
            Some(bytes) => depth.bytes.div_ceil(bytes),
        };
        let congestion = cells.map_or([0; 2], |_| {
            let depths = [departure.depth_at_enqueue, departure.depth_at_dequeue];
            depths.map(|depth| self.manager.quarters(port, queue, depth))
        });
        let input = EgressInput {
            egress_port: port,
            egress_rid: journey.egress_rid,
            instance_type: None,
            queue_id: queue,
            enq_timestamp: enqueued_at,
            enq_qdepth: shown(departure.depth_at_enqueue).min(MAX_DEPTH) as u32,
            deq_timedelta: start.since(enqueued_at),
            deq_qdepth: shown(departure.depth_at_dequeue).min(MAX_DEPTH) as u32,
            congestion,
        };
        let outcome = pipeline.egress(start, packet, &input);
        self.collect_trace();
        if self.pauses_queues {
            self.obey_program();
        }
        if let Some(clone) = outcome.clone {
            self.clone_packet(clone, &mut journey);
        }
        match outcome.verdict {
            EgressVerdict::Transmit(frame) if self.is_connected(port) => {
                self.transmit(port, queue, start, frame);
            }
            EgressVerdict::Transmit(frame) => self.leave_unconnected(port, frame, journey),
            EgressVerdict::Recirculate { frame, preserved } => {
                self.recirculate(frame, journey, Some(preserved));
            }
            EgressVerdict::Dropped(reason) => {
                self.tracer.note(|| Event::Dropped {
                    reason: reason.name(),
                });
                match journey.is_replica && port == journey.ingress_port {
                    true => self.manager.pruned(port, queue, departure.len),
                    false => self.manager.egress_dropped(port, queue, departure.len),
                }
            }
        }
    }

    /// Takes a frame to ingress that egress has sent to a port without a link, if the port leads back there.
    #[cold]
    fn leave_unconnected(&mut self, port: PortId, frame: Vec<u8>, journey: Journey) {
        let pipeline = self.pipeline.as_mut();
        let Some(pipeline) = pipeline.filter(|pipeline| pipeline.recirculates(port)) else {
            return self.drop_one(port, DropReason::NoSuchPort.as_str(), frame.len() as u64);
        };
        pipeline.generate_for_packet(self.now, port, &frame);
        let journey = Journey {
            ingress_port: port,
            ..journey
        };
        self.recirculate(frame, journey, None);
    }

    /// Takes a frame that has left egress to ingress, with what is preserved.
    fn recirculate(&mut self, frame: Vec<u8>, journey: Journey, preserved: Option<Preserved>) {
        self.tracer.note(|| Event::Recirculated);
        let journey = Journey {
            deflections: 0,
            ..journey.next_pass()
        };
        let mut entering = Entering::new(frame, journey, instance_type::RECIRCULATED);
        entering.input.preserved = preserved;
        self.entering.push_back(entering);
    }

    /// Sends a frame that egress has left. Inlined, as for every packet.
    #[inline(always)]
    fn transmit(&mut self, port: PortId, queue: u8, start: Instant, frame: Vec<u8>) {
        let len = frame.len() as u64;
        let sent = self
            .manager
            .transmit(port, queue, start, len, carries_ce(&frame));
        self.tally.ledger.sent();
        self.tracer.note(|| Event::Sent {
            port,
            arrival: sent.arrival,
            frame: frame.clone(),
        });
        self.effects.send(sent.arrival, port, frame);
    }

    /// Makes sure that the port is served when its next transmission is due. Inlined, as for every packet.
    #[inline(always)]
    fn schedule(&mut self, port: PortId) {
        if let Some(deadline) = self.manager.next_deadline(port) {
            self.effects.serve(self.now, port, deadline);
        }
    }
}

/// Gives the CPU port queues of its own unless the configuration lists it: it is no link, so
/// "default" does not apply to it.
fn spare_cpu_port(
    mut config: TrafficManagerConfig,
    cpu_port: Option<PortId>,
) -> TrafficManagerConfig {
    if let Some(port) = cpu_port.filter(|port| !config.lists_port(*port)) {
        config.set_unlimited(port);
    }
    config
}
