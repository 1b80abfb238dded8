//! Drives a network under the wall clock; its hosts are Linux interfaces.
//!
//! A thread sleeps in `ppoll` until a frame, a command or its partition's next event, and then lets
//! the partition catch up with the time. Frames enter at the time the kernel received them, so a
//! process that gets the CPU late computes the queues that a punctual one would have seen, and its
//! frames leave late but at the right rate.

mod clock;
mod interface;
mod worker;

use std::io;

use thiserror::Error;

pub use interface::Interface;

use crate::control::{ControlHandle, ControlReceiver, control_channels};
use crate::network::{Cut, Network, NetworkError};
use clock::Clock;
use ebb_units::Duration;
use worker::Worker;

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
}

impl Default for DriverOptions {
    fn default() -> Self {
        Self { threads: 1 }
    }
}

pub struct Driver {
    network: Network<Interface>,
    clock: Clock,
    commands: Vec<ControlReceiver>,
    handle: ControlHandle,
}

impl Driver {
    /// The network has all its switches, links and interfaces; its clock starts.
    pub fn new(
        mut network: Network<Interface>,
        options: DriverOptions,
    ) -> Result<Self, DriverError> {
        let clock = Clock::start();
        network.set_epoch_ns(clock.realtime().to_realtime_ns(network.now()));
        network.set_traced(false);
        network.spread(
            options.threads,
            Cut {
                least_delay: LEAST_DELAY_BETWEEN_THREADS,
                hosts: false,
            },
        );
        let threads = network.partitions().len();
        let (handle, commands) = control_channels(threads, network.partition_of())?;
        Ok(Self {
            network,
            clock,
            commands,
            handle,
        })
    }

    /// How other threads reach the nodes.
    pub fn handle(&self) -> ControlHandle {
        self.handle.clone()
    }

    pub fn network(&self) -> &Network<Interface> {
        &self.network
    }

    pub fn network_mut(&mut self) -> &mut Network<Interface> {
        &mut self.network
    }

    /// Runs until [`ControlHandle::stop`], then gives the network back for a last look at it.
    pub fn run(mut self) -> Result<Network<Interface>, DriverError> {
        let clock = self.clock;
        for (partition, commands) in self.network.partitions().iter_mut().zip(self.commands) {
            Worker::new(partition, clock, commands).run()?;
        }
        Ok(self.network)
    }
}
