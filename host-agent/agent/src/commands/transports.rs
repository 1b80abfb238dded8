//! `ebb-agent transports`.

use std::io::Write;

use ebb_transport::Scheme;

/// Prints the list of transports, for programs that offer a choice of them.
pub fn run() -> anyhow::Result<bool> {
    let text = serde_json::to_string_pretty(&Scheme::ALL.map(Scheme::entry))?;
    writeln!(std::io::stdout(), "{text}")?;
    Ok(true)
}
