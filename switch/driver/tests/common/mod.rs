//! A driver on real interfaces, in a network namespace of its own.

#![allow(dead_code, unused_imports)] // not every test file uses every helper

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use ebb_driver::{Driver, DriverOptions, Interface, Reception};
use ebb_engine::{ControlHandle, Network, NodeId};
use ebb_packet_io::{Audience, PacketSocket, SocketOptions};
use ebb_traffic_manager::{OnFull, Profile};
use ebb_units::BitRate;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The switches and frames of the engine's tests.
#[path = "../../../engine/tests/common/mod.rs"]
mod networks;

pub use networks::{at, forward, frame, trim_program};
use networks::{deflecting_profile, switch};

pub const SWITCHES: usize = 4;
/// The length of every frame.
pub const BYTES: usize = 1000;

/// The processor time of one test is that of the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A namespace with two pairs of interfaces, p1-h1 and p2-h2, and with the calling thread in it.
pub struct Space {
    name: String,
    _turn: MutexGuard<'static, ()>,
}

impl Space {
    pub fn enter(name: &str) -> Self {
        let space = Self {
            name: format!("ebb-driver-test-{}-{name}", std::process::id()),
            _turn: ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner),
        };
        ip(&format!("netns add {}", space.name));
        [1, 2].into_iter().for_each(|pair| space.add_pair(pair));
        let file = File::open(format!("/run/netns/{}", space.name)).expect("the namespace");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("entered");
        space
    }
}

impl Space {
    /// Interfaces p{pair} and h{pair}.
    pub fn add_pair(&self, pair: usize) {
        ip(&format!(
            "-n {} link add p{pair} type veth peer name h{pair}",
            self.name
        ));
        for end in ["p", "h"] {
            // No frames but ours.
            ip(&format!(
                "-n {} link set dev {end}{pair} addrgenmode none up",
                self.name
            ));
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
    }
}

pub fn ip(arguments: &str) {
    run("ip", arguments);
}

pub fn run(program: &str, arguments: &str) {
    let output = Command::new(program).args(arguments.split(' ')).output();
    let output = output.expect("the program exists");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {error}");
}

pub fn open(interface: &str) -> PacketSocket {
    let options = SocketOptions {
        audience: Audience::Everyone,
        ..SocketOptions::default()
    };
    PacketSocket::open(interface, &options).expect("opened")
}

/// A chain of switches between the interfaces; MAC 1 is behind p1, MAC 2 behind p2. Port 1 leads to
/// the first, port 2 to the last.
pub fn chain(delay_ns: u64) -> (Network<Interface>, Vec<NodeId>) {
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
    Interface::attach(&mut network, at(switches[0], 1), "p1", Reception::Calls).expect("attached");
    Interface::attach(
        &mut network,
        at(switches[SWITCHES - 1], 2),
        "p2",
        Reception::Ring { bytes: 8 << 20 },
    )
    .expect("attached");
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

/// How long a loaded machine may take to forward what was sent.
pub const PATIENCE: Duration = Duration::from_secs(20);
