//! Transfers of a job, by pattern.

use super::{Resolved, Storage, is_far, is_near};
use crate::draws::Draws;
use crate::hosts::{HostId, Hosts};
use crate::placement;
use crate::sizes::SizeDistribution;
use crate::spec::{ConnectionChoice, ReadMode, WriteMode};
use crate::transfer::{Kind, Moment};

/// A transfer before it has an id and a time.
pub struct Draft {
    /// After the arrival of the job.
    pub offset_ns: u64,
    pub kind: Kind,
    pub sources: Vec<HostId>,
    pub destinations: Vec<HostId>,
    pub bytes: u64,
    pub connection: Option<u32>,
    pub after: Option<DraftAfter>,
}

pub struct DraftAfter {
    /// Which transfer of the same job.
    pub index: usize,
    pub moment: Moment,
    pub delay_ns: u64,
    pub serial: bool,
}

impl Draft {
    fn new(kind: Kind, source: HostId, destination: HostId, bytes: u64) -> Self {
        Self {
            offset_ns: 0,
            kind,
            sources: vec![source],
            destinations: vec![destination],
            bytes,
            connection: None,
            after: None,
        }
    }
}

impl DraftAfter {
    fn end_of(index: usize) -> Self {
        Self {
            index,
            moment: Moment::Finished,
            delay_ns: 0,
            serial: false,
        }
    }
}

/// The random numbers of one part of the workload, by purpose: another size distribution leaves the
/// places as they were.
pub struct PatternDraws {
    pub places: Draws,
    pub sizes: Draws,
    pub service: Draws,
}

impl PatternDraws {
    pub fn new(seed: u64, name: &str) -> Self {
        Self {
            places: Draws::new(seed, name, "places"),
            sizes: Draws::new(seed, name, "sizes"),
            service: Draws::new(seed, name, "service"),
        }
    }
}

impl Storage {
    fn place_replicas(&self, hosts: &Hosts, client: HostId, draws: &mut Draws) -> Vec<HostId> {
        self.placement
            .choose(hosts, client, &self.servers, self.replicas, draws)
            .expect("checked for every client at the start")
    }
}

impl Resolved {
    /// One job, started by the host of that number below [`starters`](Self::starters).
    pub fn job(
        &mut self,
        hosts: &Hosts,
        starter: usize,
        size: &SizeDistribution,
        draws: &mut PatternDraws,
    ) -> Vec<Draft> {
        let mut bytes = || size.draw_bytes(&mut draws.sizes);
        let places = &mut draws.places;
        match self {
            Self::Random {
                from,
                to,
                placement,
            } => {
                let source = from[starter];
                let to = other(to, places, |id| placement.allows(hosts, source, id));
                vec![Draft::new(Kind::SendOneToOne, source, to, bytes())]
            }
            Self::Ring(ring) => {
                let (source, to) = (ring[starter], ring[(starter + 1) % ring.len()]);
                vec![Draft::new(Kind::SendOneToOne, source, to, bytes())]
            }
            Self::AllToAll(members) => {
                let pairs = members
                    .iter()
                    .flat_map(|&from| members.iter().map(move |&to| (from, to)));
                pairs
                    .filter(|(from, to)| from != to)
                    .map(|(from, to)| Draft::new(Kind::SendOneToOne, from, to, bytes()))
                    .collect()
            }
            Self::Incast {
                from,
                to,
                senders,
                stagger_ns,
                fetch,
            } => {
                let receiver = to[places.below(to.len())];
                let kind = match fetch {
                    true => Kind::FetchOneToOne,
                    false => Kind::SendOneToOne,
                };
                // A single number takes no draw, so that a list of one is the same workload.
                let count = match senders[..] {
                    [count] => count,
                    _ => senders[places.below(senders.len())],
                };
                let chosen = several(from, count, places, |id| id != receiver);
                let drafts = chosen.into_iter().enumerate().map(|(index, sender)| Draft {
                    offset_ns: stagger_ns.saturating_mul(index as u64),
                    ..Draft::new(kind, sender, receiver, bytes())
                });
                drafts.collect()
            }
            Self::Outcast {
                receivers,
                members,
                near,
                far,
            } => {
                let [left, right] = receivers[places.below(receivers.len())];
                let near = several(members, *near, places, |id| is_near(hosts, left, id));
                let far = several(members, *far, places, |id| is_far(hosts, left, id));
                let flows = near.into_iter().map(|id| (id, left));
                flows
                    .chain(far.into_iter().map(|id| (id, right)))
                    .map(|(from, to)| Draft::new(Kind::SendOneToOne, from, to, bytes()))
                    .collect()
            }
            Self::PartitionAggregate {
                clients,
                servers,
                fan_out,
                query_bytes,
                service,
                serial,
            } => {
                let client = clients[starter];
                let chosen = several(servers, *fan_out, places, |id| id != client);
                let query = |&server| Draft::new(Kind::Query, client, server, *query_bytes);
                let response = |(index, &server)| Draft {
                    after: Some(DraftAfter {
                        delay_ns: service.draw_ns(&mut draws.service),
                        serial: *serial,
                        ..DraftAfter::end_of(index)
                    }),
                    ..Draft::new(Kind::Response, server, client, bytes())
                };
                let queries = chosen.iter().map(query);
                queries
                    .chain(chosen.iter().enumerate().map(response))
                    .collect()
            }
            Self::Requests {
                clients,
                servers,
                connections,
                choose,
                turns,
            } => {
                let client = clients[starter];
                let (server, connection) = match choose {
                    ConnectionChoice::Random => (
                        other(servers, places, |id| id != client),
                        places.below_u64(u64::from(*connections)) as u32,
                    ),
                    ConnectionChoice::RoundRobin => {
                        let turn = turns[starter];
                        turns[starter] += 1;
                        in_turn(servers, client, *connections, turn)
                    }
                };
                vec![Draft {
                    connection: Some(connection),
                    ..Draft::new(Kind::FetchOneToOne, server, client, bytes())
                }]
            }
            Self::Sequence {
                clients,
                servers,
                requests,
            } => {
                let client = clients[starter];
                let drafts = (0..*requests).map(|index: usize| {
                    let server = other(servers, places, |id| id != client);
                    Draft {
                        after: index.checked_sub(1).map(DraftAfter::end_of),
                        ..Draft::new(Kind::FetchOneToOne, server, client, bytes())
                    }
                });
                drafts.collect()
            }
            Self::StorageRead {
                storage,
                mode,
                blocks,
            } => {
                let client = storage.clients[starter];
                let total = bytes();
                split(total, *blocks)
                    .map(|bytes| {
                        let replicas = storage.place_replicas(hosts, client, places);
                        read(*mode, hosts, client, replicas, bytes, places)
                    })
                    .collect()
            }
            Self::StorageWrite { storage, mode } => {
                let client = storage.clients[starter];
                let bytes = bytes();
                let replicas = storage.place_replicas(hosts, client, places);
                write(*mode, client, replicas, bytes)
            }
        }
    }
}

/// Server and connection of a client's request of that number, from 0: one server after the other, then with
/// the next connection.
fn in_turn(servers: &[HostId], client: HostId, connections: u32, turn: u64) -> (HostId, u32) {
    let others: Vec<HostId> = servers.iter().copied().filter(|&id| id != client).collect();
    let count = others.len() as u64;
    let connection = turn / count % u64::from(connections);
    (others[(turn % count) as usize], connection as u32)
}

fn read(
    mode: ReadMode,
    hosts: &Hosts,
    client: HostId,
    replicas: Vec<HostId>,
    bytes: u64,
    places: &mut Draws,
) -> Draft {
    let sources = match mode {
        ReadMode::ManyToOne => replicas,
        ReadMode::Nearest => vec![nearest(hosts, client, &replicas, places)],
    };
    Draft {
        kind: match sources.len() {
            1 => Kind::FetchOneToOne,
            _ => Kind::FetchManyToOne,
        },
        sources,
        ..Draft::new(Kind::FetchOneToOne, client, client, bytes)
    }
}

fn write(mode: WriteMode, client: HostId, replicas: Vec<HostId>, bytes: u64) -> Vec<Draft> {
    let to = |source, replica| Draft::new(Kind::SendOneToOne, source, replica, bytes);
    match mode {
        WriteMode::OneToMany if replicas.len() > 1 => vec![Draft {
            kind: Kind::SendOneToMany,
            destinations: replicas,
            ..to(client, client)
        }],
        WriteMode::OneToMany | WriteMode::MultiUnicast => replicas
            .into_iter()
            .map(|replica| to(client, replica))
            .collect(),
        WriteMode::DaisyChain => {
            let sources = std::iter::once(client).chain(replicas.iter().copied());
            let links = sources.zip(&replicas).enumerate();
            links
                .map(|(index, (source, &replica))| Draft {
                    after: index.checked_sub(1).map(|index| DraftAfter {
                        moment: Moment::Begun,
                        ..DraftAfter::end_of(index)
                    }),
                    ..to(source, replica)
                })
                .collect()
        }
    }
}

fn nearest(hosts: &Hosts, client: HostId, replicas: &[HostId], places: &mut Draws) -> HostId {
    let local = replicas
        .iter()
        .find(|&&id| hosts.rack(id) == hosts.rack(client));
    match local {
        Some(&id) => id,
        None => replicas[places.below(replicas.len())],
    }
}

/// As equal as whole bytes allow, each at least 1.
fn split(total: u64, blocks: u32) -> impl Iterator<Item = u64> {
    let blocks = u64::from(blocks);
    (0..blocks).map(move |index| {
        let bytes = total / blocks + u64::from(index < total % blocks);
        bytes.max(1)
    })
}

fn other(from: &[HostId], places: &mut Draws, fits: impl Fn(HostId) -> bool) -> HostId {
    placement::choose(from, places, fits).expect("checked for every host at the start")
}

/// Different ones while there are any, then the same again.
fn several(
    from: &[HostId],
    count: usize,
    places: &mut Draws,
    fits: impl Fn(HostId) -> bool,
) -> Vec<HostId> {
    let mut candidates: Vec<HostId> = from.iter().copied().filter(|&id| fits(id)).collect();
    places.shuffle(&mut candidates);
    candidates.into_iter().cycle().take(count).collect()
}
