//! The switch: a drop-in for `simple_switch_grpc` with a real traffic manager.

mod announce;
mod bmv2_options;
mod build;
mod config_file;
mod options;
mod run;
mod settings;
mod trace;
mod watch;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::Context;
use ebb_bmv2_json::FORMAT_VERSION;
use ebb_printable::printable_lines;
use ebb_serve::capture::create_anew;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::options::{LogLevel, Options};
use crate::settings::Settings;

fn main() -> ExitCode {
    let options = Options::parse_arguments(std::env::args_os());
    if options.json_version {
        let (major, minor) = FORMAT_VERSION;
        println!("{major}.{minor}");
        return ExitCode::SUCCESS;
    }
    match start_log(&options).and_then(|()| run_switch(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let problem = format!("{error:#}");
            // Nobody may be listening.
            let _ = writeln!(
                std::io::stderr(),
                "ebb-switch: {}",
                printable_lines(&problem)
            );
            ExitCode::FAILURE
        }
    }
}

fn run_switch(options: &Options) -> anyhow::Result<()> {
    for note in options.bmv2.notes() {
        tracing::info!("{note}");
    }
    if let (true, Some(program)) = (options.no_p4, &options.program) {
        tracing::info!("{} is ignored: --no-p4", program.display());
    }
    if options.program.is_none() && options.fabric.is_none() && !options.no_p4 {
        anyhow::bail!(
            "no P4 program: name a BMv2 JSON file, or say --no-p4 and install one over P4Runtime"
        );
    }
    let settings = Settings::from_options(options)?;
    let built = build::build(
        &settings,
        options.driver(),
        options.io,
        options.pcap.as_deref(),
    )?;
    announce::log(&settings);
    run::run(built, options.report)
}

/// The details of our own crates only: libraries log every frame of HTTP/2, and the code generator at level info all
/// the code that it makes.
fn log_filter(level: LogLevel) -> Targets {
    let filter = Targets::new().with_target("cranelift_jit", LevelFilter::OFF);
    match level {
        LogLevel::Trace | LogLevel::Debug => filter
            .with_default(LevelFilter::INFO)
            .with_target("ebb", level.filter()),
        _ => filter.with_default(level.filter()),
    }
}

/// The log goes to stderr, or to a file with the suffix that BMv2 gives it.
fn start_log(options: &Options) -> anyhow::Result<()> {
    let log = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_target(false);
    let filter = log_filter(options.log_level);
    match &options.log_file {
        None => {
            let ansi = std::io::stderr().is_terminal();
            let log = log.with_writer(std::io::stderr).with_ansi(ansi);
            log.finish().with(filter).init();
        }
        Some(path) => {
            let mut path = path.clone().into_os_string();
            path.push(".txt");
            let file = create_anew(Path::new(&path))
                .with_context(|| format!("--log-file: cannot write {}", path.display()))?;
            let log = log.with_writer(Mutex::new(file)).with_ansi(false);
            log.finish().with(filter).init();
        }
    }
    Ok(())
}
