//! Treatment of packets by a port, one rule per test.

use std::collections::BTreeMap;

use ebb_traffic_manager::{
    Admission, Arrival, Count, Depth, DropReason, Group, OnFull, Profile, QueueConfig, RankFields,
    TrafficManager, TrafficManagerConfig,
};
use ebb_units::{BitRate, Instant};

const PORT: u16 = 1;

fn queue(id: u8) -> QueueConfig {
    QueueConfig {
        id,
        ..QueueConfig::default()
    }
}

fn manager(profile: Profile) -> TrafficManager<u32> {
    TrafficManager::new(config(profile)).expect("valid")
}

fn config(profile: Profile) -> TrafficManagerConfig {
    let ranked = profile.queue.iter().any(|queue| queue.rank);
    TrafficManagerConfig {
        ports: BTreeMap::from([("default".into(), profile.name.clone())]),
        rank: ranked.then(rank_fields),
        profile: vec![profile],
        ..TrafficManagerConfig::default()
    }
}

/// Rank fields of any program: the caller of the traffic manager names rank and flow itself.
pub(crate) fn rank_fields() -> RankFields {
    RankFields {
        field: "rank".into(),
        flow: "flow".into(),
    }
}

fn us(us: u64) -> Instant {
    Instant::from_micros(us)
}

fn offer(tm: &mut TrafficManager<u32>, now: Instant, queue: u8, id: u32) -> Admission<u32> {
    let arrival = Arrival {
        queue,
        len: 1500,
        deflections: 0,
        ..Arrival::default()
    };
    tm.enqueue(now, PORT, arrival, id)
}

fn accept(tm: &mut TrafficManager<u32>, now: Instant, queue: u8, id: u32) {
    assert!(matches!(
        offer(tm, now, queue, id),
        Admission::Enqueued { .. }
    ));
}

/// Dequeues and transmits everything that is due; returns the start times and the packets.
fn run(tm: &mut TrafficManager<u32>, now: Instant) -> Vec<(Instant, u32)> {
    let mut sent = Vec::new();
    while let Some(d) = tm.dequeue(now, PORT) {
        let t = tm.transmit(PORT, d.queue, d.start, 1500, false);
        assert_eq!(t.start, d.start);
        sent.push((d.start, d.packet));
    }
    sent
}

fn gigabit() -> Profile {
    Profile {
        name: "p".into(),
        rate_bps: BitRate::from_mbps(1000),
        delay_ns: 10_000,
        queue: vec![queue(0), queue(1)],
        ..Profile::default()
    }
}

#[test]
fn serialisation_and_propagation_are_exact() {
    let mut tm = manager(gigabit());
    accept(&mut tm, us(5), 0, 1);
    assert_eq!(tm.next_deadline(PORT), Some(us(5)));
    let d = tm.dequeue(us(5), PORT).expect("due");
    let t = tm.transmit(PORT, d.queue, d.start, 1500, false);
    assert_eq!((t.start, t.end, t.arrival), (us(5), us(17), us(27)));
}

#[test]
fn a_late_call_does_not_lower_the_rate() {
    let mut tm = manager(gigabit());
    for id in 0..3 {
        accept(&mut tm, us(0), 0, id);
    }
    let starts: Vec<_> = run(&mut tm, us(1000)).into_iter().map(|s| s.0).collect();
    assert_eq!(starts, [us(0), us(12), us(24)]);
}

#[test]
fn a_late_call_does_not_let_a_later_packet_overtake() {
    let mut tm = manager(gigabit());
    accept(&mut tm, us(0), 0, 1);
    accept(&mut tm, us(5), 1, 2);
    let order: Vec<_> = run(&mut tm, us(100)).into_iter().map(|s| s.1).collect();
    assert_eq!(order, [1, 2]);
}

#[test]
fn a_packet_that_egress_drops_leaves_the_serialiser_free() {
    let mut tm = manager(gigabit());
    accept(&mut tm, us(0), 0, 1);
    accept(&mut tm, us(0), 0, 2);
    let d = tm.dequeue(us(0), PORT).expect("due");
    tm.egress_dropped(PORT, d.queue, 1500);
    assert_eq!(tm.next_deadline(PORT), Some(us(0)));
    assert_eq!(run(&mut tm, us(0)), [(us(0), 2)]);
    let statistics = tm.statistics(Instant::FAR_FUTURE);
    assert_eq!(statistics[0].queues[0].egress_dropped.packets, 1);
    assert_eq!(statistics[0].transmitted.packets, 1);
}

#[test]
fn a_pruned_replica_is_no_drop_and_is_not_lost_track_of() {
    let mut tm = manager(gigabit());
    accept(&mut tm, us(0), 0, 1);
    let d = tm.dequeue(us(0), PORT).expect("due");
    tm.pruned(PORT, d.queue, 1500);
    let statistics = tm.statistics(Instant::FAR_FUTURE);
    assert_eq!(statistics[0].queues[0].egress_dropped.packets, 0);
    assert_eq!(statistics[0].queues[0].pruned.packets, 1);
    assert_eq!(tm.dropped_packets(), 1);
}

#[test]
fn egress_decides_the_length() {
    let mut tm = manager(gigabit());
    accept(&mut tm, us(0), 0, 1);
    let d = tm.dequeue(us(0), PORT).expect("due");
    assert_eq!(tm.transmit(PORT, d.queue, d.start, 125, false).end, us(1));
}

#[test]
fn overhead_costs_time_but_no_capacity() {
    let mut profile = gigabit();
    profile.frame_overhead_bytes = 125;
    profile.queue[0].capacity_bytes = Some(1500);
    let mut tm = manager(profile);
    accept(&mut tm, us(0), 0, 1);
    let d = tm.dequeue(us(0), PORT).expect("due");
    assert_eq!(tm.transmit(PORT, d.queue, d.start, 1500, false).end, us(13));
}

#[test]
fn a_full_queue_drops_with_its_reason() {
    let mut profile = gigabit();
    profile.queue[0].capacity_packets = Some(1);
    let mut tm = manager(profile);
    accept(&mut tm, us(0), 0, 1);
    let reason = DropReason::QueueFull;
    assert_eq!(
        offer(&mut tm, us(0), 0, 2),
        Admission::Dropped { packet: 2, reason }
    );
    let reason = DropReason::NoSuchQueue;
    assert_eq!(
        offer(&mut tm, us(0), 5, 3),
        Admission::Dropped { packet: 3, reason }
    );
    let statistics = tm.statistics(Instant::FAR_FUTURE);
    let ids: Vec<_> = statistics[0].queues.iter().map(|q| q.queue).collect();
    assert_eq!(ids, [0, 1, 5]);
}

/// A port with 32 queues.
fn wide(group: Vec<Group>) -> Profile {
    Profile {
        queue: (0..32).map(queue).collect(),
        group,
        ..gigabit()
    }
}

#[test]
fn the_highest_of_32_queues_is_served_first() {
    let mut tm = manager(wide(Vec::new()));
    let order = [5, 31, 8, 0, 30, 7, 16];
    for id in order {
        accept(&mut tm, us(0), id, id.into());
    }
    let depths = (0..32).map(|id| tm.depth(PORT, id).packets);
    assert_eq!(depths.sum::<u64>(), 7);
    let order: Vec<_> = run(&mut tm, us(1000)).into_iter().map(|s| s.1).collect();
    assert_eq!(order, [31, 30, 16, 8, 7, 5, 0]);
    let statistics = tm.statistics(Instant::FAR_FUTURE);
    let sent = |q: &ebb_traffic_manager::QueueStatistics| q.transmitted.packets;
    let sent: Vec<_> = statistics[0].queues.iter().map(sent).collect();
    assert_eq!((sent.len(), sent[31], sent[16], sent[15]), (32, 1, 1, 0));
}

#[test]
fn thirty_two_groups_share_a_link_by_weight() {
    let group = |id: u8| Group {
        queues: vec![id],
        weight: 1 + u32::from(id / 16),
        ..Group::default()
    };
    let mut tm = manager(wide((0..32).map(group).collect()));
    for id in (0..32).flat_map(|id| [id; 10]) {
        accept(&mut tm, us(0), id, id.into());
    }
    // 96 packets are two rounds, and each takes 12 us.
    let mut sent = [0; 32];
    for (_, id) in run(&mut tm, us(96 * 12 - 1)) {
        sent[id as usize] += 1;
    }
    assert_eq!((&sent[..16], &sent[16..]), (&[2; 16][..], &[4; 16][..]));
}

#[test]
fn a_queue_beyond_the_first_eight_that_is_not_listed_takes_nothing() {
    let mut tm = manager(gigabit());
    let reason = DropReason::NoSuchQueue;
    assert_eq!(
        offer(&mut tm, us(0), 20, 3),
        Admission::Dropped { packet: 3, reason }
    );
    assert_eq!(tm.depth(PORT, 20), Depth::default());
    let statistics = tm.statistics(Instant::FAR_FUTURE);
    let ids: Vec<_> = statistics[0].queues.iter().map(|q| q.queue).collect();
    assert_eq!(ids, [0, 1, 20]);
}

#[test]
fn ports_that_nobody_has_configured_have_all_queues_for_tofino() {
    let mut tm = TrafficManager::<u32>::new(TrafficManagerConfig::like_bmv2(1)).expect("valid");
    let taken = |tm: &mut TrafficManager<u32>, queue| {
        matches!(offer(tm, us(0), queue, 1), Admission::Enqueued { .. })
    };
    assert!(!taken(&mut tm, 1));
    tm.fit_queues(us(0), true);
    assert!(taken(&mut tm, 1) && taken(&mut tm, 31));
    tm.clear(us(0));
    tm.fit_queues(us(0), false);
    assert!(taken(&mut tm, 0) && !taken(&mut tm, 1) && !taken(&mut tm, 31));
    // Those of a file stay.
    let mut tm = manager(gigabit());
    tm.fit_queues(us(0), true);
    assert!(taken(&mut tm, 1) && !taken(&mut tm, 2));
}

fn again(queue: u8, deflections: u8) -> Arrival {
    Arrival {
        queue,
        len: 64,
        deflections,
        ..Arrival::default()
    }
}

/// Queue 0 holds one packet and deflects, queue 7 holds one packet.
fn two_full_queues(control_on_full: OnFull) -> TrafficManager<u32> {
    let mut profile = gigabit();
    profile.queue = vec![queue(0), queue(7)];
    for queue in &mut profile.queue {
        queue.capacity_packets = Some(1);
    }
    profile.queue[0].on_full = OnFull::Deflect;
    profile.queue[1].on_full = control_on_full;
    let mut tm = manager(profile);
    accept(&mut tm, us(0), 0, 1);
    accept(&mut tm, us(0), 7, 2);
    tm
}

#[test]
fn deflection_hands_back_the_packet_and_the_depth() {
    let mut tm = two_full_queues(OnFull::TailDrop);
    let depth = Depth {
        packets: 1,
        bytes: 1500,
    };
    let deflected = Admission::Deflected { packet: 3, depth };
    assert_eq!(offer(&mut tm, us(0), 0, 3), deflected);
    assert_eq!(
        tm.statistics(Instant::FAR_FUTURE)[0].queues[0]
            .deflected
            .packets,
        1
    );
}

#[test]
fn a_queue_that_does_not_deflect_is_the_end_of_a_deflected_packet() {
    let mut tm = two_full_queues(OnFull::TailDrop);
    let reason = DropReason::DeflectFailed;
    assert_eq!(
        tm.enqueue(us(0), PORT, again(7, 1), 3),
        Admission::Dropped { packet: 3, reason }
    );
    let q = &tm.statistics(Instant::FAR_FUTURE)[0].queues[1];
    let expected = Count {
        packets: 1,
        bytes: 64,
    };
    assert_eq!(q.dropped[&reason], expected);
    assert_eq!(q.deflected.packets, 0);
}

#[test]
fn a_packet_is_deflected_twice_and_not_more() {
    let mut tm = two_full_queues(OnFull::Deflect);
    let depth = Depth {
        packets: 1,
        bytes: 1500,
    };
    let deflected = Admission::Deflected { packet: 3, depth };
    assert_eq!(tm.enqueue(us(0), PORT, again(7, 1), 3), deflected);
    let reason = DropReason::DeflectFailed;
    assert_eq!(
        tm.enqueue(us(0), PORT, again(7, 2), 3),
        Admission::Dropped { packet: 3, reason }
    );
    let q = &tm.statistics(Instant::FAR_FUTURE)[0].queues[1];
    assert_eq!(q.deflected.packets, 1);
    assert_eq!(q.dropped[&reason].packets, 1);
}

#[test]
fn the_pool_limits_its_members_only() {
    let mut profile = gigabit();
    profile.pool_packets = Some(2);
    profile.queue = vec![queue(0), queue(1), queue(7)];
    profile.queue[0].pool = true;
    profile.queue[1].pool = true;
    let mut tm = manager(profile);
    accept(&mut tm, us(0), 0, 1);
    accept(&mut tm, us(0), 1, 2);
    let reason = DropReason::PoolFull;
    assert_eq!(
        offer(&mut tm, us(0), 0, 3),
        Admission::Dropped { packet: 3, reason }
    );
    accept(&mut tm, us(0), 7, 4);
    assert_eq!(tm.dequeue(us(0), PORT).map(|d| d.packet), Some(4));
    assert_eq!(tm.dequeue(us(0), PORT).map(|d| d.packet), Some(2));
    accept(&mut tm, us(0), 0, 5);
}

#[test]
fn a_paused_queue_waits_and_others_pass() {
    let mut tm = manager(gigabit());
    accept(&mut tm, us(0), 1, 1);
    accept(&mut tm, us(0), 0, 2);
    tm.set_paused(us(0), PORT, 1, true);
    assert_eq!(run(&mut tm, us(50)), [(us(0), 2)]);
    assert_eq!(tm.next_deadline(PORT), None);
    tm.set_paused(us(60), PORT, 1, false);
    assert_eq!(run(&mut tm, us(100)), [(us(60), 1)]);
}

#[test]
fn a_queue_that_the_program_pauses_too_resumes_when_both_let_it() {
    let mut tm = manager(gigabit());
    accept(&mut tm, us(0), 1, 1);
    tm.set_paused(us(0), PORT, 1, true);
    tm.set_paused_by_program(us(1), PORT, 1, true);
    tm.set_paused(us(2), PORT, 1, false);
    assert_eq!(run(&mut tm, us(50)), []);
    tm.set_paused_by_program(us(60), PORT, 1, false);
    assert_eq!(run(&mut tm, us(100)), [(us(60), 1)]);
    let paused = &tm.statistics(us(100))[0].queues;
    let of = paused.iter().find(|q| q.queue == 1).expect("the queue");
    assert_eq!((of.pauses_received, of.paused_ns), (1, 60_000));
}

#[test]
fn averages_and_delays() {
    let mut tm = manager(gigabit());
    for id in 0..3 {
        accept(&mut tm, us(0), 0, id);
    }
    run(&mut tm, us(100));
    let q = &tm.statistics(Instant::FAR_FUTURE)[0].queues[0];
    // Two packets wait for 12 us, then one for 12 us.
    assert_eq!(q.average_depth_packets, 1.5);
    assert_eq!(q.arrival_depth_packets, 1.0);
    assert_eq!((q.max_depth_packets, q.max_depth_bytes), (3, 4500));
    assert_eq!((q.average_delay_ns, q.max_delay_ns), (12_000.0, 24_000));
    let delays = q.delays.iter().map(|b| (b.from_ns, b.below_ns, b.packets));
    assert_eq!(
        delays.collect::<Vec<_>>(),
        [(0, 1, 1), (11_776, 12_032, 1), (23_552, 24_064, 1)]
    );
}

#[test]
fn a_reset_starts_from_what_is_queued() {
    let mut tm = manager(gigabit());
    accept(&mut tm, us(0), 0, 1);
    accept(&mut tm, us(0), 0, 2);
    tm.dequeue(us(0), PORT).expect("due");
    tm.reset_statistics(us(100));
    let d = tm.dequeue(us(100), PORT).expect("due");
    tm.transmit(PORT, d.queue, d.start, 1500, true);
    let q = &tm.statistics(Instant::FAR_FUTURE)[0].queues[0];
    assert_eq!((q.enqueued.packets, q.dequeued.packets), (0, 1));
    assert_eq!((q.max_depth_packets, q.ecn_ce.packets), (1, 1));
}

#[test]
fn reconfiguration_keeps_what_still_has_a_queue() {
    let mut tm = manager(gigabit());
    accept(&mut tm, us(0), 0, 1);
    accept(&mut tm, us(0), 1, 2);
    let mut profile = gigabit();
    profile.queue = vec![queue(0)];
    tm.reconfigure(us(1), config(profile)).expect("valid");
    let order: Vec<_> = run(&mut tm, us(100)).into_iter().map(|s| s.1).collect();
    assert_eq!(order, [1]);
    let q = &tm.statistics(Instant::FAR_FUTURE)[0].queues[1];
    assert_eq!(q.dropped[&DropReason::Flushed].packets, 1);
}

#[test]
fn groups_share_by_weight_when_both_are_backlogged() {
    let mut profile = gigabit();
    let group = |queues: &[u8], weight| Group {
        queues: queues.to_vec(),
        weight,
        ..Group::default()
    };
    profile.group = vec![group(&[1], 10), group(&[0], 1)];
    let mut tm = manager(profile);
    for id in 0..30 {
        accept(&mut tm, us(0), 0, id);
        accept(&mut tm, us(0), 1, 100 + id);
    }
    let order: Vec<_> = run(&mut tm, us(10_000)).into_iter().map(|s| s.1).collect();
    assert_eq!(order[..22].iter().filter(|id| **id < 100).count(), 2);
    assert_eq!(order.len(), 60);
}

/// A link that takes two frames, one more at 100 us, and at 200 us is as fast as the port again.
#[test]
fn a_link_that_takes_no_more_leaves_packets_in_their_queue() {
    let mut tm = manager(gigabit());
    tm.set_credit(us(0), PORT, Some(2));
    for id in 1..=5 {
        accept(&mut tm, us(0), 0, id);
    }
    assert_eq!(run(&mut tm, us(50)), [(us(0), 1), (us(12), 2)]);
    assert_eq!(tm.next_deadline(PORT), None);
    assert_eq!(tm.depth(PORT, 0).packets, 3);
    // Waiting packets are what the next one finds, and what a full queue refuses.
    let Admission::Enqueued { depth } = offer(&mut tm, us(60), 0, 6) else {
        panic!("there is room");
    };
    assert_eq!(depth.packets, 3);

    tm.set_credit(us(100), PORT, Some(1));
    assert_eq!(tm.next_deadline(PORT), Some(us(100)));
    // A packet that egress drops takes nothing of the link.
    let dropped = tm.dequeue(us(100), PORT).expect("due");
    tm.egress_dropped(PORT, dropped.queue, dropped.len);
    assert_eq!(run(&mut tm, us(150)), [(us(100), 4)]);

    tm.set_credit(us(200), PORT, None);
    assert_eq!(run(&mut tm, us(300)), [(us(200), 5), (us(212), 6)]);
}

/// Queue 1 has 1 % of the link, queue 0 the rest, and both always have packets.
#[test]
fn a_share_is_kept_over_any_window() {
    const FRAME: u64 = 1500;
    const BURST: u64 = 3000;
    let mut profile = gigabit();
    profile.group = vec![
        Group {
            queues: vec![1],
            share: Some(0.01),
            burst_bytes: BURST,
            ..Group::default()
        },
        Group {
            queues: vec![0],
            ..Group::default()
        },
    ];
    let mut tm = manager(profile);
    for id in 0..5000 {
        accept(&mut tm, us(0), (id % 2) as u8, id);
    }
    let sent = run(&mut tm, us(30_000));
    let shared: Vec<_> = sent.iter().map(|(_, id)| id % 2 == 1).collect();
    for frames in [100, 500, 2000] {
        for window in shared[2..].windows(frames) {
            let bytes = FRAME * window.iter().filter(|shared| **shared).count() as u64;
            let share = FRAME * frames as u64 / 100;
            assert!(bytes.abs_diff(share) <= FRAME, "{bytes} of {frames} frames");
        }
    }
    // The burst comes first.
    assert!(shared[0] && shared[1] && !shared[2]);
    // The frames of queue 0 are gone: the others have the whole link.
    let rest = run(&mut tm, us(100_000));
    assert_eq!(sent.len() + rest.len(), 5000);
    let spacing = rest.windows(2).map(|pair| pair[1].0.since(pair[0].0));
    assert!(spacing.into_iter().all(|gap| gap.as_micros() == 12));
}

/// 1 % of 1 Gbit/s are 1500 bytes in 1200 us, and of 500 Mbit/s in 2400 us.
#[test]
fn a_share_is_of_the_rate_that_the_link_has_had() {
    let mut profile = gigabit();
    let group = |queues: &[u8], share, burst_bytes| Group {
        queues: queues.to_vec(),
        share,
        burst_bytes,
        ..Group::default()
    };
    profile.group = vec![group(&[1], Some(0.01), 1500), group(&[0], None, 0)];
    for (slow_after, first) in [(1200, 2), (1199, 1)] {
        let mut tm = manager(profile.clone());
        accept(&mut tm, us(0), 1, 0);
        run(&mut tm, us(0));
        tm.limit_rate(us(slow_after), PORT, Some(BitRate::from_mbps(500)));
        accept(&mut tm, us(1200), 0, 1);
        accept(&mut tm, us(1200), 1, 2);
        assert_eq!(run(&mut tm, us(1200)), [(us(1200), first)]);
    }
}

fn ranked(tm: &mut TrafficManager<u32>, rank: u32, flow: u32, id: u32) -> Admission<u32> {
    let arrival = Arrival {
        len: 1500,
        rank,
        flow,
        ..Arrival::default()
    };
    tm.enqueue(us(0), PORT, arrival, id)
}

#[test]
fn the_flow_of_the_least_rank_is_served_in_its_order() {
    let mut profile = gigabit();
    profile.queue[0].rank = true;
    profile.queue[0].capacity_packets = Some(4);
    profile.queue[0].on_full = OnFull::PushOut;
    let mut tm = manager(profile);
    for (rank, flow, id) in [(9, 1, 1), (5, 2, 2), (7, 3, 3), (3, 1, 4)] {
        assert!(matches!(
            ranked(&mut tm, rank, flow, id),
            Admission::Enqueued { .. }
        ));
    }
    // The greatest rank gives way, and one that is not less than the greatest is lost itself.
    let reason = DropReason::QueueFull;
    let lost = Admission::Dropped { packet: 5, reason };
    assert_eq!(ranked(&mut tm, 9, 4, 5), lost);
    assert!(matches!(
        ranked(&mut tm, 8, 4, 6),
        Admission::Enqueued { .. }
    ));
    assert_eq!(tm.take_pushed_out().map(|gone| gone.packet), Some(1));
    assert!(matches!(
        ranked(&mut tm, 6, 3, 7),
        Admission::Enqueued { .. }
    ));
    assert_eq!(tm.take_pushed_out().map(|gone| gone.packet), Some(6));
    // Packet 7 has the lesser rank of flow 3, but packet 3 is the earlier one.
    let order: Vec<_> = run(&mut tm, us(100)).into_iter().map(|s| s.1).collect();
    assert_eq!(order, [4, 2, 3, 7]);
}

#[test]
fn a_late_call_serves_by_rank_what_was_there() {
    let mut profile = gigabit();
    profile.queue[0].rank = true;
    profile.queue[0].capacity_packets = Some(4);
    let mut tm = manager(profile);
    let arrival = |rank| Arrival {
        len: 1500,
        rank,
        flow: rank,
        ..Arrival::default()
    };
    for (at, rank) in [(0, 9), (5, 7), (13, 1)] {
        let admission = tm.enqueue(us(at), PORT, arrival(rank), rank);
        assert!(matches!(admission, Admission::Enqueued { .. }));
    }
    let order: Vec<_> = run(&mut tm, us(100)).into_iter().map(|s| s.1).collect();
    assert_eq!(order, [9, 7, 1]);
}
