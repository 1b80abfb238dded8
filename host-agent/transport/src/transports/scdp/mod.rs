//! SCDP (Alasmar, Parisis, Crowcroft): a rateless, receiver-driven transport over trimming
//! switches. Mechanism, parameters and the choices made where the text is silent: `docs/scdp.md`.

mod audience;
mod block;
mod blocks;
mod demand;
mod params;
mod receiver;
mod sender;
mod supplier;

#[cfg(test)]
mod encode_tests;
#[cfg(test)]
mod group_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod many_tests;
#[cfg(test)]
mod pipeline_tests;
#[cfg(test)]
mod returned_tests;
#[cfg(test)]
mod tests;

use ebb_units::Duration;
use ebb_wire::{EbbHeader, PacketType, Protocol};

pub use params::ScdpParams;

use crate::receiver_driven::{ReceiverDriven, SessionTable};
use crate::transports::Entry;

/// First repair number of packets to a detached straggler: it still hears its group, and
/// no (block, ESI) is to come twice. No group sends as many repair symbols of a block.
const DETACHED_REPAIR: u32 = 1 << 20;

pub(crate) const ENTRY: Entry = Entry {
    name: "scdp",
    service_port: 7001,
    protocol: Protocol::EBB,
    payload: Some(Scdp::PAYLOAD),
    groups: true,
    many_to_one: true,
    make: |host, suite| Ok(Box::new(ScdpHost::new(host, suite.scdp.clone()))),
};

/// All SCDP flows of one host.
pub type ScdpHost = SessionTable<Scdp>;

/// Selects SCDP for a [`SessionTable`].
#[derive(Debug)]
pub enum Scdp {}

impl ReceiverDriven for Scdp {
    type Params = ScdpParams;
    type Sender = sender::Sender;
    type Receiver = receiver::Receiver;

    const NAME: &'static str = ENTRY.name;
    const GROUPS: bool = ENTRY.groups;
    const PAYLOAD: PacketType = PacketType::Symbol;

    fn many_to_one(params: &ScdpParams) -> Option<Duration> {
        Some(Duration::from_nanos(params.expect_timeout_ns))
    }

    /// Pull counters and block numbers have 32 bits; half of that leaves room for losses.
    fn max_object_bytes(_: &ScdpParams, symbol_bytes: u16) -> u64 {
        (1 << 31) * u64::from(symbol_bytes)
    }

    fn answer_late(closing: &EbbHeader, _: &EbbHeader) -> Option<EbbHeader> {
        Some(*closing)
    }
}
