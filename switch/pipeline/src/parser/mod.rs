//! The parser: states with operations and a select.

mod load;
mod run;
mod short;

use crate::action::{Primitive, Target};
use crate::expr::{Condition, Number};
use crate::layout::Slot;
pub(crate) use load::ParserLoader;
pub(crate) use run::MAX_STATES;
use short::ShortSelect;

#[derive(Debug, Default)]
pub(crate) struct Parser {
    pub states: Vec<State>,
    pub start: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub name: String,
    pub ops: Vec<Op>,
    key: Vec<KeyPart>,
    /// Bytes of the key, every part padded to whole bytes.
    key_bytes: usize,
    pub cases: Vec<Case>,
    pub default: Option<u32>,
    /// The same select for a key that fits in a word.
    pub short: Option<ShortSelect>,
}

#[derive(Debug)]
pub(crate) enum Op {
    Extract(ExtractTo, Option<Number>),
    Set(Target, Number),
    SetLookahead(Target, u32, u32),
    Verify(Condition, Number),
    Advance(Number),
    Primitives(Vec<Primitive>),
}

#[derive(Debug)]
pub(crate) enum ExtractTo {
    Header(u32),
    /// Counter and candidates of a header stack, or of one member of a union stack.
    Stack(u32, Box<[u32]>),
}

#[derive(Debug)]
pub(crate) enum KeyPart {
    Field(Slot),
    /// A field of the last element.
    Last(u32, Box<[Slot]>),
    /// Bit offset and width.
    Lookahead(u32, u32),
}

#[derive(Debug)]
pub(crate) struct Case {
    test: Test,
    pub next: Option<u32>,
}

#[derive(Debug)]
pub(crate) enum Test {
    Value {
        value: Box<[u8]>,
        mask: Option<Box<[u8]>>,
    },
    ValueSet(u32, Option<Box<[u8]>>),
}

/// Members of a value set: value and mask, padded like the key.
pub(crate) type CompiledMembers = Vec<(Box<[u8]>, Box<[u8]>)>;

/// Codes of the errors that the parser itself raises.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorCodes {
    pub no_error: u32,
    pub packet_too_short: u32,
    pub stack_out_of_bounds: u32,
    pub header_too_short: u32,
    pub parser_timeout: u32,
    pub invalid_argument: u32,
}

impl ErrorCodes {
    pub fn load(errors: &[(String, u32)]) -> ErrorCodes {
        // Core errors that the program does not number cannot be compared with by it.
        let code = |name: &str, absent| {
            errors
                .iter()
                .find(|(n, _)| n == name)
                .map_or(absent, |(_, code)| *code)
        };
        let top = u32::MAX >> 1;
        ErrorCodes {
            no_error: code("NoError", 0),
            packet_too_short: code("PacketTooShort", top - 1),
            stack_out_of_bounds: code("StackOutOfBounds", top - 2),
            header_too_short: code("HeaderTooShort", top - 3),
            parser_timeout: code("ParserTimeout", top - 4),
            invalid_argument: code("ParserInvalidArgument", top - 5),
        }
    }
}

impl State {
    /// Widths of the parts of the key, in bits.
    pub fn key_widths(&self) -> impl Iterator<Item = u32> + '_ {
        self.key.iter().map(KeyPart::bits)
    }
}

impl KeyPart {
    fn bits(&self) -> u32 {
        match self {
            KeyPart::Field(s) => s.bits,
            KeyPart::Last(_, slots) => slots.first().map_or(0, |s| s.bits),
            KeyPart::Lookahead(_, bits) => *bits,
        }
    }
}
