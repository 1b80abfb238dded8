//! Hosts that share rings with the driver, beside their interfaces. Needs root and `ip`.

use std::fs::{File, Permissions};
use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use ebb_driver::DriverOptions;
use ebb_engine::SwitchReport;
use ebb_packet_io::{
    Filter, FrameIo, HostRing, MAX_FRAME_BYTES, PacketSocket, PollFd, PortOffset, ReceiveBuffers,
    ReceivedFrame, wait,
};
use ebb_testkit::{Folder, Need, PATIENCE, wait_until};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix, SocketType,
};

use crate::chain::*;
use crate::switches::frame;

const UDP: u8 = 17;
/// The port of which the ring gets packets.
const OURS: u16 = 7010;
const OTHERS: u16 = 7011;
/// If nothing came for so long, nothing more does.
const SILENCE: Duration = Duration::from_millis(300);

fn folder() -> Folder {
    let folder = Folder::new("rings");
    std::fs::set_permissions(&*folder, Permissions::from_mode(0o700)).expect("changed");
    folder
}

/// A host at p1 that wants packets to [`OURS`]; the driver knows it when this returns.
fn connect(folder: &Path) -> HostRing {
    let mut ring = HostRing::connect(&folder.join("p1")).expect("a ring");
    let filter = Filter::new().or(UDP, PortOffset::UDP, OURS..=OURS);
    ring.set_filter(&filter).expect("told");
    ring
}

/// A UDP packet to the host of this number.
fn udp(host: u8, port: u16, number: usize) -> Vec<u8> {
    let mut frame = frame(host, BYTES);
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[23] = UDP;
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame[60..64].copy_from_slice(&(number as u32).to_be_bytes());
    frame
}

/// Port and number of a packet.
fn told(frame: &[u8]) -> (u16, usize) {
    let number = u32::from_be_bytes([frame[60], frame[61], frame[62], frame[63]]);
    (u16::from_be_bytes([frame[36], frame[37]]), number as usize)
}

fn send_over(ring: &mut HostRing, frames: &[Vec<u8>]) {
    let mut rest = frames;
    while !rest.is_empty() {
        let sent = ring.send(&mut rest.iter().map(Vec::as_slice));
        rest = &rest[sent.expect("room")..];
    }
}

/// Packets that arrive over the interface: until so many are there, then for a while more.
fn from_interface(socket: &PacketSocket, count: usize) -> Vec<(u16, usize)> {
    let mut buffers = ReceiveBuffers::new(32, MAX_FRAME_BYTES);
    let mut seen = Vec::new();
    let mut end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let mut polled = [PollFd::readable(std::os::fd::AsFd::as_fd(socket))];
        wait(&mut polled, Some(SILENCE)).expect("waited");
        let batch = socket.receive_batch(&mut buffers).expect("received");
        seen.extend(batch.iter().map(|frame| told(frame.bytes)));
        if seen.len() >= count {
            end = end.min(Instant::now() + SILENCE);
        }
    }
    seen
}

/// Packets that arrive over the ring, which the process sleeps on.
fn from_ring(ring: &mut HostRing, count: usize) -> Vec<(u16, usize)> {
    let mut seen = Vec::new();
    let end = Instant::now() + PATIENCE;
    while seen.len() < count && Instant::now() < end {
        if !ring.prepare_to_wait() {
            let mut polled = [PollFd::readable(ring.descriptor())];
            wait(&mut polled, Some(PATIENCE)).expect("waited");
            let readable = polled[0].is_readable();
            ring.note_wait(readable, false).expect("it goes on");
        }
        let mut take = |frame: ReceivedFrame<'_>| seen.push(told(frame.bytes));
        ring.receive(64, &mut take).expect("received");
    }
    seen
}

fn frames_of_a_ring_cross_and_all_others_take_the_interface() {
    let alone = [
        (1, 0, false),
        (1, 1000, false),
        (2, 0, false),
        (1, 1000, true),
    ];
    for (threads, coalesce_us, senders) in alone {
        let (_space, folder) = (Space::enter(), folder());
        let [h1, h2] = ["h1", "h2"].map(open);
        let (network, _) = chain_with_rings(200_000, Some(&folder));
        let options = DriverOptions {
            senders,
            ..options(threads, coalesce_us)
        };
        let (handle, running) = start(network, options);
        let mut ring = connect(&folder);
        let all = |port| (0..200).map(|n| (port, n)).collect::<Vec<_>>();
        let what = format!("{options:?}");

        let frames: Vec<_> = (0..200).map(|n| udp(2, OTHERS, n)).collect();
        for burst in frames.chunks(10) {
            send_over(&mut ring, burst);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(from_interface(&h2, 200), all(OTHERS), "{what}");

        // One of each in turn: each way keeps its order.
        for n in 0..200 {
            send(&h2, &[udp(1, OURS, n), udp(1, OTHERS, n)]);
            if n % 10 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        assert_eq!(from_ring(&mut ring, 200), all(OURS), "{what}");
        assert_eq!(from_interface(&h1, 200), all(OTHERS), "{what}");

        // When the process has ended, its packets come to the interface.
        drop(ring);
        wait_until("the ring is closed", || {
            send(&h2, &[udp(1, OURS, 7)]);
            from_interface(&h1, 1) == [(OURS, 7)]
        });
        handle.stop();
        let network = running.join().expect("no panic");
        for (_, switch) in network.switches() {
            assert_eq!(SwitchReport::of(switch).drops, [], "{what}");
        }
    }
}

/// A connection by hand, and the memory of its ring as a file.
fn bare(folder: &Path) -> (OwnedFd, File) {
    let kind = SocketType::SEQPACKET;
    let socket = rustix::net::socket(AddressFamily::UNIX, kind, None).expect("a socket");
    let address = SocketAddrUnix::new(folder.join("p1")).expect("an address");
    rustix::net::connect(&socket, &address).expect("connected");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut greeting = [0; 64];
    let mut parts = [IoSliceMut::new(&mut greeting)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    rustix::net::recvmsg(&socket, &mut parts, &mut control, flags).expect("a greeting");
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut files) = message {
            return (socket, files.next().expect("a file").into());
        }
    }
    panic!("no file");
}

/// Processes that write over the memory of their rings, or say nonsense, lose these; who behaves loses nothing.
fn who_breaks_the_rules_of_its_ring_loses_it_and_nobody_else_does() {
    let (_space, folder) = (Space::enter(), folder());
    let h2 = open("h2");
    let (network, _) = chain_with_rings(200_000, Some(&folder));
    let (handle, running) = start(network, options(1, 0));
    let mut ring = connect(&folder);
    for round in 0..12 {
        let (socket, memory) = bare(&folder);
        let length = memory.metadata().expect("known").len();
        match round % 4 {
            // The counters of both directions, and all that may be a record.
            0 | 1 => {
                let garbage = vec![[0xff, 0x11][round % 4]; 1 << 20];
                for at in (0..length).step_by(garbage.len()) {
                    let part = garbage.len().min((length - at) as usize);
                    memory.write_all_at(&garbage[..part], at).expect("written");
                }
                // It has to look, unless it has looked already and closed the ring.
                let sent = rustix::net::send(&socket, &[0], rustix::net::SendFlags::empty());
                assert!(
                    matches!(sent, Ok(1) | Err(Errno::PIPE | Errno::CONNRESET)),
                    "{sent:?}"
                );
            }
            2 => {
                let nonsense = [9; 5000];
                rustix::net::send(&socket, &nonsense, rustix::net::SendFlags::empty())
                    .expect("sent");
            }
            // It cannot be made shorter, and goes.
            _ => assert!(memory.set_len(0).is_err()),
        }
        if round % 4 < 3 {
            // The end of the connection, perhaps after wake-ups.
            let mut file = File::from(socket);
            let mut left = [0; 64];
            wait_until("it is closed", || {
                matches!(file.read(&mut left), Ok(0) | Err(_))
            });
            assert!(file.write(&[0]).is_err());
        }
        send_over(&mut ring, &[udp(2, OTHERS, round)]);
        assert_eq!(from_interface(&h2, 1), [(OTHERS, round)]);
        send(&h2, &[udp(1, OURS, round)]);
        assert_eq!(from_ring(&mut ring, 1), [(OURS, round)]);
    }
    // Who goes before it is greeted takes the way to a ring from nobody.
    for _ in 0..50 {
        let kind = SocketType::SEQPACKET;
        let socket = rustix::net::socket(AddressFamily::UNIX, kind, None).expect("a socket");
        let address = SocketAddrUnix::new(folder.join("p1")).expect("an address");
        rustix::net::connect(&socket, &address).expect("connected");
    }
    drop(connect(&folder));
    // And there are only so many.
    let many: Vec<_> = (0..40)
        .map(|_| HostRing::connect(&folder.join("p1")))
        .collect();
    assert!(
        many.iter().all(Result::is_ok),
        "accepted, if only to be closed"
    );
    send_over(&mut ring, &[udp(2, OTHERS, 99)]);
    assert_eq!(from_interface(&h2, 1), [(OTHERS, 99)]);
    handle.stop();
    running.join().expect("no panic");
}

ebb_testkit::tests! {
    Need::Root => [
        frames_of_a_ring_cross_and_all_others_take_the_interface,
        who_breaks_the_rules_of_its_ring_loses_it_and_nobody_else_does,
    ],
}
