//! Conservation of packets: at every moment, each packet that came into a switch or was made in it
//! has been sent, has been dropped with a counted reason, or waits in a queue. Debug builds check
//! this after every event.
//!
//! Packets that came or were made are counted here, where frames come in and copies are made. The
//! rest is read from the statistics and from the depths of the queues, which know nothing of this
//! module.

/// Counts in debug builds what the statistics do not, and nothing in release builds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ledger {
    /// Frames received, and copies made for multicast groups and clone sessions.
    came: u64,
    /// Packets that ended without being sent or dropped: originals of which copies were made, and
    /// clones for a session that does not exist, which BMv2 does not make either.
    consumed: u64,
    /// Frames sent.
    sent: u64,
    /// Value of [`missing`](Self::missing) when the statistics were last reset, which balances
    /// them.
    before: i64,
}

/// Counts from statistics and queues of a switch, in packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    /// Packets dropped since the statistics began.
    pub dropped: u64,
    /// Packets that wait in queues.
    pub queued: u64,
}

impl Ledger {
    /// Packets were received, or made by copying.
    pub(crate) fn came(&mut self, packets: u64) {
        if cfg!(debug_assertions) {
            self.came += packets;
        }
    }

    /// Packets ended without being sent or dropped.
    pub(crate) fn consumed(&mut self, packets: u64) {
        if cfg!(debug_assertions) {
            self.consumed += packets;
        }
    }

    /// A packet was sent.
    pub(crate) fn sent(&mut self) {
        if cfg!(debug_assertions) {
            self.sent += 1;
        }
    }

    /// How many packets are not accounted for; negative if some are accounted for twice.
    pub(crate) fn missing(&self, account: Account) -> i64 {
        let came = self.came as i64 - self.consumed as i64 - self.sent as i64;
        came - self.before - account.dropped as i64 - account.queued as i64
    }

    /// Starts anew because the statistics are reset; `account` is what they say after that.
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
