//! The log of a program on standard error.

use std::io::IsTerminal;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts the log: warnings, or what `RUST_LOG` asks for (`debug`, `warn,ebb=trace`).
pub fn start() {
    let wanted = std::env::var("RUST_LOG").ok();
    let wanted = wanted.and_then(|text| text.parse().ok());
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .finish()
        .with(wanted.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN)))
        .init();
}
