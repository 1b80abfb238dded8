//! How much a host does for others, and for how long it waits for them.

use ebb_units::Duration;

/// Counts are of what is under way at a time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Objects that are being prepared, or are on their way, to one address that asked for them.
    pub serves_per_peer: usize,
    /// Objects that are being prepared, or are on their way, to all addresses that asked for them.
    pub serves: usize,
    /// Objects and refusals on their way to one address that has not been heard lately.
    pub answers_per_stranger: usize,
    /// Answers that there is no object, on their way to one address. More requests stay unanswered.
    pub refusals_per_peer: usize,
    /// Requests of one address that wait for earlier ones to be answered.
    pub waiting_per_peer: usize,
    /// Requests of all addresses that wait.
    pub waiting: usize,
    /// How long it is remembered that an address answered, or that it did not. Pauses between two fetches
    /// of an application are shorter; so is the time in which an address gets another owner.
    pub memory: Duration,
    /// Addresses remembered. More are forgotten earlier.
    pub known: usize,
    /// Transfers that one client may have open.
    pub transfers_per_client: usize,
    /// Objects that one client may offer.
    pub offers_per_client: usize,
    /// Ports that one client may listen on: each is looked for in every packet.
    pub listeners_per_client: usize,
    /// How long an application may think about an object that was announced.
    pub decision: Duration,
    /// How long a fetch waits for its first byte unless it says otherwise: the server may have to
    /// hash its file first.
    pub patience: Duration,
}

impl Limits {
    /// Those of a host that anybody may send packets to.
    pub const CAREFUL: Limits = Limits {
        serves_per_peer: 32,
        serves: 1024,
        answers_per_stranger: 1,
        refusals_per_peer: 8,
        waiting_per_peer: 128,
        waiting: 4096,
        memory: Duration::from_millis(60_000),
        known: 65_536,
        transfers_per_client: 4096,
        offers_per_client: 4096,
        listeners_per_client: 256,
        decision: Duration::from_millis(30_000),
        patience: Duration::from_millis(60_000),
    };

    /// Nothing is limited, and no address is remembered. Only patience ends.
    #[cfg(test)]
    pub(crate) const NONE: Limits = Limits {
        serves_per_peer: usize::MAX,
        serves: usize::MAX,
        answers_per_stranger: usize::MAX,
        refusals_per_peer: usize::MAX,
        waiting_per_peer: usize::MAX,
        waiting: usize::MAX,
        memory: Duration::ZERO,
        known: 0,
        transfers_per_client: usize::MAX,
        offers_per_client: usize::MAX,
        listeners_per_client: usize::MAX,
        ..Limits::CAREFUL
    };
}
