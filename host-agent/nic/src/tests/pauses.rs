//! When a class is paused and resumes: exact times, at 1 Gbit/s, where a quantum takes 512 ns.

use ebb_units::Duration;
use proptest::prelude::*;

use super::*;

#[test]
fn a_frame_on_its_way_out_goes_out_and_the_next_waits_for_the_pause() {
    let mut nic = Nic::new(params());
    // Stopped at 106 us for 100 quanta: until 157.2 us.
    assert_eq!(starts(&mut nic, us(100), us(101), &[3]), [(3, us(100))]);
    pause(&mut nic, us(106), 0b1000, 100);
    assert_eq!(nic.free_at(), us(112));
    let begin = ns(157_200);
    assert_eq!(
        starts(&mut nic, us(106), us(180), &[3]),
        [(3, begin), (3, begin + frames(1))]
    );
}

#[test]
fn a_class_stops_and_the_others_go_on_at_the_rate_of_the_link() {
    let mut nic = Nic::new(params());
    pause(&mut nic, us(100), 0b10, 0xffff);
    let sent = starts(&mut nic, us(100), us(220), &[0, 1, 7]);
    let expected: Vec<_> = (0..10).map(|n| us(100) + frames(n)).collect();
    assert_eq!(sent.iter().map(|(_, at)| *at).collect::<Vec<_>>(), expected);
    assert!(sent.iter().all(|(class, _)| *class != 1), "{sent:?}");
    assert!(sent.iter().any(|(class, _)| *class == 7), "{sent:?}");
}

#[test]
fn the_response_time_counts_from_the_reception_and_the_pause_from_its_end() {
    let mut nic = Nic::new(NicParams {
        pfc_response_ns: 20_000,
        ..params()
    });
    pause(&mut nic, us(100), 1, 100);
    // Frames start until 120 us; the one of 112 us is out at 124. Stopped until 120 + 51.2.
    let sent = starts(&mut nic, us(100), us(180), &[0]);
    assert_eq!(sent, [(0, us(100)), (0, us(112)), (0, ns(171_200))]);
    // The resume takes effect after the same response time.
    pause(&mut nic, us(200), 1, 0xffff);
    pause(&mut nic, us(230), 1, 0);
    let sent = starts(&mut nic, us(221), us(260), &[0]);
    assert_eq!(sent, [(0, us(250))]);
}

#[test]
fn a_refresh_prolongs_a_shorter_time_shortens_and_zero_ends() {
    let mut nic = Nic::new(params());
    pause(&mut nic, us(100), 1, 100);
    pause(&mut nic, us(140), 1, 100);
    assert_eq!(nic.next_start(us(140)), Some(ns(191_200)));
    pause(&mut nic, us(150), 1, 10);
    assert_eq!(nic.next_start(us(150)), Some(ns(155_120)));
    pause(&mut nic, us(152), 1, 0);
    assert_eq!(nic.next_start(us(152)), None);
    assert_eq!(starts(&mut nic, us(152), us(153), &[0]), [(0, us(152))]);
    let statistics = nic.statistics(us(200));
    assert_eq!(statistics.paused[0], Duration::from_micros(52));
    assert_eq!(statistics.pauses_received[0], 3);
    assert_eq!(statistics.paused[1], Duration::ZERO);
}

#[test]
fn a_pause_is_as_long_as_it_was_at_the_rate_at_which_it_came() {
    let mut nic = Nic::new(params());
    nic.set_rate_bps(100_000_000);
    pause(&mut nic, us(100), 1, 10);
    nic.set_rate_bps(1_000_000_000);
    assert_eq!(nic.next_start(us(100)), Some(ns(151_200)));
}

#[test]
fn a_neighbour_that_never_ends_a_pause_shows_in_the_statistics() {
    let mut nic = Nic::new(params());
    // Refreshed at half of its 33.55 ms.
    for n in 0..60 {
        pause(&mut nic, us(16_776 * n), 0b100, 0xffff);
    }
    let statistics = nic.statistics(us(1_000_000));
    assert_eq!(statistics.paused[2], Duration::from_secs(1));
    assert_eq!(statistics.pauses_received[2], 60);
    assert!(starts(&mut nic, us(1_000_000), us(1_000_100), &[2]).is_empty());
    assert_eq!(
        starts(&mut nic, us(1_000_000), us(1_000_012), &[1]).len(),
        1
    );
}

#[test]
fn a_packet_that_was_shown_before_the_pause_hinders_nobody() {
    let mut nic = Nic::new(params());
    pause(&mut nic, us(100), 1, 10);
    // Whoever drives the NIC had already taken it from its flow.
    nic.push(&mut packet(0, FULL, 0));
    assert_eq!(starts(&mut nic, us(100), us(101), &[0, 1]), [(1, us(100))]);
    let later = starts(&mut nic, us(112), us(113), &[0, 1]);
    assert_eq!(later, [(0, us(112))]);
}

#[test]
fn what_is_no_pfc_frame_is_counted_and_stops_nothing() {
    let mut nic = Nic::new(params());
    let whole = frame(0xff, 0xffff);
    let mut wrong_opcode = whole.clone();
    wrong_opcode[15] = 0;
    let mut no_class = whole.clone();
    no_class[17] = 0;
    let mut elsewhere = whole.clone();
    elsewhere[5] = 2;
    let short = &whole[..40];
    for bad in [&wrong_opcode, &no_class, &elsewhere, short] {
        assert!(control(&mut nic, us(100), bad).is_err());
    }
    assert_eq!(nic.statistics(us(100)).refused_frames, 4);
    assert_eq!(nic.next_start(us(100)), None);
}

#[test]
fn without_pfc_no_frame_stops_anything() {
    let mut nic = Nic::new(NicParams {
        pfc: false,
        ..params()
    });
    pause(&mut nic, us(100), 0xff, 0xffff);
    assert_eq!(starts(&mut nic, us(100), us(101), &[0]), [(0, us(100))]);
    assert_eq!(nic.statistics(us(200)), crate::NicStatistics::default());
}

/// The neighbour sends more PFC frames within the response time than the NIC keeps.
#[test]
fn a_flood_of_frames_takes_no_memory_and_the_last_one_counts() {
    let mut nic = Nic::new(NicParams {
        pfc_response_ns: 1_000_000,
        ..params()
    });
    for n in 0..10_000 {
        pause(&mut nic, ns(100_000 + n), 1, 0xffff);
    }
    pause(&mut nic, us(111), 1, 0);
    assert_eq!(
        starts(&mut nic, us(1_200), us(1_201), &[0]),
        [(0, us(1_200))]
    );
}

/// The class's state after PFC frames until a time, without any memory: the last that had effect decides.
fn is_stopped(frames: &[(u64, u8, u16)], response: u64, class: u8, at: Instant) -> bool {
    let mut of_class = frames.iter().filter(|(_, mask, _)| mask >> class & 1 == 1);
    let last = of_class.rfind(|(received, ..)| ns(received + response) <= at);
    last.is_some_and(|(received, _, quanta)| {
        ns(received + response + 512 * u64::from(*quanta)) > at
    })
}

proptest! {
    /// No byte of a class starts inside its pause, and the link is never idle while a class that
    /// may go has something.
    #[test]
    fn classes_stop_for_their_pauses_and_for_nothing_else(
        mut frames in prop::collection::vec((0u64..2_000_000, 1u8.., 0u16..400), 0..30),
        response in prop_oneof![Just(0u64), 1u64..50_000],
        busy in prop::collection::btree_set(0u8..8, 1..5),
        fifo in any::<bool>(),
    ) {
        frames.sort_unstable();
        frames.dedup_by_key(|(at, ..)| *at);
        let busy: Vec<u8> = busy.into_iter().collect();
        let mut nic = Nic::new(NicParams {
            pfc_response_ns: response,
            queue: if fifo { crate::QueueKind::Fifo } else { crate::QueueKind::RoundRobin },
            queue_packets: 3,
            ..params()
        });
        let mut sent = Vec::new();
        let mut now = ns(0);
        for (at, mask, quanta) in &frames {
            // No two events of a host happen at once in this test.
            sent.extend(starts(&mut nic, now, ns(*at), &busy));
            now = ns(*at).max(now);
            pause(&mut nic, ns(*at), *mask, *quanta);
        }
        sent.extend(starts(&mut nic, now, ns(2_500_000), &busy));
        for (class, at) in &sent {
            // A frame that has effect at the very instant counts or not, as it came before or after.
            let before = ns(at.as_nanos().saturating_sub(1));
            prop_assert!(
                !is_stopped(&frames, response, *class, *at)
                    || !is_stopped(&frames, response, *class, before),
                "class {class} at {at:?}"
            );
        }
        // Idle between two frames: every busy class is stopped in between.
        for pair in sent.windows(2) {
            let (end, next) = (pair[0].1 + frames_time(), pair[1].1);
            let gap = next.since(end).as_nanos();
            for step in 0..gap.min(200) {
                let at = end + Duration::from_nanos(step * gap / gap.min(200));
                for class in &busy {
                    prop_assert!(is_stopped(&frames, response, *class, at), "{class} at {at:?}");
                }
            }
        }
    }
}

fn frames_time() -> Duration {
    super::frames(1)
}
