//! Patterns with their hosts: the hosts that start jobs, and those whose load is given. `jobs`: the transfers of a job.

mod jobs;

use crate::draws::Draws;
use crate::error::Error;
use crate::hosts::{HostId, Hosts};
use crate::placement::{Placement, ReplicaPlacement};
use crate::spec::{ConnectionChoice, Pattern, ReadMode, WriteMode};
use crate::times::TimeDistribution;
pub use jobs::{Draft, PatternDraws};

/// More than any experiment has, in 100 MB: a waiting transfer takes about 100 bytes.
const MOST_OF_A_COUNT: u32 = 1_000_000;

/// A pattern whose hosts are known, and known to suffice: drawing a job cannot fail.
pub enum Resolved {
    Random {
        from: Vec<HostId>,
        to: Vec<HostId>,
        placement: Placement,
    },
    /// Each host sends to the next, the last to the first.
    Ring(Vec<HostId>),
    AllToAll(Vec<HostId>),
    Incast {
        from: Vec<HostId>,
        to: Vec<HostId>,
        /// One of these for each job; not empty.
        senders: Vec<usize>,
        stagger_ns: u64,
        fetch: bool,
    },
    Outcast {
        /// Pairs of receivers that leave senders for both groups.
        receivers: Vec<[HostId; 2]>,
        members: Vec<HostId>,
        near: usize,
        far: usize,
    },
    PartitionAggregate {
        clients: Vec<HostId>,
        servers: Vec<HostId>,
        fan_out: usize,
        query_bytes: u64,
        service: TimeDistribution,
        serial: bool,
    },
    Requests {
        clients: Vec<HostId>,
        servers: Vec<HostId>,
        connections: u32,
        choose: ConnectionChoice,
        /// Requests of each client so far.
        turns: Vec<u64>,
    },
    Sequence {
        clients: Vec<HostId>,
        servers: Vec<HostId>,
        requests: usize,
    },
    StorageRead {
        storage: Storage,
        mode: ReadMode,
        blocks: u32,
    },
    StorageWrite {
        storage: Storage,
        mode: WriteMode,
    },
}

pub struct Storage {
    clients: Vec<HostId>,
    servers: Vec<HostId>,
    replicas: usize,
    placement: ReplicaPlacement,
}

impl Storage {
    fn new(
        hosts: &Hosts,
        place: &str,
        clients: Option<&str>,
        servers: Option<&str>,
        replicas: u32,
        placement: ReplicaPlacement,
    ) -> Result<Self, Error> {
        // The wire's number of senders has 4 bits (docs/wire-format.md).
        if !(1..=15).contains(&replicas) {
            let problem = format!("replicas is {replicas}, expected 1 to 15");
            return Err(Error::at(place, problem));
        }
        let storage = Self {
            clients: hosts.group(place, clients)?,
            servers: hosts.group(place, servers)?,
            replicas: replicas as usize,
            placement,
        };
        placement.check(
            hosts,
            &storage.clients,
            &storage.servers,
            storage.replicas,
            place,
        )?;
        Ok(storage)
    }
}

/// A number of transfers or connections, of which each takes memory.
pub(crate) fn check_count(place: &str, key: &str, value: u32) -> Result<(), Error> {
    if !(1..=MOST_OF_A_COUNT).contains(&value) {
        let problem = format!("{key} is {value}, expected 1 to {MOST_OF_A_COUNT}");
        return Err(Error::at(place, problem));
    }
    Ok(())
}

/// Every one of `from` needs enough others in `to`.
fn need_others(
    hosts: &Hosts,
    place: &str,
    from: &[HostId],
    to: &[HostId],
    needed: usize,
    fits: impl Fn(HostId, HostId) -> bool,
) -> Result<(), Error> {
    for &host in from {
        let found = to.iter().filter(|&&other| fits(host, other)).count();
        if found < needed {
            return Err(Error::at(
                place,
                format!(
                    "{} has {found} hosts on the other side that it may use, {needed} needed",
                    hosts.get(host).name
                ),
            ));
        }
    }
    Ok(())
}

fn incast_senders(numbers: &[u32], place: &str) -> Result<Vec<usize>, Error> {
    if numbers.is_empty() {
        let problem = "senders is an empty list, expected one number or several";
        return Err(Error::at(place, problem));
    }
    for &number in numbers {
        check_count(place, "senders", number)?;
    }
    Ok(numbers.iter().map(|&number| number as usize).collect())
}

fn distinct(one: HostId, other: HostId) -> bool {
    one != other
}

impl Resolved {
    /// `name` is that of the part of the workload.
    pub fn new(pattern: &Pattern, hosts: &Hosts, name: &str, seed: u64) -> Result<Self, Error> {
        let place = &format!("traffic {name} pattern");
        let group = |name: &Option<String>| hosts.group(place, name.as_deref());
        let clients_with = |clients, servers, others| {
            let (clients, servers) = (group(clients)?, group(servers)?);
            need_others(hosts, place, &clients, &servers, others, distinct)?;
            Ok((clients, servers))
        };
        Ok(match pattern {
            Pattern::Random {
                from,
                to,
                placement,
            } => {
                let (from, to) = (group(from)?, group(to)?);
                placement.check(hosts, place)?;
                need_others(hosts, place, &from, &to, 1, |one, other| {
                    placement.allows(hosts, one, other)
                })?;
                Self::Random {
                    from,
                    to,
                    placement: *placement,
                }
            }
            Pattern::Permutation { hosts: members } => {
                let mut ring = group(members)?;
                need_others(hosts, place, &ring, &ring, 1, distinct)?;
                Draws::new(seed, name, "permutation").shuffle(&mut ring);
                Self::Ring(ring)
            }
            Pattern::AllToAll { hosts: members } => {
                let members = group(members)?;
                need_others(hosts, place, &members, &members, 1, distinct)?;
                Self::AllToAll(members)
            }
            Pattern::Incast {
                senders,
                stagger_ns,
                fetch,
                from,
                to,
            } => {
                let senders = incast_senders(senders.values(), place)?;
                let (to, from) = clients_with(to, from, 1)?;
                Self::Incast {
                    from,
                    to,
                    senders,
                    stagger_ns: *stagger_ns,
                    fetch: *fetch,
                }
            }
            Pattern::Outcast {
                near,
                far,
                hosts: members,
            } => {
                let members = group(members)?;
                hosts.need_racks(place)?;
                hosts.need_pods(place)?;
                check_count(place, "near", *near)?;
                check_count(place, "far", *far)?;
                Self::Outcast {
                    receivers: outcast_receivers(hosts, &members, place)?,
                    members,
                    near: *near as usize,
                    far: *far as usize,
                }
            }
            Pattern::PartitionAggregate {
                fan_out,
                query_bytes,
                service,
                serial,
                clients,
                servers,
            } => {
                check_count(place, "fan_out", *fan_out)?;
                if *query_bytes == 0 {
                    return Err(Error::at(place, "query_bytes is 0, expected at least 1"));
                }
                service.check(&format!("{place} service"))?;
                let fan_out = *fan_out as usize;
                let (clients, servers) = clients_with(clients, servers, fan_out)?;
                Self::PartitionAggregate {
                    clients,
                    servers,
                    fan_out,
                    query_bytes: *query_bytes,
                    service: service.clone(),
                    serial: *serial,
                }
            }
            Pattern::Requests {
                connections,
                choose,
                clients,
                servers,
            } => {
                check_count(place, "connections", *connections)?;
                let (clients, servers) = clients_with(clients, servers, 1)?;
                Self::Requests {
                    turns: vec![0; clients.len()],
                    clients,
                    servers,
                    connections: *connections,
                    choose: *choose,
                }
            }
            Pattern::Sequence {
                requests,
                clients,
                servers,
            } => {
                check_count(place, "requests", *requests)?;
                let (clients, servers) = clients_with(clients, servers, 1)?;
                Self::Sequence {
                    clients,
                    servers,
                    requests: *requests as usize,
                }
            }
            Pattern::StorageRead {
                mode,
                replicas,
                blocks,
                placement,
                clients,
                servers,
            } => {
                check_count(place, "blocks", *blocks)?;
                if *mode == ReadMode::Nearest {
                    hosts.need_racks(place)?;
                }
                Self::StorageRead {
                    storage: Storage::new(
                        hosts,
                        place,
                        clients.as_deref(),
                        servers.as_deref(),
                        *replicas,
                        *placement,
                    )?,
                    mode: *mode,
                    blocks: *blocks,
                }
            }
            Pattern::StorageWrite {
                mode,
                replicas,
                placement,
                clients,
                servers,
            } => Self::StorageWrite {
                storage: Storage::new(
                    hosts,
                    place,
                    clients.as_deref(),
                    servers.as_deref(),
                    *replicas,
                    *placement,
                )?,
                mode: *mode,
            },
        })
    }

    /// How many hosts start jobs, in turn or by chance. 1 where a job concerns all of them.
    pub fn starters(&self) -> usize {
        match self {
            Self::Random { from, .. } => from.len(),
            Self::Ring(ring) => ring.len(),
            Self::AllToAll(_) | Self::Incast { .. } | Self::Outcast { .. } => 1,
            Self::PartitionAggregate { clients, .. }
            | Self::Requests { clients, .. }
            | Self::Sequence { clients, .. } => clients.len(),
            Self::StorageRead { storage, .. } | Self::StorageWrite { storage, .. } => {
                storage.clients.len()
            }
        }
    }

    /// Whether a job is one transfer, so that the next can wait for its end.
    pub fn is_single(&self) -> bool {
        matches!(
            self,
            Self::Random { .. } | Self::Ring(_) | Self::Requests { .. }
        )
    }

    /// How many transfers a job has, at most.
    pub fn transfers_per_job(&self) -> u64 {
        let transfers = match self {
            Self::Random { .. } | Self::Ring(_) | Self::Requests { .. } => 1,
            Self::AllToAll(members) => members.len() * (members.len() - 1),
            Self::Incast { senders, .. } => senders.iter().copied().max().unwrap_or(0),
            Self::Outcast { near, far, .. } => near + far,
            // A query and a response each.
            Self::PartitionAggregate { fan_out, .. } => 2 * fan_out,
            Self::Sequence { requests, .. } => *requests,
            Self::StorageRead { blocks, .. } => *blocks as usize,
            Self::StorageWrite { storage, mode } => match mode {
                WriteMode::OneToMany => 1,
                WriteMode::MultiUnicast | WriteMode::DaisyChain => storage.replicas,
            },
        };
        transfers as u64
    }

    /// Basis of a load: how many times the mean size a job brings to the loaded links,
    /// and how many such links there are.
    pub fn loaded_links(&self) -> (f64, usize) {
        match self {
            Self::Random { from, .. } => (1.0, from.len()),
            Self::Ring(ring) => (1.0, ring.len()),
            Self::AllToAll(members) => {
                let n = members.len();
                ((n * (n - 1)) as f64, n)
            }
            Self::Incast { to, senders, .. } => {
                let mean = senders.iter().sum::<usize>() as f64 / senders.len() as f64;
                (mean, to.len())
            }
            Self::Outcast { near, far, .. } => ((near + far) as f64, 2),
            Self::PartitionAggregate {
                clients, fan_out, ..
            } => (*fan_out as f64, clients.len()),
            Self::Requests { clients, .. } => (1.0, clients.len()),
            Self::Sequence {
                clients, requests, ..
            } => (*requests as f64, clients.len()),
            Self::StorageRead { storage, .. } | Self::StorageWrite { storage, .. } => {
                (1.0, storage.clients.len())
            }
        }
    }
}

fn is_near(hosts: &Hosts, receiver: HostId, id: HostId) -> bool {
    hosts.pod(id) == hosts.pod(receiver) && hosts.rack(id) != hosts.rack(receiver)
}

fn is_far(hosts: &Hosts, receiver: HostId, id: HostId) -> bool {
    hosts.pod(id) != hosts.pod(receiver)
}

fn outcast_receivers(
    hosts: &Hosts,
    members: &[HostId],
    place: &str,
) -> Result<Vec<[HostId; 2]>, Error> {
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
        return Err(Error::at(
            place,
            "an outcast needs two hosts in one rack, one in another rack of the pod and one in \
             another pod",
        ));
    }
    Ok(pairs)
}

#[cfg(test)]
#[path = "patterns_tests.rs"]
mod tests;
