//! A virtual network for tests: pairs of connections over one shared link per direction, a clock
//! that jumps to the next deadline, and a bound on the number of steps.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_units::{BitRate, Duration, Instant};
use ebb_wire::{DropNotification, TcpFlags};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{Algorithm, Connection, Message, Segment, State, TcpParams};
use crate::object::{GeneratedSource, ObjectSource};

/// IPv4 and TCP headers without options, and Ethernet.
const HEADER_BYTES: u64 = 14 + 20 + 20;

/// A full packet.
const PACKET_BYTES: u64 = 1460 + HEADER_BYTES;

/// Initial sequence number of pair 0, so close to the end of the space that transfers wrap.
const FIRST_ISS: u32 = 0xffff_ff00;

/// Fate of a segment outside of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Pass,
    Drop,
    Duplicate,
    /// Arrives this much later, behind segments sent after it.
    Late(Duration),
    Mark,
}

impl Fate {
    /// This fate if the condition holds, else [`Pass`](Fate::Pass).
    pub(crate) fn when(self, holds: bool) -> Fate {
        if holds { self } else { Fate::Pass }
    }
}

/// Decides about the n-th segment of a link.
pub(crate) type FateOf = Box<dyn FnMut(u64, &Segment<'_>) -> Fate>;

/// A queue and the wire behind it.
pub(crate) struct Link {
    pub(crate) rate: BitRate,
    pub(crate) delay: Duration,
    pub(crate) capacity_bytes: u64,
    /// Whether the link writes its queue length, in packets, into segments with payload (IPv4 identification) if it is
    /// above the value that they have.
    pub(crate) writes_depth: bool,
    /// CE on ECT segments that find more than this in the queue (DCTCP's K).
    pub(crate) mark_above_bytes: u64,
    pub(crate) fate: FateOf,
    count: u64,
    /// Departure times and lengths of what is queued.
    queued: VecDeque<(Instant, u64)>,
    queued_bytes: u64,
    free_at: Instant,
    /// By time, and by order of sending where that is the same.
    arrivals: BTreeMap<(Instant, u64), (usize, Segment<'static>)>,
    arrival_count: u64,
    pub(crate) drops: u64,
    /// Drops since the last [`note_drops`](Network::note_drops): number of the pair, and notification for its sender.
    dropped: Vec<(usize, DropNotification)>,
    pub(crate) marks: u64,
    /// Queue length that each segment found, with the time.
    pub(crate) depths: Vec<(Instant, u64)>,
}

impl Link {
    pub(crate) fn new(rate: BitRate, delay: Duration) -> Self {
        Link {
            rate,
            delay,
            capacity_bytes: u64::MAX,
            writes_depth: false,
            mark_above_bytes: u64::MAX,
            fate: Box::new(|_, _| Fate::Pass),
            count: 0,
            queued: VecDeque::new(),
            queued_bytes: 0,
            free_at: Instant::ZERO,
            arrivals: BTreeMap::new(),
            arrival_count: 0,
            drops: 0,
            dropped: Vec::new(),
            marks: 0,
            depths: Vec::new(),
        }
    }

    /// Loses each segment with probability `loss`, reproducibly.
    pub(crate) fn lossy(mut self, loss: f64, seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        self.fate = Box::new(move |_, _| Fate::Drop.when(rng.random_bool(loss)));
        self
    }

    fn send(&mut self, now: Instant, pair: usize, mut segment: Segment<'static>) {
        let fate = (self.fate)(self.count, &segment);
        self.count += 1;
        let bytes = segment.payload.len() as u64 + HEADER_BYTES;
        while let Some(&(departure, bytes)) = self.queued.front()
            && departure <= now
        {
            self.queued.pop_front();
            self.queued_bytes -= bytes;
        }
        let depth = self.queued_bytes;
        self.depths.push((now, depth));
        if fate == Fate::Drop || depth + bytes > self.capacity_bytes {
            self.drops += 1;
            self.dropped.push((pair, notification(&segment)));
            return;
        }
        if self.writes_depth && !segment.payload.is_empty() {
            segment.id = segment.id.max((depth / PACKET_BYTES) as u16);
        }
        if segment.ect && (depth > self.mark_above_bytes || fate == Fate::Mark) {
            segment.ce = true;
            self.marks += 1;
        }
        let departure = self.free_at.max(now) + self.rate.time_for(bytes);
        self.free_at = departure;
        self.queued.push_back((departure, bytes));
        self.queued_bytes += bytes;
        let mut arrival = departure + self.delay;
        match fate {
            Fate::Late(by) => arrival += by,
            Fate::Duplicate => self.arrive(arrival, pair, segment.clone()),
            _ => {}
        }
        self.arrive(arrival, pair, segment);
    }

    fn arrive(&mut self, at: Instant, pair: usize, segment: Segment<'static>) {
        self.arrivals
            .insert((at, self.arrival_count), (pair, segment));
        self.arrival_count += 1;
    }

    fn next_arrival(&self) -> Option<Instant> {
        self.arrivals.first_key_value().map(|(&(at, _), _)| at)
    }

    fn take_arrived(&mut self, now: Instant) -> Option<(usize, Segment<'static>)> {
        let first = self.arrivals.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Mean queue length found by segments sent at or after `from`.
    pub(crate) fn mean_depth(&self, from: Instant) -> f64 {
        let found = self.depths.iter().filter(|&&(at, _)| at >= from);
        let (sum, count) = found.fold((0, 0), |(sum, n), &(_, depth)| (sum + depth, n + 1));
        sum as f64 / f64::from(count.max(1))
    }
}

/// A sender on the left and its receiver on the right.
pub(crate) struct Pair {
    pub(crate) left: Connection,
    pub(crate) right: Option<Connection>,
    pub(crate) received: Vec<u8>,
    /// Whether the application of the receiver reads as data arrives. Otherwise it reads at the end of the stream.
    pub(crate) read: bool,
    started: bool,
    pub(crate) start_at: Instant,
    pub(crate) expected: Vec<u8>,
}

pub(crate) struct Network {
    pub(crate) now: Instant,
    pub(crate) params: Arc<TcpParams>,
    pub(crate) right_params: Arc<TcpParams>,
    pub(crate) algorithm: Algorithm,
    pub(crate) pairs: Vec<Pair>,
    pub(crate) forward: Link,
    pub(crate) backward: Link,
    /// Alpha and window of the left of pair 0, whenever they changed.
    pub(crate) trace: Vec<(Instant, Option<f64>, u64)>,
    /// ACKs that reached the left of pair 0: time, offset acknowledged, SND.NXT, ECN-Echo.
    pub(crate) acks: Vec<(Instant, u64, u64, bool)>,
    /// Telemetry of each of them.
    pub(crate) telemetry: Vec<u16>,
    /// SND.NXT of the left of pair 0.
    sent_end: u64,
    /// Segments sent by the left of pair 0, in order.
    pub(crate) sent: Vec<(Instant, Segment<'static>)>,
    /// Time from a drop to the notification of its sender. None: there is none.
    pub(crate) notification_delay: Option<Duration>,
    /// Notifications by time and number: whether the left is notified, the pair, and the dropped packet.
    notices: BTreeMap<(Instant, u64), (bool, usize, DropNotification)>,
    notice_count: u64,
}

/// The notification of a network that drops `segment`. Connections do not look at addresses.
pub(crate) fn notification(segment: &Segment<'_>) -> DropNotification {
    let address = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let flags = &segment.flags;
    DropNotification {
        sender: address,
        receiver: address,
        seq: segment.seq,
        ack: segment.ack.unwrap_or(0),
        flags: TcpFlags::ACK.when(segment.ack.is_some())
            | TcpFlags::SYN.when(flags.syn)
            | TcpFlags::FIN.when(flags.fin)
            | TcpFlags::RST.when(flags.rst),
        payload_bytes: segment.payload.len(),
    }
}

impl Network {
    /// 1 Gbit/s and 20 us each way.
    pub(crate) fn new(algorithm: Algorithm, params: TcpParams) -> Self {
        let link = || Link::new(BitRate::from_mbps(1000), Duration::from_micros(20));
        Network {
            now: Instant::ZERO,
            right_params: Arc::new(params.clone()),
            params: Arc::new(params),
            algorithm,
            pairs: Vec::new(),
            forward: link(),
            backward: link(),
            trace: Vec::new(),
            acks: Vec::new(),
            telemetry: Vec::new(),
            sent_end: 0,
            sent: Vec::new(),
            notification_delay: None,
            notices: BTreeMap::new(),
            notice_count: 0,
        }
    }

    /// Schedules a notification for each segment dropped since the last call.
    fn note_drops(&mut self) {
        for (left, link) in [(true, &mut self.forward), (false, &mut self.backward)] {
            for (pair, dropped) in std::mem::take(&mut link.dropped) {
                if let Some(delay) = self.notification_delay {
                    let key = (self.now + delay, self.notice_count);
                    self.notices.insert(key, (left, pair, dropped));
                    self.notice_count += 1;
                }
            }
        }
    }

    /// Delivers the notifications that are due.
    fn deliver_notices(&mut self) {
        while let Some(first) = self.notices.first_entry()
            && first.key().0 <= self.now
        {
            let (left, index, dropped) = first.remove();
            let pair = &mut self.pairs[index];
            let message = Message::Dropped(dropped);
            match (left, &mut pair.right) {
                (true, _) => pair.left.handle_message(self.now, &message),
                (false, Some(right)) => right.handle_message(self.now, &message),
                (false, None) => false,
            };
        }
    }

    /// Adds a transfer of `bytes` generated bytes.
    pub(crate) fn transfer(&mut self, bytes: u64) -> &mut Pair {
        let index = self.pairs.len() as u64;
        let source = GeneratedSource {
            seed: index + 1,
            bytes,
        };
        let mut expected = vec![0; bytes as usize];
        source.read_at(0, &mut expected).unwrap();
        let iss = FIRST_ISS - index as u32;
        let mut left = Connection::connect(
            self.params.clone(),
            self.algorithm.clone(),
            Arc::new(source),
            iss,
        );
        left.close();
        self.pairs.push(Pair {
            left,
            right: None,
            received: Vec::new(),
            read: true,
            started: false,
            start_at: self.now,
            expected,
        });
        self.pairs.last_mut().unwrap()
    }

    fn next_event(&self) -> Option<Instant> {
        let pairs = self.pairs.iter().flat_map(|pair| {
            let start = (!pair.started).then_some(pair.start_at);
            let left = if pair.started {
                pair.left.next_deadline()
            } else {
                None
            };
            [
                start,
                left,
                pair.right.as_ref().and_then(Connection::next_deadline),
            ]
        });
        pairs
            .chain([self.forward.next_arrival(), self.backward.next_arrival()])
            .chain([self.notices.first_key_value().map(|(&(at, _), _)| at)])
            .flatten()
            .min()
            .map(|at| at.max(self.now))
    }

    fn step(&mut self) {
        let now = self.now;
        let mut buffer = Vec::new();
        while let Some((index, segment)) = self.forward.take_arrived(now) {
            let pair = &mut self.pairs[index];
            match &mut pair.right {
                Some(right) => right.handle_segment(now, &segment),
                None => {
                    let params = self.right_params.clone();
                    let nothing = Arc::new(Vec::new());
                    pair.right = Connection::accept(
                        now,
                        params,
                        self.algorithm.clone(),
                        nothing,
                        77,
                        &segment,
                    );
                }
            }
        }
        while let Some((index, segment)) = self.backward.take_arrived(now) {
            self.pairs[index].left.handle_segment(now, &segment);
            if index == 0 {
                self.note_ack(&segment);
            }
        }
        self.deliver_notices();
        for (index, pair) in self.pairs.iter_mut().enumerate() {
            if pair.start_at <= now {
                pair.started = true;
                pair.left.handle_deadline(now);
                while let Some(segment) = pair.left.poll_transmit(now, &mut buffer) {
                    let segment = segment.into_owned();
                    if index == 0 {
                        let start = segment.seq.wrapping_sub(FIRST_ISS);
                        let end = u64::from(start) + u64::from(segment.sequence_length());
                        self.sent_end = self.sent_end.max(end);
                        self.sent.push((now, segment.clone()));
                    }
                    self.forward.send(now, index, segment);
                }
            }
            let Some(right) = &mut pair.right else {
                continue;
            };
            right.handle_deadline(now);
            if pair.read {
                right.read(&mut buffer);
                pair.received.extend(&buffer);
            }
            if right.peer_closed() {
                right.read(&mut buffer);
                pair.received.extend(&buffer);
                right.close();
            }
            while let Some(segment) = right.poll_transmit(now, &mut buffer) {
                self.backward.send(now, index, segment.into_owned());
            }
        }
        self.note_drops();
        if let Some(pair) = self.pairs.first() {
            let statistics = pair.left.statistics();
            let entry = (
                statistics.summary.marked_fraction,
                statistics.summary.window_bytes,
            );
            if self
                .trace
                .last()
                .is_none_or(|&(_, alpha, window)| (alpha, window) != entry)
            {
                self.trace.push((now, entry.0, entry.1));
            }
        }
    }

    /// Notes an ACK as the sender of pair 0 sees it, and alpha and window after it.
    fn note_ack(&mut self, segment: &Segment<'_>) {
        let last = self.acks.last().map_or(0, |&(_, ack, ..)| ack);
        let unwrap =
            |seq: u32| last + u64::from(seq.wrapping_sub(FIRST_ISS.wrapping_add(last as u32)));
        if let (Some(ack), false) = (segment.ack, segment.flags.syn) {
            let ack = (self.now, unwrap(ack), self.sent_end, segment.flags.ece);
            self.acks.push(ack);
            self.telemetry.push(segment.id);
        }
    }

    /// Runs until nothing is left to happen or until `limit`. Panics on livelock.
    pub(crate) fn run_until(&mut self, limit: Instant) {
        for _ in 0..2_000_000 {
            match self.next_event() {
                Some(at) if at <= limit => self.now = at,
                _ => return,
            }
            self.step();
        }
        panic!("livelock at {:?}", self.now);
    }

    /// Runs to the end.
    pub(crate) fn run(&mut self) {
        self.run_until(Instant::FAR_FUTURE - Duration::from_secs(1));
    }

    /// Runs to the end and checks that every object has arrived and every connection is gone.
    pub(crate) fn run_and_check(&mut self) {
        self.run();
        for (index, pair) in self.pairs.iter().enumerate() {
            assert_eq!(pair.left.failure(), None, "sender {index}");
            assert!(pair.received == pair.expected, "object {index} differs");
            assert_eq!(pair.left.state(), State::Closed, "sender {index}");
            let right = pair.right.as_ref().expect("accepted");
            assert_eq!(right.state(), State::Closed, "receiver {index}");
            assert_eq!(right.failure(), None, "receiver {index}");
        }
    }
}
