//! Drives a network under the wall clock; its hosts are Linux interfaces.
//!
//! A thread sleeps until a frame, a command or its partition's next event, and then lets
//! the partition catch up with the time. Frames enter at the time the kernel received them, so a
//! process that gets the CPU late computes the queues that a punctual one would have seen, and its
//! frames leave late but at the right rate.
//!
//! ```text
//!  worker     one thread: sleeps, reads, lets its partition run, sends
//!  interface  a Linux interface as a host of the network
//!  line       what both directions of it share
//!  pressure   how an interface slower than the switch holds back its port
//!  batch      frames for an interface, and what became of them
//!  inbox      what a thread has read, and the memory for it
//!  outbox     what it sends, itself or over a sender
//!  sender     a thread that sends for another one
//!  wake       what ends the sleep of a thread
//!  exchange   a thread's dealings with the others: frames in batches, and how far it may run
//!  progress   how far that is, as a pure function of what all threads tell
//!  board      where they tell it, without locks; waking those who sleep
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
mod sender;
mod wake;
mod worker;

use std::io;
use std::sync::Arc;
use std::thread;

use ebb_engine::drive::{Cut, Wake, control_channels};
use ebb_engine::{ControlHandle, Network, NetworkError};
use ebb_packet_io::run_in_real_time;
use ebb_units::{Duration, Instant};
use thiserror::Error;

pub use interface::{Interface, Reception};

use board::Board;
use clock::Clock;
use exchange::{Exchange, exchanges};
use wake::Waker;
use worker::{Commands, Worker, epoll_for};

/// The lowest.
const REALTIME_PRIORITY: i32 = 1;
/// Links between threads are at least this slow, or their ends would do nothing but wait for each
/// other.
const LEAST_DELAY_BETWEEN_THREADS: Duration = Duration::from_micros(5);

#[derive(Debug, Error)]
pub enum DriverError {
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
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error("the switch cannot wait for packets: {0}")]
    System(#[from] io::Error),
}

#[derive(Clone, Copy, Debug)]
pub struct DriverOptions {
    /// At most so many; fewer if links without delay keep the switches together.
    pub threads: usize,
    /// How long what arrives or is due may wait for more of it. A thread that does all of it at once
    /// wakes up less often and reads and sends more frames per system call. Queues are the same, as
    /// frames count from their arrival; what leaves is late by so much at most.
    pub coalesce: Duration,
    /// Each thread has another one that sends for it, which is half of the work where frames leave
    /// through veths.
    pub senders: bool,
    /// The threads run before all others of the machine, where that is permitted: they stand for
    /// hardware, which waits for nobody. They leave the others a twentieth of their processors (the
    /// kernel's `sched_rt_runtime_us`).
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

pub struct Driver {
    network: Network<Interface>,
    clock: Clock,
    epoch_ns: u64,
    commands: Vec<Commands>,
    handle: ControlHandle,
    options: DriverOptions,
}

impl Driver {
    /// The network has all its switches, links and interfaces; its clock starts.
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

    /// How other threads reach the nodes.
    pub fn handle(&self) -> ControlHandle {
        self.handle.clone()
    }

    /// What the clock of CLOCK_REALTIME showed when that of the network was zero, in ns.
    pub fn epoch_ns(&self) -> u64 {
        self.epoch_ns
    }

    /// How many it will have.
    pub fn threads(&self) -> usize {
        self.commands.len()
    }

    pub fn network(&self) -> &Network<Interface> {
        &self.network
    }

    pub fn network_mut(&mut self) -> &mut Network<Interface> {
        &mut self.network
    }

    /// Runs until [`ControlHandle::stop`], then gives the network back for a last look at it.
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
        let board = Arc::new(Board::new(wakes.zip(epolls.iter().cloned()).collect()));
        // One thread has nobody to talk to.
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
                        // However one ends, all end.
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
                // A panic is one of ours, and goes on here.
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.try_for_each(|result| result)
        })?;
        self.network.deliver();
        Ok(self.network)
    }
}

/// The calling thread runs in real time, if it should.
fn go_first(realtime: bool) {
    if realtime && let Err(error) = run_in_real_time(REALTIME_PRIORITY) {
        tracing::info!("packets wait for their turn on the processors: {error}");
    }
}

struct StopAll<'a>(&'a ControlHandle);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
