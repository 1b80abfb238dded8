//! Ends of links of the simulation: a host, or several virtual machines behind one NIC.

use ebb_engine::simulation::Host;
use ebb_pipeline::Frames;
use ebb_units::{BitRate, Instant};

use crate::external::ExternalHost;
use crate::host::SimHost;
use crate::machine::Machine;

/// A host of the network.
#[expect(
    clippy::large_enum_variant,
    reason = "most hosts are no machines with VMs"
)]
pub enum Node {
    Host(SimHost),
    Machine(Box<Machine>),
    External(Box<ExternalHost>),
}

impl Node {
    /// The hosts that applications run on: the host itself, or its VMs; none of an external host.
    pub fn members(&self) -> &[SimHost] {
        match self {
            Node::Host(host) => std::slice::from_ref(host),
            Node::Machine(machine) => machine.guests(),
            Node::External(_) => &[],
        }
    }

    /// The same, mutable.
    pub fn members_mut(&mut self) -> &mut [SimHost] {
        match self {
            Node::Host(host) => std::slice::from_mut(host),
            Node::Machine(machine) => machine.guests_mut(),
            Node::External(_) => &mut [],
        }
    }

    /// The machine with VMs. None: the node is another kind of host.
    pub fn machine(&self) -> Option<&Machine> {
        match self {
            Node::Host(_) | Node::External(_) => None,
            Node::Machine(machine) => Some(machine),
        }
    }

    /// The external host, whose part a program outside plays. None: the node is another kind of host.
    pub fn external(&self) -> Option<&ExternalHost> {
        match self {
            Node::External(host) => Some(host),
            Node::Host(_) | Node::Machine(_) => None,
        }
    }

    /// The same, mutable.
    pub fn external_mut(&mut self) -> Option<&mut ExternalHost> {
        match self {
            Node::External(host) => Some(host),
            Node::Host(_) | Node::Machine(_) => None,
        }
    }
}

impl Host for Node {
    fn name(&self) -> &str {
        match self {
            Node::Host(host) => host.name(),
            Node::Machine(machine) => machine.name(),
            Node::External(host) => host.name(),
        }
    }

    #[inline]
    fn receive(&mut self, now: Instant, frame: Vec<u8>) {
        match self {
            Node::Host(host) => host.receive(now, frame),
            Node::Machine(machine) => machine.receive(now, frame),
            Node::External(host) => host.receive(now, frame),
        }
    }

    #[inline]
    fn wake(&mut self, now: Instant) {
        match self {
            Node::Host(host) => host.wake(now),
            Node::Machine(machine) => machine.wake(now),
            Node::External(host) => host.wake(now),
        }
    }

    #[inline]
    fn next_wake(&self) -> Option<Instant> {
        match self {
            Node::Host(host) => host.next_wake(),
            Node::Machine(machine) => machine.next_wake(),
            Node::External(host) => host.next_wake(),
        }
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        match self {
            Node::Host(host) => host.poll_transmit(now),
            Node::Machine(machine) => machine.poll_transmit(now),
            Node::External(host) => host.poll_transmit(now),
        }
    }

    #[inline]
    fn exchange_frames(&mut self, frames: &mut Frames) {
        match self {
            Node::Host(host) => host.exchange_frames(frames),
            Node::Machine(machine) => machine.exchange_frames(frames),
            Node::External(host) => host.exchange_frames(frames),
        }
    }

    fn limit_rate(&mut self, rate: Option<BitRate>) -> bool {
        match self {
            Node::Host(host) => host.limit_rate(rate),
            Node::Machine(machine) => machine.limit_rate(rate),
            Node::External(host) => host.limit_rate(rate),
        }
    }
}
