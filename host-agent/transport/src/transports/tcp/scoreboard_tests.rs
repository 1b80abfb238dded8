use proptest::prelude::*;

use super::*;

const MSS: u64 = 1000;

/// `count` full segments from offset 1, sent one microsecond apart.
fn sent(count: u64) -> Scoreboard {
    let mut board = Scoreboard::default();
    for i in 0..count {
        board.on_sent(1 + i * MSS, 1 + (i + 1) * MSS, Instant::from_micros(i));
    }
    board
}

fn offset(segment: u64) -> u64 {
    1 + segment * MSS
}

#[test]
fn three_segments_above_make_a_hole_a_loss() {
    let mut board = sent(10);
    for upto in [2, 3] {
        board.on_ack(1, &[(offset(1), offset(upto))]);
        assert!(!board.mark_lost(3, MSS));
    }
    board.on_ack(1, &[(offset(1), offset(4))]);
    assert!(board.mark_lost(3, MSS));
    assert!(!board.mark_lost(3, MSS), "found once");
    assert_eq!(board.next_lost(), Some((offset(0), offset(1))));
    // 10 sent, 3 SACKed, 1 lost.
    assert_eq!(board.pipe(), 6 * MSS);
    board.on_retransmitted(offset(0), Instant::from_micros(50));
    assert_eq!(board.pipe(), 7 * MSS);
    assert_eq!(board.next_lost(), None);
}

/// RFC 6675 4: the other half of IsLost(), which small segments need.
#[test]
fn three_separate_ranges_above_make_a_hole_a_loss() {
    let mut board = Scoreboard::default();
    for i in 0..10 {
        board.on_sent(1 + i, 2 + i, Instant::from_micros(i));
    }
    board.on_ack(1, &[(2, 3), (4, 5)]);
    assert!(!board.mark_lost(3, MSS));
    board.on_ack(1, &[(5, 6)]);
    assert!(!board.mark_lost(3, MSS), "the same range");
    board.on_ack(1, &[(8, 9)]);
    assert!(board.mark_lost(3, MSS));
    assert_eq!(board.next_lost(), Some((1, 2)));
}

#[test]
fn only_what_can_be_in_the_network_is_in_flight() {
    let mut board = sent(4);
    assert_eq!(board.in_flight(offset(2)), Some(offset(3)));
    board.on_ack(1, &[(offset(1), offset(2))]);
    board.mark_first_lost();
    for at in [0, offset(0), offset(1), offset(2) + 5, offset(4), u64::MAX] {
        assert_eq!(board.in_flight(at), None, "{at} is not in flight");
    }
    board.on_retransmitted(offset(0), Instant::from_micros(9));
    assert_eq!(board.in_flight(offset(0)), Some(offset(1)));
}

#[test]
fn every_hole_with_enough_above_is_found() {
    let mut board = sent(10);
    // 0, 2 and 5 are missing; only two segments are above 5.
    board.on_ack(
        1,
        &[
            (offset(6), offset(8)),
            (offset(3), offset(5)),
            (offset(1), offset(2)),
        ],
    );
    board.mark_lost(3, MSS);
    assert_eq!(board.next_lost(), Some((offset(0), offset(1))));
    board.on_retransmitted(offset(0), Instant::ZERO);
    assert_eq!(board.next_lost(), Some((offset(2), offset(3))));
    board.on_retransmitted(offset(2), Instant::ZERO);
    assert_eq!(board.next_lost(), None);
    board.on_ack(1, &[(offset(6), offset(9))]);
    assert!(board.mark_lost(3, MSS));
    assert_eq!(board.next_lost(), Some((offset(5), offset(6))));
}

#[test]
fn timeout_loses_all_but_the_sacked_and_forgets_earlier_retransmissions() {
    let mut board = sent(4);
    board.on_ack(1, &[(offset(2), offset(3))]);
    board.on_timeout();
    assert_eq!(board.pipe(), 0);
    for segment in [0, 1, 3] {
        assert_eq!(
            board.next_lost(),
            Some((offset(segment), offset(segment + 1)))
        );
        board.on_retransmitted(offset(segment), Instant::ZERO);
    }
    assert_eq!(board.next_lost(), None);
    board.on_timeout();
    assert_eq!(board.next_lost(), Some((offset(0), offset(1))));
}

#[test]
fn a_receiver_that_renegs_is_sent_everything_again() {
    let mut board = sent(4);
    board.on_ack(1, &[(offset(1), offset(3))]);
    board.on_ack(offset(1), &[]);
    board.on_timeout();
    assert!(board.segments.iter().all(|s| !s.sacked));
    assert_eq!(board.next_lost(), Some((offset(1), offset(2))));
}

#[test]
fn round_trip_samples_come_from_the_latest_unambiguous_segment() {
    let mut board = sent(6);
    let update = board.on_ack(offset(2), &[]);
    assert_eq!(update.sample_sent_at, Some(Instant::from_micros(1)));
    let update = board.on_ack(offset(2), &[(offset(3), offset(6))]);
    assert_eq!(update.sample_sent_at, Some(Instant::from_micros(5)));
    assert_eq!(update.sacked_bytes, 3 * MSS);
    board.mark_lost(3, MSS);
    board.on_retransmitted(offset(2), Instant::from_micros(100));
    // Everything else was delivered before; the retransmitted segment says nothing.
    assert_eq!(board.on_ack(offset(6), &[]).sample_sent_at, None);
    assert!(board.is_empty());
    assert_eq!(board.pipe(), 0);
}

proptest! {
    /// The sums kept on the way equal what the segments say, after any sequence of operations.
    #[test]
    fn sums_match_the_segments(
        operations in prop::collection::vec((0u8..6, 0u64..40, 0u64..40), 1..80),
    ) {
        let mut board = Scoreboard::default();
        let (mut una, mut next) = (1, 1);
        for (i, (operation, a, b)) in operations.into_iter().enumerate() {
            let now = Instant::from_micros(i as u64);
            match operation {
                0 | 1 => {
                    let end = next + 1 + (a * 37) % MSS;
                    board.on_sent(next, end, now);
                    next = end;
                }
                2 => {
                    una = (una + a * 100).min(next);
                    board.on_ack(una, &[]);
                }
                3 => {
                    let start = (una + a * 100).min(next);
                    board.on_ack(una, &[(start, (start + b * 200).min(next))]);
                    board.mark_lost(3, MSS);
                }
                4 => board.on_timeout(),
                _ => {
                    if let Some((start, _)) = board.next_lost() {
                        board.on_retransmitted(start, now);
                    }
                }
            }
            prop_assert_eq!(board.pipe(), board.segments.iter().map(Sent::pipe).sum::<u64>());
            let first = board.segments.iter().find(|s| s.needs_retransmission()).copied();
            let lost = board.segments.iter().filter(|s| s.needs_retransmission());
            prop_assert_eq!(board.lost_bytes, lost.map(Sent::len).sum::<u64>());
            prop_assert_eq!(board.next_lost(), first.map(|s| (s.start, s.end)));
        }
    }
}
