//! The conversation with the runner, and the P4Runtime servers beside it.

use std::io::{self, BufRead, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant as WallClock};

use anyhow::{Context, Result, anyhow};
use ebb_engine::simulation::NodeId;
use ebb_engine::{ControlHandle, ControlReceiver, SwitchReport, control_channel};
use ebb_p4runtime::{Device, Server};
use ebb_switch::service::EngineDevice;
use ebb_units::Instant;
use tokio::sync::oneshot;

use crate::lines::{Group, Line, Order, say};
use crate::network::{Built, Network};
use crate::run::Run;

/// How often progress is told, in real time.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

pub fn run(network: &Path, threads: usize) -> Result<()> {
    let mut built = Network::read(network)?.build()?;
    let threads = match threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    built.simulation.spread(threads);
    let (handle, commands) = control_channel().context("cannot make a control channel")?;
    let addresses: Vec<_> = built
        .switches
        .iter()
        .map(|(.., address)| *address)
        .collect();
    let server = Server::bind(&addresses)?;
    let devices = built.switches.iter().map(|(node, id, _)| {
        let device = EngineDevice {
            id: *id,
            switch: *node,
            handle: handle.clone(),
        };
        Arc::new(device) as Arc<dyn Device>
    });
    let stop = serve(server, devices.collect())?;
    let orders = read_orders(handle);
    tell(&ready(&built, threads))?;
    let switches = built.switches.iter().map(|(node, ..)| *node).collect();
    let mut session = Session {
        switches,
        run: Run::new(built)?,
        commands,
        seconds: 0.0,
    };
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

fn ready(built: &Built, threads: usize) -> Line<'_> {
    let survey = &built.survey;
    let groups = survey.groups.iter().map(|(address, receivers)| {
        let names = receivers.iter().map(|host| &*built.planned[host.index()].1);
        Group {
            address: *address,
            receivers: names.collect(),
        }
    });
    Line::Ready {
        threads,
        transfers: survey.transfers,
        groups: groups.collect(),
    }
}

struct Session {
    run: Run,
    /// As the controller numbers them.
    switches: Vec<NodeId>,
    commands: ControlReceiver,
    /// Real time for which the clock has run.
    seconds: f64,
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
        while let Some(command) = self.commands.wait() {
            if !self.run.simulation.obey(command) {
                return;
            }
        }
    }

    fn run(&mut self, until_ns: u64, flows: bool) -> Result<()> {
        let until = Instant::from_nanos(until_ns);
        let started = WallClock::now();
        let mut told = started;
        while self.run.simulation.now() < until {
            let mut broken = None;
            self.run.advance(until, |at, done| {
                if told.elapsed() < PROGRESS_EVERY {
                    return false;
                }
                told = WallClock::now();
                let at_ns = at.as_nanos();
                // Nobody listens any more.
                broken = tell(&Line::Progress { at_ns, done }).err();
                broken.is_some()
            });
            if let Some(error) = broken {
                return Err(error);
            }
            self.tell_flows()?;
            if flows && self.run.is_over() {
                break;
            }
        }
        self.seconds += started.elapsed().as_secs_f64();
        tell(&Line::Paused {
            at_ns: self.run.simulation.now().as_nanos(),
            done: self.run.done(),
            seconds: self.seconds,
        })
    }

    fn tell_flows(&mut self) -> Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        self.run
            .tell(|host, told| say(&mut out, &Line::told(host, &told)))?;
        out.flush().context("cannot write to stdout")
    }

    fn report(&mut self) -> Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        for node in &self.switches {
            if let Some(switch) = self.run.simulation.switch(*node) {
                say(&mut out, &Line::Switch(SwitchReport::of(switch)))?;
            }
        }
        for (host, open, status) in self.run.rest() {
            say(&mut out, &Line::transfer(host, open, status, None))?;
        }
        let trace_hash = format!("{:016x}", self.run.simulation.trace_hash());
        say(&mut out, &Line::End { trace_hash })?;
        out.flush().context("cannot write to stdout")
    }
}

fn tell(line: &Line<'_>) -> Result<()> {
    let mut out = io::stdout().lock();
    say(&mut out, line)?;
    out.flush().context("cannot write to stdout")
}
