//! The switch: a drop-in for `simple_switch_grpc` with a real traffic manager.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use ebb_switch::options::{LogLevel, Options};
use ebb_switch::settings::Settings;
use ebb_switch::{build, run};

fn main() -> ExitCode {
    let options = Options::parse_arguments(std::env::args_os());
    start_log(options.log_level);
    if options.thrift_port.is_some() {
        tracing::info!("--thrift-port is ignored: there is no Thrift server, use P4Runtime");
    }
    match run_switch(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may be listening.
            let _ = writeln!(std::io::stderr(), "ebb-switch: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_switch(options: &Options) -> anyhow::Result<()> {
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
    run::run(built, options.report)
}

/// The code generator logs at level info all the code it makes.
fn log_filter(level: LogLevel) -> tracing_subscriber::EnvFilter {
    let directives = match level {
        LogLevel::Trace | LogLevel::Debug => level.as_str().to_owned(),
        _ => format!("{},cranelift_jit=off", level.as_str()),
    };
    tracing_subscriber::EnvFilter::new(directives)
}

fn start_log(level: LogLevel) {
    tracing_subscriber::fmt()
        .with_env_filter(log_filter(level))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}
