//! Depths of queues over time: one line per instant.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use ebb_engine::simulation::{NodeId, Simulation};
use ebb_units::{Duration, Instant};

use crate::build::SimSwitch;
use crate::lines::{Line, QueueName, SampleOrder, append_line};
use crate::node::Node;

/// After how many instants samples are written.
const INSTANTS_AT_A_TIME: u64 = 1000;

/// The queues that an order asks for, ordered by switch.
pub struct Sampling {
    /// Time between two samples.
    every: Duration,
    /// The queues, with their switches.
    queues: Vec<(NodeId, QueueName)>,
}

impl Sampling {
    /// Starts to sample what an order asks for, and ends the samples of `before`. Returns `None` if
    /// the order names no queues.
    pub fn start(
        order: SampleOrder,
        switches: &[SimSwitch],
        simulation: &mut Simulation<Node>,
        before: Option<Sampling>,
    ) -> Result<Option<Self>> {
        for (switch, _) in before.into_iter().flat_map(|before| before.queues) {
            simulation.sample_queues(switch, &[], Duration::MAX);
        }
        if order.queues.is_empty() {
            return Ok(None);
        }
        ensure!(order.every_ns > 0, "sample: every_ns is 0");
        let every = Duration::from_nanos(order.every_ns);
        let mut queues = Vec::new();
        for name in order.queues {
            let found = switches
                .iter()
                .find(|s| simulation.name(s.node) == name.switch);
            let switch = found.with_context(|| {
                format!("sample: there is no switch {}", name.switch.escape_debug())
            })?;
            queues.push((switch.node, name));
        }
        queues.sort_by_key(|(switch, _)| *switch);
        for of_switch in queues.chunk_by(|(a, _), (b, _)| a == b) {
            let ports: Vec<_> = of_switch.iter().map(|(_, q)| (q.port, q.queue)).collect();
            simulation.sample_queues(of_switch[0].0, &ports, every);
        }
        Ok(Some(Sampling { every, queues }))
    }

    /// Writes the line that says which queues the samples are of.
    pub fn begin(&self, out: &mut impl Write) -> Result<()> {
        let queues = self.queues.iter().map(|(_, name)| name).collect();
        let line = Line::Sampling {
            every_ns: self.every.as_nanos(),
            queues,
        };
        append_line(out, &line)
    }

    /// How far the clock may run before samples must be written.
    pub fn horizon(&self, now: Instant) -> Instant {
        now + self.every * INSTANTS_AT_A_TIME
    }

    /// Writes the samples since the last call.
    /// `skipped`: time that has been skipped before.
    pub fn write(
        &self,
        simulation: &mut Simulation<Node>,
        skipped: Duration,
        out: &mut impl Write,
    ) -> Result<()> {
        let samples = simulation.take_queue_samples();
        for instant in samples.chunk_by(|a, b| a.at == b.at) {
            let line = Line::Sample {
                at_ns: (instant[0].at + skipped).as_nanos(),
                packets: instant.iter().map(|sample| sample.depth.packets).collect(),
                bytes: instant.iter().map(|sample| sample.depth.bytes).collect(),
            };
            append_line(out, &line)?;
        }
        Ok(())
    }
}
