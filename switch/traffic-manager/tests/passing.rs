//! A packet that need not wait is handled as by a manager whose queues all packets enter: same departures, same
//! statistics.

use ebb_traffic_manager::{
    Admission, Arrival, Depth, Group, OnFull, Profile, QueueConfig, TrafficManager,
    TrafficManagerConfig,
};
use ebb_units::{BitRate, Instant};
use proptest::prelude::*;

/// The port of all packets.
const PORT: u16 = 2;

/// Something that happens, so many nanoseconds after what was before it.
#[derive(Clone, Debug)]
enum Step {
    /// Packets of these lengths come in for these queues.
    Arrive(u64, Vec<(u8, u64)>),
    /// A queue is paused, or resumes.
    Pause(u64, u8, bool),
    /// The statistics begin again.
    Reset(u64),
}

/// A port at which a byte takes a nanosecond, with few queues.
fn config(grouped: bool, shared: bool, capacity: Option<u64>, pool: bool) -> TrafficManagerConfig {
    let queue = |id| QueueConfig {
        id,
        capacity_bytes: capacity,
        pool,
        on_full: if id == 0 {
            OnFull::Deflect
        } else {
            OnFull::TailDrop
        },
        ..QueueConfig::default()
    };
    let group = |queues: &[u8], weight| Group {
        queues: queues.to_vec(),
        weight,
        ..Group::default()
    };
    let mut groups = if grouped {
        vec![group(&[2], 3), group(&[0, 1], 1)]
    } else {
        Vec::new()
    };
    if grouped && shared {
        groups[0] = Group {
            queues: vec![2],
            share: Some(0.3),
            burst_bytes: 60,
            ..Group::default()
        };
    }
    let profile = Profile {
        name: "p".into(),
        rate_bps: BitRate::from_mbps(8_000),
        delay_ns: 5,
        pool_bytes: pool.then_some(90),
        queue: (0..3).map(queue).collect(),
        group: groups,
        ..Profile::default()
    };
    TrafficManagerConfig {
        profile: vec![profile],
        ports: [("default".to_owned(), "p".to_owned())].into(),
        ..TrafficManagerConfig::default()
    }
}

fn step() -> impl Strategy<Value = Step> {
    let packet = (0..4u8, 1..40u64);
    let after = prop_oneof![Just(0), 0..60u64];
    prop_oneof![
        6 => (after, prop::collection::vec(packet, 1..4)).prop_map(|(t, p)| Step::Arrive(t, p)),
        1 => (0..30u64, 0..3u8, any::<bool>()).prop_map(|(t, q, on)| Step::Pause(t, q, on)),
        1 => (0..30u64).prop_map(Step::Reset),
    ]
}

/// A manager, and what became of the packets.
struct Run {
    manager: TrafficManager<u32>,
    /// Whether packets may pass.
    passes: bool,
    passed: usize,
    told: Vec<String>,
}

impl Run {
    fn new(config: TrafficManagerConfig, passes: bool) -> Self {
        let mut manager = TrafficManager::new(config).unwrap();
        manager.open_port(Instant::ZERO, PORT);
        Self {
            manager,
            passes,
            passed: 0,
            told: Vec::new(),
        }
    }

    /// Sends all that starts until `now`.
    fn send_until(&mut self, now: Instant) {
        while let Some(at) = self.manager.next_deadline(PORT).filter(|at| *at <= now) {
            let departure = self.manager.dequeue(at, PORT).unwrap();
            let (queue, len) = (departure.queue, departure.len);
            self.told.push(format!("{departure:?}"));
            self.manager.transmit(PORT, queue, at, len, false);
        }
    }

    fn arrive(&mut self, now: Instant, queue: u8, len: u64, packet: u32) {
        let arrival = Arrival {
            ingress_port: 1,
            queue,
            len,
            ..Arrival::default()
        };
        if self.passes && self.manager.pass(now, PORT, &arrival) {
            self.passed += 1;
            let departure = ebb_traffic_manager::Departure {
                packet,
                queue,
                ingress_port: 1,
                enqueued_at: now,
                start: now,
                depth_at_enqueue: Depth::default(),
                depth_at_dequeue: Depth::default(),
                len,
            };
            self.told.push(format!("{departure:?}"));
            self.manager.transmit(PORT, queue, now, len, false);
            return;
        }
        match self.manager.enqueue(now, PORT, arrival, packet) {
            Admission::Enqueued { .. } => {}
            refused => self.told.push(format!("{refused:?}")),
        }
        self.send_until(now);
    }

    fn play(&mut self, steps: &[Step]) -> Instant {
        let (mut now, mut packet) = (Instant::ZERO, 0);
        for step in steps {
            let (Step::Arrive(after, _) | Step::Pause(after, ..) | Step::Reset(after)) = step;
            now += ebb_units::Duration::from_nanos(*after);
            self.send_until(now);
            match step {
                Step::Arrive(_, packets) => {
                    for (queue, len) in packets {
                        packet += 1;
                        self.arrive(now, *queue, *len, packet);
                    }
                }
                Step::Pause(_, queue, on) => self.manager.set_paused(now, PORT, *queue, *on),
                Step::Reset(_) => self.manager.reset_statistics(now),
            }
            self.send_until(now);
        }
        now
    }
}

proptest! {
    #[test]
    fn as_through_the_queue(
        steps in prop::collection::vec(step(), 1..60),
        (grouped, shared, pool) in any::<(bool, bool, bool)>(),
        capacity in prop_oneof![Just(None), (20..120u64).prop_map(Some)],
    ) {
        let config = config(grouped, shared, capacity, pool);
        let [mut passing, mut waiting] = [true, false].map(|passes| Run::new(config.clone(), passes));
        let now = passing.play(&steps);
        waiting.play(&steps);
        prop_assert_eq!(&passing.told, &waiting.told);
        prop_assert_eq!(passing.manager.statistics(now), waiting.manager.statistics(now));
    }
}

#[test]
fn only_a_packet_that_need_not_wait_passes() {
    let us = Instant::from_micros;
    let mut run = Run::new(config(false, false, Some(50), false), true);
    run.arrive(us(1), 1, 40, 1);
    assert_eq!(run.passed, 1);
    // The link is busy, then another packet waits.
    run.arrive(us(1), 1, 40, 2);
    assert_eq!(run.passed, 1);
    run.send_until(us(2));
    run.arrive(us(3), 1, 51, 3);
    assert_eq!(run.passed, 1, "it is too long for the queue");
    run.manager.set_paused(us(4), PORT, 1, true);
    run.arrive(us(4), 1, 10, 4);
    assert_eq!(run.passed, 1, "the queue is paused");
    run.arrive(us(5), 2, 10, 5);
    assert_eq!(run.passed, 2);
}
