//! Forwards frames between two interfaces and prints the processor time per frame; or generates the frames.
//!
//! ```text
//! forward batches|ring A B SECONDS        both directions
//! forward send A BYTES PER_SECOND SECONDS MAC FROM TO     UDP packets from and to IPv4 addresses
//! ```
//! `batches` receives with `recvmmsg`, `ring` from a mapped ring; both send with `sendmmsg`. As frames are not
//! processed, the result is a lower bound for a switch (docs/bench.md).

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ebb_packet_io::{
    MAX_FRAME_BYTES, PacketSocket, PollFd, ReceiveBuffers, ReceiveMode, ReceiveRing, ReceivedFrame,
    SocketOptions, wait,
};

/// Frames at a time.
const BATCH: usize = 32;
const RING_BYTES: usize = 2 << 20;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["batches", a, b, seconds] => {
            let sockets = [open(a)?, open(b)?];
            report(seconds, |end| batches(&sockets, end))
        }
        ["ring", a, b, seconds] => {
            let sockets = [open(a)?, open(b)?];
            let mut rings = [
                ReceiveRing::map(&sockets[0], RING_BYTES)?,
                ReceiveRing::map(&sockets[1], RING_BYTES)?,
            ];
            report(seconds, |end| ring(&sockets, &mut rings, end))
        }
        ["send", a, bytes, per_second, seconds, mac, from, to] => {
            let socket = open(a)?;
            let frame = udp_frame(bytes.parse()?, mac, from.parse()?, to.parse()?)?;
            let per_second = per_second.parse()?;
            report(seconds, |end| send(&socket, &frame, per_second, end))
        }
        _ => Err("usage: forward batches|ring A B SECONDS \
                  | send A BYTES PER_SECOND SECONDS MAC FROM TO"
            .into()),
    }
}

fn open(interface: &str) -> std::io::Result<PacketSocket> {
    let options = SocketOptions {
        receive_mode: ReceiveMode::Promiscuous,
        ..SocketOptions::default()
    };
    PacketSocket::open(interface, &options)
}

/// Runs `work` for `seconds` and prints the processor time per frame. `work` returns the numbers of frames and of
/// turns of its loop.
fn report(
    seconds: &str,
    work: impl FnOnce(Instant) -> Result<(u64, u64), Failure>,
) -> Result<(), Failure> {
    ebb_packet_io::wake_up_on_time();
    let end = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
    let (frames, turns) = work(end)?;
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let cpu_ns = cpu.tv_sec as f64 * 1e9 + cpu.tv_nsec as f64;
    println!(
        r#"{{"frames":{frames},"cpu_ns_per_frame":{:.0},"frames_per_turn":{:.2}}}"#,
        cpu_ns / frames.max(1) as f64,
        frames as f64 / turns.max(1) as f64,
    );
    Ok(())
}

fn sleep(sockets: &[PacketSocket; 2]) -> std::io::Result<()> {
    let mut polled = sockets.each_ref().map(|s| PollFd::readable(s.as_fd()));
    wait(&mut polled, Some(Duration::from_millis(10)))
}

fn batches(sockets: &[PacketSocket; 2], end: Instant) -> Result<(u64, u64), Failure> {
    let mut buffers = ReceiveBuffers::new(BATCH, MAX_FRAME_BYTES);
    let (mut frames, mut turns) = (0, 0);
    while Instant::now() < end {
        sleep(sockets)?;
        turns += 1;
        for (from, to) in [(0, 1), (1, 0)] {
            let batch = sockets[from].receive_batch(&mut buffers)?;
            let mut sent = 0;
            while sent < batch.slots() {
                let rest = batch.iter().skip(sent).map(|frame| frame.bytes);
                sent += sockets[to].send_batch(rest).unwrap_or(1);
            }
            frames += sent as u64;
        }
    }
    Ok((frames, turns))
}

/// Frames of the ring are copied, as the switch does it, and sent together.
fn ring(
    sockets: &[PacketSocket; 2],
    rings: &mut [ReceiveRing; 2],
    end: Instant,
) -> Result<(u64, u64), Failure> {
    let mut copies = vec![Vec::new(); BATCH];
    let (mut frames, mut turns) = (0, 0);
    while Instant::now() < end {
        sleep(sockets)?;
        turns += 1;
        for (from, to) in [(0, 1), (1, 0)] {
            let mut ready = 0;
            let take = |frame: ReceivedFrame<'_>| {
                let copy: &mut Vec<u8> = &mut copies[ready];
                copy.clear();
                copy.extend_from_slice(frame.bytes);
                ready += 1;
            };
            rings[from].receive(&sockets[from], BATCH, take)?;
            let mut sent = 0;
            while sent < ready {
                let rest = copies[sent..ready].iter().map(Vec::as_slice);
                sent += sockets[to].send_batch(rest).unwrap_or(1);
            }
            frames += ready as u64;
        }
    }
    Ok((frames, turns))
}

/// A UDP packet to port 7 without a checksum of its own.
fn udp_frame(bytes: usize, mac: &str, from: Ipv4Addr, to: Ipv4Addr) -> Result<Vec<u8>, Failure> {
    const HEADERS: usize = 14 + 20 + 8;
    let to_mac: Result<Vec<u8>, _> = mac.split(':').map(|b| u8::from_str_radix(b, 16)).collect();
    let to_mac = to_mac?;
    if !(HEADERS..=MAX_FRAME_BYTES).contains(&bytes) || to_mac.len() != 6 {
        return Err("a frame of at least 42 bytes, to a MAC address".into());
    }
    let mut frame = vec![0_u8; bytes];
    frame[..6].copy_from_slice(&to_mac);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 0x08, 0x00]);
    let ip = &mut frame[14..34];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&((bytes - 14) as u16).to_be_bytes());
    (ip[8], ip[9]) = (64, 17);
    ip[12..16].copy_from_slice(&from.octets());
    ip[16..20].copy_from_slice(&to.octets());
    let words = ip
        .chunks_exact(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    frame[36..38].copy_from_slice(&7_u16.to_be_bytes());
    frame[38..40].copy_from_slice(&((bytes - 34) as u16).to_be_bytes());
    Ok(frame)
}

fn send(
    socket: &PacketSocket,
    frame: &[u8],
    per_second: u64,
    end: Instant,
) -> Result<(u64, u64), Failure> {
    let start = Instant::now();
    let (mut frames, mut turns) = (0, 0);
    while Instant::now() < end {
        let due = (start.elapsed().as_secs_f64() * per_second as f64) as u64;
        let missing = due.saturating_sub(frames).min(64) as usize;
        if missing == 0 {
            std::thread::sleep(Duration::from_micros(100));
            continue;
        }
        frames += socket
            .send_batch(std::iter::repeat_n(frame, missing))
            .unwrap_or(0) as u64;
        turns += 1;
    }
    Ok((frames, turns))
}
