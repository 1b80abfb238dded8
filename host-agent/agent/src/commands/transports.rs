//! `ebb-agent transports`.

use std::io::Write;

use ebb_transport::TransportKind;

/// Prints the list of transports, for programs that offer a choice of them.
pub fn run() -> anyhow::Result<bool> {
    let text = serde_json::to_string_pretty(&TransportKind::ALL.map(TransportKind::entry))?;
    writeln!(std::io::stdout(), "{text}")?;
    Ok(true)
}
