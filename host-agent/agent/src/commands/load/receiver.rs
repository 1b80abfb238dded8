//! The receiving half of a host under load.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::Ipv4Addr;

use anyhow::Context;
use ebb_packet_io::ReceivedFrame;
use ebb_units::{Duration, Instant};
use ebb_wire::{EthernetHeader, MacAddress};

use super::packet::{self, Arrival, Kind};
use super::stream::StreamCounts;
use crate::engine::frame_paths::{FramePath, FramePaths};
use crate::machine::clock;

/// Frames that are counted before the sender has its turn again.
const FRAMES_PER_TURN: usize = 1024;
/// Time for packets of a stream that took a longer path, after its end was announced.
const SETTLE: Duration = Duration::from_millis(500);
/// Most streams that are counted; packets of further ones are ignored.
const MAX_STREAMS: usize = 1024;

/// Who sends a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    pub address: Ipv4Addr,
    /// The number that the sender chose for the stream.
    pub stream: u32,
}

struct Stream {
    counts: StreamCounts,
    /// When it is over. `None`: its sender has not announced its end.
    over_at: Option<Instant>,
    /// Whether it has been reported; each stream is once.
    is_reported: bool,
}

pub struct Receiver {
    mac: MacAddress,
    streams: BTreeMap<Peer, Stream>,
    ended: u64,
    ignored: u64,
}

impl Receiver {
    /// `mac`: that of the host.
    pub fn new(mac: MacAddress) -> Self {
        Receiver {
            mac,
            streams: BTreeMap::new(),
            ended: 0,
            ignored: 0,
        }
    }

    /// Counts what has arrived. True: something has.
    pub fn receive(&mut self, paths: &mut FramePaths) -> anyhow::Result<bool> {
        let (mac, streams, ignored) = (self.mac, &mut self.streams, &mut self.ignored);
        let mut any = false;
        let take = |frame: ReceivedFrame<'_>, _: FramePath| {
            any = true;
            let Some(arrival) = packet::parse(frame.bytes, mac) else {
                *ignored += 1;
                return;
            };
            let at_ns = frame.realtime_ns.unwrap_or_else(clock::realtime_ns);
            count(streams, &arrival, at_ns, frame.wire_bytes, ignored);
        };
        match paths.receive(FRAMES_PER_TURN, take) {
            Ok(_) => Ok(any),
            // It may come up again.
            Err(error)
                if error.kind() == ErrorKind::NetworkDown && paths.socket().interface_exists() =>
            {
                Ok(any)
            }
            Err(error) => Err(error).context("cannot receive"),
        }
    }

    /// Calls `report` for each stream that is over and has not been reported.
    pub fn end_streams(&mut self, now: Instant, mut report: impl FnMut(&Peer, &StreamCounts)) {
        for (peer, stream) in &mut self.streams {
            if !stream.is_reported && stream.over_at.is_some_and(|at| at <= now) {
                report(peer, &stream.counts);
                stream.is_reported = true;
                self.ended += 1;
            }
        }
    }

    /// Calls `report` for all streams that have not been reported, over or not.
    pub fn end_all(&mut self, report: impl FnMut(&Peer, &StreamCounts)) {
        for stream in self.streams.values_mut() {
            stream.over_at = Some(Instant::ZERO);
        }
        self.end_streams(Instant::ZERO, report);
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        let open = self.streams.values().filter(|stream| !stream.is_reported);
        open.filter_map(|stream| stream.over_at).min()
    }

    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Frames to our port that are no packets of a load, or of one too many.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }
}

fn count(
    streams: &mut BTreeMap<Peer, Stream>,
    arrival: &Arrival,
    at_ns: u64,
    wire_bytes: usize,
    ignored: &mut u64,
) {
    let peer = Peer {
        address: arrival.source,
        stream: arrival.stream,
    };
    if streams.len() >= MAX_STREAMS && !streams.contains_key(&peer) {
        *ignored += 1;
        return;
    }
    let stream = streams.entry(peer).or_insert_with(|| Stream {
        counts: StreamCounts::new(),
        over_at: None,
        is_reported: false,
    });
    match arrival.kind {
        Kind::Data => stream
            .counts
            .count(arrival, at_ns, wire_bytes, EthernetHeader::BYTES),
        Kind::End => {
            stream.counts.sent.get_or_insert(arrival.number);
            stream.over_at.get_or_insert(clock::now() + SETTLE);
        }
    }
}
