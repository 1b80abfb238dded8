//! Runs what was built until a signal, and reports.

use std::io::Write;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, anyhow};
use ebb_driver::{Driver, DriverError, Interface};
use ebb_engine::{Network, NodeId, Switch, SwitchReport, drop_table};
use ebb_p4runtime::Device;
use ebb_serve::EngineDevice;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tracing::info;

use crate::build::Built;
use crate::options::ReportFormat;
use crate::watch::{watch_idle_entries, watch_ports};

/// Threads of the gRPC servers. One is enough for all switches of a fabric; with more, every message would wake two.
const SERVER_THREADS: usize = 1;

/// Runs until a signal comes. Packets have threads of their own, and so have the gRPC servers: this thread obeys
/// signals, whatever a client makes the servers do.
pub fn run(built: Built, report: ReportFormat) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(SERVER_THREADS)
        .thread_name("grpc")
        .enable_all()
        .build()
        .context("cannot start the gRPC runtime")?;
    let network = runtime.block_on(serve(built))?;
    // Open streams and their tasks do not keep the process.
    runtime.shutdown_background();
    print_report(&network, report)
}

async fn serve(built: Built) -> Result<Network<Interface>> {
    let Built {
        driver,
        server,
        interfaces,
        ports,
    } = built;
    let handle = driver.handle();
    let device = |((switch, s), ports): ((NodeId, &Switch), Vec<(u16, String)>)| {
        let id = s.device_id();
        let handle = handle.clone();
        tokio::spawn(watch_idle_entries(handle.clone(), switch));
        Arc::new(EngineDevice {
            id,
            switch,
            handle,
            ports,
        }) as Arc<dyn Device>
    };
    tokio::spawn(watch_ports(driver.handle(), interfaces));
    let devices = driver.network().switches().zip(ports).map(device).collect();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (done, mut ended) = oneshot::channel();
    let packets = thread::Builder::new()
        .name("packets".into())
        .spawn(move || drive(driver, done))
        .context("cannot start the packet thread")?;
    let mut early = None;
    let shutdown = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            result = &mut ended => early = Some(result),
        }
        info!("stopping");
    };
    let served = server.serve(devices, shutdown).await;
    handle.stop();
    let result = match early {
        Some(early) => early,
        None => ended.await,
    };
    packets
        .join()
        .map_err(|_| anyhow!("the packet thread failed; this is a bug, please report it"))?;
    served?;
    Ok(result.map_err(|_| anyhow!("the packet thread ended without a result"))??)
}

fn drive(driver: Driver, done: oneshot::Sender<Result<Network<Interface>, DriverError>>) {
    // The receiver waits for exactly this.
    let _ = done.send(driver.run());
}

fn print_report(network: &Network<Interface>, format: ReportFormat) -> Result<()> {
    let reports: Vec<_> = network
        .switches()
        .map(|(_, s)| SwitchReport::of(s))
        .collect();
    let text = match format {
        ReportFormat::Table => drop_table(&reports),
        ReportFormat::Json => serde_json::to_string(&reports)? + "\n",
        ReportFormat::None => String::new(),
    };
    // Nobody may be listening any more.
    let _ = std::io::stderr().write_all(text.as_bytes());
    Ok(())
}
