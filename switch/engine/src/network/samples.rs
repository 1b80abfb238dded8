//! Samples of the depths of chosen queues, at regular instants.

use ebb_traffic_manager::Depth;
use ebb_units::{Duration, Instant};

use super::NodeId;
use crate::switch::{PortId, Switch};

/// How much waited in a queue at an instant, before anything happened at that instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSample {
    /// The instant.
    pub at: Instant,
    /// The switch.
    pub switch: NodeId,
    /// Its port.
    pub port: PortId,
    /// The queue of the port, 0 to 31.
    pub queue: u8,
    /// How much waited there.
    pub depth: Depth,
}

/// Samples chosen queues of one switch.
#[derive(Debug)]
pub(super) struct Sampler {
    /// The switch.
    switch: NodeId,
    /// The queues, as port and queue id.
    queues: Vec<(PortId, u8)>,
    /// When the next sample is due.
    next: Instant,
    /// Time between two samples; not zero.
    every: Duration,
    /// Samples that nobody has taken yet.
    samples: Vec<QueueSample>,
}

impl Sampler {
    /// A sampler whose first sample is due at `first`.
    pub fn new(switch: NodeId, queues: Vec<(PortId, u8)>, first: Instant, every: Duration) -> Self {
        Self {
            switch,
            queues,
            next: first,
            every: every.max(Duration::from_picos(1)),
            samples: Vec::new(),
        }
    }

    /// Takes all samples that are due up to `now`. Everything before `now` must have happened.
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

    /// The samples since the last call.
    pub fn take(&mut self) -> Vec<QueueSample> {
        std::mem::take(&mut self.samples)
    }
}
