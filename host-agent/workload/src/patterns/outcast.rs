//! Two receivers in one rack: one gets few flows from its pod, the other many from other pods.

use super::job::{Draft, JobDraws, JobPattern};
use super::scope::Scope;
use crate::error::Error;
use crate::hosts::{HostId, Hosts};

pub struct Outcast {
    /// Pairs of receivers that leave senders for both groups.
    receivers: Vec<[HostId; 2]>,
    members: Vec<HostId>,
    near: usize,
    far: usize,
}

impl Outcast {
    pub fn new(
        scope: &Scope,
        members: &Option<String>,
        near: u32,
        far: u32,
    ) -> Result<Self, Error> {
        let members = scope.group(members)?;
        scope.hosts.need_racks(scope.place)?;
        scope.hosts.need_pods(scope.place)?;
        let (near, far) = (scope.count("near", near)?, scope.count("far", far)?);
        Ok(Self {
            receivers: receivers(scope, &members)?,
            members,
            near,
            far,
        })
    }
}

impl JobPattern for Outcast {
    fn starters(&self) -> usize {
        1
    }

    fn transfers_per_job(&self) -> usize {
        self.near + self.far
    }

    fn loaded_links(&self) -> (f64, usize) {
        (self.transfers_per_job() as f64, 2)
    }

    fn job(&mut self, _starter: usize, draws: &mut JobDraws) -> Vec<Draft> {
        let hosts = draws.hosts;
        let [left, right] = self.receivers[draws.places().below(self.receivers.len())];
        let near = draws.several(&self.members, self.near, |id| is_near(hosts, left, id));
        let far = draws.several(&self.members, self.far, |id| is_far(hosts, left, id));
        let flows = near.into_iter().map(|id| (id, left));
        flows
            .chain(far.into_iter().map(|id| (id, right)))
            .map(|(from, to)| Draft::send(from, to, draws.bytes()))
            .collect()
    }
}

fn is_near(hosts: &Hosts, receiver: HostId, id: HostId) -> bool {
    hosts.pod(id) == hosts.pod(receiver) && hosts.rack(id) != hosts.rack(receiver)
}

fn is_far(hosts: &Hosts, receiver: HostId, id: HostId) -> bool {
    hosts.pod(id) != hosts.pod(receiver)
}

fn receivers(scope: &Scope, members: &[HostId]) -> Result<Vec<[HostId; 2]>, Error> {
    let hosts = scope.hosts;
    let mut pairs = Vec::new();
    for &left in members {
        let has = |fits: fn(&Hosts, HostId, HostId) -> bool| {
            members.iter().any(|&id| fits(hosts, left, id))
        };
        if has(is_near) && has(is_far) {
            let neighbours = members
                .iter()
                .filter(|&&id| id != left && hosts.rack(id) == hosts.rack(left));
            pairs.extend(neighbours.map(|&right| [left, right]));
        }
    }
    if pairs.is_empty() {
        return Err(scope.error(
            "an outcast needs two hosts in one rack, one in another rack of the pod and one in another pod",
        ));
    }
    Ok(pairs)
}
