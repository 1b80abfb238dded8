//! Hosts add up vectors that each of them has, so that all have the sum: bytes go around a ring (Patarasuk and Yuan,
//! "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).

use super::job::{Draft, DraftAfter, JobDraws, JobPattern};
use super::scope::Scope;
use crate::error::Error;
use crate::hosts::HostId;

/// The vector is cut into as many parts as there are hosts. In each of 2 (n - 1) rounds every host sends one part to
/// the next, once it has the one that the host before it sent in the round before.
pub struct RingAllReduce {
    hosts: Vec<HostId>,
    /// Time from the part that has come to the one that is sent.
    step_ns: u64,
}

impl RingAllReduce {
    /// In the order of the hosts, the last to the first.
    pub fn new(scope: &Scope, members: &Option<String>, step_ns: u64) -> Result<Self, Error> {
        let hosts = scope.members(members)?;
        Ok(Self { hosts, step_ns })
    }

    fn rounds(&self) -> usize {
        2 * (self.hosts.len() - 1)
    }
}

impl JobPattern for RingAllReduce {
    fn starters(&self) -> usize {
        1
    }

    fn transfers_per_job(&self) -> usize {
        self.rounds() * self.hosts.len()
    }

    fn loaded_links(&self) -> (f64, usize) {
        (self.rounds() as f64, self.hosts.len())
    }

    fn job(&mut self, _starter: usize, draws: &mut JobDraws) -> Vec<Draft> {
        let (hosts, delay_ns) = (&self.hosts, self.step_ns);
        let part = draws.bytes().div_ceil(hosts.len() as u64);
        let mut drafts = Vec::with_capacity(self.transfers_per_job());
        for round in 0..self.rounds() {
            for (at, host) in hosts.iter().enumerate() {
                let before = (at + hosts.len() - 1) % hosts.len();
                let cause = round
                    .checked_sub(1)
                    .map(|round| round * hosts.len() + before);
                drafts.push(Draft {
                    after: cause.map(|cause| DraftAfter {
                        delay_ns,
                        ..DraftAfter::end_of(cause)
                    }),
                    ..Draft::send(*host, hosts[(at + 1) % hosts.len()], part)
                });
            }
        }
        drafts
    }
}
