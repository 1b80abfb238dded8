//! Events as lines for people.

use std::fmt::{self, Display, Formatter};

use super::{Change, Choice, EntryHit, KeyValue, Source, TableEvent, TraceEvent, Value};
use crate::control::{MatchKey, MatchKind};

impl Display for Value {
    /// The width decides alone: 48 bits are shown as a MAC address, 32 bits perhaps as an IPv4
    /// address, up to 16 bits as a number. `{:#}` shows no addresses.
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match (self.bits, self.bytes.as_slice()) {
            (0, _) | (_, []) => f.write_str("empty"),
            (48, mac) if !f.alternate() => {
                separated(f, mac, ":", |f, byte| write!(f, "{byte:02x}"))
            }
            (32, ip) => {
                write_hex(f, ip)?;
                // Small numbers are no addresses.
                if ip[0] != 0 && !f.alternate() {
                    f.write_str(" (")?;
                    separated(f, ip, ".", |f, byte| write!(f, "{byte}"))?;
                    f.write_str(")")?;
                }
                Ok(())
            }
            (..=16, bytes) => {
                let n = bytes.iter().fold(0u32, |n, byte| n << 8 | u32::from(*byte));
                match n {
                    0..10 => write!(f, "{n}"),
                    _ => write!(f, "{n:#x} ({n})"),
                }
            }
            (_, bytes) => write_hex(f, bytes),
        }
    }
}

fn write_hex(f: &mut Formatter, bytes: &[u8]) -> fmt::Result {
    f.write_str("0x")?;
    separated(f, bytes, "", |f, byte| write!(f, "{byte:02x}"))
}

fn separated<T>(
    f: &mut Formatter,
    items: impl IntoIterator<Item = T>,
    separator: &str,
    mut write: impl FnMut(&mut Formatter, T) -> fmt::Result,
) -> fmt::Result {
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            f.write_str(separator)?;
        }
        write(f, item)?;
    }
    Ok(())
}

fn assignments<'a>(
    f: &mut Formatter,
    pairs: impl IntoIterator<Item = &'a (String, Value)>,
) -> fmt::Result {
    separated(f, pairs, ", ", |f, (name, value)| {
        write!(f, "{name} {value}")
    })
}

impl Display for TraceEvent {
    /// One line, or two for a table.
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            TraceEvent::State(name) => write!(f, "state {name}"),
            TraceEvent::Extract {
                header,
                bytes,
                fields,
            } => {
                write!(f, "  extract {header}, {bytes} bytes: ")?;
                assignments(f, fields)
            }
            TraceEvent::Select { key, next } => {
                f.write_str("  select ")?;
                separated(f, key, ", ", |f, value| write!(f, "{value}"))?;
                write!(f, " -> {}", next.as_deref().unwrap_or("end"))
            }
            TraceEvent::ParserEnd {
                error,
                parsed_bytes,
                payload_bytes,
            } => {
                let how = match error.as_str() {
                    "NoError" => String::new(),
                    error => format!(", error {error}"),
                };
                write!(
                    f,
                    "parsed {parsed_bytes} bytes, payload {payload_bytes} bytes{how}"
                )
            }
            TraceEvent::Checksum {
                field,
                found,
                expected,
            } if found == expected => write!(f, "checksum {field} {found}: right"),
            TraceEvent::Checksum {
                field,
                found,
                expected,
            } => write!(f, "checksum {field} {found}: wrong, should be {expected}"),
            TraceEvent::Condition { source, value } => {
                write!(f, "if {}: {value}{}", source.text, At(source))
            }
            TraceEvent::Table(table) => write!(f, "{table}"),
            TraceEvent::Statements(source) => write!(f, "do {}{}", source.text, At(source)),
            TraceEvent::Changed(change) => write!(f, "  {change}"),
            TraceEvent::RegisterRead {
                register,
                index,
                value,
            } => write!(f, "  read {register}[{index}]: {value}"),
            TraceEvent::RegisterWrite {
                register,
                index,
                value,
            } => write!(f, "  write {register}[{index}] = {value}"),
            TraceEvent::Count {
                counter,
                index,
                bytes,
            } => write!(f, "  count {counter}[{index}]: 1 packet, {bytes} bytes"),
            TraceEvent::Meter { meter, index } => write!(f, "  meter {meter}[{index}]"),
            TraceEvent::Log(text) => write!(f, "  log: {text}"),
            TraceEvent::Exit => f.write_str("  exit"),
            TraceEvent::Deparse {
                headers,
                header_bytes,
                payload_bytes,
            } => {
                let headers = headers.join(", ");
                write!(
                    f,
                    "deparse {headers}: {header_bytes} bytes, payload {payload_bytes} bytes"
                )
            }
            TraceEvent::Cut => f.write_str("(there is more, which is not noted)"),
        }
    }
}

struct At<'a>(&'a Source);

impl Display for At<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self.0.at.as_str() {
            "" => Ok(()),
            at => write!(f, "  [{at}]"),
        }
    }
}

impl Display for Change {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            // A variable that a program computes with is seldom an address.
            Change::Field { field, from, to } if field.starts_with("scalars.") => {
                write!(f, "{field}: {from:#} -> {to:#}")
            }
            Change::Field { field, from, to } => write!(f, "{field}: {from} -> {to}"),
            Change::Validity { header, valid } => {
                let how = if *valid { "valid" } else { "invalid" };
                write!(f, "{header} becomes {how}")
            }
        }
    }
}

impl Display for TableEvent {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "table {}", self.table)?;
        if !self.key.is_empty() {
            f.write_str(": ")?;
            separated(f, &self.key, ", ", |f, KeyValue { name, value, .. }| {
                write!(f, "{name} {value}")
            })?;
        }
        match &self.entry {
            None => f.write_str("\n  miss")?,
            Some(entry) => self.write_entry(f, entry)?,
        }
        if let Some(choice) = &self.choice {
            write!(f, ", {choice}")?;
        }
        match &self.action {
            None => f.write_str(" -> no action"),
            Some((action, arguments)) => {
                write!(f, " -> {action}(")?;
                assignments(f, arguments)?;
                f.write_str(")")
            }
        }
    }
}

impl TableEvent {
    /// Conditions of the entry on the fields, without exact ones, which equal the key.
    fn write_entry(&self, f: &mut Formatter, entry: &EntryHit) -> fmt::Result {
        f.write_str("\n  hit")?;
        let fields = entry.key.iter().zip(&self.key);
        let mut told = fields
            .filter(|(_, field)| field.kind != MatchKind::Exact)
            .peekable();
        if told.peek().is_some() {
            f.write_str(" ")?;
            separated(f, told, ", ", |f, (key, field)| {
                write_match(f, key, &field.name, field.value.bits)
            })?;
        }
        match entry.priority {
            0 => Ok(()),
            priority => write!(f, ", priority {priority}"),
        }
    }
}

fn write_match(f: &mut Formatter, key: &MatchKey, name: &str, bits: u32) -> fmt::Result {
    write!(f, "{name} ")?;
    let value = |bytes: &[u8]| padded(bytes, bits);
    match key {
        MatchKey::Exact(v) | MatchKey::Optional(Some(v)) => write!(f, "{}", value(v)),
        MatchKey::Lpm {
            value: v,
            prefix_len,
        } => write!(f, "{}/{prefix_len}", value(v)),
        MatchKey::Ternary { value: v, mask } => {
            write!(f, "{} &&& ", value(v))?;
            write_hex(f, &value(mask).bytes)
        }
        MatchKey::Range { low, high } => write!(f, "{}..{}", value(low), value(high)),
        MatchKey::Optional(None) | MatchKey::Any => f.write_str("any"),
        MatchKey::Valid(valid) => f.write_str(if *valid { "valid" } else { "invalid" }),
    }
}

/// A value with the leading zeros that the control plane leaves out.
fn padded(bytes: &[u8], bits: u32) -> Value {
    let len = bits.div_ceil(8) as usize;
    let significant = &bytes[bytes.len().saturating_sub(len)..];
    let mut padded = vec![0; len - significant.len()];
    padded.extend_from_slice(significant);
    Value {
        bits,
        bytes: padded,
    }
}

impl Display for Choice {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Choice::Member(member) => write!(f, "member {member}"),
            Choice::Group {
                group,
                member: Some(member),
                hash,
            } => write!(f, "group {group}, member {member} by hash {hash:#x}"),
            Choice::Group { group, .. } => write!(f, "group {group}, without members"),
            Choice::Set {
                index: Some(index),
                of,
                hash,
            } => write!(f, "action {index} of {of} by hash {hash:#x}"),
            Choice::Set { .. } => f.write_str("a set without actions"),
        }
    }
}
