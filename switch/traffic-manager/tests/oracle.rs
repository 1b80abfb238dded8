//! Random traffic through a port, compared with a reference that keeps everything in one list and
//! computes every answer from scratch.

use std::collections::BTreeMap;

use ebb_traffic_manager::{
    Admission, Arrival, DropReason, Group, OnFull, Profile, QueueConfig, TrafficManager,
    TrafficManagerConfig,
};
use ebb_units::{BitRate, Duration, Instant};
use proptest::prelude::*;

const PORT: u16 = 0;

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Queued(u64),
    Deflected(u64),
    Dropped(DropReason),
}

struct Waiting {
    id: usize,
    queue: u8,
    len: u64,
    at: Instant,
}

/// The reference: one list of waiting packets in order of arrival.
struct Reference {
    profile: Profile,
    waiting: Vec<Waiting>,
    /// One entry per packet of a round, and where the round stands.
    round: Vec<usize>,
    position: usize,
    free_at: Instant,
}

impl Reference {
    fn new(profile: Profile) -> Self {
        let round = (0..).zip(&profile.group);
        let round = round
            .flat_map(|(i, g)| std::iter::repeat_n(i, g.weight as usize))
            .collect();
        Self {
            profile,
            waiting: Vec::new(),
            round,
            position: 0,
            free_at: Instant::ZERO,
        }
    }

    fn total(&self, member: impl Fn(u8) -> bool) -> (u64, u64) {
        let members = || self.waiting.iter().filter(|w| member(w.queue));
        (members().count() as u64, members().map(|w| w.len).sum())
    }

    fn offer(&mut self, id: usize, now: Instant, arrival: Arrival) -> Verdict {
        let Some(config) = self.profile.queue.iter().find(|q| q.id == arrival.queue) else {
            return Verdict::Dropped(DropReason::NoSuchQueue);
        };
        let exceeds = |(packets, bytes): (u64, u64), max_packets, max_bytes| {
            packets + 1 > max_packets || bytes + arrival.len > max_bytes
        };
        let own = self.total(|q| q == config.id);
        let pooled = |q| self.profile.queue.iter().any(|c| c.id == q && c.pool);
        let no_limit = u64::MAX;
        let reason = if exceeds(
            own,
            config.capacity_packets.unwrap_or(no_limit),
            config.capacity_bytes.unwrap_or(no_limit),
        ) {
            DropReason::QueueFull
        } else if config.pool
            && exceeds(
                self.total(pooled),
                self.profile.pool_packets.unwrap_or(no_limit),
                self.profile.pool_bytes.unwrap_or(no_limit),
            )
        {
            DropReason::PoolFull
        } else {
            self.waiting.push(Waiting {
                id,
                queue: arrival.queue,
                len: arrival.len,
                at: now,
            });
            return Verdict::Queued(own.0);
        };
        match (config.on_full, arrival.deflections) {
            (OnFull::Deflect, 0 | 1) => Verdict::Deflected(own.0),
            (_, 0) => Verdict::Dropped(reason),
            _ => Verdict::Dropped(DropReason::DeflectFailed),
        }
    }

    /// The next transmission due by `now`: packet, start, length.
    fn next(&mut self, now: Instant) -> Option<(usize, Instant, u64)> {
        let start = self.waiting.iter().map(|w| w.at).min()?.max(self.free_at);
        if start > now {
            return None;
        }
        let ready = |group: &Group| {
            let members = |w: &&Waiting| w.at <= start && group.queues.contains(&w.queue);
            self.waiting.iter().filter(members).map(|w| w.queue).max()
        };
        let steps = (0..self.round.len()).map(|i| (self.position + i) % self.round.len());
        let (step, queue) = steps
            .filter_map(|step| Some((step, ready(&self.profile.group[self.round[step]])?)))
            .next()?;
        self.position = (step + 1) % self.round.len();
        let index = self.waiting.iter().position(|w| w.queue == queue)?;
        let chosen = self.waiting.remove(index);
        Some((chosen.id, start, chosen.len))
    }
}

#[derive(Clone, Debug)]
struct Offer {
    gap_ns: u64,
    queue: u8,
    len: u64,
    deflections: u8,
    /// Whether the port is served after this offer, or only later.
    serve: bool,
    egress_drops: bool,
}

fn offers() -> impl Strategy<Value = Vec<Offer>> {
    let gap = prop_oneof![Just(0), 0..2_000u64, 0..30_000u64];
    let one = (
        gap,
        0..6u8,
        60..1600u64,
        prop_oneof![6 => Just(0), 1 => Just(1), 1 => Just(2)],
        any::<bool>(),
    );
    let one = (one, prop::bool::weighted(0.1)).prop_map(
        |((gap_ns, queue, len, deflections, serve), egress_drops)| Offer {
            gap_ns,
            queue,
            len,
            deflections,
            serve,
            egress_drops,
        },
    );
    prop::collection::vec(one, 1..300)
}

/// A port with queues 0, 2, 3 and 5; 1 and 4 do not exist.
fn profiles() -> impl Strategy<Value = Profile> {
    let capacity = || prop::option::of(1..12u64);
    let one = (capacity(), capacity(), any::<bool>(), any::<bool>());
    let rate = prop_oneof![
        Just(0u64),
        Just(1_000_000_007),
        1_000_000..10_000_000_000u64
    ];
    (
        prop::array::uniform4(one),
        capacity(),
        1..12u64,
        1..5u32,
        1..5u32,
        rate,
        0..2u64,
    )
        .prop_map(|(queues, pool_packets, pool_kb, w1, w2, rate, overhead)| {
            let queue =
                |(id, (packets, kilobytes, pool, deflect)): (u8, (_, Option<u64>, _, _))| {
                    QueueConfig {
                        id,
                        capacity_packets: packets,
                        capacity_bytes: kilobytes.map(|kb| kb * 1000),
                        pool,
                        on_full: if deflect {
                            OnFull::Deflect
                        } else {
                            OnFull::TailDrop
                        },
                        ..QueueConfig::default()
                    }
                };
            let queue: Vec<_> = [0, 2, 3, 5].into_iter().zip(queues).map(queue).collect();
            let pool = queue.iter().any(|q| q.pool);
            Profile {
                name: "p".into(),
                rate_bps: BitRate::from_bps(rate),
                frame_overhead_bytes: overhead * 24,
                pool_packets: pool_packets.filter(|_| pool),
                pool_bytes: pool.then_some(pool_kb * 1000),
                queue,
                group: vec![
                    Group {
                        queues: vec![5, 0],
                        weight: w1,
                        ..Group::default()
                    },
                    Group {
                        queues: vec![2, 3],
                        weight: w2,
                        ..Group::default()
                    },
                ],
                ..Profile::default()
            }
        })
}

/// Serves both until nothing is due; every transmission must be the same, and starts no earlier
/// than the link is free.
fn serve(
    tm: &mut TrafficManager<usize>,
    reference: &mut Reference,
    now: Instant,
    offers: &[Offer],
) -> Result<(), TestCaseError> {
    loop {
        let expected = reference.next(now);
        let actual = tm.dequeue(now, PORT);
        let pair = actual.as_ref().map(|d| (d.packet, d.start));
        prop_assert_eq!(pair, expected.map(|(id, start, _)| (id, start)));
        let (Some(departure), Some((id, start, len))) = (actual, expected) else {
            return Ok(());
        };
        if offers[id].egress_drops {
            tm.egress_dropped(PORT, departure.queue, len);
            continue;
        }
        let sent = tm.transmit(PORT, departure.queue, start, len, false);
        let wire_bytes = len + reference.profile.frame_overhead_bytes;
        let time = reference.profile.rate_bps.time_for(wire_bytes);
        prop_assert!(start >= reference.free_at, "the rate was exceeded");
        prop_assert_eq!(sent.end, start + time);
        reference.free_at = sent.end;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_the_reference(mut profile in profiles(), offers in offers(), far in any::<bool>()) {
        // Queues 0, 12, 18 and 30 in place of 0, 2, 3 and 5.
        let place = |id: u8| if far { 6 * id } else { id };
        profile.queue.iter_mut().for_each(|queue| queue.id = place(queue.id));
        let grouped = profile.group.iter_mut().flat_map(|group| &mut group.queues);
        grouped.for_each(|id| *id = place(*id));
        let config = TrafficManagerConfig {
            ports: BTreeMap::from([("default".into(), "p".into())]),
            profile: vec![profile.clone()],
            ..TrafficManagerConfig::default()
        };
        let mut tm = TrafficManager::new(config).expect("valid");
        let mut reference = Reference::new(profile);
        let mut now = Instant::ZERO;
        let mut verdicts = BTreeMap::<&str, u64>::new();
        for (id, offer) in offers.iter().enumerate() {
            now += Duration::from_nanos(offer.gap_ns);
            let arrival = Arrival {
                queue: place(offer.queue),
                len: offer.len,
                deflections: offer.deflections,
                ..Arrival::default()
            };
            let actual = match tm.enqueue(now, PORT, arrival, id) {
                Admission::Enqueued { depth } => Verdict::Queued(depth.packets),
                Admission::Deflected { depth, .. } => Verdict::Deflected(depth.packets),
                Admission::Dropped { reason, .. } => Verdict::Dropped(reason),
            };
            *verdicts.entry(match actual {
                Verdict::Queued(_) => "in",
                Verdict::Deflected(_) => "deflected",
                Verdict::Dropped(_) => "dropped",
            }).or_default() += 1;
            prop_assert_eq!(actual, reference.offer(id, now, arrival));
            if offer.serve {
                serve(&mut tm, &mut reference, now, &offers)?;
            }
        }
        // Conservation by the public counters, before and after everything has left.
        let statistics = &tm.statistics(Instant::FAR_FUTURE)[0];
        let sum = |count: &dyn Fn(&ebb_traffic_manager::QueueStatistics) -> u64| -> u64 {
            statistics.queues.iter().map(count).sum()
        };
        let count = |key| verdicts.get(key).copied().unwrap_or(0);
        prop_assert_eq!(sum(&|q| q.enqueued.packets), count("in"));
        prop_assert_eq!(sum(&|q| q.deflected.packets), count("deflected"));
        prop_assert_eq!(sum(&|q| q.dropped.values().map(|c| c.packets).sum()), count("dropped"));
        prop_assert_eq!(sum(&|q| q.dequeued.packets + q.depth_packets), count("in"));
        serve(&mut tm, &mut reference, Instant::FAR_FUTURE, &offers)?;
        prop_assert_eq!(tm.queued().packets, 0);
    }
}
