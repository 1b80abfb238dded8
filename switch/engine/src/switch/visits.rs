//! Tracing of watched packets, wrapped around their passes through ingress and egress.

use ebb_pipeline::{IngressInput, Packet, instance_type};
use ebb_traffic_manager::{Departure, DropReason, PushedOut};

use super::{Journey, PortId, Switch};
use crate::trace::{Cause, Event, Visit, Watch};

impl Switch {
    /// Starts to trace packets. False if there are too many watches already.
    pub fn watch(&mut self, watch: Watch) -> bool {
        self.tracer.add(watch)
    }

    /// Starts a visit; what happens until it ends is noted in it.
    #[cold]
    fn begin_visit(&mut self, journey: &Journey) {
        let visit = Visit {
            switch: self.options.name.as_str().into(),
            at: self.now,
            packet_id: journey.packet_id,
            events: Vec::new(),
        };
        self.tracer.begin(journey.watches, visit);
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.start_trace();
        }
    }

    /// Takes what the pipeline noted, which comes before what the switch does with the result.
    #[inline]
    pub(super) fn collect_trace(&mut self) {
        if self.tracer.is_visited() {
            self.collect_steps();
        }
    }

    #[cold]
    fn collect_steps(&mut self) {
        if let Some(pipeline) = &mut self.pipeline {
            self.tracer.note_pipeline(pipeline.take_trace());
        }
    }

    /// Passes a packet through ingress, traced if it is watched.
    #[inline]
    pub(super) fn ingress(&mut self, frame: Vec<u8>, input: &IngressInput, journey: Journey) {
        let watched = journey.watches != 0;
        if watched {
            self.visit_ingress(&frame, input, &journey);
        }
        self.pass_ingress(frame, input, journey);
        if watched {
            self.end_visit();
        }
    }

    #[cold]
    fn visit_ingress(&mut self, frame: &[u8], input: &IngressInput, journey: &Journey) {
        self.begin_visit(journey);
        self.tracer.note(|| Event::Enters {
            port: journey.ingress_port,
            cause: match input.instance_type {
                instance_type::RESUBMITTED => Cause::Resubmitted,
                instance_type::RECIRCULATED => Cause::Recirculated,
                instance_type::DEFLECTED => Cause::Deflected,
                _ => Cause::Arrived,
            },
            frame: frame.to_vec(),
        });
    }

    #[cold]
    fn end_visit(&mut self) {
        self.collect_trace();
        self.tracer.end();
    }

    /// Sends a packet back to ingress that gave way to another one in its queue, or gives its memory
    /// back. It is traced if it is watched. The traffic manager has counted it.
    pub(super) fn push_out(&mut self, pushed_out: PushedOut<Box<Packet>>) {
        self.export(pushed_out.port);
        if pushed_out.packet.journey.watches == 0 {
            return self.take_pushed_out(pushed_out);
        }
        self.begin_visit(&pushed_out.packet.journey);
        self.take_pushed_out(pushed_out);
        self.end_visit();
    }

    fn take_pushed_out(&mut self, pushed_out: PushedOut<Box<Packet>>) {
        let PushedOut {
            packet,
            port,
            queue,
            ..
        } = pushed_out;
        let depth = self.manager.depth(port, queue);
        if pushed_out.deflected {
            return self.deflect(port, queue, depth, packet);
        }
        self.tracer.note(|| Event::Refused {
            port,
            queue,
            reason: DropReason::PushedOut.as_str(),
            depth,
        });
        self.recycle(packet);
    }

    /// Passes a packet through egress, traced if it is watched.
    #[inline]
    pub(super) fn egress(&mut self, port: PortId, departure: Departure<Box<Packet>>) {
        let watched = departure.packet.journey.watches != 0;
        if watched {
            self.visit_egress(port, &departure);
        }
        self.pass_egress(port, departure);
        if watched {
            self.end_visit();
        }
    }

    #[cold]
    fn visit_egress(&mut self, port: PortId, departure: &Departure<Box<Packet>>) {
        let journey = &departure.packet.journey;
        self.begin_visit(journey);
        self.tracer.note(|| Event::Dequeued {
            port,
            queue: departure.queue,
            instance: journey.egress_rid,
            waited: departure.start.since(departure.enqueued_at),
            depth: departure.depth_at_dequeue,
        });
    }
}
