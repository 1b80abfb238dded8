//! Packets of a server to an address that others name as theirs, counted on the wire, and the
//! answers its owner still gets. Needs root.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::sync::Arc;

use ebb_packet_io::{PacketSocket, PollFd, ReceiveBuffers, SocketOptions, wait};
use ebb_testkit::{Namespace, Need, PATIENCE};
use ebb_transport::{FetchRequest, SendRequest, Suite, TransportKind};
use ebb_units::Instant;
use ebb_wire::{EbbHeader, EthernetHeader, Ipv4Header, PacketType};

use crate::hosts::{Hosts, stderr, write_random};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
/// The address that the requests name as theirs. Nobody has it; the way to it is over host a.
const FORGED: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 99);
const INITIAL_WINDOW: usize = 12;
/// Headers that a flow sends to a peer that is never heard: 26 (`docs/ndp.md`, `docs/scdp.md`), and a RESET.
const HEADERS: usize = 27;
const HEADER_PACKET_BYTES: usize = 68;

/// A request for `large.bin`, to be answered to this port.
fn request(reply_port: u16) -> SendRequest {
    let request = FetchRequest {
        name: "large.bin".to_owned(),
        reply_port,
        priority: 0,
        session: 0,
        sender: 0,
        senders: 1,
    };
    SendRequest {
        to: SocketAddrV4::new(SERVER, 7000),
        source_port: None,
        source: Arc::new(request.encode().unwrap()),
        priority: 0,
        part: None,
        via: ebb_transport::Via::Any,
    }
}

/// The packets of a host at `FORGED` that asks for `large.bin` this many times at once.
fn requests(transport: TransportKind, count: u16) -> Vec<Vec<u8>> {
    let suite = Suite::default();
    let ports = (20_000, 60_000);
    let mut forger = transport.transport(FORGED, &suite, ports, 1).unwrap();
    let mut packets = Vec::new();
    for number in 0..count {
        let now = Instant::from_micros(1);
        forger.send(now, request(10_000 + number)).unwrap();
        let mut packet = Vec::new();
        assert!(forger.poll_transmit(now, &mut packet).is_some());
        packets.push(packet);
    }
    packets
}

/// Packets to the forged address.
#[derive(Debug, Default)]
struct Seen {
    /// Payload bytes of DATA and SYMBOL packets.
    payloads: Vec<usize>,
    /// IPv4 lengths of all other packets.
    others: Vec<usize>,
}

impl Seen {
    /// Watches until the server gives a flow up, which it tells with a RESET after 4 s.
    fn watch(&mut self, socket: &PacketSocket) {
        let mut buffers = ReceiveBuffers::new(64, 2048);
        let end = std::time::Instant::now() + PATIENCE;
        let mut given_up = false;
        while !given_up {
            let waited_enough = std::time::Instant::now() >= end;
            assert!(!waited_enough, "it is never given up: {self:?}");
            let mut polled = [PollFd::readable(socket.as_fd())];
            wait(&mut polled, Some(PATIENCE)).unwrap();
            for frame in socket.receive_batch(&mut buffers).unwrap().iter() {
                given_up |=
                    self.note(&frame.bytes[EthernetHeader::BYTES..]) == Some(PacketType::Reset);
            }
        }
    }

    /// Counts a packet if it goes from the server to the forged address; returns its type.
    fn note(&mut self, packet: &[u8]) -> Option<PacketType> {
        let ip = Ipv4Header::parse(packet).ok()?;
        if (ip.header.src, ip.header.dst) != (SERVER, FORGED) {
            return None;
        }
        let packet = EbbHeader::parse(ip.payload, false).unwrap();
        match (packet.header.packet_type, packet.payload) {
            (PacketType::Data | PacketType::Symbol, Some(payload)) => {
                self.payloads.push(payload.len());
            }
            _ => self.others.push(Ipv4Header::BYTES + ip.payload.len()),
        }
        Some(packet.header.packet_type)
    }
}

fn forged_requests_over_ndp_earn_a_window_and_headers() {
    forged_requests_earn_a_window_and_headers(TransportKind::Ndp);
}

fn forged_requests_over_scdp_earn_a_window_and_headers() {
    forged_requests_earn_a_window_and_headers(TransportKind::Scdp);
}

fn forged_requests_earn_a_window_and_headers(transport: TransportKind) {
    let hosts = Hosts::pair();
    let served = hosts.dir.make_dir("served");
    let content = write_random(&served.join("large.bin"), 1_000_000);
    // The Ethernet header: to the server, from an address that nobody has, IPv4.
    let mut ethernet = mac(hosts.space("b"));
    ethernet.extend_from_slice(&[2, 0, 0, 0, 0, 99, 8, 0]);
    let server = hosts.receive(&format!(
        "--transport {transport} --serve {}",
        served.display()
    ));
    let frames: Vec<Vec<u8>> = requests(transport, 400)
        .iter()
        .map(|packet| [&ethernet[..], packet].concat())
        .collect();
    let watched = hosts.space("a").thread(move || {
        let socket = PacketSocket::open("eth1", &SocketOptions::default()).unwrap();
        let mut seen = Seen::default();
        // One half comes at once, the other when the answer to the first has been given up.
        for half in frames.chunks(200) {
            for frame in half {
                socket.send_batch([frame.as_slice()]).unwrap();
            }
            seen.watch(&socket);
        }
        seen
    });
    let Seen { payloads, others } = watched.join().unwrap();
    // The owner of the address comes: what it asks for first is refused, and then it is known.
    let address = |what: &str| hosts.space("a").ip(&format!("address {what}/32 dev eth1"));
    // An agent takes the first address; the other one is the gateway of the server.
    address("add 10.0.0.99");
    address("del 10.0.0.2");
    address("add 10.0.0.2");
    let fetch = || {
        let args = format!("fetch large.bin --transport {transport} --from {SERVER}:7000 -o -");
        hosts.agent("a", &args).output().unwrap()
    };
    let (first, second) = (fetch(), fetch());
    let why = stderr(&first);
    assert!(why.contains("was not answered; try again"), "{why}");
    assert!(second.stdout == content, "{}", stderr(&second));
    drop(server);
    // No more of the object is sent than a window. Refusals have less than 100 bytes and come one at a time, each until
    // it is given up.
    let (whole, refusals): (Vec<usize>, Vec<usize>) =
        payloads.iter().partition(|&&bytes| bytes > 100);
    assert_eq!(whole.len(), INITIAL_WINDOW, "{transport} {payloads:?}");
    assert!(
        (1..=5).contains(&refusals.len()),
        "{transport} {payloads:?}"
    );
    // All others are a confirmation for each request, and headers.
    assert!(others.iter().all(|&bytes| bytes == HEADER_PACKET_BYTES));
    let headers = others.len() - 400;
    let most = HEADERS * (1 + refusals.len());
    assert!((HEADERS..=most).contains(&headers), "{transport} {headers}");
}

/// The SYN of a host at `FORGED` that asks for `large.bin` with it, and says that this is all.
fn request_in_syn() -> Vec<u8> {
    let mut suite = Suite::default();
    suite.tcp.data_in_syn = true;
    let ports = (20_000, 60_000);
    let mut forger = TransportKind::Reno
        .transport(FORGED, &suite, ports, 1)
        .unwrap();
    let now = Instant::from_micros(1);
    forger.send(now, request(10_000)).unwrap();
    let mut packet = Vec::new();
    assert!(forger.poll_transmit(now, &mut packet).is_some());
    packet
}

/// IPv4 lengths of what the server sends to the forged address, until it has sent nothing for longer
/// than it waits for any answer.
fn watch_tcp(socket: &PacketSocket) -> Vec<usize> {
    const QUIET: std::time::Duration = std::time::Duration::from_secs(6);
    let mut buffers = ReceiveBuffers::new(64, 2048);
    let mut lengths = Vec::new();
    let mut last = std::time::Instant::now();
    while last.elapsed() < QUIET {
        let mut polled = [PollFd::readable(socket.as_fd())];
        wait(&mut polled, Some(QUIET)).unwrap();
        for frame in socket.receive_batch(&mut buffers).unwrap().iter() {
            let packet = &frame.bytes[EthernetHeader::BYTES..];
            let Ok(ip) = Ipv4Header::parse(packet) else {
                continue;
            };
            if (ip.header.src, ip.header.dst) == (SERVER, FORGED) {
                lengths.push(Ipv4Header::BYTES + ip.payload.len());
                last = std::time::Instant::now();
            }
        }
    }
    lengths
}

/// The answer goes over a connection of its own, whose first SYN carries what fits.
fn a_forged_syn_with_a_request_earns_one_segment_and_syns() {
    let hosts = Hosts::pair();
    hosts.set_params(r#"{"nic": {"rate_bps": 100000000}, "tcp": {"data_in_syn": true}}"#);
    let served = hosts.dir.make_dir("served");
    write_random(&served.join("large.bin"), 1_000_000);
    let mut frame = mac(hosts.space("b"));
    frame.extend_from_slice(&[2, 0, 0, 0, 0, 99, 8, 0]);
    frame.extend(request_in_syn());
    let server = hosts.receive(&format!("--transport reno --serve {}", served.display()));
    let watched = hosts.space("a").thread(move || {
        let socket = PacketSocket::open("eth1", &SocketOptions::default()).unwrap();
        socket.send_batch([frame.as_slice()]).unwrap();
        watch_tcp(&socket)
    });
    let lengths = watched.join().unwrap();
    drop(server);
    let (segments, others): (Vec<usize>, Vec<usize>) =
        lengths.iter().partition(|&&bytes| bytes > 100);
    assert_eq!(segments, [1500], "the first SYN of the answer: {lengths:?}");
    // Three more SYNs, four SYN-ACKs, and what ends both connections.
    assert!((7..=12).contains(&others.len()), "{others:?}");
    let earned: usize = lengths.iter().sum();
    assert!(earned <= 2_100, "{earned} bytes: {lengths:?}");
}

/// The MAC address of a host.
fn mac(space: &Namespace) -> Vec<u8> {
    let link = space.ip("-o link show eth1");
    let mac = link.split("link/ether ").nth(1).unwrap();
    let bytes = mac[..17].split(':');
    bytes
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

ebb_testkit::tests! {
    Need::Root => [
        forged_requests_over_ndp_earn_a_window_and_headers,
        forged_requests_over_scdp_earn_a_window_and_headers,
        a_forged_syn_with_a_request_earns_one_segment_and_syns,
    ],
}
