//! Limits of drop notifications at a port (FastLane: Zats, section 6.5.3; the groups of
//! `experiments/schemes/fastlane.toml`): 1 % of the link, while data waits, and 3,277 bytes of buffer.

use std::collections::BTreeMap;

use ebb_traffic_manager::{
    Admission, Arrival, Group, OnFull, Profile, QueueConfig, TrafficManager, TrafficManagerConfig,
};
use ebb_units::{BitRate, Duration, Instant};
use proptest::prelude::*;

const PORT: u16 = 3;
const DATA: u8 = 0;
const NOTIFICATIONS: u8 = 7;
const CAP_BYTES: u64 = 3_277;
/// On the wire around a frame: preamble, FCS and gap.
const OVERHEAD_BYTES: u64 = 24;
/// A byte on the wire.
const BYTE: Duration = Duration::from_nanos(8);

fn manager(capped: bool) -> TrafficManager<u64> {
    let queue = |id, capacity, on_full| QueueConfig {
        id,
        capacity_bytes: Some(capacity),
        on_full,
        ..QueueConfig::default()
    };
    let group = |queue, share, burst_bytes| Group {
        queues: vec![queue],
        share,
        burst_bytes,
        capped: capped && queue == NOTIFICATIONS,
        ..Group::default()
    };
    let profile = Profile {
        name: "notifying".into(),
        rate_bps: BitRate::from_mbps(1000),
        frame_overhead_bytes: OVERHEAD_BYTES,
        queue: vec![
            queue(DATA, 131_072, OnFull::Deflect),
            queue(NOTIFICATIONS, CAP_BYTES, OnFull::TailDrop),
        ],
        group: vec![
            group(DATA, None, 0),
            group(NOTIFICATIONS, Some(0.01), CAP_BYTES),
        ],
        ..Profile::default()
    };
    let config = TrafficManagerConfig {
        ports: BTreeMap::from([("default".into(), profile.name.clone())]),
        profile: vec![profile],
        ..TrafficManagerConfig::default()
    };
    TrafficManager::new(config).expect("valid")
}

/// A packet that left.
struct Sent {
    is_notification: bool,
    wire_bytes: u64,
    start: Instant,
    /// Data waited while it was chosen.
    data_waited: bool,
}

/// Lets go what may until `now`.
fn send(tm: &mut TrafficManager<u64>, now: Instant, sent: &mut Vec<Sent>) {
    loop {
        let waits = |tm: &TrafficManager<u64>| tm.depth(PORT, DATA).packets;
        let before = waits(tm);
        let Some(d) = tm.dequeue(now, PORT) else {
            return;
        };
        tm.transmit(PORT, d.queue, d.start, d.packet, false);
        sent.push(Sent {
            is_notification: d.queue == NOTIFICATIONS,
            wire_bytes: d.packet + OVERHEAD_BYTES,
            start: d.start,
            data_waited: before > 0,
        });
    }
}

/// The largest excess of a hundred times the bytes of notifications over those of the link, in all
/// windows from one packet to another in which data waited at each.
fn most_above_the_share(sent: &[Sent]) -> i64 {
    let link_bytes = |at: Instant| (at.since(Instant::ZERO).as_nanos() / BYTE.as_nanos()) as i64;
    // Windows begin at a packet: a hundred times the notifications before, less the link.
    let (mut before, mut least, mut most) = (0, i64::MAX, 0);
    for each in sent {
        if !each.data_waited {
            least = i64::MAX;
        } else {
            least = least.min(before - link_bytes(each.start));
        }
        if each.is_notification {
            before += 100 * each.wire_bytes as i64;
            if each.data_waited {
                let end = each.start + BYTE * each.wire_bytes;
                most = most.max(before - link_bytes(end) - least);
            }
        }
    }
    most
}

proptest! {
    /// Bursts of notifications of any length that a header can have, and of data, at any times. With
    /// a cap the share is kept while no data waits, too.
    #[test]
    fn notifications_keep_to_their_share_and_to_their_buffer(
        capped: bool,
        bursts in prop::collection::vec(
            (0u64..400, 0usize..60, 54u64..114, 0usize..40, 60u64..1514),
            1..40,
        ),
    ) {
        let mut tm = manager(capped);
        let (mut now, mut sent) = (Instant::ZERO, Vec::new());
        let (mut offered, mut refused) = (0, 0);
        for (gap_us, notifications, length, packets, bytes) in bursts {
            now += Duration::from_micros(gap_us);
            send(&mut tm, now, &mut sent);
            let all = [(NOTIFICATIONS, notifications, length), (DATA, packets, bytes)];
            for (queue, count, len) in all {
                for _ in 0..count {
                    let arrival = Arrival { queue, len, ..Arrival::default() };
                    offered += u64::from(queue == NOTIFICATIONS);
                    let taken = tm.enqueue(now, PORT, arrival, len);
                    if queue == NOTIFICATIONS {
                        refused += u64::from(matches!(taken, Admission::Dropped { .. }));
                        prop_assert!(tm.depth(PORT, queue).bytes <= CAP_BYTES);
                    }
                }
            }
        }
        send(&mut tm, now + Duration::from_secs(1), &mut sent);
        sent.iter_mut().for_each(|each| each.data_waited |= capped);
        // Those that were taken have left.
        let left = sent.iter().filter(|s| s.is_notification).count() as u64;
        prop_assert_eq!(left, offered - refused);
        prop_assert!(most_above_the_share(&sent) <= 100 * CAP_BYTES as i64);
    }
}
