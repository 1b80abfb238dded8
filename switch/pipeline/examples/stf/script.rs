//! Reads STF, the packet test language of p4c.

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Packet {
        port: u16,
        bytes: Vec<u8>,
    },
    Expect {
        port: u16,
        /// `None`: any packets.
        packet: Option<Pattern>,
    },
    Add {
        table: String,
        priority: i32,
        keys: Vec<(String, String)>,
        action: String,
        args: Vec<(String, String)>,
    },
    SetDefault {
        table: String,
        action: String,
        args: Vec<(String, String)>,
    },
    /// Commands of simple_switch_CLI.
    Cli(Vec<String>),
    Wait,
}

/// Nibbles, `None` for `*`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    nibbles: Vec<Option<u8>>,
    /// The packet ends where the pattern ends.
    exact: bool,
}

impl Pattern {
    fn parse(text: &str) -> Result<Pattern, String> {
        let (text, exact) = match text.strip_suffix('$') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let nibbles = text
            .chars()
            .filter(|c| !c.is_whitespace())
            .map(|c| match c {
                '*' => Ok(None),
                c => match c.to_digit(16) {
                    Some(d) => Ok(Some(d as u8)),
                    None => Err(format!("`{c}` is not a hexadecimal digit")),
                },
            })
            .collect::<Result<_, _>>()?;
        Ok(Pattern { nibbles, exact })
    }

    pub fn matches(&self, packet: &[u8]) -> bool {
        let have: Vec<u8> = packet.iter().flat_map(|b| [b >> 4, b & 15]).collect();
        let length_ok = if self.exact {
            have.len() == self.nibbles.len()
        } else {
            have.len() >= self.nibbles.len()
        };
        length_ok
            && self
                .nibbles
                .iter()
                .zip(&have)
                .all(|(want, have)| want.is_none_or(|w| w == *have))
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for n in &self.nibbles {
            match n {
                Some(n) => write!(f, "{n:x}")?,
                None => write!(f, "*")?,
            }
        }
        f.write_str(if self.exact { "$" } else { "" })
    }
}

/// Numbers in hexadecimal, binary, octal or decimal.
pub fn number(text: &str) -> Result<u128, String> {
    let (digits, radix) = match text.get(..2) {
        Some("0x" | "0X") => (&text[2..], 16),
        Some("0b" | "0B") => (&text[2..], 2),
        Some("0o") => (&text[2..], 8),
        _ => (text, 10),
    };
    u128::from_str_radix(digits, radix).map_err(|e| format!("`{text}` is not a number: {e}"))
}

pub fn parse(text: &str) -> Result<Vec<Command>, String> {
    text.lines()
        .enumerate()
        .map(|(n, line)| (n, line.split('#').next().unwrap_or("").trim()))
        .filter(|(_, line)| !line.is_empty())
        .map(|(n, line)| command(line).map_err(|e| format!("line {}: {e}: {line}", n + 1)))
        .collect()
}

fn command(line: &str) -> Result<Command, String> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let port_and_data = || -> Result<(u16, &str), String> {
        let (port, data) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let port = number(port)?
            .try_into()
            .map_err(|_| format!("no such port: {port}"))?;
        Ok((port, data.trim()))
    };
    Ok(match word {
        "packet" => {
            let (port, data) = port_and_data()?;
            let pattern = Pattern::parse(data)?;
            let nibbles: Vec<u8> = pattern
                .nibbles
                .iter()
                .map(|n| n.ok_or("a packet to send has no `*`"))
                .collect::<Result<_, _>>()?;
            Command::Packet {
                port,
                bytes: nibbles
                    .chunks(2)
                    .map(|p| p[0] << 4 | p.get(1).unwrap_or(&0))
                    .collect(),
            }
        }
        "expect" => {
            let (port, data) = port_and_data()?;
            Command::Expect {
                port,
                packet: match data {
                    "" => None,
                    data => Some(Pattern::parse(data)?),
                },
            }
        }
        "add" => {
            let (table, rest) = rest.split_once(char::is_whitespace).ok_or("no key")?;
            let rest = rest.split('=').next().unwrap_or(rest).trim();
            let open = rest.find('(').ok_or("no action")?;
            let start = rest[..open]
                .trim_end()
                .rfind(char::is_whitespace)
                .map_or(0, |i| i + 1);
            let mut priority = 0;
            let mut keys = Vec::new();
            for word in rest[..start].split_whitespace() {
                match word.split_once(':') {
                    Some((k, v)) => keys.push((k.to_owned(), v.to_owned())),
                    None => priority = number(word)? as i32,
                }
            }
            let (action, args) = call(&rest[start..])?;
            Command::Add {
                table: table.to_owned(),
                priority,
                keys,
                action,
                args,
            }
        }
        "setdefault" => {
            let (table, rest) = rest.split_once(char::is_whitespace).ok_or("no action")?;
            let (action, args) = call(rest.trim())?;
            Command::SetDefault {
                table: table.to_owned(),
                action,
                args,
            }
        }
        "wait" => Command::Wait,
        _ => Command::Cli(line.split_whitespace().map(str::to_owned).collect()),
    })
}

type Call = (String, Vec<(String, String)>);

fn call(text: &str) -> Result<Call, String> {
    let (name, args) = text.split_once('(').ok_or("no arguments")?;
    let args = args.trim_end().strip_suffix(')').ok_or("no `)`")?;
    let args = args
        .split(',')
        .map(str::trim)
        .filter(|a| !a.is_empty())
        .map(|a| match a.split_once(':') {
            Some((k, v)) => Ok((k.trim().to_owned(), v.trim().to_owned())),
            None => Err(format!("argument {a} has no name")),
        })
        .collect::<Result<_, _>>()?;
    Ok((name.trim().to_owned(), args))
}
