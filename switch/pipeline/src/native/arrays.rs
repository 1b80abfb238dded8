//! Counters and registers: access to their cells.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::calls::offset;
use super::cells::Cells;
use super::code::Code;
use crate::packet::Packet;
use crate::stateful::{Counters, RegisterArray};

impl Code<'_, '_> {
    /// Counts the packet in a cell. Outside the array nothing happens.
    pub fn count(&mut self, counter: u32, index: Value) {
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
        index: Value,
        use_it: impl FnOnce(&mut Self, Value),
    ) {
        let registers = self.load_context(offset::REGISTERS);
        let array =
            register as usize * size_of::<RegisterArray>() + offset_of!(RegisterArray, words);
        self.in_cell(registers, array, index, size_of::<u64>(), use_it);
    }

    /// Calls `use_it` with the address of a cell of `size` bytes. Outside the array nothing
    /// happens.
    fn in_cell(
        &mut self,
        arrays: Value,
        array: usize,
        index: Value,
        size: usize,
        use_it: impl FnOnce(&mut Self, Value),
    ) {
        let (inside, done) = (self.block(), self.block());
        let start = self.load_constant(arrays, array + offset_of!(Cells<u64>, start));
        let len = self.load_constant(arrays, array + offset_of!(Cells<u64>, len));
        let there = self.b.ins().icmp(IntCC::UnsignedLessThan, index, len);
        self.branch(there, inside, done);
        self.go_on_in(inside);
        let distance = self.b.ins().ishl_imm(index, i64::from(size.ilog2()));
        let cell = self.add(start, distance);
        use_it(self, cell);
        self.jump(done);
        self.go_on_in(done);
    }
}
