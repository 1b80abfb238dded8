//! The words of a packet at the start of ingress and egress: initial values, and the standard metadata that the program
//! reads. The plain way is `Pipeline::arrive` and `Pipeline::depart`.

use std::mem::offset_of;

use cranelift_codegen::ir::Value;

use super::calls::offset;
use super::code::Code;
use super::initial;
use crate::outcome::{EgressInput, IngressInput};
use crate::packet::Packet;
use crate::slot::Place;

impl Code<'_, '_> {
    /// The words of a packet that has arrived, if there is an input.
    pub fn set_on_arrival(&mut self) {
        let program = self.program;
        let standard = &program.standard;
        self.if_input(|code, input| {
            let words = code.words();
            initial::store(
                &mut code.b,
                words,
                &program.layout.initial,
                &program.usage.unset,
            );
            code.set_if_read(standard.ingress_port, |code| {
                code.load_u16(input, offset_of!(IngressInput, ingress_port))
            });
            code.set_if_read(standard.packet_length, |code| {
                code.load_context(offset::FRAME_LENGTH)
            });
            code.set_if_read(standard.instance_type, |code| {
                code.load_u32(input, offset_of!(IngressInput, instance_type))
            });
            code.set_if_read(standard.ingress_global_timestamp, |code| {
                code.load_context(offset::NOW_US)
            });
        });
    }

    /// The words of a packet that leaves its queue, if there is an input. Times in the queue are not among them.
    pub fn set_on_departure(&mut self) {
        let standard = &self.program.standard;
        self.if_input(|code, input| {
            code.set_if_read(standard.egress_port, |code| {
                code.load_u16(input, offset_of!(EgressInput, egress_port))
            });
            code.set_if_read(standard.egress_rid, |code| {
                code.load_u16(input, offset_of!(EgressInput, egress_rid))
            });
            // It must differ from the drop port.
            let drop_port = code.load_context(offset::DROP_PORT);
            let other = code.add_const(drop_port, 1);
            let other = code.low(other, 16);
            code.set_place(standard.egress_spec, other);
            code.set_if_read(standard.packet_length, |code| {
                let packet = code.load_context(offset::PACKET);
                code.load_u32(packet, offset_of!(Packet, packet_length))
            });
            code.set_if_read(standard.egress_global_timestamp, |code| {
                code.load_context(offset::NOW_US)
            });
            code.set_if_read(standard.enq_qdepth, |code| {
                code.load_u32(input, offset_of!(EgressInput, enq_qdepth))
            });
            code.set_if_read(standard.deq_qdepth, |code| {
                code.load_u32(input, offset_of!(EgressInput, deq_qdepth))
            });
            code.set_if_read(standard.qid, |code| {
                code.load_u8(input, offset_of!(EgressInput, queue_id))
            });
        });
    }

    /// Code for runs whose words are not set yet.
    fn if_input(&mut self, set: impl FnOnce(&mut Self, Value)) {
        let (fresh, done) = (self.block(), self.block());
        let input = self.load_context(offset::INPUT);
        self.branch(input, fresh, done);
        self.go_on_in(fresh);
        set(self, input);
        self.jump(done);
        self.go_on_in(done);
    }

    fn set_if_read(
        &mut self,
        place: impl Into<Option<Place>>,
        value: impl FnOnce(&mut Self) -> Value,
    ) {
        let place = place
            .into()
            .filter(|place| self.program.usage.reads(*place));
        if let Some(place) = place {
            let value = value(self);
            self.set_place(place, value);
        }
    }
}
