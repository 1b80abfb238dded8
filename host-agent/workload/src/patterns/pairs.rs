//! Transfers from one host to another: to random ones, around a ring, between all.

use super::job::{Draft, JobDraws, JobPattern};
use super::scope::Scope;
use crate::draws::Draws;
use crate::error::Error;
use crate::hosts::HostId;
use crate::placement::Placement;

/// Each host sends to others, drawn anew for each transfer.
pub struct Random {
    from: Vec<HostId>,
    to: Vec<HostId>,
    placement: Placement,
}

impl Random {
    pub fn new(
        scope: &Scope,
        from: &Option<String>,
        to: &Option<String>,
        placement: Placement,
    ) -> Result<Self, Error> {
        let (from, to) = (scope.group(from)?, scope.group(to)?);
        placement.check(scope.hosts, scope.place)?;
        scope.need_others(&from, &to, 1, |one, other| {
            placement.allows(scope.hosts, one, other)
        })?;
        Ok(Self {
            from,
            to,
            placement,
        })
    }
}

impl JobPattern for Random {
    fn starters(&self) -> usize {
        self.from.len()
    }

    fn is_single(&self) -> bool {
        true
    }

    fn transfers_per_job(&self) -> usize {
        1
    }

    fn loaded_links(&self) -> (f64, usize) {
        (1.0, self.from.len())
    }

    fn job(&mut self, starter: usize, draws: &mut JobDraws) -> Vec<Draft> {
        let (source, hosts) = (self.from[starter], draws.hosts);
        let to = draws.one(&self.to, |id| self.placement.allows(hosts, source, id));
        vec![Draft::send(source, to, draws.bytes())]
    }
}

/// Each host sends to the next, the last to the first.
pub struct Ring(Vec<HostId>);

impl Ring {
    /// In an order drawn from the seed.
    pub fn new(
        scope: &Scope,
        members: &Option<String>,
        name: &str,
        seed: u64,
    ) -> Result<Self, Error> {
        let mut ring = scope.members(members)?;
        Draws::new(seed, name, "permutation").shuffle(&mut ring);
        Ok(Self(ring))
    }
}

impl JobPattern for Ring {
    fn starters(&self) -> usize {
        self.0.len()
    }

    fn is_single(&self) -> bool {
        true
    }

    fn transfers_per_job(&self) -> usize {
        1
    }

    fn loaded_links(&self) -> (f64, usize) {
        (1.0, self.0.len())
    }

    fn job(&mut self, starter: usize, draws: &mut JobDraws) -> Vec<Draft> {
        let to = self.0[(starter + 1) % self.0.len()];
        vec![Draft::send(self.0[starter], to, draws.bytes())]
    }
}

/// Each host sends to each other; all of this is one job.
pub struct AllToAll(Vec<HostId>);

impl AllToAll {
    pub fn new(scope: &Scope, members: &Option<String>) -> Result<Self, Error> {
        scope.members(members).map(Self)
    }
}

impl JobPattern for AllToAll {
    fn starters(&self) -> usize {
        1
    }

    fn transfers_per_job(&self) -> usize {
        self.0.len() * (self.0.len() - 1)
    }

    fn loaded_links(&self) -> (f64, usize) {
        (self.transfers_per_job() as f64, self.0.len())
    }

    fn job(&mut self, _starter: usize, draws: &mut JobDraws) -> Vec<Draft> {
        let members = &self.0;
        let pairs = members
            .iter()
            .flat_map(|&from| members.iter().map(move |&to| (from, to)));
        pairs
            .filter(|(from, to)| from != to)
            .map(|(from, to)| Draft::send(from, to, draws.bytes()))
            .collect()
    }
}
