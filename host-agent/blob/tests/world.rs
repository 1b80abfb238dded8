//! Clients, replicas and a locator in a network that fails, under a virtual clock.
//!
//! For some time there are faults: hosts and the locator crash at any step of what they do and start
//! again, nodes cannot reach each other, messages are lost or late, disks are full, rot or are replaced.
//! Then all is well, the store is repaired, and everything is read once more.

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

/// What is made wrong on purpose, to see that it is found.
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

/// What the put of this number writes: one to three tracts.
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

    /// Runs all of it; what was wrong is in `problems`.
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

    /// Sends a message, which may be late or never come.
    fn send(&mut self, from: Node, to: Node, event: Event) {
        if self.is_cut(from, to) || (self.faulty && self.rng.random_bool(0.02)) {
            return;
        }
        let late = self.faulty && self.rng.random_bool(0.03);
        self.after(if late { 500..4000 } else { 1..20 }, event);
    }

    fn is_cut(&self, a: Node, b: Node) -> bool {
        self.cut.contains(&(a.min(b), a.max(b)))
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

    fn question(&mut self, from: Node, epoch: u64, call: Call) {
        let Some(locator) = &mut self.locator else {
            return;
        };
        let (changes, reply) = locator.handle(self.now, call.request);
        let crash = self.faulty && self.rng.random_bool(0.005);
        // Before the transaction, or after it.
        if crash && self.rng.random_bool(0.5) {
            self.crash_locator_for_a_while();
            return;
        }
        self.write(changes);
        if crash {
            self.crash_locator_for_a_while();
            return;
        }
        if let Some(reply) = reply {
            let id = call.id;
            let answer = Event::Answer {
                to: from,
                epoch,
                id,
                reply,
            };
            self.send(Node::Locator, from, answer);
        }
    }

    fn write(&mut self, changes: Vec<Change>) {
        self.unwritten.extend(changes);
        if self.bug != Some(Bug::AnswersTooEarly) || self.rng.random_bool(0.05) {
            self.unwritten
                .drain(..)
                .for_each(|change| self.database.apply(change));
        }
    }

    fn crash_locator_for_a_while(&mut self) {
        self.fault(Fault::CrashLocator);
        self.after(100..3000, Event::Fault(Fault::StartLocator));
    }

    fn answer(&mut self, to: Node, id: u64, mut reply: Reply) {
        let now = self.now;
        match to {
            Node::Host(number) => {
                if let Some(replica) = &mut self.hosts[number].replica {
                    replica.handle_reply(id, reply);
                }
            }
            Node::Client(number) => {
                let client = &mut self.clients[number];
                match &mut client.doing {
                    Some(Doing::Put { put, .. }) => put.handle_reply(now, id, reply),
                    Some(Doing::Get { get, .. }) => {
                        if self.bug == Some(Bug::RemembersLookups) {
                            let name = client.name.clone();
                            reply = client.lookups.entry(name).or_insert(reply).clone();
                        }
                        get.handle_reply(id, reply);
                    }
                    Some(Doing::List(list)) => list.handle_reply(now, id, reply),
                    None => {}
                }
            }
            Node::Locator => {}
        }
    }

    /// Content comes to one or several replicas; the sender hears whether all have it.
    fn arrival(&mut self, client: usize, epoch: u64, store: &Store, content: &[u8]) {
        let mut result = Ok(());
        for server in &store.to {
            let number = self.host_at(*server);
            if self.is_cut(Node::Client(client), Node::Host(number)) {
                result = Err("no answer".to_owned());
            } else if let Err(reason) = self.keep(number, &store.tract.to_string(), content) {
                result = Err(reason);
            }
        }
        if self.faulty && self.rng.random_bool(0.02) {
            result = Err("the confirmation is lost".to_owned());
        }
        let ms = if result.is_ok() { 1..20 } else { 300..1500 };
        let transfer = store.transfer;
        self.after(
            ms,
            Event::Stored {
                client,
                epoch,
                transfer,
                result,
            },
        );
    }

    /// As a daemon does it.
    fn keep(&mut self, number: usize, name: &str, content: &[u8]) -> Result<(), String> {
        self.last_event += 1;
        let temporary = format!(".part-{}", self.last_event);
        let host = &mut self.hosts[number];
        let replica = host.replica.as_mut().ok_or("no answer")?;
        replica.check(name, content.len() as u64, Digest::of(content))?;
        let disk = &mut replica.disk;
        let kept = disk.write(&temporary, content.to_vec());
        let kept = kept.and_then(|()| keep(disk, &temporary, name));
        if kept.is_ok() {
            host.confirmed.insert(name.to_owned());
        } else if !disk.has_crashed() {
            let _ = disk.remove(&temporary);
        }
        self.crash_if_its_time(number);
        kept.map_err(|error| error.to_string())
    }

    fn crash_if_its_time(&mut self, number: usize) {
        let replica = self.hosts[number].replica.as_ref();
        if replica.is_some_and(|replica| replica.disk.has_crashed()) {
            self.fault(Fault::CrashHost(number));
            self.after(100..5000, Event::Fault(Fault::StartHost(number)));
        }
    }

    fn request(&mut self, to: Node, epoch: u64, fetch: &Fetch) {
        let name = fetch.tract.to_string();
        let servers = fetch.from.iter().map(|server| self.host_at(*server));
        let servers: Vec<_> = servers
            .filter(|n| !self.is_cut(to, Node::Host(*n)))
            .collect();
        let found = servers.iter().filter_map(|number| {
            let replica = self.hosts[*number].replica.as_ref()?;
            replica.disk.read(&name).map(<[u8]>::to_vec)
        });
        let mut found: Vec<_> = found.collect();
        let lost = self.faulty && self.rng.random_bool(0.02);
        let result = match found.len() {
            0 => Err("nobody has it".to_owned()),
            _ if lost => Err("no answer".to_owned()),
            n => Ok(found.swap_remove(self.rng.random_range(0..n))),
        };
        let ms = if result.is_ok() { 1..20 } else { 100..1000 };
        let transfer = fetch.transfer;
        self.after(
            ms,
            Event::Fetched {
                to,
                epoch,
                transfer,
                result,
            },
        );
    }

    fn fetched(&mut self, to: Node, epoch: u64, transfer: u64, result: Result<Vec<u8>, String>) {
        match to {
            Node::Client(number) => {
                if let Some(Doing::Get { get, content }) = self.doing(number, epoch) {
                    let digest = result.as_ref().map(|bytes| Digest::of(bytes));
                    let digest = digest.map_err(Clone::clone);
                    if get.handle_fetched(transfer, digest)
                        && let Ok(bytes) = result
                    {
                        // The tract has a number in its own text.
                        let text = String::from_utf8_lossy(&bytes);
                        let index = text.split(' ').nth(3).and_then(|n| n.parse().ok());
                        content.insert(index.unwrap_or(u32::MAX), bytes);
                    }
                }
            }
            Node::Host(number) if epoch == self.hosts[number].epoch => {
                self.last_event += 1;
                let temporary = format!(".copy-{}", self.last_event);
                if let Some(replica) = &mut self.hosts[number].replica {
                    let written = result.and_then(|bytes| {
                        let written = replica.disk.write(&temporary, bytes);
                        written.map_err(|error| error.to_string())
                    });
                    replica.handle_fetched(transfer, written.map(|()| temporary));
                }
                self.crash_if_its_time(number);
            }
            _ => {}
        }
    }

    /// Lets every node do what it wants to.
    fn drive(&mut self) {
        if let Some(locator) = &mut self.locator {
            let changes = locator.handle_deadline(self.now);
            self.write(changes);
        }
        for number in 0..HOSTS {
            while let Some(replica) = &mut self.hosts[number].replica {
                let action = replica.poll(self.now);
                self.crash_if_its_time(number);
                let from = Node::Host(number);
                match action {
                    Some(ReplicaAction::Ask(ask)) => self.ask(from, ask),
                    Some(ReplicaAction::Fetch(fetch)) => {
                        let epoch = self.epoch(from);
                        self.after(
                            1..20,
                            Event::Request {
                                to: from,
                                epoch,
                                fetch,
                            },
                        );
                    }
                    Some(ReplicaAction::Worked) => {}
                    None => break,
                }
            }
        }
        for number in 0..CLIENTS {
            while let Some(doing) = &mut self.clients[number].doing {
                let action = match doing {
                    Doing::Put { put, .. } => put.poll(self.now),
                    Doing::Get { get, .. } => get.poll(self.now),
                    Doing::List(list) => list.poll(self.now),
                };
                let Some(action) = action else { break };
                self.act(number, action);
            }
            self.finish(number);
        }
    }

    fn ask(&mut self, from: Node, ask: Ask) {
        let (epoch, life) = (self.epoch(from), self.locator_life);
        let Ask { id, request } = ask;
        let call = Call { id, request };
        self.send(
            from,
            Node::Locator,
            Event::Question {
                from,
                epoch,
                life,
                call,
            },
        );
    }

    fn act(&mut self, client: usize, action: Action) {
        let (from, epoch) = (Node::Client(client), self.clients[client].epoch);
        match action {
            Action::Ask(ask) => self.ask(from, ask),
            Action::Store(store) => {
                let Some(Doing::Put { number, .. }) = &self.clients[client].doing else {
                    return;
                };
                let content = contents(*number)[store.tract.index as usize].clone();
                let late = self.faulty && self.rng.random_bool(0.03);
                let ms = if late { 500..8000 } else { 5..100 };
                self.after(
                    ms,
                    Event::Arrival {
                        client,
                        epoch,
                        store,
                        content,
                    },
                );
            }
            Action::Fetch(fetch) => self.after(
                1..20,
                Event::Request {
                    to: from,
                    epoch,
                    fetch,
                },
            ),
        }
    }

    fn begin(&mut self, number: usize) {
        let now = self.now;
        let client = &mut self.clients[number];
        let Some(left) = client.left.checked_sub(1) else {
            return;
        };
        client.left = left;
        client.epoch += 1;
        client.began = now.as_nanos();
        client.name = NAMES[self.rng.random_range(0..NAMES.len())].to_owned();
        let doing = match self.rng.random_range(0..10) {
            0..5 => {
                self.puts += 1;
                let pieces = contents(self.puts);
                let pieces = pieces.iter().map(|content| Piece {
                    bytes: content.len() as u64,
                    sha256: Digest::of(content),
                });
                let multicast = self.rng.random();
                Doing::Put {
                    put: Put::new(now, &client.name, pieces.collect(), multicast),
                    number: self.puts,
                }
            }
            5..8 => Doing::Get {
                get: Get::new(now, &client.name, self.rng.random()),
                content: BTreeMap::new(),
            },
            _ => {
                client.name.clear();
                Doing::List(List::new(now))
            }
        };
        client.doing = Some(doing);
    }

    fn finish(&mut self, number: usize) {
        let Some(did) = self.outcome(number) else {
            return;
        };
        let client = &mut self.clients[number];
        client.doing = None;
        // What comes late for it is for nobody.
        client.epoch += 1;
        if let Some(did) = did {
            self.record(number, did);
        }
        self.after(0..800, Event::Begin { client: number });
    }

    fn record(&mut self, number: usize, did: Did) {
        let client = &self.clients[number];
        let ended = match did {
            Did::MayPut { .. } => u64::MAX,
            _ => self.now.as_nanos(),
        };
        self.history.push(Operation {
            name: client.name.clone(),
            began: client.began,
            ended,
            did,
        });
    }

    /// `None`: it goes on. `Some(None)`: it has had no effect and says nothing.
    fn outcome(&mut self, number: usize) -> Option<Option<Did>> {
        let counts = &mut self.counts;
        let did = match self.clients[number].doing.as_ref()? {
            Doing::Put { put, number } => match put.outcome()? {
                PutOutcome::Stored { version, lacking } => {
                    counts.stored += 1;
                    counts.with_fewer_replicas += u64::from(!lacking.is_empty());
                    Some(Did::Put {
                        content: *number,
                        version: *version,
                    })
                }
                PutOutcome::Conflict { .. } => {
                    counts.conflicts += 1;
                    Some(Did::Lost)
                }
                PutOutcome::Unknown(_) => {
                    counts.unknown += 1;
                    Some(Did::MayPut { content: *number })
                }
                PutOutcome::Failed(_) => {
                    counts.failed_puts += 1;
                    None
                }
            },
            Doing::Get { get, content } => match get.outcome()? {
                GetOutcome::Got(got) => {
                    counts.got += 1;
                    counts.complaints += u64::from(!got.complaints.is_empty());
                    let parts = (0..got.blob.tracts.len()).filter_map(|i| content.get(&(i as u32)));
                    let parts: Vec<_> = parts.cloned().collect();
                    match author(&parts) {
                        Some(author) => Some(Did::Get {
                            found: Some((author, got.blob.version)),
                        }),
                        None => {
                            self.problems.push(format!("a mixed object: {parts:?}"));
                            None
                        }
                    }
                }
                GetOutcome::Missing => Some(Did::Get { found: None }),
                GetOutcome::Failed(_) => {
                    counts.failed_gets += 1;
                    None
                }
            },
            Doing::List(list) => match list.outcome()? {
                ListOutcome::Blobs(blobs) => {
                    counts.lists += 1;
                    let blobs = blobs
                        .iter()
                        .map(|listed| (listed.name.clone(), listed.version));
                    Some(Did::List {
                        blobs: blobs.collect(),
                    })
                }
                ListOutcome::Failed(_) => None,
            },
        };
        Some(did)
    }

    fn plan_faults(&mut self) {
        // Only the disk of one host loses what it has confirmed: two copies are on others.
        let unlucky = self.rng.random_range(0..HOSTS);
        let start = self.now;
        for _ in 0..self.rng.random_range(6..18) {
            let host = self.rng.random_range(0..HOSTS);
            let client = self.rng.random_range(0..CLIENTS);
            let (fault, end) = match self.rng.random_range(0..11) {
                0 | 1 => (Fault::CrashHost(host), Some(Fault::StartHost(host))),
                2 => (Fault::CrashLocator, Some(Fault::StartLocator)),
                3 => (Fault::Full(host, true), Some(Fault::Full(host, false))),
                4 => (Fault::Rot(unlucky), None),
                5 => (Fault::Replace(unlucky), None),
                6 => (Fault::CrashClient(client), None),
                // Clients cannot reach half of the replicas, while the locator can.
                7 => {
                    let half = (0..HOSTS).filter(|n| n % 2 == host % 2);
                    let pairs = half.flat_map(|n| (0..CLIENTS).map(move |c| (n, c)));
                    let pairs = pairs.map(|(n, c)| (Node::Client(c), Node::Host(n)));
                    let pairs: Vec<_> = pairs.collect();
                    (
                        Fault::Cut(pairs.clone(), true),
                        Some(Fault::Cut(pairs, false)),
                    )
                }
                8 => {
                    let pairs = (0..HOSTS).map(|n| (Node::Client(client), Node::Host(n)));
                    let pairs: Vec<_> = pairs.collect();
                    (
                        Fault::Cut(pairs.clone(), true),
                        Some(Fault::Cut(pairs, false)),
                    )
                }
                9 => (Fault::Repair, None),
                _ => {
                    let pairs = vec![
                        (Node::Locator, Node::Host(host)),
                        (Node::Locator, Node::Client(client)),
                    ];
                    (
                        Fault::Cut(pairs.clone(), true),
                        Some(Fault::Cut(pairs, false)),
                    )
                }
            };
            let at = self.rng.random_range(0..FAULTS_NS / 1_000_000);
            self.now = start;
            self.after(at..at + 1, Event::Fault(fault));
            if let Some(end) = end {
                let lasts = self.rng.random_range(100..9000);
                self.after(at + lasts..at + lasts + 1, Event::Fault(end));
            }
        }
        // And hosts that crash in the middle of what they do.
        for _ in 0..3 {
            let host = self.rng.random_range(0..HOSTS);
            if let Some(replica) = &mut self.hosts[host].replica {
                replica.disk.fuse = Some(self.rng.random_range(1..60));
            }
        }
    }

    fn fault(&mut self, fault: Fault) {
        let now = self.now;
        match fault {
            Fault::Repair => {
                if let Some(locator) = &mut self.locator {
                    locator.handle(now, Request::Repair {});
                }
            }
            Fault::CrashHost(number) => {
                let host = &mut self.hosts[number];
                if let Some(replica) = host.replica.take() {
                    let mut files = replica.disk;
                    // Those that were deleted or have rotted are not meant.
                    host.confirmed.retain(|name| is_sound(&files, name));
                    files.crash(&mut self.rng);
                    if !host.confirmed.iter().all(|name| is_sound(&files, name)) {
                        let problem = "a crash took what was confirmed".to_owned();
                        self.problems.push(problem);
                    }
                    host.files = Some(files);
                    host.epoch += 1;
                    self.counts.crashes += 1;
                }
            }
            Fault::StartHost(number) => {
                let host = &mut self.hosts[number];
                if let Some(files) = host.files.take() {
                    host.epoch += 1;
                    let start = host.epoch;
                    let replica = Replica::new(now, host.address, host.store, start, files);
                    host.replica = Some(replica);
                }
            }
            Fault::CrashLocator => {
                self.counts.crashes += u64::from(self.locator.is_some());
                self.locator = None;
                self.unwritten.clear();
                self.locator_life += 1;
            }
            Fault::StartLocator => {
                if self.locator.is_none() {
                    let config = config(&self.hosts);
                    let opened = Locator::open(now, config, self.database.clone());
                    let (locator, changes) = opened.unwrap();
                    changes
                        .into_iter()
                        .for_each(|change| self.database.apply(change));
                    self.locator = Some(locator);
                }
            }
            Fault::Cut(pairs, cut) => {
                for (a, b) in pairs {
                    let pair = (a.min(b), a.max(b));
                    match cut {
                        true => self.cut.insert(pair),
                        false => self.cut.remove(&pair),
                    };
                }
            }
            Fault::Full(number, full) => {
                let host = &mut self.hosts[number];
                let replica = host.replica.as_mut().map(|replica| &mut replica.disk);
                if let Some(files) = replica.or(host.files.as_mut()) {
                    files.full = full;
                }
            }
            Fault::Rot(number) => {
                if let Some(replica) = &mut self.hosts[number].replica {
                    (0..5).for_each(|_| replica.disk.rot(&mut self.rng));
                }
            }
            Fault::Replace(number) => {
                self.fault(Fault::CrashHost(number));
                let host = &mut self.hosts[number];
                if let Some(files) = &mut host.files {
                    host.store = self.rng.random();
                    host.confirmed.clear();
                    *files = Files::new(files.lies);
                }
                self.fault(Fault::StartHost(number));
            }
            Fault::CrashClient(number) => {
                let Some(doing) = self.clients[number].doing.take() else {
                    return;
                };
                if let Doing::Put { number: put, .. } = doing {
                    self.record(number, Did::MayPut { content: put });
                }
                self.clients[number].epoch += 1;
                self.after(0..1500, Event::Begin { client: number });
            }
        }
    }

    /// The faults are over.
    fn heal(&mut self) {
        self.faulty = false;
        self.cut.clear();
        self.events
            .retain(|_, event| !matches!(event, Event::Fault(_)));
        self.fault(Fault::StartLocator);
        for number in 0..HOSTS {
            self.fault(Fault::StartHost(number));
            self.fault(Fault::Full(number, false));
            if let Some(replica) = &mut self.hosts[number].replica {
                replica.disk.fuse = None;
            }
        }
        // All are heard.
        self.run_until(self.now + Duration::from_secs(10));
    }

    fn status(&mut self) -> Status {
        let now = self.now;
        let locator = self.locator.as_mut().unwrap();
        match locator.handle(now, Request::Status {}) {
            (_, Some(Reply::Status(status))) => status,
            other => panic!("{other:?}"),
        }
    }

    fn repair(&mut self) {
        let now = self.now;
        let (_, reply) = self
            .locator
            .as_mut()
            .unwrap()
            .handle(now, Request::Repair {});
        let Some(Reply::Repairing { repair }) = reply else {
            panic!("{reply:?}");
        };
        let patience = now + Duration::from_secs(100);
        loop {
            self.run_until(self.now + Duration::from_secs(1));
            let servers = self.status().servers;
            let done = |server: &Server| {
                server.alive && server.repair.is_some_and(|p| p.repair == repair && p.done)
            };
            if servers.iter().all(done) {
                for progress in servers.iter().filter_map(|server| server.repair) {
                    self.counts.copied += progress.copied;
                    self.counts.damaged += progress.damaged;
                    self.counts.deleted += progress.deleted;
                }
                return;
            }
            if self.now > patience {
                self.problems
                    .push(format!("a repair does not end: {servers:?}"));
                return;
            }
        }
    }

    /// After a repair each tract is on all replicas of its row and nowhere else, and nothing else is.
    fn check_disks(&mut self) {
        let status = self.status();
        if (status.short, status.lost) != (0, 0) {
            let (short, lost) = (status.short, status.lost);
            self.problems
                .push(format!("{short} tracts have too few copies, {lost} none"));
        }
        let mut expected = BTreeSet::new();
        for (name, blob) in &self.database.blobs {
            for index in 0..blob.tracts.len() {
                let row = status.table.row(name, index);
                let tract = blob.tract_name(index);
                expected.extend(
                    row.replicas
                        .iter()
                        .map(|server| (*server, tract.to_string())),
                );
            }
        }
        let mut found = BTreeSet::new();
        for host in &mut self.hosts {
            let disk = &mut host.replica.as_mut().unwrap().disk;
            for name in disk.names().unwrap() {
                let tract: TractName = name.parse().unwrap();
                if disk.sha256(&name).unwrap() == Some(tract.sha256) {
                    found.insert((host.address, name));
                }
            }
        }
        for (server, name) in expected.symmetric_difference(&found) {
            self.problems.push(format!("{server} and {name}"));
        }
    }

    /// Everything is there now that nothing fails any more.
    fn read_all(&mut self) {
        let before = self.counts.failed_gets;
        for name in NAMES {
            let (now, many) = (self.now, self.rng.random());
            let client = &mut self.clients[0];
            client.epoch += 1;
            client.began = now.as_nanos();
            client.name = name.to_owned();
            client.doing = Some(Doing::Get {
                get: Get::new(now, name, many),
                content: BTreeMap::new(),
            });
            self.drive();
            self.run_until(self.now + Duration::from_secs(30));
            if self.clients[0].doing.is_some() {
                self.problems.push(format!("`{name}` is not read in 30 s"));
            }
        }
        if self.counts.failed_gets > before {
            self.problems.push("a blob cannot be read".to_owned());
        }
    }

    fn check_history(&mut self) {
        if linearize(&self.history).is_none() {
            self.problems
                .push("the history is not linearizable".to_owned());
        }
        for lost in unfounded_conflicts(&self.history) {
            self.problems
                .push(format!("a conflict without another put: {lost:?}"));
        }
    }
}
