//! What a server sends to an address that others name as theirs, counted on the wire, and what its
//! owner can still get.
//! Needs root.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use ebb_packet_io::{PacketSocket, ReceiveBuffers, SocketOptions};
use ebb_test_needs::Need;
use ebb_transport::{FetchRequest, Scheme, SendRequest, Suite};
use ebb_units::Instant;
use ebb_wire::{EbbHeader, EthernetHeader, Ipv4Header, PacketType};

mod common;
#[allow(dead_code)] // of these helpers, some are for the other tests
mod hosts;
use common::ip;
use hosts::Hosts;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
/// Nobody has it; the way to it is over host a.
const FORGED: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 99);
const INITIAL_WINDOW: usize = 12;
/// To a peer that is never heard, per flow: 26 (`docs/ndp.md`, `docs/scdp.md`), and a reset.
const HEADERS: usize = 27;
const HEADER_PACKET_BYTES: usize = 68;
/// A peer that is never heard is given up after 4 s.
const LONGER_THAN_A_FLOW: Duration = Duration::from_secs(5);

/// The packets of a host at `FORGED` that asks for `large.bin` so many times at once.
fn requests(scheme: Scheme, count: u16) -> Vec<Vec<u8>> {
    let suite = Suite::default();
    let ports = (20_000, 60_000);
    let mut forger = scheme.transport(FORGED, &suite, ports, 1).unwrap();
    let mut packets = Vec::new();
    for number in 0..count {
        let request = FetchRequest {
            name: "large.bin".to_owned(),
            reply_port: 10_000 + number,
            priority: 0,
            session: 0,
            sender: 0,
            senders: 1,
        };
        let request = SendRequest {
            to: SocketAddrV4::new(SERVER, 7000),
            source_port: None,
            source: Arc::new(request.encode().unwrap()),
            priority: 0,
            part: None,
        };
        let now = Instant::from_micros(1);
        forger.send(now, request).unwrap();
        let mut packet = Vec::new();
        assert!(forger.poll_transmit(now, &mut packet).is_some());
        packets.push(packet);
    }
    packets
}

/// What goes to the forged address during `time`: payload bytes of DATA and SYMBOL packets, and the
/// lengths of all others.
fn watch(socket: &PacketSocket, time: Duration) -> (Vec<usize>, Vec<usize>) {
    let (mut payloads, mut others) = (Vec::new(), Vec::new());
    let mut buffers = ReceiveBuffers::new(64, 2048);
    let end = std::time::Instant::now() + time;
    while std::time::Instant::now() < end {
        for frame in socket.receive_batch(&mut buffers).unwrap().iter() {
            let Ok(ip) = Ipv4Header::parse(&frame.bytes[EthernetHeader::BYTES..]) else {
                continue;
            };
            if (ip.header.src, ip.header.dst) != (SERVER, FORGED) {
                continue;
            }
            let packet = EbbHeader::parse(ip.payload, false).unwrap();
            match packet.header.packet_type {
                PacketType::Data | PacketType::Symbol if packet.payload.is_some() => {
                    payloads.push(packet.payload.unwrap().len());
                }
                _ => others.push(Ipv4Header::BYTES + ip.payload.len()),
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    (payloads, others)
}

fn forged_requests_earn_a_window_and_headers() {
    let hosts = Hosts::new();
    let served = hosts.dir.join("served");
    std::fs::create_dir(&served).unwrap();
    let content = common::write_random(&served.join("large.bin"), 1_000_000);
    let show = std::process::Command::new("ip")
        .args([
            "-n",
            &format!("{}-b", hosts.name),
            "-o",
            "link",
            "show",
            "eth1",
        ])
        .output()
        .unwrap();
    let show = String::from_utf8(show.stdout).unwrap();
    let mac = show.split("link/ether ").nth(1).unwrap();
    let mac: Vec<u8> = mac[..17]
        .split(':')
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    // To the server, from nobody in particular, IPv4.
    let mut ethernet = mac;
    ethernet.extend_from_slice(&[2, 0, 0, 0, 0, 99, 8, 0]);

    for scheme in [Scheme::Ndp, Scheme::Scdp] {
        let args = format!("--scheme {scheme} --serve {}", served.display());
        let server = hosts.receive(&args);
        let file = std::fs::File::open(format!("/run/netns/{}-a", hosts.name)).unwrap();
        let frames: Vec<Vec<u8>> = requests(scheme, 400)
            .iter()
            .map(|packet| [&ethernet[..], packet].concat())
            .collect();
        let watched = std::thread::spawn(move || {
            let kind = Some(rustix::thread::LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(file.as_fd(), kind).unwrap();
            let socket = PacketSocket::open("eth1", &SocketOptions::default()).unwrap();
            let mut seen = (Vec::new(), Vec::new());
            // All at once, and again when the first answer has been given up.
            for half in frames.chunks(200) {
                for frame in half {
                    socket.send_batch([frame.as_slice()]).unwrap();
                }
                let (payloads, others) = watch(&socket, LONGER_THAN_A_FLOW);
                seen.0.extend(payloads);
                seen.1.extend(others);
            }
            seen
        });
        let (payloads, others) = watched.join().unwrap();
        // The owner of the address comes: what it asks for first is refused, and then it is known.
        let address = |what: &str| ip(&format!("-n {}-a address {what}/32 dev eth1", hosts.name));
        let change = |from: &str, to: &str| {
            // An agent takes the first one.
            address(&format!("add {to}"));
            address(&format!("del {from}"));
            address(&format!("add {from}"));
        };
        change("10.0.0.2", "10.0.0.99");
        let fetch = || {
            let args = format!("fetch large.bin --scheme {scheme} --from {SERVER}:7000 -o -");
            hosts.agent("a", &args).output().unwrap()
        };
        let (first, second) = (fetch(), fetch());
        let why = String::from_utf8_lossy(&first.stderr);
        assert!(why.contains("was not answered; try again"), "{why}");
        let why = String::from_utf8_lossy(&second.stderr);
        assert!(second.stdout == content, "{why}");
        address("del 10.0.0.2");
        change("10.0.0.99", "10.0.0.2");
        address("del 10.0.0.99");
        drop(server);
        // No more than the window of the object; refusals have less than 100 bytes and come one at a
        // time, each until it is given up.
        let (whole, refusals): (Vec<usize>, Vec<usize>) =
            payloads.iter().partition(|&&bytes| bytes > 100);
        assert_eq!(whole.len(), INITIAL_WINDOW, "{scheme} {payloads:?}");
        assert!((1..=5).contains(&refusals.len()), "{scheme} {payloads:?}");
        // One confirmation per request, and headers.
        assert!(others.iter().all(|&bytes| bytes == HEADER_PACKET_BYTES));
        let headers = others.len() - 400;
        let most = HEADERS * (1 + refusals.len());
        assert!((HEADERS..=most).contains(&headers), "{scheme} {headers}");
    }
}

ebb_test_needs::tests! {
    Need::Root => [
        forged_requests_earn_a_window_and_headers,
    ],
}
