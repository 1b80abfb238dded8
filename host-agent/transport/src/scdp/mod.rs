//! SCDP (Alasmar, Parisis, Crowcroft): a rateless, receiver-driven transport over trimming
//! switches. Mechanism, parameters and the choices made where the text is silent: `docs/scdp.md`.

mod audience;
mod block;
mod decode;
mod params;
mod receiver;
mod sender;

#[cfg(test)]
mod group_tests;
#[cfg(test)]
mod returned_tests;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbHeader, PacketType};

pub use decode::{DecodeJob, DecodeResult};
pub use params::ScdpParams;

use crate::FlowId;
use crate::object::ObjectSource;
use crate::receiver_driven::{Cast, Host, RetryParams, Scheme, SessionLimits, StreamShape};

/// All SCDP flows of one host.
pub type ScdpHost = Host<Scdp>;

/// Selects SCDP as the scheme of a [`Host`].
#[derive(Debug)]
pub enum Scdp {}

impl Scheme for Scdp {
    type Params = ScdpParams;
    type Sender = sender::Sender;
    type Receiver = receiver::Receiver;

    const NAME: &'static str = "scdp";
    const PAYLOAD_TYPE: PacketType = PacketType::Symbol;
    const GROUPS: bool = true;

    fn limits(params: &ScdpParams) -> SessionLimits {
        SessionLimits {
            max_flows: params.max_flows as usize,
            max_flows_per_peer: params.max_flows_per_peer as usize,
            linger: Duration::from_nanos(params.linger_ns),
        }
    }

    fn retry(params: &ScdpParams) -> RetryParams {
        RetryParams {
            rto: Duration::from_nanos(params.rto_ns),
            max_rto: Duration::from_nanos(params.max_rto_ns),
            max_retries: params.max_retries,
        }
    }

    /// Pull counters and block numbers have 32 bits; half of that leaves room for losses.
    fn max_object_bytes(_: &ScdpParams, symbol_bytes: u16) -> u64 {
        (1 << 31) * u64::from(symbol_bytes)
    }

    fn sender(
        now: Instant,
        params: &ScdpParams,
        symbol_bytes: u16,
        source: Arc<dyn ObjectSource>,
        cast: Cast,
    ) -> sender::Sender {
        sender::Sender::new(now, params, symbol_bytes, source, cast)
    }

    fn receiver(
        now: Instant,
        params: &ScdpParams,
        flow: FlowId,
        first: &EbbHeader,
    ) -> Option<receiver::Receiver> {
        let shape = StreamShape::of(first);
        let acceptable = (1..=ScdpParams::MAX_BLOCK_SYMBOLS).contains(&shape.block_symbols);
        acceptable.then(|| receiver::Receiver::new(now, params, flow, first))
    }

    fn answer_late(closing: &EbbHeader, _: &EbbHeader) -> EbbHeader {
        *closing
    }
}

/// How an object is cut into blocks.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    shape: StreamShape,
}

impl Blocks {
    fn count(&self) -> u32 {
        let blocks = self
            .shape
            .packets()
            .div_ceil(u64::from(self.shape.block_symbols));
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    /// Source symbols of `block`: K, but for the last one.
    fn source_symbols(&self, block: u32) -> u16 {
        let before = self.first_packet(block);
        let left = self.shape.packets().saturating_sub(before);
        left.min(self.shape.block_symbols.into()) as u16
    }

    /// The number of the first packet of `block`, counted through the object.
    fn first_packet(&self, block: u32) -> u64 {
        u64::from(block) * u64::from(self.shape.block_symbols)
    }

    /// Offset and length of source symbol `esi` of `block`. The last one of the object may be
    /// short; to the code it is filled up with zeros.
    fn extent(&self, block: u32, esi: u32) -> (u64, usize) {
        self.shape.extent(self.first_packet(block) + u64::from(esi))
    }

    /// Offset and length of `block` in the object.
    fn block_extent(&self, block: u32) -> (u64, usize) {
        let block_bytes = u64::from(self.shape.block_symbols) * u64::from(self.shape.symbol_bytes);
        let offset = u64::from(block) * block_bytes;
        let left = self.shape.object_bytes.saturating_sub(offset);
        (offset, left.min(block_bytes) as usize)
    }
}
