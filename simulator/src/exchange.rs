//! Frames between external hosts and the program outside that plays them.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ebb_engine::simulation::{NodeId, Simulation};
use ebb_units::{Duration, Instant};

use crate::lines::{Line, TimedFrame, append_line};
use crate::node::Node;

/// The external hosts of a network.
pub struct Exchange {
    /// Nodes, by name.
    hosts: BTreeMap<String, NodeId>,
    /// A program is given what has arrived at multiples of this.
    reaction: Duration,
}

impl Exchange {
    /// Refused where hosts would answer in no time: the clock could never advance.
    pub fn new(hosts: BTreeMap<String, NodeId>, reaction_ns: u64) -> Result<Self> {
        ensure!(
            reaction_ns > 0,
            "reaction_ns is 0; external hosts react after 1 ns at the earliest"
        );
        Ok(Exchange {
            hosts,
            reaction: Duration::from_nanos(reaction_ns),
        })
    }

    /// Has a host send frames.
    pub fn send(
        &self,
        simulation: &mut Simulation<Node>,
        host: &str,
        frames: Vec<TimedFrame>,
    ) -> Result<()> {
        let id = self.hosts.get(host);
        let id = id.with_context(|| format!("send: {host} is no external host"))?;
        let now = simulation.now();
        let decoded = frames.into_iter().map(|timed| {
            let frame = STANDARD.decode(timed.frame);
            let frame = frame.with_context(|| format!("send: a frame of {host}"))?;
            Ok((Instant::from_nanos(timed.at_ns), frame))
        });
        let decoded: Vec<_> = decoded.collect::<Result<_>>()?;
        let send = |node: &mut Node| {
            let host = node.external_mut().context("no external host")?;
            decoded
                .into_iter()
                .try_for_each(|(at, frame)| host.send(now, at, frame))
        };
        simulation.with_host(*id, send).context("no host")?
    }

    /// The first time after `now` at which a program is given what has arrived, if nothing happens before `next`;
    /// `None`: nothing will arrive any more.
    pub fn next_turn(&self, now: Instant, next: Option<Instant>) -> Option<Instant> {
        let from = next?.max(now).since(Instant::ZERO).as_picos();
        let turns = from / self.reaction.as_picos() + 1;
        Some(Instant::ZERO + self.reaction * turns)
    }

    /// Whether a program is given what has arrived at this time.
    pub fn is_turn(&self, now: Instant) -> bool {
        let now = now.since(Instant::ZERO).as_picos();
        now.is_multiple_of(self.reaction.as_picos())
    }

    /// Whether frames have arrived that have not been written.
    pub fn has_arrivals(&self, simulation: &Simulation<Node>) -> bool {
        let mut hosts = self.hosts.values();
        hosts.any(|id| {
            let host = simulation.host(*id).and_then(Node::external);
            host.is_some_and(|host| host.has_arrivals())
        })
    }

    /// Writes what has arrived since the last call, by time, at equal times by name of the host.
    pub fn write(&self, simulation: &mut Simulation<Node>, out: &mut impl Write) -> Result<()> {
        let mut arrived = Vec::new();
        for (name, id) in &self.hosts {
            let take = |node: &mut Node| node.external_mut().map(|host| host.take_arrivals());
            let frames = simulation.with_host(*id, take).flatten();
            let frames = frames.into_iter().flatten();
            arrived.extend(frames.map(|(at, frame)| (at, name, frame)));
        }
        arrived.sort_by_key(|(at, _, _)| *at);
        for (at, host, frame) in arrived {
            let frame = TimedFrame {
                at_ns: at.as_nanos(),
                frame: STANDARD.encode(frame),
            };
            append_line(out, &Line::Frame { host, frame })?;
        }
        Ok(())
    }
}
