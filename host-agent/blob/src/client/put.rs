//! Writing a blob: its tracts are stored first, under names of this write; then the locator makes them
//! the content of the name, unless somebody else was faster.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ebb_units::{Duration, Instant};

use super::action::{Action, Piece, Store, WINDOW};
use crate::asking::Asking;
use crate::message::{Reply, Request, Stored};
use crate::name::{Stamp, TractName};
use crate::table::{Row, Table};

/// Failed transfers to a replica alone after which the rest of the write leaves it out.
const MAX_FAILURES: u32 = 2;
/// Most times that a write begins again because the locator has forgotten it, or rows have changed.
const MAX_ROUNDS: u32 = 8;

/// Result of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PutOutcome {
    /// It has taken effect.
    Stored {
        /// Version of the content.
        version: u64,
        /// Replicas that lack tracts, with the reason: a repair brings them.
        lacking: BTreeMap<Ipv4Addr, String>,
    },
    /// Another write has taken effect since this one began. This one has not and will not.
    Conflict {
        /// Version of that content.
        version: u64,
    },
    /// It has not taken effect and will not.
    Failed(String),
    /// The commit was sent and not answered: it may have taken effect, or may yet.
    Unknown(String),
}

/// A tract on its way to the replicas of its row.
struct Placing {
    row: Row,
    /// Replicas that have it.
    held: BTreeSet<Ipv4Addr>,
    /// Replicas to which it is being sent.
    sending: BTreeSet<Ipv4Addr>,
    /// All replicas were tried as one group.
    tried_group: bool,
}

/// A write that the locator has opened.
struct Open {
    write: Stamp,
    /// Version of the content when the write began.
    base: u64,
    /// Time without a message after which the locator forgets the write.
    patience: Duration,
    /// Replicas that have to hold each tract.
    least: usize,
    /// Time of the last message to the locator that kept the write open.
    renewed: Instant,
    tracts: Vec<Placing>,
}

/// A write.
pub struct Put {
    name: String,
    pieces: Vec<Piece>,
    /// Whether there is a transport that sends to a group.
    multicast: bool,
    asking: Asking,
    /// `None`: the write has not begun.
    open: Option<Open>,
    /// Running transfers by number: index of the tract, and receivers.
    transfers: BTreeMap<u64, (usize, Vec<Ipv4Addr>)>,
    last_transfer: u64,
    /// Failed transfers to each replica, and the reason of the last one.
    failures: BTreeMap<Ipv4Addr, (u32, String)>,
    /// A commit of the open write was sent, and its answer is lost or on its way.
    in_doubt: bool,
    rounds: u32,
    outcome: Option<PutOutcome>,
}

impl Put {
    /// Begins a write. `multicast`: whether a tract goes to a group of replicas at once.
    pub fn new(now: Instant, name: &str, pieces: Vec<Piece>, multicast: bool) -> Self {
        let mut put = Put {
            name: name.to_owned(),
            pieces,
            multicast,
            asking: Asking::limited(),
            open: None,
            transfers: BTreeMap::new(),
            last_transfer: 0,
            failures: BTreeMap::new(),
            in_doubt: false,
            rounds: 0,
            outcome: None,
        };
        put.begin(now);
        put
    }

    /// Result of the write. `None`: it has not ended.
    pub fn outcome(&self) -> Option<&PutOutcome> {
        self.outcome.as_ref()
    }

    /// Bytes of the tracts that enough replicas hold, and of all tracts.
    pub fn progress(&self) -> (u64, u64) {
        let total = self.pieces.iter().map(|piece| piece.bytes).sum();
        let Some(open) = &self.open else {
            return (0, total);
        };
        let placed = self.pieces.iter().zip(&open.tracts);
        let done = placed.filter(|(_, placing)| placing.held.len() >= open.least);
        (done.map(|(piece, _)| piece.bytes).sum(), total)
    }

    /// When [`poll`](Self::poll) has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        let waiting = !self.asking.is_open() && !self.transfers.is_empty();
        let renewal = self.open.as_ref().filter(|_| waiting).map(Open::renewal);
        Instant::earliest([self.asking.next_deadline(), renewal])
    }

    /// The next action. `None`: there is none until an answer, the end of a transfer or the next deadline.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        if self.outcome.is_some() {
            return None;
        }
        if self.asking.is_hopeless(now) {
            self.give_up("the locator does not answer");
            return None;
        }
        if let Some(ask) = self.asking.poll(now) {
            self.in_doubt |= matches!(ask.request, Request::Commit { .. });
            return Some(Action::Ask(ask));
        }
        if self.asking.is_open() {
            return None;
        }
        if let Some(store) = self.next_store() {
            return Some(Action::Store(store));
        }
        let open = self.open.as_mut()?;
        if !self.transfers.is_empty() {
            if open.renewal() > now {
                return None;
            }
            open.renewed = now;
            let write = open.write;
            self.asking.ask(now, Request::Renew { write });
        } else {
            self.commit(now);
        }
        // The request that was made just now, if there is one.
        self.poll(now)
    }

    /// Handles the answer to the request with number `id`.
    pub fn handle_reply(&mut self, now: Instant, id: u64, reply: Reply) {
        let Some((attempts, reply)) = self.asking.answered(id, reply) else {
            return;
        };
        match reply {
            Reply::Begun {
                write,
                base,
                patience_ms,
                least,
                table,
            } => {
                self.open = Some(Open {
                    write,
                    base,
                    patience: Duration::from_millis(patience_ms),
                    least,
                    renewed: now,
                    tracts: Vec::new(),
                });
                self.place(&table);
            }
            Reply::Renewed {} => {}
            Reply::Committed { version } => {
                let lacking = self.lacking();
                self.outcome = Some(PutOutcome::Stored { version, lacking });
            }
            Reply::Conflict { version } => self.outcome = Some(PutOutcome::Conflict { version }),
            Reply::NotOpen { version } => self.not_open(now, version, attempts),
            Reply::Moved { table } => {
                self.in_doubt = false;
                if self.another_round("the replicas change all the time") {
                    self.place(&table);
                }
            }
            // If the request was sent more than once, an earlier answer, which is lost or on its way, may differ.
            Reply::Refused { reason } => {
                self.in_doubt &= attempts > 1;
                self.give_up(&reason);
            }
            _ => self.give_up("the locator answers another question"),
        }
    }

    /// A transfer of a [`Store`] has ended: all its receivers have the tract on their disks, or it is
    /// not known which of them have.
    pub fn handle_stored(&mut self, transfer: u64, result: Result<(), String>) {
        let Some((index, to)) = self.transfers.remove(&transfer) else {
            return;
        };
        let Some(placing) = self
            .open
            .as_mut()
            .and_then(|open| open.tracts.get_mut(index))
        else {
            return;
        };
        for server in &to {
            placing.sending.remove(server);
        }
        match result {
            Ok(()) => placing.held.extend(to),
            // The failure of a group does not show which replica caused it; each is then tried alone.
            Err(reason) => {
                if let [server] = to[..] {
                    let failure = self.failures.entry(server).or_default();
                    *failure = (failure.0 + 1, reason);
                }
            }
        }
    }

    fn begin(&mut self, now: Instant) {
        self.open = None;
        self.transfers.clear();
        self.in_doubt = false;
        let name = self.name.clone();
        self.asking.ask(now, Request::Begin { name });
    }

    /// Replicas of rows that lack a tract of theirs, with the reason.
    fn lacking(&self) -> BTreeMap<Ipv4Addr, String> {
        let placings = self.open.iter().flat_map(|open| &open.tracts);
        let lacking = placings.flat_map(Placing::lacking);
        let with_reason = |server| match self.failures.get(&server) {
            Some((_, reason)) => (server, reason.clone()),
            None => (server, String::new()),
        };
        lacking.map(with_reason).collect()
    }

    /// Counts another round of the write. False: there were too many, and the write ends for the reason `why_not`.
    fn another_round(&mut self, why_not: &str) -> bool {
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            self.give_up(why_not);
            return false;
        }
        true
    }

    /// The locator does not know the write, so it cannot take effect any more. Decides by `version`, which the name has
    /// now, whether it may have taken effect before; if not, begins again.
    fn not_open(&mut self, now: Instant, version: u64, attempts: u32) {
        let base = self.open.as_ref().map_or(0, |open| open.base);
        let first = !self.in_doubt || attempts == 1;
        // Only a commit is answered with a version.
        if self.in_doubt && version != base {
            self.outcome = Some(match first {
                true => PutOutcome::Conflict { version },
                false => PutOutcome::Unknown(
                    "the locator has not answered in time, and somebody else has written since"
                        .to_owned(),
                ),
            });
        } else if self.another_round("the locator forgets the write again and again") {
            self.begin(now);
        }
    }

    fn give_up(&mut self, reason: &str) {
        let reason = reason.to_owned();
        self.outcome = Some(match self.in_doubt {
            true => PutOutcome::Unknown(reason),
            false => PutOutcome::Failed(reason),
        });
    }

    /// Assigns each tract to its row of `table`. Tracts whose rows have changed have to be stored again.
    fn place(&mut self, table: &Table) {
        self.failures.clear();
        let Some(open) = &mut self.open else {
            return;
        };
        if table.rows.is_empty() {
            self.give_up("the locator has an empty table");
            return;
        }
        for index in 0..self.pieces.len() {
            let row = table.row(&self.name, index);
            let unchanged = open.tracts.get(index);
            if unchanged.is_some_and(|placing| placing.row.version == row.version) {
                continue;
            }
            let placing = Placing {
                row: row.clone(),
                held: BTreeSet::new(),
                sending: BTreeSet::new(),
                tried_group: false,
            };
            match open.tracts.get_mut(index) {
                Some(known) => *known = placing,
                None => open.tracts.push(placing),
            }
        }
    }

    fn next_store(&mut self) -> Option<Store> {
        let open = self.open.as_mut()?;
        if self.transfers.len() >= WINDOW {
            return None;
        }
        let failures = &self.failures;
        let left_out = |server: &Ipv4Addr| {
            failures
                .get(server)
                .is_some_and(|(n, _)| *n >= MAX_FAILURES)
        };
        for (index, placing) in open.tracts.iter_mut().enumerate() {
            let to: Vec<_> = placing
                .lacking()
                .filter(|server| !left_out(server))
                .collect();
            let all = placing.sending.is_empty() && to.len() == placing.row.replicas.len();
            let group = self.multicast && to.len() > 1 && all && !placing.tried_group;
            let to = match group {
                true => to,
                false => to.into_iter().take(1).collect(),
            };
            if to.is_empty() {
                continue;
            }
            placing.tried_group |= group;
            placing.sending.extend(&to);
            self.last_transfer += 1;
            let tract = TractName {
                write: open.write,
                index: index as u32,
                sha256: self.pieces[index].sha256,
            };
            self.transfers
                .insert(self.last_transfer, (index, to.clone()));
            return Some(Store {
                transfer: self.last_transfer,
                tract,
                to,
            });
        }
        None
    }

    /// No transfer is left. Asks for the commit if enough replicas hold each tract; otherwise the write fails.
    fn commit(&mut self, now: Instant) {
        let Some(open) = &self.open else {
            return;
        };
        let least = open.least;
        let short = open
            .tracts
            .iter()
            .position(|placing| placing.held.len() < least);
        if let Some(index) = short {
            let placing = &open.tracts[index];
            let (held, of) = (placing.held.len(), placing.row.replicas.len());
            let mut reason = format!(
                "tract {index} is on {held} replicas of the {of} in its row, and {least} are needed"
            );
            for (server, (_, why)) in &self.failures {
                reason += &format!("; {server}: {why}");
            }
            self.outcome = Some(PutOutcome::Failed(reason));
            return;
        }
        let tracts = self
            .pieces
            .iter()
            .zip(&open.tracts)
            .map(|(piece, placing)| Stored {
                bytes: piece.bytes,
                sha256: piece.sha256,
                row_version: placing.row.version,
                replicas: placing.held.clone(),
            });
        let commit = Request::Commit {
            write: open.write,
            name: self.name.clone(),
            tracts: tracts.collect(),
        };
        self.asking.ask(now, commit);
    }
}

impl Open {
    /// Time of the next message that keeps the write open.
    fn renewal(&self) -> Instant {
        self.renewed + self.patience.mul_div(1, 3)
    }
}

impl Placing {
    /// Replicas that neither have it nor are getting it.
    fn lacking(&self) -> impl Iterator<Item = Ipv4Addr> {
        let replicas = self.row.replicas.iter().copied();
        replicas.filter(|server| !self.held.contains(server) && !self.sending.contains(server))
    }
}
