//! The binary between two network namespaces: real frames, the configured rate, the exit.
//!
//! Needs root, `ip` and `ethtool`; without root the test says so and passes.

use std::fs::File;
use std::io::Read;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ebb_test_needs::Need;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const RATE_BPS: f64 = 20_000_000.0;
const DATAGRAMS: usize = 1500;
/// Makes frames of 1500 bytes.
const PAYLOAD: usize = 1500 - 14 - 20 - 8;
const LEFT: &str = "10.9.0.1";
const RIGHT: &str = "10.9.0.2";

/// Three namespaces (left host, switch, right host), deleted in the end.
struct Namespaces {
    left: String,
    middle: String,
    right: String,
}

impl Namespaces {
    fn create() -> Self {
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
            run(&format!(
                "ip -n {host} link set dev eth0 address {own_mac} up"
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

fn run(line: &str) {
    let mut words = line.split(' ');
    let output = Command::new(words.next().expect("a program"))
        .args(words)
        .output()
        .expect("the program exists");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {error}");
}

/// A UDP socket of a namespace. The calling thread stays there.
fn socket_in(namespace: &str, address: &str) -> UdpSocket {
    let space = File::open(format!("/run/netns/{namespace}")).expect("the namespace");
    move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).expect("entered");
    UdpSocket::bind((address, 7000)).expect("bound")
}

struct Running(Child);

impl Running {
    fn start(namespace: &str, options: &[&str]) -> Self {
        let child = Command::new("ip")
            .args(["netns", "exec", namespace, env!("CARGO_BIN_EXE_ebb-switch")])
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        Self(child)
    }

    /// SIGTERM (`ip netns exec` replaces itself by the switch), then the exit code and stderr.
    fn stop(self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).expect("still running");
        self.wait()
    }

    fn wait(mut self) -> (Option<i32>, String) {
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

fn udp_crosses_at_the_configured_rate() {
    let spaces = Namespaces::create();
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests");
    let path = |name: &str| tests.join(name).to_str().expect("UTF-8").to_owned();
    let (program, tm) = (path("programs/patch.json"), path("rate.toml"));
    let switch = Running::start(
        &spaces.middle,
        &[
            &program,
            "-i",
            "1@p1",
            "-i",
            "2@p2",
            "--tm",
            &tm,
            "--report",
            "json",
            "-L",
            "warn",
            "--grpc-server-addr",
            "127.0.0.1:9559",
        ],
    );
    let right = spaces.right.clone();
    let receiver = thread::spawn(move || receive(&right));
    let left = spaces.left.clone();
    let sender = thread::spawn(move || {
        let socket = socket_in(&left, LEFT);
        // The switch takes a moment to start.
        thread::sleep(Duration::from_secs(1));
        for _ in 0..DATAGRAMS {
            socket.send_to(&[7; PAYLOAD], (RIGHT, 7000)).expect("sent");
        }
    });
    sender.join().expect("sent");
    let (count, time) = receiver.join().expect("received");
    let (code, report) = switch.stop();
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(count, DATAGRAMS, "{report}");
    // The clock starts with the arrival of the first.
    let rate = (count - 1) as f64 * 1500.0 * 8.0 / time.as_secs_f64();
    let error = (rate / RATE_BPS - 1.0).abs();
    assert!(error < 0.02, "{rate} bit/s");
    assert!(report.contains("\"drops\":[]"), "{report}");
}

/// A namespace with one interface `p1`.
struct Alone(String);

impl Alone {
    fn create() -> Self {
        let alone = Self(format!("ebb-veth-test-{}-a", std::process::id()));
        run(&format!("ip netns add {}", alone.0));
        run(&format!(
            "ip -n {} link add p1 type veth peer name far",
            alone.0
        ));
        run(&format!("ip -n {} link set dev p1 up", alone.0));
        alone
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn interfaces_that_are_missing_or_vanish_are_named() {
    let alone = Alone::create();
    let missing = Running::start(&alone.0, &["--no-p4", "-i", "4@nowhere"]);
    let (code, text) = missing.wait();
    assert_eq!(code, Some(1));
    assert!(
        text.contains("port 4: cannot open interface \"nowhere\""),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");

    let switch = Running::start(&alone.0, &["--no-p4", "-i", "1@p1"]);
    thread::sleep(Duration::from_secs(1));
    run(&format!("ip -n {} link del p1", alone.0));
    thread::sleep(Duration::from_secs(1));
    let (code, text) = switch.stop();
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(
        text.matches("interface p1: has vanished").count(),
        1,
        "{text}"
    );
}

fn receive(namespace: &str) -> (usize, Duration) {
    let socket = socket_in(namespace, RIGHT);
    socket
        .set_read_timeout(Some(Duration::from_secs(4)))
        .expect("a timeout");
    let mut buffer = [0; 2000];
    let (mut count, mut first, mut last) = (0, None, Instant::now());
    while count < DATAGRAMS && socket.recv(&mut buffer).is_ok() {
        last = Instant::now();
        first.get_or_insert(last);
        count += 1;
    }
    (count, first.map_or(Duration::ZERO, |first| last - first))
}

ebb_test_needs::tests! {
    Need::Root => [
        udp_crosses_at_the_configured_rate,
        interfaces_that_are_missing_or_vanish_are_named,
    ],
}
