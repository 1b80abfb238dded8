//! Initial values of the words of a packet.

use cranelift_codegen::ir::types::{I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, MemFlags, Value};
use cranelift_frontend::FunctionBuilder;

/// A function of the address of the words that initialises them.
pub(super) fn generate(b: &mut FunctionBuilder, initial: &[u64], unset: &[bool]) {
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let words = b.block_params(entry)[0];
    store(b, words, initial, unset);
    b.ins().return_(&[]);
}

/// Stores the initial value in every word that must be initialised, and in others beside them where
/// one instruction stores both.
pub(super) fn store(b: &mut FunctionBuilder, words: Value, initial: &[u64], unset: &[bool]) {
    let flags = MemFlags::new().with_notrap();
    let zero = b.ins().iconst(I64, 0);
    let zeros = b.ins().splat(I64X2, zero);
    let mut at = 0;
    while at < initial.len() {
        let place = 8 * at as i32;
        if !unset[at] {
            at += 1;
        } else if initial.get(at..at + 2) == Some(&[0, 0]) {
            b.ins().store(flags, zeros, words, place);
            at += 2;
        } else {
            let value = b.ins().iconst(I64, initial[at] as i64);
            b.ins().store(flags, value, words, place);
            at += 1;
        }
    }
}
