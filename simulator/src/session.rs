//! The conversation with the program that started the simulator.

use std::io::{self, BufRead, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant as WallClock};

use anyhow::{Context, Result, anyhow};
use ebb_engine::simulation::Host;
use ebb_engine::{ControlHandle, ControlReceiver, control_channel};
use ebb_units::Instant;

use crate::build::{Built, SimSwitch};
use crate::exchange::Exchange;
use crate::lines::{Group, Line, Order, SampleOrder, append_line};
use crate::network::Network;
use crate::run::Run;
use crate::sampling::Sampling;
use crate::servers;

/// Real time between two progress lines.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// Runs the network of a file as the orders on stdin say, until stdin ends.
pub fn run(network: &Path, threads: usize) -> Result<()> {
    let mut built = Network::read(network)?.build()?;
    let threads = match threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    built.simulation.spread(threads);
    let (handle, commands) = control_channel();
    let (told, loaded) = mpsc::channel();
    let told_and_stopped = {
        let handle = handle.clone();
        move |refusals| {
            let _ = told.send(refusals);
            handle.stop();
        }
    };
    let stop = servers::serve(&mut built, &handle, told_and_stopped)?;
    while let Some(command) = commands.wait() {
        if !built.simulation.obey(command) {
            break;
        }
    }
    let refused = loaded.recv().unwrap_or_default();
    let orders = read_orders(handle);
    write_line(&ready(&built, threads, refused))?;
    let exchange = Exchange::new(std::mem::take(&mut built.external), built.reaction_ns)?;
    let (run, switches) = Run::new(built)?;
    let mut session = Session {
        run,
        switches,
        exchange,
        sampling: None,
        commands,
        seconds: 0.0,
    };
    let result = session.obey(&orders);
    // The servers may have ended already.
    let _ = stop.send(());
    result
}

/// Reads the orders on stdin in a thread. Each order, and the end of stdin, also ends the wait of
/// [`Session::serve_switches`].
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

/// The first line.
fn ready(built: &Built, threads: usize, refused: Vec<String>) -> Line<'_> {
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
        refused,
    }
}

/// A run and what its orders have set up.
struct Session {
    /// The run.
    run: Run,
    /// The switches of the network.
    switches: Vec<SimSwitch>,
    /// The hosts that programs outside play.
    exchange: Exchange,
    /// The queues to sample; `None` if there are none.
    sampling: Option<Sampling>,
    /// Requests of the servers to the switches.
    commands: ControlReceiver,
    /// Real time for which the clock has run, in seconds.
    seconds: f64,
}

impl Session {
    /// Obeys orders until there are no more.
    fn obey(&mut self, orders: &mpsc::Receiver<Result<Order>>) -> Result<()> {
        loop {
            self.serve_switches();
            match orders.try_recv() {
                Ok(order) => match order? {
                    Order::Run {
                        until_ns,
                        flows,
                        frames,
                    } => self.run(until_ns, flows, frames)?,
                    Order::Send { host, frames } => {
                        self.exchange
                            .send(&mut self.run.simulation, &host, frames)?;
                    }
                    Order::Sample(order) => self.sample(order)?,
                    Order::Report => self.report()?,
                },
                Err(mpsc::TryRecvError::Disconnected) => return Ok(()),
                Err(mpsc::TryRecvError::Empty) => {}
            }
        }
    }

    /// Does what the servers ask for until an order has come.
    fn serve_switches(&mut self) {
        while let Some(command) = self.commands.wait() {
            if !self.run.simulation.obey(command) {
                return;
            }
        }
    }

    /// Runs until a time or, if `flows` is true, until the transfers have ended or, if `frames` is true, until external
    /// hosts react to something.
    fn run(&mut self, until_ns: u64, flows: bool, frames: bool) -> Result<()> {
        let until = Instant::from_nanos(until_ns);
        let started = WallClock::now();
        let mut last_progress = started;
        while self.run.now() < until {
            let mut broken = None;
            let now = self.run.now();
            let horizon = self.sampling.as_ref().map(|s| s.horizon(now));
            let turn = match frames {
                true => self.exchange.next_turn(now, self.run.next_event()),
                false => None,
            };
            let end = Instant::earliest([Some(until), horizon, turn]).unwrap_or(until);
            self.run.advance(end, |at, done| {
                if last_progress.elapsed() < PROGRESS_EVERY {
                    return false;
                }
                last_progress = WallClock::now();
                let at_ns = at.as_nanos();
                // An error means that nobody reads the lines any more.
                broken = write_line(&Line::Progress { at_ns, done }).err();
                broken.is_some()
            });
            if let Some(error) = broken {
                return Err(error);
            }
            self.tell_notices()?;
            if flows && self.run.is_over() {
                break;
            }
            let turn = frames && self.exchange.is_turn(self.run.now());
            if turn && self.exchange.has_arrivals(&self.run.simulation) {
                break;
            }
        }
        self.seconds += started.elapsed().as_secs_f64();
        self.tell_arrivals()?;
        write_line(&Line::Paused {
            at_ns: self.run.now().as_nanos(),
            done: self.run.done(),
            seconds: self.seconds,
        })
    }

    /// Prints what has arrived at external hosts.
    fn tell_arrivals(&mut self) -> Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        self.exchange.write(&mut self.run.simulation, &mut out)?;
        out.flush().context("cannot write to stdout")
    }

    /// Changes the queues that are sampled.
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

    /// Prints the notices and samples since the last call.
    fn tell_notices(&mut self) -> Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        if let Some(sampling) = &self.sampling {
            let skipped = self.run.skipped();
            sampling.write(&mut self.run.simulation, skipped, &mut out)?;
        }
        self.run
            .report(|host, notice| append_line(&mut out, &Line::notice(host, &notice)))?;
        out.flush().context("cannot write to stdout")
    }

    /// Prints what has not ended, what neighbours did to NICs and hypervisors did, and the hash of the trace.
    fn report(&mut self) -> Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        for (host, notice) in self.run.take_held() {
            append_line(&mut out, &Line::notice(&host, &notice))?;
        }
        for (host, flow) in self.run.incomplete() {
            append_line(&mut out, &Line::open(host, &flow))?;
            let id = flow.open.transfer.id;
            append_line(&mut out, &Line::arrivals(host, id, flow.arrivals))?;
        }
        for (host, open) in self.run.rest() {
            let line = Line::transfer(host, &open, "unfinished", open.unfinished());
            append_line(&mut out, &line)?;
        }
        for (host, statistics) in self.run.nics() {
            append_line(&mut out, &Line::nic(&host, &statistics))?;
        }
        for machine in self.run.machines() {
            for (host, from, delays) in machine.delays() {
                append_line(&mut out, &Line::delays(host, from, delays))?;
            }
            let line = Line::hypervisor(machine.name(), machine.counters());
            append_line(&mut out, &line)?;
        }
        for (traffic, skips) in self.run.skips() {
            append_line(&mut out, &Line::skipping(traffic, skips))?;
        }
        let trace_hash = format!("{:016x}", self.run.simulation.trace_hash());
        append_line(&mut out, &Line::End { trace_hash })?;
        out.flush().context("cannot write to stdout")
    }
}

/// Prints one line at once.
fn write_line(line: &Line<'_>) -> Result<()> {
    let mut out = io::stdout().lock();
    append_line(&mut out, line)?;
    out.flush().context("cannot write to stdout")
}
