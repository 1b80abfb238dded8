//! A switch between two network namespaces. Needs root, `ip` and `ethtool`.

use std::net::UdpSocket;
use std::process::Stdio;

use ebb_testkit::{Namespace, Process, Signal};

use crate::server::SWITCH;

pub const LEFT: &str = "10.9.0.1";
pub const RIGHT: &str = "10.9.0.2";

/// Two hosts, each with an interface `eth0`, and the switch's namespace with `p1` and `p2`.
pub struct Namespaces {
    pub left: Namespace,
    pub middle: Namespace,
    pub right: Namespace,
}

impl Namespaces {
    pub fn create() -> Self {
        let [left, middle, right] = ["left", "middle", "right"].map(Namespace::new);
        let sides = [(&left, LEFT, RIGHT), (&right, RIGHT, LEFT)];
        for (port, (host, own, far)) in (1..).zip(sides) {
            middle.add_pair(&format!("p{port}"), host, "eth0");
            let mac = |number| format!("02:00:00:00:00:0{number}");
            host.ip(&format!("link set dev eth0 address {}", mac(port)));
            host.ip(&format!("addr add {own}/24 dev eth0"));
            let neighbour = format!("{far} lladdr {} dev eth0", mac(3 - port));
            host.ip(&format!("neigh add {neighbour}"));
            host.run("ethtool -K eth0 tx off");
        }
        Self {
            left,
            middle,
            right,
        }
    }
}

/// A UDP socket of a namespace.
pub fn socket_in(space: &Namespace, address: &'static str) -> UdpSocket {
    let bind = move || UdpSocket::bind((address, 7000)).expect("bound");
    space.thread(bind).join().expect("no panic")
}

/// Starts the switch in a namespace.
pub fn start(space: &Namespace, options: &[&str]) -> Process {
    let mut command = space.command(SWITCH);
    Process::start(command.args(options).stderr(Stdio::piped()))
}

/// Ends it; its exit code and what it has said on stderr.
pub fn stop(switch: Process) -> (Option<i32>, String) {
    switch.signal(Signal::TERM);
    switch.end()
}
