use ebb_units::Duration;
use proptest::prelude::*;

use super::*;

const FRAME: u64 = 1_538;
const ROOM: u64 = 1 << 30;

fn guarantee(rate_mbps: u64, burst_bytes: u64, peak_mbps: u64) -> Guarantee {
    Guarantee {
        rate: BitRate::from_mbps(rate_mbps),
        burst_bytes,
        peak: BitRate::from_mbps(peak_mbps),
    }
}

fn departures(pacer: &mut VmPacer<u32, u32>) -> Vec<(Instant, u32)> {
    let mut all = Vec::new();
    while let Some(departure) = pacer.poll(Instant::from_micros(1_000_000)) {
        all.push((departure.at, departure.packet));
    }
    all
}

#[test]
fn a_burst_leaves_at_the_peak_rate_and_the_rest_at_the_average() {
    let guarantee = guarantee(1_000, 10 * FRAME, 10_000);
    let mut pacer = VmPacer::new(guarantee, FRAME, ROOM);
    for n in 0..20 {
        let put = pacer.enqueue(Instant::ZERO, 7, FRAME, n, guarantee.rate);
        assert_eq!(put, Ok(()));
    }
    let at: Vec<Instant> = departures(&mut pacer).iter().map(|(at, _)| *at).collect();
    let gaps: Vec<Duration> = at.windows(2).map(|w| w[1].since(w[0])).collect();
    let frame_at = |mbps| BitRate::from_mbps(mbps).time_for(FRAME);
    // While ten frames leave, another one is earned.
    assert!(
        gaps[..10].iter().all(|gap| *gap == frame_at(10_000)),
        "{gaps:?}"
    );
    assert!(
        gaps[11..].iter().all(|gap| *gap == frame_at(1_000)),
        "{gaps:?}"
    );
}

#[test]
fn a_destination_without_a_rate_holds_no_other_back() {
    let guarantee = guarantee(1_000, FRAME, 1_000);
    let mut pacer = VmPacer::new(guarantee, FRAME, ROOM);
    let none = BitRate::from_bps(0);
    for n in 0..3 {
        assert_eq!(pacer.enqueue(Instant::ZERO, 1, FRAME, n, none), Ok(()));
        assert_eq!(
            pacer.enqueue(Instant::ZERO, 2, FRAME, 10 + n, guarantee.rate),
            Ok(())
        );
    }
    let order: Vec<u32> = departures(&mut pacer).iter().map(|(_, n)| *n).collect();
    // The first packet of destination 1 is its burst.
    assert_eq!(order, [0, 10, 11, 12]);
    assert_eq!(pacer.next_departure(), Some(Instant::FAR_FUTURE));
    pacer.set_rate(Instant::from_micros(100), 1, guarantee.rate);
    assert_eq!(departures(&mut pacer).len(), 2);
    assert_eq!(pacer.backlog_bytes(), 0);
}

#[test]
fn a_full_pacer_gives_the_packet_back() {
    let guarantee = guarantee(1_000, FRAME, 1_000);
    let mut pacer = VmPacer::new(guarantee, FRAME, 2 * FRAME);
    for n in 0..2 {
        assert_eq!(
            pacer.enqueue(Instant::ZERO, 1, FRAME, n, guarantee.rate),
            Ok(())
        );
    }
    assert_eq!(
        pacer.enqueue(Instant::ZERO, 1, 84, 9, guarantee.rate),
        Err(9)
    );
}

#[test]
fn a_destination_wants_a_rate_until_its_bucket_is_full() {
    let guarantee = guarantee(8, FRAME, 8);
    let mut pacer = VmPacer::new(guarantee, FRAME, ROOM);
    assert_eq!(
        pacer.enqueue(Instant::ZERO, 1, 1_000, 0, guarantee.rate),
        Ok(())
    );
    assert!(pacer.poll(Instant::ZERO).is_some());
    let (before, after) = (Instant::from_micros(999), Instant::from_micros(1_000));
    for _ in 0..2 {
        assert_eq!(pacer.poll_wanting(before).collect::<Vec<_>>(), [1]);
    }
    assert_eq!(pacer.poll_wanting(after).count(), 0);
    pacer.forget_idle(after);
    assert!(pacer.destinations.is_empty());
}

#[test]
fn destinations_are_bounded_and_idle_ones_make_room() {
    let guarantee = guarantee(8, FRAME, 8);
    let mut pacer = VmPacer::new(guarantee, FRAME, ROOM);
    for to in 0..MAX_DESTINATIONS as u32 {
        assert_eq!(
            pacer.enqueue(Instant::ZERO, to, 100, to, guarantee.rate),
            Ok(())
        );
    }
    let next = MAX_DESTINATIONS as u32;
    assert_eq!(
        pacer.enqueue(Instant::ZERO, next, 100, next, guarantee.rate),
        Err(next)
    );
    assert!(pacer.poll(Instant::ZERO).is_some());
    let full = Instant::from_micros(100);
    assert_eq!(pacer.enqueue(full, next, 100, next, guarantee.rate), Ok(()));
}

proptest! {
    /// A(t) = min(Bmax t + L, B t + S) over every span, whatever the destinations.
    #[test]
    fn what_leaves_keeps_to_the_arrival_curve(
        rate_mbps in 10_u64..2_000,
        more_mbps in 0_u64..8_000,
        burst in FRAME..60_000,
        packets in prop::collection::vec((0_u32..5, 84_u64..=FRAME, 0_u64..50), 1..80),
    ) {
        let guarantee = guarantee(rate_mbps, burst, rate_mbps + more_mbps);
        let mut pacer = VmPacer::new(guarantee, FRAME, ROOM);
        let mut now = Instant::ZERO;
        let mut sent = Vec::new();
        for (to, bytes, pause_us) in packets {
            now += Duration::from_micros(pause_us);
            while let Some(departure) = pacer.poll(now) {
                sent.push((departure.at, departure.wire_bytes));
            }
            prop_assert_eq!(pacer.enqueue(now, to, bytes, (), guarantee.rate), Ok(()));
        }
        while let Some(departure) = pacer.poll(Instant::FAR_FUTURE) {
            sent.push((departure.at, departure.wire_bytes));
        }
        prop_assert_eq!(pacer.backlog_bytes(), 0);
        for first in 0..sent.len() {
            let mut bytes = 0;
            for (at, size) in &sent[first..] {
                prop_assert!(*at >= sent[first].0);
                bytes += size;
                let span = at.since(sent[first].0);
                // Rounded down: a byte is there when the last of its bits is.
                prop_assert!(bytes <= burst + guarantee.rate.bytes_in(span) + 1);
                prop_assert!(bytes <= FRAME + guarantee.peak.bytes_in(span) + 1);
            }
        }
    }
}

/// A small packet waits behind a full one that the VM's bucket has no room for. When that one loses
/// its rate, the small one conforms from then on, not from when it would have without the other.
#[test]
fn what_comes_in_front_leaves_no_earlier_than_that() {
    let slow = guarantee(8, FRAME, 1_000);
    let rate = BitRate::from_mbps(1_000);
    let now = Instant::from_micros(1_000);
    let mut pacer = VmPacer::new(slow, FRAME, ROOM);
    for (to, bytes, packet) in [(1, FRAME, 0), (1, FRAME, 1), (2, 84, 2)] {
        let since = Instant::from_micros(u64::from(to == 2) * 20);
        assert_eq!(pacer.enqueue(since, to, bytes, packet, rate), Ok(()));
    }
    assert_eq!(pacer.poll(now).map(|departure| departure.packet), Some(0));
    // At 1 byte per microsecond.
    assert_eq!(pacer.next_departure(), Some(Instant::from_micros(1_538)));
    pacer.set_rate(now, 1, BitRate::from_bps(0));
    let next = pacer
        .poll(now)
        .map(|departure| (departure.at, departure.packet));
    assert_eq!(next, Some((now, 2)));
}
