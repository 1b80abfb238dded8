//! The command line of measurements.

use std::process::ExitCode;

/// How a program can be executed.
pub const EXECUTORS: [&str; 2] = ["native", "interpreted"];

/// The `main` of an example with the arguments `[PACKETS [native | interpreted]]`: how many packets, `packets` if
/// nobody says, and through which executor (none: nobody says).
pub fn main(
    name: &str,
    packets: usize,
    run: fn(usize, Option<&str>) -> Result<(), String>,
) -> ExitCode {
    // `cargo test` builds examples too, and leaves them in the same folder.
    if cfg!(debug_assertions) {
        eprintln!("{name}: built by cargo test, without optimisation; start it with cargo run");
        return ExitCode::FAILURE;
    }
    let usage = format!("usage: {name} [PACKETS [native | interpreted]]");
    let args: Vec<String> = std::env::args().skip(1).collect();
    let only = match args.get(1).map(String::as_str) {
        Some(other) if !EXECUTORS.contains(&other) => Err(format!("{usage}: what is '{other}'?")),
        only => Ok(only),
    };
    let packets = match args.first() {
        None => Ok(packets),
        Some(n) => n.parse().map_err(|e| format!("{usage}: {n}: {e}")),
    };
    match packets.and_then(|packets| run(packets, only?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
