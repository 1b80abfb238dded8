//! A client reads an object that several servers have, or writes one to several.

use super::job::{Draft, DraftAfter, JobDraws, JobPattern};
use super::scope::Scope;
use crate::error::Error;
use crate::hosts::HostId;
use crate::placement::ReplicaPlacement;
use crate::spec::{ReadMode, WriteMode};
use crate::transfer::{Kind, Moment};

/// The hosts of storage, and where replicas are among them.
pub struct Storage {
    clients: Vec<HostId>,
    servers: Vec<HostId>,
    replicas: usize,
    placement: ReplicaPlacement,
}

impl Storage {
    pub fn new(
        scope: &Scope,
        [clients, servers]: [&Option<String>; 2],
        replicas: u32,
        placement: ReplicaPlacement,
    ) -> Result<Self, Error> {
        // The wire's number of senders has 4 bits (docs/wire-format.md).
        if !(1..=15).contains(&replicas) {
            return Err(scope.error(format!("replicas is {replicas}, expected 1 to 15")));
        }
        let replicas = replicas as usize;
        let (clients, servers) = (scope.group(clients)?, scope.group(servers)?);
        placement.check(scope.hosts, &clients, &servers, replicas, scope.place)?;
        Ok(Self {
            clients,
            servers,
            replicas,
            placement,
        })
    }

    fn place_replicas(&self, client: HostId, draws: &mut JobDraws) -> Vec<HostId> {
        let hosts = draws.hosts;
        self.placement
            .choose(hosts, client, &self.servers, self.replicas, draws.places())
            .expect("checked for every client at the start")
    }
}

/// A client reads an object, block by block.
pub struct StorageRead {
    storage: Storage,
    mode: ReadMode,
    blocks: u32,
}

impl StorageRead {
    pub fn new(
        scope: &Scope,
        storage: Storage,
        mode: ReadMode,
        blocks: u32,
    ) -> Result<Self, Error> {
        scope.count("blocks", blocks)?;
        if mode == ReadMode::Nearest {
            scope.hosts.need_racks(scope.place)?;
        }
        Ok(Self {
            storage,
            mode,
            blocks,
        })
    }

    fn block(&self, client: HostId, bytes: u64, draws: &mut JobDraws) -> Draft {
        let replicas = self.storage.place_replicas(client, draws);
        let sources = match self.mode {
            ReadMode::ManyToOne => replicas,
            ReadMode::Nearest => vec![nearest(client, &replicas, draws)],
        };
        let kind = match sources.len() {
            1 => Kind::FetchOneToOne,
            _ => Kind::FetchManyToOne,
        };
        Draft {
            sources,
            ..Draft::new(kind, client, client, bytes)
        }
    }
}

impl JobPattern for StorageRead {
    fn starters(&self) -> usize {
        self.storage.clients.len()
    }

    fn transfers_per_job(&self) -> usize {
        self.blocks as usize
    }

    fn loaded_links(&self) -> (f64, usize) {
        (1.0, self.storage.clients.len())
    }

    fn job(&mut self, starter: usize, draws: &mut JobDraws) -> Vec<Draft> {
        let client = self.storage.clients[starter];
        split(draws.bytes(), self.blocks)
            .map(|bytes| self.block(client, bytes, draws))
            .collect()
    }
}

/// A client writes an object to its replicas.
pub struct StorageWrite {
    storage: Storage,
    mode: WriteMode,
}

impl StorageWrite {
    pub fn new(storage: Storage, mode: WriteMode) -> Self {
        Self { storage, mode }
    }
}

impl JobPattern for StorageWrite {
    fn starters(&self) -> usize {
        self.storage.clients.len()
    }

    fn transfers_per_job(&self) -> usize {
        match self.mode {
            WriteMode::OneToMany => 1,
            WriteMode::MultiUnicast | WriteMode::DaisyChain => self.storage.replicas,
        }
    }

    fn loaded_links(&self) -> (f64, usize) {
        (1.0, self.storage.clients.len())
    }

    fn job(&mut self, starter: usize, draws: &mut JobDraws) -> Vec<Draft> {
        let client = self.storage.clients[starter];
        let bytes = draws.bytes();
        let replicas = self.storage.place_replicas(client, draws);
        write(self.mode, client, replicas, bytes)
    }
}

fn write(mode: WriteMode, client: HostId, replicas: Vec<HostId>, bytes: u64) -> Vec<Draft> {
    match mode {
        WriteMode::OneToMany if replicas.len() > 1 => vec![Draft {
            destinations: replicas,
            ..Draft::new(Kind::SendOneToMany, client, client, bytes)
        }],
        WriteMode::OneToMany | WriteMode::MultiUnicast => replicas
            .into_iter()
            .map(|replica| Draft::send(client, replica, bytes))
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
                    ..Draft::send(source, replica, bytes)
                })
                .collect()
        }
    }
}

/// The one in the client's rack, or a random one.
fn nearest(client: HostId, replicas: &[HostId], draws: &mut JobDraws) -> HostId {
    let hosts = draws.hosts;
    let mut local = replicas
        .iter()
        .filter(|&&id| hosts.rack(id) == hosts.rack(client));
    match local.next() {
        Some(&id) => id,
        None => replicas[draws.places().below(replicas.len())],
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
