//! Loss, timers, closing: one situation per test, with the times that RFC 6298 and 9293 ask for.

use ebb_units::{Duration, Instant};

use super::RENO;
use super::testing::{Fate, Network};
use super::*;

fn network(params: TcpParams) -> Network {
    Network::new(RENO, params)
}

/// Drops the copies number `copies` of the left side's `n`-th segment with payload.
fn drop_data(n: usize, copies: std::ops::Range<usize>) -> impl FnMut(u64, &Segment) -> Fate {
    let mut order: Vec<u32> = Vec::new();
    let mut seen = 0;
    move |_, segment| {
        if segment.payload.is_empty() {
            return Fate::Pass;
        }
        if !order.contains(&segment.seq) {
            order.push(segment.seq);
        }
        if order.get(n) != Some(&segment.seq) {
            return Fate::Pass;
        }
        seen += 1;
        Fate::Drop.when(copies.contains(&(seen - 1)))
    }
}

/// When the left side sent the segment with sequence number `seq`.
fn times_of(net: &Network, seq: u32) -> Vec<Instant> {
    net.sent
        .iter()
        .filter(|(_, s)| s.seq == seq && !s.payload.is_empty())
        .map(|&(at, _)| at)
        .collect()
}

#[test]
fn a_lost_segment_in_the_middle_is_retransmitted_within_a_round_trip() {
    for sack in [true, false] {
        let mut net = network(TcpParams {
            sack,
            ..TcpParams::default()
        });
        net.forward.fate = Box::new(drop_data(20, 0..1));
        net.transfer(200_000);
        net.run_and_check();
        let sender = net.pairs[0].left.statistics().sender;
        assert_eq!(
            (
                sender.timeouts,
                sender.retransmitted,
                sender.fast_retransmitted
            ),
            (0, 1, 1),
            "sack {sack}"
        );
        assert_eq!(sender.loss_episodes, 1);
    }
}

#[test]
fn several_holes_in_one_window_cost_one_reduction_and_no_timeout() {
    for (sack, lost) in [(true, vec![30, 32, 33, 37]), (false, vec![30, 34])] {
        let mut net = network(TcpParams {
            sack,
            ..TcpParams::default()
        });
        let mut data = 0;
        net.forward.fate = Box::new(move |_, segment| {
            data += usize::from(!segment.payload.is_empty());
            Fate::Drop.when(lost.contains(&data))
        });
        net.transfer(300_000);
        net.run_and_check();
        let sender = net.pairs[0].left.statistics().sender;
        assert_eq!(
            (sender.timeouts, sender.loss_episodes),
            (0, 1),
            "sack {sack}: {sender:?}"
        );
        assert_eq!(sender.retransmitted, sender.fast_retransmitted);
        assert_eq!(sender.retransmitted, if sack { 4 } else { 2 });
    }
}

#[test]
fn the_loss_of_the_last_segment_waits_for_the_timer() {
    let mut net = network(TcpParams::default());
    net.forward.fate = Box::new(drop_data(4, 0..1));
    net.transfer(5 * 1460);
    net.run_and_check();
    let sender = net.pairs[0].left.statistics().sender;
    assert_eq!(
        (
            sender.timeouts,
            sender.retransmitted,
            sender.fast_retransmitted
        ),
        (1, 1, 0)
    );
    let last = net
        .sent
        .iter()
        .rfind(|(_, s)| !s.payload.is_empty())
        .unwrap()
        .1
        .seq;
    let times = times_of(&net, last);
    let [first, second] = times[..] else {
        panic!("{times:?}")
    };
    // RFC 6298 (5.3): the timer restarts with the last ACK of new data, one round trip later.
    let waited = second.since(first);
    let (low, high) = (Duration::from_millis(10), Duration::from_micros(10_150));
    assert!(waited > low && waited < high, "{waited}");
}

#[test]
fn the_timer_doubles_and_gives_up() {
    let mut net = network(TcpParams {
        max_retries: 6,
        ..TcpParams::default()
    });
    net.forward.fate = Box::new(drop_data(0, 0..100));
    net.transfer(1000);
    net.run();
    let times = times_of(&net, net.sent.last().unwrap().1.seq);
    let gaps: Vec<_> = times
        .windows(2)
        .map(|pair| pair[1].since(pair[0]).as_micros() / 1000)
        .collect();
    assert_eq!(gaps, [10, 20, 40, 80, 160, 160]);
    let failure = net.pairs[0].left.failure();
    assert_eq!(failure, Some(Failure::RetransmissionTimeout { retries: 6 }));
}

#[test]
fn a_timeout_starts_over_with_one_segment() {
    let mut net = network(TcpParams::default());
    // The rest of the initial window is lost, and so is all that the first ACKs let out.
    let mut data = 0;
    net.forward.fate = Box::new(move |_, segment| {
        data += usize::from(!segment.payload.is_empty());
        Fate::Drop.when((5..=18).contains(&data))
    });
    net.transfer(100 * 1460);
    net.run_and_check();
    let collapsed = net
        .trace
        .iter()
        .map(|&(_, _, window)| window)
        .filter(|&w| w > 0)
        .min();
    assert_eq!(collapsed, Some(1460));
}

#[test]
fn lost_syns_are_sent_again_with_backoff() {
    let mut net = network(TcpParams::default());
    net.forward.fate = Box::new(|n, _| Fate::Drop.when(n < 2));
    net.transfer(1000);
    net.run_and_check();
    let syns: Vec<_> = net
        .sent
        .iter()
        .filter(|(_, s)| s.flags.syn)
        .map(|(at, _)| at.as_micros())
        .collect();
    assert_eq!(syns, [0, 10_000, 30_000]);
    let sender = net.pairs[0].left.statistics().sender;
    assert_eq!((sender.timeouts, sender.retransmitted), (2, 2));
}

#[test]
fn a_lost_syn_ack_and_a_lost_fin_are_repaired() {
    for lost in [0, 1, 2] {
        let mut net = network(TcpParams::default());
        // Backward: SYN-ACK, ACKs, ACK+FIN; with one segment of data the FIN is the second.
        net.backward.fate = Box::new(move |n, _| Fate::Drop.when(n == lost));
        net.transfer(1000);
        net.run_and_check();
        assert!(
            net.now < Instant::ZERO + Duration::from_millis(60),
            "lost {lost}: {:?}",
            net.now
        );
    }
}

#[test]
fn time_wait_is_on_the_side_that_closed_first_and_ends() {
    let mut net = network(TcpParams::default());
    net.transfer(1000);
    net.run_until(Instant::from_micros(1_000));
    assert_eq!(net.pairs[0].left.state(), State::TimeWait);
    assert_eq!(net.pairs[0].right.as_ref().unwrap().state(), State::Closed);
    net.run();
    assert_eq!(net.pairs[0].left.state(), State::Closed);
}

#[test]
fn a_receiver_that_does_not_read_stops_the_sender_and_probes_resume_it() {
    let params = TcpParams {
        receive_buffer_bytes: 20_000,
        ..TcpParams::default()
    };
    let mut net = network(params);
    net.transfer(100_000).read = false;
    net.run_until(Instant::from_micros(300_000));
    let pair = &net.pairs[0];
    assert!(pair.received.is_empty());
    let sent: usize = net.sent.iter().map(|(_, s)| s.payload.len()).sum();
    assert_eq!(sent, 20_000);
    let probes = net
        .sent
        .iter()
        .filter(|(at, _)| *at > Instant::from_micros(5_000))
        .count();
    // 10, 20, 40, 80, 160 ms.
    assert!((4..=6).contains(&probes), "{probes} window probes");
    assert_eq!(pair.left.failure(), None);
    net.pairs[0].read = true;
    net.run_and_check();
}

/// RFC 5681 4.1: what the window was before a pause says nothing about the network after it.
#[test]
fn after_a_pause_the_sender_starts_with_its_initial_window() {
    let mut net = network(TcpParams {
        receive_buffer_bytes: 300_000,
        ..TcpParams::default()
    });
    net.transfer(3_000_000);
    net.run_until(Instant::from_micros(10_000));
    let window = |net: &Network| net.pairs[0].left.statistics().summary.window_bytes;
    assert!(window(&net) > 100 * 1460, "{}", window(&net));
    net.pairs[0].read = false;
    net.run_until(Instant::from_micros(300_000));
    let before = net.sent.len();
    net.pairs[0].read = true;
    net.run_and_check();
    let first = net.sent[before..]
        .iter()
        .find(|(_, s)| !s.payload.is_empty());
    let resumed = first.unwrap().0;
    let burst = net.sent[before..]
        .iter()
        .filter(|(at, s)| *at == resumed && !s.payload.is_empty())
        .count();
    assert_eq!(burst, 10);
}

#[test]
fn segments_outside_the_window_do_not_matter() {
    let mut net = network(TcpParams::default());
    net.transfer(1_000_000);
    net.run_until(Instant::from_micros(3_000));
    let now = net.now;
    let last = net.sent.last().unwrap().1.clone();
    let before = net.pairs[0].left.statistics();
    let right = net.pairs[0].right.as_mut().unwrap();
    for distance in [1u32 << 31, 100_000_000, 0u32.wrapping_sub(100_000_000)] {
        for rst in [true, false] {
            let stray = Segment {
                seq: last.seq.wrapping_add(distance),
                ack: last.ack,
                flags: Flags {
                    rst,
                    ..Flags::default()
                },
                payload: vec![0xee; if rst { 0 } else { 1000 }].into(),
                ..Segment::default()
            };
            right.handle_segment(now, &stray);
        }
    }
    // RFC 5961 3.2: a RST inside the window but not at its edge is only challenged.
    let inside = Segment {
        seq: last.seq.wrapping_add(500_000),
        flags: Flags {
            rst: true,
            ..Flags::default()
        },
        ..last.clone()
    };
    right.handle_segment(
        now,
        &Segment {
            payload: Vec::new().into(),
            ..inside
        },
    );
    assert_eq!(right.state(), State::Established);
    assert!(
        right
            .poll_transmit(now, &mut Vec::new())
            .is_some_and(|ack| !ack.flags.rst),
        "challenge ACK"
    );
    // ACKs of what was never sent, or of long ago, change nothing.
    let left = &mut net.pairs[0].left;
    for distance in [100_000_000u32, 1 << 31, 0u32.wrapping_sub(100_000_000)] {
        let ack = last.seq.wrapping_add(distance);
        let seq = last.ack.unwrap_or_default();
        left.handle_segment(
            now,
            &Segment {
                seq,
                ack: Some(ack),
                ..Segment::default()
            },
        );
    }
    let after = left.statistics();
    assert_eq!(after.summary.window_bytes, before.summary.window_bytes);
    assert_eq!(left.failure(), None);
    net.run_and_check();
}

#[test]
fn an_exact_reset_ends_the_connection() {
    let mut net = network(TcpParams::default());
    net.transfer(1_000_000);
    net.run_until(Instant::from_micros(3_000));
    let now = net.now;
    let right = net.pairs[0].right.as_mut().unwrap();
    right.abort();
    let mut buffer = Vec::new();
    let reset = right.poll_transmit(now, &mut buffer).unwrap();
    assert!(reset.flags.rst);
    let left = &mut net.pairs[0].left;
    left.handle_segment(now, &reset);
    assert_eq!(left.failure(), Some(Failure::Reset));
    assert_eq!(
        left.poll_transmit(now, &mut Vec::new()),
        None,
        "a RST is not answered"
    );
}

#[test]
fn timestamps_measure_and_protect() {
    let mut net = network(TcpParams {
        timestamps: true,
        ..TcpParams::default()
    });
    net.transfer(300_000);
    net.run_until(Instant::from_micros(1_500));
    assert!(net.sent.iter().all(|(_, s)| s.options.timestamps.is_some()));
    assert!(
        net.sent.iter().all(|(_, s)| s.payload.len() <= 1448),
        "RFC 6691"
    );
    // PAWS: the right sequence number with a timestamp from before is refused.
    let now = net.now;
    let right = net.pairs[0].right.as_mut().unwrap();
    let before = right.statistics().receiver.packets;
    let mut old = net.sent.last().unwrap().1.clone();
    old.options.timestamps = Some((0x9000_0000, 0));
    right.handle_segment(now, &old);
    assert_eq!(right.statistics().receiver.duplicates, 1);
    assert_eq!(right.statistics().receiver.packets, before + 1);
    // Without a timestamp it is not ours at all (RFC 7323 3.2).
    old.options.timestamps = None;
    right.handle_segment(now, &old);
    assert_eq!(right.statistics().receiver.packets, before + 1);
    net.run_and_check();
    let rtt = net.pairs[0].left.statistics().summary.srtt_ns.unwrap();
    assert!((40_000..2_000_000).contains(&rtt), "{rtt}");
}

#[test]
fn the_receive_window_bounds_what_is_in_flight() {
    let most = |receive_buffer_bytes| {
        let mut net = network(TcpParams {
            receive_buffer_bytes,
            ..TcpParams::default()
        });
        net.transfer(2_000_000);
        net.run_and_check();
        net.forward.depths.iter().map(|&(_, depth)| depth).max()
    };
    assert!(most(60_000) < Some(63_000));
    // Needs window scaling.
    assert!(most(400_000) > Some(380_000));
}

/// Data that arrives out of order at a sender must not make its own packets too long.
#[test]
fn data_segments_carry_no_sack_blocks() {
    let mut net = network(TcpParams::default());
    net.transfer(1_000_000);
    net.run_until(Instant::from_micros(1_000));
    let now = net.now;
    let last = net.sent.last().unwrap().1.clone();
    let stray = Segment {
        seq: last.ack.unwrap().wrapping_add(5_000),
        ack: Some(last.seq),
        window: 60_000,
        payload: vec![1; 1000].into(),
        ..Segment::default()
    };
    let left = &mut net.pairs[0].left;
    left.handle_segment(now, &stray);
    let mut sent = Vec::new();
    while let Some(segment) = left.poll_transmit(now, &mut Vec::new()) {
        sent.push(segment.into_owned());
    }
    assert!(sent.iter().any(|s| !s.payload.is_empty()));
    assert!(
        sent.iter()
            .all(|s| s.payload.is_empty() || s.options.sack_blocks.is_empty())
    );
}
