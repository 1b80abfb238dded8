//! Steps of one packet in the pipeline.
//!
//! After [`Pipeline::start_trace`](crate::Pipeline::start_trace) packets are interpreted, with the
//! same results as in native code, and every step is noted.
//! [`Pipeline::take_trace`](crate::Pipeline::take_trace) returns the notes and ends this. While
//! nobody traces, the only cost is to ask whether somebody does. Events are data with the program's
//! names; [`Display`](std::fmt::Display) makes a line of text of each.

mod note;
#[cfg(test)]
mod tests;
mod text;

use crate::control::{MatchKey, MatchKind};

/// Most events that are noted of a packet, so that a program that loops cannot fill the memory.
pub(crate) const MAX_EVENTS: usize = 20_000;

/// A number with its width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its width in bits.
    pub bits: u32,
    /// Its value, big-endian, in whole bytes.
    pub bytes: Vec<u8>,
}

/// A step of a packet's way through the pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// The parser has entered this state.
    State(String),
    /// The parser has extracted a header.
    Extract {
        /// Name of the header.
        header: String,
        /// Its length.
        bytes: u32,
        /// Its fields with their values.
        fields: Vec<(String, Value)>,
    },
    /// The select of a state has chosen the next one; `None` is the end, `accept` or `reject`.
    Select {
        /// Values that were matched.
        key: Vec<Value>,
        /// Name of the next state.
        next: Option<String>,
    },
    /// The parser has ended.
    ParserEnd {
        /// `NoError`, or the error that stopped it.
        error: String,
        /// Bytes that the parser has read.
        parsed_bytes: u32,
        /// Bytes behind them.
        payload_bytes: u32,
    },
    /// A checksum was verified.
    Checksum {
        /// Field of the checksum.
        field: String,
        /// Its value.
        found: Value,
        /// The computed value.
        expected: Value,
    },
    /// A condition was evaluated.
    Condition {
        /// The condition in the program.
        source: Source,
        /// Its value.
        value: bool,
    },
    /// A table was applied.
    Table(TableEvent),
    /// Statements outside of tables are going to run; compilers make an action of them.
    Statements(Source),
    /// A field or a validity has changed.
    Changed(Change),
    /// A register was read.
    RegisterRead {
        /// Name of the array.
        register: String,
        /// Index of the cell.
        index: u64,
        /// The value in decimal.
        value: String,
    },
    /// A register was written.
    RegisterWrite {
        /// Name of the array.
        register: String,
        /// Index of the cell.
        index: u64,
        /// The value in decimal, as computed, before it is cut to the width of the cell.
        value: String,
    },
    /// The packet was counted.
    Count {
        /// Name of the array.
        counter: String,
        /// Index of the cell.
        index: u64,
        /// Length of the packet.
        bytes: u32,
    },
    /// A meter has coloured the packet; the colour shows where it is stored.
    Meter {
        /// Name of the array.
        meter: String,
        /// Index of the cell.
        index: u64,
    },
    /// The program has logged a message (`log_msg`).
    Log(String),
    /// The program has ended the pipeline.
    Exit,
    /// The headers have been written in front of the payload.
    Deparse {
        /// Names of the headers that were written, in order.
        headers: Vec<String>,
        /// Their length.
        header_bytes: u32,
        /// Length of the payload.
        payload_bytes: u32,
    },
    /// More happened than is noted.
    Cut,
}

/// A place in the P4 program, as the compiler wrote it down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The text there, or the name that the compiler gave it.
    pub text: String,
    /// File and line as `file:line`; empty if unknown.
    pub at: String,
}

/// A change of the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A field has another value.
    Field {
        /// The field with its header: `ipv4.ttl`.
        field: String,
        /// Its value before.
        from: Value,
        /// Its value now.
        to: Value,
    },
    /// A header has become valid or invalid.
    Validity {
        /// Name of the header.
        header: String,
        /// Whether it is valid now.
        valid: bool,
    },
}

/// A table that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEvent {
    /// Name of the table.
    pub table: String,
    /// The fields of the key.
    pub key: Vec<KeyValue>,
    /// The entry that was hit; `None` is a miss.
    pub entry: Option<EntryHit>,
    /// How a member was chosen; `None` if the table has no action profile.
    pub choice: Option<Choice>,
    /// Name and arguments of the action; `None` if none is to run.
    pub action: Option<(String, Vec<(String, Value)>)>,
}

/// A key field with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// Its name in P4.
    pub name: String,
    /// How it is matched.
    pub kind: MatchKind,
    /// Its value in the packet.
    pub value: Value,
}

/// The entry that was hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryHit {
    /// Its condition on each field of the key.
    pub key: Vec<MatchKey>,
    /// Its priority; 0 in tables without priorities.
    pub priority: i32,
}

/// How an action profile came to its action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The entry names this member.
    Member(u32),
    /// The entry names a group; `member` is `None` if that is empty or gone.
    Group {
        /// Number of the group.
        group: u32,
        /// Number of the member.
        member: Option<u32>,
        /// Hash that chose it.
        hash: u64,
    },
    /// The entry has actions of its own (one-shot), counted with their weights.
    Set {
        /// Index of the chosen action. None: the set is empty.
        index: Option<usize>,
        /// Sum of the weights.
        of: usize,
        /// Hash that chose it.
        hash: u64,
    },
}
