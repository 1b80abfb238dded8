//! `ebb-agent`: sends and receives objects over NDP, SCDP and the TCP family, on a raw socket.
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
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn")),
        )
        .with_writer(std::io::stderr)
        .init();
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
