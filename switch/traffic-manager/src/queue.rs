//! One queue: a FIFO with a capacity, which keeps its own statistics.

use std::collections::VecDeque;

use ebb_units::Instant;
use serde::{Deserialize, Serialize};

use crate::config::{DepthUnit, OnFull, QueueConfig};
use crate::statistics::Recorder;

/// How much waits, in packets and in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Depth {
    /// Number of packets.
    pub packets: u64,
    /// Sum of their lengths.
    pub bytes: u64,
}

impl Depth {
    /// The depth in the unit in which P4 sees it.
    pub fn in_unit(self, unit: DepthUnit) -> u64 {
        match unit {
            DepthUnit::Packets => self.packets,
            DepthUnit::Bytes => self.bytes,
        }
    }

    /// A packet of `len` bytes has joined.
    pub(crate) fn add(&mut self, len: u64) {
        self.packets += 1;
        self.bytes += len;
    }

    /// A packet of `len` bytes has left.
    pub(crate) fn remove(&mut self, len: u64) {
        self.packets -= 1;
        self.bytes -= len;
    }
}

/// The most that may wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limit {
    /// Most packets; `None` means no limit.
    pub(crate) packets: Option<u64>,
    /// Most bytes; `None` means no limit.
    pub(crate) bytes: Option<u64>,
}

impl Limit {
    /// Whether a packet of `len` bytes fits beside what waits.
    pub(crate) fn admits(&self, depth: Depth, len: u64) -> bool {
        self.packets.is_none_or(|limit| depth.packets < limit)
            && self.bytes.is_none_or(|limit| depth.bytes + len <= limit)
    }
}

/// A packet that waits.
#[derive(Debug)]
pub(crate) struct Item<P> {
    /// The packet itself.
    pub(crate) packet: P,
    /// Its length in bytes.
    pub(crate) len: u64,
    /// When it was queued.
    pub(crate) enqueued_at: Instant,
    /// Depth of the queue that the packet found.
    pub(crate) depth_before: Depth,
}

/// A queue. Every packet touches the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Queue<P> {
    /// The packets that wait, oldest first.
    items: VecDeque<Item<P>>,
    /// How much waits.
    pub(crate) depth: Depth,
    /// When the last pause ended; no packet counts as ready before.
    pub(crate) resumed_at: Instant,
    /// Whether the profile lists the queue.
    pub(crate) exists: bool,
    /// Whether the queue also counts against the port's shared pool.
    pub(crate) pooled: bool,
    /// What happens to a packet that does not fit.
    pub(crate) on_full: OnFull,
    /// Whether the queue is paused.
    pub(crate) paused: bool,
    /// Capacity of the queue.
    pub(crate) limit: Limit,
    /// Statistics of the queue.
    pub(crate) recorder: Recorder,
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
            on_full: OnFull::TailDrop,
            paused: false,
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
        self.on_full = config.on_full;
    }

    /// Adds a packet of `len` bytes at the end.
    pub(crate) fn push(&mut self, now: Instant, packet: P, len: u64) {
        let depth_before = self.depth;
        self.recorder.enqueued(now, depth_before, len);
        self.depth.add(len);
        self.items.push_back(Item {
            packet,
            len,
            enqueued_at: now,
            depth_before,
        });
        self.check();
    }

    /// Removes the oldest packet.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Item<P>> {
        let item = self.items.pop_front()?;
        if self.items.is_empty() {
            // This moves an empty deque back to the start of its memory, which is in the caches.
            self.items.clear();
        }
        let delay = now.since(item.enqueued_at);
        self.recorder.dequeued(now, self.depth, item.len, delay);
        self.depth.remove(item.len);
        self.check();
        Some(item)
    }

    /// Drops all packets that wait.
    pub(crate) fn clear(&mut self, now: Instant) {
        while let Some(item) = self.items.pop_front() {
            self.recorder.removed(now, self.depth, item.len);
            self.depth.remove(item.len);
        }
        self.check();
    }

    /// The packets that wait, oldest first.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Item<P>> {
        self.items.iter()
    }

    /// From when on the head may leave; `None` if the queue is empty or paused.
    pub(crate) fn ready_at(&self) -> Option<Instant> {
        let head = self.items.front().filter(|_| !self.paused)?;
        Some(head.enqueued_at.max(self.resumed_at))
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
