//! A hash of everything that happened at a node, in order.

use ebb_units::Instant;

use super::event::Event;

/// How many bytes of a frame enter the hash: enough for all headers.
const HEADERS_BYTES: usize = 96;
/// The number of 16-byte blocks in them.
const WORD_PAIRS: usize = HEADERS_BYTES / 16;

/// The hash of a node's events so far. Nodes with the same hash did the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trace(u64);

impl Trace {
    /// The hash.
    pub fn value(self) -> u64 {
        self.0
    }

    /// Takes an event into the hash.
    pub fn note(&mut self, at: Instant, event: &Event) {
        let port = u64::from(event.port());
        let what = match event {
            Event::Receive { frame, .. } => mix(port << 32 | frame.len() as u64, fold(frame)),
            Event::Fault { reason, bytes, .. } => {
                mix(1 << 62 | port << 32 | *bytes, *reason as u64)
            }
            Event::Serve(_) => 1 << 63 | port,
        };
        self.0 = mix(mix(self.0, at.as_picos()), what);
    }
}

/// Takes a value into a running hash: the finaliser of SplitMix64 over the sum, not cryptographic.
pub(super) const fn mix(hash: u64, value: u64) -> u64 {
    let mut z = hash.rotate_left(25) ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

/// Two keys for each 16-byte block, all of them different.
const KEYS: [[u64; 2]; WORD_PAIRS] = {
    let mut keys = [[0; 2]; WORD_PAIRS];
    let mut i = 0;
    while i < WORD_PAIRS {
        keys[i] = [mix(2 * i as u64, 1), mix(2 * i as u64, 2)];
        i += 1;
    }
    keys
};

/// The hash of blocks from each one on that are all zeros.
const ZEROS: [u64; WORD_PAIRS + 1] = {
    let mut zeros = [0; WORD_PAIRS + 1];
    let mut i = WORD_PAIRS;
    while i > 0 {
        i -= 1;
        zeros[i] = zeros[i + 1] ^ fold_block(0, KEYS[i]);
    }
    zeros
};

/// The hash of one block.
const fn fold_block(block: u128, keys: [u64; 2]) -> u64 {
    let product = (block as u64 ^ keys[0]) as u128 * ((block >> 64) as u64 ^ keys[1]) as u128;
    product as u64 ^ (product >> 64) as u64
}

/// A hash of the headers of a frame, with zeros behind a short one. Blocks are multiplied independently of each other,
/// as in wyhash; one after the other would take longer than the switch needs to queue the frame.
fn fold(frame: &[u8]) -> u64 {
    let (blocks, rest) = frame.as_chunks::<16>();
    if let Some(headers) = blocks.first_chunk() {
        return fold_blocks::<WORD_PAIRS>(headers);
    }
    let whole = match (blocks.first_chunk(), blocks.first_chunk()) {
        // Packets without payload have so many.
        (_, Some(blocks)) => fold_blocks::<5>(blocks),
        (Some(blocks), _) => fold_blocks::<4>(blocks),
        _ => {
            let keyed = blocks.iter().zip(&KEYS);
            keyed.fold(0, |sum, (block, keys)| {
                sum ^ fold_block(u128::from_le_bytes(*block), *keys)
            })
        }
    };
    let last = match frame.last_chunk::<16>() {
        // The last bytes of the frame, without those that are in whole blocks.
        Some(last) if !rest.is_empty() => u128::from_le_bytes(*last) >> (8 * (16 - rest.len())),
        Some(_) => 0,
        None => {
            let mut padded = [0; 16];
            padded[..rest.len()].copy_from_slice(rest);
            u128::from_le_bytes(padded)
        }
    };
    whole ^ fold_block(last, KEYS[blocks.len()]) ^ ZEROS[blocks.len() + 1]
}

/// The hash of so many whole blocks. A loop without a count takes a third less.
#[inline]
fn fold_blocks<const N: usize>(blocks: &[[u8; 16]; N]) -> u64 {
    let mut sum = 0;
    for i in 0..N {
        sum ^= fold_block(u128::from_le_bytes(blocks[i]), KEYS[i]);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(at: u64, event: Event) -> u64 {
        let mut trace = Trace::default();
        trace.note(Instant::from_picos(at), &event);
        trace.value()
    }

    fn receive(port: u16, frame: &[u8]) -> Event {
        let frame = frame.to_vec();
        Event::Receive { port, frame }
    }

    #[test]
    fn every_part_of_an_event_counts() {
        let frame = [7; 120];
        let base = hash(1, receive(1, &frame));
        assert_eq!(base, hash(1, receive(1, &frame)));
        assert_ne!(base, hash(2, receive(1, &frame)));
        assert_ne!(base, hash(1, receive(2, &frame)));
        assert_ne!(base, hash(1, receive(1, &frame[1..])));
        assert_ne!(hash(1, Event::Serve(1)), hash(1, Event::Serve(2)));
        for byte in 0..HEADERS_BYTES {
            let mut other = frame;
            other[byte] ^= 1;
            assert_ne!(base, hash(1, receive(1, &other)), "byte {byte}");
        }
        for len in 1..20 {
            let mut short = vec![1; len];
            let base = hash(1, receive(1, &short));
            short[len - 1] ^= 1;
            assert_ne!(base, hash(1, receive(1, &short)), "length {len}");
        }
    }

    #[test]
    fn a_short_frame_has_the_hash_of_one_with_zeros_behind_it() {
        let frame: Vec<u8> = (1..=HEADERS_BYTES as u8).collect();
        for len in 0..HEADERS_BYTES {
            let mut padded = frame.clone();
            padded[len..].fill(0);
            assert_eq!(fold(&frame[..len]), fold(&padded), "length {len}");
        }
    }

    #[test]
    fn the_order_of_words_and_of_events_counts() {
        let mut swapped = [[1u8; 16], [2; 16]].concat();
        let base = fold(&swapped);
        swapped.rotate_left(16);
        assert_ne!(base, fold(&swapped));
        let mut forward = Trace::default();
        let mut backward = Trace::default();
        let at = Instant::ZERO;
        forward.note(at, &Event::Serve(1));
        forward.note(at, &Event::Serve(2));
        backward.note(at, &Event::Serve(2));
        backward.note(at, &Event::Serve(1));
        assert_ne!(forward, backward);
    }
}
