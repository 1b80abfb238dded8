//! The switch: a drop-in for `simple_switch_grpc` with a real traffic manager.

use std::io::IsTerminal;
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
            eprintln!("ebb-switch: {error:#}");
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

fn start_log(level: LogLevel) {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(level.as_str()))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}
