//! Jumps: whether one is possible, and what it does.

use ebb_engine::simulation::Simulation;
use ebb_units::{Duration, Instant};

use super::notices::{Course, HostNotice, Shift, Skipping};
use super::steadiness::{Lane, Steady, judge};
use crate::feed::Feed;
use crate::host::Notice;
use crate::node::Node;

/// Rounds at the end, and before anything from outside, that are always simulated.
const KEPT: usize = 2;
/// The fewest rounds that are worth a jump.
const FEWEST: usize = 2;
/// In how many rounds at most transfers can be under way at the same time.
const UNDER_WAY: usize = 8;

/// The network, and what is yet to come from outside.
pub struct World<'a> {
    /// The network.
    pub simulation: &'a mut Simulation<Node>,
    /// Transfers that have not been given to hosts yet.
    pub feed: &'a mut Feed,
    /// When the clock stops, in its own time.
    pub until: Instant,
}

/// A jump that is possible.
struct Jump {
    rounds: usize,
    period: Duration,
}

impl Skipping {
    /// Skips as many rounds as certainly repeat the last ones. Adds the notices of their transfers to `out`.
    pub fn jump(&mut self, mut world: World<'_>, out: &mut Vec<HostNotice>) {
        for (name, part) in &mut self.parts {
            let Some(course) = &mut part.course else {
                continue;
            };
            if !course.is_due() {
                continue;
            }
            let taken_off = part.skips.rounds as usize;
            let jump = match course.plan(name, taken_off, &mut world) {
                Ok(jump) => jump,
                Err(refusal) => {
                    part.skips.refused = Some(refusal);
                    continue;
                }
            };
            for round in 1..=jump.rounds {
                let shift = Shift {
                    names: &self.names,
                    rounds: taken_off + round,
                    time: self.skipped + jump.period * round as u64,
                };
                course.report_skipped(&shift, out);
            }
            part.skips.bytes += course.take_off(taken_off, jump.rounds, &mut world);
            let time = jump.period * jump.rounds as u64;
            part.skips.jumps += 1;
            part.skips.rounds += jump.rounds as u64;
            part.skips.transfers += (jump.rounds * course.rounds.lanes()) as u64;
            part.skips.time += time;
            part.skips.refused = None;
            self.skipped += time;
            world.feed.come_nearer(time);
            // Another jump takes new evidence.
            course.due = course.compared + KEPT + FEWEST;
            return;
        }
    }
}

impl Course {
    /// Whether rounds have ended in all lanes since they were last compared.
    fn is_due(&mut self) -> bool {
        let complete = self.complete();
        let due = complete > self.compared && complete >= self.due;
        if due {
            self.compared = complete;
        }
        due
    }

    /// How far a jump can go now; or why there can be none. `taken_off`: rounds that have been removed already.
    fn plan(&self, name: &str, taken_off: usize, world: &mut World<'_>) -> Result<Jump, String> {
        if self.failed {
            return Err("a transfer has failed".into());
        }
        let lanes = self.lanes.iter().zip(0..).map(|(lane, number)| Lane {
            ended: &lane.ended,
            cause: self.rounds.cause(number).unwrap_or(number),
        });
        let lanes: Vec<_> = lanes.collect();
        let steady = judge(&lanes, self.rounds.count()).map_err(|why| why.to_string())?;
        let Steady {
            period_ns,
            reach,
            exact,
        } = steady;
        let period = Duration::from_nanos(period_ns as u64);
        let end = self.rounds.count() - taken_off;
        let first_waiting = self.first_waiting(end, world);
        let first_waiting = first_waiting.ok_or("more than 8 rounds are under way")?;
        let left = end.saturating_sub(first_waiting + KEPT);
        if left < FEWEST {
            return Err("the last rounds are simulated".into());
        }
        let nodes = || {
            world
                .simulation
                .hosts()
                .flat_map(|(_, node)| node.members())
        };
        if let Some(other) = nodes()
            .flat_map(|host| host.rest())
            .find(|open| *open.transfer.traffic != *name)
        {
            let other = &other.transfer.traffic;
            return Err(format!("transfers of {other} are under way"));
        }
        let links = world.simulation.link_states();
        if links
            .iter()
            .any(|link| link.state.loss > 0.0 || link.state.corrupt > 0.0)
        {
            return Err("a link loses or corrupts frames at random".into());
        }
        let horizon = world
            .feed
            .next_start()
            .map_or(world.until, |start| start.min(world.until));
        let until_then =
            horizon.since(world.simulation.now()).as_picos() / period.as_picos().max(1);
        let until_then = usize::try_from(until_then)
            .unwrap_or(usize::MAX)
            .saturating_sub(KEPT);
        if until_then < FEWEST {
            return Err("something is due from outside: a transfer, an event, or the end".into());
        }
        let rounds = left.min(reach).min(until_then);
        // It matters at what point of a round the other meets it.
        if until_then < left && exact < rounds {
            return Err("something is due, and when it meets a round cannot be said".into());
        }
        match rounds >= FEWEST {
            true => Ok(Jump { rounds, period }),
            false => Err("rounds become longer or shorter".into()),
        }
    }

    /// The first round of which no transfer has begun, of those before `end`. None: it is none of the next ones.
    fn first_waiting(&self, end: usize, world: &World<'_>) -> Option<usize> {
        let ended = self.lanes.iter().map(|lane| lane.ended.len()).max()?;
        let waits = |round: &usize| {
            self.rounds.round(*round).all(|transfer| {
                let place = world.feed.place(transfer.initiator());
                let host = place.host(world.simulation);
                host.is_some_and(|host| host.is_waiting(transfer.id))
            })
        };
        (ended..=end)
            .take(UNDER_WAY)
            .find(|round| *round == end || waits(round))
    }

    /// Adds the notices of a skipped round: those of the last one, shifted.
    fn report_skipped(&self, shift: &Shift<'_>, out: &mut Vec<HostNotice>) {
        for (host, ended) in self.lanes.iter().flat_map(|lane| &lane.last) {
            let mut ended = Box::new(ended.clone());
            ended.skipped = true;
            out.push((
                host.clone(),
                shift.notice(&self.rounds, Notice::Flow(ended)),
            ));
        }
    }

    /// Removes the last rounds from the schedules of the hosts. Returns the bytes of their content.
    fn take_off(&self, taken_off: usize, rounds: usize, world: &mut World<'_>) -> u64 {
        let end = self.rounds.count() - taken_off;
        let mut bytes = 0;
        // The last ones first: each waits for one before it.
        for transfer in (end - rounds..end)
            .rev()
            .flat_map(|round| self.rounds.round(round))
        {
            bytes += transfer.bytes;
            for host in transfer.sources.iter().chain(&transfer.destinations) {
                let place = world.feed.place(*host);
                place.with_host(world.simulation, |host| host.take_off(transfer.id));
            }
        }
        bytes
    }
}
