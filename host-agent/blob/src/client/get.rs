//! Reading a blob: what its content is, the locator says; each tract then comes from any server that
//! holds it, and is looked at before it counts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ebb_units::Instant;

use super::action::{Action, Fetch, WINDOW};
use crate::asking::Asking;
use crate::message::{Blob, Reply, Request};
use crate::name::Digest;

/// How often the locator is asked again because a tract was nowhere.
const ROUNDS: u32 = 3;

/// Result of a read; the caller of [`Get`] has the content of its tracts, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Got {
    /// The content of the name.
    pub blob: Blob,
    /// Servers that had other content than they should, or did not answer, with the reason.
    pub complaints: BTreeMap<Ipv4Addr, String>,
}

/// The end of a read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GetOutcome {
    /// The content has been read.
    Got(Got),
    /// No content has the name.
    Missing,
    /// It cannot be read, for this reason.
    Failed(String),
}

/// A tract that is being fetched.
#[derive(Default)]
struct Fetching {
    done: bool,
    running: bool,
    tried_all: bool,
    tried: BTreeSet<Ipv4Addr>,
}

/// A read.
pub struct Get {
    name: String,
    /// Whether there is a transport that fetches from several servers at once.
    many: bool,
    asking: Asking,
    blob: Option<Blob>,
    tracts: Vec<Fetching>,
    transfers: BTreeMap<u64, (usize, Vec<Ipv4Addr>)>,
    last_transfer: u64,
    complaints: BTreeMap<Ipv4Addr, String>,
    last_reason: String,
    rounds: u32,
    outcome: Option<GetOutcome>,
}

impl Get {
    /// Begins a read. `many`: whether tracts come from several servers at once.
    pub fn new(now: Instant, name: &str, many: bool) -> Self {
        let mut asking = Asking::limited();
        let name = name.to_owned();
        asking.ask(now, Request::Lookup { name: name.clone() });
        Get {
            name,
            many,
            asking,
            blob: None,
            tracts: Vec::new(),
            transfers: BTreeMap::new(),
            last_transfer: 0,
            complaints: BTreeMap::new(),
            last_reason: String::new(),
            rounds: 0,
            outcome: None,
        }
    }

    /// The end of it; `None`: it goes on.
    pub fn outcome(&self) -> Option<&GetOutcome> {
        self.outcome.as_ref()
    }

    /// Bytes that have arrived, and all; 0 before it is known how many there are.
    pub fn progress(&self) -> (u64, u64) {
        let Some(blob) = &self.blob else {
            return (0, 0);
        };
        let done = blob
            .tracts
            .iter()
            .zip(&self.tracts)
            .filter(|(_, fetching)| fetching.done);
        (done.map(|(tract, _)| tract.bytes).sum(), blob.bytes())
    }

    /// When [`poll`](Self::poll) has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.asking.next_deadline()
    }

    /// The next thing that is to be done.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        if self.outcome.is_some() {
            return None;
        }
        if self.asking.is_hopeless(now) {
            self.outcome = Some(GetOutcome::Failed("the locator does not answer".to_owned()));
            return None;
        }
        if let Some(ask) = self.asking.poll(now) {
            return Some(Action::Ask(ask));
        }
        if self.asking.is_open() {
            return None;
        }
        if let Some(fetch) = self.next_fetch() {
            return Some(Action::Fetch(fetch));
        }
        if self.transfers.is_empty() {
            self.conclude(now);
            return self.poll(now);
        }
        None
    }

    /// Takes the answer to the question with this number.
    pub fn handle_reply(&mut self, id: u64, reply: Reply) {
        let Some((_, reply)) = self.asking.answered(id, reply) else {
            return;
        };
        match reply {
            Reply::Found { blob } => {
                // Tracts that have arrived are of that content.
                let same = self
                    .blob
                    .as_ref()
                    .is_some_and(|known| known.write == blob.write);
                if !same {
                    self.tracts.clear();
                }
                self.tracts
                    .resize_with(blob.tracts.len(), Fetching::default);
                for fetching in &mut self.tracts {
                    fetching.tried.clear();
                    fetching.tried_all = false;
                }
                self.blob = Some(blob);
            }
            Reply::Missing {} => self.outcome = Some(GetOutcome::Missing),
            Reply::Refused { reason } => self.outcome = Some(GetOutcome::Failed(reason)),
            _ => {
                let reason = "the locator answers another question".to_owned();
                self.outcome = Some(GetOutcome::Failed(reason));
            }
        }
    }

    /// A transfer of a [`Fetch`] has ended, with content of this digest. True: it is the tract.
    pub fn handle_fetched(&mut self, transfer: u64, result: Result<Digest, String>) -> bool {
        let Some((index, from)) = self.transfers.remove(&transfer) else {
            return false;
        };
        let (Some(fetching), Some(blob)) = (self.tracts.get_mut(index), &self.blob) else {
            return false;
        };
        fetching.running = false;
        let reason = match result {
            Ok(digest) if digest == blob.tracts[index].sha256 => {
                fetching.done = true;
                return true;
            }
            Ok(_) => format!("what is stored as tract {index} is something else"),
            Err(reason) => reason,
        };
        if let [server] = from[..] {
            self.complaints.insert(server, reason.clone());
        }
        self.last_reason = reason;
        false
    }

    fn next_fetch(&mut self) -> Option<Fetch> {
        let blob = self.blob.as_ref()?;
        if self.transfers.len() >= WINDOW {
            return None;
        }
        for (index, fetching) in self.tracts.iter_mut().enumerate() {
            if fetching.done || fetching.running {
                continue;
            }
            let holders = &blob.tracts[index].holders;
            let all = self.many && holders.len() > 1 && !fetching.tried_all;
            let from: Vec<_> = match all {
                true => holders.iter().copied().collect(),
                false => next_holder(holders, &fetching.tried, index)
                    .into_iter()
                    .collect(),
            };
            if from.is_empty() {
                continue;
            }
            match all {
                true => fetching.tried_all = true,
                false => fetching.tried.extend(&from),
            }
            fetching.running = true;
            self.last_transfer += 1;
            self.transfers
                .insert(self.last_transfer, (index, from.clone()));
            return Some(Fetch {
                transfer: self.last_transfer,
                tract: blob.tract_name(index),
                bytes: blob.tracts[index].bytes,
                from,
            });
        }
        None
    }

    /// Nothing is requested: everything has arrived, or the holders have changed.
    fn conclude(&mut self, now: Instant) {
        let Some(blob) = &self.blob else {
            return;
        };
        if self.tracts.iter().all(|fetching| fetching.done) {
            self.outcome = Some(GetOutcome::Got(Got {
                blob: blob.clone(),
                complaints: self.complaints.clone(),
            }));
            return;
        }
        self.rounds += 1;
        if self.rounds < ROUNDS {
            let name = self.name.clone();
            self.asking.ask(now, Request::Lookup { name });
            return;
        }
        let mut reason = "no server has all tracts".to_owned();
        for (server, why) in &self.complaints {
            reason += &format!("; {server}: {why}");
        }
        if self.complaints.is_empty() && !self.last_reason.is_empty() {
            reason += &format!("; {}", self.last_reason);
        }
        self.outcome = Some(GetOutcome::Failed(reason));
    }
}

/// A holder that was not tried; tracts begin at different ones, so that all serve.
fn next_holder(
    holders: &BTreeSet<Ipv4Addr>,
    tried: &BTreeSet<Ipv4Addr>,
    index: usize,
) -> Option<Ipv4Addr> {
    let first = index % holders.len().max(1);
    let turned = holders.iter().skip(first).chain(holders.iter().take(first));
    turned.copied().find(|server| !tried.contains(server))
}
