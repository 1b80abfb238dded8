//! The binary between two network namespaces: real frames, the configured rate, the exit.
//!
//! Needs root, `ip` and `ethtool`.

mod spaces;

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use ebb_test_needs::Need;
use spaces::{LEFT, Namespaces, RIGHT, Running, run, socket_in};

const RATE_BPS: f64 = 20_000_000.0;
const DATAGRAMS: usize = 1500;
/// Makes frames of 1500 bytes.
const PAYLOAD: usize = 1500 - 14 - 20 - 8;

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
