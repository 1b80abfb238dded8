//! The share of one host in a workload, with its times. No clock and no network: the caller polls for
//! actions and reports their outcome.
//!
//! All hosts have the same schedule; each keeps what concerns it:
//!
//! * transfers it starts (sends, queries, responses, fetches),
//! * objects that others will fetch from it, to be offered before,
//! * transfers that it receives: the run ends when all of them are there too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::Serialize;

use crate::hosts::HostId;
use crate::transfer::{After, Kind, Moment, Transfer};

/// Something to be done now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Prepare a send.
    Send {
        /// The transfer.
        transfer: Arc<Transfer>,
        /// When its packets leave.
        at_ns: u64,
    },
    /// Ask for it now.
    Fetch {
        /// The transfer.
        transfer: Arc<Transfer>,
    },
    /// Let others fetch it from now on.
    Offer {
        /// The transfer.
        transfer: Arc<Transfer>,
    },
    /// Nobody needs it any more.
    Withdraw {
        /// Id of the transfer.
        id: u64,
    },
}

/// Part of a host in a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// It starts it.
    Start,
    /// Others fetch it from here.
    Serve,
    /// Others send it here.
    Receive,
}

/// A transfer whose end has not come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Open {
    /// The transfer.
    pub transfer: Arc<Transfer>,
    /// Part of this host in it.
    pub part: Part,
    /// When it was to start. `None`: that depends on something that has not happened, or that
    /// another host decides.
    pub offered_at_ns: Option<u64>,
}

/// Fields of a transfer in the line of a flow: `docs/workloads.md`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct OpenFields<'a> {
    /// Id of the transfer.
    pub transfer: u64,
    /// Id of its job.
    pub job: u64,
    /// Name of the part of the workload.
    pub traffic: &'a str,
    /// Direction and number of its ends.
    pub kind: Kind,
    /// Part of this host in it.
    pub part: Part,
    /// Bytes of content.
    pub bytes: u64,
    /// When it was to start, in ns since the epoch of the run. None: not known here.
    pub offered_at_ns: Option<u64>,
    /// Time from then to its start, in ns. None: this host did not start it.
    pub late_ns: Option<u64>,
    /// Flow completion time, in ns: from `offered_at_ns` to the end. None: it is not known here.
    pub fct_ns: Option<u64>,
}

impl Open {
    /// Reason why it has not ended at the end of a run.
    pub fn unfinished(&self) -> String {
        let why = match (self.part, self.transfer.after) {
            (Part::Start, Some(after)) if self.offered_at_ns.is_none() => {
                let cause = after.transfer;
                format!("transfer {cause}, for which it waits, has not ended here")
            }
            (Part::Start, _) => "it is under way".to_owned(),
            (Part::Serve, _) => "it has not been fetched".to_owned(),
            (Part::Receive, _) => "it has not come".to_owned(),
        };
        format!("unfinished at the end of the run: {why}")
    }

    /// Reason why it never began, if the transfer that it waits for failed.
    pub fn not_started(&self) -> String {
        match self.transfer.after {
            Some(After { transfer, .. }) => {
                format!("never begun: transfer {transfer}, for which it waits, failed")
            }
            None => "never begun".to_owned(),
        }
    }

    /// `started_at_ns`: when this host began with it. `finished_at_ns`: of a flow of it that has
    /// ended well.
    pub fn fields(
        &self,
        started_at_ns: Option<u64>,
        finished_at_ns: Option<u64>,
    ) -> OpenFields<'_> {
        let since_offered = |at_ns: Option<u64>| Some(at_ns?.saturating_sub(self.offered_at_ns?));
        let transfer = &self.transfer;
        OpenFields {
            transfer: transfer.id,
            job: transfer.job,
            traffic: &transfer.traffic,
            kind: transfer.kind,
            part: self.part,
            bytes: transfer.bytes,
            offered_at_ns: self.offered_at_ns,
            late_ns: since_offered(started_at_ns.filter(|_| self.part == Part::Start)),
            fct_ns: since_offered(finished_at_ns),
        }
    }
}

/// The share of one host in a schedule, as far as it was added.
pub struct Share {
    me: HostId,
    /// The time that the schedule calls 0.
    epoch_ns: u64,
    open: BTreeMap<u64, Open>,
    /// Number of the open transfers that this host starts.
    to_end: usize,
    /// Ids of transfers that wait for another one, by the id of that: those that this host starts, and those to this
    /// host that wait for its end.
    waiting: BTreeMap<u64, Vec<u64>>,
    /// Transfers of other hosts that are not expected any more, because one that they wait for failed here. They come
    /// all the same if it did not fail at its other end.
    given_up: BTreeMap<u64, Open>,
    /// Fetches to start, by time and id.
    fetches: BTreeSet<(u64, u64)>,
    actions: VecDeque<Action>,
    /// Time at which the work on all queries that have arrived will be done.
    free_at_ns: u64,
    /// Transfers that will never start because one that they wait for failed, since they were last taken.
    not_started: Vec<Open>,
    /// Time of the last start or end.
    last_ns: u64,
}

impl Share {
    /// The share of host `me`, before anything was added. `epoch_ns`: instant at which nominal times begin.
    pub fn new(me: HostId, epoch_ns: u64) -> Self {
        Self {
            me,
            epoch_ns,
            open: BTreeMap::new(),
            to_end: 0,
            waiting: BTreeMap::new(),
            given_up: BTreeMap::new(),
            fetches: BTreeSet::new(),
            actions: VecDeque::new(),
            free_at_ns: 0,
            not_started: Vec::new(),
            last_ns: epoch_ns,
        }
    }

    /// Adds a transfer; one that does not concern this host is ignored. To be called before its start, and before the
    /// end of the transfer that it waits for. Schedules list that one no later than this one.
    pub fn add(&mut self, transfer: Arc<Transfer>) {
        let is_fetch = matches!(transfer.kind, Kind::FetchOneToOne | Kind::FetchManyToOne);
        let part = if transfer.initiator() == self.me {
            Part::Start
        } else if is_fetch && transfer.sources.contains(&self.me) {
            Part::Serve
        } else if transfer.destinations.contains(&self.me) {
            Part::Receive
        } else {
            return;
        };
        let start_ns = self.epoch_ns.saturating_add(transfer.start_ns);
        self.last_ns = self.last_ns.max(start_ns);
        let id = transfer.id;
        let offered_at_ns = transfer.after.is_none().then_some(start_ns);
        if part == Part::Serve {
            self.actions.push_back(Action::Offer {
                transfer: transfer.clone(),
            });
        }
        let after = transfer.after;
        self.to_end += usize::from(part == Part::Start);
        let open = Open {
            transfer,
            part,
            offered_at_ns,
        };
        self.open.insert(id, open);
        match (part, after) {
            (Part::Start, None) => self.start(id, start_ns),
            (part, Some(after)) if part == Part::Start || waits_for_end(part, after) => {
                self.waiting.entry(after.transfer).or_default().push(id);
            }
            _ => {}
        }
    }

    /// The next action that is due. Call until `None`.
    pub fn poll_action(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(action) = self.actions.pop_front() {
            return Some(action);
        }
        let &(at_ns, id) = self.fetches.first()?;
        if at_ns > now_ns {
            return None;
        }
        self.fetches.pop_first();
        self.last_ns = self.last_ns.max(now_ns);
        let open = self.open.get(&id)?;
        Some(Action::Fetch {
            transfer: open.transfer.clone(),
        })
    }

    /// Time at which [`poll_action`](Self::poll_action) has an action again. `None`: no fetch is planned.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.fetches.first().map(|&(at_ns, _)| at_ns)
    }

    /// Whether all transfers that were added have ended.
    pub fn is_done(&self) -> bool {
        self.open.is_empty() && self.actions.is_empty()
    }

    /// Transfers that this host has started, or is to start, and that have not ended.
    pub fn to_end(&self) -> usize {
        self.to_end
    }

    /// Transfers that have not ended, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Open> {
        self.open.values()
    }

    /// Transfers that will never start because one that they wait for failed, since the last call.
    pub fn take_not_started(&mut self) -> Vec<Open> {
        std::mem::take(&mut self.not_started)
    }

    /// Time of the last start or end of a transfer, or of the last planned start.
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// A transfer that has not ended, or that was given up and may come all the same.
    pub fn open(&self, id: u64) -> Option<&Open> {
        self.open.get(&id).or_else(|| self.given_up.get(&id))
    }

    /// Removes and returns the transfers that have not ended.
    pub fn take_rest(&mut self) -> Vec<Open> {
        self.actions.clear();
        self.fetches.clear();
        self.to_end = 0;
        std::mem::take(&mut self.open).into_values().collect()
    }

    /// The first bytes of a transfer have arrived here.
    pub fn handle_begun(&mut self, now_ns: u64, id: u64) {
        self.moment(now_ns, id, Moment::Begun);
    }

    /// A transfer has ended here; `good`: with all its bytes. `None`: it is none that was open.
    pub fn handle_end(&mut self, now_ns: u64, id: u64, good: bool) -> Option<Open> {
        let open = self.open.remove(&id)?;
        self.to_end -= usize::from(open.part == Part::Start);
        self.last_ns = self.last_ns.max(now_ns);
        self.forget_waiting(&open);
        if open.part == Part::Serve {
            self.actions.push_back(Action::Withdraw { id });
        }
        if good {
            // Transfers that wait for its beginning need not wait any longer either.
            self.moment(now_ns, id, Moment::Begun);
            self.moment(now_ns, id, Moment::Finished);
        } else {
            self.give_up_dependents(id);
        }
        Some(open)
    }

    /// Removes a transfer that waits for another one, as if it had not been added. No other may wait for it.
    pub fn take_off(&mut self, id: u64) {
        if let Some(open) = self.open.remove(&id) {
            self.to_end -= usize::from(open.part == Part::Start);
            self.forget_waiting(&open);
        }
    }

    /// A transfer to this host has failed, or will never start, at the host that starts it.
    pub fn handle_failed_elsewhere(&mut self, now_ns: u64, id: u64) {
        let before = self.not_started.len();
        self.give_up_dependents(id);
        if self.not_started.len() > before {
            self.last_ns = self.last_ns.max(now_ns);
        }
    }

    /// Removes an ended transfer from those that wait: it may end before the one that it waits for.
    fn forget_waiting(&mut self, ended: &Open) {
        if let Some(After {
            transfer: cause, ..
        }) = ended.transfer.after
            && let Some(ids) = self.waiting.get_mut(&cause)
        {
            ids.retain(|id| *id != ended.transfer.id);
            if ids.is_empty() {
                self.waiting.remove(&cause);
            }
        }
    }

    fn start(&mut self, id: u64, at_ns: u64) {
        let Some(open) = self.open.get_mut(&id) else {
            return;
        };
        open.offered_at_ns = Some(at_ns);
        self.last_ns = self.last_ns.max(at_ns);
        match open.transfer.kind {
            Kind::FetchOneToOne | Kind::FetchManyToOne => {
                self.fetches.insert((at_ns, id));
            }
            _ => {
                let transfer = open.transfer.clone();
                self.actions.push_back(Action::Send { transfer, at_ns });
            }
        }
    }

    /// Starts the transfers that wait for this moment of transfer `cause`.
    fn moment(&mut self, now_ns: u64, cause: u64, moment: Moment) {
        let Some(mut ids) = self.waiting.remove(&cause) else {
            return;
        };
        ids.retain(|&id| {
            let Some(Open { part, transfer, .. }) = self.open.get(&id) else {
                return false;
            };
            let Some(after) = transfer.after else {
                return false;
            };
            if *part != Part::Start {
                return moment != Moment::Finished;
            }
            let start_ns = transfer.start_ns;
            if after.moment != moment {
                return true;
            }
            let mut at_ns = now_ns.max(self.epoch_ns.saturating_add(start_ns));
            if after.serial {
                at_ns = at_ns.max(self.free_at_ns);
                self.free_at_ns = at_ns.saturating_add(after.delay_ns);
            }
            self.start(id, at_ns.saturating_add(after.delay_ns));
            false
        });
        if !ids.is_empty() {
            self.waiting.insert(cause, ids);
        }
    }

    fn give_up_dependents(&mut self, cause: u64) {
        for id in self.waiting.remove(&cause).unwrap_or_default() {
            if let Some(open) = self.open.remove(&id) {
                match open.part {
                    Part::Start => self.to_end -= 1,
                    Part::Receive | Part::Serve => drop(self.given_up.insert(id, open.clone())),
                }
                self.not_started.push(open);
            }
            self.give_up_dependents(id);
        }
    }
}

/// Whether a transfer to this host comes only if the one that it waits for ends well.
fn waits_for_end(part: Part, after: After) -> bool {
    part == Part::Receive && after.moment == Moment::Finished
}
