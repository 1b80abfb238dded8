//! NDP (Handley et al., SIGCOMM 2017): a receiver-driven transport over trimming switches.
//! Mechanism, parameters and the choices made where the paper is silent: `docs/ndp.md`.

mod flight;
mod number;
mod params;
mod reassembly;
mod receiver;
mod sender;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod pause_tests;
#[cfg(test)]
mod returned_tests;
#[cfg(test)]
mod tests;

use ebb_wire::{EbbHeader, PacketType, Protocol};

pub use params::NdpParams;

use crate::receiver_driven::{ReceiverDriven, SessionTable};
use crate::transports::Entry;

pub(crate) const ENTRY: Entry = Entry {
    name: "ndp",
    service_port: 7000,
    protocol: Protocol::EBB,
    payload: Some(Ndp::PAYLOAD),
    groups: false,
    many_to_one: false,
    make: |host, suite| Ok(Box::new(NdpHost::new(host, suite.ndp))),
};

/// All NDP flows of one host.
pub type NdpHost = SessionTable<Ndp>;

/// Selects NDP for a [`SessionTable`].
#[derive(Debug)]
pub enum Ndp {}

impl ReceiverDriven for Ndp {
    type Params = NdpParams;
    type Sender = sender::Sender;
    type Receiver = receiver::Receiver;

    const NAME: &'static str = ENTRY.name;
    const GROUPS: bool = ENTRY.groups;
    const PAYLOAD: PacketType = PacketType::Data;

    fn max_object_bytes(_: &NdpParams, symbol_bytes: u16) -> u64 {
        number::MAX_PACKETS * u64::from(symbol_bytes)
    }

    fn answer_late(_: &EbbHeader, late: &EbbHeader) -> Option<EbbHeader> {
        let number = number::number_of(late);
        Some(receiver::acknowledgment(PacketType::Ack, number))
    }

    fn join(answer: &mut EbbHeader, next: &EbbHeader) -> bool {
        receiver::join(answer, next)
    }
}
