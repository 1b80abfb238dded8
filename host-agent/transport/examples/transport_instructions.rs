//! Packets between two hosts, for Callgrind to count (`tools/instructions`): transports and NICs, without sockets.
//!
//! `cargo run -p ebb-transport --example transport_instructions TRANSPORT`: an object from one host to the other over a
//! link of 1 Gbit/s without loss, under a virtual clock. Prints how many packets of both hosts are counted.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_transport::nic::Nic;
use ebb_transport::object::GeneratedSource;
use ebb_transport::{
    EPHEMERAL_PORTS, Event, SendRequest, Status, Suite, Transport, TransportKind, Via,
};
use ebb_units::{Duration, Instant};

const PORT: u16 = 7000;
const ONE_WAY: Duration = Duration::from_micros(20);
/// Bytes of the object.
const BYTES: u64 = 6_000_000;
/// Packets until buffers have found their sizes and windows have stopped growing.
const WARM_UP: u64 = 2_000;
/// Packets that count.
const PACKETS: u64 = 2_000;

fn main() -> Result<(), String> {
    let usage = "usage: transport_instructions TRANSPORT";
    let kind: TransportKind = std::env::args()
        .nth(1)
        .ok_or(usage)?
        .parse()
        .map_err(|e| format!("{usage}: {e}"))?;
    let mut pair = Pair::new(kind)?;
    pair.run(WARM_UP)?;
    ebb_testkit::counted(|| pair.run(PACKETS))?;
    println!("{PACKETS}");
    // Nobody knows whether the packets were right before the object is whole.
    pair.run(u64::MAX)
}

struct End {
    transport: Box<dyn Transport + Send>,
    nic: Nic,
    /// Packets on the way to this end, with the times of their arrival.
    arriving: VecDeque<(Instant, Vec<u8>)>,
    /// When the NIC takes more; `None`: it has not refused anything.
    held_until: Option<Instant>,
}

/// Two hosts and the link between them.
struct Pair {
    now: Instant,
    ends: [End; 2],
    /// Memory for packets.
    spare: Vec<Vec<u8>>,
    packet: Vec<u8>,
    finished: usize,
}

impl Pair {
    /// A pair of which the first one has begun to send.
    fn new(kind: TransportKind) -> Result<Self, String> {
        let suite = Suite::default();
        let end = |number: u8| -> Result<End, String> {
            let address = Ipv4Addr::new(10, 0, 0, number);
            Ok(End {
                transport: kind.transport(address, &suite, EPHEMERAL_PORTS, number.into())?,
                nic: Nic::new(suite.nic),
                arriving: VecDeque::with_capacity(4096),
                held_until: None,
            })
        };
        let mut ends = [end(1)?, end(2)?];
        let now = Instant::from_micros(1_000_000);
        let listened = ends[1].transport.listen(PORT);
        listened.map_err(|e| e.to_string())?;
        let request = SendRequest {
            to: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), PORT),
            source_port: None,
            source: Arc::new(GeneratedSource {
                seed: 1,
                bytes: BYTES,
            }),
            priority: 0,
            part: None,
            via: Via::Any,
        };
        let sent = ends[0].transport.send(now, request);
        sent.map_err(|e| e.to_string())?;
        Ok(Self {
            now,
            ends,
            spare: (0..4096).map(|_| Vec::with_capacity(2048)).collect(),
            packet: Vec::with_capacity(2048),
            finished: 0,
        })
    }

    /// Goes on until this many packets more were sent, or both ends have finished.
    fn run(&mut self, packets: u64) -> Result<(), String> {
        let mut sent = 0;
        while sent < packets {
            for index in 0..2 {
                self.receive(index)?;
                sent += self.transmit(index);
            }
            if self.finished == self.ends.len() {
                let is_last = packets == u64::MAX;
                return is_last
                    .then_some(())
                    .ok_or("the object is too short".into());
            }
            self.now = self.next().ok_or("nothing happens any more")?;
        }
        Ok(())
    }

    /// One end takes what has arrived, and does what is due.
    fn receive(&mut self, index: usize) -> Result<(), String> {
        let (now, end) = (self.now, &mut self.ends[index]);
        let transport = &mut *end.transport;
        while end.arriving.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, packet)) = end.arriving.pop_front() else {
                break;
            };
            end.nic
                .receive(now, &packet, |packet| transport.handle_packet(now, packet));
            self.spare.push(packet);
        }
        if transport.next_deadline().is_some_and(|at| at <= now) {
            transport.handle_timeout(now);
        }
        while let Some(job) = transport.poll_job() {
            transport.handle_job(now, job.run());
        }
        while let Some(event) = transport.poll_event() {
            match event {
                Event::Delivered { bytes, .. } => transport.recycle(bytes),
                Event::Finished { record, .. } if record.status == Status::Finished => {
                    self.finished += 1;
                }
                Event::Finished { record, .. } | Event::Failed { record, .. } => {
                    return Err(format!("{record:?}"));
                }
                Event::Opened { .. } | Event::Heard { .. } | Event::Detached { .. } => {}
            }
        }
        Ok(())
    }

    /// One end sends what it may; returns how many packets.
    fn transmit(&mut self, index: usize) -> u64 {
        let (now, mut sent) = (self.now, 0);
        loop {
            let end = &mut self.ends[index];
            let wanted = end.nic.wants(now);
            if !wanted.is_empty()
                && let packet = &mut self.packet
                && let Some(_) = end.transport.poll_transmit_of(now, wanted, packet)
            {
                end.nic.push(packet);
            }
            let Some(out_at) = end.nic.poll(now, &mut self.packet) else {
                end.held_until = end.nic.next_start(now);
                return sent;
            };
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(&self.packet);
            self.ends[1 - index]
                .arriving
                .push_back((out_at + ONE_WAY, copy));
            sent += 1;
        }
    }

    /// When something happens next.
    fn next(&self) -> Option<Instant> {
        let next = self.ends.iter().flat_map(|end| {
            let deadline = end.transport.next_deadline();
            let waiting = end.held_until.is_some();
            [
                deadline.filter(|at| !waiting || *at > self.now),
                end.arriving.front().map(|(at, _)| *at),
                end.held_until,
            ]
        });
        Some(next.flatten().min()?.max(self.now))
    }
}
