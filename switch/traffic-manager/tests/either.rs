//! `on_full = "deflect-either"`: of a packet that finds its queue full and the youngest one that waits there, either
//! goes back to ingress (NDP, SIGCOMM 2017, section 3.1).

use std::collections::{BTreeMap, VecDeque};

use ebb_traffic_manager::{
    Admission, Arrival, MAX_DEFLECTIONS, OnFull, Profile, PushedOut, QueueConfig, TrafficManager,
    TrafficManagerConfig,
};
use ebb_units::{Duration, Instant};
use proptest::prelude::*;

const PORT: u16 = 1;
const FULL_BYTES: u64 = 1514;
const CAPACITY_BYTES: u64 = 8 * FULL_BYTES;

fn manager() -> TrafficManager<usize> {
    let profile = Profile {
        name: "ndp".into(),
        queue: vec![QueueConfig {
            capacity_bytes: Some(CAPACITY_BYTES),
            on_full: OnFull::DeflectEither,
            ..QueueConfig::default()
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

/// Admission of a packet that was offered, and those that gave way to it.
fn offer(
    tm: &mut TrafficManager<usize>,
    now: Instant,
    id: usize,
    (len, deflections): (u64, u8),
) -> (Admission<usize>, Vec<PushedOut<usize>>) {
    let arrival = Arrival {
        len,
        deflections,
        ..Arrival::default()
    };
    let admission = tm.enqueue(now, PORT, arrival, id);
    let gone = std::iter::from_fn(|| tm.take_pushed_out()).collect();
    (admission, gone)
}

/// Fills the queue with full packets and offers as many more as asked for. True for those that took a place.
fn overload(packets: usize) -> Vec<bool> {
    let mut tm = manager();
    for id in 0..8 {
        let (admission, gone) = offer(&mut tm, Instant::ZERO, id, (FULL_BYTES, 0));
        assert!(matches!(admission, Admission::Enqueued { .. }) && gone.is_empty());
    }
    let took_a_place = |id| {
        // Bursts of three at the same time, as of ports that are in step.
        let now = Instant::ZERO + Duration::from_nanos(12_304) * (id as u64 / 3);
        let (admission, gone) = offer(&mut tm, now, id, (FULL_BYTES, 0));
        match admission {
            Admission::Enqueued { .. } => assert!(gone.len() == 1 && gone[0].deflected),
            Admission::Deflected { packet, .. } => assert!(packet == id && gone.is_empty()),
            Admission::Dropped { .. } => panic!("{id} was dropped"),
        }
        matches!(admission, Admission::Enqueued { .. })
    };
    (8..8 + packets).map(took_a_place).collect()
}

#[test]
fn half_of_what_does_not_fit_takes_the_place_of_the_youngest() {
    const OFFERED: usize = 10_000;
    let took = overload(OFFERED);
    let places = took.iter().filter(|took| **took).count();
    // Four standard deviations, sqrt(OFFERED) / 2 each.
    assert!(places.abs_diff(OFFERED / 2) < 200, "{places}");
    // One side says nothing of the next one.
    let same = took.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(same.abs_diff(OFFERED / 2) < 200, "{same}");
    assert_eq!(
        took,
        overload(OFFERED),
        "the same packets at the same times"
    );
}

#[test]
fn statistics_count_both_as_deflected() {
    let mut tm = manager();
    for id in 0..100 {
        let (admission, _) = offer(&mut tm, Instant::ZERO, id, (FULL_BYTES, 0));
        assert!(!matches!(admission, Admission::Dropped { .. }));
    }
    let statistics = tm.statistics(Instant::ZERO);
    let port = statistics.iter().find(|port| port.port == PORT);
    let queue = &port.expect("the port").queues[0];
    assert_eq!(queue.deflected.packets, 92);
    assert_eq!(
        (queue.depth_packets, queue.depth_bytes),
        (8, CAPACITY_BYTES)
    );
    assert!(queue.dropped.values().all(|count| count.packets == 0));
}

proptest! {
    /// Beside a list of what waits: who gave way was the youngest, could be deflected, and its place was enough.
    #[test]
    fn only_the_youngest_gives_way_and_only_for_what_then_fits(
        arrivals in prop::collection::vec(
            (0u64..3_000, prop::sample::select(vec![64u64, 700, 1514]), 0..=MAX_DEFLECTIONS, prop::bool::weighted(0.2)),
            1..300,
        ),
    ) {
        let (mut tm, mut now) = (manager(), Instant::ZERO);
        let mut waiting: VecDeque<(usize, u64, u8)> = VecDeque::new();
        for (id, (gap_ns, len, deflections, departs)) in arrivals.into_iter().enumerate() {
            now += Duration::from_nanos(gap_ns);
            if departs {
                let head = tm.dequeue(now, PORT).map(|departure| departure.packet);
                prop_assert_eq!(head, waiting.pop_front().map(|(id, ..)| id));
            }
            let bytes = |waiting: &VecDeque<(usize, u64, u8)>| waiting.iter().map(|(_, len, _)| len).sum::<u64>();
            let fits = bytes(&waiting) + len <= CAPACITY_BYTES;
            let (admission, gone) = offer(&mut tm, now, id, (len, deflections));
            match admission {
                Admission::Enqueued { .. } => {
                    prop_assert_eq!(gone.is_empty(), fits);
                    for gone in gone {
                        let (youngest, _, deflections) = waiting.pop_back().expect("one that gave way");
                        prop_assert!(gone.packet == youngest && gone.deflected);
                        prop_assert!(deflections < MAX_DEFLECTIONS);
                    }
                    waiting.push_back((id, len, deflections));
                    prop_assert!(bytes(&waiting) <= CAPACITY_BYTES);
                }
                Admission::Deflected { packet, .. } => {
                    prop_assert!(packet == id && gone.is_empty() && !fits && deflections < MAX_DEFLECTIONS);
                }
                Admission::Dropped { packet, .. } => {
                    prop_assert!(packet == id && gone.is_empty() && !fits && deflections == MAX_DEFLECTIONS);
                }
            }
            prop_assert_eq!(tm.depth(PORT, 0).bytes, bytes(&waiting));
        }
    }
}
