//! The end of an engine: packets that still wait are sent.

use ebb_units::{Duration, Instant};

use crate::machine::clock;

/// How long an engine that ends waits for its last packets to leave.
const LAST_PACKETS: Duration = Duration::from_millis(500);

/// Takes turns until one says that no packet waits, for a bounded time. A turn gets the end of that, which it may sleep
/// until.
pub fn send_last_packets(
    mut turn: impl FnMut(Instant) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let end = clock::now() + LAST_PACKETS;
    while !turn(end)? && clock::now() < end {}
    Ok(())
}
