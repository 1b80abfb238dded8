//! Lets the clock of a network run, and collects what its hosts tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ebb_engine::simulation::{Host, NodeId, Simulation, Work};
use ebb_units::{Duration, Instant};
use ebb_workload::Open;

use crate::feed::Feed;
use crate::host::{SimHost, Told, Unfinished};
use crate::lines::Done;
use crate::network::{Built, SimSwitch};

/// A run that is to end with its transfers looks whether they have ended after so many events, more
/// or less; the clock does not stop before that. Events and not real time, so that a run always
/// stops at the same point.
const EVENTS_PER_SLICE: u64 = 100_000;
const FIRST_SLICE: Duration = Duration::from_micros(10);

pub struct Run {
    pub simulation: Simulation<SimHost>,
    hosts: Vec<NodeId>,
    feed: Feed,
    transfers: u64,
    ends_with: Vec<String>,
    ended: Arc<AtomicU64>,
    slice: Duration,
}

impl Run {
    /// Also returns the switches.
    pub fn new(built: Built) -> anyhow::Result<(Self, Vec<SimSwitch>)> {
        let planned = built.planned.iter().map(|(node, _)| *node);
        let counts = built.survey.of_traffic;
        let run = Run {
            simulation: built.simulation,
            hosts: built.hosts,
            feed: Feed::new(built.plan.transfers()?, planned.collect(), counts),
            transfers: built.survey.transfers,
            ends_with: built.ends_with,
            ended: built.ended,
            slice: FIRST_SLICE,
        };
        Ok((run, built.switches))
    }

    /// Runs to the next look, `until` at the latest. `progress` is told now and then what has been
    /// done, and says whether to stop.
    pub fn advance(
        &mut self,
        until: Instant,
        mut progress: impl FnMut(Instant, Done) -> bool + Send,
    ) {
        let (begin, before) = (self.simulation.now(), self.simulation.work().events);
        let end = (begin + self.slice).min(until);
        self.feed.advance(&mut self.simulation, end);
        let (ended, transfers) = (&self.ended, self.transfers);
        self.simulation
            .run_until(end, |at, work| progress(at, done(work, ended, transfers)));
        let events = self.simulation.work().events - before;
        if events < EVENTS_PER_SLICE / 2 && end.since(begin) == self.slice {
            self.slice = self.slice * 2;
        } else if events > EVENTS_PER_SLICE * 2 {
            self.slice = self.slice.mul_div(1, 2).max(FIRST_SLICE);
        }
    }

    /// What has been done so far.
    pub fn done(&self) -> Done {
        done(self.simulation.work(), &self.ended, self.transfers)
    }

    /// All transfers that the run is to end with have ended, at all hosts that send.
    pub fn is_over(&mut self) -> bool {
        let of = &*self.ends_with;
        let mut hosts = self.simulation.hosts();
        self.feed.is_empty(of) && hosts.all(|(_, host)| host.unfinished(of) == 0)
    }

    /// Gives what has ended since the last time to `tell`, with the host that says so.
    pub fn tell<E>(&mut self, mut tell: impl FnMut(&str, Told) -> Result<(), E>) -> Result<(), E> {
        for id in &self.hosts {
            let told = self.simulation.with_host(*id, SimHost::take_told);
            if let Some(host) = self.simulation.host(*id) {
                for told in told.unwrap_or_default() {
                    tell(host.name(), told)?;
                }
            }
        }
        Ok(())
    }

    /// Objects that have begun to come and are not complete, with the host they come to.
    pub fn incomplete(&mut self) -> impl Iterator<Item = (&str, Unfinished<'_>)> {
        let now = self.simulation.now();
        for id in &self.hosts {
            self.simulation.with_host(*id, |host| host.sample(now));
        }
        let hosts = self.simulation.hosts();
        hosts.flat_map(|(_, host)| host.incomplete().map(|open| (host.name(), open)))
    }

    /// Transfers that have been told to the hosts that start them and have not ended, with what is
    /// to be said of them.
    pub fn rest(&self) -> impl Iterator<Item = (&str, &Open, &'static str)> {
        let hosts = self.simulation.hosts();
        hosts.flat_map(|(_, host)| {
            let (open, not_started) = host.rest();
            let open = open.map(|open| (open, "unfinished"));
            let all = open.chain(not_started.map(|open| (open, "not-started")));
            all.map(|(open, status)| (host.name(), open, status))
        })
    }
}

fn done(work: Work, ended: &AtomicU64, transfers: u64) -> Done {
    let ended = ended.load(Ordering::Relaxed);
    Done {
        packet_hops: work.packet_hops,
        events: work.events,
        ended,
        unfinished: transfers.saturating_sub(ended),
    }
}
