//! Trevi (Parisis, Moncaster, Madhavapeddy, Crowcroft, HotNets 2013; Moncaster, UCAM-CL-TR-921,
//! chapter 4): storage over fountain codes, as a scavenger. Mechanism, parameters and the choices
//! made where the texts are silent: `docs/trevi.md`.

mod audience;
mod blocks;
mod demand;
mod params;
mod pull;
mod rate;
mod receiver;
mod requests;
mod sender;
mod supplier;
mod tract;
mod window;

#[cfg(test)]
mod group_tests;
#[cfg(test)]
mod many_tests;
#[cfg(test)]
mod pull_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use ebb_units::Duration;
use ebb_wire::{EbbFlags, EbbHeader, PacketType, Protocol};

pub use params::{Mode, Stragglers, TreviParams};

use crate::receiver_driven::{ReceiverDriven, SessionTable};
use crate::transports::Entry;

/// Number, as a sender, of what a receiver is sent that has left its group: it still hears the group,
/// and no two symbols are to be the same. The senders of a many-to-one session have lower ones.
const DETACHED: u8 = 15;

pub(crate) const ENTRY: Entry = Entry {
    name: "trevi",
    service_port: 7011,
    protocol: Protocol::EBB,
    payload: Some(Trevi::PAYLOAD),
    groups: true,
    many_to_one: true,
    make: |host, suite| Ok(Box::new(TreviHost::new(host, suite.trevi))),
};

/// All Trevi flows of one host.
pub type TreviHost = SessionTable<Trevi>;

/// Selects Trevi for a [`SessionTable`].
#[derive(Debug)]
pub enum Trevi {}

impl ReceiverDriven for Trevi {
    type Params = TreviParams;
    type Sender = sender::Sender;
    type Receiver = receiver::Receiver;

    const NAME: &'static str = ENTRY.name;
    const GROUPS: bool = ENTRY.groups;
    const PAYLOAD: PacketType = PacketType::Coded;
    const IS_SCAVENGER: bool = true;

    fn many_to_one(params: &TreviParams) -> Option<Duration> {
        Some(Duration::from_nanos(params.expect_timeout_ns))
    }

    /// Block numbers have 32 bits.
    fn max_object_bytes(_: &TreviParams, symbol_bytes: u16) -> u64 {
        (1 << 31) * u64::from(symbol_bytes)
    }

    /// The sender has not heard that it is to stop. What goes to a group is for others, unless it asks.
    fn answer_late(closing: &EbbHeader, late: &EbbHeader) -> Option<EbbHeader> {
        let asks = late.flags.contains(EbbFlags::RETRANSMIT);
        (asks || !late.flags.contains(EbbFlags::MULTICAST)).then_some(*closing)
    }
}
