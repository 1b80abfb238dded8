//! The conversation with the runner, and the P4Runtime servers beside it.

use std::io::{self, BufRead, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant as WallClock};

use anyhow::{Context, Result, anyhow};
use ebb_engine::simulation::{Host, NodeId, Simulation};
use ebb_engine::{ControlHandle, ControlReceiver, SwitchReport, control_channel};
use ebb_p4runtime::{Device, Server};
use ebb_switch::service::EngineDevice;
use ebb_units::{Duration as Span, Instant};
use tokio::sync::oneshot;

use crate::feed::Feed;
use crate::host::SimHost;
use crate::lines::{Done, Group, Line, Order, say};
use crate::network::{Built, Network};

/// A run that is to end with its flows looks whether they have ended after so many events, more or
/// less; the clock does not stop before that. Events and not time, so that a run always stops at the
/// same point.
const EVENTS_PER_SLICE: u64 = 100_000;
const FIRST_SLICE: Span = Span::from_micros(10);
/// How often progress is told, in real time.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

pub fn run(network: &Path, threads: usize) -> Result<()> {
    let Built {
        mut simulation,
        switches,
        hosts,
        plan,
        planned,
        survey,
        ended,
    } = Network::read(network)?.build()?;
    let threads = match threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    simulation.spread(threads);
    let (handle, commands) = control_channel().context("cannot make a control channel")?;
    let addresses: Vec<_> = switches.iter().map(|(.., address)| *address).collect();
    let server = Server::bind(&addresses)?;
    let devices = switches.iter().map(|(node, id, _)| {
        let device = EngineDevice {
            id: *id,
            switch: *node,
            handle: handle.clone(),
        };
        Arc::new(device) as Arc<dyn Device>
    });
    let stop = serve(server, devices.collect())?;
    let orders = read_orders(handle);
    let groups = survey.groups.iter().map(|(address, receivers)| Group {
        address: *address,
        receivers: receivers
            .iter()
            .map(|host| &*planned[host.index()].1)
            .collect(),
    });
    let ready = Line::Ready {
        threads,
        transfers: survey.transfers,
        groups: groups.collect(),
    };
    tell(&ready)?;
    let mut session = Session {
        simulation,
        feed: Feed::new(
            plan.transfers()?,
            planned.iter().map(|(node, _)| *node).collect(),
        ),
        switches: switches.into_iter().map(|(node, ..)| node).collect(),
        hosts,
        commands,
        seconds: 0.0,
        transfers: survey.transfers,
        ended,
        slice: FIRST_SLICE,
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

struct Session {
    simulation: Simulation<SimHost>,
    feed: Feed,
    /// As the controller numbers them.
    switches: Vec<NodeId>,
    hosts: Vec<NodeId>,
    commands: ControlReceiver,
    seconds: f64,
    transfers: u64,
    ended: Arc<AtomicU64>,
    slice: Span,
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
            if !self.simulation.obey(command) {
                return;
            }
        }
    }

    fn run(&mut self, until_ns: u64, flows: bool) -> Result<()> {
        let until = Instant::from_nanos(until_ns);
        let started = WallClock::now();
        let mut told = started;
        while self.simulation.now() < until {
            let end = (self.simulation.now() + self.slice).min(until);
            self.feed.advance(&mut self.simulation, end);
            self.run_slice(end, &mut told)?;
            self.tell_flows()?;
            if flows && self.feed.is_empty() && self.unfinished() == 0 {
                break;
            }
        }
        self.seconds += started.elapsed().as_secs_f64();
        tell(&Line::Paused {
            at_ns: self.simulation.now().as_nanos(),
            done: self.done(),
            seconds: self.seconds,
        })
    }

    fn run_slice(&mut self, end: Instant, told: &mut WallClock) -> Result<()> {
        let before = self.simulation.work().events;
        let begin = self.simulation.now();
        let mut broken = None;
        let (ended, transfers) = (&self.ended, self.transfers);
        self.simulation.run_until(end, |at, work| {
            if told.elapsed() < PROGRESS_EVERY {
                return false;
            }
            *told = WallClock::now();
            let done = Done::new(work, ended.load(Ordering::Relaxed), transfers);
            let at_ns = at.as_nanos();
            // Nobody listens any more.
            broken = tell(&Line::Progress { at_ns, done }).err();
            broken.is_some()
        });
        let events = self.simulation.work().events - before;
        if events < EVENTS_PER_SLICE / 2 && end.since(begin) == self.slice {
            self.slice = self.slice * 2;
        } else if events > EVENTS_PER_SLICE * 2 {
            self.slice = self.slice.mul_div(1, 2).max(FIRST_SLICE);
        }
        broken.map_or(Ok(()), Err)
    }

    fn done(&self) -> Done {
        let ended = self.ended.load(Ordering::Relaxed);
        Done::new(self.simulation.work(), ended, self.transfers)
    }

    fn unfinished(&self) -> usize {
        let hosts = self.simulation.hosts();
        hosts.map(|(_, host)| host.unfinished()).sum()
    }

    /// Tells what has ended since the last time.
    fn tell_flows(&mut self) -> Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        for id in &self.hosts {
            let told = self.simulation.with_host(*id, SimHost::take_told);
            let told = told.unwrap_or_default();
            let Some(host) = self.simulation.host(*id) else {
                continue;
            };
            for told in &told {
                say(&mut out, &Line::told(host.name(), told))?;
            }
        }
        out.flush().context("cannot write to stdout")
    }

    fn report(&mut self) -> Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        for node in &self.switches {
            if let Some(switch) = self.simulation.switch(*node) {
                say(&mut out, &Line::Switch(SwitchReport::of(switch)))?;
            }
        }
        for id in &self.hosts {
            let Some(host) = self.simulation.host(*id) else {
                continue;
            };
            let (open, not_started) = host.rest();
            for (open, status) in open
                .map(|open| (open, "unfinished"))
                .chain(not_started.map(|open| (open, "not-started")))
            {
                say(&mut out, &Line::transfer(host.name(), open, status, None))?;
            }
        }
        let trace_hash = format!("{:016x}", self.simulation.trace_hash());
        say(&mut out, &Line::End { trace_hash })?;
        out.flush().context("cannot write to stdout")
    }
}

fn tell(line: &Line<'_>) -> Result<()> {
    let mut out = io::stdout().lock();
    say(&mut out, line)?;
    out.flush().context("cannot write to stdout")
}
