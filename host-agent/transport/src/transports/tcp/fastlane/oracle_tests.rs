//! Behaviour of FastLane that is known without running it: the worked trace of Algorithm 1 on the wire, and that
//! a network which tells of every drop leaves nothing to the timer.

use std::sync::Arc;

use ebb_units::{Duration, Instant};
use proptest::prelude::*;

use super::super::testing::{Network, notification};
use super::super::{Algorithm, Connection, RENO, Segment, SenderCounters, TcpParams};
use super::*;
use crate::object::GeneratedSource;

const MSS: u64 = 1460;
/// Round trip of the handshake, and so the shortest that has been measured.
const ROUND_TRIP: Duration = Duration::from_micros(50);

fn params() -> TcpParams {
    TcpParams {
        sack: false,
        ..TcpParams::default()
    }
}

fn algorithm(scatter: bool) -> Algorithm {
    let params = FastlaneParams {
        scatter,
        ..FastlaneParams::default()
    };
    params.algorithm()
}

/// All that a connection sends now.
fn sent(connection: &mut Connection, now: Instant) -> Vec<Segment<'static>> {
    let mut buffer = Vec::new();
    let next = || Some(connection.poll_transmit(now, &mut buffer)?.into_owned());
    std::iter::from_fn(next).collect()
}

/// A sender whose window has eight packets, all of which are under way.
struct Sender {
    connection: Connection,
    now: Instant,
    packets: Vec<Segment<'static>>,
    /// The peer's ACK, but for its number.
    ack: Segment<'static>,
}

impl Sender {
    fn new(scatter: bool, stream_packets: u64) -> Self {
        let params = Arc::new(TcpParams {
            initial_window_packets: 8,
            ..params()
        });
        let source = GeneratedSource {
            seed: 1,
            bytes: stream_packets * MSS,
        };
        let (how, nothing) = (algorithm(scatter), Arc::new(Vec::new()));
        let mut connection =
            Connection::connect(params.clone(), how.clone(), Arc::new(source), 1000);
        connection.close();
        let now = Instant::from_micros(10);
        let syn = sent(&mut connection, now);
        let mut peer = Connection::accept(now, params, how, nothing, 77, &syn[0]).unwrap();
        let syn_ack = sent(&mut peer, now);
        let now = now + ROUND_TRIP;
        connection.handle_segment(now, &syn_ack[0]);
        let packets = sent(&mut connection, now);
        let ack = Segment {
            seq: 78,
            window: 65_535,
            ..Segment::default()
        };
        assert_eq!(packets.len(), 8);
        Sender {
            connection,
            now,
            packets,
            ack,
        }
    }

    /// Which packets go out, a round trip after the last event.
    fn answer(&mut self, event: impl FnOnce(&mut Connection, Instant)) -> Vec<usize> {
        self.now += ROUND_TRIP;
        event(&mut self.connection, self.now);
        let again = sent(&mut self.connection, self.now);
        let first = self.packets[0].seq;
        let number = |s: &Segment<'_>| s.seq.wrapping_sub(first) as usize / MSS as usize;
        again.iter().map(number).collect()
    }

    fn notify(&mut self, packet: usize) -> Vec<usize> {
        let dropped = notification(&self.packets[packet]);
        self.answer(|connection, now| {
            connection.handle_message(now, &Message::Dropped(dropped));
        })
    }

    /// All packets before this one have arrived; `beyond` of those after it.
    fn ack_up_to(&mut self, packet: usize, beyond: u64) -> Vec<usize> {
        let end = self.packets.last().unwrap();
        let seq = self.packets.get(packet).map(|p| p.seq);
        let mut ack = self.ack.clone();
        ack.ack = Some(seq.unwrap_or(end.seq.wrapping_add(end.sequence_length())));
        ack.options.out_of_order_bytes = Some((beyond * MSS) as u32);
        self.answer(|connection, now| connection.handle_segment(now, &ack))
    }

    fn counters(&self) -> SenderCounters {
        self.connection.statistics().sender
    }
}

/// A window of 8, so alpha is 4: bound 4 after first drops, 2 after second ones.
#[test]
fn the_retransmissions_of_the_worked_trace() {
    let mut s = Sender::new(true, 8);
    for packet in 3..=6 {
        assert_eq!(s.notify(packet), [packet]);
    }
    assert_eq!(s.notify(7), [0; 0], "four are under way");
    assert_eq!(s.notify(3), [3], "the first always goes");
    assert_eq!(s.notify(4), [0; 0], "three are, and two may be");
    assert_eq!(s.ack_up_to(4, 0), [4], "it has become the first");
    assert_eq!(s.ack_up_to(5, 0), [0; 0]);
    assert_eq!(s.ack_up_to(7, 0), [7]);
    let window = |s: &Sender| s.connection.statistics().summary.window_bytes;
    assert_eq!(window(&s), 8 * MSS, "the exit sets it");
    assert_eq!(s.ack_up_to(8, 0), [0; 0]);
    assert_eq!(window(&s), 4 * MSS);
    // Seven notifications, seven retransmissions: 7 waited, and so did 4 the second time.
    let SenderCounters {
        retransmitted,
        fast_retransmitted,
        loss_episodes,
        timeouts,
        ..
    } = s.counters();
    assert_eq!((retransmitted, fast_retransmitted), (7, 7));
    assert_eq!((loss_episodes, timeouts), (1, 0));
}

/// Packets 1 and 5 of ten are dropped, and five others make duplicate ACKs. When all before packet 5 has
/// arrived, three of these are acknowledged: of the five packets that are not, two have left the network,
/// and half of the window, four packets, has room for one.
#[test]
fn under_flow_hashing_a_partial_ack_leaves_what_is_beyond_the_next_hole() {
    let mut s = Sender::new(false, 100);
    assert_eq!(s.ack_up_to(1, 0), [8, 9]);
    assert_eq!((s.notify(1), s.notify(5)), (vec![1], vec![5]));
    let duplicates: Vec<_> = (0..5).map(|_| s.ack_up_to(1, 0)).collect();
    assert_eq!(duplicates.concat(), [0; 0]);
    assert_eq!(s.ack_up_to(5, 0), [10]);
}

#[test]
fn what_has_arrived_out_of_order_makes_room_for_new_data() {
    let params = || TcpParams {
        initial_window_packets: 4,
        ..params()
    };
    for (scatter, told, new) in [(true, 2, 2), (true, 0, 0), (false, 2, 0)] {
        let mut net = Network::new(algorithm(scatter), params());
        net.transfer(100 * MSS);
        net.run_until(Instant::from_micros(50));
        let (before, now) = (net.sent.len(), net.now);
        let first = &net.sent[before - 4].1;
        let mut ack = Segment {
            ack: Some(first.seq),
            window: 65_535,
            seq: 78,
            ..Segment::default()
        };
        ack.options.out_of_order_bytes = Some(told * MSS as u32);
        let left = &mut net.pairs[0].left;
        left.handle_segment(now, &ack);
        assert_eq!(sent(left, now).len(), new, "scatter {scatter}, told {told}");
    }
}

/// One of four packets is dropped, so alpha is 2: new data has half of the window at once.
#[test]
fn while_a_drop_is_repaired_new_data_has_half_of_the_window() {
    for (dropped, beyond, new) in [(false, 3, 3), (true, 2, 0), (true, 3, 1)] {
        let mut net = Network::new(
            algorithm(true),
            TcpParams {
                initial_window_packets: 4,
                ..params()
            },
        );
        net.transfer(100 * MSS);
        net.run_until(Instant::from_micros(50));
        let (now, first) = (net.now, net.sent[net.sent.len() - 4].1.clone());
        let left = &mut net.pairs[0].left;
        if dropped {
            left.handle_message(now, &Message::Dropped(notification(&first)));
            assert_eq!(sent(left, now)[0].seq, first.seq);
        }
        let mut ack = Segment {
            ack: Some(first.seq),
            window: 65_535,
            seq: 78,
            ..Segment::default()
        };
        ack.options.out_of_order_bytes = Some((beyond * MSS) as u32);
        left.handle_segment(now, &ack);
        assert_eq!(
            sent(left, now).len(),
            new,
            "dropped {dropped}, {beyond} beyond it"
        );
    }
}

/// A host that answers data in a SYN before the handshake is over repeats what was dropped of its
/// answer, and once per round trip.
#[test]
fn what_is_dropped_before_the_handshake_is_over_goes_again() {
    let params = Arc::new(TcpParams {
        data_in_syn: true,
        ..params()
    });
    let source = |bytes| GeneratedSource { seed: 1, bytes };
    let how = algorithm(true);
    let (mut now, round_trip) = (Instant::from_micros(10), Duration::from_micros(100));
    let mut client = Connection::connect(params.clone(), how.clone(), Arc::new(source(10)), 1000);
    let syn = sent(&mut client, now).remove(0);
    let answer = Arc::new(source(5000));
    let mut server = Connection::accept(now, params, how, answer, 77, &syn).unwrap();
    let early = sent(&mut server, now);
    assert!(early[0].flags.syn);
    assert_eq!(early.len(), 5);
    let dropped = notification(&early[2]);
    server.handle_message(now, &Message::Dropped(dropped));
    assert_eq!(sent(&mut server, now)[0].seq, early[2].seq);
    server.handle_message(now, &Message::Dropped(dropped));
    assert_eq!(sent(&mut server, now), []);
    now += round_trip;
    assert_eq!(server.next_deadline(), Some(now));
    server.handle_deadline(now);
    assert_eq!(sent(&mut server, now)[0].seq, early[2].seq);
    assert!(server.next_deadline().unwrap() > now);
}

/// Senders that begin at the same time, each with this many bytes, over a queue of this many.
fn incast(
    how: Algorithm,
    notification_delay: Option<Duration>,
    objects: &[u64],
    queue: u64,
) -> Network {
    let mut net = Network::new(how, params());
    net.notification_delay = notification_delay;
    net.forward.capacity_bytes = queue;
    for &bytes in objects {
        net.transfer(bytes);
    }
    net.run_and_check();
    net
}

fn timeouts(net: &Network) -> u64 {
    let of = |connection: &Connection| connection.statistics().sender.timeouts;
    let both = net
        .pairs
        .iter()
        .map(|pair| of(&pair.left) + pair.right.as_ref().map_or(0, of));
    both.sum()
}

/// When the last byte of the last object was acknowledged.
fn took(net: &Network) -> Duration {
    let ends = net.pairs.iter().map(|pair| pair.left.stream_acked_at());
    ends.map(Option::unwrap).max().unwrap().since(Instant::ZERO)
}

/// Fifteen answers of 70 KB over a buffer of 128 KB at 1 Gbit/s. The link is the bound; one
/// retransmission is made for each drop, and the timer makes none.
#[test]
fn an_incast_keeps_the_link_busy() {
    let objects = [70_000; 15];
    let bound = Duration::from_nanos(15 * 48 * 1514 * 8);
    let tells = Some(Duration::from_micros(40));
    let tcp = incast(RENO, None, &objects, 131_072);
    assert!(timeouts(&tcp) > 0 && took(&tcp) > bound.mul_div(3, 2));
    for scatter in [true, false] {
        let net = incast(algorithm(scatter), tells, &objects, 131_072);
        let took = took(&net);
        eprintln!(
            "XX scatter {scatter} {took:?} {bound:?} drops {}",
            net.forward.drops
        );
        assert!(took < bound.mul_div(115, 100), "{took:?} of {bound:?}");
        assert_eq!(timeouts(&net), 0);
        let again = net
            .pairs
            .iter()
            .map(|pair| pair.left.statistics().sender.retransmitted);
        assert_eq!(again.sum::<u64>(), net.forward.drops, "scatter {scatter}");
        // Twice as many are dropped if new data has the whole window until the recovery ends.
        assert!(
            net.forward.drops < 15 * 48 / 3,
            "{} drops",
            net.forward.drops
        );
    }
}

proptest! {
    /// Whatever the incast, the buffers in both directions and how long it takes to be told.
    #[test]
    fn who_is_told_of_every_drop_has_no_timeout(
        objects in prop::collection::vec(0u64..60_000, 1..16),
        queue in 3_100u64..150_000,
        queue_of_acks in 200u64..20_000,
        tells_us in 1u64..150,
        window in 1u32..30,
        scatter: bool,
        exponential: bool,
    ) {
        let how = FastlaneParams {
            scatter,
            bound: if exponential { BoundLaw::Exponential } else { BoundLaw::Harmonic },
            ..FastlaneParams::default()
        };
        let params = TcpParams { initial_window_packets: window, ..params() };
        let mut net = Network::new(how.algorithm(), params);
        net.notification_delay = Some(Duration::from_micros(tells_us));
        net.forward.capacity_bytes = queue;
        net.backward.capacity_bytes = queue_of_acks;
        for bytes in objects {
            net.transfer(bytes);
        }
        net.run_and_check();
        prop_assert_eq!(timeouts(&net), 0);
    }
}
