//! Flow control and ingress buffers, one rule per test.

use std::collections::BTreeMap;

use ebb_traffic_manager::{
    Accounting, Admission, Arrival, Count, DropReason, OnFull, PauseChange, Pfc, PortId, Profile,
    QueueConfig, TrafficManager, TrafficManagerConfig, Watchdog,
};
use ebb_units::{BitRate, Instant};

const QUEUES: u8 = 8;

/// A port of 1 Gbit/s with eight lossless queues.
fn profile() -> Profile {
    let queue = |id| QueueConfig {
        id,
        lossless: true,
        ..QueueConfig::default()
    };
    Profile {
        name: "p".into(),
        rate_bps: BitRate::from_mbps(1000),
        queue: (0..QUEUES).map(queue).collect(),
        ..Profile::default()
    }
}

/// The same with queues that lose packets.
fn lossy() -> Profile {
    let mut profile = profile();
    for queue in &mut profile.queue {
        queue.lossless = false;
    }
    profile
}

/// The thresholds of DeTail (section 5.2.3 of the thesis).
fn pfc() -> Pfc {
    Pfc {
        pause_bytes: Some(8192),
        resume_bytes: Some(4557),
        accounting: Accounting::Drain,
        response_ns: 1024,
        wakeup_ns: 0,
        max_frame_bytes: 1530,
        watchdog_ns: 0,
        watchdog: Watchdog::Report,
    }
}

fn config(profile: Profile, pfc: Option<Pfc>) -> TrafficManagerConfig {
    TrafficManagerConfig {
        ports: BTreeMap::from([("default".into(), profile.name.clone())]),
        profile: vec![profile],
        pfc,
        ..TrafficManagerConfig::default()
    }
}

/// A port with ingress and egress buffers that lose packets.
fn buffered(ingress_bytes: u64, egress_bytes: u64, on_full: OnFull) -> Profile {
    let mut profile = lossy();
    profile.ingress_bytes = Some(ingress_bytes);
    profile.egress_bytes = Some(egress_bytes);
    for queue in &mut profile.queue {
        queue.on_full = on_full;
    }
    profile
}

/// A traffic manager whose packets are numbers.
struct Bench {
    tm: TrafficManager<u32>,
    next: u32,
}

impl Bench {
    fn new(profile: Profile, pfc: Option<Pfc>) -> Self {
        let tm = TrafficManager::new(config(profile, pfc)).expect("valid");
        Self { tm, next: 0 }
    }

    /// Offers the next packet, from one port to another.
    fn offer(&mut self, at: u64, ways: (PortId, PortId), queue: u8, len: u64) -> Admission<u32> {
        self.next += 1;
        let arrival = Arrival {
            ingress_port: ways.0,
            queue,
            len,
            ..Arrival::default()
        };
        self.tm.enqueue(us(at), ways.1, arrival, self.next)
    }

    /// Offers a packet that is taken; the result is its number.
    fn put(&mut self, at: u64, ways: (PortId, PortId), queue: u8, len: u64) -> u32 {
        let admission = self.offer(at, ways, queue, len);
        assert!(
            matches!(admission, Admission::Enqueued { .. }),
            "{admission:?}"
        );
        self.next
    }

    /// Starts the transmission that is due at a port.
    fn send(&mut self, at: u64, port: PortId) -> Option<(Instant, u32)> {
        let departure = self.tm.dequeue(us(at), port)?;
        let start = departure.start;
        self.tm
            .transmit(port, departure.queue, start, departure.len, false);
        Some((start, departure.packet))
    }

    fn pauses(&mut self) -> Vec<PauseChange> {
        std::iter::from_fn(|| self.tm.take_pause()).collect()
    }
}

fn us(us: u64) -> Instant {
    Instant::from_micros(us)
}

fn change(at: u64, port: PortId, changed: u8, paused: u8) -> PauseChange {
    PauseChange {
        at: us(at),
        port,
        changed,
        paused,
    }
}

#[test]
fn drain_bytes_are_those_of_the_queue_and_above() {
    let mut bench = Bench::new(lossy(), None);
    for (queue, len) in [(7, 1500), (0, 1500), (3, 800), (0, 64)] {
        bench.put(0, (1, 2), queue, len);
    }
    let expected = [3864, 2300, 2300, 2300, 1500, 1500, 1500, 1500];
    assert_eq!(bench.tm.drain_bytes(2), expected);
    assert_eq!(bench.send(0, 2), Some((us(0), 1)));
    assert_eq!(bench.tm.drain_bytes(2), [2364, 800, 800, 800, 0, 0, 0, 0]);
    assert_eq!(bench.tm.drain_bytes(1), [0; 8]);
}

#[test]
fn the_neighbour_is_asked_to_pause_above_the_threshold_and_to_go_on_at_the_lower_one() {
    let mut bench = Bench::new(profile(), Some(pfc()));
    for len in [4096, 4096, 1] {
        assert_eq!(bench.pauses(), []);
        bench.put(0, (1, 2), 3, len);
    }
    // Packets at priority 3 are ahead of the lower ones too.
    assert_eq!(bench.pauses(), [change(0, 1, 0b1111, 0b1111)]);
    // It counts for the port that it came in on, not for others to the same output.
    bench.put(0, (4, 2), 3, 8192);
    assert_eq!(bench.pauses(), []);
    bench.send(0, 2);
    assert_eq!(bench.pauses(), [change(0, 1, 0b1111, 0)]);
    let statistics = bench.tm.statistics(us(0));
    assert_eq!(statistics[0].port, 1);
    assert_eq!(statistics[0].queues[3].pauses_sent, 1);
    assert_eq!(statistics[0].queues[4].pauses_sent, 0);
}

#[test]
fn resuming_takes_no_more_than_the_lower_threshold() {
    let mut bench = Bench::new(profile(), Some(pfc()));
    for len in [4000, 1, 4557] {
        bench.put(0, (1, 2), 0, len);
    }
    assert_eq!(bench.pauses(), [change(0, 1, 1, 1)]);
    bench.send(0, 2);
    assert_eq!(bench.pauses(), []);
    bench.send(32, 2);
    assert_eq!(bench.pauses(), [change(32, 1, 1, 0)]);
}

#[test]
fn a_late_call_tells_when_the_transmission_started() {
    let mut bench = Bench::new(profile(), Some(pfc()));
    bench.put(0, (1, 2), 0, 5000);
    bench.put(0, (1, 2), 0, 4000);
    assert_eq!(bench.pauses(), [change(0, 1, 1, 1)]);
    assert_eq!(bench.send(500, 2), Some((us(0), 1)));
    assert_eq!(bench.pauses(), [change(0, 1, 1, 0)]);
}

#[test]
fn classes_count_their_own_bytes_if_so_configured() {
    let accounting = Accounting::Class;
    let pfc = Pfc {
        accounting,
        ..pfc()
    };
    let mut bench = Bench::new(profile(), Some(pfc));
    bench.put(0, (1, 2), 3, 8192);
    bench.put(0, (1, 2), 2, 8193);
    assert_eq!(bench.pauses(), [change(0, 1, 0b0100, 0b0100)]);
}

#[test]
fn only_lossless_queues_are_paused() {
    let mut profile = profile();
    profile.queue[0].lossless = false;
    let mut bench = Bench::new(profile, Some(pfc()));
    bench.put(0, (1, 2), 1, 9000);
    assert_eq!(bench.pauses(), [change(0, 1, 0b10, 0b10)]);
}

#[test]
fn replicas_count_each() {
    let mut bench = Bench::new(profile(), Some(pfc()));
    for to in 2..=4 {
        bench.put(0, (1, to), 0, 3000);
    }
    assert_eq!(bench.pauses(), [change(0, 1, 1, 1)]);
}

#[test]
fn without_flow_control_nobody_is_asked_any_more() {
    let mut bench = Bench::new(profile(), Some(pfc()));
    bench.put(0, (1, 2), 0, 9000);
    assert_eq!(bench.pauses(), [change(0, 1, 1, 1)]);
    let lossy = config(lossy(), None);
    bench.tm.reconfigure(us(1), lossy).expect("valid");
    assert_eq!(bench.pauses(), [change(1, 1, 1, 0)]);
}

#[test]
fn flow_control_counts_what_was_there_before_it() {
    let mut bench = Bench::new(lossy(), None);
    bench.put(0, (1, 2), 0, 9000);
    let lossless = config(profile(), Some(pfc()));
    bench.tm.reconfigure(us(1), lossless).expect("valid");
    assert_eq!(bench.pauses(), [change(1, 1, 1, 1)]);
    bench.send(2, 2);
    assert_eq!(bench.pauses(), [change(0, 1, 1, 0)]);
}

#[test]
fn a_new_program_empties_the_accounts() {
    let mut bench = Bench::new(profile(), Some(pfc()));
    bench.put(0, (1, 2), 0, 9000);
    bench.pauses();
    bench.tm.clear(us(5));
    assert_eq!(bench.pauses(), [change(5, 1, 1, 0)]);
}

#[test]
fn a_control_frame_goes_before_all_that_waits() {
    let mut bench = Bench::new(lossy(), None);
    for _ in 0..2 {
        bench.put(0, (1, 2), 7, 1500);
    }
    assert_eq!(bench.send(0, 2), Some((us(0), 1)));
    let control = bench.tm.transmit_control(us(3), 2, 125);
    assert_eq!((control.start, control.end), (us(12), us(13)));
    assert_eq!(bench.send(13, 2), Some((us(13), 2)));
    let statistics = &bench.tm.statistics(us(50))[0];
    let (packets, bytes) = (1, 125);
    assert_eq!(statistics.control, Count { packets, bytes });
    assert_eq!(statistics.transmitted.packets, 2);
    assert_eq!(statistics.busy_ns, 25_000);
}

#[test]
fn pauses_by_the_neighbour_are_counted_and_timed() {
    let mut bench = Bench::new(lossy(), None);
    bench.tm.open_port(us(0), 2);
    for (at, paused) in [(1, true), (4, true), (5, false), (7, false), (8, true)] {
        bench.tm.set_paused(us(at), 2, 6, paused);
    }
    let queue = |bench: &Bench| {
        let queue = bench.tm.statistics(us(10))[0].queues[6].clone();
        (queue.pauses_received, queue.paused_ns)
    };
    assert_eq!(queue(&bench), (2, 6_000));
    bench.tm.reset_statistics(us(9));
    assert_eq!(queue(&bench), (0, 1_000));
}

#[test]
fn packets_wait_where_they_came_in_until_there_is_room() {
    let mut bench = Bench::new(buffered(6000, 3000, OnFull::TailDrop), None);
    for _ in 0..3 {
        bench.put(0, (1, 2), 0, 1500);
    }
    let statistics = &bench.tm.statistics(us(0))[0];
    let queue = &statistics.queues[0];
    assert_eq!((queue.depth_packets, queue.ingress_depth.packets), (2, 1));
    assert_eq!(bench.tm.drain_bytes(2)[0], 3000);
    assert_eq!(bench.tm.queued().packets, 3);
    assert_eq!(bench.send(0, 2), Some((us(0), 1)));
    assert_eq!(bench.tm.drain_bytes(2)[0], 3000);
    assert_eq!(bench.send(500, 2), Some((us(12), 2)));
    assert_eq!(bench.send(500, 2), Some((us(24), 3)));
    // From when it came it waited for 24 us, wherever.
    let queue = &bench.tm.statistics(us(0))[0].queues[0];
    assert_eq!(
        (queue.max_delay_ns, queue.ingress_depth.packets),
        (24_000, 0)
    );
}

#[test]
fn a_full_ingress_buffer_loses_packets_of_its_port_only() {
    let mut bench = Bench::new(buffered(3000, 1500, OnFull::TailDrop), None);
    for _ in 0..3 {
        bench.put(0, (1, 2), 0, 1500);
    }
    let reason = DropReason::IngressFull;
    let packet = 4;
    let refused = Admission::Dropped { packet, reason };
    assert_eq!(bench.offer(0, (1, 2), 7, 1), refused);
    bench.put(0, (3, 2), 0, 1500);
    let dropped = &bench.tm.statistics(us(0))[0].queues[7].dropped;
    assert_eq!(dropped[&reason].bytes, 1);
}

#[test]
fn a_full_ingress_buffer_deflects() {
    let mut bench = Bench::new(buffered(1500, 1500, OnFull::Deflect), None);
    bench.put(0, (1, 2), 0, 1500);
    bench.put(0, (1, 2), 0, 1500);
    let deflected = bench.offer(0, (1, 2), 0, 1500);
    assert!(matches!(deflected, Admission::Deflected { packet: 3, .. }));
}

#[test]
fn a_packet_blocks_those_behind_it_whatever_their_way() {
    let mut bench = Bench::new(buffered(9000, 1500, OnFull::TailDrop), None);
    bench.put(0, (1, 2), 0, 1500);
    let blocked = bench.put(0, (1, 2), 0, 1500);
    // Port 5 is free, but the packet for it is behind one for port 2.
    let behind = bench.put(0, (1, 5), 0, 100);
    assert_eq!(bench.tm.next_deadline(5), None);
    // Another priority has a way of its own.
    let above = bench.put(0, (1, 5), 1, 100);
    assert_eq!(bench.tm.next_deadline(5), Some(us(0)));
    while bench.tm.take_woken().is_some() {}
    bench.send(0, 2);
    let woken: Vec<_> = std::iter::from_fn(|| bench.tm.take_woken()).collect();
    assert_eq!(woken, [5, 2]);
    assert_eq!(bench.send(0, 5).map(|s| s.1), Some(above));
    assert_eq!(bench.send(99, 5).map(|s| s.1), Some(behind));
    assert_eq!(bench.send(99, 2).map(|s| s.1), Some(blocked));
}

#[test]
fn the_packet_behind_may_be_the_first_one_for_its_port() {
    let mut bench = Bench::new(buffered(9000, 1500, OnFull::TailDrop), None);
    bench.put(0, (1, 2), 0, 1500);
    bench.put(0, (1, 2), 0, 1500);
    let behind = bench.put(0, (1, 60), 0, 1500);
    bench.send(0, 2);
    assert_eq!(bench.send(0, 60), Some((us(0), behind)));
}

#[test]
fn the_highest_packet_that_does_not_fit_blocks_the_others() {
    let mut bench = Bench::new(buffered(9000, 1500, OnFull::TailDrop), None);
    bench.put(0, (1, 2), 0, 1000);
    let high = bench.put(0, (3, 2), 4, 1500);
    let low = bench.put(0, (4, 2), 0, 100);
    assert_eq!(bench.tm.drain_bytes(2)[0], 1000);
    bench.send(0, 2);
    assert_eq!(
        bench.tm.drain_bytes(2),
        [1500, 1500, 1500, 1500, 1500, 0, 0, 0]
    );
    assert_eq!(bench.send(99, 2).map(|s| s.1), Some(high));
    assert_eq!(bench.send(99, 2).map(|s| s.1), Some(low));
}

#[test]
fn equals_take_turns_by_port() {
    let mut bench = Bench::new(buffered(9000, 1000, OnFull::TailDrop), None);
    let first = bench.put(0, (0, 9), 0, 1000);
    let [c, a, b] = [3, 1, 2].map(|from| [0; 2].map(|_| bench.put(0, (from, 9), 0, 1000)));
    let expected = [first, a[0], b[0], c[0], a[1], b[1], c[1]];
    let order: Vec<_> = std::iter::from_fn(|| bench.send(9_999, 9)).collect();
    let order: Vec<_> = order.into_iter().map(|sent| sent.1).collect();
    assert_eq!(order, expected);
}

#[test]
fn a_packet_longer_than_the_egress_buffer_has_it_for_itself() {
    let mut bench = Bench::new(buffered(9000, 1000, OnFull::TailDrop), None);
    bench.put(0, (1, 2), 0, 64);
    bench.put(0, (1, 2), 0, 1500);
    assert_eq!(bench.tm.drain_bytes(2)[0], 64);
    bench.send(0, 2);
    assert_eq!(bench.tm.drain_bytes(2)[0], 1500);
}

#[test]
fn with_ingress_buffers_only_what_waits_there_counts_for_flow_control() {
    let mut profile = profile();
    profile.ingress_bytes = Some(131_072);
    profile.egress_bytes = Some(9_000);
    let mut bench = Bench::new(profile, Some(pfc()));
    for _ in 0..6 + 5 {
        bench.put(0, (1, 2), 0, 1500);
        assert_eq!(bench.pauses(), []);
    }
    bench.put(0, (1, 2), 0, 1500);
    assert_eq!(bench.pauses(), [change(0, 1, 1, 1)]);
    // 9000 bytes wait at the ingress; three transmissions make them 4500.
    for _ in 0..3 {
        assert_eq!(bench.pauses(), []);
        bench.send(500, 2);
    }
    assert_eq!(bench.pauses(), [change(24, 1, 1, 0)]);
}

/// A low queue that is paused and has filled its output stops a higher one, unless each has room of
/// its own; then a full higher one does not stop the low one either.
#[test]
fn room_per_queue_keeps_a_paused_queue_from_stopping_others() {
    let sent = |per_queue, paused, filled, later| {
        let mut profile = buffered(9000, 3000, OnFull::TailDrop);
        profile.egress_per_queue = per_queue;
        let mut bench = Bench::new(profile, None);
        bench.tm.open_port(us(0), 2);
        bench.tm.set_paused(us(0), 2, paused, true);
        for _ in 0..3 {
            bench.put(0, (1, 2), filled, 1500);
        }
        let other = bench.put(0, (1, 2), later, 1500);
        let first = bench.send(99, 2).map(|sent| sent.1);
        assert!(first.is_none_or(|first| first == other));
        first.is_some()
    };
    assert!(!sent(false, 0, 0, 6));
    assert!(sent(true, 0, 0, 6));
    assert!(!sent(false, 6, 6, 0));
    assert!(sent(true, 6, 6, 0));
}

#[test]
fn packets_that_wait_survive_the_end_of_ingress_buffers() {
    let mut bench = Bench::new(buffered(9000, 1500, OnFull::TailDrop), None);
    let first = bench.put(0, (1, 2), 0, 1500);
    let second = bench.put(0, (1, 2), 0, 1500);
    bench.put(0, (1, 2), 5, 1500);
    let mut shared = lossy();
    shared.queue.truncate(4);
    let shared = config(shared, None);
    bench.tm.reconfigure(us(7), shared).expect("valid");
    assert_eq!(bench.send(99, 2).map(|s| s.1), Some(first));
    assert_eq!(bench.send(99, 2).map(|s| s.1), Some(second));
    assert_eq!(bench.send(99, 2), None);
    let dropped = &bench.tm.statistics(us(99))[0].queues[4].dropped;
    assert_eq!(dropped[&DropReason::Flushed].packets, 1);
}

#[test]
fn packets_leave_ingress_buffers_for_good_in_the_order_in_which_they_came() {
    let mut bench = Bench::new(buffered(9000, 1000, OnFull::TailDrop), None);
    let came = [(0, 5), (1, 5), (2, 3), (3, 4), (4, 3)];
    let expected = came.map(|(at, from)| bench.put(at, (from, 2), 0, 1000));
    bench
        .tm
        .reconfigure(us(5), config(lossy(), None))
        .expect("valid");
    assert_eq!(bench.tm.drain_bytes(2)[0], 5000);
    assert_eq!(
        expected.map(|_| bench.send(99, 2).map(|s| s.1)),
        expected.map(Some)
    );
}

#[test]
fn what_is_pushed_out_leaves_from_the_tail_of_the_lowest_queue() {
    let mut profile = lossy();
    profile.pool_packets = Some(4);
    for queue in &mut profile.queue {
        queue.pool = true;
        queue.on_full = OnFull::PushOut;
    }
    let mut bench = Bench::new(profile, None);
    for queue in [1, 0, 0, 1] {
        bench.put(0, (1, 2), queue, 1500);
    }
    bench.put(0, (1, 2), 2, 1500);
    let gone = bench.tm.take_pushed_out().expect("one");
    assert_eq!((gone.packet, gone.port, gone.queue), (3, 2, 0));
    assert_eq!((gone.ingress_port, gone.len), (1, 1500));
    assert_eq!(bench.tm.take_pushed_out(), None);
    // Nothing is below queue 0.
    let reason = DropReason::PoolFull;
    let dropped = Admission::Dropped { packet: 6, reason };
    assert_eq!(bench.offer(0, (1, 2), 0, 64), dropped);
    let queue = &bench.tm.statistics(us(0))[0].queues[0];
    assert_eq!(queue.dropped[&DropReason::PushedOut].bytes, 1500);
}

#[test]
fn nothing_is_pushed_out_in_vain() {
    let mut profile = lossy();
    profile.pool_bytes = Some(3000);
    for queue in &mut profile.queue {
        queue.pool = true;
        queue.on_full = OnFull::PushOut;
    }
    let mut bench = Bench::new(profile, None);
    bench.put(0, (1, 2), 3, 2000);
    bench.put(0, (1, 2), 0, 500);
    // Even without the 500 bytes below, 1001 do not fit beside 2000.
    let refused = bench.offer(0, (1, 2), 2, 1001);
    assert!(matches!(refused, Admission::Dropped { .. }));
    assert_eq!(bench.tm.take_pushed_out(), None);
    bench.put(0, (1, 2), 2, 1000);
    assert_eq!(bench.tm.take_pushed_out().map(|gone| gone.packet), Some(2));
}

#[test]
fn an_ingress_buffer_pushes_out_of_itself() {
    let mut bench = Bench::new(buffered(3000, 1500, OnFull::PushOut), None);
    bench.put(0, (1, 2), 0, 1500);
    // These wait at port 1; the second one for port 5 is behind the first one.
    let first = bench.put(0, (1, 2), 0, 1500);
    let second = bench.put(0, (1, 5), 0, 1500);
    let high = bench.put(0, (1, 2), 3, 2000);
    let gone: Vec<_> = std::iter::from_fn(|| bench.tm.take_pushed_out()).collect();
    let gone: Vec<_> = gone.iter().map(|gone| (gone.packet, gone.port)).collect();
    assert_eq!(gone, [(first, 2), (second, 5)]);
    bench.send(0, 2);
    assert_eq!(bench.send(99, 2).map(|s| s.1), Some(high));
    assert_eq!(bench.send(99, 5), None);
}

/// Seven lossless queues may need 7 * 14,363 = 100,541 of 131,072 bytes, so that queue 0, which is
/// not lossless, has 30,531.
#[test]
fn what_is_not_lossless_leaves_room_for_what_is() {
    let mut profile = profile();
    profile.delay_ns = 5_476;
    profile.ingress_bytes = Some(131_072);
    profile.egress_bytes = Some(1_500);
    profile.queue[0].lossless = false;
    let mut bench = Bench::new(profile, Some(pfc()));
    bench.put(0, (1, 2), 7, 1500);
    bench.put(0, (1, 2), 0, 30_531);
    let refused = bench.offer(0, (1, 2), 0, 1);
    let reason = DropReason::IngressFull;
    assert_eq!(refused, Admission::Dropped { packet: 3, reason });
    bench.put(0, (1, 2), 1, 1500);
}
