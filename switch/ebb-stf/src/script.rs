//! An STF file as a list of commands.
//!
//! One command a line; `#` starts a comment. The words are those of p4c's STF files for BMv2
//! (docs/stf.md has them all); case does not matter in the first one.

use thiserror::Error;

use crate::scan::{Line, Number};

/// A file that cannot be read as STF.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}: {problem}")]
pub struct ScriptError {
    pub line: usize,
    pub problem: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The line in the file, from 1.
    pub line: usize,
    pub command: Command,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Packet {
        port: u16,
        bytes: Vec<u8>,
    },
    Expect {
        port: u16,
        pattern: Pattern,
    },
    /// No more packets leave before the next `packet`.
    NoPacket,
    Wait,
    Add {
        table: String,
        /// The greatest number wins. None if the file does not say.
        priority: Option<i32>,
        keys: Vec<(String, KeyValue)>,
        action: EntryAction,
        /// The label by which `remove` and `check_counter` find the entry again.
        label: Option<String>,
    },
    SetDefault {
        table: String,
        /// The new default; none: that of the program.
        action: Option<EntryAction>,
    },
    MemberCreate {
        profile: String,
        action: Action,
    },
    ProfileGroupCreate {
        profile: String,
    },
    MemberAddToGroup {
        profile: String,
        member: u32,
        group: u32,
    },
    RemoveAll,
    Remove {
        label: String,
    },
    MirroringAdd {
        session: u32,
        port: u16,
    },
    MirroringAddMulticast {
        session: u32,
        group: u16,
    },
    MirroringDelete {
        session: u32,
    },
    MirroringGet {
        session: u32,
    },
    GroupCreate {
        group: u16,
    },
    NodeCreate {
        instance: u16,
        ports: Vec<u16>,
    },
    NodeUpdate {
        node: usize,
        ports: Vec<u16>,
    },
    NodeAssociate {
        group: u16,
        node: usize,
    },
    CounterRead {
        name: String,
        index: u64,
    },
    CounterWrite {
        name: String,
        index: u64,
        packets: u64,
        bytes: u64,
    },
    CheckCounter {
        name: String,
        at: CounterAt,
        check: Option<Check>,
    },
    RegisterRead {
        name: String,
        /// The cell; none: all cells.
        index: Option<u64>,
    },
    RegisterWrite {
        name: String,
        index: u64,
        value: Number,
    },
    RegisterReset {
        name: String,
    },
    MeterGet {
        name: String,
        index: u64,
    },
    MeterSet {
        name: String,
        /// The cell; none: all cells.
        index: Option<u64>,
        rates: [Rate; 2],
    },
}

/// Match of an entry for one key field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyValue {
    Number(Number),
    Prefix(Number, u32),
    /// A range, to which both ends belong.
    Range(Number, Number),
}

/// Action of an entry, or default action of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryAction {
    Action(Action),
    /// A member of the table's action profile, by its id.
    Member(u32),
    /// A group of the table's action selector, by its id.
    Group(u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    pub name: String,
    pub arguments: Vec<(String, Number)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterAt {
    Index(u64),
    /// The label of an `add`.
    Entry(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    pub unit: CountUnit,
    pub relation: Relation,
    pub value: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountUnit {
    Packets,
    Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Relation {
    pub fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Relation::Equal => left == right,
            Relation::NotEqual => left != right,
            Relation::Less => left < right,
            Relation::LessOrEqual => left <= right,
            Relation::Greater => left > right,
            Relation::GreaterOrEqual => left >= right,
        }
    }

    pub fn symbol(self) -> &'static str {
        match self {
            Relation::Equal => "==",
            Relation::NotEqual => "!=",
            Relation::Less => "<",
            Relation::LessOrEqual => "<=",
            Relation::Greater => ">",
            Relation::GreaterOrEqual => ">=",
        }
    }
}

/// A rate and a burst as `simple_switch_CLI` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// In packets or bytes per second; the file has it per microsecond.
    pub per_second: u64,
    pub burst: u64,
}

/// Pattern of an expected frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    /// The hexadecimal digits of the frame; none where any digit will do.
    pub digits: Vec<Option<u8>>,
    /// Whether nothing may follow the digits, which `$` says.
    pub exact_length: bool,
}

/// Reads a whole file.
pub fn parse(text: &str) -> Result<Vec<Statement>, ScriptError> {
    let mut statements = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        let fail = |problem| ScriptError {
            line: number,
            problem,
        };
        let mut line = Line::new(text);
        let Some(word) = line.word() else {
            if line.at_end() {
                continue;
            }
            return Err(fail("a line starts with a command".into()));
        };
        let command = command(&word.to_ascii_lowercase(), &mut line).map_err(fail)?;
        if !line.at_end() {
            return Err(fail(format!("`{}` is too much", line.rest())));
        }
        statements.push(Statement {
            line: number,
            command,
        });
    }
    Ok(statements)
}

const COMMANDS: &str = "packet, expect, no_packet, wait, add, setdefault, remove, \
    act_prof_create_member, act_prof_create_group, act_prof_add_member_to_group, check_counter, \
    mirroring_add, mirroring_add_mc, mirroring_delete, mirroring_get, mc_mgrp_create, \
    mc_node_create, mc_node_update, mc_node_associate, counter_read, counter_write, \
    register_read, register_write, register_reset, meter_get_rates, meter_set_rates, \
    meter_array_set_rates";

fn command(word: &str, line: &mut Line<'_>) -> Result<Command, String> {
    Ok(match word {
        "packet" => Command::Packet {
            port: line.integer("a port")?,
            bytes: bytes(line)?,
        },
        "expect" => Command::Expect {
            port: line.integer("a port")?,
            pattern: pattern(line)?,
        },
        "no_packet" => Command::NoPacket,
        "wait" => Command::Wait,
        "add" => add(line)?,
        "setdefault" => Command::SetDefault {
            table: line.path("a table")?,
            action: match line.at_end() {
                true => None,
                false => {
                    let name = line.path("an action")?;
                    Some(entry_action(name, line)?)
                }
            },
        },
        "act_prof_create_member" => Command::MemberCreate {
            profile: line.path("an action profile")?,
            action: action(line)?,
        },
        "act_prof_create_group" => Command::ProfileGroupCreate {
            profile: line.path("an action profile")?,
        },
        "act_prof_add_member_to_group" => Command::MemberAddToGroup {
            profile: line.path("an action profile")?,
            member: line.integer("a member")?,
            group: line.integer("a group")?,
        },
        "remove" => match label("`all` or the label of an entry", line)? {
            all if all.eq_ignore_ascii_case("all") => Command::RemoveAll,
            label => Command::Remove { label },
        },
        "mirroring_add" => Command::MirroringAdd {
            session: line.integer("a clone session")?,
            port: line.integer("a port")?,
        },
        "mirroring_add_mc" => Command::MirroringAddMulticast {
            session: line.integer("a clone session")?,
            group: line.integer("a multicast group")?,
        },
        "mirroring_delete" => Command::MirroringDelete {
            session: line.integer("a clone session")?,
        },
        "mirroring_get" => Command::MirroringGet {
            session: line.integer("a clone session")?,
        },
        "mc_mgrp_create" => Command::GroupCreate {
            group: line.integer("a multicast group")?,
        },
        "mc_node_create" => Command::NodeCreate {
            instance: line.integer("an instance (egress_rid)")?,
            ports: line.integers("a port")?,
        },
        "mc_node_update" => Command::NodeUpdate {
            node: line.integer("a node")?,
            ports: line.integers("a port")?,
        },
        "mc_node_associate" => Command::NodeAssociate {
            group: line.integer("a multicast group")?,
            node: line.integer("a node")?,
        },
        "counter_read" => Command::CounterRead {
            name: line.path("a counter")?,
            index: line.integer("an index")?,
        },
        "counter_write" => Command::CounterWrite {
            name: line.path("a counter")?,
            index: line.integer("an index")?,
            packets: line.integer("packets")?,
            bytes: line.integer("bytes")?,
        },
        "check_counter" => check_counter(line)?,
        "register_read" => Command::RegisterRead {
            name: line.path("a register")?,
            index: match line.at_end() {
                true => None,
                false => Some(line.integer("an index")?),
            },
        },
        "register_write" => Command::RegisterWrite {
            name: line.path("a register")?,
            index: line.integer("an index")?,
            value: line.number("a value")?,
        },
        "register_reset" => Command::RegisterReset {
            name: line.path("a register")?,
        },
        "meter_get_rates" => Command::MeterGet {
            name: line.path("a meter")?,
            index: line.integer("an index")?,
        },
        "meter_set_rates" => Command::MeterSet {
            name: line.path("a meter")?,
            index: Some(line.integer("an index")?),
            rates: [rate(line)?, rate(line)?],
        },
        "meter_array_set_rates" => Command::MeterSet {
            name: line.path("a meter")?,
            index: None,
            rates: [rate(line)?, rate(line)?],
        },
        other => return Err(format!("`{other}` is not a command; those are {COMMANDS}")),
    })
}

/// `TABLE [PRIORITY] KEY:VALUE .. WHAT [= LABEL]`
fn add(line: &mut Line<'_>) -> Result<Command, String> {
    let table = line.path("a table")?;
    let priority = match line.starts_with_digit() {
        true => Some(line.integer("a priority")?),
        false => None,
    };
    let mut keys = Vec::new();
    loop {
        let name = line.path("a key field or an action")?;
        if !line.consume(":") {
            let action = entry_action(name, line)?;
            let label = match line.consume("=") {
                true => Some(label("a label", line)?),
                false => None,
            };
            return Ok(Command::Add {
                table,
                priority,
                keys,
                action,
                label,
            });
        }
        let value = line.number("a value")?;
        let value = if line.consume("/") {
            KeyValue::Prefix(value, line.integer("a prefix length")?)
        } else if line.consume("->") {
            KeyValue::Range(value, line.number("the end of the range")?)
        } else {
            KeyValue::Number(value)
        };
        keys.push((name, value));
    }
}

/// The label of an entry, which p4c's scripts write with `$` where they refer to it.
fn label(what: &str, line: &mut Line<'_>) -> Result<String, String> {
    let word = line.path(what)?;
    match word.strip_prefix('$') {
        Some("") => Err(format!("expected {what}, found `$`")),
        Some(label) => Ok(label.into()),
        None => Ok(word),
    }
}

/// `ACTION(NAME:VALUE, ..)`, `member N` or `group N`, of which the first word has been read.
fn entry_action(word: String, line: &mut Line<'_>) -> Result<EntryAction, String> {
    Ok(match word.as_str() {
        "member" if line.starts_with_digit() => EntryAction::Member(line.integer("a member")?),
        "group" if line.starts_with_digit() => EntryAction::Group(line.integer("a group")?),
        _ => EntryAction::Action(arguments(word, line)?),
    })
}

fn action(line: &mut Line<'_>) -> Result<Action, String> {
    let name = line.path("an action")?;
    arguments(name, line)
}

fn arguments(name: String, line: &mut Line<'_>) -> Result<Action, String> {
    line.expect("(")?;
    let mut arguments = Vec::new();
    while !line.consume(")") {
        if !arguments.is_empty() {
            line.expect(",")?;
        }
        let name = line.path("a parameter")?;
        line.expect(":")?;
        arguments.push((name, line.number("a value")?));
    }
    Ok(Action { name, arguments })
}

/// `NAME(INDEX or LABEL) [packets|bytes RELATION NUMBER]`
fn check_counter(line: &mut Line<'_>) -> Result<Command, String> {
    let name = line.path("a counter")?;
    line.expect("(")?;
    let at = match line.starts_with_digit() {
        true => CounterAt::Index(line.integer("an index")?),
        false => CounterAt::Entry(label("an index or the label of an entry", line)?),
    };
    line.expect(")")?;
    let check = match line.at_end() {
        true => None,
        false => Some(check(line)?),
    };
    Ok(Command::CheckCounter { name, at, check })
}

fn check(line: &mut Line<'_>) -> Result<Check, String> {
    let unit = match line.path("`packets` or `bytes`")?.as_str() {
        "packets" => CountUnit::Packets,
        "bytes" => CountUnit::Bytes,
        other => return Err(format!("expected `packets` or `bytes`, found `{other}`")),
    };
    let relations = [
        Relation::Equal,
        Relation::NotEqual,
        Relation::LessOrEqual,
        Relation::GreaterOrEqual,
        Relation::Less,
        Relation::Greater,
    ];
    let relation = relations.into_iter().find(|r| line.consume(r.symbol()));
    let relation = relation.ok_or("expected ==, !=, <, <=, > or >=")?;
    Ok(Check {
        unit,
        relation,
        value: line.integer("a number")?,
    })
}

/// `RATE:BURST`, the rate per microsecond.
fn rate(line: &mut Line<'_>) -> Result<Rate, String> {
    let rate = line.decimal("a rate per microsecond")?;
    line.expect(":")?;
    Ok(Rate {
        per_second: (rate * 1e6).round() as u64,
        burst: line.integer("a burst")?,
    })
}

fn bytes(line: &mut Line<'_>) -> Result<Vec<u8>, String> {
    let digits = line.take_rest();
    let digits: Vec<char> = digits.chars().filter(|c| !c.is_whitespace()).collect();
    if !digits.len().is_multiple_of(2) {
        return Err(format!(
            "{} hexadecimal digits are no whole number of bytes",
            digits.len()
        ));
    }
    let nibbles: Result<Vec<u8>, String> = digits.into_iter().map(nibble).collect();
    Ok(nibbles?.chunks(2).map(|two| two[0] << 4 | two[1]).collect())
}

fn pattern(line: &mut Line<'_>) -> Result<Pattern, String> {
    let mut pattern = Pattern::default();
    for c in line.take_rest().chars().filter(|c| !c.is_whitespace()) {
        if pattern.exact_length {
            return Err("`$` is the end of a packet".into());
        }
        match c {
            '*' => pattern.digits.push(None),
            '$' => pattern.exact_length = true,
            c => pattern.digits.push(Some(nibble(c)?)),
        }
    }
    Ok(pattern)
}

fn nibble(c: char) -> Result<u8, String> {
    match c.to_digit(16) {
        Some(digit) => Ok(digit as u8),
        None => Err(format!("`{c}` is no hexadecimal digit")),
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
