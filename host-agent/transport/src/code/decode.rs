//! Decoding one source block, as a job that can run on any thread.

use std::marker::PhantomData;

use super::erasure::Code;
use super::symbols::Symbols;
use crate::job::Work;
use crate::receiver_driven::Buffers;

/// Everything that is needed to decode one source block.
#[derive(Debug)]
pub struct DecodeJob<C> {
    pub symbols: Symbols,
    code: PhantomData<C>,
}

/// Result of a [`DecodeJob`].
#[derive(Debug)]
pub struct DecodeResult {
    /// Completed, if they were enough.
    pub symbols: Symbols,
    pub outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
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

impl<C: Code> Work for DecodeJob<C> {
    type Output = DecodeResult;

    /// Size of the block.
    fn bytes(&self) -> usize {
        self.symbols.shape().bytes()
    }

    /// Decodes.
    fn run(mut self) -> DecodeResult {
        let decoded = C::decode(self.symbols.shape(), self.symbols.iter());
        let outcome = match decoded {
            Some(bytes) => {
                self.symbols.complete(&bytes);
                Outcome::Decoded
            }
            None => Outcome::NotEnough,
        };
        self.finished(outcome)
    }
}

impl<C> DecodeJob<C> {
    pub fn new(symbols: Symbols) -> Self {
        DecodeJob {
            symbols,
            code: PhantomData,
        }
    }

    /// The result of a job that came to this.
    pub fn finished(self, outcome: Outcome) -> DecodeResult {
        DecodeResult {
            symbols: self.symbols,
            outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::seq::SliceRandom;
    use rand::{Rng, SeedableRng};
    use raptorq::{EncodingPacket, SourceBlockEncoder};

    use crate::code::raptorq::transmission_information;
    use crate::code::{BlockShape, RaptorQ};

    fn any_block(k: u16, t: u16) -> Vec<u8> {
        (0..u32::from(k) * u32::from(t))
            .map(|i| (i * 7 % 251) as u8)
            .collect()
    }

    fn shape(source_symbols: u16, symbol_bytes: u16) -> BlockShape {
        BlockShape {
            block: 3,
            source_symbols,
            symbol_bytes,
        }
    }

    fn job<'a>(
        k: u16,
        t: u16,
        packets: impl Iterator<Item = &'a EncodingPacket>,
    ) -> DecodeJob<RaptorQ> {
        let mut symbols = Symbols::default();
        symbols.reset::<RaptorQ>(shape(k, t));
        let mut buffers = Buffers::default();
        for packet in packets {
            let esi = packet.payload_id().encoding_symbol_id();
            symbols.store(esi, packet.data(), &mut buffers);
        }
        DecodeJob::new(symbols)
    }

    /// How many of `patterns` random choices of `k + overhead` symbols do not decode.
    fn failures(k: u16, overhead: u16, patterns: u32, rng: &mut SmallRng) -> u32 {
        let t = 8;
        let block = any_block(k, t);
        let encoder = SourceBlockEncoder::new(0, &transmission_information(shape(k, t)), &block);
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
        let encoder =
            SourceBlockEncoder::new(0, &transmission_information(shape(k, t)), &any_block(k, t));
        let packets = encoder.source_packets();
        let result = job(k, t, packets.iter().skip(1)).run();
        assert_eq!(result.outcome, Outcome::NotEnough);
        assert_eq!(result.symbols.count(), 19);
    }
}
