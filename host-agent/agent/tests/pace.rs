//! `ebb-agent pace` between a host and a network. Needs root.
//!
//! ```text
//!  host               pace                      marker               net
//!  10.0.0.1 eth1 ──── in ebb-agent pace out ──── left marker right ──── eth1 10.0.0.2
//! ```
//!
//! The marker is a thread of the test: it forwards, sets CE where the test wants it, checks that what comes out of the
//! bump in the wire is as it should be on a wire, and notes when the kernel got it.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ebb_packet_io::{
    MAX_OFFLOADED_FRAME_BYTES, Offload, OutgoingFrame, PacketSocket, PollFd, ReceiveBuffers,
    ReceiveMode, SocketOptions, wait,
};
use ebb_testkit::{Folder, Namespace, Need, PATIENCE, Signal};
use ebb_wire::checksum::internet_checksum;
use ebb_wire::{
    Ecn, EthernetHeader, Ipv4Header, MacAddress, Protocol, TcpFlags, TcpHeader, TcpOptions,
};
use serde_json::Value;

use crate::hosts::{AGENT, Running};

/// The flow that the marker marks, and one that it does not.
const MARKED: u16 = 5001;
const UNMARKED: u16 = 5002;
const FRAME_BYTES: usize = 1514;
const BURST_BYTES: usize = 14_480;
/// The time between bursts: ten frames every 5 ms are 24 Mbit/s, or a frame every 0.5 ms.
const BURST_EVERY: Duration = Duration::from_millis(5);

/// The namespaces of the picture.
struct Network {
    host: Namespace,
    pace: Namespace,
    marker: Namespace,
    net: Namespace,
}

impl Network {
    fn new() -> Self {
        let [host, pace, marker, net] = ["host", "pace", "marker", "net"].map(Namespace::new);
        for space in [&host, &net] {
            space.run("sysctl -qw net.ipv4.tcp_ecn=1");
        }
        host.add_pair("eth1", &pace, "in");
        pace.add_pair("out", &marker, "left");
        marker.add_pair("right", &net, "eth1");
        host.ip("address add 10.0.0.1/24 dev eth1");
        net.ip("address add 10.0.0.2/24 dev eth1");
        Self {
            host,
            pace,
            marker,
            net,
        }
    }

    /// Starts `ebb-agent pace`, with parameters under which a flow is associated with its first ECN-Echo for as long as
    /// the test needs, and the rate has a memory of several bursts. It runs with a real-time priority, so that what
    /// else the machine does is not what is tested.
    fn pace(&self) -> Pace {
        let folder = Folder::new("pace");
        let params = folder.write(
            "params.json",
            r#"{"engine": {"realtime_priority": 50}, "pacer": {"association_probability": 1,
            "association_timeout_ns": 20000000000, "update_period_ns": 1000000, "eta": 0.05, "beta_hz": 4}}"#,
        );
        self.start("--params", &params)
    }

    /// Starts `ebb-agent pace` with a guarantee of 20 Mbit/s, a burst of ten full frames, and a peak of 200 Mbit/s.
    fn guarantee(&self) -> Pace {
        let folder = Folder::new("guarantee");
        let toml = "rate_bps = 20_000_000\nburst_bytes = 15_380\npeak_bps = 200_000_000\n";
        self.start("--guarantee", &folder.write("guarantee.toml", toml))
    }

    fn start(&self, option: &str, file: &Path) -> Pace {
        Self::start_between(&self.pace, ("in", "out"), option, file)
    }

    /// Starts `ebb-agent pace` between the inside and the outside interface of a namespace.
    fn start_between(
        space: &Namespace,
        (inside, outside): (&str, &str),
        option: &str,
        file: &Path,
    ) -> Pace {
        let mut command = space.command(AGENT);
        command.args(["pace", "--inside", inside, "--outside", outside, "--json"]);
        command
            .arg(option)
            .arg(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Pace(Running::ready(command, 1))
    }
}

fn socket(space: &Namespace, interface: &'static str) -> PacketSocket {
    let options = SocketOptions {
        receive_mode: ReceiveMode::Promiscuous,
        timestamps: true,
        offloads: true,
        ..SocketOptions::default()
    };
    let open = move || PacketSocket::open(interface, &options).unwrap();
    space.thread(open).join().unwrap()
}

struct Pace(Running);

impl Pace {
    fn report(&mut self) -> Value {
        self.0.signal(Signal::USR1);
        self.0.line()
    }

    fn end(mut self) -> Value {
        self.0.signal(Signal::TERM);
        let report = self.0.line();
        assert!(self.0.end());
        report
    }
}

/// Packets of one flow at the marker.
#[derive(Clone, Debug)]
struct Seen {
    port: u16,
    at_ns: u64,
    seq: u32,
    bytes: usize,
    /// Bytes on the wire of void frames between this and the data before.
    void_bytes: u64,
}

struct Marker {
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Asks for a mark on the next frame of the flow that may be marked.
    mark: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Marker {
    fn start(network: &Network) -> Self {
        let left = socket(&network.marker, "left");
        let right = socket(&network.marker, "right");
        let marker = Marker {
            seen: Arc::default(),
            mark: Arc::default(),
            stop: Arc::default(),
            thread: None,
        };
        let (seen, mark, stop) = (
            Arc::clone(&marker.seen),
            Arc::clone(&marker.mark),
            Arc::clone(&marker.stop),
        );
        let run = move || {
            let mut buffers = ReceiveBuffers::new(32, MAX_OFFLOADED_FRAME_BYTES);
            let mut void_bytes = 0;
            while !stop.load(Ordering::Relaxed) {
                let mut polled = [
                    PollFd::readable(left.as_fd()),
                    PollFd::readable(right.as_fd()),
                ];
                wait(&mut polled, Some(Duration::from_millis(50))).unwrap();
                for frame in left.receive_batch(&mut buffers).unwrap().iter() {
                    assert_eq!(frame.offload, Offload::NONE, "not as on a wire");
                    assert!(frame.bytes.len() <= FRAME_BYTES);
                    if frame.bytes[..6] == frame.bytes[6..12] {
                        // As the first switch does.
                        void_bytes += frame.bytes.len() as u64 + 24;
                        continue;
                    }
                    let mut bytes = frame.bytes.to_vec();
                    if let Some(mut data) = data(&bytes, frame.realtime_ns.unwrap()) {
                        if data.port == MARKED && mark.swap(false, Ordering::Relaxed) {
                            set_congestion_experienced(&mut bytes);
                        }
                        data.void_bytes = std::mem::take(&mut void_bytes);
                        seen.lock().unwrap().push(data);
                    }
                    let _ = right.send_batch([bytes.as_slice()]);
                }
                for frame in right.receive_batch(&mut buffers).unwrap().iter() {
                    let _ = left.send_batch([OutgoingFrame {
                        bytes: frame.bytes,
                        offload: frame.offload,
                    }]);
                }
            }
        };
        Marker {
            thread: Some(std::thread::spawn(run)),
            ..marker
        }
    }

    fn stop(mut self) -> Vec<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

/// The data of a frame, if it has any. Fails if its TCP checksum is wrong, which `parse` checks.
fn data(frame: &[u8], at_ns: u64) -> Option<Seen> {
    let ethernet = EthernetHeader::parse(frame).unwrap();
    if ethernet.header.ethertype != EthernetHeader::IPV4 {
        return None;
    }
    let ip = Ipv4Header::parse(ethernet.payload).unwrap();
    if ip.header.protocol != Protocol::TCP {
        return None;
    }
    let tcp = TcpHeader::parse(ip.payload, ip.header.src, ip.header.dst).unwrap();
    (!tcp.payload.is_empty()).then_some(Seen {
        port: tcp.header.destination_port,
        at_ns,
        seq: tcp.header.seq,
        bytes: tcp.payload.len(),
        void_bytes: 0,
    })
}

fn set_congestion_experienced(frame: &mut [u8]) {
    frame[15] |= 3;
    frame[24..26].fill(0);
    let sum = internet_checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

/// Receives on a port until the peer closes; returns all of it.
fn receiver(network: &Network, port: u16) -> JoinHandle<Vec<u8>> {
    let listen = move || TcpListener::bind(("10.0.0.2", port)).unwrap();
    let listener = network.net.thread(listen).join().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

fn burst(stream: &mut TcpStream, count: usize) {
    for number in 0..count {
        let due = Instant::now() + BURST_EVERY;
        stream
            .write_all(&pattern(BURST_BYTES))
            .unwrap_or_else(|e| panic!("{number}: {e}"));
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// The part of the frames of a flow that came within 100 us of the one before.
fn back_to_back(seen: &[Seen], port: u16) -> f64 {
    let times: Vec<u64> = seen
        .iter()
        .filter(|data| data.port == port)
        .map(|data| data.at_ns)
        .collect();
    let close = times
        .windows(2)
        .filter(|pair| pair[1].saturating_sub(pair[0]) < 100_000);
    close.count() as f64 / (times.len() - 1) as f64
}

/// How many segments came after later ones and had not been seen before: overtaken ones, not those sent again.
fn overtaken(seen: &[Seen], port: u16) -> usize {
    let mut end: Option<u32> = None;
    let mut starts = BTreeSet::new();
    let mut overtaken = 0;
    for data in seen.iter().filter(|data| data.port == port) {
        let next = data.seq.wrapping_add(data.bytes as u32);
        let is_late = end.is_some_and(|end| end.wrapping_sub(next) < 1 << 31);
        overtaken += usize::from(is_late && !starts.contains(&data.seq));
        starts.insert(data.seq);
        if !is_late {
            end = Some(next);
        }
    }
    overtaken
}

fn a_kernel_flow_is_paced_after_an_echo_and_others_are_not() {
    const BURSTS: usize = 60;
    let network = Network::new();
    let mut pace = network.pace();
    let marker = Marker::start(&network);
    let receivers = [receiver(&network, MARKED), receiver(&network, UNMARKED)];
    let connect = || [MARKED, UNMARKED].map(|port| TcpStream::connect(("10.0.0.2", port)).unwrap());
    let [mut marked, mut unmarked] = network.host.thread(connect).join().unwrap();

    // Before the mark, both leave as they come.
    burst(&mut marked, BURSTS);
    assert_eq!(pace.report()["paced_segments"], 0);
    marker.mark.store(true, Ordering::Relaxed);
    burst(&mut marked, 10);
    assert!(pace.report()["associations"].as_u64().unwrap() > 0);
    let first = marker.seen.lock().unwrap().len();
    let other = std::thread::spawn(move || {
        burst(&mut unmarked, BURSTS);
    });
    burst(&mut marked, BURSTS);
    other.join().unwrap();
    drop(marked);
    let expected = [2 * BURSTS + 10, BURSTS];
    for (receiver, bursts) in receivers.into_iter().zip(expected) {
        assert!(receiver.join().unwrap() == pattern(BURST_BYTES).repeat(bursts));
    }
    let seen = marker.stop();
    let report = pace.end();

    // How evenly they leave is measured by `make bench`; a busy machine spoils it.
    let paced = back_to_back(&seen[first..], MARKED);
    let unpaced = back_to_back(&seen[first..], UNMARKED);
    eprintln!("back to back: {paced:.2} of the paced, {unpaced:.2} of the others");
    assert_eq!(overtaken(&seen, MARKED), 0);
    assert_eq!(overtaken(&seen, UNMARKED), 0);
    assert!(report["paced_segments"].as_u64().unwrap() > 500, "{report}");
    assert!(
        report["undelayed_segments"].as_u64().unwrap() > 1000,
        "{report}"
    );
    assert_eq!(report["dropped_fifo_full"], 0, "{report}");
    // The host leaves frames to hardware to cut; they leave as segments.
    let taken = report["inside"]["received_frames"].as_u64().unwrap();
    let left = report["outside"]["sent_frames"].as_u64().unwrap();
    assert!(left > taken, "{report}");
}

fn a_guarantee_paces_all_that_a_kernel_sends() {
    const BURSTS: usize = 60;
    let network = Network::new();
    let pace = network.guarantee();
    let marker = Marker::start(&network);
    let receiver = receiver(&network, UNMARKED);
    let connect = || TcpStream::connect(("10.0.0.2", UNMARKED)).unwrap();
    let mut stream = network.host.thread(connect).join().unwrap();
    stream
        .write_all(&pattern(BURST_BYTES).repeat(BURSTS))
        .unwrap();
    drop(stream);
    assert!(receiver.join().unwrap() == pattern(BURST_BYTES).repeat(BURSTS));
    let seen = marker.stop();
    let report = pace.end();
    // 38 bytes of Ethernet and 52 of headers (with a timestamp) for each segment.
    let wire_bytes = |data: &Seen| (data.bytes + 90) as u64;
    let total: u64 = seen.iter().map(wire_bytes).sum();
    let took_ns = seen.last().unwrap().at_ns - seen[0].at_ns;
    // Bytes that 20 Mbit/s carry meanwhile, and the burst. A frame that a busy machine sends late makes it longer.
    let allowed = 15_380 + took_ns * 20 / 8_000;
    eprintln!("{total} bytes in {took_ns} ns, {allowed} allowed");
    assert!(total <= allowed + wire_bytes(&seen[0]));
    assert_eq!(overtaken(&seen, UNMARKED), 0);
    assert!(report["paced_bytes"].as_u64().unwrap() >= total, "{report}");
    assert_eq!(report["dropped_queue_full"], 0, "{report}");
}

/// 20 Mbit/s on a link of 200: void frames take nine places in ten.
fn void_frames_keep_frames_apart_on_the_link() {
    const BURSTS: usize = 60;
    let network = Network::new();
    let folder = Folder::new("void");
    let file = folder.write(
        "guarantee.toml",
        "rate_bps = 20_000_000\nburst_bytes = 15_380\npeak_bps = 200_000_000\n\
         [void_frames]\nlink_bps = 200_000_000\nbatch_ns = 1_000_000\n",
    );
    let params = folder.write("params.json", r#"{"engine": {"realtime_priority": 50}}"#);
    let mut command = network.pace.command(AGENT);
    command.args("pace --inside in --outside out --json --params".split(' '));
    command.arg(&params).arg("--guarantee").arg(&file);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let pace = Pace(Running::ready(command, 1));
    let marker = Marker::start(&network);
    let receiver = receiver(&network, UNMARKED);
    let connect = || TcpStream::connect(("10.0.0.2", UNMARKED)).unwrap();
    let mut stream = network.host.thread(connect).join().unwrap();
    let sent = pattern(BURST_BYTES).repeat(BURSTS);
    stream.write_all(&sent).unwrap();
    drop(stream);
    assert!(receiver.join().unwrap() == sent);
    let seen = marker.stop();
    let report = pace.end();
    assert!(report["void_frames"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["dropped_queue_full"], 0, "{report}");
    let wire_bytes = |data: &Seen| (data.bytes + 90) as u64;
    let total: u64 = seen.iter().map(wire_bytes).sum();
    let voids: u64 = seen.iter().map(|data| data.void_bytes).sum();
    eprintln!("{voids} bytes of void frames between {total} of data");
    // A link that gets its batch late was idle meanwhile, without void frames.
    assert!(voids > 3 * (total - 15_380), "{voids} {total}");
    assert!(voids <= 10 * total, "{voids} {total}");
    assert_eq!(overtaken(&seen, UNMARKED), 0);
}

/// A pacer at each end: the sender has no rate before the pacer of the receiver grants one.
fn pacers_of_two_machines_coordinate() {
    const BURSTS: usize = 20;
    let network = Network::new();
    let folder = Folder::new("hose");
    let file = |name: &str, me: u8, other: u8| {
        let text = format!(
            "rate_bps = 20_000_000\nburst_bytes = 15_380\npeak_bps = 200_000_000\n\
             [hose]\naddress = \"10.0.0.{me}\"\npeers = [\"10.0.0.{other}\"]\n\
             period_ns = 20_000_000\nmessage_ns = 40_000_000\n"
        );
        folder.write(name, &text)
    };
    let sender = network.start("--guarantee", &file("1.toml", 1, 2));
    let ends = ("right", "left");
    let option = "--guarantee";
    let receiving = Network::start_between(&network.marker, ends, option, &file("2.toml", 2, 1));
    let receiver = receiver(&network, UNMARKED);
    let connect = || TcpStream::connect(("10.0.0.2", UNMARKED)).unwrap();
    let mut stream = network.host.thread(connect).join().unwrap();
    let sent = pattern(BURST_BYTES).repeat(BURSTS);
    stream.write_all(&sent).unwrap();
    drop(stream);
    assert!(receiver.join().unwrap() == sent);
    for (pace, who) in [(sender, "sender"), (receiving, "receiver")] {
        let report = pace.end();
        assert!(report["messages"].as_u64().unwrap() > 0, "{who}: {report}");
        // Messages of the other one go no further.
        let passed = report["inside"]["sent_frames"].as_u64();
        let came = report["outside"]["received_frames"].as_u64();
        assert!(passed < came, "{who}: {report}");
    }
}

fn a_guarantee_that_cannot_be_is_refused_with_its_file() {
    let folder = Folder::new("guarantee");
    for (text, expected) in [
        (
            "rate_bps = 0\nburst_bytes = 2000\npeak_bps = 9",
            "rate_bps is 0",
        ),
        ("rate_bps = 9\nburst_bytes = 100\npeak_bps = 9", "(1538)"),
        (
            "rate_bps = 9\nburst_bytes = 2000\npeak_bps = 8",
            "less than rate_bps (9)",
        ),
        ("rate = 9", "rate_bps"),
        (
            "rate_bps = 9\nburst_bytes = 2000\npeak_bps = 10\n[void_frames]\nlink_bps = 9",
            "void_frames.link_bps is 9, less than peak_bps (10)",
        ),
        (
            "rate_bps = 9\nburst_bytes = 2000\npeak_bps = 10\n[void_frames]\nlink_bps = 1_000_000",
            "void_frames.batch_ns is 50000, expected at least 24608000",
        ),
        (
            "rate_bps = 9\nburst_bytes = 2000\npeak_bps = 10\n\
             [hose]\naddress = \"10.0.0.1\"\npeers = [\"10.0.0.2\"]\nmessage_ns = 1",
            "hose: messages of 1 peers every 1000000 ns take 1344000 bit/s",
        ),
    ] {
        let file = folder.write("g.toml", text);
        let output = Command::new(AGENT)
            .args(["pace", "--inside", "a", "--outside", "b", "--guarantee"])
            .arg(file)
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        assert!(
            error.contains("g.toml") && error.contains(expected),
            "{error}"
        );
    }
}

fn what_is_not_tcp_passes_in_both_directions() {
    let network = Network::new();
    let pace = network.pace();
    let marker = Marker::start(&network);
    let bind = |space: &Namespace, address| {
        let bind = move || UdpSocket::bind((address, 6000)).unwrap();
        space.thread(bind).join().unwrap()
    };
    let host = bind(&network.host, "10.0.0.1");
    let peer = bind(&network.net, "10.0.0.2");
    for socket in [&host, &peer] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    let mut buffer = [0; 2000];
    for len in [0, 1, 1000, 1472] {
        let sent = pattern(len);
        host.send_to(&sent, "10.0.0.2:6000").unwrap();
        let (received, from) = peer.recv_from(&mut buffer).unwrap();
        assert_eq!(buffer[..received], sent);
        peer.send_to(&sent, from).unwrap();
        let (received, _) = host.recv_from(&mut buffer).unwrap();
        assert_eq!(buffer[..received], sent);
    }
    marker.stop();
    let report = pace.end();
    // There are the four datagrams, and an ARP packet at least.
    assert!(report["inside"]["received_frames"].as_u64().unwrap() >= 5);
    assert_eq!(
        report["inside"]["received_frames"],
        report["outside"]["sent_frames"]
    );
    assert_eq!(
        report["outside"]["received_frames"],
        report["inside"]["sent_frames"]
    );
    assert_eq!(report["undelayed_segments"], 0);
}

/// A segment between 10.0.0.1:1000 and 10.0.0.2:80.
fn segment(leaves: bool, flags: TcpFlags, seq: u32, payload: &[u8]) -> Vec<u8> {
    let hosts = [([10, 0, 0, 1].into(), 1000), ([10, 0, 0, 2].into(), 80)];
    let [(src, source_port), (dst, destination_port)] =
        if leaves { hosts } else { [hosts[1], hosts[0]] };
    let mut frame = Vec::new();
    EthernetHeader {
        dst: MacAddress([2, 0, 0, 0, 0, 9]),
        src: MacAddress([2, 0, 0, 0, 0, 8]),
        ethertype: EthernetHeader::IPV4,
    }
    .emit(&mut frame);
    let tcp = TcpHeader {
        source_port,
        destination_port,
        seq,
        ack: 1,
        flags,
        window: 1000,
        options: TcpOptions::default(),
    };
    Ipv4Header::new(src, dst, Protocol::TCP, 0, Ecn::Ect0)
        .emit(tcp.emitted_bytes() + payload.len(), &mut frame);
    tcp.emit(src, dst, payload, &mut frame);
    frame
}

fn the_end_lets_out_what_waits_in_order() {
    let network = Network::new();
    let pace = network.pace();
    let (host, net) = (
        socket(&network.host, "eth1"),
        socket(&network.marker, "left"),
    );
    let echo = segment(false, TcpFlags::ACK | TcpFlags::ECE, 1, &[]);
    net.send_batch([echo.as_slice()]).unwrap();
    let mut buffers = ReceiveBuffers::new(64, MAX_OFFLOADED_FRAME_BYTES);
    let receive = |socket: &PacketSocket, buffers: &mut ReceiveBuffers, count: usize| {
        let mut frames: Vec<(u64, Vec<u8>)> = Vec::new();
        let end = Instant::now() + PATIENCE;
        while frames.len() < count && Instant::now() < end {
            let mut polled = [PollFd::readable(socket.as_fd())];
            wait(&mut polled, Some(Duration::from_millis(100))).unwrap();
            let batch = socket.receive_batch(buffers).unwrap();
            let batch = batch.iter();
            frames.extend(batch.map(|f| (f.realtime_ns.unwrap(), f.bytes.to_vec())));
        }
        frames
    };
    assert_eq!(receive(&host, &mut buffers, 1)[0].1, echo);
    let mut sent: Vec<_> = (0..20)
        .map(|number| segment(true, TcpFlags::ACK, 1460 * number, &pattern(1460)))
        .collect();
    sent.push(segment(true, TcpFlags::ACK | TcpFlags::FIN, 1460 * 20, &[]));
    let slices = sent.iter().map(Vec::as_slice);
    assert_eq!(host.send_batch(slices).unwrap(), sent.len());
    // Two segments leave with the tokens of the bucket; the others wait for a rate that rises from zero.
    let early = receive(&net, &mut buffers, 2);
    let report = pace.end();
    let late = receive(&net, &mut buffers, sent.len() - early.len());
    let all: Vec<_> = early.iter().chain(&late).map(|(_, frame)| frame).collect();
    assert!(
        all.iter().copied().eq(&sent),
        "{} of {}",
        all.len(),
        sent.len()
    );
    assert_eq!(report["paced_segments"], 21, "{report}");
    assert_eq!(report["backlog_bytes"], 0);
}

fn an_interface_that_does_not_exist_is_named() {
    let output = Command::new(AGENT)
        .args(["pace", "--inside", "packetio-x", "--outside", "packetio-y"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("`packetio-x`"), "{error}");
    assert_eq!(error.lines().count(), 1);
}

ebb_testkit::tests! {
    Need::Root => [
        a_kernel_flow_is_paced_after_an_echo_and_others_are_not,
        a_guarantee_paces_all_that_a_kernel_sends,
        void_frames_keep_frames_apart_on_the_link,
        pacers_of_two_machines_coordinate,
        what_is_not_tcp_passes_in_both_directions,
        the_end_lets_out_what_waits_in_order,
    ],
    Need::Nothing => [
        an_interface_that_does_not_exist_is_named,
        a_guarantee_that_cannot_be_is_refused_with_its_file,
    ],
}
