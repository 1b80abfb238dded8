//! Whether the headroom that validation asks for is enough, and no more than is needed: a neighbour
//! that sends at line rate over a link of 1 Gbit/s, obeys pauses as late as it may, and otherwise
//! does its worst.

use std::collections::{BTreeMap, VecDeque};

use ebb_traffic_manager::{
    Accounting, Admission, Arrival, Pfc, PortId, Profile, QueueConfig, TrafficManager,
    TrafficManagerConfig, Watchdog,
};
use ebb_units::{BitRate, Instant};
use proptest::prelude::*;

/// The port that leads to the neighbour.
const NEIGHBOUR: PortId = 1;
/// The port that the neighbour's packets go to.
const OUTPUT: PortId = 2;
/// A port from which packets go to the neighbour.
const OTHER: PortId = 3;

/// Nanoseconds of a byte at 1 Gbit/s.
const BYTE_NS: u64 = 8;
/// Propagation and transceivers, one way.
const DELAY_NS: u64 = 5_476;
/// Two pause quanta.
const RESPONSE_NS: u64 = 1_024;
/// The longest frame, and a PFC frame, with all that they cost on the wire.
const LONG: u64 = 1_530;
const PFC_FRAME: u64 = 84;
/// Bytes until a pause stops the neighbour: 36.456 us.
const HEADROOM: u64 = 4_557;

fn pfc(pause_bytes: u64) -> Pfc {
    Pfc {
        pause_bytes: Some(pause_bytes),
        resume_bytes: Some(HEADROOM.min(pause_bytes)),
        accounting: Accounting::Drain,
        response_ns: RESPONSE_NS,
        wakeup_ns: 0,
        max_frame_bytes: LONG,
        watchdog_ns: 0,
        watchdog: Watchdog::Report,
    }
}

/// So many lossless queues with an ingress buffer.
fn config(queues: u8, ingress_bytes: u64, egress_bytes: u64, pfc: Pfc) -> TrafficManagerConfig {
    let queue = |id| QueueConfig {
        id,
        lossless: true,
        ..QueueConfig::default()
    };
    let profile = Profile {
        name: "p".into(),
        rate_bps: BitRate::from_mbps(1_000),
        delay_ns: DELAY_NS,
        ingress_bytes: Some(ingress_bytes),
        egress_bytes: Some(egress_bytes),
        queue: (0..queues).map(queue).collect(),
        ..Profile::default()
    };
    TrafficManagerConfig {
        ports: BTreeMap::from([("default".into(), "p".into())]),
        profile: vec![profile],
        pfc: Some(pfc),
        ..TrafficManagerConfig::default()
    }
}

/// A frame on the link from the neighbour.
struct Frame {
    arrival: u64,
    queue: u8,
    len: u64,
    /// Whether a long frame starts to the neighbour just as this one is there.
    meets_frame: bool,
}

/// The switch, the neighbour, and the link between them. Times are in nanoseconds.
struct Link {
    tm: TrafficManager<()>,
    coming: VecDeque<Frame>,
    /// Since when, or from when on, the neighbour has sent all that it was given.
    free_at: u64,
    /// From when on the neighbour obeys: queues that change, and those of them that pause.
    orders: VecDeque<(u64, u8, u8)>,
    /// The queues that the neighbour does not send.
    paused: u8,
    /// Frames of the neighbour that were lost.
    lost: u64,
}

impl Link {
    fn new(config: TrafficManagerConfig) -> Self {
        Self {
            tm: TrafficManager::new(config).expect("valid"),
            coming: VecDeque::new(),
            free_at: 0,
            orders: VecDeque::new(),
            paused: 0,
            lost: 0,
        }
    }

    /// A packet is offered to the switch; true if it is taken.
    fn offer(&mut self, at: u64, (from, to): (PortId, PortId), queue: u8, len: u64) -> bool {
        let arrival = Arrival {
            ingress_port: from,
            queue,
            len,
            ..Arrival::default()
        };
        let admission = self.tm.enqueue(ns(at), to, arrival, ());
        matches!(admission, Admission::Enqueued { .. })
    }

    /// The switch starts what is due at a port.
    fn serve(&mut self, at: u64, port: PortId) {
        while let Some(d) = self.tm.dequeue(ns(at), port) {
            self.tm.transmit(port, d.queue, d.start, d.len, false);
            self.pass_orders();
        }
    }

    /// PFC frames leave for the neighbour.
    fn pass_orders(&mut self) {
        while let Some(change) = self.tm.take_pause() {
            // Nobody listens at the other ports.
            if change.port != NEIGHBOUR {
                continue;
            }
            let sent = self.tm.transmit_control(change.at, NEIGHBOUR, PFC_FRAME);
            let obeyed = sent.arrival.as_nanos() + RESPONSE_NS;
            self.orders
                .push_back((obeyed, change.changed, change.paused));
        }
    }

    /// Everything happens until a time.
    fn run_until(&mut self, end: u64) {
        loop {
            let ports = [NEIGHBOUR, OUTPUT];
            let due = ports.map(|port| self.tm.next_deadline(port).map(Instant::as_nanos));
            let coming = self.coming.front().map(|frame| frame.arrival);
            let next = due.into_iter().flatten().chain(coming).min();
            let Some(at) = next.filter(|at| *at <= end) else {
                break;
            };
            for port in ports {
                self.serve(at, port);
            }
            if coming != Some(at) {
                continue;
            }
            let Some(frame) = self.coming.pop_front() else {
                continue;
            };
            if frame.meets_frame {
                // It may be refused, since nobody listens at that port.
                self.offer(at, (OTHER, NEIGHBOUR), 0, LONG);
                self.serve(at, NEIGHBOUR);
            }
            if !self.offer(at, (NEIGHBOUR, OUTPUT), frame.queue, frame.len) {
                self.lost += 1;
            }
            self.pass_orders();
        }
        while let Some(&(from, changed, paused)) = self.orders.front()
            && from <= end
        {
            self.paused = self.paused & !changed | paused;
            self.orders.pop_front();
        }
    }

    /// The neighbour sends a frame as soon as it can, unless it has to pause by then.
    fn send(&mut self, queue: u8, len: u64, meets_frame: bool) -> bool {
        self.run_until(self.free_at);
        if self.paused & 1 << queue != 0 {
            return false;
        }
        self.free_at += len * BYTE_NS;
        self.coming.push_back(Frame {
            arrival: self.free_at + DELAY_NS,
            queue,
            len,
            meets_frame,
        });
        true
    }
}

fn ns(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

/// The neighbour fills one queue after the other, lowest first: up to the threshold, then with a
/// long frame that crosses it while another one starts the other way, and then with all that goes
/// until it has to obey, the last frame being a long one that starts just before. Nothing leaves the
/// switch. The result is how many frames were lost, and how many bytes the switch has in the end.
fn adversary(config: TrafficManagerConfig, pause_bytes: u64) -> (u64, u64) {
    let queues = config.profile[0].queue.len() as u8;
    let mut link = Link::new(config);
    // The egress buffer has room for this one only, and it does not leave.
    for queue in 0..queues {
        link.tm.set_paused(ns(0), OUTPUT, queue, true);
    }
    assert!(link.offer(0, (OTHER, OUTPUT), 0, 1));
    // From the end of the frame that crosses until the neighbour obeys.
    let window = (LONG + PFC_FRAME) * BYTE_NS + 2 * DELAY_NS + RESPONSE_NS;
    for queue in 0..queues {
        let mut below = pause_bytes;
        while below > 0 {
            // No rest is shorter than the shortest frame.
            let len = match below {
                rest if rest <= LONG => rest,
                rest if rest <= 2 * LONG => rest / 2,
                _ => LONG,
            };
            assert!(link.send(queue, len, false));
            below -= len;
        }
        assert!(link.send(queue, LONG, true));
        let until = window.div_ceil(BYTE_NS) - 1;
        for len in [LONG, until - LONG - 64, 64, LONG] {
            assert!(link.send(queue, len, false));
        }
        let goes_on = link.send(queue, 64, false);
        assert!(!goes_on || link.lost > 0, "queue {queue} goes on");
    }
    link.run_until(u64::MAX / 2_000);
    (link.lost, link.tm.queued().bytes - 1)
}

#[test]
fn the_headroom_is_never_exceeded_and_nearly_reached() {
    let need = 8 * (8_192 + LONG + PFC_FRAME + HEADROOM);
    let config = |ingress_bytes| config(8, ingress_bytes, 1, pfc(8_192));
    let (lost, held) = adversary(config(need), 8_192);
    assert_eq!(lost, 0);
    assert!(held <= need && need - held < LONG, "{held} of {need}");
    let message = config(need - 1).validate().expect_err("too little");
    let message = message.to_string();
    let expected = "8 lossless queues need 8 * (8192 + 1614 + 4557) = 114904 bytes";
    assert!(message.contains(expected), "{message}");
}

/// The configuration says that frames are shorter than they are, so validation does not notice that
/// the threshold is a frame too high.
#[test]
fn a_threshold_that_is_a_frame_too_high_loses_packets() {
    let need = 8 * (8_192 + LONG + PFC_FRAME + HEADROOM);
    let too_high = Pfc {
        max_frame_bytes: LONG * 2 / 3,
        ..pfc(8_192 + LONG)
    };
    let (lost, _) = adversary(config(8, need, 1, too_high), 8_192 + LONG);
    assert!(lost > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Whatever the neighbour sends, whatever leaves at which time, and whatever the thresholds.
    #[test]
    fn lossless_queues_lose_nothing(
        queues in 1..=8u8,
        pause_bytes in 0..20_000u64,
        egress_bytes in 1..20_000u64,
        class in any::<bool>(),
        frames in prop::collection::vec((0..8u8, 64..=LONG, 0..10u64, any::<u8>()), 1..400),
    ) {
        let accounting = if class { Accounting::Class } else { Accounting::Drain };
        let pfc = Pfc { accounting, ..pfc(pause_bytes) };
        let need = u64::from(queues) * (pause_bytes + LONG + PFC_FRAME + HEADROOM);
        let mut link = Link::new(config(queues, need, egress_bytes, pfc));
        for (queue, len, idle, dice) in frames {
            if idle == 0 {
                link.free_at += len * BYTE_NS;
            }
            let queue = queue % queues;
            if !link.send(queue, len, dice % 4 == 0) {
                // The neighbour looks again a frame later.
                link.free_at += len * BYTE_NS;
            }
            // The neighbour behind the output pauses a queue, mostly.
            if dice % 8 == 1 {
                let at = ns(link.free_at);
                link.run_until(link.free_at);
                link.tm.set_paused(at, OUTPUT, queue, dice < 192);
            }
        }
        link.run_until(u64::MAX / 2_000);
        prop_assert_eq!(link.lost, 0);
    }
}
