//! The control plane's and the switch's view of a pipeline for Tofino: ports, packet generators, the ghost thread.

use std::collections::HashMap;

use ebb_units::Instant;

use super::blocks::{Fields, NO_PORT, Tofino, low};
use crate::Pipeline;
use crate::control::Replica;
use crate::generator::Generator;
use crate::outcome::*;
use crate::packet::Packet;

impl Pipeline {
    /// Bytes of a cell of the buffer, in which Tofino counts the depth of queues; `None` for v1model.
    pub fn cell_bytes(&self) -> Option<u64> {
        self.program.tofino().map(|t| t.cell_bytes())
    }

    /// Whether the program has a ghost thread, which the length of queues is to be reported to.
    pub fn has_ghost(&self) -> bool {
        self.program
            .tofino()
            .is_some_and(|t| t.pipes.iter().any(|pipe| pipe.ghost.is_some()))
    }

    /// Whether packets of the program may stop queues: [`take_queue_pause`](Self::take_queue_pause).
    pub fn has_flow_control(&self) -> bool {
        self.program.tofino().is_some_and(|t| t.generation == 2)
    }

    /// The request to a queue of the packet that has just left ingress or egress; `None`: there is none.
    pub fn take_queue_pause(&mut self) -> Option<QueuePause> {
        self.state.tofino.pause.take()
    }

    /// Reports the length of a queue in cells to the ghost thread. The number of the queue is `port * 8 + queue`.
    pub fn report_length(&mut self, now: Instant, port: u16, queue: u8, cells: u64) {
        let program = self.program.clone();
        let Some(tofino) = program.tofino() else {
            return;
        };
        let mut packet = self.state.pool.packet(&program.layout.initial, Vec::new());
        let values = [u64::from(port) * 8 + u64::from(queue), cells.min(low(18))];
        for (place, value) in tofino.fields.reported.iter().zip(values) {
            if let Some(place) = place {
                place.set(&mut packet.words, value);
            }
        }
        let pipe = &tofino.pipes[tofino.pipe_of(port)];
        self.in_pipe(port, |pipeline| {
            let mut machine = pipeline.machine(&mut packet, now);
            machine.interpret(|m| m.pipeline(pipe.ghost));
        });
        self.state.pool.recycle(packet);
    }

    /// Sets the port to which `copy_to_cpu` of programs for Tofino sends; `None`: nowhere.
    pub fn set_cpu_port(&mut self, port: Option<u16>) {
        self.state.tofino.cpu_port = port;
    }

    /// The port to which `copy_to_cpu` sends.
    pub fn cpu_port(&self) -> Option<u16> {
        self.state.tofino.cpu_port
    }

    /// Sets the ids by which `level1_exclusion_id` excludes copies of a group, which has these copies and no others.
    pub fn set_exclusions(&mut self, group: u16, ids: HashMap<Replica, u16>) {
        match ids.is_empty() {
            true => self.state.tofino.exclusions.remove(&group),
            false => self.state.tofino.exclusions.insert(group, ids),
        };
    }

    /// Sets the bytes behind the metadata of packets of a port, as many as the chip has at most; none are zeros.
    pub fn set_port_metadata(&mut self, port: u16, bytes: Option<Vec<u8>>) {
        let all = &mut self.state.tofino.port_metadata;
        match bytes {
            Some(bytes) => all.insert(port, bytes),
            None => all.remove(&port),
        };
    }

    /// The ports whose bytes are set, with them.
    pub fn port_metadata(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let all = self.state.tofino.port_metadata.iter();
        all.map(|(port, bytes)| (*port, bytes.as_slice()))
    }

    /// The packet generators; `None` if the program is not for Tofino.
    pub fn generator(&mut self) -> Option<&mut Generator> {
        let generation = self.program.tofino()?.generation;
        let new = || Box::new(Generator::new(generation));
        Some(self.state.generator.get_or_insert_with(new))
    }

    /// When a packet generator has something to do next; `None` if none has.
    #[inline]
    pub fn next_generated(&self) -> Option<Instant> {
        self.state.generator.as_ref()?.next()
    }

    /// The next packet of a generator that is due, and the port at which ingress sees it.
    pub fn take_generated(&mut self, now: Instant) -> Option<(u16, Vec<u8>)> {
        self.state.generator.as_mut()?.take(now)
    }

    /// Tells the packet generators of a port that has gone down.
    pub fn generate_for_port(&mut self, now: Instant, port: u16) {
        if let Some(generator) = &mut self.state.generator {
            generator.port_down(now, port);
        }
    }

    /// Tells the packet generators of a packet that comes back to ingress by this port.
    pub fn generate_for_packet(&mut self, now: Instant, port: u16, frame: &[u8]) {
        if let Some(generator) = &mut self.state.generator {
            generator.comes_back(now, port, frame);
        }
    }

    /// Whether a port leads back to ingress on the chip, if it is not connected: port 68 of each pipe on Tofino,
    /// port 6 on Tofino 2, the ports of a pipeline that is not the first, and those in loopback mode.
    pub fn recirculates(&self, port: u16) -> bool {
        let Some(tofino) = self.program.tofino() else {
            return false;
        };
        port & 0x7f == tofino.recirculation_port()
            || port < NO_PORT && tofino.pipe_of(port) > 0
            || self.state.tofino.looped.contains(&port)
    }

    /// Has a port without a link lead back to ingress, or no longer do so.
    pub fn set_loopback(&mut self, port: u16, is_looped: bool) {
        let ports = &mut self.state.tofino.looped;
        match is_looped {
            true => ports.insert(port),
            false => ports.remove(&port),
        };
    }

    /// The ports that lead back to ingress because they were told to.
    pub fn loopback_ports(&self) -> impl Iterator<Item = u16> {
        self.state.tofino.looped.iter().copied()
    }

    /// Whether a port leads back to ingress because it was told to.
    pub fn is_looped(&self, port: u16) -> bool {
        self.state.tofino.looped.contains(&port)
    }

    /// The port that leads back to ingress in the first pipe; `None` for other architectures.
    pub fn recirculation_port(&self) -> Option<u16> {
        let tofino = self.program.tofino();
        tofino.map(Tofino::recirculation_port)
    }

    /// The number of the pipeline of the program that a port belongs to; 0 for v1model.
    pub fn pipe_of(&self, port: u16) -> usize {
        let tofino = self.program.tofino();
        tofino.map_or(0, |tofino| tofino.pipe_of(port))
    }

    /// Names of the pipelines of a program for Tofino that has several, by number.
    pub fn pipe_names(&self) -> &[String] {
        &self.program.pipe_names
    }

    /// The port to which a packet goes that its queue refuses; `None` if it has not asked for that.
    pub fn deflects_to(&self, packet: &Packet, port: u16) -> Option<u16> {
        let tofino = self.program.tofino()?;
        let wanted = Fields::get(&packet.words, tofino.fields.deflect_on_drop);
        let already = self.program.standard.instance_type.get(&packet.words);
        let to = (port & 0x180) | tofino.recirculation_port();
        (wanted != 0 && already != u64::from(instance_type::DEFLECTED)).then_some(to)
    }

    /// Notes that a packet is deflected, for its `deflection_flag`.
    pub fn mark_deflected(&self, packet: &mut Packet) {
        let place = self.program.standard.instance_type;
        place.set(&mut packet.words, u64::from(instance_type::DEFLECTED));
    }
}
