//! Random traffic through a switch with several ports, compared with a model that goes forward byte
//! by byte and derives every answer from one list of packets: flow control, ingress and egress
//! buffers, push-out, shares of the link and ranks.

use std::collections::{BTreeMap, BTreeSet};

use ebb_traffic_manager::{
    Accounting, Admission, Arrival, DropReason, Group, OnFull, Pfc, PortId, Profile, QueueConfig,
    TrafficManager, TrafficManagerConfig, Watchdog,
};
use ebb_units::{BitRate, Instant};
use proptest::prelude::*;

/// The ports, which all have the same profile.
const PORTS: PortId = 3;
/// At this rate a byte takes a nanosecond, which is a slot.
const RATE_MBPS: u64 = 8_000;
/// The longest packet.
const MAX_LEN: u64 = 40;
/// The share of queue 7 in millionths.
const SHARE: u64 = 200_000;

/// Where a packet waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// In the ingress buffer of the port that it came in on.
    Ingress,
    /// In the queue of the port that it goes to, which it joined as the number of this order.
    Egress(usize),
}

#[derive(Clone, Debug)]
struct Packet {
    id: usize,
    from: PortId,
    to: PortId,
    queue: u8,
    len: u64,
    rank: u32,
    flow: u32,
    stage: Stage,
}

/// Fate of an offered packet, and the packets that gave way to it.
#[derive(Debug, PartialEq, Eq)]
struct Verdict {
    dropped: Option<DropReason>,
    pushed_out: BTreeSet<usize>,
}

/// The model. The packets are in the order in which they came.
struct Model {
    profile: Profile,
    pfc: Option<Pfc>,
    packets: Vec<Packet>,
    /// How many packets have joined queues of ports.
    joined: usize,
    /// Slots until each port is free.
    busy: [u64; PORTS as usize],
    /// Tokens of queue 7 of each port, in millionths of a byte.
    tokens: [u64; PORTS as usize],
    /// The queues that each neighbour was asked to pause.
    asked: [u8; PORTS as usize],
    /// The queues that each neighbour has paused.
    paused: [u8; PORTS as usize],
    /// The input that is next at an output and a queue.
    turn: BTreeMap<(PortId, u8), PortId>,
}

impl Model {
    fn new(profile: Profile, pfc: Option<Pfc>) -> Self {
        let burst = profile.group.first().map_or(0, |group| group.burst_bytes);
        Self {
            profile,
            pfc,
            packets: Vec::new(),
            joined: 0,
            busy: [0; PORTS as usize],
            tokens: [burst * 1_000_000; PORTS as usize],
            asked: [0; PORTS as usize],
            paused: [0; PORTS as usize],
            turn: BTreeMap::new(),
        }
    }

    fn config(&self, queue: u8) -> Option<&QueueConfig> {
        self.profile.queue.iter().find(|q| q.id == queue)
    }

    fn bytes(&self, member: impl Fn(&Packet) -> bool) -> u64 {
        let members = self.packets.iter().filter(|p| member(p));
        members.map(|p| p.len).sum()
    }

    fn staged(&self) -> bool {
        self.profile.ingress_bytes.is_some()
    }

    fn lossless(&self, queue: u8) -> bool {
        self.config(queue).is_some_and(|q| q.lossless)
    }

    /// Whether everything is within its limit with one more packet, whose rank and id are given.
    fn fits(&self, new: &Packet) -> Option<DropReason> {
        let Some(queue) = self.config(new.queue) else {
            return Some(DropReason::NoSuchQueue);
        };
        if let Some(limit) = self.profile.ingress_bytes {
            let here = |p: &Packet| p.from == new.from && p.stage == Stage::Ingress;
            let lossy = self.bytes(|p| here(p) && !self.lossless(p.queue));
            let kept = self.pfc.as_ref().map_or(0, |pfc| {
                let queues = (0..8).filter(|q| self.lossless(*q)).count() as u64;
                // The frame that crosses, the PFC frame, and twice the longest frame.
                queues * (pfc.pause_bytes.expect("given") + MAX_LEN + 84 + 2 * MAX_LEN)
            });
            let too_much = self.bytes(here) + new.len > limit
                || !self.lossless(new.queue) && lossy + new.len + kept > limit;
            return too_much.then_some(DropReason::IngressFull);
        }
        let own = self.bytes(|p| p.to == new.to && p.queue == new.queue);
        if queue
            .capacity_bytes
            .is_some_and(|limit| own + new.len > limit)
        {
            return Some(DropReason::QueueFull);
        }
        let pool = self.bytes(|p| p.to == new.to && self.config(p.queue).is_some_and(|q| q.pool));
        let full = self
            .profile
            .pool_bytes
            .is_some_and(|limit| pool + new.len > limit);
        (queue.pool && full).then_some(DropReason::PoolFull)
    }

    /// The packet that gives way next: of the lowest queue the youngest, or by rank.
    fn victim(&self, new: &Packet) -> Option<usize> {
        let candidates = (0..self.packets.len()).filter(|i| {
            let other = &self.packets[*i];
            let shares_buffer = match self.staged() {
                true => other.from == new.from && other.stage == Stage::Ingress,
                false => other.to == new.to,
            };
            if !shares_buffer {
                return false;
            }
            if self.config(new.queue).is_some_and(|q| q.rank) {
                return other.queue == new.queue && other.rank > new.rank;
            }
            let pooled = self.staged() || self.config(other.queue).is_some_and(|q| q.pool);
            pooled && other.queue < new.queue && !self.lossless(other.queue)
        });
        // The lowest queue, then the greatest rank if the queue has ranks, then the youngest.
        candidates.min_by_key(|i| {
            let other = &self.packets[*i];
            let ranked = self.config(other.queue).is_some_and(|q| q.rank);
            let rank = if ranked { other.rank } else { 0 };
            (other.queue, std::cmp::Reverse((rank, *i)))
        })
    }

    fn offer(&mut self, new: Packet) -> Verdict {
        let before = self.packets.clone();
        let mut pushed_out = BTreeSet::new();
        while let Some(reason) = self.fits(&new) {
            let pushes = self
                .config(new.queue)
                .is_some_and(|q| q.on_full == OnFull::PushOut);
            let victim = self.victim(&new).filter(|_| pushes);
            let Some(victim) = victim else {
                // In vain: nothing has happened.
                self.packets = before;
                let first = self.fits(&new).unwrap_or(reason);
                return Verdict {
                    dropped: Some(first),
                    pushed_out: BTreeSet::new(),
                };
            };
            pushed_out.insert(self.packets.remove(victim).id);
        }
        let stage = match self.staged() {
            true => Stage::Ingress,
            false => self.join(),
        };
        self.packets.push(Packet { stage, ..new });
        self.cross();
        Verdict {
            dropped: None,
            pushed_out,
        }
    }

    fn join(&mut self) -> Stage {
        self.joined += 1;
        Stage::Egress(self.joined)
    }

    /// Moves packets from ingress to egress buffers one by one, at the lowest port where one moves.
    fn cross(&mut self) {
        let Some(limit) = self.profile.egress_bytes else {
            return;
        };
        while let Some(index) = (0..PORTS).find_map(|to| self.crossing(to, limit)) {
            let stage = self.join();
            let packet = &mut self.packets[index];
            packet.stage = stage;
            let key = (packet.to, packet.queue);
            self.turn.insert(key, packet.from + 1);
        }
    }

    fn crossing(&self, to: PortId, limit: u64) -> Option<usize> {
        let first_of_fifo = |i: &usize| {
            let one = &self.packets[*i];
            let same = |p: &&Packet| {
                p.stage == Stage::Ingress && p.from == one.from && p.queue == one.queue
            };
            one.stage == Stage::Ingress
                && self.packets.iter().find(same).map(|p| p.id) == Some(one.id)
        };
        let heads = (0..self.packets.len()).filter(first_of_fifo);
        let heads: Vec<_> = heads.filter(|i| self.packets[*i].to == to).collect();
        let queues: BTreeSet<_> = heads.iter().map(|i| self.packets[*i].queue).collect();
        let mut queues = queues.into_iter().rev();
        match self.profile.egress_per_queue {
            true => queues.find_map(|queue| self.crossing_of(to, limit, &heads, queue)),
            false => self.crossing_of(to, limit, &heads, queues.next()?),
        }
    }

    /// The packet of a queue that goes to a port next, of those that are first at their port.
    fn crossing_of(&self, to: PortId, limit: u64, heads: &[usize], queue: u8) -> Option<usize> {
        let turn = self.turn.get(&(to, queue)).copied().unwrap_or(0);
        let after = |i: &usize| (self.packets[*i].from + 1000 - turn) % 1000;
        let equals = heads.iter().copied();
        let equals = equals.filter(|i| self.packets[*i].queue == queue);
        let next = equals.min_by_key(after)?;
        let counts = |p: &Packet| !self.profile.egress_per_queue || p.queue == queue;
        let held = self.bytes(|p| p.to == to && p.stage != Stage::Ingress && counts(p));
        (held == 0 || held + self.packets[next].len <= limit).then_some(next)
    }

    /// The next packet of a queue.
    fn head(&self, port: PortId, queue: u8) -> Option<usize> {
        if self.paused[usize::from(port)] & 1 << queue != 0 {
            return None;
        }
        let mut waiting: Vec<_> = (0..self.packets.len()).collect();
        waiting.retain(|i| {
            let p = &self.packets[*i];
            p.to == port && p.queue == queue && p.stage != Stage::Ingress
        });
        waiting.sort_by_key(|i| match self.packets[*i].stage {
            Stage::Egress(order) => order,
            Stage::Ingress => usize::MAX,
        });
        if !self.config(queue)?.rank {
            return waiting.first().copied();
        }
        let least = waiting.iter().map(|i| self.packets[*i].rank).min()?;
        let flow = waiting.iter().find(|i| self.packets[**i].rank == least)?;
        let flow = self.packets[*flow].flow;
        waiting.into_iter().find(|i| self.packets[*i].flow == flow)
    }

    /// Starts a transmission at a port that is free: the id of the packet.
    fn start(&mut self, port: PortId) -> Option<usize> {
        if self.busy[usize::from(port)] > 0 {
            return None;
        }
        let cost = |i: usize| self.packets[i].len + self.profile.frame_overhead_bytes;
        let shared = !self.profile.group.is_empty();
        let mut others = (0..8).rev().filter(|q| !(shared && *q == 7));
        let other = others.find_map(|q| self.head(port, q));
        let seven = self.head(port, 7).filter(|_| shared);
        let tokens = self.tokens[usize::from(port)];
        let within = seven.filter(|i| cost(*i) * 1_000_000 <= tokens);
        let spent = within.map_or(0, |i| cost(i) * 1_000_000);
        let index = within.or(other).or(seven)?;
        self.tokens[usize::from(port)] -= spent;
        let cost = self.packets[index].len + self.profile.frame_overhead_bytes;
        self.busy[usize::from(port)] = cost;
        let packet = self.packets.remove(index);
        self.cross();
        Some(packet.id)
    }

    /// A byte leaves each port.
    fn tick(&mut self) {
        let burst = self
            .profile
            .group
            .first()
            .map_or(0, |group| group.burst_bytes);
        for port in 0..usize::from(PORTS) {
            self.busy[port] = self.busy[port].saturating_sub(1);
            self.tokens[port] = (self.tokens[port] + SHARE).min(burst * 1_000_000);
        }
    }

    /// Changes for the neighbour at a port: the queues, and those that are to pause.
    fn ask(&mut self, port: PortId) -> u8 {
        let Some(pfc) = &self.pfc else {
            return 0;
        };
        let mut asked = 0;
        for queue in (0..8).filter(|q| self.lossless(*q)) {
            let counted = self.bytes(|p| {
                let counts = match pfc.accounting {
                    Accounting::Drain => p.queue >= queue,
                    Accounting::Class => p.queue == queue,
                };
                counts && p.from == port && (!self.staged() || p.stage == Stage::Ingress)
            });
            let was = self.asked[usize::from(port)] & 1 << queue != 0;
            let threshold = if was {
                pfc.resume_bytes
            } else {
                pfc.pause_bytes
            };
            asked |= u8::from(counted > threshold.expect("given")) << queue;
        }
        self.asked[usize::from(port)] = asked;
        asked
    }
}

/// An event in a slot.
#[derive(Clone, Debug)]
enum Event {
    Offer(Packet),
    Pause(PortId, u8, bool),
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let queue = prop_oneof![4 => prop::sample::select(vec![0u8, 2, 5, 7]), 1 => Just(1)];
    let offer = (0..PORTS, 0..PORTS, queue, 1..=MAX_LEN, 0..6u32, 0..4u32);
    let offer = offer.prop_map(|(from, to, queue, len, rank, flow)| {
        Event::Offer(Packet {
            id: 0,
            from,
            to,
            queue,
            len,
            rank,
            flow,
            stage: Stage::Ingress,
        })
    });
    let queue = prop::sample::select(vec![0u8, 2, 5, 7]);
    let pause = (0..PORTS, queue, any::<bool>());
    let pause = pause.prop_map(|(port, queue, paused)| Event::Pause(port, queue, paused));
    let event = prop_oneof![12 => offer, 1 => pause];
    let gap = prop_oneof![Just(0), 0..8u64, 0..20u64];
    prop::collection::vec((gap, event), 1..200)
}

/// Buffers: shared queues, a pool, or ingress and egress buffers.
fn profiles() -> impl Strategy<Value = (Profile, Option<Pfc>)> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<u8>());
    let sizes = (30..300u64, 20..120u64, 0..3u64, 40..200u64);
    (0..3u8, flags, sizes).prop_map(|(kind, flags, sizes)| {
        let (flow_control, share, class, bits) = flags;
        let (pool, egress, overhead, thresholds) = sizes;
        let staged = kind == 2;
        // The upper two queues are lossless, unless they have limits.
        let lossless = |id| flow_control && kind != 1 && id >= 5;
        let pfc = flow_control && kind != 1;
        let bit = |place: u8| bits >> place & 1 != 0;
        let queue = |(place, id): (u8, u8)| {
            let rank = !staged && !lossless(id) && bit(place);
            let pushes_out = bit(place + 4) && (rank || kind != 0);
            QueueConfig {
                id,
                capacity_bytes: (!staged && !lossless(id)).then_some(60 + u64::from(bits)),
                pool: kind == 1,
                rank,
                on_full: match pushes_out {
                    true => OnFull::PushOut,
                    false => OnFull::TailDrop,
                },
                lossless: lossless(id),
                ..QueueConfig::default()
            }
        };
        let group = |queues: &[u8], share, burst_bytes| Group {
            queues: queues.to_vec(),
            share,
            burst_bytes,
            ..Group::default()
        };
        let ingress = pool
            + if pfc {
                2 * (thresholds + 84 + 3 * MAX_LEN) + MAX_LEN
            } else {
                0
            };
        let profile = Profile {
            name: "p".into(),
            rate_bps: BitRate::from_mbps(RATE_MBPS),
            frame_overhead_bytes: overhead,
            pool_bytes: (kind == 1).then_some(pool),
            ingress_bytes: staged.then_some(ingress),
            egress_bytes: staged.then_some(egress),
            egress_per_queue: staged && bit(0),
            queue: (0..).zip([0, 2, 5, 7]).map(queue).collect(),
            group: match share {
                true => vec![
                    group(&[7], Some(SHARE as f64 / 1e6), MAX_LEN + overhead),
                    group(&[0, 2, 5], None, 0),
                ],
                false => Vec::new(),
            },
            ..Profile::default()
        };
        let pfc = pfc.then_some(Pfc {
            pause_bytes: Some(thresholds),
            resume_bytes: Some(thresholds / 2),
            accounting: if class {
                Accounting::Class
            } else {
                Accounting::Drain
            },
            response_ns: 0,
            wakeup_ns: 0,
            max_frame_bytes: MAX_LEN,
            watchdog_ns: 0,
            watchdog: Watchdog::Report,
        });
        (profile, pfc)
    })
}

/// The traffic manager beside the model.
struct Pair {
    tm: TrafficManager<usize>,
    model: Model,
    /// Queues that the traffic manager has asked each neighbour to pause.
    asked: [u8; PORTS as usize],
}

impl Pair {
    /// Serves all ports in both until nothing starts in this slot.
    fn serve(&mut self, now: Instant) -> Result<(), TestCaseError> {
        loop {
            let mut idle = true;
            for port in 0..PORTS {
                let expected = self.model.start(port);
                let actual = self.tm.dequeue(now, port);
                prop_assert_eq!(actual.as_ref().map(|d| d.packet), expected);
                if let Some(d) = actual {
                    prop_assert_eq!(d.start, now);
                    self.tm.transmit(port, d.queue, d.start, d.len, false);
                    idle = false;
                    self.compare(now)?;
                }
            }
            if idle {
                return Ok(());
            }
        }
    }

    /// Compares the requests to neighbours, and what programs see of the queues.
    fn compare(&mut self, now: Instant) -> Result<(), TestCaseError> {
        while let Some(change) = self.tm.take_pause() {
            prop_assert_eq!(change.at, now);
            let asked = &mut self.asked[usize::from(change.port)];
            prop_assert_eq!(*asked & change.changed, change.changed & !change.paused);
            *asked ^= change.changed;
        }
        while self.tm.take_woken().is_some() {}
        for port in 0..PORTS {
            prop_assert_eq!(self.asked[usize::from(port)], self.model.ask(port));
            let drain = |queue| {
                let model = &self.model;
                model.bytes(|p| p.to == port && p.stage != Stage::Ingress && p.queue >= queue)
            };
            let drain: Vec<_> = (0..8).map(drain).collect();
            prop_assert_eq!(self.tm.drain_bytes(port).to_vec(), drain);
        }
        let waiting = self.model.packets.len() as u64;
        prop_assert_eq!(self.tm.queued().packets, waiting);
        Ok(())
    }

    fn offer(&mut self, now: Instant, packet: Packet) -> Result<(), TestCaseError> {
        let arrival = Arrival {
            ingress_port: packet.from,
            queue: packet.queue,
            len: packet.len,
            rank: packet.rank,
            flow: packet.flow,
            ..Arrival::default()
        };
        let dropped = match self.tm.enqueue(now, packet.to, arrival, packet.id) {
            Admission::Enqueued { .. } => None,
            Admission::Dropped { reason, .. } => Some(reason),
            Admission::Deflected { .. } => unreachable!("no queue deflects"),
        };
        let pushed_out = std::iter::from_fn(|| self.tm.take_pushed_out());
        let verdict = Verdict {
            dropped,
            pushed_out: pushed_out.map(|gone| gone.packet).collect(),
        };
        prop_assert_eq!(verdict, self.model.offer(packet));
        self.compare(now)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(80) })]

    #[test]
    fn behaves_like_the_model((profile, pfc) in profiles(), events in events()) {
        let ranked = profile.queue.iter().any(|queue| queue.rank);
        let config = TrafficManagerConfig {
            ports: BTreeMap::from([("default".into(), "p".into())]),
            profile: vec![profile.clone()],
            rank: ranked.then(crate::behaviour::rank_fields),
            pfc: pfc.clone(),
            ..TrafficManagerConfig::default()
        };
        let mut pair = Pair {
            tm: TrafficManager::new(config).expect("valid"),
            model: Model::new(profile, pfc),
            asked: [0; PORTS as usize],
        };
        let mut now = 0;
        for (id, (gap, event)) in events.into_iter().enumerate() {
            for _ in 0..gap {
                pair.serve(Instant::from_nanos(now))?;
                pair.model.tick();
                now += 1;
            }
            let at = Instant::from_nanos(now);
            pair.serve(at)?;
            match event {
                Event::Offer(packet) => pair.offer(at, Packet { id, ..packet })?,
                Event::Pause(port, queue, paused) => {
                    pair.tm.set_paused(at, port, queue, paused);
                    let mask = &mut pair.model.paused[usize::from(port)];
                    *mask = *mask & !(1 << queue) | u8::from(paused) << queue;
                }
            }
        }
    }
}
