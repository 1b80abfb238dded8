//! Actions, compiled: a list of primitives whose operands are resolved.

use crate::expr::{Condition, HeaderRef, Number, UnionRef, Word};
use crate::math_unit::MathUnit;
use crate::slot::{Place, Slot};
use crate::stateful::RegisterRef;
use crate::trace::Source;

/// An action of the program.
#[derive(Debug)]
pub(crate) struct Action {
    /// Its name in P4.
    pub name: String,
    /// Its number in the JSON file.
    pub id: u32,
    /// Its name, and the place of its first primitive in the P4 program.
    pub source: Source,
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// Words of its arguments.
    pub data_words: usize,
    /// Its primitives, in order.
    pub body: Vec<Primitive>,
}

/// A parameter of an action.
#[derive(Debug)]
pub(crate) struct Param {
    /// Its name in P4.
    pub name: String,
    /// Where its argument lies in the action data.
    pub slot: Slot,
}

/// Where a result is stored.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// In a field.
    Field(Slot),
    /// In the field of a stack element that an index chooses; one slot for each element.
    Element(Box<[Slot]>, Box<Number>),
    /// In a field of the last element of a stack: the word of its counter, and a slot for each
    /// element.
    Last(u32, Box<[Slot]>),
    /// In a cell of a register array.
    Register(RegisterRef, Box<Number>),
    /// Nowhere: the target cannot be written, or is never read afterwards.
    Nowhere,
}

/// One step of an action. Jumps count primitives from the start of the body.
#[derive(Debug)]
pub(crate) enum Primitive {
    /// Does nothing.
    NoOp,
    /// Stores a number.
    Assign(Target, Number),
    /// The most common assignment: word of the packet, mask, value.
    AssignWord(u32, u64, Word),
    /// Copies a variable-length field; each is given by its slot and the word of its length.
    AssignVariable { to: (Slot, u32), from: (Slot, u32) },
    /// Copies a header and its validity to another one.
    AssignHeader(HeaderRef, HeaderRef),
    /// Copies a header union.
    AssignUnion(UnionRef, UnionRef),
    /// Copies a header stack.
    AssignStack { to: StackRef, from: StackRef },
    /// P4's `push_front`.
    Push(StackRef, Number),
    /// P4's `pop_front`.
    Pop(StackRef, Number),
    /// Jumps to the primitive with this index.
    Jump(Number),
    /// Jumps to the primitive with this index if a condition is false (`_jump_if_zero`).
    JumpUnless(Condition, Number),
    /// Ends the pipeline.
    Exit,
    /// Drops the packet if the condition is false.
    Assert(Condition),
    /// Drops the packet if the condition is false; a promise to verification tools.
    Assume(Condition),
    /// P4's `log_msg`: text with `{}` for each number.
    Log(String, Vec<Number>),
    /// P4's `mark_to_drop`.
    MarkToDrop(Dropping),
    /// P4's `setValid`.
    SetValid(HeaderRef),
    /// P4's `setInvalid`.
    SetInvalid(HeaderRef),
    /// Asks for a clone at the end of the pipeline.
    Clone { session: Number, field_list: Number },
    /// Asks for a resubmit, preserving this field list.
    Resubmit(Number),
    /// Asks for a recirculation, preserving this field list.
    Recirculate(Number),
    /// Asks for a digest with this learn list.
    Digest(Number),
    /// Stores `base` plus the hash modulo `size`.
    Hash {
        to: Target,
        base: Number,
        calculation: u32,
        size: Number,
    },
    /// Stores a random number between two bounds, both included.
    Random {
        to: Target,
        low: Number,
        high: Number,
    },
    /// Stores the colour of the packet.
    Meter {
        meter: u32,
        index: Number,
        to: Target,
    },
    /// Counts the packet in a cell of a counter array.
    Count(u32, Number),
    /// Reads a cell of a register array.
    RegisterRead {
        to: Target,
        register: RegisterRef,
        index: Number,
    },
    /// Writes a cell of a register array.
    RegisterWrite {
        register: RegisterRef,
        index: Number,
        value: Number,
    },
    /// Cuts the packet to this many bytes when it leaves.
    Truncate(Number),
    /// A primitive that only Tofino has.
    Tofino(TofinoPrimitive),
}

/// A primitive that only programs for Tofino have.
#[derive(Debug)]
pub(crate) enum TofinoPrimitive {
    /// Appends a header to those that are emitted in front of the payload, if it is valid.
    Emit(u32),
    /// Asks for a copy in a mirror session, with a header in front of it.
    Mirror(Number, Option<u32>),
    /// Asks for a resubmission with a header.
    Resubmit(Option<u32>),
    /// Counts the packet in a cell of a counter array, with its bytes less a number.
    CountLess(u32, Number, Number),
    /// Stores the whole result of a calculation.
    WholeHash(Target, u32),
    /// Counts the packet with the bytes that leave: in a cell of a counter array, or in the entry that the table has
    /// hit, which has counted it already.
    CountDeparting(Option<(u32, Number)>),
    /// Stores the index of the entry that the table has hit, which is that of its cell in direct registers.
    EntryIndex(Target),
    /// Stores the result of a cell of a filter array for the input `of`.
    Filter {
        to: Target,
        filter: u32,
        index: Number,
        of: Number,
    },
    /// Stores a function of a number, as the math unit of a register computes it.
    Math {
        to: Target,
        of: Number,
        unit: MathUnit,
    },
}

impl Primitive {
    /// Whether it needs to know which entry the table has hit.
    pub fn needs_entry(&self) -> bool {
        use TofinoPrimitive::{CountDeparting, EntryIndex};
        matches!(
            self,
            Primitive::Tofino(EntryIndex(_) | CountDeparting(None))
        )
    }
}

/// The fields that `mark_to_drop` sets. They are those of the metadata passed to it, which may be a
/// copy of the packet's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropping {
    /// The field that is set to the drop port.
    pub egress_spec: Place,
    /// The field that is set to 0; `None` if the metadata lacks it.
    pub mcast_grp: Option<Place>,
}

/// A header stack, or a stack of unions.
#[derive(Clone, Debug)]
pub(crate) struct StackRef {
    /// Word of the index of the next free element.
    pub next_at: u32,
    /// Numbers of the headers or unions.
    pub elements: Box<[u32]>,
    /// Whether the elements are header unions.
    pub of_unions: bool,
}

impl Target {
    /// Width of what is stored, in bits.
    pub fn bits(&self) -> u32 {
        match self {
            Target::Field(slot) => slot.bits,
            Target::Element(slots, _) | Target::Last(_, slots) => {
                slots.iter().map(|s| s.bits).max().unwrap_or(0)
            }
            Target::Register(register, _) => register.bits,
            Target::Nowhere => 0,
        }
    }
}
