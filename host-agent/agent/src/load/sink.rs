//! The receiving half of a host under load.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::Context;
use ebb_packet_io::{PacketSocket, ReceiveBuffers};
use ebb_units::{Duration, Instant};
use ebb_wire::{EthernetHeader, MacAddress};

use super::packet::{self, Arrival, HEADERS_BYTES, Kind};
use super::tally::Tally;
use crate::clock;

const BATCH_FRAMES: usize = 64;
/// Batches before it is the sender's turn again.
const BATCHES_PER_TURN: usize = 16;
/// After its end was told, packets of a stream that took a longer path get so long.
const SETTLE: Duration = Duration::from_millis(500);
/// More streams at a time are ignored, whoever sends them.
const MAX_STREAMS: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    pub address: Ipv4Addr,
    pub stream: u32,
}

struct Stream {
    tally: Tally,
    /// When it is over.
    over_at: Option<Instant>,
    /// It was told of: what still comes is not told again.
    told: bool,
}

pub struct Sink {
    mac: MacAddress,
    buffers: ReceiveBuffers,
    streams: BTreeMap<Peer, Stream>,
    ended: u64,
    ignored: u64,
}

impl Sink {
    pub fn new(mac: MacAddress) -> Self {
        Sink {
            mac,
            buffers: ReceiveBuffers::new(BATCH_FRAMES, HEADERS_BYTES as usize),
            streams: BTreeMap::new(),
            ended: 0,
            ignored: 0,
        }
    }

    /// Counts what has arrived; whether anything has.
    pub fn receive(&mut self, socket: &PacketSocket) -> anyhow::Result<bool> {
        let mut any = false;
        for _ in 0..BATCHES_PER_TURN {
            let batch = match socket.receive_batch(&mut self.buffers) {
                Ok(batch) => batch,
                // It may come up again.
                Err(error)
                    if error.raw_os_error() == Some(libc::ENETDOWN)
                        && socket.interface_exists() =>
                {
                    return Ok(any);
                }
                Err(error) => return Err(error).context("cannot receive"),
            };
            any |= batch.slots() > 0;
            for frame in batch.iter() {
                let Some(arrival) = packet::parse(frame.bytes, self.mac) else {
                    self.ignored += 1;
                    continue;
                };
                let at_ns = frame.realtime_ns.unwrap_or_else(clock::realtime_ns);
                count(
                    &mut self.streams,
                    &arrival,
                    at_ns,
                    frame.wire_bytes,
                    &mut self.ignored,
                );
            }
            if batch.drained {
                break;
            }
        }
        Ok(any)
    }

    /// Tells of the streams that are over.
    pub fn end_streams(&mut self, now: Instant, mut tell: impl FnMut(&Peer, &Tally)) {
        for (peer, stream) in &mut self.streams {
            if !stream.told && stream.over_at.is_some_and(|at| at <= now) {
                tell(peer, &stream.tally);
                stream.told = true;
                self.ended += 1;
            }
        }
    }

    /// Tells of all that were not told of yet.
    pub fn end_all(&mut self, tell: impl FnMut(&Peer, &Tally)) {
        for stream in self.streams.values_mut() {
            stream.over_at = Some(Instant::ZERO);
        }
        self.end_streams(Instant::ZERO, tell);
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        let open = self.streams.values().filter(|stream| !stream.told);
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
        tally: Tally::new(),
        over_at: None,
        told: false,
    });
    match arrival.kind {
        Kind::Data => stream
            .tally
            .count(arrival, at_ns, wire_bytes, EthernetHeader::BYTES),
        Kind::End => {
            stream.tally.sent.get_or_insert(arrival.number);
            stream.over_at.get_or_insert(clock::now() + SETTLE);
        }
    }
}
