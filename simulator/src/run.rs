//! Lets the clock of a network run, and collects the notices of its transfers.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ebb_engine::simulation::{Host, NodeId, Simulation, Work};
use ebb_transport::nic::NicStatistics;
use ebb_units::{Duration, Instant};
use ebb_workload::Open;

use crate::build::{Built, SimSwitch};
use crate::feed::Feed;
use crate::host::{Notice, SimHost, Unfinished};
use crate::lines::Done;
use crate::machine::Machine;
use crate::node::Node;
use crate::skipping::{HostNotice, Skipping, Skips, World};

/// About how many events happen between two checks whether all transfers of a run have ended; the
/// clock stops only at such checks. Events are counted, not real time, so that a run always stops
/// at the same point.
const EVENTS_PER_SLICE: u64 = 100_000;
/// The same for each host where rounds are compared at each check, and the least for all.
const EVENTS_TO_COMPARE: (u64, u64) = (1_000, 10_000);
/// Length of the first stretch; later ones follow from the number of events.
const FIRST_SLICE: Duration = Duration::from_micros(10);

/// A simulation that is run in stretches.
pub struct Run {
    /// The network.
    pub simulation: Simulation<Node>,
    /// Its hosts, in the order of the file.
    hosts: Vec<NodeId>,
    /// Transfers that the hosts have not been given yet.
    feed: Feed,
    /// How many transfers the run has.
    transfers: u64,
    /// Parts of the workload with which the run ends; empty means all.
    ends_with: Vec<String>,
    /// Counts the transfers that have ended.
    ended: Arc<AtomicU64>,
    /// Length of the next stretch.
    slice: Duration,
    /// About how many events it is to have.
    events_per_slice: u64,
    /// Until when the clock was last to run, with what has been skipped.
    until: Instant,
    /// Skips rounds. None: none are to be.
    skipping: Option<Skipping>,
}

impl Run {
    /// A run from the beginning, and the switches of the network.
    pub fn new(built: Built) -> anyhow::Result<(Self, Vec<SimSwitch>)> {
        let planned = built.planned.iter().map(|(place, _)| *place);
        let counts = built.survey.of_traffic;
        let skipping = match built.skip {
            true => Some(Skipping::new(built.plan.transfers()?, built.plan.names())),
            false => None,
        };
        let events_per_slice = match built.skip {
            true => {
                let (of_host, least) = EVENTS_TO_COMPARE;
                (of_host * built.hosts.len() as u64).clamp(least, EVENTS_PER_SLICE)
            }
            false => EVENTS_PER_SLICE,
        };
        let run = Run {
            simulation: built.simulation,
            hosts: built.hosts,
            feed: Feed::new(built.plan.transfers()?, planned.collect(), counts),
            transfers: built.survey.transfers,
            ends_with: built.ends_with,
            ended: built.ended,
            slice: FIRST_SLICE,
            events_per_slice,
            until: Instant::ZERO,
            skipping,
        };
        Ok((run, built.switches))
    }

    /// The time that it is, with what has been skipped.
    pub fn now(&self) -> Instant {
        self.simulation.now() + self.skipped()
    }

    /// Time that has been skipped.
    pub fn skipped(&self) -> Duration {
        let skipping = self.skipping.as_ref();
        skipping.map_or(Duration::ZERO, Skipping::skipped)
    }

    /// Rounds that have been skipped, by part of the workload; empty if none are to be.
    pub fn skips(&self) -> impl Iterator<Item = (&str, &Skips)> {
        self.skipping.iter().flat_map(Skipping::skips)
    }

    /// When the next event happens at the earliest; `None` if none is pending.
    pub fn next_event(&mut self) -> Option<Instant> {
        Instant::earliest([self.simulation.next_event(), self.feed.next_start()])
    }

    /// Runs for one stretch, at most until `until`. `progress` gets now and then what has been
    /// done; if it returns true the run stops.
    pub fn advance(
        &mut self,
        until: Instant,
        mut progress: impl FnMut(Instant, Done) -> bool + Send,
    ) {
        self.until = until;
        let skipped = self.skipped();
        let (begin, before) = (self.simulation.now(), self.simulation.work().events);
        let end = (begin + self.slice).min(own(until, skipped));
        self.feed.advance(&mut self.simulation, end);
        let (ended, transfers) = (&self.ended, self.transfers);
        self.simulation.run_until(end, |at, work| {
            progress(at + skipped, done(work, ended, transfers, skipped))
        });
        let events = self.simulation.work().events - before;
        if events < self.events_per_slice / 2 && end.since(begin) == self.slice {
            self.slice = self.slice * 2;
        } else if events > self.events_per_slice * 2 {
            self.slice = self.slice.mul_div(1, 2).max(FIRST_SLICE);
        }
    }

    /// Progress of the run.
    pub fn done(&self) -> Done {
        let (work, skipped) = (self.simulation.work(), self.skipped());
        done(work, &self.ended, self.transfers, skipped)
    }

    /// Whether all transfers with which the run ends have ended, at all hosts that send.
    pub fn is_over(&mut self) -> bool {
        let of = &*self.ends_with;
        let mut hosts = members(&self.simulation);
        self.feed.is_empty(of) && hosts.all(|host| host.unfinished(of) == 0)
    }

    /// Passes the notices since the last call to `report`, each with the name of its host.
    pub fn report<E>(
        &mut self,
        mut report: impl FnMut(&str, Notice) -> Result<(), E>,
    ) -> Result<(), E> {
        self.pass_failures_on();
        if self.skipping.is_some() {
            return self
                .skip()
                .into_iter()
                .try_for_each(|(host, notice)| report(&host, notice));
        }
        self.report_all(report)
    }

    /// Notices that are held back until others of the same transfer come.
    pub fn take_held(&mut self) -> Vec<HostNotice> {
        let skipping = self.skipping.as_mut();
        skipping.map(Skipping::take_held).unwrap_or_default()
    }

    /// Takes the notices since the last call, and skips what it can. Returns the notices to report.
    fn skip(&mut self) -> Vec<HostNotice> {
        let (mut notices, mut out) = (Vec::new(), Vec::new());
        let _ = self.report_all(|host, notice| {
            notices.push((host.to_owned(), notice));
            Ok::<(), std::convert::Infallible>(())
        });
        if let Some(skipping) = &mut self.skipping {
            for notice in notices {
                skipping.take(notice, &mut out);
            }
            let world = World {
                until: own(self.until, skipping.skipped()),
                simulation: &mut self.simulation,
                feed: &mut self.feed,
            };
            skipping.jump(world, &mut out);
        }
        out
    }

    /// Passes the notices of all hosts to `report`, in the simulation's own time.
    fn report_all<E>(
        &mut self,
        mut report: impl FnMut(&str, Notice) -> Result<(), E>,
    ) -> Result<(), E> {
        for id in &self.hosts {
            let all = |node: &mut Node| -> Vec<_> {
                let members = node.members_mut().iter_mut();
                members.map(SimHost::take_notices).collect()
            };
            let notices = self.simulation.with_host(*id, all);
            if let Some(node) = self.simulation.host(*id) {
                for (host, notices) in node.members().iter().zip(notices.unwrap_or_default()) {
                    for notice in notices {
                        report(host.name(), notice)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Objects that have arrived in part, with the names of the hosts they go to.
    pub fn incomplete(&mut self) -> impl Iterator<Item = (&str, Unfinished<'_>)> {
        let now = self.simulation.now();
        for id in &self.hosts {
            let all = |node: &mut Node| {
                for host in node.members_mut() {
                    host.sample(now);
                }
            };
            self.simulation.with_host(*id, all);
        }
        let (hosts, skipping) = (members(&self.simulation), self.skipping.as_ref());
        hosts.flat_map(move |host| {
            let open = host.incomplete().map(move |flow| Unfinished {
                open: shown(skipping, flow.open),
                ..flow
            });
            open.map(|open| (host.name(), open))
        })
    }

    /// Statistics of the NICs of hosts that obey PFC, with the names of the hosts.
    pub fn nics(&mut self) -> Vec<(String, NicStatistics)> {
        let now = self.simulation.now();
        let nics = self.hosts.iter().filter_map(|id| {
            let pass_on = |node: &mut Node| {
                let Node::Host(host) = node else {
                    return None;
                };
                let statistics = host.nic_statistics(now)?;
                Some((host.name().to_owned(), statistics))
            };
            self.simulation.with_host(*id, pass_on)?
        });
        nics.collect()
    }

    /// Transfers that have been given to the hosts that start them and have not ended, with the names of the hosts.
    pub fn rest(&self) -> impl Iterator<Item = (&str, Cow<'_, Open>)> {
        let (hosts, skipping) = (members(&self.simulation), self.skipping.as_ref());
        hosts.flat_map(move |host| {
            let rest = host.rest();
            rest.map(move |open| (host.name(), shown(skipping, Cow::Borrowed(open))))
        })
    }

    /// The hosts with VMs.
    pub fn machines(&self) -> impl Iterator<Item = &Machine> {
        self.simulation
            .hosts()
            .filter_map(|(_, node)| node.machine())
    }

    /// Tells hosts of transfers to them that failed before they came, or will never start, so that none waits for them
    /// until the end of the run.
    fn pass_failures_on(&mut self) {
        let now = self.simulation.now();
        loop {
            let mut failed = Vec::new();
            for id in &self.hosts {
                self.simulation.with_host(*id, |node| {
                    let members = node.members_mut().iter_mut();
                    failed.extend(members.flat_map(SimHost::take_failed));
                });
            }
            if failed.is_empty() {
                return;
            }
            for transfer in failed {
                for host in &transfer.destinations {
                    let fail = |host: &mut SimHost| host.handle_failed_elsewhere(now, transfer.id);
                    self.feed.place(*host).with_host(&mut self.simulation, fail);
                }
            }
        }
    }
}

/// All hosts, of machines their VMs.
fn members(simulation: &Simulation<Node>) -> impl Iterator<Item = &SimHost> {
    simulation.hosts().flat_map(|(_, node)| node.members())
}

/// A transfer as it is reported.
fn shown<'a>(skipping: Option<&Skipping>, open: Cow<'a, Open>) -> Cow<'a, Open> {
    match skipping {
        Some(skipping) => Cow::Owned(skipping.shown(&open)),
        None => open,
    }
}

/// A time of a run that has skipped `skipped`, in the simulation's own time.
fn own(reported: Instant, skipped: Duration) -> Instant {
    Instant::ZERO + reported.since(Instant::ZERO + skipped)
}

/// The counts of a run as a line shows them.
fn done(work: Work, ended: &AtomicU64, transfers: u64, skipped: Duration) -> Done {
    let ended = ended.load(Ordering::Relaxed);
    Done {
        packet_hops: work.packet_hops,
        events: work.events,
        ended,
        unfinished: transfers.saturating_sub(ended),
        skipped_ns: skipped.as_nanos(),
    }
}
