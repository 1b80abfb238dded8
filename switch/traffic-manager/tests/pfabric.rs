//! The queue of pFabric (Alizadeh et al., SIGCOMM 2013, section 4.2; `experiments/schemes/pfabric.toml`)
//! against a model that is no more than its description: one list of packets, looked through from the
//! beginning for whatever is asked.

use std::collections::BTreeMap;

use ebb_traffic_manager::{
    Admission, Arrival, MAX_DEFLECTIONS, OnFull, Profile, QueueConfig, TrafficManager,
    TrafficManagerConfig,
};
use ebb_units::{BitRate, Duration, Instant};
use proptest::prelude::*;

use crate::behaviour::rank_fields;

const PORT: u16 = 1;
/// Two and a half times what 12 packets take (`experiments/schemes/pfabric.toml`).
const CAPACITY_BYTES: u64 = 45_000;
/// A byte on the wire of the port.
const BYTE: Duration = Duration::from_nanos(8);

fn manager(on_full: OnFull) -> TrafficManager<usize> {
    let profile = Profile {
        name: "ranked".into(),
        rate_bps: BitRate::from_mbps(1000),
        queue: vec![QueueConfig {
            rank: true,
            capacity_bytes: Some(CAPACITY_BYTES),
            on_full,
            ..QueueConfig::default()
        }],
        ..Profile::default()
    };
    TrafficManager::new(TrafficManagerConfig {
        ports: BTreeMap::from([("default".into(), profile.name.clone())]),
        profile: vec![profile],
        rank: Some(rank_fields()),
        ..TrafficManagerConfig::default()
    })
    .expect("valid")
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    id: usize,
    rank: u32,
    flow: u32,
    bytes: u64,
}

/// Packets that wait, in order of arrival.
#[derive(Default)]
struct Model {
    waiting: Vec<Packet>,
}

impl Model {
    fn bytes(&self) -> u64 {
        self.waiting.iter().map(|packet| packet.bytes).sum()
    }

    /// The packets that a new one drives out, itself if it is not taken. Those of the lowest priority
    /// go, as long as it is lower than that of the new one, the youngest of equals first.
    fn arrive(&mut self, new: Packet) -> Vec<usize> {
        let mut rest = self.waiting.clone();
        let mut gone = Vec::new();
        while rest.iter().map(|packet| packet.bytes).sum::<u64>() + new.bytes > CAPACITY_BYTES {
            let lowest = rest.iter().map(|packet| packet.rank).max();
            if lowest.is_none_or(|rank| rank <= new.rank) {
                return vec![new.id];
            }
            let place = rest.iter().rposition(|packet| Some(packet.rank) == lowest);
            gone.push(rest.remove(place.expect("there is one")).id);
        }
        rest.push(new);
        self.waiting = rest;
        gone
    }

    /// The earliest packet of the flow that has the packet of the highest priority.
    fn leave(&mut self) -> Option<usize> {
        let highest = self.waiting.iter().map(|packet| packet.rank).min()?;
        let urgent = self.waiting.iter().find(|packet| packet.rank == highest)?;
        let flow = urgent.flow;
        let place = self.waiting.iter().position(|packet| packet.flow == flow)?;
        Some(self.waiting.remove(place).id)
    }
}

/// The traffic manager beside the model.
struct Pair {
    tm: TrafficManager<usize>,
    model: Model,
    on_full: OnFull,
    /// How long each packet is, and how often it has been deflected.
    offered: Vec<(u64, u8)>,
    free_at: Instant,
}

impl Pair {
    fn new(on_full: OnFull) -> Self {
        Pair {
            tm: manager(on_full),
            model: Model::default(),
            on_full,
            offered: Vec::new(),
            free_at: Instant::ZERO,
        }
    }

    fn offer(
        &mut self,
        now: Instant,
        rank: u32,
        flow: u32,
        (bytes, deflections): (u64, u8),
    ) -> Result<(), TestCaseError> {
        self.serve(now)?;
        let id = self.offered.len();
        self.offered.push((bytes, deflections));
        let packet = Packet {
            id,
            rank,
            flow,
            bytes,
        };
        let mut expected = self.model.arrive(packet);
        let arrival = Arrival {
            len: bytes,
            rank,
            flow,
            deflections,
            ..Arrival::default()
        };
        let refused = match self.tm.enqueue(now, PORT, arrival, id) {
            Admission::Dropped { packet, .. } => Some((packet, false)),
            Admission::Deflected { packet, .. } => Some((packet, true)),
            Admission::Enqueued { .. } => None,
        };
        let pushed_out = std::iter::from_fn(|| self.tm.take_pushed_out());
        let pushed_out = pushed_out.map(|gone| (gone.packet, gone.deflected));
        let mut gone = Vec::new();
        for (packet, deflected) in pushed_out.chain(refused) {
            let may = self.offered[packet].1 < MAX_DEFLECTIONS;
            prop_assert_eq!(deflected, may && self.on_full == OnFull::PushOutDeflect);
            gone.push(packet);
        }
        gone.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(gone, expected);
        prop_assert_eq!(self.tm.depth(PORT, 0).bytes, self.model.bytes());
        self.serve(now)
    }

    /// Lets go what may until `now`.
    fn serve(&mut self, now: Instant) -> Result<(), TestCaseError> {
        while self.free_at <= now {
            let sent = self.tm.dequeue(now, PORT);
            prop_assert_eq!(sent.as_ref().map(|d| d.packet), self.model.leave());
            let Some(d) = sent else {
                self.free_at = now;
                return Ok(());
            };
            prop_assert!(d.start >= self.free_at);
            self.tm.transmit(PORT, d.queue, d.start, d.len, false);
            self.free_at = d.start + BYTE * self.offered[d.packet].0;
        }
        Ok(())
    }
}

proptest! {
    /// Full packets, acknowledgments of rank 0 and probes, of few flows and few ranks, so that there
    /// are many equals, as fast as two to four links would bring them.
    #[test]
    fn packets_leave_and_give_way_as_described(
        arrivals in prop::collection::vec(
            (
                0u64..12_000,
                0u32..6,
                0u32..5,
                (prop::sample::select(vec![54u64, 55, 700, 1514]), 0..=MAX_DEFLECTIONS),
            ),
            1..400,
        ),
        on_full in prop::sample::select(vec![OnFull::PushOut, OnFull::PushOutDeflect]),
    ) {
        let (mut pair, mut now) = (Pair::new(on_full), Instant::ZERO);
        let mut offered = 0;
        for (gap_ns, rank, flow, packet) in arrivals {
            now += Duration::from_nanos(gap_ns);
            offered += 1;
            pair.offer(now, rank, flow, packet)?;
        }
        while !pair.model.waiting.is_empty() {
            now = pair.free_at;
            pair.serve(now)?;
        }
        prop_assert_eq!(pair.tm.queued().packets, 0);
        let statistics = pair.tm.statistics(now);
        let queue = &statistics[0].queues[0];
        let dropped: u64 = queue.dropped.values().map(|count| count.packets).sum();
        let kept = queue.transmitted.packets;
        prop_assert_eq!(kept + dropped + queue.deflected.packets, offered);
    }
}
