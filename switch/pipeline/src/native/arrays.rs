//! Counters and registers: access to their cells.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::calls::offset;
use super::cells::Cells;
use super::code::{Code, Data};
use crate::expr::Number;
use crate::packet::Packet;
use crate::stateful::{Counters, RegisterArray};

/// An index of a cell.
enum CellIndex {
    /// None of its bits leads out of the array.
    Inside(Value),
    /// It is to be compared with the length of the array.
    Anywhere(Value),
}

impl Code<'_, '_> {
    /// Counts the packet in a cell. Outside the array nothing happens.
    pub fn count(&mut self, counter: u32, index: &Number, data: Data) {
        let size = self.program.blueprint.counters[counter as usize].size;
        let index = self.cell_index(index, size, data);
        let counters = self.load_context(offset::COUNTERS);
        let array = counter as usize * size_of::<Counters>() + offset_of!(Counters, cells);
        self.in_cell(
            counters,
            array,
            index,
            size_of::<[u64; 2]>(),
            |code, cell| {
                let packets = code.load_cell(cell, 0);
                let packets = code.add_const(packets, 1);
                code.store_cell(cell, 0, packets);
                let bytes = code.load_cell(cell, 8);
                let packet = code.load_context(offset::PACKET);
                let length = code.load_u32(packet, offset_of!(Packet, ingress_length));
                let bytes = code.add(bytes, length);
                code.store_cell(cell, 8, bytes);
            },
        );
    }

    /// Calls `use_it` with the address of a cell of one word. Outside the array nothing happens.
    pub fn in_register(
        &mut self,
        register: u32,
        index: &Number,
        data: Data,
        use_it: impl FnOnce(&mut Self, Value),
    ) {
        let size = self.program.blueprint.registers[register as usize]
            .array
            .size;
        let index = self.cell_index(index, size, data);
        let registers = self.load_context(offset::REGISTERS);
        let array =
            register as usize * size_of::<RegisterArray>() + offset_of!(RegisterArray, words);
        self.in_cell(registers, array, index, size_of::<u64>(), use_it);
    }

    /// The index of a cell in an array of this many.
    fn cell_index(&mut self, index: &Number, cells: u32, data: Data) -> CellIndex {
        let value = self.index(index, data);
        match index.bits_inside(cells) {
            // The mask changes nothing, but for it no bit may be set that leads out of the array.
            Some(bits) => CellIndex::Inside(self.low(value, bits)),
            None => CellIndex::Anywhere(value),
        }
    }

    /// Calls `use_it` with the address of a cell of `size` bytes. Outside the array nothing
    /// happens.
    fn in_cell(
        &mut self,
        arrays: Value,
        array: usize,
        index: CellIndex,
        size: usize,
        use_it: impl FnOnce(&mut Self, Value),
    ) {
        let start = self.load_constant(arrays, array + offset_of!(Cells<u64>, start));
        let shift = i64::from(size.ilog2());
        let index = match index {
            CellIndex::Inside(index) => {
                let distance = self.b.ins().ishl_imm(index, shift);
                let cell = self.add(start, distance);
                return use_it(self, cell);
            }
            CellIndex::Anywhere(index) => index,
        };
        let (inside, done) = (self.block(), self.block());
        let len = self.load_constant(arrays, array + offset_of!(Cells<u64>, len));
        let there = self.b.ins().icmp(IntCC::UnsignedLessThan, index, len);
        self.branch(there, inside, done);
        self.go_on_in(inside);
        let distance = self.b.ins().ishl_imm(index, shift);
        let cell = self.add(start, distance);
        use_it(self, cell);
        self.jump(done);
        self.go_on_in(done);
    }
}
