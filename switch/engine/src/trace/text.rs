//! A visit as text: one line for the packet, then one or two lines for each event.

use std::fmt::{self, Display, Formatter, Write};

use ebb_pipeline::control::Replica;
use ebb_traffic_manager::Depth;
use ebb_wire::PfcFrame;

use super::{Cause, Event, Visit};

/// How many bytes of a frame are shown in hexadecimal.
const SHOWN_BYTES: usize = 64;

impl Display for Visit {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let us = self.at.as_picos() as f64 / 1e6;
        match self.packet_id {
            0 => writeln!(f, "{} link, {us:.3} us", self.switch)?,
            packet => writeln!(f, "{} packet {packet}, {us:.3} us", self.switch)?,
        }
        for event in &self.events {
            for line in event.to_string().lines() {
                writeln!(f, "  {}", Shown(line))?;
            }
        }
        Ok(())
    }
}

/// Text of a program, which a controller may have sent: whatever a terminal would obey is escaped.
struct Shown<'a>(&'a str);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            _ if c.is_control() => write!(f, "{}", c.escape_default()),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                write!(f, "{}", c.escape_unicode())
            }
            _ => f.write_char(c),
        })
    }
}

impl Display for Event {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Event::Enters { port, cause, frame } => {
                let how = match cause {
                    Cause::Arrived => "in at port",
                    Cause::Resubmitted => "resubmitted, from port",
                    Cause::Recirculated => "recirculated, from port",
                    Cause::Deflected => "deflected, from port",
                };
                write!(f, "{how} {port}: {}", Frame(frame))
            }
            Event::Pipeline(event) => event.fmt(f),
            Event::Cloned { session, replicas } => {
                write!(f, "clone session {session}: {}", Replicas(replicas))
            }
            Event::Multicast { group, replicas } => {
                write!(f, "multicast group {group}: {}", Replicas(replicas))
            }
            Event::Digest { values } => {
                f.write_str("digest")?;
                values
                    .iter()
                    .try_for_each(|value| write!(f, " {}", Hex(value)))
            }
            Event::Enqueued {
                port,
                queue,
                bytes,
                depth,
            } => write!(
                f,
                "into queue {queue} of port {port}: {bytes} bytes, behind {}",
                Waiting(*depth)
            ),
            Event::Deflected { port, queue, depth } => write!(
                f,
                "deflected by queue {queue} of port {port}, in which are {}",
                Waiting(*depth)
            ),
            Event::QueuePaused {
                port,
                queue,
                paused,
            } => {
                let does = if *paused { "stops" } else { "resumes" };
                write!(f, "{does} queue {queue} of port {port}")
            }
            Event::Refused {
                port,
                queue,
                reason,
                depth,
            } => write!(
                f,
                "dropped by queue {queue} of port {port}, in which are {}: {reason}",
                Waiting(*depth)
            ),
            Event::Dequeued {
                port,
                queue,
                instance,
                waited,
                depth,
            } => {
                let us = waited.as_picos() as f64 / 1e6;
                let waiting = Waiting(*depth);
                write!(
                    f,
                    "out of queue {queue} of port {port} after {us:.3} us, {waiting} stay"
                )?;
                match instance {
                    0 => Ok(()),
                    instance => write!(f, ", instance {instance}"),
                }
            }
            Event::Resubmitted => f.write_str("resubmit"),
            Event::Recirculated => f.write_str("recirculate"),
            Event::Dropped { reason } => write!(f, "dropped: {reason}"),
            Event::Sent { port, frame, .. } => write!(f, "out at port {port}: {}", Frame(frame)),
            Event::PauseSent { port, frame } => {
                write!(f, "port {port} tells its neighbour: {}", Pauses(frame))
            }
            Event::PauseReceived { port, frame } => {
                write!(f, "port {port} is told: {}", Pauses(frame))
            }
            Event::PauseExpired { port, classes } => {
                write!(f, "the pause of port {port} expires: {}", Classes(*classes))
            }
            Event::PauseStorm {
                port,
                class,
                lasted,
                ignored,
            } => {
                let ms = lasted.as_picos() as f64 / 1e9;
                let then = if *ignored {
                    "; pauses of the port are ignored"
                } else {
                    ""
                };
                write!(
                    f,
                    "pause storm: class {class} of port {port} paused for {ms:.3} ms{then}"
                )
            }
            Event::PausesObeyedAgain { port } => {
                write!(f, "pauses of port {port} are obeyed again")
            }
        }
    }
}

/// Bytes in hexadecimal.
struct Hex<'a>(&'a [u8]);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A frame: its length and its first bytes.
struct Frame<'a>(&'a [u8]);

impl Display for Frame<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(SHOWN_BYTES)];
        let more = if shown.len() < self.0.len() { ".." } else { "" };
        write!(f, "{} bytes {}{more}", self.0.len(), Hex(shown))
    }
}

/// A PFC frame as text.
struct Pauses<'a>(&'a PfcFrame);

impl Display for Pauses<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let named = self.0.quanta.iter().enumerate();
        let mut named = named.filter_map(|(class, quanta)| Some((class, (*quanta)?)));
        let mut separator = "";
        named.try_for_each(|(class, quanta)| {
            let separator = std::mem::replace(&mut separator, ", ");
            match quanta {
                0 => write!(f, "{separator}class {class} goes on"),
                _ => write!(f, "{separator}class {class} stops for {quanta} quanta"),
            }
        })
    }
}

/// A set of classes.
struct Classes(u8);

impl Display for Classes {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let mut classes = (0..8).filter(|class| self.0 >> class & 1 == 1);
        let mut separator = "class ";
        classes.try_for_each(|class: u8| {
            write!(f, "{}{class}", std::mem::replace(&mut separator, ", "))
        })
    }
}

/// The depth of a queue as text.
struct Waiting(Depth);

impl Display for Waiting {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "{} packets ({} bytes)", self.0.packets, self.0.bytes)
    }
}

/// The copies of a packet.
struct Replicas<'a>(&'a [Replica]);

impl Display for Replicas<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no copies");
        }
        for (i, Replica { port, instance }) in self.0.iter().enumerate() {
            let separator = if i > 0 { ", " } else { "" };
            write!(f, "{separator}port {port} (instance {instance})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ebb_pipeline::trace::TraceEvent;
    use ebb_units::Instant;

    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_of_a_program() {
        let visit = Visit {
            switch: "s1".into(),
            at: Instant::ZERO,
            packet_id: 1,
            events: vec![Event::Pipeline(TraceEvent::Log(
                "\u{1b}]0;title\u{7} \r gone \u{202e}".into(),
            ))],
        };
        let shown = visit.to_string();
        let line = shown.lines().nth(1).expect("the event");
        assert_eq!(line, "    log: \\u{1b}]0;title\\u{7} \\r gone \\u{202e}");
    }
}
