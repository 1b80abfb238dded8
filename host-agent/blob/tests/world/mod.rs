//! Clients, replicas and a locator in a network that fails, under a virtual clock.
//!
//! For some time there are faults: hosts and the locator crash at any step of what they do and start
//! again, nodes cannot reach each other, messages are lost or late, disks are full, rot or are replaced.
//! Then all is well, the store is repaired, and everything is read once more.

mod checks;
mod network;
mod nodes;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ebb_blob::*;
use ebb_units::{Duration, Instant};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::files::Files;
use crate::history::{Did, Operation, linearize, unfounded_conflicts};

const HOSTS: usize = 4;
const CLIENTS: usize = 3;
const NAMES: [&str; 2] = ["a", "b"];
const OPERATIONS: usize = 12;
const FAULTS_NS: u64 = 25_000_000_000;

/// Faults of the implementation, planted to see that they are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// The locator answers before its database has taken the change.
    AnswersTooEarly,
    /// Replicas confirm what is not on their disks.
    NeverSyncs,
    /// Clients read what a name meant when they first asked.
    RemembersLookups,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Node {
    Locator,
    Client(usize),
    Host(usize),
}

enum Event {
    /// A question, to a locator of this life; `epoch` is of the one who asks.
    Question {
        from: Node,
        epoch: u64,
        life: u64,
        call: Call,
    },
    Answer {
        to: Node,
        epoch: u64,
        id: u64,
        reply: Reply,
    },
    /// Content comes to replicas.
    Arrival {
        client: usize,
        epoch: u64,
        store: Store,
        content: Vec<u8>,
    },
    Stored {
        client: usize,
        epoch: u64,
        transfer: u64,
        result: Result<(), String>,
    },
    /// A request for content comes to those who may have it.
    Request {
        to: Node,
        epoch: u64,
        fetch: Fetch,
    },
    Fetched {
        to: Node,
        epoch: u64,
        transfer: u64,
        result: Result<Vec<u8>, String>,
    },
    Begin {
        client: usize,
    },
    Fault(Fault),
}

#[derive(Clone, Debug)]
enum Fault {
    CrashHost(usize),
    StartHost(usize),
    CrashLocator,
    StartLocator,
    /// No packet passes between the nodes.
    Cut(Vec<(Node, Node)>, bool),
    Full(usize, bool),
    Rot(usize),
    Replace(usize),
    CrashClient(usize),
    Repair,
}

enum Doing {
    Put {
        put: Put,
        number: u64,
    },
    Get {
        get: Get,
        content: BTreeMap<u32, Vec<u8>>,
    },
    List(List),
}

#[derive(Default)]
struct Client {
    /// Counts its operations, so that what comes late for an earlier one is known.
    epoch: u64,
    left: usize,
    name: String,
    began: u64,
    doing: Option<Doing>,
    /// With [`Bug::RemembersLookups`].
    lookups: BTreeMap<String, Reply>,
}

struct Host {
    address: Ipv4Addr,
    store: u64,
    /// Counts its starts.
    epoch: u64,
    replica: Option<Replica<Files>>,
    /// While it is down.
    files: Option<Files>,
    /// Files that it has said are on its disk.
    confirmed: BTreeSet<String>,
}

/// How often things happened.
macro_rules! counts {
    ($($name:ident)*) => {
        #[derive(Clone, Copy, Default, Debug)]
        pub struct Counts {
            $(pub $name: u64,)*
        }

        impl Counts {
            pub fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)*
            }

            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

counts! {
    stored conflicts unknown failed_puts with_fewer_replicas got failed_gets
    complaints lists crashes copied damaged deleted
}

pub struct World {
    now: Instant,
    rng: SmallRng,
    bug: Option<Bug>,
    events: BTreeMap<(Instant, u64), Event>,
    last_event: u64,
    database: Snapshot,
    /// With [`Bug::AnswersTooEarly`]: changes that a crash would lose.
    unwritten: Vec<Change>,
    locator: Option<Locator>,
    locator_life: u64,
    hosts: Vec<Host>,
    clients: Vec<Client>,
    cut: BTreeSet<(Node, Node)>,
    faulty: bool,
    puts: u64,
    pub history: Vec<Operation>,
    pub problems: Vec<String>,
    pub counts: Counts,
}

fn config(hosts: &[Host]) -> Config {
    Config {
        rows: 8,
        write_patience: Duration::from_secs(5),
        dead_after: Duration::from_secs(3),
        ..Config::new(hosts.iter().map(|host| host.address).collect())
    }
}

/// Content of the put of this number: one to three tracts.
fn contents(number: u64) -> Vec<Vec<u8>> {
    let tracts = number % 3 + 1;
    let tract = |index| format!("put {number} tract {index} of {tracts} {}", "x".repeat(40));
    (0..tracts).map(|index| tract(index).into_bytes()).collect()
}

/// The put that has written all of this. `None`: none has.
fn author(content: &[Vec<u8>]) -> Option<u64> {
    let first = std::str::from_utf8(content.first()?).ok()?;
    let number = first
        .strip_prefix("put ")?
        .split(' ')
        .next()?
        .parse()
        .ok()?;
    (contents(number) == content).then_some(number)
}

/// Whether the file of a tract has the content that its name says.
fn is_sound(files: &Files, name: &str) -> bool {
    let tract: TractName = name.parse().unwrap();
    files.read(name).map(Digest::of) == Some(tract.sha256)
}

impl World {
    pub fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let hosts = (0..HOSTS).map(|number| Host {
            address: Ipv4Addr::new(10, 0, 0, number as u8 + 1),
            store: rng.random(),
            epoch: 0,
            replica: None,
            files: Some(Files::new(bug == Some(Bug::NeverSyncs))),
            confirmed: BTreeSet::new(),
        });
        let mut world = World {
            now: Instant::ZERO,
            hosts: hosts.collect(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            bug,
            events: BTreeMap::new(),
            last_event: 0,
            database: Snapshot::default(),
            unwritten: Vec::new(),
            locator: None,
            locator_life: 0,
            cut: BTreeSet::new(),
            faulty: true,
            puts: 0,
            history: Vec::new(),
            problems: Vec::new(),
            counts: Counts::default(),
            rng,
        };
        world.fault(Fault::StartLocator);
        (0..HOSTS).for_each(|number| world.fault(Fault::StartHost(number)));
        world
    }

    pub fn run(mut self) -> Self {
        self.run_until(Instant::from_nanos(1_000_000_000));
        for client in 0..CLIENTS {
            self.clients[client].left = OPERATIONS;
            self.after(0..500, Event::Begin { client });
        }
        self.plan_faults();
        self.run_until(Instant::from_nanos(1_000_000_000 + FAULTS_NS));
        self.heal();
        let patience = self.now + Duration::from_secs(120);
        while self.clients.iter().any(|c| c.left > 0 || c.doing.is_some()) && self.now < patience {
            self.run_until(self.now + Duration::from_millis(100));
        }
        // The second one deletes copies that are needed no more after the first.
        self.repair();
        self.repair();
        self.check_disks();
        self.read_all();
        self.check_history();
        self
    }

    fn run_until(&mut self, end: Instant) {
        loop {
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            let hosts = self
                .hosts
                .iter()
                .filter_map(|host| host.replica.as_ref()?.next_deadline());
            let clients = self
                .clients
                .iter()
                .filter_map(|client| match client.doing.as_ref()? {
                    Doing::Put { put, .. } => put.next_deadline(),
                    Doing::Get { get, .. } => get.next_deadline(),
                    Doing::List(list) => list.next_deadline(),
                });
            let locator = self.locator.as_ref().and_then(Locator::next_deadline);
            let next = hosts.chain(clients).chain(locator).chain(event).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            while let Some(entry) = self.events.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let event = entry.remove();
                self.happen(event);
            }
            self.drive();
        }
    }

    fn after(&mut self, ms: std::ops::Range<u64>, event: Event) {
        let delay = Duration::from_micros(self.rng.random_range(ms.start * 1000..ms.end * 1000));
        self.last_event += 1;
        self.events
            .insert((self.now + delay, self.last_event), event);
    }

    fn epoch(&self, node: Node) -> u64 {
        match node {
            Node::Locator => self.locator_life,
            Node::Client(number) => self.clients[number].epoch,
            Node::Host(number) => self.hosts[number].epoch,
        }
    }

    fn host_at(&self, address: Ipv4Addr) -> usize {
        usize::from(address.octets()[3]) - 1
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Question {
                from,
                epoch,
                life,
                call,
            } => {
                if life == self.locator_life {
                    self.question(from, epoch, call);
                }
            }
            Event::Answer {
                to,
                epoch,
                id,
                reply,
            } => {
                if epoch == self.epoch(to) {
                    self.answer(to, id, reply);
                }
            }
            Event::Arrival {
                client,
                epoch,
                store,
                content,
            } => {
                self.arrival(client, epoch, &store, &content);
            }
            Event::Stored {
                client,
                epoch,
                transfer,
                result,
            } => {
                if let Some(Doing::Put { put, .. }) = self.doing(client, epoch) {
                    put.handle_stored(transfer, result);
                }
            }
            Event::Request { to, epoch, fetch } => self.request(to, epoch, &fetch),
            Event::Fetched {
                to,
                epoch,
                transfer,
                result,
            } => {
                self.fetched(to, epoch, transfer, result);
            }
            Event::Begin { client } => self.begin(client),
            Event::Fault(fault) => self.fault(fault),
        }
    }

    fn doing(&mut self, client: usize, epoch: u64) -> Option<&mut Doing> {
        let client = &mut self.clients[client];
        client.doing.as_mut().filter(|_| client.epoch == epoch)
    }
}
