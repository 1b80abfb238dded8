//! Decoding one source block, as a job that can run on any thread.

use std::collections::BTreeMap;

use ebb_units::Duration;
use raptorq::{EncodingPacket, ObjectTransmissionInformation, PayloadId, SourceBlockDecoder};

use crate::FlowId;

/// Sub-blocks are not used, so the alignment of RFC 6330 has no effect on the code.
const SYMBOL_ALIGNMENT: u8 = 1;

/// Everything that is needed to decode one source block.
#[derive(Debug)]
pub struct DecodeJob {
    pub(super) flow: FlowId,
    pub(super) block: u32,
    pub(super) symbol_bytes: u16,
    /// Source symbols of the block (K).
    pub(super) source_symbols: u16,
    /// By ESI, each of `symbol_bytes` bytes.
    pub(super) symbols: BTreeMap<u32, Vec<u8>>,
}

/// What came out of a [`DecodeJob`].
#[derive(Debug)]
pub struct DecodeResult {
    pub(super) flow: FlowId,
    pub(super) block: u32,
    pub(super) outcome: Outcome,
    /// Processor time, measured by whoever ran the job; it goes into the flow's record.
    pub cpu_time: Duration,
}

#[derive(Debug)]
pub(super) enum Outcome {
    /// The whole block, padding of its last symbol included.
    Decoded(Vec<u8>),
    /// The symbols do not determine the block. They come back, to be tried with one more.
    NotEnough(BTreeMap<u32, Vec<u8>>),
}

impl DecodeResult {
    pub(crate) fn flow(&self) -> FlowId {
        self.flow
    }
}

impl DecodeJob {
    pub(crate) fn flow(&self) -> FlowId {
        self.flow
    }

    /// Decodes. With K + 2 symbols it fails once in a million times (RFC 6330, section 1).
    pub fn run(self) -> DecodeResult {
        let config = transmission_information(self.source_symbols, self.symbol_bytes);
        let block_bytes = u64::from(self.source_symbols) * u64::from(self.symbol_bytes);
        let packets = self
            .symbols
            .iter()
            .map(|(&esi, data)| EncodingPacket::new(PayloadId::new(0, esi), data.clone()));
        let decoded = SourceBlockDecoder::new(0, &config, block_bytes).decode(packets);
        DecodeResult {
            flow: self.flow,
            block: self.block,
            outcome: match decoded {
                Some(bytes) => Outcome::Decoded(bytes),
                None => Outcome::NotEnough(self.symbols),
            },
            cpu_time: Duration::ZERO,
        }
    }
}

/// The description of a single block of `source_symbols` symbols for the codec.
pub(super) fn transmission_information(
    source_symbols: u16,
    symbol_bytes: u16,
) -> ObjectTransmissionInformation {
    let block_bytes = u64::from(source_symbols) * u64::from(symbol_bytes);
    ObjectTransmissionInformation::new(block_bytes, symbol_bytes, 1, 1, SYMBOL_ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use raptorq::SourceBlockEncoder;

    fn job(lost: &[u32], repair: u32) -> (Vec<u8>, DecodeJob) {
        let (k, t) = (20u16, 64u16);
        let block: Vec<u8> = (0..u32::from(k) * u32::from(t))
            .map(|i| (i * 7 % 251) as u8)
            .collect();
        let encoder = SourceBlockEncoder::new(0, &transmission_information(k, t), &block);
        let mut packets = encoder.source_packets();
        packets.extend(encoder.repair_packets(0, repair));
        let symbols = packets
            .into_iter()
            .map(EncodingPacket::split)
            .map(|(id, data)| (id.encoding_symbol_id(), data))
            .filter(|(esi, _)| !lost.contains(esi))
            .collect();
        let job = DecodeJob {
            flow: FlowId(1),
            block: 3,
            symbol_bytes: t,
            source_symbols: k,
            symbols,
        };
        (block, job)
    }

    #[test]
    fn two_symbols_more_than_lost_restore_the_block() {
        let (block, job) = job(&[0, 7, 19], 5);
        match job.run().outcome {
            Outcome::Decoded(bytes) => assert_eq!(bytes, block),
            Outcome::NotEnough(_) => panic!("22 of 20 symbols were not enough"),
        }
    }

    #[test]
    fn too_few_symbols_come_back() {
        let (_, job) = job(&[0, 7, 19], 2);
        match job.run().outcome {
            Outcome::Decoded(_) => panic!("19 of 20 symbols cannot be enough"),
            Outcome::NotEnough(symbols) => assert_eq!(symbols.len(), 19),
        }
    }
}
