//! The means of all generated functions: words of the packet, bytes of the frame, branches, calls.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::immediates::Offset32;
use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use cranelift_codegen::ir::{
    AbiParam, AliasRegion, Block, Endianness, InstBuilder, MemFlags, SigRef, Signature, Type, Value,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;

use super::calls::{Context, offset};
use crate::program::Program;
use crate::slot::{Place, Slot};

/// A function that is being generated.
pub(super) struct Code<'p, 'f> {
    /// The program that it is part of.
    pub program: &'p Program,
    /// Where instructions are added.
    pub b: FunctionBuilder<'f>,
    /// How the functions of the process are called.
    convention: CallConv,
    /// Signatures by number of arguments and of results.
    signatures: Vec<((usize, usize), SigRef)>,
    /// The only argument of the function.
    pub context: Value,
    /// The address of the packet's words.
    words: Value,
}

/// The data of the action that is compiled.
#[derive(Clone, Copy)]
pub(super) struct Data {
    pub pointer: Value,
    pub words: usize,
}

impl<'p, 'f> Code<'p, 'f> {
    /// Starts the function. Its only argument is a [`Context`], and its result a number.
    pub fn start(
        program: &'p Program,
        mut b: FunctionBuilder<'f>,
        convention: CallConv,
    ) -> Code<'p, 'f> {
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let context = b.block_params(entry)[0];
        let words = b
            .ins()
            .load(I64, constant_memory(), context, offset::WORDS as i32);
        Code {
            program,
            b,
            convention,
            signatures: Vec::new(),
            context,
            words,
        }
    }

    pub fn finish(mut self, result: Value) {
        self.b.ins().return_(&[result]);
        self.b.seal_all_blocks();
        self.b.finalize();
    }

    pub fn constant(&mut self, n: u64) -> Value {
        self.b.ins().iconst(I64, n as i64)
    }

    /// The address of something that lives as long as the program.
    pub fn address<T>(&mut self, of: &T) -> Value {
        self.constant(std::ptr::from_ref(of) as u64)
    }

    /// The data of an action without parameters.
    pub fn no_data(&mut self) -> Data {
        // A slice of nothing still needs an aligned address.
        let pointer = self.constant(align_of::<u64>() as u64);
        Data { pointer, words: 0 }
    }

    /// A word of the packet.
    pub fn word(&mut self, at: u32) -> Value {
        self.b.ins().load(I64, packet(), self.words, byte(at))
    }

    /// Sets a word of the packet.
    pub fn set_word(&mut self, at: u32, value: Value) {
        self.b.ins().store(packet(), value, self.words, byte(at));
    }

    pub fn set_word_to(&mut self, at: u32, value: u64) {
        let value = self.constant(value);
        self.set_word(at, value);
    }

    pub fn set_place(&mut self, place: Place, value: Value) {
        let value = self.b.ins().band_imm(value, place.mask as i64);
        self.set_word(place.at, value);
    }

    pub fn data_word(&mut self, data: Data, at: u32) -> Value {
        debug_assert!((at as usize) < data.words);
        self.b
            .ins()
            .load(I64, constant_memory(), data.pointer, byte(at))
    }

    /// Stores the low bits of `value` in a field of one word.
    pub fn store(&mut self, slot: Slot, value: Value) {
        debug_assert_eq!(slot.words, 1);
        let value = self.low(value, slot.bits);
        self.set_word(slot.at, value);
    }

    /// The low bits of a value.
    pub fn low(&mut self, value: Value, bits: u32) -> Value {
        match crate::bits::low_mask(bits) {
            u64::MAX => value,
            mask => self.b.ins().band_imm(value, mask as i64),
        }
    }

    pub fn load_context(&mut self, at: usize) -> Value {
        self.b
            .ins()
            .load(I64, constant_memory(), self.context, at as i32)
    }

    /// Loads a member of the [`Packet`](crate::Packet) that calls may change.
    pub fn load_packet(&mut self, at: usize) -> Value {
        let packet = self.load_context(offset::PACKET);
        self.load_changing(packet, at)
    }

    /// Stores a member of the [`Packet`](crate::Packet).
    pub fn store_packet(&mut self, at: usize, value: Value) {
        let packet = self.load_context(offset::PACKET);
        self.b.ins().store(cells_memory(), value, packet, at as i32);
    }

    /// Loads from memory that calls may change.
    pub fn load_changing(&mut self, base: Value, at: usize) -> Value {
        let flags = MemFlags::trusted().with_alias_region(Some(AliasRegion::Vmctx));
        self.b.ins().load(I64, flags, base, at as i32)
    }

    /// Loads a word of a cell of a counter or register.
    pub fn load_cell(&mut self, cell: Value, at: i32) -> Value {
        self.b.ins().load(I64, cells_memory(), cell, at)
    }

    pub fn store_cell(&mut self, cell: Value, at: i32, value: Value) {
        self.b.ins().store(cells_memory(), value, cell, at);
    }

    /// Loads a number of 32 bits from memory that does not change while the function runs.
    pub fn load_u32(&mut self, base: Value, at: usize) -> Value {
        self.b.ins().uload32(constant_memory(), base, at as i32)
    }

    /// The same as a value of 32 bits.
    pub fn load_i32(&mut self, base: Value, at: usize) -> Value {
        self.b.ins().load(I32, constant_memory(), base, at as i32)
    }

    /// Loads a number of 16 bits from memory that does not change while the function runs.
    pub fn load_u16(&mut self, base: Value, at: usize) -> Value {
        self.b
            .ins()
            .uload16(I64, constant_memory(), base, at as i32)
    }

    /// Loads a byte from memory that does not change while the function runs.
    pub fn load_u8(&mut self, base: Value, at: usize) -> Value {
        self.b.ins().uload8(I64, constant_memory(), base, at as i32)
    }

    /// Loads from memory that does not change while the function runs.
    pub fn load_constant(&mut self, base: Value, at: usize) -> Value {
        self.b.ins().load(I64, constant_memory(), base, at as i32)
    }

    /// The address of the packet's words.
    pub fn words(&self) -> Value {
        self.words
    }

    pub fn is(&mut self, condition: IntCC, a: Value, b: u64) -> Value {
        let b = self.constant(b);
        self.b.ins().icmp(condition, a, b)
    }

    /// A condition as a word.
    pub fn flag(&mut self, condition: Value) -> Value {
        self.b.ins().uextend(I64, condition)
    }

    pub fn block(&mut self) -> Block {
        self.b.create_block()
    }

    pub fn jump(&mut self, to: Block) {
        self.b.ins().jump(to, &[]);
    }

    pub fn jump_with(&mut self, to: Block, value: Value) {
        self.b.ins().jump(to, &[value.into()]);
    }

    pub fn branch(&mut self, condition: Value, then: Block, otherwise: Block) {
        self.b.ins().brif(condition, then, &[], otherwise, &[]);
    }

    pub fn go_on_in(&mut self, block: Block) {
        self.b.switch_to_block(block);
    }

    /// Goes to `rare` if the condition holds, and on otherwise.
    pub fn leave_if(&mut self, condition: Value, rare: Block) {
        let on = self.block();
        self.b.set_cold_block(rare);
        self.branch(condition, rare, on);
        self.go_on_in(on);
    }

    /// Calls a function of [`calls`](super::calls) with the context and these arguments.
    pub fn call(&mut self, function: usize, args: &[Value]) -> Value {
        self.call_for(function, args, 1)[0]
    }

    /// Calls a function that has two results.
    pub fn call_for_two(&mut self, function: usize, args: &[Value]) -> (Value, Value) {
        let results = self.call_for(function, args, 2);
        (results[0], results[1])
    }

    fn call_for(&mut self, function: usize, args: &[Value], results: usize) -> Vec<Value> {
        let shape = (args.len() + 1, results);
        let signature = match self.signatures.iter().find(|(s, _)| *s == shape) {
            Some((_, signature)) => *signature,
            None => {
                let signature =
                    self.b
                        .import_signature(signature(self.convention, shape.0, shape.1));
                self.signatures.push((shape, signature));
                signature
            }
        };
        let callee = self.constant(function as u64);
        let all: Vec<Value> = [self.context].iter().chain(args).copied().collect();
        let call = self.b.ins().call_indirect(signature, callee, &all);
        self.b.inst_results(call).to_vec()
    }

    /// Reads 1 to 8 bytes in network order.
    pub fn load_bytes(&mut self, base: Value, at: usize, bytes: usize) -> Value {
        let mut sum = None;
        for (start, n) in power_of_two_parts(bytes) {
            let ty = int(n);
            let flags = bytes_memory();
            let part = self.b.ins().load(ty, flags, base, (at + start) as i32);
            let part = self.reverse(part, n);
            let part = self.widen(part, n);
            let left = 8 * (bytes - start - n) as i64;
            let part = match left {
                0 => part,
                _ => self.b.ins().ishl_imm(part, left),
            };
            sum = Some(match sum {
                None => part,
                Some(sum) => self.b.ins().bor(sum, part),
            });
        }
        sum.unwrap_or_else(|| self.constant(0))
    }

    /// Reads 1, 2, 4 or 8 bytes in the order of the processor.
    pub fn load_little(&mut self, base: Value, at: usize, bytes: usize) -> Value {
        let (flags, at) = (bytes_memory(), at as i32);
        match bytes {
            1 => self.b.ins().uload8(I64, flags, base, at),
            2 => self.b.ins().uload16(I64, flags, base, at),
            4 => self.b.ins().uload32(flags, base, at),
            _ => self.b.ins().load(I64, flags, base, at),
        }
    }

    /// Writes the low 1, 2, 4 or 8 bytes of a word in the order of the processor.
    pub fn store_little(&mut self, base: Value, at: usize, bytes: usize, value: Value) {
        let value = match bytes {
            8 => value,
            _ => self.b.ins().ireduce(int(bytes), value),
        };
        self.b.ins().store(bytes_memory(), value, base, at as i32);
    }

    /// Writes the low 1 to 8 bytes of a word in network order.
    pub fn store_bytes(&mut self, base: Value, at: usize, bytes: usize, value: Value) {
        for (start, n) in power_of_two_parts(bytes) {
            let right = 8 * (bytes - start - n) as i64;
            let part = match right {
                0 => value,
                _ => self.b.ins().ushr_imm(value, right),
            };
            let part = match n {
                8 => part,
                _ => self.b.ins().ireduce(int(n), part),
            };
            let part = self.reverse(part, n);
            self.b
                .ins()
                .store(bytes_memory(), part, base, (at + start) as i32);
        }
    }

    fn reverse(&mut self, value: Value, bytes: usize) -> Value {
        match bytes {
            1 => value,
            _ => self.b.ins().bswap(value),
        }
    }

    fn widen(&mut self, value: Value, bytes: usize) -> Value {
        match bytes {
            8 => value,
            _ => self.b.ins().uextend(I64, value),
        }
    }
}

/// Splits bytes into loads of 8, 4, 2 and 1; returns their starts and widths.
fn power_of_two_parts(bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    debug_assert!(bytes <= 8);
    let mut start = 0;
    [8, 4, 2, 1]
        .into_iter()
        .filter(move |n| bytes & n != 0)
        .map(move |n| {
            start += n;
            (start - n, n)
        })
}

fn int(bytes: usize) -> Type {
    match bytes {
        1 => I8,
        2 => I16,
        4 => I32,
        _ => I64,
    }
}

pub(super) fn signature(convention: CallConv, args: usize, results: usize) -> Signature {
    let mut signature = Signature::new(convention);
    signature.params = vec![AbiParam::new(I64); args];
    signature.returns = vec![AbiParam::new(I64); results];
    signature
}

fn byte(word: u32) -> Offset32 {
    Offset32::new(8 * word as i32)
}

/// Access to the packet's words. What was loaded stays known until something is stored or called.
fn packet() -> MemFlags {
    MemFlags::trusted().with_alias_region(Some(AliasRegion::Heap))
}

/// Access to memory that does not change while the function runs.
fn constant_memory() -> MemFlags {
    MemFlags::trusted().with_readonly()
}

/// Access to counters and registers. They share a region with all else that is not the packet.
fn cells_memory() -> MemFlags {
    MemFlags::trusted().with_alias_region(Some(AliasRegion::Vmctx))
}

/// Access to the bytes of frames, which are not aligned. They are read the same on every machine
/// and then reversed.
fn bytes_memory() -> MemFlags {
    MemFlags::new()
        .with_notrap()
        .with_endianness(Endianness::Little)
        .with_alias_region(Some(AliasRegion::Table))
}

const _: () = assert!(
    size_of::<*const Context>() == 8,
    "native code needs a 64-bit host"
);
