//! A port that storage and foreground traffic share (Moncaster, UCAM-CL-TR-921, section 4.7.2, "Queues"),
//! against a model that is no more than the description: one list of packets, looked through for a
//! packet of storage whenever the queue would drop, or mark, a packet of the foreground.

use std::collections::BTreeMap;

use ebb_traffic_manager::{
    Admission, Arrival, DropReason, Group, OnFull, Order, Profile, QueueConfig, TrafficManager,
    TrafficManagerConfig,
};
use ebb_units::{BitRate, Duration, Instant};
use proptest::prelude::*;

const PORT: u16 = 1;
const STORAGE: u8 = 0;
const FOREGROUND: u8 = 1;
/// Where the foreground would be marked, or without marking the buffer: ten full packets.
const LIMIT_BYTES: u64 = 15_000;
/// The buffer of a port that marks.
const CAPACITY_BYTES: u64 = 30_000;
/// A byte on the wire of the port.
const BYTE: Duration = Duration::from_nanos(8);

fn manager<P>(order: Order, marks: bool) -> TrafficManager<P> {
    let queue = |id| QueueConfig {
        id,
        pool: true,
        ..QueueConfig::default()
    };
    let foreground = QueueConfig {
        on_full: OnFull::PushOut,
        pool_exempt: marks,
        capacity_bytes: marks.then_some(CAPACITY_BYTES),
        ..queue(FOREGROUND)
    };
    let profile = Profile {
        name: "shared".into(),
        rate_bps: BitRate::from_mbps(1000),
        pool_bytes: Some(LIMIT_BYTES),
        queue: vec![queue(STORAGE), foreground],
        group: vec![Group {
            queues: vec![STORAGE, FOREGROUND],
            order,
            ..Group::default()
        }],
        ..Profile::default()
    };
    TrafficManager::new(TrafficManagerConfig {
        ports: BTreeMap::from([("default".into(), profile.name.clone())]),
        profile: vec![profile],
        ..TrafficManagerConfig::default()
    })
    .expect("valid")
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    id: usize,
    class: u8,
    bytes: u64,
    at: Instant,
}

/// Packets that wait, in order of arrival. The packet being sent is not among them.
#[derive(Default)]
struct Model {
    waiting: Vec<Packet>,
}

impl Model {
    fn bytes(&self, class: u8) -> u64 {
        let of_class = self.waiting.iter().filter(|packet| packet.class == class);
        of_class.map(|packet| packet.bytes).sum()
    }

    /// The packets that are lost as one arrives: storage, the youngest first, as long as what waits is
    /// above the limit. A packet of the foreground is lost only if the rest of the foreground leaves it
    /// no room, and then no other is.
    fn arrive(&mut self, new: Packet, buffer: u64) -> Vec<usize> {
        if new.class == FOREGROUND && self.bytes(FOREGROUND) + new.bytes > buffer {
            return vec![new.id];
        }
        self.waiting.push(new);
        let mut lost = Vec::new();
        while self.bytes(STORAGE) + self.bytes(FOREGROUND) > LIMIT_BYTES {
            let storage = self.waiting.iter().rposition(|p| p.class == STORAGE);
            let Some(place) = storage else { break };
            lost.push(self.waiting.remove(place).id);
        }
        lost
    }

    fn leave(&mut self, order: Order) -> Option<usize> {
        let urgency = |packet: &Packet| match order {
            Order::Arrival => (packet.at, FOREGROUND - packet.class),
            Order::Priority => (Instant::ZERO, FOREGROUND - packet.class),
        };
        let least = self.waiting.iter().map(urgency).min()?;
        let place = self.waiting.iter().position(|p| urgency(p) == least)?;
        Some(self.waiting.remove(place).id)
    }
}

/// The traffic manager beside the model.
struct Pair {
    tm: TrafficManager<usize>,
    model: Model,
    order: Order,
    marks: bool,
    /// Class and length of each packet.
    offered: Vec<(u8, u64)>,
    free_at: Instant,
}

impl Pair {
    fn new(order: Order, marks: bool) -> Self {
        Pair {
            tm: manager(order, marks),
            model: Model::default(),
            order,
            marks,
            offered: Vec::new(),
            free_at: Instant::ZERO,
        }
    }

    fn offer(&mut self, now: Instant, class: u8, bytes: u64) -> Result<(), TestCaseError> {
        self.serve(now)?;
        let id = self.offered.len();
        self.offered.push((class, bytes));
        let packet = Packet {
            id,
            class,
            bytes,
            at: now,
        };
        let buffer = match self.marks {
            true => CAPACITY_BYTES,
            false => LIMIT_BYTES,
        };
        let mut expected = self.model.arrive(packet, buffer);
        let arrival = Arrival {
            queue: class,
            len: bytes,
            ..Arrival::default()
        };
        let mut lost = Vec::new();
        match self.tm.enqueue(now, PORT, arrival, id) {
            Admission::Dropped { packet, .. } => lost.push(packet),
            // The program marks by this depth.
            Admission::Enqueued { depth } if depth.bytes > LIMIT_BYTES => {
                prop_assert_eq!(
                    self.model.bytes(STORAGE),
                    0,
                    "marked for packets of storage"
                );
            }
            Admission::Enqueued { .. } => {}
            Admission::Deflected { .. } => prop_assert!(false, "nothing is deflected"),
        }
        lost.extend(std::iter::from_fn(|| self.tm.take_pushed_out()).map(|gone| gone.packet));
        lost.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(lost, expected);
        for class in [STORAGE, FOREGROUND] {
            let depth = self.tm.depth(PORT, class).bytes;
            prop_assert_eq!(depth, self.model.bytes(class));
        }
        Ok(())
    }

    /// Sends what is due by `now`.
    fn serve(&mut self, now: Instant) -> Result<(), TestCaseError> {
        while self.free_at <= now {
            let sent = self.tm.dequeue(now, PORT);
            let expected = self.model.leave(self.order);
            prop_assert_eq!(sent.as_ref().map(|d| d.packet), expected);
            let Some(d) = sent else {
                self.free_at = now;
                return Ok(());
            };
            self.tm.transmit(PORT, d.queue, d.start, d.len, false);
            self.free_at = d.start.max(self.free_at) + BYTE * self.offered[d.packet].1;
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// In either order, with marking and without. Packets come as fast as two to four links would bring
    /// them, some at one instant; acknowledgments are among them.
    #[test]
    fn storage_is_lost_where_the_foreground_would_be_lost_or_marked(
        arrivals in prop::collection::vec(
            (
                prop_oneof![1 => Just(0), 4 => 0u64..12_000],
                STORAGE..=FOREGROUND,
                prop::sample::select(vec![54u64, 700, 1514]),
            ),
            1..400,
        ),
        order in prop::sample::select(vec![Order::Priority, Order::Arrival]),
        marks in any::<bool>(),
    ) {
        let (mut pair, mut now) = (Pair::new(order, marks), Instant::ZERO);
        for &(gap_ns, class, bytes) in &arrivals {
            now += Duration::from_nanos(gap_ns);
            pair.offer(now, class, bytes)?;
        }
        while !pair.model.waiting.is_empty() {
            pair.serve(pair.free_at)?;
        }
        prop_assert_eq!(pair.tm.queued().packets, 0);
        let statistics = pair.tm.statistics(pair.free_at);
        for (queue, class) in statistics[0].queues.iter().zip([STORAGE, FOREGROUND]) {
            let offered = arrivals.iter().filter(|(_, of, _)| *of == class).count() as u64;
            let dropped: u64 = queue.dropped.values().map(|count| count.packets).sum();
            prop_assert_eq!((queue.queue, queue.transmitted.packets + dropped), (class, offered));
        }
        let foreground = statistics[0].queues.iter().find(|queue| queue.queue == FOREGROUND);
        let pushed_out = foreground.and_then(|queue| queue.dropped.get(&DropReason::PushedOut));
        prop_assert_eq!(pushed_out, None);
    }
}

/// Ten packets of storage and one of the foreground come at once: in order of arrival the latter waits
/// for nine, in order of priority for the one that is being sent.
#[test]
fn the_order_decides_how_long_the_foreground_waits() {
    for (order, ahead) in [(Order::Arrival, 9), (Order::Priority, 1)] {
        let mut tm = manager(order, true);
        let offer = |tm: &mut TrafficManager<usize>, at_ns, queue, id| {
            let arrival = Arrival {
                queue,
                len: 1500,
                ..Arrival::default()
            };
            let admission = tm.enqueue(Instant::from_nanos(at_ns), PORT, arrival, id);
            assert!(matches!(admission, Admission::Enqueued { .. }));
        };
        for id in 0..10 {
            offer(&mut tm, 0, STORAGE, id);
        }
        offer(&mut tm, 1, FOREGROUND, 10);
        assert_eq!(tm.take_pushed_out().map(|gone| gone.packet), Some(9));
        let mut sent = Vec::new();
        while let Some(d) = tm.dequeue(Instant::FAR_FUTURE, PORT) {
            tm.transmit(PORT, d.queue, d.start, d.len, false);
            sent.push(d.packet);
        }
        assert_eq!(sent.iter().position(|id| *id == 10), Some(ahead));
    }
}

/// Table 4.1 (section 4.7.1): of a full link, a share of storage and the overhead of its code leave so
/// much for the foreground, here in thousandths of the link, which are packets of 1 KB of 10 MB.
#[test]
fn what_storage_leaves_is_what_the_foreground_may_take() {
    const PACKET: u64 = 1000;
    const LINK: u64 = 10_000;
    let table = [
        (700, 50, 265),
        (700, 100, 230),
        (800, 50, 160),
        (800, 100, 120),
        (900, 50, 55),
        (900, 100, 10),
    ];
    for (storage, overhead, foreground) in table {
        let needed = storage * (1000 + overhead) * LINK / 1_000_000;
        let allowed = foreground * LINK / 1000;
        for (offered, suffices) in [(allowed, true), (allowed + 1, false)] {
            for order in [Order::Priority, Order::Arrival] {
                let sent = send_on_a_full_link(order, LINK, PACKET, offered);
                assert_eq!(sent, [LINK - offered, offered]);
                assert_eq!(sent[usize::from(STORAGE)] >= needed, suffices);
            }
        }
    }
}

/// How many packets of storage and of the foreground leave in the time of `link` packets, if storage comes
/// at the rate of the link, and `foreground` packets in bursts of eight until nine tenths of the time.
fn send_on_a_full_link(order: Order, link: u64, bytes: u64, foreground: u64) -> [u64; 2] {
    let mut tm = manager(order, false);
    let mut sent = [0, 0];
    let mut offered = 0;
    for slot in 0..link {
        let now = Instant::ZERO + BYTE * bytes * slot;
        let offer = |tm: &mut TrafficManager<()>, queue| {
            let arrival = Arrival {
                queue,
                len: bytes,
                ..Arrival::default()
            };
            let admission = tm.enqueue(now, PORT, arrival, ());
            assert!(queue == STORAGE || matches!(admission, Admission::Enqueued { .. }));
            while tm.take_pushed_out().is_some() {}
        };
        offer(&mut tm, STORAGE);
        let due = (foreground * (slot + 1))
            .div_ceil(link * 9 / 10)
            .min(foreground);
        if due >= offered + 8 || (due == foreground && offered < due) {
            (offered..due.min(offered + 8)).for_each(|_| offer(&mut tm, FOREGROUND));
            offered = due.min(offered + 8);
        }
        let d = tm.dequeue(now, PORT).expect("storage is there");
        tm.transmit(PORT, d.queue, d.start, d.len, false);
        sent[usize::from(d.queue)] += 1;
    }
    assert_eq!(
        (offered, tm.depth(PORT, FOREGROUND).packets),
        (foreground, 0)
    );
    sent
}
