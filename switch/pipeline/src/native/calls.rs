//! What generated code calls: the interpreter, for everything that has no instructions of its own.
//!
//! Every function gets the [`Context`] of the run it is called from. Other pointers are either to parts of
//! the [`Program`](crate::program::Program) that the code belongs to, which neither moves nor changes, or to
//! the data of the entry's action, which no function here touches.
//!
//! A panic in here is a bug, but none that may end the process, with all its switches: the packet is dropped
//! with reason `internal-error`, and until then its function gets the value behind `or`.

#![allow(clippy::missing_safety_doc)] // the module's rules are the same for all of them

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::rows::View;
use crate::action::Primitive;
use crate::expr::{Condition, Number};
use crate::machine::Machine;
use crate::outcome::DropReason;
use crate::parser::{Op, State};
use crate::profile::BoundAction;
use crate::program::Emit;
use crate::stateful::{Counters, RegisterArray};

/// What a generated function gets, at offsets that it knows.
#[repr(C)]
pub(super) struct Context {
    /// The packet's words, as many as `Layout::initial` has.
    pub words: *mut u64,
    pub frame: *const u8,
    pub frame_length: u64,
    pub drop_port: u64,
    /// What counters count.
    pub ingress_length: u64,
    /// Views of all tables, by table.
    pub views: *const View,
    pub counters: *mut Counters,
    pub registers: *mut RegisterArray,
    /// A [`Machine`], whose lifetime is that of the run.
    pub machine: *mut (),
    /// Set by the parser.
    pub payload_at: u64,
}

pub(super) mod offset {
    use super::Context;
    pub const WORDS: usize = std::mem::offset_of!(Context, words);
    pub const FRAME: usize = std::mem::offset_of!(Context, frame);
    pub const FRAME_LENGTH: usize = std::mem::offset_of!(Context, frame_length);
    pub const DROP_PORT: usize = std::mem::offset_of!(Context, drop_port);
    pub const INGRESS_LENGTH: usize = std::mem::offset_of!(Context, ingress_length);
    pub const COUNTERS: usize = std::mem::offset_of!(Context, counters);
    pub const REGISTERS: usize = std::mem::offset_of!(Context, registers);
    pub const VIEWS: usize = std::mem::offset_of!(Context, views);
    pub const PAYLOAD_AT: usize = std::mem::offset_of!(Context, payload_at);
}

/// Results from here on are P4 errors, in their low half.
pub(super) const FAILED: u64 = 1 << 63;

/// In the low half of what [`apply`](address::apply) returns.
pub(super) const NO_ACTION: u32 = u32::MAX;

/// In what [`apply`](address::apply) returns.
pub(super) const HIT: u64 = 1 << 32;

/// Two registers.
#[repr(C)]
struct Pair(u64, u64);

#[inline]
fn outcome(entry: Option<u32>, action: Option<&BoundAction>) -> Pair {
    match action {
        Some(bound) => Pair(
            u64::from(bound.action) | if entry.is_some() { HIT } else { 0 },
            bound.data.as_ptr() as u64,
        ),
        None => Pair(u64::from(NO_ACTION), 0),
    }
}

/// SAFETY for the caller: nothing else uses the machine until the reference is gone.
unsafe fn machine<'a>(context: *mut Context) -> &'a mut Machine<'a> {
    // SAFETY: `run` in the parent module put it there, and waits for the generated code.
    unsafe { &mut *(*context).machine.cast() }
}

/// SAFETY for the caller: generated code gives the start and length of a slice.
unsafe fn slice<'a, T>(start: *const T, length: usize) -> &'a [T] {
    // SAFETY: see the module's documentation.
    unsafe { std::slice::from_raw_parts(start, length) }
}

macro_rules! calls {
    ($(
        $(#[$doc:meta])*
        fn $function:ident($machine:ident $(, $arg:ident: $ty:ty)*) -> $result:ty
            $body:block or $broken:expr;
    )*) => {$(
        unsafe extern "C" fn $function(context: *mut Context $(, $arg: $ty)*) -> $result {
            // SAFETY: only generated code calls this, with the types that this file says; see the module's
            // documentation for what it points to.
            #[allow(unused_unsafe)]
            unsafe {
                // Generated code cannot be unwound: without this a panic would end the process.
                let result = catch_unwind(AssertUnwindSafe(|| {
                    let $machine = machine(context);
                    $body
                }));
                result.unwrap_or_else(|_| {
                    let $machine = machine(context);
                    $machine.fail(DropReason::InternalError);
                    $broken
                })
            }
        }
    )*
        /// Where the functions are.
        pub(super) mod address {
            $(
                $(#[$doc])*
                pub fn $function() -> usize {
                    super::$function as *const () as usize
                }
            )*
        }
    };
}

calls! {
    /// Primitive, data: one primitive. Not zero: the packet exits.
    fn step(machine, primitive: *const Primitive, data: *const u64, words: usize) -> u64 {
        machine.step(&*primitive, slice(data, words));
        u64::from(machine.packet.requests.exit)
    } or 1;
    /// Primitives, data: a whole body. Not zero: the packet exits.
    fn run(machine, body: *const Primitive, length: usize, data: *const u64, words: usize) -> u64 {
        machine.run(slice(body, length), slice(data, words));
        u64::from(machine.packet.requests.exit)
    } or 1;
    /// Action, data: an action that its table did not announce.
    fn run_action(machine, action: usize, data: *const u64) -> u64 {
        let action = &machine.program.actions[action];
        machine.run(&action.body, slice(data, action.data_words));
        u64::from(machine.packet.requests.exit)
    } or 1;
    /// Number, data: its value as an index.
    fn index(machine, number: *const Number, data: *const u64, words: usize) -> u64 {
        (*number).index(&machine.scope(slice(data, words)))
    } or 0;
    /// Condition, data: 0 or 1.
    fn condition(machine, condition: *const Condition, data: *const u64, words: usize) -> u64 {
        u64::from((*condition).eval(&machine.scope(slice(data, words))))
    } or 0;
    /// Table: the action, with 2^32 for a hit, and its data.
    fn apply(machine, table: usize) -> Pair {
        let entry = machine.find(table);
        machine.state.refresh(table, &machine.packet.words, entry);
        outcome(entry, machine.action_of(table, entry))
    } or Pair(u64::from(NO_ACTION), 0);
    /// Table, hash of its selector: as `apply`.
    fn select_member(machine, table: usize, hash: u64) -> Pair {
        let entry = machine.find(table);
        machine.state.refresh(table, &machine.packet.words, entry);
        outcome(entry, machine.member_of(table, entry, hash))
    } or Pair(u64::from(NO_ACTION), 0);
    /// Operation, bytes parsed so far: bytes parsed, or an error.
    fn parser_op(machine, op: *const Op, at: usize) -> u64 {
        let mut at = at;
        match machine.parser_op(&*op, &mut at) {
            Ok(()) => at as u64,
            Err(code) => FAILED | u64::from(code),
        }
    } or FAILED | u64::from(machine.program.errors.no_error);
    /// Header, bits of the variable-length field, bytes parsed so far: bytes parsed, or an error.
    fn extract(machine, header: u32, variable: u64, at: usize) -> u64 {
        let mut at = at;
        match machine.extract(header, variable, &mut at) {
            Ok(()) => at as u64,
            Err(code) => FAILED | u64::from(code),
        }
    } or FAILED | u64::from(machine.program.errors.no_error);
    /// State, bytes parsed so far: number of the next state plus one, 0 for the end, or an error.
    fn select(machine, state: *const State, at: usize) -> u64 {
        match machine.choose_next(&*state, at) {
            Ok(next) => next.map_or(0, |n| u64::from(n) + 1),
            Err(code) => FAILED | u64::from(code),
        }
    } or FAILED | u64::from(machine.program.errors.no_error);
    /// Calculation: the hash of its fields.
    fn calculate(machine, calculation: u32) -> u64 {
        machine.calculate(calculation)
    } or 0;
    /// Where the payload begins, for checksums that are verified before the parser's function has returned.
    fn set_payload_at(machine, at: usize) -> u64 {
        machine.packet.payload_at = at;
        0
    } or 0;
    /// Calculation, bytes: their hash.
    fn hash(machine, calculation: u32, bytes: *const u8, length: usize) -> u64 {
        machine.hash(calculation, slice(bytes, length))
    } or 0;
    /// Header.
    fn set_valid(machine, header: u32) -> u64 {
        machine.set_valid(header);
        0
    } or 0;
    /// Bytes of all headers: where in the frame they are to be written. Without room the code cannot go on; what
    /// makes it only moves the payload, which begins inside the frame.
    fn make_room(machine, header_bytes: usize) -> *mut u8 {
        machine.packet.header_bytes = header_bytes;
        machine.packet.make_room(header_bytes);
        machine.packet.frame.as_mut_ptr()
    } or std::process::abort();
    /// Header of the deparser, where in the frame to write it: how many bytes it is.
    fn emit(machine, emit: *const Emit, at: usize) -> u64 {
        machine.emit(&*emit, at) as u64
    } or 0;
}
