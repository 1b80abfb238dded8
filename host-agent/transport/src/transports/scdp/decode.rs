//! Decoding one source block, as a job that can run on any thread.

use raptorq::{EncodingPacket, ObjectTransmissionInformation, PayloadId, SourceBlockDecoder};

use super::symbols::Symbols;
use crate::job::Work;
use crate::receiver_driven::Buffers;

/// Sub-blocks are not used, so the alignment of RFC 6330 has no effect on the code.
const SYMBOL_ALIGNMENT: u8 = 1;

/// Everything that is needed to decode one source block.
#[derive(Debug)]
pub struct DecodeJob {
    pub(super) block: u32,
    pub(super) symbols: Symbols,
}

/// What came out of a [`DecodeJob`].
#[derive(Debug)]
pub struct DecodeResult {
    pub(super) block: u32,
    /// Completed, if they were enough.
    pub(super) symbols: Symbols,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Decoded,
    /// The symbols do not determine the block; one more may.
    NotEnough,
}

impl DecodeResult {
    /// Gives the buffer back, for a flow that has ended meanwhile: it can serve others.
    pub(crate) fn release(mut self, buffers: &mut Buffers) {
        let buffer = self.symbols.take_buffer(buffers);
        buffers.give(buffer);
    }
}

impl Work for DecodeJob {
    type Output = DecodeResult;

    /// Size of the block.
    fn bytes(&self) -> usize {
        usize::from(self.symbols.source_symbols()) * usize::from(self.symbols.symbol_bytes())
    }

    /// Decodes. With K + 2 symbols it fails once in a million times (RFC 6330, section 1).
    fn run(mut self) -> DecodeResult {
        let (k, symbol_bytes) = (self.symbols.source_symbols(), self.symbols.symbol_bytes());
        let config = transmission_information(k, symbol_bytes);
        let block_bytes = u64::from(k) * u64::from(symbol_bytes);
        let packets = self
            .symbols
            .iter()
            .map(|(esi, data)| EncodingPacket::new(PayloadId::new(0, esi), data.to_vec()));
        let decoded = SourceBlockDecoder::new(0, &config, block_bytes).decode(packets);
        let outcome = match decoded {
            Some(bytes) => {
                self.symbols.complete(&bytes);
                Outcome::Decoded
            }
            None => Outcome::NotEnough,
        };
        finished(self, outcome)
    }
}

pub(super) fn finished(job: DecodeJob, outcome: Outcome) -> DecodeResult {
    DecodeResult {
        block: job.block,
        symbols: job.symbols,
        outcome,
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
    use rand::rngs::SmallRng;
    use rand::seq::SliceRandom;
    use rand::{Rng, SeedableRng};
    use raptorq::SourceBlockEncoder;

    fn any_block(k: u16, t: u16) -> Vec<u8> {
        (0..u32::from(k) * u32::from(t))
            .map(|i| (i * 7 % 251) as u8)
            .collect()
    }

    fn job<'a>(k: u16, t: u16, packets: impl Iterator<Item = &'a EncodingPacket>) -> DecodeJob {
        let mut symbols = Symbols::default();
        symbols.reset(k, t);
        let mut buffers = Buffers::default();
        for packet in packets {
            let esi = packet.payload_id().encoding_symbol_id();
            symbols.store(esi, packet.data(), &mut buffers);
        }
        DecodeJob { block: 3, symbols }
    }

    /// How many of `patterns` random choices of `k + overhead` symbols do not decode.
    fn failures(k: u16, overhead: u16, patterns: u32, rng: &mut SmallRng) -> u32 {
        let t = 8;
        let block = any_block(k, t);
        let encoder = SourceBlockEncoder::new(0, &transmission_information(k, t), &block);
        let sources = encoder.source_packets();
        let repairs = encoder.repair_packets(0, 2 * u32::from(k) + 10);
        let mut failed = 0;
        for _ in 0..patterns {
            // As the protocol has it: some source symbols are lost, repair symbols replace them,
            // of which some are lost as well.
            let lost = rng.random_range(1..=usize::from(k));
            let mut kept: Vec<&EncodingPacket> = sources.iter().collect();
            kept.shuffle(rng);
            kept.truncate(usize::from(k) - lost);
            let mut pool: Vec<&EncodingPacket> = repairs.iter().collect();
            pool.shuffle(rng);
            let wanted = usize::from(k + overhead);
            let missing = wanted - kept.len();
            kept.extend(&pool[..missing]);
            let mut result = job(k, t, kept.into_iter()).run();
            match result.outcome {
                Outcome::Decoded => {
                    let bytes = result.symbols.take_buffer(&mut Buffers::default());
                    assert!(bytes == block, "wrong bytes");
                }
                Outcome::NotEnough => failed += 1,
            }
        }
        failed
    }

    #[test]
    fn k_plus_2_symbols_decode_in_10000_of_10000_random_loss_patterns() {
        let mut rng = SmallRng::seed_from_u64(6330);
        let all = [(100, 2500), (10, 4000), (26, 2500), (61, 1000)];
        assert_eq!(all.iter().map(|(_, n)| n).sum::<u32>(), 10_000);
        for (k, patterns) in all {
            assert_eq!(failures(k, 2, patterns, &mut rng), 0, "K = {k}");
        }
    }

    #[test]
    fn k_symbols_fail_in_a_tenth_to_one_percent_so_decoding_is_real() {
        let mut rng = SmallRng::seed_from_u64(6330);
        let failed = failures(100, 0, 3000, &mut rng) + failures(26, 0, 3000, &mut rng);
        assert!((6..=60).contains(&failed), "{failed} of 6000");
    }

    #[test]
    fn too_few_symbols_stay_what_they_are() {
        let (k, t) = (20, 64);
        let encoder = SourceBlockEncoder::new(0, &transmission_information(k, t), &any_block(k, t));
        let packets = encoder.source_packets();
        let result = job(k, t, packets.iter().skip(1)).run();
        assert_eq!(result.outcome, Outcome::NotEnough);
        assert_eq!(result.symbols.count(), 19);
    }
}
