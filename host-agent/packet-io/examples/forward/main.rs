//! Forwards frames between two interfaces and says what that cost; or makes the frames.
//!
//! ```text
//! forward batches|ring A B SECONDS        both directions
//! forward send A BYTES PER_SECOND SECONDS
//! ```
//! `batches` is what this crate does (`recvmmsg`); `ring` is the alternative that was measured
//! against it, a mapped TPACKET_V2 ring (docs/bench.md).

mod ring;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ebb_packet_io::{
    Audience, MAX_FRAME_BYTES, PacketSocket, PollFd, ReceiveBuffers, SocketOptions, wait,
};
use ring::Ring;

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
            let mut rings = [Ring::map(&sockets[0])?, Ring::map(&sockets[1])?];
            report(seconds, |end| ring_both(&sockets, &mut rings, end))
        }
        ["send", a, bytes, per_second, seconds] => {
            let socket = open(a)?;
            let (bytes, per_second) = (bytes.parse()?, per_second.parse()?);
            report(seconds, |end| send(&socket, bytes, per_second, end))
        }
        _ => {
            Err("usage: forward batches|ring A B SECONDS | send A BYTES PER_SECOND SECONDS".into())
        }
    }
}

fn open(interface: &str) -> std::io::Result<PacketSocket> {
    let options = SocketOptions {
        audience: Audience::Everyone,
        ..SocketOptions::default()
    };
    PacketSocket::open(interface, &options)
}

/// Runs `work` until the time is over; it returns frames and system calls that sent or waited.
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
    wait(&mut polled, Some(Duration::from_millis(10)), None)
}

fn batches(sockets: &[PacketSocket; 2], end: Instant) -> Result<(u64, u64), Failure> {
    let mut buffers = ReceiveBuffers::new(32, MAX_FRAME_BYTES);
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

fn ring_both(
    sockets: &[PacketSocket; 2],
    rings: &mut [Ring; 2],
    end: Instant,
) -> Result<(u64, u64), Failure> {
    let (mut frames, mut turns) = (0, 0);
    while Instant::now() < end {
        sleep(sockets)?;
        turns += 1;
        for (from, to) in [(0, 1), (1, 0)] {
            let ready = rings[from].ready();
            let mut sent = 0;
            while sent < ready {
                let rest = (sent..ready).map(|index| rings[from].frame(index));
                sent += sockets[to].send_batch(rest).unwrap_or(1);
            }
            rings[from].release(ready);
            frames += ready as u64;
        }
    }
    Ok((frames, turns))
}

fn send(
    socket: &PacketSocket,
    bytes: usize,
    per_second: u64,
    end: Instant,
) -> Result<(u64, u64), Failure> {
    let mut frame = vec![0_u8; bytes];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
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
            .send_batch(std::iter::repeat_n(frame.as_slice(), missing))
            .unwrap_or(0) as u64;
        turns += 1;
    }
    Ok((frames, turns))
}
