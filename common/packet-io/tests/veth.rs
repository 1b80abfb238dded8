//! Two ends of a veth in a network namespace of their own.

use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ebb_packet_io::{PacketSocket, PollFd, ReceiveMode, SocketOptions, wait};
use ebb_testkit::{Namespace, PATIENCE};

/// If no frame came for so long, none is on its way any more.
const SILENCE: Duration = Duration::from_millis(200);

/// Interfaces `va` and `vb`, in a namespace that the thread of the test has entered.
pub fn veth() -> Namespace {
    let space = Namespace::new("veth");
    space.add_pair("va", &space, "vb");
    space.wait_until_up();
    space.enter();
    space
}

pub fn open(interface: &str, options: &SocketOptions) -> PacketSocket {
    PacketSocket::open(interface, options).unwrap()
}

/// A socket that sees the frames of everybody, with the times of their arrival.
pub fn everyone() -> SocketOptions {
    SocketOptions {
        receive_mode: ReceiveMode::Promiscuous,
        timestamps: true,
        ..SocketOptions::default()
    }
}

/// A frame to a foreign address, so that only a promiscuous socket sees it.
pub fn frame(len: usize, fill: u8) -> Vec<u8> {
    let mut frame = vec![fill; len];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame
}

/// A frame with an 802.1Q tag, also to a foreign address.
pub fn tagged_frame() -> Vec<u8> {
    let mut tagged = frame(90, 5);
    tagged[12..18].copy_from_slice(&[0x81, 0x00, 0x20, 0x07, 0x88, 0xb5]);
    tagged
}

pub fn send(socket: &PacketSocket, frames: &[Vec<u8>]) {
    let mut rest = frames;
    while !rest.is_empty() {
        let sent = socket.send_batch(rest.iter().map(Vec::as_slice));
        rest = &rest[sent.unwrap()..];
    }
}

/// Has something read whenever there is something, until it has added this many frames or nothing comes for a while.
pub fn read_until(
    socket: &PacketSocket,
    count: usize,
    mut read: impl FnMut(&mut Vec<Vec<u8>>),
) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let end = Instant::now() + PATIENCE;
    while frames.len() < count && Instant::now() < end {
        if !is_readable(socket, SILENCE) {
            break;
        }
        read(&mut frames);
    }
    frames
}

/// Waits for a frame, so long at most; whether there is one.
pub fn is_readable(socket: &PacketSocket, patience: Duration) -> bool {
    let mut polled = [PollFd::readable(socket.as_fd())];
    wait(&mut polled, Some(patience)).unwrap();
    polled[0].is_readable()
}

/// The clock that the kernel's time stamps are of (CLOCK_REALTIME), in nanoseconds.
pub fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap().as_nanos() as u64
}
