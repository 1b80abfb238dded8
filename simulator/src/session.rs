//! The conversation with the runner.

use std::io::{self, BufRead, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant as WallClock};

use anyhow::{Context, Result, anyhow};
use ebb_engine::{ControlHandle, ControlReceiver, SwitchReport, control_channel};
use ebb_units::Instant;

use crate::lines::{Group, Line, Order, SampleOrder, say};
use crate::network::{Built, Network, SimSwitch};
use crate::run::Run;
use crate::sampling::Sampling;
use crate::servers;

/// How often progress is told, in real time.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

pub fn run(network: &Path, threads: usize) -> Result<()> {
    let mut built = Network::read(network)?.build()?;
    let threads = match threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    built.simulation.spread(threads);
    let (handle, commands) = control_channel();
    let stop = servers::serve(&built, &handle)?;
    let orders = read_orders(handle);
    tell(&ready(&built, threads))?;
    let (run, switches) = Run::new(built)?;
    let mut session = Session {
        run,
        switches,
        sampling: None,
        commands,
        seconds: 0.0,
    };
    let result = session.obey(&orders);
    // The server may have ended already.
    let _ = stop.send(());
    result
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
    switches: Vec<SimSwitch>,
    sampling: Option<Sampling>,
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
                    Order::Sample(order) => self.sample(order)?,
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
            let now = self.run.simulation.now();
            let horizon = self.sampling.as_ref().map(|s| s.horizon(now));
            let end = until.min(horizon.unwrap_or(until));
            self.run.advance(end, |at, done| {
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

    fn sample(&mut self, order: SampleOrder) -> Result<()> {
        let before = self.sampling.take();
        let simulation = &mut self.run.simulation;
        self.sampling = Sampling::start(order, &self.switches, simulation, before)?;
        let mut out = io::stdout().lock();
        if let Some(sampling) = &self.sampling {
            sampling.begin(&mut out)?;
        }
        out.flush().context("cannot write to stdout")
    }

    /// Tells what has ended, and the samples.
    fn tell_flows(&mut self) -> Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        if let Some(sampling) = &self.sampling {
            sampling.write(&mut self.run.simulation, &mut out)?;
        }
        self.run
            .tell(|host, told| say(&mut out, &Line::told(host, &told)))?;
        out.flush().context("cannot write to stdout")
    }

    fn report(&mut self) -> Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        for switch in &self.switches {
            if let Some(switch) = self.run.simulation.switch(switch.node) {
                say(&mut out, &Line::Switch(SwitchReport::of(switch)))?;
            }
        }
        for (host, flow) in self.run.incomplete() {
            say(&mut out, &Line::open(host, &flow))?;
            let id = flow.open.transfer.id;
            say(&mut out, &Line::arrivals(host, id, flow.arrivals))?;
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
