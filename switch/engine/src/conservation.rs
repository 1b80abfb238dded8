//! Nothing gets lost: at every moment, what came into a switch or was made in it has been sent,
//! dropped with a reason that was counted, or is queued. Checked after every event in debug builds.
//!
//! The left side is counted here where frames come in and copies are made; the right side is what the
//! statistics tell people and the depths of the queues, which know nothing of this module.

/// In debug builds, counts what the statistics do not; otherwise does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ledger {
    /// Frames received, and copies made for multicast and clones.
    came: u64,
    /// Taken out without being sent or dropped: originals of which copies were made, and clones for a
    /// session that does not exist, as on BMv2.
    consumed: u64,
    sent: u64,
    /// What the statistics said when they were last set back.
    before: i64,
}

/// What the statistics and the queues of a switch say, in packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    pub dropped: u64,
    pub queued: u64,
}

impl Ledger {
    pub(crate) fn came(&mut self, packets: u64) {
        if cfg!(debug_assertions) {
            self.came += packets;
        }
    }

    pub(crate) fn consumed(&mut self, packets: u64) {
        if cfg!(debug_assertions) {
            self.consumed += packets;
        }
    }

    pub(crate) fn sent(&mut self) {
        if cfg!(debug_assertions) {
            self.sent += 1;
        }
    }

    /// Packets that are not accounted for; negative if some are so twice.
    pub(crate) fn missing(&self, account: Account) -> i64 {
        let came = self.came as i64 - self.consumed as i64 - self.sent as i64;
        came - self.before - account.dropped as i64 - account.queued as i64
    }

    /// The statistics start anew, after the switch had lost nothing.
    pub(crate) fn restart(&mut self, account: Account) {
        self.before = 0;
        self.before = self.missing(account);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_accounted_for_is_missing() {
        let mut ledger = Ledger::default();
        ledger.came(5);
        ledger.consumed(1);
        ledger.sent();
        let account = Account {
            dropped: 2,
            queued: 1,
        };
        assert_eq!(ledger.missing(account), 0);
        let lost = Account {
            queued: 0,
            ..account
        };
        assert_eq!(ledger.missing(lost), 1);
        let twice = Account {
            dropped: 3,
            ..account
        };
        assert_eq!(ledger.missing(twice), -1);
        let cleared = Account {
            dropped: 0,
            queued: 1,
        };
        ledger.restart(cleared);
        assert_eq!(ledger.missing(cleared), 0);
        ledger.came(1);
        assert_eq!(ledger.missing(cleared), 1);
    }
}
