use super::*;

const MSS: u64 = 1460;

fn receiver(ecn: EcnMode) -> Receiver {
    Receiver::new(&TcpParams::default(), ecn, 1)
}

fn read(receiver: &mut Receiver) -> Vec<u8> {
    let mut bytes = Vec::new();
    receiver.read(&mut bytes);
    bytes
}

fn data(segment: u64, ce: bool) -> Arrival<'static> {
    Arrival {
        start: 1 + segment * MSS,
        payload: &[7; MSS as usize],
        fin: false,
        ce,
        cwr: false,
        telemetry: 0,
    }
}

/// The ACKs that go out now: (segments acknowledged, ECE).
fn acks(receiver: &mut Receiver) -> Vec<(u64, bool)> {
    let mut out = Vec::new();
    while let Some(ack) = receiver.take_ack() {
        out.push(((ack.ack - 1) / MSS, ack.ece));
    }
    out
}

#[test]
fn every_second_segment_is_acknowledged() {
    let mut r = receiver(EcnMode::Off);
    let now = Instant::from_micros(5);
    r.on_arrival(now, data(0, false));
    assert_eq!(acks(&mut r), []);
    assert_eq!(r.next_deadline(), Some(Instant::from_micros(1005)));
    r.on_arrival(now, data(1, false));
    assert_eq!(acks(&mut r), [(2, false)]);
    assert_eq!(r.next_deadline(), None);
}

#[test]
fn a_single_segment_is_acknowledged_at_the_deadline() {
    let mut r = receiver(EcnMode::Off);
    r.on_arrival(Instant::ZERO, data(0, false));
    r.handle_deadline(Instant::from_micros(999));
    assert_eq!(acks(&mut r), []);
    r.handle_deadline(Instant::from_micros(1000));
    assert_eq!(acks(&mut r), [(1, false)]);
}

#[test]
fn gaps_duplicates_and_fin_are_acknowledged_at_once() {
    let mut r = receiver(EcnMode::Off);
    r.on_arrival(Instant::ZERO, data(1, false));
    assert_eq!(acks(&mut r), [(0, false)]);
    r.on_arrival(Instant::ZERO, data(0, false));
    assert_eq!(acks(&mut r), [(2, false)]);
    r.on_arrival(Instant::ZERO, data(0, false));
    assert_eq!(acks(&mut r), [(2, false)]);
    assert_eq!(r.counters().duplicates, 1);
    r.on_arrival(
        Instant::ZERO,
        Arrival {
            fin: true,
            ..data(2, false)
        },
    );
    assert_eq!(acks(&mut r), [(3, false)]);
    assert!(r.fin_received());
    assert_eq!(r.next(), 1 + 3 * MSS + 1);
}

/// RFC 8257 3.2 with delayed ACKs: each row is one arrival (CE) and the ACKs it causes.
#[test]
fn dctcp_acknowledges_runs_of_equal_marks_exactly() {
    let mut r = receiver(EcnMode::Accurate);
    let table: &[(bool, &[(u64, bool)])] = &[
        (false, &[]),
        (false, &[(2, false)]),
        // A change with nothing pending: only the new state.
        (true, &[(3, true)]),
        (true, &[]),
        (true, &[(5, true)]),
        (true, &[]),
        // A change with one segment pending: the old state for it, then the new one.
        (false, &[(6, true), (7, false)]),
        (true, &[(8, true)]),
        (false, &[(9, false)]),
        (false, &[]),
        (true, &[(10, false), (11, true)]),
    ];
    let (mut marked, mut seen) = (0, 0);
    for (segment, &(ce, expected)) in table.iter().enumerate() {
        r.on_arrival(Instant::ZERO, data(segment as u64, ce));
        assert_eq!(acks(&mut r), expected, "segment {segment}");
        // Bytes that the sender counts as marked.
        for &(upto, ece) in expected {
            marked += if ece { upto - seen } else { 0 };
            seen = upto;
        }
    }
    let sent = table.iter().filter(|(ce, _)| *ce).count() as u64;
    assert_eq!(marked, sent);
    assert_eq!(r.counters().ce_packets, sent);
}

#[test]
fn the_window_closes_when_nobody_reads_and_reopens() {
    let params = TcpParams {
        receive_buffer_bytes: 4 * MSS as u32,
        ..TcpParams::default()
    };
    let mut r = Receiver::new(&params, EcnMode::Off, 1);
    for segment in 0..4 {
        r.on_arrival(Instant::ZERO, data(segment, false));
    }
    assert_eq!(acks(&mut r), [(2, false), (4, false)]);
    assert_eq!(r.window(), 0);
    assert!(!r.is_acceptable(1 + 4 * MSS, MSS));
    assert!(r.is_acceptable(1 + 4 * MSS, 0));
    assert_eq!(read(&mut r).len(), 4 * MSS as usize);
    assert_eq!(r.window(), 4 * MSS);
    assert_eq!(acks(&mut r), [(4, false)], "window update");
}

#[test]
fn data_beyond_the_window_or_the_fin_is_cut() {
    let params = TcpParams {
        receive_buffer_bytes: 2000,
        ..TcpParams::default()
    };
    let mut r = Receiver::new(&params, EcnMode::Off, 1);
    r.on_arrival(
        Instant::ZERO,
        Arrival {
            start: 1,
            payload: &[1; 3000],
            ..data(0, false)
        },
    );
    assert_eq!(r.next(), 2001);
    let mut r = receiver(EcnMode::Off);
    r.on_arrival(
        Instant::ZERO,
        Arrival {
            payload: b"xy",
            fin: true,
            ..data(0, false)
        },
    );
    r.on_arrival(
        Instant::ZERO,
        Arrival {
            payload: b"xyz",
            ..data(0, false)
        },
    );
    assert_eq!(read(&mut r), b"xy");
}

#[test]
fn acceptance_follows_rfc_9293() {
    let params = TcpParams {
        receive_buffer_bytes: 1460,
        ..TcpParams::default()
    };
    let r = Receiver::new(&params, EcnMode::Off, 100);
    let cases = [
        (99, 0, false),
        (100, 0, true),
        (1559, 0, true),
        (1560, 0, false),
        (99, 1, false),
        (99, 2, true),
        (1559, 1, true),
        (1560, 1, false),
    ];
    for (start, len, expected) in cases {
        assert_eq!(r.is_acceptable(start, len), expected, "{start}+{len}");
    }
}

/// The same table when the driver hands over everything before it asks for ACKs.
#[test]
fn batches_of_arrivals_get_the_same_acks() {
    let marks = [
        false, false, true, true, true, true, false, true, false, false, true,
    ];
    let mut one_by_one = Vec::new();
    let (mut a, mut b) = (receiver(EcnMode::Accurate), receiver(EcnMode::Accurate));
    for (segment, &ce) in marks.iter().enumerate() {
        a.on_arrival(Instant::ZERO, data(segment as u64, ce));
        one_by_one.extend(acks(&mut a));
        b.on_arrival(Instant::ZERO, data(segment as u64, ce));
    }
    assert_eq!(acks(&mut b), one_by_one);
}

#[test]
fn waiting_acks_are_bounded_and_the_last_one_counts() {
    let mut r = receiver(EcnMode::Off);
    for segment in 0..2000 {
        r.on_arrival(Instant::ZERO, data(segment, false));
        read(&mut r);
    }
    let waiting = acks(&mut r);
    assert_eq!(waiting.len(), MAX_DUE_ACKS);
    assert_eq!(waiting.last(), Some(&(2000, false)));
}

/// A number with blocks from after a later arrival would show a hole where there is none.
#[test]
fn each_waiting_ack_keeps_its_own_blocks() {
    let mut r = receiver(EcnMode::Off);
    for segment in [1, 0, 3] {
        r.on_arrival(Instant::ZERO, data(segment, false));
    }
    let first = r.take_ack().unwrap();
    assert_eq!(
        (first.ack, &first.sack_blocks[..]),
        (1, &[(1 + MSS, 1 + 2 * MSS)][..])
    );
    let second = r.take_ack().unwrap();
    assert_eq!((second.ack, second.sack_blocks.len()), (1 + 2 * MSS, 0));
    let third = r.take_ack().unwrap();
    assert_eq!(third.sack_blocks[..], [(1 + 3 * MSS, 1 + 4 * MSS)]);
}

/// RFC 8257 3.2, figure 1, with delayed ACKs of up to `m` segments: every state (the CE state, and how
/// many segments wait for an ACK) with every arrival (CE or not, CWR or not).
#[test]
fn the_dctcp_state_machine_in_full() {
    for m in 1..=4u64 {
        let params = TcpParams {
            ack_every_packets: m as u32,
            ..TcpParams::default()
        };
        let mut rows = 0;
        for (state, pending) in [false, true]
            .iter()
            .flat_map(|s| (0..m).map(move |p| (*s, p)))
        {
            for (ce, cwr) in [(false, false), (false, true), (true, false), (true, true)] {
                let mut r = Receiver::new(&params, EcnMode::Accurate, 1);
                let mut next = 0;
                let mut arrive = |r: &mut Receiver, ce, cwr| {
                    let arrival = Arrival {
                        cwr,
                        ..data(next, ce)
                    };
                    r.on_arrival(Instant::ZERO, arrival);
                    next += 1;
                };
                // A change of state acknowledges at once: nothing is pending after it.
                if state {
                    arrive(&mut r, true, false);
                }
                for _ in 0..pending {
                    arrive(&mut r, state, false);
                }
                acks(&mut r);
                let before = u64::from(state) + pending;
                arrive(&mut r, ce, cwr);
                let new = (before + 1, ce);
                let expected = match (ce == state, pending) {
                    (true, pending) if pending + 1 < m => vec![],
                    (true, _) | (false, 0) => vec![new],
                    (false, _) => vec![(before, state), new],
                };
                let row = format!("m {m}, state {state}, pending {pending}, CE {ce}, CWR {cwr}");
                assert_eq!(acks(&mut r), expected, "{row}");
                assert_eq!(r.ack_state().ece, ce, "{row}: the state follows CE");
                let waits = expected.is_empty();
                assert_eq!(r.next_deadline().is_some(), waits, "{row}");
                rows += 1;
            }
        }
        assert_eq!(rows, 8 * m);
    }
}

#[test]
fn telemetry_goes_out_once_and_never_beside_data() {
    let mut r = receiver(EcnMode::Off);
    let with = |segment, telemetry| Arrival {
        telemetry,
        ..data(segment, false)
    };
    r.on_arrival(Instant::ZERO, with(0, 7));
    // A segment of ours carries the ACK; the identification of that has other uses.
    assert_eq!(r.take_earlier_ack(), None);
    r.on_ack_carried();
    r.on_arrival(Instant::ZERO, with(1, 7));
    r.on_arrival(Instant::ZERO, with(2, 9));
    let ack = r.take_earlier_ack().expect("by itself, before data");
    assert_eq!((ack.ack, ack.telemetry), (1 + 3 * MSS, 9));
    assert_eq!((r.take_earlier_ack(), r.telemetry()), (None, 0));
}
