//! The pipes of the chip: each has the registers of its program for itself.

use super::blocks::MAX_PIPES;
use crate::Pipeline;
use crate::stateful::{RegisterArray, Registers};

/// Bits of the number of a port in its pipe.
const PORT_BITS: u32 = 7;

impl Pipeline {
    /// Does something with the registers of the pipe of a port in the place of those of the first pipe.
    #[inline]
    pub(super) fn in_pipe<R>(&mut self, port: u16, f: impl FnOnce(&mut Pipeline) -> R) -> R {
        let pipe = usize::from(port >> PORT_BITS);
        if pipe == 0 {
            return f(self);
        }
        self.exchange_registers(pipe);
        let done = f(self);
        self.exchange_registers(pipe);
        done
    }

    /// Has the registers of a pipe that is not the first and those of the first change places.
    #[cold]
    fn exchange_registers(&mut self, pipe: usize) {
        self.make_pipes();
        let first = &mut self.state.registers;
        let others = &mut self.state.tofino.other_pipes;
        if let Some(other) = others.get_mut(pipe - 1) {
            std::mem::swap(first, other);
        }
    }

    /// A register array in all pipes, the first pipe's first; of other architectures there is one.
    pub(crate) fn in_all_pipes(
        &mut self,
        number: usize,
    ) -> impl Iterator<Item = &mut RegisterArray> {
        if self.program.tofino().is_some() {
            self.make_pipes();
        }
        let first = &mut self.state.registers.arrays[number];
        let others = self.state.tofino.other_pipes.iter_mut();
        [first]
            .into_iter()
            .chain(others.map(move |pipe| &mut pipe.arrays[number]))
    }

    /// Makes the registers of the other pipes, as they are in the beginning, when they are needed first: until then
    /// nothing has been written to them.
    fn make_pipes(&mut self) {
        if !self.state.tofino.other_pipes.is_empty() {
            return;
        }
        let specs = &self.program.blueprint.registers;
        let new = |_| Registers {
            arrays: specs.iter().map(RegisterArray::new).collect(),
        };
        self.state.tofino.other_pipes = (1..MAX_PIPES).map(new).collect();
    }
}
