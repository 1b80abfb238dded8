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
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

fn main() -> ExitCode {
    start_log();
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

/// The log goes to stderr: warnings, or what `RUST_LOG` asks for (`debug`, `warn,ebb=trace`).
fn start_log() {
    let wanted = std::env::var("RUST_LOG").ok();
    let wanted = wanted.and_then(|text| text.parse().ok());
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(std::io::stderr)
        .finish()
        .with(wanted.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN)))
        .init();
}
