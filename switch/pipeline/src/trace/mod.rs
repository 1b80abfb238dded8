//! What happened to one packet, step by step: the glass box.
//!
//! [`Pipeline::start_trace`](crate::Pipeline::start_trace) has the next packets interpreted, which means the same as
//! native code, and every step noted; [`Pipeline::take_trace`](crate::Pipeline::take_trace) gives the notes and ends
//! it. While nobody traces, the only cost is the question whether somebody does. Events are data
//! with the program's names; [`Display`](std::fmt::Display) makes a line of text of each.

mod note;
#[cfg(test)]
mod tests;
mod text;

use crate::control::{MatchKey, MatchKind};

/// A program that loops does not fill the memory with what it does: what follows is not noted.
pub(crate) const MAX_EVENTS: usize = 20_000;

/// A number and its width: big-endian, in whole bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub bits: u32,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// The parser enters a state.
    State(String),
    Extract {
        header: String,
        bytes: u32,
        fields: Vec<(String, Value)>,
    },
    /// The select of a state: its key, and the next state; `None` is the end, `accept` or `reject`.
    Select {
        key: Vec<Value>,
        next: Option<String>,
    },
    ParserEnd {
        /// `NoError` or what stopped it.
        error: String,
        parsed_bytes: u32,
        payload_bytes: u32,
    },
    /// A checksum that the program verifies.
    Checksum {
        field: String,
        found: Value,
        expected: Value,
    },
    /// An `if`.
    Condition {
        source: Source,
        value: bool,
    },
    Table(TableEvent),
    /// Statements outside of tables, which compilers make an action of.
    Statements(Source),
    Changed(Change),
    RegisterRead {
        register: String,
        index: u64,
        /// In decimal.
        value: String,
    },
    RegisterWrite {
        register: String,
        index: u64,
        /// In decimal, as computed, before it is cut to the width of the cell.
        value: String,
    },
    Count {
        counter: String,
        index: u64,
        bytes: u32,
    },
    /// The colour shows where it is stored.
    Meter {
        meter: String,
        index: u64,
    },
    /// `log_msg`
    Log(String),
    Exit,
    /// The headers are written in front of the payload.
    Deparse {
        headers: Vec<String>,
        header_bytes: u32,
        payload_bytes: u32,
    },
    /// More happened than is noted.
    Cut,
}

/// A place in the P4 program, as far as the compiler tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// What stands there, or the name that the compiler gave it.
    pub text: String,
    /// `file:line`, or empty.
    pub at: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Field {
        /// With its header: `ipv4.ttl`.
        field: String,
        from: Value,
        to: Value,
    },
    /// A header became valid or invalid.
    Validity { header: String, valid: bool },
}

/// A table that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEvent {
    pub table: String,
    pub key: Vec<KeyValue>,
    /// `None` is a miss.
    pub entry: Option<EntryHit>,
    pub choice: Option<Choice>,
    /// Name and arguments; `None` if there is none to run.
    pub action: Option<(String, Vec<(String, Value)>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub name: String,
    pub kind: MatchKind,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryHit {
    /// One for each field of the key.
    pub key: Vec<MatchKey>,
    /// 0 in tables without priorities.
    pub priority: i32,
}

/// How an action profile came to its action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    Member(u32),
    /// `member` is `None` if the group is empty or gone.
    Group {
        group: u32,
        member: Option<u32>,
        hash: u64,
    },
    /// The actions of an entry itself (one-shot), counted with their weights.
    Set {
        index: Option<usize>,
        of: usize,
        hash: u64,
    },
}
