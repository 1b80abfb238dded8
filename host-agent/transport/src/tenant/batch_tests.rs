use proptest::prelude::*;

use super::super::Guarantee;
use super::*;

const FRAME: u64 = 1_538;
const LINK: BitRate = BitRate::from_mbps(10_000);
const WINDOW: Duration = Duration::from_micros(50);

/// A VM of `mbps` without burst, with `frames` full frames that wait.
fn vm(mbps: u64, frames: u32) -> VmPacer<u32, u32> {
    let rate = BitRate::from_mbps(mbps);
    let guarantee = Guarantee {
        rate,
        burst_bytes: FRAME,
        peak: LINK,
    };
    let mut pacer = VmPacer::new(guarantee, FRAME, 1 << 30);
    for n in 0..frames {
        assert_eq!(pacer.enqueue(Instant::ZERO, 0, FRAME, n, rate), Ok(()));
    }
    pacer
}

fn batch(batcher: &mut Batcher, now: Instant, pacers: &mut [VmPacer<u32, u32>]) -> Vec<Slot<u32>> {
    let mut slots = Vec::new();
    batcher.fill(now, pacers, &mut slots);
    slots
}

/// Thesis, figure 5.6: at 10 Gbit/s a VM of 2 Gbit/s has every fifth frame of a batch of 40, and
/// one of 1 Gbit/s every tenth.
#[test]
fn a_batch_of_40_is_12_packets_and_28_void_frames() {
    let mut batcher = Batcher::new(LINK, WINDOW, FRAME);
    let mut pacers = [vm(2_000, 100), vm(1_000, 100)];
    let slots = batch(&mut batcher, Instant::ZERO, &mut pacers);
    let of = |vm| {
        let has = |slot: &&Slot<u32>| slot.content.is_some_and(|(v, _)| v == vm);
        slots.iter().filter(has).count()
    };
    assert_eq!((of(0), of(1)), (8, 4));
    assert_eq!(
        slots.iter().filter(|slot| slot.content.is_none()).count(),
        28
    );
    assert_eq!(
        slots.iter().map(|slot| slot.wire_bytes).sum::<u64>(),
        40 * FRAME
    );
}

#[test]
fn a_gap_shorter_than_the_shortest_frame_delays_by_less_than_one() {
    let mut batcher = Batcher::new(LINK, WINDOW, FRAME);
    // 1538 bytes at 9.7 Gbit/s are 1585.6 at 10.
    let mut pacers = [vm(9_700, 1_000)];
    let rate = BitRate::from_mbps(9_700);
    let mut packets = 0;
    for _ in 0..20 {
        let now = batcher.free_at();
        for slot in batch(&mut batcher, now, &mut pacers) {
            if slot.content.is_some() {
                let ideal = Instant::ZERO + rate.time_for(packets * FRAME);
                assert!(slot.starts + Duration::from_picos(1_000) >= ideal);
                assert!(slot.starts.since(ideal) < LINK.time_for(2 * MIN_VOID_BYTES));
                packets += 1;
            } else {
                assert!(slot.wire_bytes >= MIN_VOID_BYTES);
            }
        }
    }
    let sent = packets * FRAME;
    let ideal = rate.bytes_in(batcher.free_at().since(Instant::ZERO));
    assert!(sent * 100 >= ideal * 98, "{sent} of {ideal} bytes");
}

/// Two packets of 8.4 to 8.6 KB are more than a burst of 15,000 bytes, so the second one waits for
/// tokens; one that would not end within the batch is in the next one.
#[test]
fn no_packet_reaches_beyond_its_batch() {
    let gigabit = BitRate::from_mbps(1_000);
    for frame_bytes in [8_400, 8_538, 8_600] {
        let window = gigabit.time_for(2 * frame_bytes);
        let guarantee = Guarantee {
            rate: BitRate::from_mbps(150),
            burst_bytes: 15_000,
            peak: gigabit,
        };
        let mut pacers = [VmPacer::new(guarantee, frame_bytes, 1 << 20)];
        for n in 0..8 {
            let kept = pacers[0].enqueue(Instant::ZERO, 0, frame_bytes, n, guarantee.rate);
            assert_eq!(kept, Ok(()));
        }
        let mut batcher = Batcher::new(gigabit, window, frame_bytes);
        let mut packets = Vec::new();
        while pacers[0].backlog_bytes() > 0 {
            let starts = batcher.free_at();
            let slots = batch(&mut batcher, starts, &mut pacers);
            assert!(batcher.free_at() <= starts + window, "{frame_bytes} bytes");
            packets.extend(slots.iter().filter_map(|slot| slot.content));
        }
        let (_, second) = packets[1];
        let lacking = 2 * frame_bytes - guarantee.burst_bytes;
        assert_eq!(second.at, Instant::ZERO + guarantee.rate.time_for(lacking));
    }
}

#[test]
fn without_a_packet_that_waits_the_link_is_idle() {
    let mut batcher = Batcher::new(LINK, WINDOW, FRAME);
    let mut pacers = [vm(1_000, 1)];
    let now = Instant::from_micros(7);
    let slots = batch(&mut batcher, now, &mut pacers);
    assert_eq!(slots.len(), 1);
    assert_eq!(slots[0].starts, now);
    assert!(batch(&mut batcher, now, &mut pacers).is_empty());
}

#[test]
fn a_packet_without_a_rate_makes_no_void_frames() {
    let mut pacer = vm(1_000, 0);
    let none = BitRate::from_bps(0);
    for n in 0..2 {
        assert_eq!(pacer.enqueue(Instant::ZERO, 1, FRAME, n, none), Ok(()));
    }
    let mut batcher = Batcher::new(LINK, WINDOW, FRAME);
    let slots = batch(&mut batcher, Instant::ZERO, &mut [pacer]);
    assert_eq!(slots.len(), 1);
}

proptest! {
    /// Batches follow each other without a gap, no packet starts before its departure, and each
    /// rate is at least 98 % of what the VM may send.
    #[test]
    fn batches_keep_times_and_rates(mbps in 100_u64..9_000, batches in 20_usize..60) {
        let mut batcher = Batcher::new(LINK, WINDOW, FRAME);
        let mut pacers = [vm(mbps, 4_000)];
        let rate = BitRate::from_mbps(mbps);
        let (mut end, mut sent) = (Instant::ZERO, 0_u64);
        for _ in 0..batches {
            for slot in batch(&mut batcher, end, &mut pacers) {
                prop_assert_eq!(slot.starts, end);
                prop_assert!((MIN_VOID_BYTES..=FRAME).contains(&slot.wire_bytes));
                end += LINK.time_for(slot.wire_bytes);
                if slot.content.is_some() {
                    prop_assert!(slot.starts >= Instant::ZERO + rate.time_for(sent) - Duration::from_picos(1));
                    sent += slot.wire_bytes;
                }
            }
        }
        let ideal = rate.bytes_in(end.since(Instant::ZERO));
        prop_assert!((sent + FRAME) * 100 >= ideal * 98, "{} of {} bytes", sent, ideal);
    }
}
