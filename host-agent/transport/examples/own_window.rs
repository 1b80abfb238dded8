//! A congestion control of one's own, on a wire of one's own (docs/tutorial/07-write-a-transport.md).
//!
//! A sender and a receiver, joined by a link with a queue that marks and drops, under a virtual
//! clock: no socket, no thread, and every run is the same.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_transport::nic::NicParams;
use ebb_transport::object::GeneratedSource;
use ebb_transport::tcp::congestion::{Acknowledgment, CongestionControl, Window};
use ebb_transport::tcp::{Algorithm, DCTCP, EcnMode, RENO, TcpEndpoint, TcpParams};
use ebb_transport::{DscpParams, EPHEMERAL_PORTS, Event, HostConfig, SendRequest, Transport, Via};
use ebb_units::{BitRate, Duration, Instant};
use ebb_wire::{Ecn, Ipv4Header};

const PORT: u16 = 7000;
const BYTES: u64 = 10_000_000;
/// The link from the sender to the receiver.
const RATE: BitRate = BitRate::from_mbps(1000);
const ONE_WAY: Duration = Duration::from_micros(20);
/// Bytes that wait for the link: more are dropped, and packets that meet more than the threshold
/// are marked.
const CAPACITY: usize = 150_000;
const THRESHOLD: usize = 30_000;

/// Takes an eighth off the window for a mark, at most once in a window of data.
#[derive(Debug)]
struct Eighth {
    window: Window,
}

const EIGHTH: Algorithm = Algorithm {
    ecn: EcnMode::Accurate,
    priority_ecn: EcnMode::Accurate,
    start: |_, window| Box::new(Eighth { window }),
    ..Algorithm::BASE
};

impl CongestionControl for Eighth {
    fn on_ack(&mut self, ack: &Acknowledgment) -> bool {
        if self.window.must_reduce(ack) {
            self.window.reduce_to(self.window.bytes() * 7 / 8);
            self.window.note_reduction(ack.next);
            return true;
        }
        if !ack.ece && !ack.in_recovery && ack.window_limited {
            self.window.grow(ack);
        }
        false
    }

    fn window(&self) -> &Window {
        &self.window
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }
}

/// Packets that wait for the link, and packets on their way.
#[derive(Default)]
struct Link {
    free_at: Instant,
    /// When each packet has left the queue, and its length.
    waiting: VecDeque<(Instant, usize)>,
    arriving: VecDeque<(Instant, Vec<u8>)>,
    /// Bytes that packets found waiting, all together, and the number of these packets.
    met: usize,
    packets: usize,
    marked: u32,
    dropped: u32,
}

impl Link {
    fn send(&mut self, now: Instant, mut packet: Vec<u8>) {
        while self.waiting.front().is_some_and(|(left, _)| *left <= now) {
            self.waiting.pop_front();
        }
        let depth: usize = self.waiting.iter().map(|(_, len)| len).sum();
        if depth + packet.len() > CAPACITY {
            self.dropped += 1;
            return;
        }
        if depth > THRESHOLD {
            self.mark(&mut packet);
        }
        self.met += depth;
        self.packets += 1;
        self.free_at = self.free_at.max(now) + RATE.time_for(packet.len() as u64);
        self.waiting.push_back((self.free_at, packet.len()));
        self.arriving.push_back((self.free_at + ONE_WAY, packet));
    }

    /// The next packet that has arrived at the other end.
    fn arrived(&mut self, now: Instant) -> Option<Vec<u8>> {
        let (at, _) = self.arriving.front()?;
        (*at <= now)
            .then(|| self.arriving.pop_front())?
            .map(|(_, packet)| packet)
    }

    /// Sets CE, if the packet says that its hosts understand it.
    fn mark(&mut self, packet: &mut Vec<u8>) {
        let ip = Ipv4Header::parse(packet).expect("a packet of a transport");
        let mut header = ip.header;
        if header.ecn == Ecn::NotEct {
            return;
        }
        header.ecn = Ecn::Ce;
        let mut marked = Vec::new();
        header.emit(ip.payload.len(), &mut marked);
        marked.extend_from_slice(ip.payload);
        *packet = marked;
        self.marked += 1;
    }
}

fn host(number: u8, algorithm: Algorithm) -> TcpEndpoint {
    let config = HostConfig {
        address: Ipv4Addr::new(10, 0, 0, number),
        nic: NicParams::default(),
        dscp: DscpParams::default(),
        source_ports: EPHEMERAL_PORTS,
        seed: u64::from(number),
    };
    TcpEndpoint::new(config, "own", algorithm, TcpParams::default(), None).expect("valid")
}

/// Sends an object from one host to another, and says how long that took.
fn run(algorithm: Algorithm) -> String {
    let mut hosts = [host(1, algorithm.clone()), host(2, algorithm)];
    hosts[1].listen(PORT).expect("a port");
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
    let mut now = Instant::ZERO;
    hosts[0].send(now, request).expect("a flow");
    // Where the packets of each host go to; acknowledgments have a link of their own.
    let mut links = [Link::default(), Link::default()];
    loop {
        for side in [0, 1] {
            while let Some(packet) = links[1 - side].arrived(now) {
                hosts[side].handle_packet(now, &packet);
            }
            hosts[side].handle_timeout(now);
            let mut packet = Vec::new();
            while hosts[side].poll_transmit(now, &mut packet).is_some() {
                links[side].send(now, std::mem::take(&mut packet));
            }
            while let Some(event) = hosts[side].poll_event() {
                if side == 0 && matches!(event, Event::Finished { .. } | Event::Failed { .. }) {
                    return told(now, &event, &links[0]);
                }
            }
        }
        let arrivals = links
            .iter()
            .filter_map(|link| Some(link.arriving.front()?.0));
        let deadlines = hosts.iter().filter_map(Transport::next_deadline);
        now = arrivals
            .chain(deadlines)
            .min()
            .expect("something to wait for")
            .max(now);
    }
}

fn told(now: Instant, event: &Event, link: &Link) -> String {
    let (Event::Finished { record, .. } | Event::Failed { record, .. }) = event else {
        unreachable!("only these end a flow");
    };
    let mbps = (BYTES * 8) as f64 / now.since(Instant::ZERO).as_secs_f64() / 1e6;
    format!(
        "{:?}, {mbps:.0} Mbit/s, {} KB wait on average, {} marked, {} dropped",
        record.status,
        link.met / link.packets / 1000,
        link.marked,
        link.dropped,
    )
}

fn main() {
    for (name, algorithm) in [("reno", RENO), ("dctcp", DCTCP), ("eighth", EIGHTH)] {
        println!("{name:>6}: {}", run(algorithm));
    }
}
