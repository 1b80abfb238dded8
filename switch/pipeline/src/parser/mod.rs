//! The parser: states with operations, each followed by a select that chooses the next state.

mod load;
mod run;
mod short;

use crate::action::{Primitive, Target};
use crate::expr::{Condition, Number};
use crate::slot::Slot;
pub(crate) use load::ParserLoader;
pub(crate) use run::MAX_STATES;
use short::ShortSelect;

/// A parser.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    /// Its states.
    pub states: Vec<State>,
    /// The first state; `None` if the parser does nothing.
    pub start: Option<u32>,
}

/// A state of a parser.
#[derive(Debug)]
pub(crate) struct State {
    /// Its name in P4.
    pub name: String,
    /// Its operations, in order.
    pub ops: Vec<Op>,
    /// The key of its select.
    key: Vec<KeyPart>,
    /// Length of the key in bytes, with every part padded to whole bytes.
    key_bytes: usize,
    /// The cases of its select, in order.
    pub cases: Vec<Case>,
    /// The next state if no case applies; `None` is the end.
    pub default: Option<u32>,
    /// The same select for a key that fits into one word; `None` if it does not.
    pub short: Option<ShortSelect>,
}

/// An operation of a state.
#[derive(Debug)]
pub(crate) enum Op {
    /// Extracts a header; the number is the length of its variable-length field in bits.
    Extract(ExtractTo, Option<Number>),
    /// Stores a number.
    Set(Target, Number),
    /// Stores bits ahead: target, bit offset, width.
    SetLookahead(Target, u32, u32),
    /// Ends the parser with an error, whose code is the number, if the condition is false.
    Verify(Condition, Number),
    /// Skips this many bits.
    Advance(Number),
    /// Runs primitives.
    Primitives(Vec<Primitive>),
}

/// Where a header is extracted to.
#[derive(Debug)]
pub(crate) enum ExtractTo {
    /// To this header.
    Header(u32),
    /// To the next element of a stack: the word of its counter, and the headers. Also for one
    /// member of a union stack.
    Stack(u32, Box<[u32]>),
}

/// A part of a select's key.
#[derive(Debug)]
pub(crate) enum KeyPart {
    /// A field.
    Field(Slot),
    /// A field of the last element of a stack.
    Last(u32, Box<[Slot]>),
    /// Bits ahead: bit offset and width.
    Lookahead(u32, u32),
}

/// A case of a select.
#[derive(Debug)]
pub(crate) struct Case {
    test: Test,
    /// The next state; `None` is the end.
    pub next: Option<u32>,
}

/// When a case applies.
#[derive(Debug)]
pub(crate) enum Test {
    Value {
        value: Box<[u8]>,
        mask: Option<Box<[u8]>>,
    },
    /// The key is a member of a value set, after it is masked.
    ValueSet(u32, Option<Box<[u8]>>),
}

/// Members of a value set as value and mask, padded like the key.
pub(crate) type CompiledMembers = Vec<(Box<[u8]>, Box<[u8]>)>;

/// Codes of the errors that the parser itself raises, named as in P4's core library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorCodes {
    pub no_error: u32,
    pub packet_too_short: u32,
    pub stack_out_of_bounds: u32,
    pub header_too_short: u32,
    pub parser_timeout: u32,
    pub invalid_argument: u32,
}

/// The errors of core.p4.
const CORE_ERRORS: [&str; 7] = [
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
];

/// The errors of a program, and behind them, as on BMv2, those of core.p4 that it does not list.
pub(crate) fn with_core_errors(mut errors: Vec<(String, u32)>) -> Vec<(String, u32)> {
    let greatest = errors.iter().map(|(_, code)| *code).max();
    let mut next = greatest.map_or(0, |code| code.wrapping_add(1));
    for name in CORE_ERRORS {
        if errors.iter().all(|(known, _)| known != name) {
            errors.push((name.to_owned(), next));
            next = next.wrapping_add(1);
        }
    }
    errors
}

impl ErrorCodes {
    /// The codes of errors among which are those of core.p4.
    pub fn load(errors: &[(String, u32)]) -> ErrorCodes {
        let code = |name: &str| {
            let known = errors.iter().find(|(n, _)| n == name);
            known.map_or(0, |(_, code)| *code)
        };
        ErrorCodes {
            no_error: code("NoError"),
            packet_too_short: code("PacketTooShort"),
            stack_out_of_bounds: code("StackOutOfBounds"),
            header_too_short: code("HeaderTooShort"),
            parser_timeout: code("ParserTimeout"),
            invalid_argument: code("ParserInvalidArgument"),
        }
    }
}

impl State {
    /// The parts of the key.
    pub fn key(&self) -> &[KeyPart] {
        &self.key
    }

    /// Widths of the parts of the key, in bits.
    pub fn key_widths(&self) -> impl Iterator<Item = u32> + '_ {
        self.key.iter().map(KeyPart::bits)
    }
}

impl KeyPart {
    /// Width of a part of the key, in bits.
    fn bits(&self) -> u32 {
        match self {
            KeyPart::Field(s) => s.bits,
            KeyPart::Last(_, slots) => slots.first().map_or(0, |s| s.bits),
            KeyPart::Lookahead(_, bits) => *bits,
        }
    }
}
