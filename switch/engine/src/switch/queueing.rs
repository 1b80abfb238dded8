//! The way of packets into the traffic manager, and what is fetched into the caches before they
//! leave it.

use ebb_pipeline::{Deflect, Packet, instance_type};
use ebb_traffic_manager::{Admission, Arrival, Departure, Depth, DropReason, MAX_QUEUES};
use ebb_units::Instant;

use super::{Entering, Journey, MAX_DEPTH, PortId, Switch};
use crate::prefetch::{HEADER_LINES, prefetch, prefetch_at};
use crate::trace::Event;

/// Queue of the deflection port of Tofino.
const DEFLECTION_QUEUE: u8 = 0;

/// Most packets of a port that are fetched before a turn.
const PREFETCHED: usize = 16;

/// Cache lines of a packet.
const PACKET_LINES: usize = 3;
/// Cache lines of a packet's fields: metadata and headers of `fabric.p4`, without most local
/// variables.
const FIELD_LINES: usize = 14;

impl Switch {
    /// Passes the only packet that there is to do something for to egress if it need not wait, and offers it to the
    /// traffic manager otherwise.
    #[inline]
    pub(super) fn forward(&mut self, port: PortId, queue: u8, packet: Box<Packet>) {
        // Others would come before its egress, and find it in the queue. Who watches sees it there.
        let is_alone = self.entering.is_empty() && !self.effects.is_due();
        let is_seen = packet.journey.watches != 0 || !self.exports.is_empty();
        let arrival = Arrival {
            ingress_port: packet.journey.ingress_port,
            queue,
            len: packet.wire_len() as u64,
            deflections: packet.journey.deflections,
            rank: 0,
            flow: 0,
        };
        if !is_alone || is_seen || !self.manager.pass(self.now, port, &arrival) {
            return self.offer(port, queue, packet);
        }
        self.egress(
            port,
            Departure {
                packet,
                queue: queue % MAX_QUEUES as u8,
                ingress_port: arrival.ingress_port,
                enqueued_at: self.now,
                start: self.now,
                depth_at_enqueue: Depth::default(),
                depth_at_dequeue: Depth::default(),
                len: arrival.len,
            },
        );
    }

    /// Offers a packet to the traffic manager, and sends it back to ingress if it is deflected.
    pub(super) fn offer(&mut self, port: PortId, priority: u8, packet: Box<Packet>) {
        let (rank, flow) = match (self.ranks, &self.pipeline) {
            (Some(ranks), Some(pipeline)) => ranks.of(pipeline, &packet),
            _ => (0, 0),
        };
        let arrival = Arrival {
            ingress_port: packet.journey.ingress_port,
            queue: priority,
            len: packet.wire_len() as u64,
            deflections: packet.journey.deflections,
            rank,
            flow,
        };
        match self.manager.enqueue(self.now, port, arrival, packet) {
            Admission::Enqueued { depth } => {
                self.tracer.note(|| Event::Enqueued {
                    port,
                    queue: priority,
                    bytes: arrival.len,
                    depth,
                });
                self.export(port);
                self.schedule(port);
            }
            // The traffic manager has counted the drop.
            Admission::Dropped { packet, reason } => {
                self.tracer.note(|| Event::Refused {
                    port,
                    queue: priority,
                    reason: reason.as_str(),
                    depth: self.manager.depth(port, priority),
                });
                self.recycle(packet);
            }
            Admission::Deflected { packet, depth } => {
                self.deflect(port, priority, depth, packet);
            }
        }
    }

    /// Returns a packet that a queue of this depth has refused to ingress.
    pub(super) fn deflect(
        &mut self,
        port: PortId,
        queue: u8,
        depth: Depth,
        mut packet: Box<Packet>,
    ) {
        let Some(pipeline) = &mut self.pipeline else {
            return;
        };
        if pipeline.cell_bytes().is_some() {
            return self.deflect_to_port(port, queue, depth, packet);
        }
        self.tracer.note(|| Event::Deflected { port, queue, depth });
        let len = packet.wire_len() as u64;
        let journey = std::mem::take(&mut packet.journey);
        let frame = match pipeline.deparse(packet) {
            Ok(frame) => frame,
            Err(reason) => return self.drop_one(journey.ingress_port, reason.name(), len),
        };
        let depth = depth.in_unit(self.manager.depth_unit());
        let journey = Journey {
            deflections: journey.deflections + 1,
            ..journey.next_pass()
        };
        let mut entering = Entering::new(frame, journey, instance_type::DEFLECTED);
        entering.input.deflect = Some(Deflect {
            egress_port: port,
            enq_qdepth: depth.min(MAX_DEPTH) as u32,
        });
        self.entering.push_back(entering);
    }

    /// Sends a refused packet of a Tofino program to the deflection port, or drops it if its metadata does not ask for
    /// that.
    fn deflect_to_port(&mut self, port: PortId, queue: u8, depth: Depth, mut packet: Box<Packet>) {
        let Some(pipeline) = &mut self.pipeline else {
            return;
        };
        let Some(to) = pipeline.deflects_to(&packet, port) else {
            let reason = DropReason::QueueFull.as_str();
            self.tracer.note(|| Event::Refused {
                port,
                queue,
                reason,
                depth,
            });
            let bytes = packet.wire_len() as u64;
            self.tally.drop_one(port, reason, bytes);
            return self.recycle(packet);
        };
        pipeline.mark_deflected(&mut packet);
        packet.journey.deflections += 1;
        self.tracer.note(|| Event::Deflected { port, queue, depth });
        self.offer(to, DEFLECTION_QUEUE, packet);
    }

    /// Does what follows from packets that came, left or were moved since the last call. MAC control
    /// frames go before all that waits, so this comes before any transmission.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.manager.is_settled() {
            return;
        }
        self.settle_all();
    }

    #[inline(never)]
    fn settle_all(&mut self) {
        while let Some(port) = self.manager.take_woken() {
            self.export(port);
            self.schedule(port);
        }
        while let Some(pushed_out) = self.manager.take_pushed_out() {
            self.push_out(pushed_out);
        }
        self.send_pauses();
    }

    /// Fetches what arrivals at these ports, and departures before a time, will touch. Each step is
    /// done for all ports, so that the waiting overlaps.
    pub(crate) fn prefetch_ports<I: Iterator<Item = PortId>>(
        &self,
        ports: impl Fn() -> I,
        before: Instant,
    ) {
        let manager = &self.manager;
        ports().for_each(|port| prefetch_at(manager.port_ahead(port)));
        for port in ports() {
            if let Some(queues) = manager.queues_ahead(port) {
                queues.for_each(|queue| prefetch_at(Some(queue)));
            }
        }
        ports().for_each(|port| prefetch_at(manager.packets_ahead(port)));
        ports().for_each(|port| self.prefetch_packets(port, before));
        ports().for_each(|port| self.prefetch_contents(port, before));
    }

    /// Fetches the packets that will leave a port.
    fn prefetch_packets(&self, port: PortId, before: Instant) {
        let Some(leaving) = self.manager.leaving(port, before) else {
            return;
        };
        for packet in leaving.take(PREFETCHED) {
            prefetch(std::slice::from_ref(&**packet), PACKET_LINES);
        }
    }

    /// Fetches the fields and frames that these packets refer to.
    fn prefetch_contents(&self, port: PortId, before: Instant) {
        let Some(leaving) = self.manager.leaving(port, before) else {
            return;
        };
        for packet in leaving.take(PREFETCHED) {
            let (fields, frame) = packet.memory();
            prefetch(fields, FIELD_LINES);
            prefetch(frame, HEADER_LINES);
        }
    }
}
