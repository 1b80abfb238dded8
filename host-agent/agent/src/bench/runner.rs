//! What one host does of a workload, and when: its [`Share`] of the schedule, which it reads ahead.

use std::sync::Arc;

use ebb_workload::{Action, HostId, Open, Schedule, Share, Transfer};

pub struct Runner {
    schedule: Schedule,
    next: Option<Transfer>,
    share: Share,
    /// The time that the schedule calls 0.
    epoch_ns: u64,
    /// How long before its start a transfer is prepared.
    lead_ns: u64,
}

impl Runner {
    pub fn new(mut schedule: Schedule, me: HostId, epoch_ns: u64, lead_ns: u64) -> Self {
        Self {
            next: schedule.next(),
            schedule,
            share: Share::new(me, epoch_ns),
            epoch_ns,
            lead_ns,
        }
    }

    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// What is to be done now. Ask until `None`.
    pub fn poll_action(&mut self, now_ns: u64) -> Option<Action> {
        self.read_ahead(now_ns);
        self.share.poll_action(now_ns)
    }

    /// When [`poll_action`](Self::poll_action) has something that it has not now.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let read = self.next.as_ref().map(|transfer| self.read_at_ns(transfer));
        read.into_iter().chain(self.share.next_deadline_ns()).min()
    }

    /// The end of everything that this host has to do with.
    pub fn is_done(&self) -> bool {
        self.next.is_none() && self.share.is_done()
    }

    /// When nothing has happened for so long that nothing will, if nothing happens.
    pub fn gives_up_at_ns(&self, patience_ns: u64) -> Option<u64> {
        let all_read = self.next.is_none();
        all_read.then(|| self.share.last_ns().saturating_add(patience_ns))
    }

    pub fn open(&self, id: u64) -> Option<&Open> {
        self.share.open(id)
    }

    /// What has not ended, and what never started; leaves none.
    pub fn take_rest(&mut self) -> (Vec<Open>, Vec<Open>) {
        self.share.take_rest()
    }

    /// The first bytes of a transfer have arrived here.
    pub fn handle_begun(&mut self, now_ns: u64, id: u64) {
        self.share.handle_begun(now_ns, id);
    }

    /// A transfer has ended here; `good`: with all its bytes. `None`: it is none that was open.
    pub fn handle_end(&mut self, now_ns: u64, id: u64, good: bool) -> Option<Open> {
        self.share.handle_end(now_ns, id, good)
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
                self.share.add(Arc::new(transfer));
            }
        }
    }
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
