//! What one host does of a workload, and when. No clock and no network: the caller asks for actions
//! and tells what became of them.
//!
//! All hosts compute the same schedule; each keeps what concerns it:
//!
//! * transfers it starts (sends, queries, responses, fetches),
//! * objects that others will fetch from it, to be offered before,
//! * transfers that it receives: the run ends when all of them are there too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ebb_workload::{HostId, Kind, Moment, Schedule, Transfer};

/// Something to be done now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Prepare a send; its packets leave at this time.
    Send { transfer: Transfer, at_ns: u64 },
    /// Ask for it now.
    Fetch { transfer: Transfer },
    /// Let others fetch it from now on.
    Offer { transfer: Transfer },
    /// Nobody needs it any more.
    Withdraw { id: u64 },
}

/// What this host has to do with a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    pub transfer: Transfer,
    pub part: Part,
    /// When it was to start. `None`: that depends on something that has not happened, or that
    /// another host decides.
    pub offered_at_ns: Option<u64>,
}

pub struct Runner {
    schedule: Schedule,
    next: Option<Transfer>,
    me: HostId,
    /// The time that the schedule calls 0.
    epoch_ns: u64,
    /// How long before its start a transfer is prepared.
    lead_ns: u64,
    open: BTreeMap<u64, Open>,
    /// Transfers of ours that wait for another one.
    waiting: BTreeMap<u64, Vec<u64>>,
    fetches: BTreeSet<(u64, u64)>,
    actions: VecDeque<Action>,
    /// When the work on queries that have come will be done.
    free_at_ns: u64,
    /// Those that never started because what they waited for failed.
    not_started: Vec<Open>,
    /// The last start or end.
    last_ns: u64,
}

impl Runner {
    pub fn new(mut schedule: Schedule, me: HostId, epoch_ns: u64, lead_ns: u64) -> Self {
        Self {
            next: schedule.next(),
            schedule,
            me,
            epoch_ns,
            lead_ns,
            open: BTreeMap::new(),
            waiting: BTreeMap::new(),
            fetches: BTreeSet::new(),
            actions: VecDeque::new(),
            free_at_ns: 0,
            not_started: Vec::new(),
            last_ns: epoch_ns,
        }
    }

    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// What is to be done now. Ask until `None`.
    pub fn poll_action(&mut self, now_ns: u64) -> Option<Action> {
        self.read_ahead(now_ns);
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

    /// When [`poll_action`](Self::poll_action) has something that it has not now.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let read = self.next.as_ref().map(|transfer| self.read_at_ns(transfer));
        let fetch = self.fetches.first().map(|&(at_ns, _)| at_ns);
        read.into_iter().chain(fetch).min()
    }

    /// The end of everything that this host has to do with.
    pub fn is_done(&self) -> bool {
        self.next.is_none() && self.open.is_empty() && self.actions.is_empty()
    }

    /// When nothing has happened for so long that nothing will, if nothing happens.
    pub fn gives_up_at_ns(&self, patience_ns: u64) -> Option<u64> {
        let all_read = self.next.is_none();
        all_read.then(|| self.last_ns.saturating_add(patience_ns))
    }

    pub fn open(&self, id: u64) -> Option<&Open> {
        self.open.get(&id)
    }

    /// What has not ended, and what never started; leaves none.
    pub fn take_rest(&mut self) -> (Vec<Open>, Vec<Open>) {
        self.actions.clear();
        self.fetches.clear();
        let open = std::mem::take(&mut self.open).into_values().collect();
        (open, std::mem::take(&mut self.not_started))
    }

    /// The first bytes of a transfer have arrived here.
    pub fn handle_begun(&mut self, now_ns: u64, id: u64) {
        self.moment(now_ns, id, Moment::Begun);
    }

    /// A transfer has ended here; `good`: with all its bytes. `None`: it is none that was open.
    pub fn handle_end(&mut self, now_ns: u64, id: u64, good: bool) -> Option<Open> {
        let open = self.open.remove(&id)?;
        self.last_ns = self.last_ns.max(now_ns);
        if open.part == Part::Serve {
            self.actions.push_back(Action::Withdraw { id });
        }
        if good {
            // Whoever waits for its beginning need not wait any longer either.
            self.moment(now_ns, id, Moment::Begun);
            self.moment(now_ns, id, Moment::Finished);
        } else {
            self.give_up_dependents(id);
        }
        Some(open)
    }

    fn read_at_ns(&self, transfer: &Transfer) -> u64 {
        let start_ns = self.epoch_ns.saturating_add(transfer.start_ns);
        start_ns.saturating_sub(self.lead_ns)
    }

    fn read_ahead(&mut self, now_ns: u64) {
        while let Some(transfer) = &self.next
            && self.read_at_ns(transfer) <= now_ns
        {
            let transfer = self.next.take();
            self.next = self.schedule.next();
            if let Some(transfer) = transfer {
                self.take_over(transfer);
            }
        }
    }

    fn take_over(&mut self, transfer: Transfer) {
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
        let open = Open {
            transfer,
            part,
            offered_at_ns,
        };
        self.open.insert(id, open);
        match (part, after) {
            (Part::Start, None) => self.start(id, start_ns),
            (Part::Start, Some(after)) => {
                self.waiting.entry(after.transfer).or_default().push(id);
            }
            _ => {}
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

    /// Starts what waits for this moment.
    fn moment(&mut self, now_ns: u64, cause: u64, moment: Moment) {
        let Some(mut ids) = self.waiting.remove(&cause) else {
            return;
        };
        ids.retain(|&id| {
            let transfer = self.open.get(&id).map(|open| &open.transfer);
            let Some((after, start_ns)) = transfer.and_then(|t| Some((t.after?, t.start_ns)))
            else {
                return false;
            };
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
            self.not_started.extend(self.open.remove(&id));
            self.give_up_dependents(id);
        }
    }
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
