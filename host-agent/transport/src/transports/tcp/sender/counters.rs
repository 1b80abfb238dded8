//! Counters of the sending half of a connection.

/// Counters of the sending half of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Segments with payload, retransmissions included.
    pub packets: u64,
    /// Bytes of their payload.
    pub payload_bytes: u64,
    /// Segments sent again, SYN and FIN included.
    pub retransmitted: u64,
    /// Those of `retransmitted` that were sent in fast recovery, or for a notification.
    pub fast_retransmitted: u64,
    /// Loss episodes found by SACK, duplicate ACKs or notifications.
    pub loss_episodes: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Segments without payload that acknowledged our stream.
    pub acks: u64,
    /// Those of `acks` with ECN-Echo.
    pub ece_acks: u64,
}

impl SenderCounters {
    /// Counts since `before`.
    pub(crate) fn since(&self, before: &SenderCounters) -> SenderCounters {
        SenderCounters {
            packets: self.packets - before.packets,
            payload_bytes: self.payload_bytes - before.payload_bytes,
            retransmitted: self.retransmitted - before.retransmitted,
            fast_retransmitted: self.fast_retransmitted - before.fast_retransmitted,
            loss_episodes: self.loss_episodes - before.loss_episodes,
            timeouts: self.timeouts - before.timeouts,
            acks: self.acks - before.acks,
            ece_acks: self.ece_acks - before.ece_acks,
        }
    }
}
