//! The conversation with the runner, and the P4Runtime servers beside it.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant as WallClock};

use anyhow::{Context, Result, anyhow};
use ebb_engine::simulation::{Host, NodeId, Simulation, Work};
use ebb_engine::{
    Command, ControlHandle, ControlReceiver, SwitchId, SwitchReport, control_channel,
};
use ebb_p4runtime::{Device, Server};
use ebb_switch::service::EngineDevice;
use ebb_transport::FlowRecord;
use ebb_units::Instant;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::host::SimHost;
use crate::network::{Built, Network};

/// How often progress is told, in real time.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// A line on stdin.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Order {
    /// Let the clock run until then, or until all flows have ended if `flows` says so.
    Run {
        until_ns: u64,
        #[serde(default)]
        flows: bool,
    },
    /// Tell all that there is to tell so far.
    Report,
}

/// A line on stdout.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    /// The switches can be configured.
    Ready {
        threads: usize,
    },
    Progress {
        at_ns: u64,
        packet_hops: u64,
        events: u64,
    },
    /// The clock stands still again.
    Paused {
        at_ns: u64,
        packet_hops: u64,
        events: u64,
        unfinished: usize,
        /// Real time that the clock has run in all.
        seconds: f64,
    },
    Flow {
        id: Option<u64>,
        host: &'a str,
        /// Hosts send objects without an envelope here.
        object_bytes: u64,
        #[serde(flatten)]
        record: &'a FlowRecord,
    },
    Switch(SwitchReport),
    End {
        trace_hash: String,
    },
}

pub fn run(network: &Path, threads: usize) -> Result<()> {
    let Built {
        mut simulation,
        switches,
        hosts,
    } = Network::read(network)?.build()?;
    let threads = match threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    simulation.spread(threads);
    let (handle, commands) = control_channel().context("cannot make a control channel")?;
    let addresses: Vec<_> = switches.iter().map(|(.., address)| *address).collect();
    let server = Server::bind(&addresses)?;
    let devices = switches.iter().enumerate().map(|(index, (_, id, _))| {
        let device = EngineDevice {
            id: *id,
            switch: SwitchId(index),
            handle: handle.clone(),
        };
        Arc::new(device) as Arc<dyn Device>
    });
    let stop = serve(server, devices.collect())?;
    let orders = read_orders(handle);
    let mut session = Session {
        simulation,
        switches: switches.into_iter().map(|(node, ..)| node).collect(),
        hosts,
        commands,
        seconds: 0.0,
        told: BTreeMap::new(),
    };
    say(&Line::Ready { threads })?;
    let result = session.obey(&orders);
    // The server may have ended already.
    let _ = stop.send(());
    result
}

/// The gRPC servers, in a thread of their own until the sender says or is gone.
fn serve(server: Server, devices: Vec<Arc<dyn Device>>) -> Result<oneshot::Sender<()>> {
    let (stop, stopped) = oneshot::channel::<()>();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the gRPC runtime")?;
    thread::Builder::new()
        .name("grpc".into())
        .spawn(move || {
            let shutdown = async {
                let _ = stopped.await;
            };
            if let Err(error) = runtime.block_on(server.serve(devices, shutdown)) {
                tracing::error!("the P4Runtime server has ended: {error}");
            }
        })
        .context("cannot start the gRPC thread")?;
    Ok(stop)
}

/// Reads stdin in a thread. Every order, and the end, also wakes whoever serves the switches.
fn read_orders(handle: ControlHandle) -> mpsc::Receiver<Result<Order>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let order = line.context("cannot read stdin").and_then(|line| {
                serde_json::from_str(&line).map_err(|error| anyhow!("order `{line}`: {error}"))
            });
            if sender.send(order).is_err() {
                return;
            }
            handle.stop();
        }
        drop(sender);
        handle.stop();
    });
    receiver
}

struct Session {
    simulation: Simulation<SimHost>,
    /// As the controller numbers them.
    switches: Vec<NodeId>,
    hosts: Vec<NodeId>,
    commands: ControlReceiver,
    seconds: f64,
    /// Ended flows that have been told, by host.
    told: BTreeMap<NodeId, usize>,
}

impl Session {
    fn obey(&mut self, orders: &mpsc::Receiver<Result<Order>>) -> Result<()> {
        loop {
            self.serve_switches();
            match orders.try_recv() {
                Ok(order) => match order? {
                    Order::Run { until_ns, flows } => self.run(until_ns, flows)?,
                    Order::Report => self.report()?,
                },
                Err(mpsc::TryRecvError::Disconnected) => return Ok(()),
                Err(mpsc::TryRecvError::Empty) => {}
            }
        }
    }

    /// Does what the P4Runtime servers ask for until there is an order.
    fn serve_switches(&mut self) {
        while let Some(Command::With(switch, work)) = self.commands.wait() {
            if let Some(node) = self.switches.get(switch.0) {
                self.simulation.with_switch(*node, work);
            }
        }
    }

    fn run(&mut self, until_ns: u64, flows: bool) -> Result<()> {
        let until = Instant::from_nanos(until_ns);
        let started = WallClock::now();
        let mut told = started;
        let mut broken = None;
        // In slices, so that a run that only waits for its flows can end with the last of them.
        let slice = if flows { SLICES } else { 1 };
        let begin = self.simulation.now();
        for n in 1..=slice {
            let end = begin + until.since(begin).mul_div(n, slice);
            self.simulation.run_until(end, |at, work| {
                if told.elapsed() < PROGRESS_EVERY {
                    return false;
                }
                told = WallClock::now();
                // Nobody listens any more.
                broken = say(&progress(at, work)).err();
                broken.is_some()
            });
            if let Some(error) = broken {
                return Err(error);
            }
            if flows && self.unfinished() == 0 {
                break;
            }
        }
        self.seconds += started.elapsed().as_secs_f64();
        let work = self.simulation.work();
        self.tell_flows()?;
        say(&Line::Paused {
            at_ns: self.simulation.now().as_nanos(),
            packet_hops: work.packet_hops,
            events: work.events,
            unfinished: self.unfinished(),
            seconds: self.seconds,
        })
    }

    fn unfinished(&self) -> usize {
        let hosts = self.simulation.hosts();
        hosts.map(|(_, host)| host.unfinished()).sum()
    }

    fn tell_flows(&mut self) -> Result<()> {
        for id in &self.hosts {
            let Some(host) = self.simulation.host(*id) else {
                continue;
            };
            let told = self.told.entry(*id).or_default();
            for ended in &host.ended()[*told..] {
                say(&Line::Flow {
                    id: ended.id,
                    host: host.name(),
                    object_bytes: ended.record.stream_bytes,
                    record: &ended.record,
                })?;
            }
            *told = host.ended().len();
        }
        Ok(())
    }

    fn report(&mut self) -> Result<()> {
        for node in &self.switches {
            if let Some(switch) = self.simulation.switch(*node) {
                say(&Line::Switch(SwitchReport::of(switch)))?;
            }
        }
        let trace_hash = format!("{:016x}", self.simulation.trace_hash());
        say(&Line::End { trace_hash })
    }
}

/// Parts of a run after each of which it is asked whether all flows have ended.
const SLICES: u64 = 200;

fn progress(at: Instant, work: Work) -> Line<'static> {
    Line::Progress {
        at_ns: at.as_nanos(),
        packet_hops: work.packet_hops,
        events: work.events,
    }
}

fn say(line: &Line<'_>) -> Result<()> {
    let text = serde_json::to_string(line)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush().context("cannot write to stdout")
}
