//! One queue: a FIFO with a capacity.

use std::collections::VecDeque;

use ebb_units::Instant;
use serde::{Deserialize, Serialize};

use crate::config::{DepthUnit, OnFull, QueueConfig};
use crate::statistics::Recorder;

/// How much is waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Depth {
    pub packets: u64,
    pub bytes: u64,
}

impl Depth {
    pub fn in_unit(self, unit: DepthUnit) -> u64 {
        match unit {
            DepthUnit::Packets => self.packets,
            DepthUnit::Bytes => self.bytes,
        }
    }

    pub(crate) fn add(&mut self, len: u64) {
        self.packets += 1;
        self.bytes += len;
    }

    pub(crate) fn remove(&mut self, len: u64) {
        self.packets -= 1;
        self.bytes -= len;
    }
}

/// The most that may wait; `None` is no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limit {
    pub(crate) packets: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

impl Limit {
    pub(crate) fn admits(&self, depth: Depth, len: u64) -> bool {
        self.packets.is_none_or(|limit| depth.packets < limit)
            && self.bytes.is_none_or(|limit| depth.bytes + len <= limit)
    }
}

#[derive(Debug)]
pub(crate) struct Item<P> {
    pub(crate) packet: P,
    pub(crate) len: u64,
    pub(crate) enqueued_at: Instant,
    /// What the packet found in its queue.
    pub(crate) depth_before: Depth,
}

/// The first cache line is what every packet touches.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Queue<P> {
    items: VecDeque<Item<P>>,
    pub(crate) depth: Depth,
    /// The end of the last pause: nothing leaves earlier.
    pub(crate) resumed_at: Instant,
    /// False if the profile does not list the queue.
    pub(crate) exists: bool,
    pub(crate) pooled: bool,
    pub(crate) on_full: OnFull,
    pub(crate) paused: bool,
    pub(crate) limit: Limit,
    pub(crate) recorder: Recorder,
}

impl<P> Queue<P> {
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

    /// Takes over the settings; `None` takes the queue out of existence. Packets stay.
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

    pub(crate) fn pop(&mut self, now: Instant) -> Option<Item<P>> {
        let item = self.items.pop_front()?;
        if self.items.is_empty() {
            // From the start of its memory again, which is in the caches.
            self.items.clear();
        }
        let delay = now.since(item.enqueued_at);
        self.recorder.dequeued(now, self.depth, item.len, delay);
        self.depth.remove(item.len);
        self.check();
        Some(item)
    }

    /// Throws away what waits.
    pub(crate) fn clear(&mut self, now: Instant) {
        while let Some(item) = self.items.pop_front() {
            self.recorder.removed(now, self.depth, item.len);
            self.depth.remove(item.len);
        }
        self.check();
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = &Item<P>> {
        self.items.iter()
    }

    /// Since when the head could have left, or `None` if nothing may.
    pub(crate) fn ready_at(&self) -> Option<Instant> {
        let head = self.items.front().filter(|_| !self.paused)?;
        Some(head.enqueued_at.max(self.resumed_at))
    }

    pub(crate) fn check(&self) {
        debug_assert!(
            self.recorder.balances(self.depth),
            "in = out + dropped + deflected + queued does not hold: {:?}",
            (&self.recorder, self.depth)
        );
    }
}
