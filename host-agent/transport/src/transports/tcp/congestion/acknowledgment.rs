//! An acceptable acknowledgment, as a congestion control gets it.

/// One acceptable acknowledgment, as the sender saw it.
///
/// Sequence positions are 64-bit stream offsets, so that they can be compared.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledgment {
    /// Bytes that this ACK acknowledges cumulatively; SACKed bytes do not count.
    pub acked_bytes: u64,
    /// SND.UNA after this ACK.
    pub una: u64,
    /// SND.NXT.
    pub next: u64,
    /// Bytes between SND.UNA and SND.NXT before this ACK.
    pub flight_bytes: u64,
    /// The ECN-Echo flag (false when ECN was not negotiated).
    pub ece: bool,
    /// Fast recovery is in progress: the window does not grow.
    pub in_recovery: bool,
    /// Slow start after a timeout: what is acknowledged may have been sent before it.
    pub after_timeout: bool,
    /// The window, not the application or the peer's buffer, is what holds the sender back.
    pub window_limited: bool,
    /// In-band telemetry: the echo of values that switches have written into packets (`Feedback::echo`). 0: none.
    pub telemetry: u16,
}

#[cfg(test)]
impl Acknowledgment {
    /// An acknowledgment of this many bytes, outside of recovery, at a sender that its window limits.
    pub(crate) fn of(acked_bytes: u64) -> Self {
        Acknowledgment {
            acked_bytes,
            una: 0,
            next: 0,
            flight_bytes: 0,
            ece: false,
            in_recovery: false,
            after_timeout: false,
            window_limited: true,
            telemetry: 0,
        }
    }
}
