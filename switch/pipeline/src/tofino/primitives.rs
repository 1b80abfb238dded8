//! Interpreter of half a pipeline (ingress or egress), and of the primitives of Tofino.

use super::blocks::*;
use crate::action::TofinoPrimitive;
use crate::drop_reason::DropReason;
use crate::machine::Machine;
use crate::program::Emit;

impl Machine<'_> {
    /// Runs parser, control and deparser of half a pipeline. `accepts` gets the error of the parser, and decides
    /// whether the packet is processed. Returns the error.
    pub(super) fn half_interpreted(
        &mut self,
        blocks: &Blocks,
        gress: Gress,
        accepts: impl FnOnce(&mut Self, u32) -> bool,
    ) -> u32 {
        let mut error = self.program.errors.no_error;
        self.interpret(|m| {
            error = m.parse_from(blocks.parsers[gress as usize]);
            if accepts(m, error) {
                m.pipeline(blocks.controls[gress as usize]);
                m.end_control();
                m.run(&blocks.deparsers[gress as usize], &[]);
            }
        });
        error
    }

    /// Runs the control of half a pipeline.
    pub fn control(&mut self, half: Half) {
        let program = self.program;
        if let Some(tofino) = program.tofino() {
            self.pipeline(tofino.pipes[half.pipe].controls[half.gress as usize]);
        }
    }

    /// Whether the frame is needed after the deparser as it came in: for a mirror or resubmission of ingress, or
    /// because the packet has failed.
    pub fn wants_original(&self, gress: Gress) -> bool {
        let tofino = &self.state.tofino;
        let copied = tofino.mirror.is_some() | tofino.resubmit.is_some();
        copied && matches!(gress, Gress::Ingress) || self.packet.requests.failed.is_some()
    }

    /// Ends a control: `exit` does not end the deparser as well.
    pub fn end_control(&mut self) {
        self.packet.requests.exit = self.packet.requests.failed.is_some();
    }

    /// The bits of `parser_err` for an error of P4.
    pub(super) fn error_bits(&self, error: u32) -> u64 {
        let errors = &self.program.errors;
        match error {
            e if e == errors.no_error => 0,
            e if e == errors.packet_too_short => 0x2,
            e if e == errors.parser_timeout => 0x10,
            e if e == errors.stack_out_of_bounds => 0x40,
            // No case of a select matched.
            _ => 0x1,
        }
    }

    /// Runs a primitive.
    pub fn tofino_step(&mut self, primitive: &TofinoPrimitive, data: &[u64]) {
        match primitive {
            TofinoPrimitive::Emit(_) if self.state.tofino.emitted.len() >= MAX_EMITTED => {
                self.fail(DropReason::NoTermination);
            }
            TofinoPrimitive::Emit(header) => self.state.tofino.emitted.push(*header),
            TofinoPrimitive::Mirror(session, header) => {
                let session = session.index(&self.scope(data)) as u32;
                self.state.tofino.mirror = Some((session, *header));
            }
            TofinoPrimitive::Resubmit(header) => self.state.tofino.resubmit = Some(*header),
            TofinoPrimitive::CountDeparting(Some((counter, index))) => {
                let index = index.index(&self.scope(data));
                self.state.counters[*counter as usize]
                    .count(index, u64::from(self.packet.ingress_length));
                let counted = Departing::Cell(*counter, index);
                self.state.tofino.departing.push(counted);
            }
            TofinoPrimitive::CountDeparting(None) => {
                let tofino = &mut self.state.tofino;
                let counted = Departing::Entry(tofino.table, tofino.entry);
                tofino.departing.push(counted);
            }
            TofinoPrimitive::EntryIndex(to) => {
                // No register has as many cells, so that a miss reads 0 and writes nothing.
                let index = self.state.tofino.entry.unwrap_or(u32::MAX);
                self.store(to, i128::from(index), data);
            }
            TofinoPrimitive::Filter {
                to,
                filter,
                index,
                of,
            } => {
                let scope = self.scope(data);
                let (index, x) = (index.index(&scope), of.index(&scope));
                let state = &mut *self.state;
                let made = state.filters[*filter as usize].of(index, x, self.now, &mut state.rng);
                self.store(to, i128::from(made), data);
            }
            TofinoPrimitive::Math { to, of, unit } => {
                let x = of.index(&self.scope(data));
                self.store(to, i128::from(unit.of(x)), data);
            }
            TofinoPrimitive::WholeHash(to, calculation) => {
                let hash = self.calculate(*calculation);
                self.store(to, i128::from(hash), data);
            }
            TofinoPrimitive::CountLess(counter, cell, less) => {
                let scope = self.scope(data);
                let (cell, less) = (cell.index(&scope), less.index(&scope));
                let bytes = u64::from(self.packet.ingress_length).saturating_sub(less);
                self.state.counters[*counter as usize].count(cell, bytes);
            }
        }
    }

    /// Writes headers into the frame, in front of the payload.
    pub(super) fn write_headers_of(&mut self, emitted: &[u32]) {
        let program = self.program;
        let emits = emitted.iter().map(|h| Emit::new(&program.layout, *h));
        let words = &self.packet.words;
        let valid: Vec<Emit> = emits.filter(|emit| emit.is_valid(words)).collect();
        let bytes = valid.iter().map(|emit| emit.bits(words) / 8).sum();
        self.packet.make_room(bytes);
        let mut at = 0;
        for emit in &valid {
            at += self.emit(emit, at);
        }
        if self.is_traced() {
            self.note_deparse();
        }
    }
}
