//! A switch between two network namespaces. Needs root, `ip` and `ethtool`.
#![allow(dead_code)] // Every test program uses its own part of this.

use std::fs::File;
use std::io::Read;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

pub const LEFT: &str = "10.9.0.1";
pub const RIGHT: &str = "10.9.0.2";

/// Three namespaces (left host, switch, right host), deleted in the end.
pub struct Namespaces {
    pub left: String,
    pub middle: String,
    pub right: String,
}

impl Namespaces {
    pub fn create() -> Self {
        let name = |part: &str| format!("ebb-veth-test-{}-{part}", std::process::id());
        let spaces = Self {
            left: name("l"),
            middle: name("m"),
            right: name("r"),
        };
        for space in [&spaces.left, &spaces.middle, &spaces.right] {
            run(&format!("ip netns add {space}"));
        }
        let sides = [
            (
                &spaces.left,
                LEFT,
                RIGHT,
                "02:00:00:00:00:01",
                "02:00:00:00:00:02",
            ),
            (
                &spaces.right,
                RIGHT,
                LEFT,
                "02:00:00:00:00:02",
                "02:00:00:00:00:01",
            ),
        ];
        for (port, (host, own, far, own_mac, far_mac)) in (1..).zip(sides) {
            let middle = &spaces.middle;
            run(&format!(
                "ip -n {middle} link add p{port} type veth peer name eth0 netns {host}"
            ));
            run(&format!("ip -n {middle} link set dev p{port} up"));
            // Without IPv6 the kernel says nothing by itself.
            run(&format!(
                "ip -n {host} link set dev eth0 address {own_mac} addrgenmode none up"
            ));
            run(&format!("ip -n {host} addr add {own}/24 dev eth0"));
            run(&format!(
                "ip -n {host} neigh add {far} lladdr {far_mac} dev eth0"
            ));
            run(&format!("ip netns exec {host} ethtool -K eth0 tx off"));
        }
        spaces
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for space in [&self.left, &self.middle, &self.right] {
            let _ = Command::new("ip").args(["netns", "del", space]).status();
        }
    }
}

pub fn run(line: &str) {
    let mut words = line.split(' ');
    let output = Command::new(words.next().expect("a program"))
        .args(words)
        .output()
        .expect("the program exists");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {error}");
}

/// The calling thread stays there.
pub fn enter(namespace: &str) {
    let space = File::open(format!("/run/netns/{namespace}")).expect("the namespace");
    move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).expect("entered");
}

/// A UDP socket of a namespace. The calling thread stays there.
pub fn socket_in(namespace: &str, address: &str) -> UdpSocket {
    enter(namespace);
    UdpSocket::bind((address, 7000)).expect("bound")
}

pub struct Running(Child);

impl Running {
    pub fn start(namespace: &str, options: &[&str]) -> Self {
        let child = Command::new("ip")
            .args(["netns", "exec", namespace, env!("CARGO_BIN_EXE_ebb-switch")])
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        Self(child)
    }

    /// SIGTERM (`ip netns exec` replaces itself by the switch), then the exit code and stderr.
    pub fn stop(self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).expect("still running");
        self.wait()
    }

    pub fn wait(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        let mut stderr = self.0.stderr.take().expect("piped");
        stderr.read_to_string(&mut text).expect("text");
        (self.0.wait().expect("ended").code(), text)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
