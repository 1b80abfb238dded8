//! Drives a network under the wall clock, with Linux interfaces as its hosts.
//!
//! A thread sleeps until a frame, a command or the next event of its partition, and then lets the
//! partition catch up with the time. Frames enter at the time at which the kernel received them. So
//! a process that gets the CPU late computes the queues of a punctual one; its frames leave late,
//! but at the right rate.
//!
//! ```text
//!  worker     one thread: sleeps, reads, lets its partition run, sends
//!  interface  a Linux interface as a host of the network
//!  line       what both directions of it share
//!  ring       another way to a host: memory shared with a process of it
//!  pressure   how an interface slower than the switch holds back its port
//!  batch      frames for an interface, and what became of them
//!  inbox      what a thread has read, and the memory for it
//!  outbox     what it sends, itself or over a sender
//!  sender     a thread that sends for another one
//!  wake       what ends the sleep of a thread
//!  exchange   a thread's dealings with the others: frames in batches, and how far it may run
//!  progress   how far that is, as a pure function of the reports of all threads
//!  board      where they report it, without locks; waking those who sleep
//! ```

mod batch;
mod board;
mod clock;
mod exchange;
mod inbox;
mod interface;
mod line;
mod outbox;
mod pressure;
mod progress;
mod ring;
mod sender;
mod wake;
mod worker;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use ebb_engine::drive::{Cut, Wake, control_channels};
use ebb_engine::{ControlHandle, Network, NetworkError};
use ebb_packet_io::{run_in_real_time, runs_in_real_time};
use ebb_units::{Duration, Instant};
use thiserror::Error;

pub use interface::{Interface, Reception};

use board::ProgressBoard;
use clock::Clock;
use exchange::{Exchange, exchanges};
use wake::Waker;
use worker::{Commands, Worker, epoll_for};

/// Priority of the threads under SCHED_FIFO: 1 is the lowest of the real-time priorities.
const REALTIME_PRIORITY: i32 = 1;
/// The shortest delay of links between threads, as configured at the start. With shorter ones the
/// threads would do nothing but wait for each other.
const LEAST_DELAY_BETWEEN_THREADS: Duration = Duration::from_micros(5);

/// Why a driver cannot start or continue.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
pub enum DriverError {
    /// An interface cannot be opened.
    #[error(
        "switch \"{switch}\", port {port}: cannot open interface \"{interface}\": {reason}; {remedy}"
    )]
    Interface {
        switch: String,
        port: u16,
        interface: String,
        reason: io::Error,
        remedy: &'static str,
    },
    /// Processes of a host cannot get rings.
    #[error("{path}: cannot listen there for processes that share rings: {reason}", path = path.display())]
    Rings { path: PathBuf, reason: io::Error },
    /// The network refused a link to an interface.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A system call failed that threads need to wait for packets.
    #[error("the switch cannot wait for packets: {0}")]
    System(#[from] io::Error),
}

/// How a driver runs its network.
#[derive(Clone, Copy, Debug)]
pub struct DriverOptions {
    /// Most threads to use; fewer run if links without delay keep the switches together.
    pub threads: usize,
    /// How long what arrives or is due may wait for more of it. A thread that does all of it at
    /// once wakes up less often, and reads and sends more frames per system call. Queues stay the
    /// same, because frames count from their arrival; what leaves is late by this much at most.
    pub coalesce: Duration,
    /// Whether each thread has a second one that sends for it. Sending is half of the work where
    /// frames leave through veths.
    pub senders: bool,
    /// Whether the threads take precedence over all others of the machine, if that is permitted:
    /// they stand for hardware, which waits for nobody. A twentieth of their processors remains for
    /// the others (the kernel's `sched_rt_runtime_us`).
    pub realtime: bool,
}

impl Default for DriverOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            coalesce: Duration::ZERO,
            senders: false,
            realtime: false,
        }
    }
}

/// A network and the threads that will run it.
pub struct Driver {
    /// The network, cut into one partition per thread.
    network: Network<Interface>,
    /// The time of the network.
    clock: Clock,
    /// CLOCK_REALTIME at the zero of the clock, in nanoseconds.
    epoch_ns: u64,
    /// The commands for each thread.
    commands: Vec<Commands>,
    /// The sending end of these commands.
    handle: ControlHandle,
    /// How the threads run.
    options: DriverOptions,
}

impl Driver {
    /// Cuts a complete network (switches, links and interfaces) into partitions and starts its
    /// clock.
    pub fn new(
        mut network: Network<Interface>,
        options: DriverOptions,
    ) -> Result<Self, DriverError> {
        let clock = Clock::start();
        let epoch_ns = clock.realtime().to_realtime_ns(Instant::ZERO);
        network.set_traced(false);
        network.spread(
            options.threads,
            Cut {
                least_delay: LEAST_DELAY_BETWEEN_THREADS,
                hosts: false,
            },
        );
        let threads = network.partitions().len();
        let wakers: io::Result<Vec<_>> = (0..threads).map(|_| Waker::new().map(Arc::new)).collect();
        let wakers = wakers?;
        let wakes = wakers.iter().map(|waker| waker.clone() as Arc<dyn Wake>);
        let (handle, receivers) = control_channels(wakes, network.partition_of());
        let commands = receivers.into_iter().zip(wakers);
        let commands = commands
            .map(|(receiver, waker)| Commands { receiver, waker })
            .collect();
        Ok(Self {
            network,
            clock,
            epoch_ns,
            commands,
            handle,
            options,
        })
    }

    /// The handle by which other threads reach the nodes.
    pub fn handle(&self) -> ControlHandle {
        self.handle.clone()
    }

    /// CLOCK_REALTIME at the zero of the network's clock, in nanoseconds.
    pub fn epoch_ns(&self) -> u64 {
        self.epoch_ns
    }

    /// How many threads the network gets.
    pub fn threads(&self) -> usize {
        self.commands.len()
    }

    /// The network, while it does not run.
    pub fn network(&self) -> &Network<Interface> {
        &self.network
    }

    /// The network, while it does not run.
    pub fn network_mut(&mut self) -> &mut Network<Interface> {
        &mut self.network
    }

    /// Runs until [`ControlHandle::stop`], then returns the network for a last look at it.
    pub fn run(mut self) -> Result<Network<Interface>, DriverError> {
        let (clock, handle) = (self.clock, &self.handle);
        let DriverOptions {
            coalesce,
            senders,
            realtime,
            ..
        } = self.options;
        let epolls: io::Result<Vec<_>> =
            self.commands.iter().map(|c| epoll_for(&c.waker)).collect();
        let epolls = epolls?;
        let wakes = self.commands.iter().map(|c| c.waker.clone());
        let board = Arc::new(ProgressBoard::new(
            wakes.zip(epolls.iter().cloned()).collect(),
        ));
        // A single thread has nobody to exchange with.
        let exchanges: Vec<Option<Exchange>> = match board.threads() {
            1 => vec![None],
            _ => exchanges(&board).into_iter().map(Some).collect(),
        };
        let partitions = self.network.partitions().iter_mut();
        let parts = partitions.zip(self.commands).zip(epolls).zip(exchanges);
        thread::scope(|scope| {
            let threads: Vec<_> = parts
                .enumerate()
                .map(|(number, (((partition, commands), epoll), exchange))| {
                    let work = move || {
                        // However one thread ends, all of them end.
                        let _end = StopAll(handle);
                        let mut worker = Worker::new(partition, clock, commands, epoll, exchange)?;
                        worker.coalesce(coalesce);
                        if senders {
                            worker.send_apart(format!("sender-{number}"), move || {
                                go_first(realtime);
                            })?;
                        }
                        go_first(realtime);
                        let result = worker.run();
                        tracing::debug!(thread = number, late = worker.late(), "stopped");
                        result
                    };
                    let name = format!("packets-{number}");
                    thread::Builder::new().name(name).spawn_scoped(scope, work)
                })
                .collect();
            if threads.iter().any(Result::is_err) {
                handle.stop();
            }
            let mut ended = threads.into_iter().map(|thread| match thread?.join() {
                Ok(result) => result,
                // A panic of a thread is propagated.
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.try_for_each(|result| result)
        })?;
        self.network.deliver();
        Ok(self.network)
    }
}

/// Gives the calling thread real-time priority, if it should have it and has none (`chrt`).
fn go_first(realtime: bool) {
    if realtime
        && !runs_in_real_time()
        && let Err(error) = run_in_real_time(REALTIME_PRIORITY)
    {
        tracing::info!("packets wait for their turn on the processors: {error}");
    }
}

/// Stops all threads when it is dropped.
struct StopAll<'a>(&'a ControlHandle);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
