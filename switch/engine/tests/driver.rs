//! The driver on real interfaces: any number of threads forwards the same frames; links, captures
//! and restarts while it runs.
//!
//! Needs root and `ip`; without root the tests say so and pass.

mod common;

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use ebb_engine::{
    ControlHandle, Driver, DriverOptions, Interface, LinkState, Network, NodeId, Reception,
    SwitchReport,
};
use ebb_packet_io::{
    Audience, MAX_FRAME_BYTES, PacketSocket, PollFd, ReceiveBuffers, SocketOptions, wait,
};
use ebb_test_needs::Need;
use ebb_traffic_manager::{OnFull, Profile};
use ebb_units::BitRate;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const SWITCHES: usize = 4;
/// Of every frame.
const BYTES: usize = 1000;

/// The processor time of one test is that of the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A namespace with two pairs of interfaces, p1-h1 and p2-h2, and with the calling thread in it.
struct Space {
    name: String,
    _turn: MutexGuard<'static, ()>,
}

impl Space {
    fn enter(name: &str) -> Self {
        let space = Self {
            name: format!("ebb-driver-test-{}-{name}", std::process::id()),
            _turn: ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner),
        };
        ip(&format!("netns add {}", space.name));
        for pair in [1, 2] {
            ip(&format!(
                "-n {} link add p{pair} type veth peer name h{pair}",
                space.name
            ));
            for end in ["p", "h"] {
                // No frames but ours.
                ip(&format!(
                    "-n {} link set dev {end}{pair} addrgenmode none up",
                    space.name
                ));
            }
        }
        let file = File::open(format!("/run/netns/{}", space.name)).expect("the namespace");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("entered");
        space
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
    }
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.expect("`ip` runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {error}");
}

fn open(interface: &str) -> PacketSocket {
    let options = SocketOptions {
        audience: Audience::Everyone,
        ..SocketOptions::default()
    };
    PacketSocket::open(interface, &options).expect("opened")
}

/// A chain of switches between the interfaces; MAC 1 is behind p1, MAC 2 behind p2. Port 1 leads to
/// the first, port 2 to the last.
fn chain(delay_ns: u64) -> (Network<Interface>, Vec<NodeId>) {
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

fn options(threads: usize, coalesce_us: u64) -> DriverOptions {
    DriverOptions {
        threads,
        coalesce: ebb_units::Duration::from_micros(coalesce_us),
        ..DriverOptions::default()
    }
}

type Running = thread::JoinHandle<Network<Interface>>;

fn start(network: Network<Interface>, options: DriverOptions) -> (ControlHandle, Running) {
    let driver = Driver::new(network, options).expect("a driver");
    assert_eq!(driver.threads(), options.threads);
    let handle = driver.handle();
    let running = thread::spawn(move || driver.run().expect("it runs"));
    (handle, running)
}

/// How long a loaded machine may take to forward what was sent.
const PATIENCE: Duration = Duration::from_secs(20);
/// So many waits of 50 ms without a frame are the end. Waits, not time: a machine that stood still
/// for a second has waited once.
const SILENCE: usize = 6;

/// Both hosts send bursts; what each received in the end, after `expected` frames at least (or
/// [`PATIENCE`]).
fn exchange_bursts(
    sockets: &[PacketSocket; 2],
    bursts: usize,
    burst: usize,
    expected: [usize; 2],
) -> [usize; 2] {
    let mut buffers = ReceiveBuffers::new(32, MAX_FRAME_BYTES);
    let mut received = [0; 2];
    let mut count = |received: &mut [usize; 2]| {
        for (socket, count) in sockets.iter().zip(received) {
            loop {
                let batch = socket.receive_batch(&mut buffers).expect("received");
                *count += batch.iter().filter(|f| f.bytes.len() == BYTES).count();
                if batch.drained {
                    break;
                }
            }
        }
    };
    for _ in 0..bursts {
        for (socket, to) in sockets.iter().zip([2, 1]) {
            let frames = vec![frame(to, BYTES); burst];
            let mut rest = &frames[..];
            while !rest.is_empty() {
                let sent = socket.send_batch(rest.iter().map(Vec::as_slice));
                rest = &rest[sent.expect("room")..];
            }
        }
        thread::sleep(Duration::from_millis(2));
        count(&mut received);
    }
    let (sent_at, mut silence) = (Instant::now(), 0);
    while silence < SILENCE {
        let mut polled = [0, 1].map(|i| PollFd::readable(sockets[i].as_fd()));
        wait(&mut polled, Some(Duration::from_millis(50)), None).expect("waited");
        let before = received;
        count(&mut received);
        let missing = received.iter().zip(expected).any(|(got, due)| *got < due);
        if received != before || (missing && sent_at.elapsed() < PATIENCE) {
            silence = 0;
        } else {
            silence += 1;
        }
    }
    received
}

/// What came through, the statistics of all switches, and the packet-hops.
fn flood(options: DriverOptions) -> ([usize; 2], Vec<SwitchReport>, u64) {
    let sockets = ["h1", "h2"].map(open);
    let (network, _) = chain(200_000);
    let (handle, running) = start(network, options);
    let received = exchange_bursts(&sockets, 100, 20, [2000, 2000]);
    handle.stop();
    let network = running.join().expect("no panic");
    let reports = network.switches().map(|(_, s)| SwitchReport::of(s));
    (received, reports.collect(), network.work().packet_hops)
}

fn two_threads_forward_what_one_forwards() {
    let _space = Space::enter("a");
    // Threads that do all they have every millisecond only, five times the delay of a link, too.
    let alone = [(1, 0), (2, 0), (1, 1000), (2, 1000)];
    let every = [false, true].map(|senders| alone.map(|(n, us)| (n, us, senders)));
    for (threads, coalesce_us, senders) in every.into_iter().flatten() {
        let options = options(threads, coalesce_us);
        let (received, reports, hops) = flood(DriverOptions { senders, ..options });
        assert_eq!(received, [2000, 2000], "{threads} threads: {reports:?}");
        assert_eq!(hops, 4000 * SWITCHES as u64, "{threads} threads");
        for report in &reports {
            assert_eq!(report.drops, [], "{threads} threads, {}", report.switch);
            let sent = report.ports.iter().map(|port| port.transmitted.packets);
            assert_eq!(
                sent.sum::<u64>(),
                4000,
                "{threads} threads, {}",
                report.switch
            );
        }
    }
}

/// Whatever a switch has sent has left or is counted as dropped, also by a thread that only sends and
/// through an interface that goes down or away meanwhile.
fn what_is_not_sent_is_counted() {
    for (senders, vanish) in [(false, false), (true, false), (false, true), (true, true)] {
        let space = Space::enter("d");
        let sockets = ["h1", "h2"].map(open);
        let (network, switches) = chain(200_000);
        let options = DriverOptions {
            senders,
            ..options(1, 1000)
        };
        let (handle, running) = start(network, options);
        let before = exchange_bursts(&sockets, 10, 20, [200, 200]);
        assert_eq!(before, [200, 200]);
        ip(&match vanish {
            true => format!("-n {} link del p2", space.name),
            false => format!("-n {} link set p2 down", space.name),
        });
        // From h1 only: the other one's interface is gone, too, or its carrier.
        let frames = vec![frame(2, BYTES); 50];
        let mut sent = 0;
        while sent < 1000 {
            sent += sockets[0]
                .send_batch(frames.iter().map(Vec::as_slice))
                .expect("room");
        }
        let last = |s: &mut ebb_engine::Switch| SwitchReport::of(s).ports[1].transmitted.packets;
        let switch = switches[SWITCHES - 1];
        let begun = Instant::now();
        while handle.with_blocking(switch, last).expect("it runs") < 200 + sent as u64 {
            assert!(begun.elapsed() < PATIENCE, "they do not come through");
            thread::sleep(Duration::from_millis(5));
        }
        // The last one has to cross its link.
        thread::sleep(Duration::from_millis(20));
        handle.stop();
        let network = running.join().expect("no panic");
        let (_, last) = network.switches().last().expect("switches");
        let report = SwitchReport::of(last);
        let drops: Vec<_> = report.drops.iter().collect();
        let found = drops
            .iter()
            .map(|row| (row.port, row.reason.as_str(), row.count.packets));
        let expected = [(2, "port-down", sent as u64)];
        assert!(
            found.eq(expected),
            "senders {senders}, gone {vanish}: {drops:?}"
        );
        assert_eq!(drops[0].count.bytes, (sent * BYTES) as u64);
    }
}

fn threads_with_nothing_to_do_sleep() {
    let _space = Space::enter("c");
    let sockets = ["h1", "h2"].map(open);
    let (network, switches) = chain(200_000);
    let (handle, running) = start(network, options(2, 0));
    assert_eq!(exchange_bursts(&sockets, 2, 2, [4, 4]), [4, 4]);
    let used = || rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).tv_nsec;
    let before = used();
    thread::sleep(Duration::from_millis(500));
    let busy_ms = (used() - before).rem_euclid(1_000_000_000) / 1_000_000;
    assert!(busy_ms < 100, "{busy_ms} ms of 500 ms");
    // They know what time it is all the same.
    for switch in [switches[0], switches[SWITCHES - 1]] {
        let clock = || rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now = |s: &mut ebb_engine::Switch| s.now().as_nanos();
        let (before, started) = (handle.with_blocking(switch, now).expect("awake"), clock());
        thread::sleep(Duration::from_millis(50));
        let after = handle.with_blocking(switch, now).expect("awake");
        let passed = (clock() - started).tv_nsec as u64;
        let error = (after - before).abs_diff(passed);
        assert!(error < passed / 2, "{} of {passed} ns", after - before);
    }
    handle.stop();
    running.join().expect("no panic");
}

fn links_captures_and_restarts_while_it_runs() {
    let _space = Space::enter("b");
    let sockets = ["h1", "h2"].map(open);
    let (network, switches) = chain(200_000);
    let (handle, running) = start(network, options(2, 0));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let stem = std::env::temp_dir().join(format!("ebb-driver-test-{}", std::process::id()));
    let (s2, s3) = (switches[1], switches[2]);

    let capture = handle.start_capture(at(s2, 2), stem.clone());
    runtime
        .block_on(capture)
        .expect("it runs")
        .expect("a capture");
    let down = LinkState {
        up: false,
        ..LinkState::default()
    };
    let set = handle.set_link(at(s3, 1), down);
    runtime.block_on(set).expect("it runs").expect("a link");
    let states = runtime.block_on(handle.link_states()).expect("it runs");
    assert_eq!(states.len(), 2 * (SWITCHES - 1 + 2));
    let downs: Vec<_> = states.iter().filter(|info| !info.state.up).collect();
    assert_eq!(
        (downs.len(), downs[0].from, downs[0].to),
        (1, at(s3, 1), at(s2, 2))
    );

    assert_eq!(
        exchange_bursts(&sockets, 10, 5, [0, 50]),
        [0, 50],
        "one direction is down"
    );
    let lost = handle
        .with_blocking(s3, |s| SwitchReport::of(s).drops)
        .expect("it runs");
    assert_eq!((lost[0].port, lost[0].reason.as_str()), (1, "link-down"));
    assert_eq!(lost[0].count.packets, 50);
    let stop = handle.stop_capture(at(s2, 2));
    runtime
        .block_on(stop)
        .expect("it runs")
        .expect("it was running");
    assert_eq!(frames_in(&stem, "out"), 50);
    assert_eq!(
        frames_in(&stem, "in"),
        0,
        "the link is down before this end"
    );

    let up = handle.set_link(at(s3, 1), LinkState::default());
    runtime.block_on(up).expect("it runs").expect("a link");
    assert_eq!(exchange_bursts(&sockets, 10, 5, [50, 50]), [50, 50]);

    runtime
        .block_on(handle.restart_switch(s2))
        .expect("it runs")
        .expect("a switch");
    assert_eq!(exchange_bursts(&sockets, 2, 5, [0, 0]), [0, 0]);
    let report = handle
        .with_blocking(s2, |s| SwitchReport::of(s))
        .expect("it runs");
    let dropped: u64 = report.drops.iter().map(|row| row.count.packets).sum();
    assert_eq!(
        (report.drops[0].reason.as_str(), dropped),
        ("no-program", 20)
    );
    handle.stop();
    running.join().expect("no panic");
    let again = handle.with_blocking(s2, |_| ());
    assert!(again.is_err(), "the driver has ended");
}

fn frames_in(stem: &Path, direction: &str) -> usize {
    let path = PathBuf::from(format!("{}_{direction}.pcap", stem.display()));
    let file = File::open(&path).expect("a capture");
    let mut reader = pcap_file::pcap::PcapReader::new(file).expect("a pcap file");
    let mut frames = 0;
    while let Some(packet) = reader.next_packet() {
        assert_eq!(packet.expect("whole").data.len(), BYTES);
        frames += 1;
    }
    std::fs::remove_file(path).expect("removed");
    frames
}

ebb_test_needs::tests! {
    Need::Root => [
        two_threads_forward_what_one_forwards,
        what_is_not_sent_is_counted,
        threads_with_nothing_to_do_sleep,
        links_captures_and_restarts_while_it_runs,
    ],
}
