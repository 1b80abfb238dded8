//! Depths of chosen queues at regular instants.

use ebb_traffic_manager::Depth;
use ebb_units::{Duration, Instant};

use super::NodeId;
use crate::switch::{PortId, Switch};

/// How much waited in a queue at an instant, before what happened at that instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSample {
    pub at: Instant,
    pub switch: NodeId,
    pub port: PortId,
    pub queue: u8,
    pub depth: Depth,
}

/// Samples the queues of one switch.
#[derive(Debug)]
pub(super) struct Sampler {
    switch: NodeId,
    queues: Vec<(PortId, u8)>,
    next: Instant,
    every: Duration,
    samples: Vec<QueueSample>,
}

impl Sampler {
    /// The first sample is at `first`.
    pub fn new(switch: NodeId, queues: Vec<(PortId, u8)>, first: Instant, every: Duration) -> Self {
        Self {
            switch,
            queues,
            next: first,
            every: every.max(Duration::from_picos(1)),
            samples: Vec::new(),
        }
    }

    /// Takes all samples until `now`, before which all that happened has happened.
    pub fn advance(&mut self, now: Instant, switch: &Switch) {
        while self.next <= now {
            for (port, queue) in &self.queues {
                self.samples.push(QueueSample {
                    at: self.next,
                    switch: self.switch,
                    port: *port,
                    queue: *queue,
                    depth: switch.queue_depth(*port, *queue),
                });
            }
            self.next += self.every;
        }
    }

    pub fn take(&mut self) -> Vec<QueueSample> {
        std::mem::take(&mut self.samples)
    }
}
