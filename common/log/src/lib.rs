//! The log of a program on standard error.

use std::io::IsTerminal;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts the log. `RUST_LOG` is its filter (`debug`, `warn,ebb=trace`); without it, or if it does not parse, only
/// warnings and errors are logged.
pub fn start() {
    let filter = std::env::var("RUST_LOG").ok();
    let filter = filter.and_then(|text| text.parse().ok());
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .finish()
        .with(filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN)))
        .init();
}
