//! `ebb-agent`: sends and receives objects over NDP, SCDP, Trevi and the TCP family, on a raw socket.
//! Command line and files: `docs/architecture.md`; what it prints: `docs/agent-records.md`;
//! what applications can ask of it: `docs/agent-api.md`.

#![forbid(unsafe_code)]

mod api;
mod commands;
mod daemon;
mod engine;
mod machine;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    ebb_log::start();
    warn_of_old_spellings();
    let result = commands::Cli::parse().command.run();
    commands::record::finish();
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let text = format!("{error:#}");
            // Some have several lines of their own; those of peers are escaped where they come in.
            let lines: Vec<_> = text.lines().map(ebb_printable::printable).collect();
            // A closed stderr must not turn an error into a panic.
            let _ = writeln!(std::io::stderr(), "ebb-agent: {}", lines.join("\n"));
            ExitCode::from(2)
        }
    }
}

/// `--scheme` and `--scheme-of` are taken until the next release.
fn warn_of_old_spellings() {
    if std::env::args_os().any(|argument| argument.as_encoded_bytes().starts_with(b"--scheme")) {
        tracing::warn!("--scheme and --scheme-of are now --transport and --transport-of");
    }
}
