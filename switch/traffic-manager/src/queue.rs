//! One queue: a FIFO with a capacity, which keeps its own statistics. It may serve by rank instead:
//! then the flow that holds the packet of the least rank is served, in order of arrival so that it
//! neither starves nor is reordered (pFabric, section 4.1).

use std::collections::VecDeque;

use ebb_units::Instant;

use crate::admission::Arrival;
use crate::config::{OnFull, QueueConfig};
use crate::depth::Depth;
use crate::limits::MAX_DEFLECTIONS;
use crate::port_id::PortId;
use crate::statistics::{DropReason, Recorder};

/// Capacity of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limit {
    /// Most packets; `None` means no limit.
    pub(crate) packets: Option<u64>,
    /// Most bytes; `None` means no limit.
    pub(crate) bytes: Option<u64>,
}

impl Limit {
    /// How many quarters of the limit are full, 0 to 3; without a limit none.
    pub(crate) fn quarters(&self, depth: Depth) -> u8 {
        let of = |filled: u64, limit: Option<u64>| {
            limit.map_or(0, |limit| (filled.saturating_mul(4) / limit.max(1)).min(3))
        };
        of(depth.packets, self.packets).max(of(depth.bytes, self.bytes)) as u8
    }

    /// Whether a packet of `len` bytes fits in addition to those that wait.
    pub(crate) fn admits(&self, depth: Depth, len: u64) -> bool {
        self.packets.is_none_or(|limit| depth.packets < limit)
            && self.bytes.is_none_or(|limit| depth.bytes + len <= limit)
    }
}

/// A waiting packet with its times and lengths.
#[derive(Debug)]
pub(crate) struct Item<P> {
    /// The packet itself.
    pub(crate) packet: P,
    /// Arrival at the traffic manager.
    pub(crate) arrived: Instant,
    /// Time at which it joined its queue: after its arrival if it waited in an ingress buffer.
    pub(crate) joined: Instant,
    /// Depth of the queue that the packet found, in packets and in bytes, as far as 32 bits hold it.
    depth_before: (u32, u32),
    /// Its length in bytes.
    len: u32,
    /// The port on which it came in.
    pub(crate) ingress_port: PortId,
    /// The packet goes back to the ingress pipeline if it gives way, see [`OnFull::DeflectEither`].
    deflects: bool,
}

impl<P> Item<P> {
    /// A packet that arrives.
    pub(crate) fn new(now: Instant, ingress_port: PortId, len: u64, packet: P) -> Self {
        Self {
            packet,
            arrived: now,
            joined: now,
            depth_before: (0, 0),
            len: narrow(len),
            ingress_port,
            deflects: false,
        }
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len.into()
    }

    /// Depth of the queue that the packet found.
    pub(crate) fn depth_before(&self) -> Depth {
        Depth {
            packets: self.depth_before.0.into(),
            bytes: self.depth_before.1.into(),
        }
    }
}

/// A coin: the same side for the same time and number (the finaliser of SplitMix64).
fn heads(now: Instant, number: u64) -> bool {
    let mut mixed = now.as_picos() ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) & 1 == 1
}

/// A number in the 32 bits that a waiting packet has for it.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// A queue. Every packet touches the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Queue<P> {
    /// The packets that wait, oldest first.
    items: VecDeque<Item<P>>,
    /// Packets and bytes that wait.
    pub(crate) depth: Depth,
    /// When the last pause ended; no packet counts as ready before.
    pub(crate) resumed_at: Instant,
    /// Whether the profile lists the queue.
    pub(crate) exists: bool,
    /// Whether the queue also counts against the port's shared pool.
    pub(crate) pooled: bool,
    /// Whether the limit of the pool holds only for what gives way to the queue.
    pub(crate) pool_exempt: bool,
    /// Treatment of a packet that does not fit.
    pub(crate) on_full: OnFull,
    /// Who pauses the queue, a set of [`PausedBy`]; 0: nobody.
    paused: u8,
    /// Whether the queue serves by rank.
    pub(crate) ranked: bool,
    /// Whether the queue records rank, flow or deflection of each packet that joins.
    pub(crate) notes: bool,
    /// Capacity of the queue.
    pub(crate) limit: Limit,
    /// Statistics of the queue.
    pub(crate) recorder: Recorder,
    /// Rank and flow of each packet that waits, if the queue serves by rank.
    ranks: VecDeque<Rank>,
}

/// Who pauses a queue; each is a bit of a set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PausedBy {
    /// The switch or host at the other end of the link, by priority flow control.
    Neighbour = 1,
    /// The program, by advanced flow control.
    Program = 2,
}

/// Key by which a queue that serves by rank chooses a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rank {
    /// The least one is served first.
    pub(crate) rank: u32,
    /// Number of the packet's flow.
    pub(crate) flow: u32,
    /// The packet goes back to the ingress pipeline if it gives way, instead of being dropped.
    pub(crate) deflects: bool,
}

impl<P> Queue<P> {
    /// An empty queue that does not exist yet.
    pub(crate) fn new() -> Self {
        Self {
            items: VecDeque::new(),
            depth: Depth::default(),
            exists: false,
            limit: Limit::default(),
            pooled: false,
            pool_exempt: false,
            on_full: OnFull::TailDrop,
            paused: 0,
            ranked: false,
            notes: false,
            ranks: VecDeque::new(),
            resumed_at: Instant::ZERO,
            recorder: Recorder::default(),
        }
    }

    /// Takes over the settings; with `None` the queue ceases to exist. Packets stay.
    pub(crate) fn configure(&mut self, config: Option<&QueueConfig>) {
        self.exists = config.is_some();
        let default = QueueConfig::default();
        let config = config.unwrap_or(&default);
        self.limit = Limit {
            packets: config.capacity_packets,
            bytes: config.capacity_bytes,
        };
        self.pooled = config.pool;
        self.pool_exempt = config.pool_exempt;
        self.on_full = config.on_full;
        self.ranked = config.rank;
        self.notes = self.ranked || self.on_full == OnFull::DeflectEither;
        // Packets that came before there were ranks go first, as one flow.
        let ranked = if self.ranked { self.items.len() } else { 0 };
        self.ranks.resize(ranked, Rank::default());
    }

    /// Adds a packet at the end.
    pub(crate) fn push(&mut self, now: Instant, item: Item<P>) {
        let before = self.depth;
        let len = item.len();
        self.recorder.enqueued(now, before, len);
        self.depth.add(len);
        self.items.push_back(Item {
            joined: now,
            depth_before: (narrow(before.packets), narrow(before.bytes)),
            ..item
        });
        self.check();
    }

    /// Records rank, flow and deflection of the packet that was added last.
    #[inline(never)]
    pub(crate) fn note(&mut self, arrival: &Arrival) {
        let deflects = self.deflects(arrival);
        if self.ranked {
            self.ranks.push_back(Rank {
                rank: arrival.rank,
                flow: arrival.flow,
                deflects,
            });
        } else if let Some(item) = self.items.back_mut() {
            item.deflects = deflects;
        }
    }

    /// Length of the youngest packet, if it is to be deflected in place of one that arrives at `port`: it may be, and
    /// the coin selects it.
    pub(crate) fn loses_youngest(&self, now: Instant, port: PortId) -> Option<u64> {
        let youngest = self.items.back().filter(|item| item.deflects)?;
        let refused = self.recorder.rarely().deflected.packets;
        heads(now, u64::from(port) << 48 ^ refused).then(|| youngest.len())
    }

    /// Takes out the youngest packet, which is deflected.
    pub(crate) fn deflect_youngest(&mut self, now: Instant) -> Option<Item<P>> {
        let item = self.items.pop_back()?;
        self.removed(now, None, item.len());
        Some(item)
    }

    /// Removes the packet whose turn it is at a time, which is not before the queue is ready: the
    /// oldest one, or with ranks that of the flow that holds the least.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Item<P>> {
        let item = match self.ranked {
            false => self.items.pop_front()?,
            true => self.take(self.next_by_rank(now)?)?,
        };
        if self.items.is_empty() {
            // This moves an empty deque back to the start of its memory, which is in the caches.
            self.items.clear();
        }
        let delay = now.since(item.arrived);
        self.recorder.dequeued(now, self.depth, item.len(), delay);
        self.depth.remove(item.len());
        self.check();
        Some(item)
    }

    /// Length of the packet that [`pop`](Self::pop) would give.
    pub(crate) fn next_len(&self, now: Instant) -> Option<u64> {
        let next = if self.ranked {
            self.next_by_rank(now)?
        } else {
            0
        };
        self.items.get(next).map(Item::len)
    }

    /// Place of the packet that is served by rank, among those that were there at a time: the oldest
    /// one of the flow that holds the least rank.
    fn next_by_rank(&self, at: Instant) -> Option<usize> {
        let ranks = self.ranks.iter().zip(&self.items);
        let there = ranks.take_while(|(_, item)| item.joined <= at);
        // Among equals the oldest one counts.
        let (least, _) = there.min_by_key(|(rank, _)| rank.rank)?;
        self.ranks.iter().position(|rank| rank.flow == least.flow)
    }

    /// Removes the packet at an index, with its rank.
    fn take(&mut self, place: usize) -> Option<Item<P>> {
        self.ranks.remove(place);
        self.items.remove(place)
    }

    /// Packets and bytes of greater rank that wait.
    pub(crate) fn above_rank(&self, rank: u32) -> Depth {
        let ranks = self.ranks.iter().zip(&self.items);
        let above = ranks.filter(|(other, _)| other.rank > rank);
        above.fold(Depth::default(), |mut sum, (_, item)| {
            sum.add(item.len());
            sum
        })
    }

    /// Removes the packet of least priority to make room: the youngest, or with ranks the youngest of
    /// the greatest rank. True: it is to be deflected; false: dropped.
    pub(crate) fn push_out(&mut self, now: Instant) -> Option<(Item<P>, bool)> {
        let (item, deflects) = match self.ranked {
            false => (self.items.pop_back()?, false),
            true => {
                let ranks = self.ranks.iter().enumerate();
                let (last, rank) = ranks.max_by_key(|(_, rank)| rank.rank)?;
                let deflects = rank.deflects;
                (self.take(last)?, deflects)
            }
        };
        let reason = (!deflects).then_some(DropReason::PushedOut);
        self.removed(now, reason, item.len());
        Some((item, deflects))
    }

    /// Drops all packets that wait; the program pauses the queue no more.
    pub(crate) fn clear(&mut self, now: Instant) {
        self.ranks.clear();
        while let Some(item) = self.items.pop_front() {
            self.removed(now, Some(DropReason::Flushed), item.len());
        }
        self.check();
        self.set_paused(now, PausedBy::Program, false);
    }

    /// A packet that waited was dropped for a reason, or deflected.
    fn removed(&mut self, now: Instant, reason: Option<DropReason>, len: u64) {
        self.recorder.removed(now, self.depth, reason, len);
        self.depth.remove(len);
    }

    /// The packets that wait, oldest first.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Item<P>> {
        self.items.iter()
    }

    /// Whether a packet that joins now may leave now, and nothing is recorded of it.
    #[inline]
    pub(crate) fn is_open(&self, now: Instant) -> bool {
        self.paused == 0 && !self.notes && self.resumed_at <= now
    }

    /// Earliest time at which the head may leave; `None` if the queue is empty or paused.
    pub(crate) fn ready_at(&self) -> Option<Instant> {
        let head = self.items.front().filter(|_| self.paused == 0)?;
        Some(head.joined.max(self.resumed_at))
    }

    /// Whether a packet that does not fit, or gives way, goes back to the ingress pipeline.
    pub(crate) fn deflects(&self, arrival: &Arrival) -> bool {
        self.on_full.deflects() && arrival.deflections < MAX_DEFLECTIONS
    }

    /// Pauses the queue, or lets it resume unless somebody else pauses it.
    pub(crate) fn set_paused(&mut self, now: Instant, by: PausedBy, paused: bool) {
        let others = self.paused & !(by as u8);
        let pausing = others | if paused { by as u8 } else { 0 };
        match (self.paused, pausing) {
            (0, 1..) => self.recorder.paused(now),
            (1.., 0) => {
                self.recorder.resumed(now);
                self.resumed_at = now;
            }
            _ => {}
        }
        self.paused = pausing;
    }

    /// Checks in debug builds that no packet was lost or counted twice.
    pub(crate) fn check(&self) {
        debug_assert!(
            self.recorder.balances(self.depth),
            "in = out + dropped + deflected + queued does not hold: {:?}",
            (&self.recorder, self.depth)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_are_those_of_the_limit_that_is_nearest() {
        let depth = |packets, bytes| Depth { packets, bytes };
        let limit = |packets, bytes| Limit { packets, bytes };
        let of = |limit: Limit, depth| limit.quarters(depth);
        assert_eq!(of(limit(None, None), depth(1000, 1_000_000)), 0);
        let shown = [0, 1, 2, 3, 4, 5, 7, 8].map(|n| of(limit(Some(8), None), depth(n, 0)));
        assert_eq!(shown, [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(of(limit(Some(8), Some(1000)), depth(1, 999)), 3);
        assert_eq!(of(limit(Some(8), Some(1000)), depth(4, 100)), 2);
    }
}
