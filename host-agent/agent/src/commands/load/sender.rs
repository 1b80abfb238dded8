//! The sending half of a host under load.

use std::net::SocketAddrV4;

use anyhow::Context;
use ebb_packet_io::{MAX_SEND_BATCH, SendError};
use ebb_units::{Duration, Instant};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::args::{LoadArgs, SOURCE_PORTS};
use super::packet::{Frame, Kind, Path};
use super::schedule::{Plan, Schedule};
use crate::engine::frame_paths::FramePaths;
use crate::machine::clock;

/// The first source port: the range ends with the last dynamic port (RFC 6335).
const FIRST_SOURCE_PORT: u16 = u16::MAX - SOURCE_PORTS + 1;
/// The end of a stream is announced several times: one of them may be lost.
const ENDS: u8 = 3;
const END_PAUSE: Duration = Duration::from_millis(10);
/// Shortest pause after which datagrams that did not fit into the kernel's buffer, or a ring, are tried again.
const FULL_PAUSE: Duration = Duration::from_micros(100);

pub struct Sender {
    schedule: Schedule,
    to: SocketAddrV4,
    stream: u32,
    /// The frames of a batch, which are stamped again for each batch.
    frames: Vec<Frame>,
    /// Packet that ends the stream.
    end: Frame,
    /// How many source ports are used.
    flows: u16,
    random: SmallRng,
    sent: u64,
    /// Packets that the interface did not take.
    refused: u64,
    /// When the first packet left. `None`: none has.
    first: Option<Instant>,
    /// When the last packet left; the start if none has.
    last: Instant,
    /// When packets that did not fit into the kernel's buffer are tried again. `None`: all did fit.
    full_until: Option<Instant>,
    /// Pause until then: the budget of lateness, as whoever is to make room may need the processor for it.
    full_pause: Duration,
    /// Number of announcements of the end that are left.
    ends_left: u8,
    /// When the end is announced next.
    next_end: Instant,
    /// How long packets under way have, after the last one was sent.
    settle: Duration,
}

impl Sender {
    pub fn new(args: &LoadArgs, path: &Path, start: Instant) -> Self {
        let random = &mut rand::rng();
        let stream: u32 = random.random();
        let frame = Frame::new(path, stream, args.packet_bytes);
        let frame_bytes = frame.bytes().len() as u64 + u64::from(args.frame_overhead_bytes);
        let packets = args.seconds * args.rate_bps as f64 / (frame_bytes * 8) as f64;
        Sender {
            schedule: Schedule::new(Plan {
                start,
                frame_bytes,
                rate_bps: args.rate_bps,
                count: (packets.round() as u64).max(1),
                lateness: Duration::from_micros(args.receive.lateness_us.into()),
                patience: Duration::from_micros(args.patience_us.into()),
            }),
            to: path.to,
            stream,
            frames: vec![frame; MAX_SEND_BATCH],
            end: Frame::new(path, stream, 0),
            flows: args.flows,
            random: SmallRng::from_rng(random),
            sent: 0,
            refused: 0,
            first: None,
            last: start,
            full_until: None,
            full_pause: FULL_PAUSE.max(Duration::from_micros(args.receive.lateness_us.into())),
            ends_left: ENDS,
            next_end: start,
            settle: Duration::from_secs_f64(args.settle_seconds),
        }
    }

    /// Sends what is due.
    pub fn turn(&mut self, now: Instant, paths: &mut FramePaths) -> anyhow::Result<()> {
        if self.full_until.is_some_and(|until| now < until) {
            return Ok(());
        }
        self.full_until = None;
        loop {
            let due = self.schedule.due(now).min(self.frames.len() as u64);
            if due == 0 {
                break;
            }
            let realtime_ns = clock::realtime_ns();
            for (packet, frame) in self.frames[..due as usize].iter_mut().enumerate() {
                let port = FIRST_SOURCE_PORT + self.random.random_range(0..self.flows);
                frame.stamp(Kind::Data, port, self.sent + packet as u64, realtime_ns);
            }
            let frames = self.frames[..due as usize].iter().map(Frame::bytes);
            let sent = match paths.send(frames) {
                Ok(sent) => sent as u64,
                Err(SendError::Full) => {
                    self.full_until = Some(now + self.full_pause);
                    break;
                }
                Err(SendError::QueueFull | SendError::Down) => {
                    self.refused += 1;
                    self.schedule.sent(now, 1);
                    continue;
                }
                Err(error) => return Err(error).context("cannot send"),
            };
            self.schedule.sent(now, sent);
            self.sent += sent;
            self.first.get_or_insert(now);
            self.last = now;
            self.next_end = now + END_PAUSE;
        }
        if self.schedule.next_deadline().is_none() && self.ends_left > 0 && now >= self.next_end {
            self.say_end(now, paths);
        }
        Ok(())
    }

    fn say_end(&mut self, now: Instant, paths: &mut FramePaths) {
        self.end.stamp(
            Kind::End,
            FIRST_SOURCE_PORT,
            self.sent,
            clock::realtime_ns(),
        );
        // Its fate is as uncertain as on the way.
        let _ = paths.send([self.end.bytes()].into_iter());
        self.ends_left -= 1;
        self.next_end = now + END_PAUSE;
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        match self.schedule.next_deadline() {
            Some(at) => Some(self.full_until.map_or(at, |until| until.max(at))),
            None => Some(if self.ends_left > 0 {
                self.next_end
            } else {
                self.over_at()
            }),
        }
    }

    /// Everything was sent, and what was under way has had its time.
    pub fn is_over(&self, now: Instant) -> bool {
        self.schedule.next_deadline().is_none() && self.ends_left == 0 && now >= self.over_at()
    }

    fn over_at(&self) -> Instant {
        self.last + self.settle
    }

    pub fn to_json(&self) -> Value {
        let elapsed_ns = self
            .first
            .map_or(0, |first| self.last.since(first).as_nanos());
        json!({
            "direction": "sent",
            "peer": self.to,
            "stream": self.stream,
            "packets": self.sent,
            "frame_bytes": self.frames[0].bytes().len(),
            "skipped": self.schedule.skipped(),
            "refused": self.refused,
            "elapsed_ns": elapsed_ns,
            "max_lateness_ns": self.schedule.max_lateness().as_nanos(),
        })
    }

    pub fn to_text(&self) -> String {
        let skipped = match self.schedule.skipped() + self.refused {
            0 => String::new(),
            skipped => format!(", {skipped} not sent in time"),
        };
        format!("sent {} packets to {}{skipped}", self.sent, self.to)
    }
}
