//! A chain of switches between two interfaces, under a driver in a network namespace of its own.

use std::ops::Deref;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use ebb_driver::{Driver, DriverOptions, Interface, Reception};
use ebb_engine::{ControlHandle, Network, NodeId};
use ebb_packet_io::{PacketSocket, ReceiveMode, SocketOptions};
use ebb_testkit::Namespace;
use ebb_traffic_manager::{OnFull, Profile};
use ebb_units::BitRate;

use crate::switches::{at, deflecting_profile, forward, switch};

pub const SWITCHES: usize = 4;
/// The length of every frame.
pub const BYTES: usize = 1000;

/// The processor time of one test is that of the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A namespace with two pairs of interfaces, p1-h1 and p2-h2, and with the calling thread in it.
pub struct Space {
    namespace: Namespace,
    _turn: MutexGuard<'static, ()>,
}

impl Space {
    pub fn enter() -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let space = Self {
            namespace: Namespace::new("driver"),
            _turn: turn,
        };
        [1, 2].into_iter().for_each(|pair| space.make_pair(pair));
        space.namespace.enter();
        space
    }

    /// Makes interfaces p{pair} and h{pair}.
    pub fn make_pair(&self, pair: usize) {
        let [own, its] = ["p", "h"].map(|end| format!("{end}{pair}"));
        self.add_pair(&own, &self.namespace, &its);
    }
}

impl Deref for Space {
    type Target = Namespace;

    fn deref(&self) -> &Namespace {
        &self.namespace
    }
}

pub fn open(interface: &str) -> PacketSocket {
    let options = SocketOptions {
        receive_mode: ReceiveMode::Promiscuous,
        ..SocketOptions::default()
    };
    PacketSocket::open(interface, &options).expect("opened")
}

/// Sends all of them.
pub fn send(socket: &PacketSocket, frames: &[Vec<u8>]) {
    let mut rest = frames;
    while !rest.is_empty() {
        let sent = socket.send_batch(rest.iter().map(Vec::as_slice));
        rest = &rest[sent.expect("room")..];
    }
}

/// A chain of switches between the interfaces; MAC 1 is behind p1, MAC 2 behind p2. Port 1 leads to
/// the first, port 2 to the last.
pub fn chain(delay_ns: u64) -> (Network<Interface>, Vec<NodeId>) {
    chain_with_rings(delay_ns, None)
}

/// The same, with sockets in a folder where processes get rings.
pub fn chain_with_rings(delay_ns: u64, rings: Option<&Path>) -> (Network<Interface>, Vec<NodeId>) {
    let mut network = Network::new();
    let switches: Vec<NodeId> = (0..SWITCHES)
        .map(|i| {
            let mut profile: Profile = deflecting_profile(BitRate::from_mbps(200), delay_ns);
            profile.queue[0].capacity_packets = None;
            profile.queue[0].on_full = OnFull::TailDrop;
            let mut s = switch(&format!("s{}", i + 1), profile);
            forward(&mut s, 1, 1);
            forward(&mut s, 2, 2);
            network.add_switch(s)
        })
        .collect();
    for pair in switches.windows(2) {
        network
            .connect(at(pair[0], 2), at(pair[1], 1))
            .expect("free ports");
    }
    let ring = Reception::Ring { bytes: 8 << 20 };
    let ends = [
        (at(switches[0], 1), "p1", Reception::Calls),
        (at(switches[SWITCHES - 1], 2), "p2", ring),
    ];
    for (end, name, reception) in ends {
        Interface::attach_with_rings(&mut network, end, name, reception, rings).expect("attached");
    }
    (network, switches)
}

pub fn options(threads: usize, coalesce_us: u64) -> DriverOptions {
    DriverOptions {
        threads,
        coalesce: ebb_units::Duration::from_micros(coalesce_us),
        ..DriverOptions::default()
    }
}

pub type Running = thread::JoinHandle<Network<Interface>>;

pub fn start(network: Network<Interface>, options: DriverOptions) -> (ControlHandle, Running) {
    let driver = Driver::new(network, options).expect("a driver");
    assert_eq!(driver.threads(), options.threads);
    let handle = driver.handle();
    let running = thread::spawn(move || driver.run().expect("it runs"));
    (handle, running)
}
