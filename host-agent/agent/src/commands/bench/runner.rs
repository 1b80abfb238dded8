//! The share of one host in a workload, with its times: a [`Player`] whose share of the schedule is read ahead.

use std::sync::Arc;

use ebb_host::{ObjectNames, Player};
use ebb_workload::{Action, HostId, Schedule, Share, Transfer};

pub struct Runner {
    schedule: Schedule,
    /// The transfer that is next in the schedule. `None`: there are no more.
    next: Option<Transfer>,
    pub player: Player,
    /// The time that the schedule calls 0, in ns of the clock of the calls.
    epoch_ns: u64,
    /// How long before its start a transfer is prepared, in ns.
    lead_ns: u64,
}

impl Runner {
    pub fn new(
        mut schedule: Schedule,
        names: ObjectNames,
        me: HostId,
        epoch_ns: u64,
        lead_ns: u64,
    ) -> Self {
        Self {
            next: schedule.next(),
            schedule,
            player: Player::new(Share::new(me, epoch_ns), names),
            epoch_ns,
            lead_ns,
        }
    }

    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The next action that is due. Call until `None`.
    pub fn poll_action(&mut self, now_ns: u64) -> Option<Action> {
        self.read_ahead(now_ns);
        self.player.share.poll_action(now_ns)
    }

    /// When [`poll_action`](Self::poll_action) has something that it has not now.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let read = self.next.as_ref().map(|transfer| self.read_at_ns(transfer));
        read.into_iter()
            .chain(self.player.share.next_deadline_ns())
            .min()
    }

    /// Whether everything has ended that this host has to do with.
    pub fn is_done(&self) -> bool {
        self.next.is_none() && self.player.share.is_done()
    }

    /// When nothing will have begun or ended for `patience_ns`, unless something does until then.
    /// `None`: not before the whole schedule was read.
    pub fn gives_up_at_ns(&self, patience_ns: u64) -> Option<u64> {
        let all_read = self.next.is_none();
        all_read.then(|| self.player.share.last_ns().saturating_add(patience_ns))
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
                self.player.share.add(Arc::new(transfer));
            }
        }
    }
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
