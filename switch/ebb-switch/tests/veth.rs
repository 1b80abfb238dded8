//! The binary between two network namespaces: real frames, the configured rate, the exit.
//!
//! Needs root, `ip` and `ethtool`.

use std::io::{BufRead, Read};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use ebb_packet_io::{PacketSocket, PollFd, ReceiveBuffers, SocketOptions, wait};
use ebb_testkit::{Namespace, Need, Signal};

use crate::server::wait_until_it_listens;
use crate::spaces::{LEFT, Namespaces, RIGHT, socket_in, start, stop};

const ADDRESS: &str = "127.0.0.1:9559";
const RATE_BPS: f64 = 20_000_000.0;
const DATAGRAMS: usize = 1500;
/// Makes frames of 1500 bytes.
const PAYLOAD: usize = 1500 - 14 - 20 - 8;

/// If nothing comes for so long, nothing more will.
const SILENCE: Duration = Duration::from_secs(4);

fn udp_crosses_at_the_configured_rate() {
    let spaces = Namespaces::create();
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests");
    let path = |name: &str| tests.join(name).to_str().expect("UTF-8").to_owned();
    let (program, tm) = (path("programs/patch.json"), path("rate.toml"));
    let options = [&program, "-i", "1@p1", "-i", "2@p2", "--tm", &tm];
    let report = ["--report", "json", "-L", "warn"];
    let address = ["--grpc-server-addr", ADDRESS];
    let options = [&options[..], &report, &address].concat();
    let switch = start(&spaces.middle, &options);
    wait_until_ready(&spaces.middle);
    // Somebody must be at the port, or the kernel answers.
    let _right = socket_in(&spaces.right, RIGHT);
    let received = receive(&spaces.right);
    let left = socket_in(&spaces.left, LEFT);
    for _ in 0..DATAGRAMS {
        left.send_to(&[7; PAYLOAD], (RIGHT, 7000)).expect("sent");
    }
    let times_ns = received.join().expect("received");
    let (code, report) = stop(switch);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(times_ns.len(), DATAGRAMS, "{report}");
    // The clock starts with the arrival of the first.
    let time_ns = times_ns[DATAGRAMS - 1] - times_ns[0];
    let rate = (DATAGRAMS - 1) as f64 * 1500.0 * 8.0 / time_ns as f64 * 1e9;
    let error = (rate / RATE_BPS - 1.0).abs();
    assert!(error < 0.02, "{rate} bit/s");
    assert!(report.contains("\"drops\":[]"), "{report}");
}

/// Frames come through once its service answers.
fn wait_until_ready(space: &Namespace) {
    let there = space.thread(|| wait_until_it_listens(ADDRESS));
    there.join().expect("it listens");
}

/// When the kernel got each of the datagrams, until all are there or nothing comes for a while.
fn receive(space: &Namespace) -> thread::JoinHandle<Vec<u64>> {
    let options = SocketOptions {
        timestamps: true,
        ..SocketOptions::default()
    };
    let open = move || PacketSocket::open("eth0", &options).expect("opened");
    let socket = space.thread(open).join().expect("no panic");
    thread::spawn(move || {
        let (mut times_ns, mut buffers) = (Vec::new(), ReceiveBuffers::new(64, 2048));
        while times_ns.len() < DATAGRAMS {
            let mut polled = [PollFd::readable(socket.as_fd())];
            wait(&mut polled, Some(SILENCE)).expect("waited");
            if !polled[0].is_readable() {
                break;
            }
            let batch = socket.receive_batch(&mut buffers).expect("received");
            let datagrams = batch.iter().filter(|frame| frame.wire_bytes == 1500);
            times_ns.extend(datagrams.map(|frame| frame.realtime_ns.expect("a time")));
        }
        times_ns
    })
}

fn interfaces_that_are_missing_or_vanish_are_named() {
    let space = Namespace::new("switch");
    space.add_pair("p1", &space, "far");
    let missing = start(&space, &["--no-p4", "-i", "4@nowhere"]);
    let (code, text) = missing.end();
    assert_eq!(code, Some(1));
    assert!(
        text.contains("port 4: cannot open interface \"nowhere\""),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");

    let options = ["--no-p4", "-i", "1@p1", "--grpc-server-addr", ADDRESS];
    let mut switch = start(&space, &options);
    let mut log = switch.stderr();
    wait_until_ready(&space);
    space.ip("link del p1");
    let mut text = String::new();
    while !text.contains("interface p1: has vanished") {
        let read = log.read_line(&mut text).expect("text");
        assert!(read > 0, "it has ended: {text}");
    }
    // It is looked for every second.
    thread::sleep(Duration::from_millis(1100));
    switch.signal(Signal::TERM);
    log.read_to_string(&mut text).expect("text");
    assert_eq!(switch.wait().code(), Some(0), "{text}");
    assert_eq!(
        text.matches("interface p1: has vanished").count(),
        1,
        "{text}"
    );
}

ebb_testkit::tests! {
    Need::Root => [
        udp_crosses_at_the_configured_rate,
        interfaces_that_are_missing_or_vanish_are_named,
    ],
}
