//! Constraints on the ends of transfers by rack and pod.

use serde::{Deserialize, Serialize};

use crate::draws::Draws;
use crate::error::Error;
use crate::hosts::{HostId, Hosts};

/// Where the destination of a transfer may be, as seen from its source.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Anywhere.
    #[default]
    Any,
    /// In the rack of the source.
    SameRack,
    /// In another rack than the source.
    OtherRack,
    /// In the pod of the source.
    SamePod,
    /// In another pod than the source.
    OtherPod,
}

impl Placement {
    pub(crate) fn check(self, hosts: &Hosts, place: &str) -> Result<(), Error> {
        match self {
            Self::Any => Ok(()),
            Self::SameRack | Self::OtherRack => hosts.need_racks(place),
            Self::SamePod | Self::OtherPod => hosts.need_pods(place),
        }
    }

    pub(crate) fn allows(self, hosts: &Hosts, from: HostId, to: HostId) -> bool {
        from != to
            && match self {
                Self::Any => true,
                Self::SameRack => hosts.rack(from) == hosts.rack(to),
                Self::OtherRack => hosts.rack(from) != hosts.rack(to),
                Self::SamePod => hosts.pod(from) == hosts.pod(to),
                Self::OtherPod => hosts.pod(from) != hosts.pod(to),
            }
    }
}

/// Where the replicas of a block are. The client holds none.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicaPlacement {
    /// HDFS' default for a client that is no data node: the first on any node, the second in another
    /// rack, the third on another node of that rack; more of them anywhere (SCDP section IV-A).
    #[default]
    Hdfs,
    /// Each in a rack of its own, none in the client's.
    DistinctRacks,
    /// Anywhere outside the client's rack (Polyraptor poster).
    OutsideRack,
    /// Anywhere but at the client.
    Any,
}

/// One of those that fit, with equal probability. `None`: none does.
pub(crate) fn choose(
    from: &[HostId],
    draws: &mut Draws,
    fits: impl Fn(HostId) -> bool,
) -> Option<HostId> {
    let count = from.iter().filter(|&&id| fits(id)).count();
    if count == 0 {
        return None;
    }
    let chosen = draws.below(count);
    from.iter().copied().filter(|&id| fits(id)).nth(chosen)
}

impl ReplicaPlacement {
    /// `None`: the racks have no room, whatever is drawn: each step leaves room for the next.
    pub(crate) fn choose(
        self,
        hosts: &Hosts,
        client: HostId,
        servers: &[HostId],
        replicas: usize,
        draws: &mut Draws,
    ) -> Option<Vec<HostId>> {
        let room = Room::new(hosts, client, servers);
        let mut chosen: Vec<HostId> = Vec::with_capacity(replicas);
        for index in 0..replicas {
            let next = choose(servers, draws, |id| {
                let rack = hosts.rack(id);
                id != client
                    && !chosen.contains(&id)
                    && match (self, index) {
                        (Self::Any, _) => true,
                        (Self::OutsideRack, _) => rack != hosts.rack(client),
                        (Self::DistinctRacks, _) => {
                            rack != hosts.rack(client)
                                && chosen.iter().all(|&other| hosts.rack(other) != rack)
                        }
                        (Self::Hdfs, 0) => match replicas {
                            1 => true,
                            2 => room.elsewhere(rack, 1),
                            _ => room.elsewhere(rack, 2),
                        },
                        (Self::Hdfs, 1) => {
                            rack != hosts.rack(chosen[0]) && (replicas < 3 || room.has(rack, 2))
                        }
                        (Self::Hdfs, 2) => rack == hosts.rack(chosen[1]),
                        (Self::Hdfs, _) => true,
                    }
            })?;
            chosen.push(next);
        }
        Some(chosen)
    }

    /// That every client can place its replicas, whatever is drawn.
    pub(crate) fn check(
        self,
        hosts: &Hosts,
        clients: &[HostId],
        servers: &[HostId],
        replicas: usize,
        place: &str,
    ) -> Result<(), Error> {
        if self != Self::Any {
            hosts.need_racks(place)?;
        }
        for &client in clients {
            let mut draws = Draws::new(0, place, "check");
            if self
                .choose(hosts, client, servers, replicas, &mut draws)
                .is_none()
            {
                return Err(Error::at(
                    place,
                    format!(
                        "{replicas} replicas do not fit for client {}: too few servers in the racks \
                         that placement `{}` allows",
                        hosts.get(client).name,
                        match self {
                            Self::Hdfs => "hdfs",
                            Self::DistinctRacks => "distinct-racks",
                            Self::OutsideRack => "outside-rack",
                            Self::Any => "any",
                        }
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// Servers of each rack for the replicas of one client.
struct Room(Vec<usize>);

impl Room {
    fn new(hosts: &Hosts, client: HostId, servers: &[HostId]) -> Self {
        let mut racks = Vec::new();
        for rack in servers
            .iter()
            .filter(|&&id| id != client)
            .filter_map(|&id| hosts.rack(id))
        {
            let rack = rack as usize;
            if racks.len() <= rack {
                racks.resize(rack + 1, 0);
            }
            racks[rack] += 1;
        }
        Self(racks)
    }

    fn has(&self, rack: Option<u32>, servers: usize) -> bool {
        rack.is_some_and(|rack| self.0[rack as usize] >= servers)
    }

    /// Whether a rack other than this one has that many.
    fn elsewhere(&self, rack: Option<u32>, servers: usize) -> bool {
        let all = self.0.iter().filter(|&&count| count >= servers).count();
        all > usize::from(self.has(rack, servers))
    }
}
