//! Functions that generated code calls: the interpreter, for all that has no instructions of its own.
//!
//! Every function gets the [`Context`] of the run that calls it. Other pointers lead either into
//! the [`Program`](crate::program::Program) that the code belongs to, which neither moves nor
//! changes, or to the data of the entry's action, which no function here touches.
//!
//! A panic in here is a bug, but must not end the process with all its switches. The packet is
//! dropped with reason `internal-error`; until then the function returns the value behind `or`.

#![allow(clippy::missing_safety_doc)] // the module's rules are the same for all of them

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::rows::View;
use crate::action::Primitive;
use crate::drop_reason::DropReason;
use crate::expr::{Condition, Number};
use crate::machine::Machine;
use crate::packet::Packet;
use crate::parser::{Op, State};
use crate::profile::BoundAction;
use crate::program::Emit;
use crate::stateful::{Counters, RegisterArray};

/// The argument of a generated function, whose fields it reads at known offsets.
#[repr(C)]
pub(super) struct Context {
    /// The packet's words, as many as `Layout::initial` has.
    pub words: *mut u64,
    /// The bytes of the frame.
    pub frame: *mut u8,
    /// How many bytes the frame has.
    pub frame_length: u64,
    /// The packet that has these.
    pub packet: *mut Packet,
    /// The value of `egress_spec` that means drop.
    pub drop_port: u64,
    /// The views of all tables, by number.
    pub views: *const View,
    /// The counter arrays.
    pub counters: *mut Counters,
    /// The register arrays.
    pub registers: *mut RegisterArray,
    /// The [`Machine`] of the run, whose lifetime is that of the run.
    pub machine: *mut (),
    /// The [`IngressInput`](crate::IngressInput) or [`EgressInput`](crate::EgressInput) that the words are to be set
    /// from first; null: they are set.
    pub input: *const (),
    /// The time of the pass in microseconds.
    pub now_us: u64,
}

pub(super) mod offset {
    use super::Context;
    pub const WORDS: usize = std::mem::offset_of!(Context, words);
    pub const FRAME: usize = std::mem::offset_of!(Context, frame);
    pub const FRAME_LENGTH: usize = std::mem::offset_of!(Context, frame_length);
    pub const DROP_PORT: usize = std::mem::offset_of!(Context, drop_port);
    pub const PACKET: usize = std::mem::offset_of!(Context, packet);
    pub const COUNTERS: usize = std::mem::offset_of!(Context, counters);
    pub const REGISTERS: usize = std::mem::offset_of!(Context, registers);
    pub const VIEWS: usize = std::mem::offset_of!(Context, views);
    pub const INPUT: usize = std::mem::offset_of!(Context, input);
    pub const NOW_US: usize = std::mem::offset_of!(Context, now_us);
}

/// Results of the parser from here on are P4 errors, whose code is in the low half.
pub(super) const FAILED: u64 = 1 << 63;

/// The low half of the result of [`apply`](address::apply) if no action is to run.
pub(super) const NO_ACTION: u32 = u32::MAX;

/// Set in the result of [`apply`](address::apply) if an entry was hit.
pub(super) const HIT: u64 = 1 << 32;

/// A result of two registers.
#[repr(C)]
struct Pair(u64, u64);

/// The result of applying a table: the action, and the address of its data.
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

/// Safety: the caller must see to it that nothing else uses the machine until the reference is
/// gone.
unsafe fn machine<'a>(context: *mut Context) -> &'a mut Machine<'a> {
    // SAFETY: `run` in the parent module put it there, and waits for the generated code.
    unsafe { &mut *(*context).machine.cast() }
}

/// Safety: the arguments must be the start and length of a slice, as generated code gives them.
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
        /// The addresses of the functions.
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
    /// Runs a primitive with the action data. The result is not zero if the packet exits.
    fn step(machine, primitive: *const Primitive, data: *const u64, words: usize) -> u64 {
        machine.step(&*primitive, slice(data, words));
        u64::from(machine.packet.requests.exit)
    } or 1;
    /// Runs primitives with the action data. The result is not zero if the packet exits.
    fn run(machine, body: *const Primitive, length: usize, data: *const u64, words: usize) -> u64 {
        machine.fetch_fields();
        machine.run(slice(body, length), slice(data, words));
        machine.measure();
        u64::from(machine.packet.requests.exit)
    } or 1;
    /// Runs an action that its table did not announce, with its data.
    fn run_action(machine, action: usize, data: *const u64) -> u64 {
        let action = &machine.program.actions[action];
        machine.fetch_fields();
        machine.run(&action.body, slice(data, action.data_words));
        machine.measure();
        u64::from(machine.packet.requests.exit)
    } or 1;
    /// The value of a number as an index.
    fn index(machine, number: *const Number, data: *const u64, words: usize) -> u64 {
        (*number).index(&machine.scope(slice(data, words)))
    } or 0;
    /// Whether a condition holds: 0 or 1.
    fn condition(machine, condition: *const Condition, data: *const u64, words: usize) -> u64 {
        u64::from((*condition).eval(&machine.scope(slice(data, words))))
    } or 0;
    /// Applies a table: the action, with 2^32 added for a hit, and its data.
    fn apply(machine, table: usize) -> Pair {
        let entry = machine.find(table);
        machine.note_entry(table, entry);
        machine.state.refresh(table, &machine.packet.words, entry);
        outcome(entry, machine.action_of(table, entry))
    } or Pair(u64::from(NO_ACTION), 0);
    /// Like `apply`, with the hash of the table's selector.
    fn select_member(machine, table: usize, hash: u64) -> Pair {
        let entry = machine.find(table);
        machine.note_entry(table, entry);
        machine.state.refresh(table, &machine.packet.words, entry);
        outcome(entry, machine.member_of(table, entry, hash))
    } or Pair(u64::from(NO_ACTION), 0);
    /// Runs a parser operation; `at` and the result are bytes parsed so far, or the result is an
    /// error.
    fn parser_op(machine, op: *const Op, at: usize) -> u64 {
        let mut at = at;
        match machine.parser_op(&*op, &mut at) {
            Ok(()) => at as u64,
            Err(code) => FAILED | u64::from(code),
        }
    } or FAILED | u64::from(machine.program.errors.no_error);
    /// Extracts a header whose variable-length field has `variable` bits; `at` and the result are
    /// bytes parsed so far, or the result is an error.
    fn extract(machine, header: u32, variable: u64, at: usize) -> u64 {
        let mut at = at;
        match machine.extract(header, variable, &mut at) {
            Ok(()) => at as u64,
            Err(code) => FAILED | u64::from(code),
        }
    } or FAILED | u64::from(machine.program.errors.no_error);
    /// Chooses the next state: its number plus one, 0 for the end, or an error.
    fn select(machine, state: *const State, at: usize) -> u64 {
        match machine.choose_next(&*state, at) {
            Ok(next) => next.map_or(0, |n| u64::from(n) + 1),
            Err(code) => FAILED | u64::from(code),
        }
    } or FAILED | u64::from(machine.program.errors.no_error);
    /// The hash of a calculation's inputs.
    fn calculate(machine, calculation: u32) -> u64 {
        machine.calculate(calculation)
    } or 0;
    /// The hash of these bytes by the algorithm of a calculation.
    fn hash(machine, calculation: u32, bytes: *const u8, length: usize) -> u64 {
        machine.hash(calculation, slice(bytes, length))
    } or 0;
    /// Header.
    fn set_valid(machine, header: u32) -> u64 {
        machine.set_valid(header);
        0
    } or 0;
    /// Reads the fields that the parser has left in the frame.
    fn fetch_fields(machine) -> u64 {
        machine.fetch_fields();
        0
    } or 0;
    /// Notes how long the headers are.
    fn measure(machine) -> u64 {
        machine.measure();
        0
    } or 0;
    /// Bytes of all headers: where in the frame they are to be written. Without room the code cannot go on; what
    /// makes it only moves the payload, which begins inside the frame.
    fn make_room(machine, header_bytes: usize) -> *mut u8 {
        machine.packet.header_bytes = header_bytes;
        machine.packet.make_room(header_bytes);
        machine.packet.frame.as_mut_ptr()
    } or std::process::abort();
    /// Puts the bytes that are apart from the frame into it: its address and its length. Without it the code cannot go
    /// on.
    fn join_front(machine) -> Pair {
        machine.packet.join_front();
        let frame = &mut machine.packet.frame;
        Pair(frame.as_mut_ptr() as u64, frame.len() as u64)
    } or std::process::abort();
    /// Header of the deparser, where in the frame to write it: how many bytes it is.
    fn emit(machine, emit: *const Emit, at: usize) -> u64 {
        machine.emit(&*emit, at) as u64
    } or 0;
}
