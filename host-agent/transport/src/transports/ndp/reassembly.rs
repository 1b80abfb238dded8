//! Reassembly of the stream from packets in any order.

use std::collections::VecDeque;

use crate::StreamBytes;
use crate::receiver_driven::{Buffers, StreamShape, is_zero, pieces};

/// Packets of a chunk, which is the unit of allocation and of delivery.
pub const CHUNK_PACKETS: u32 = u32::BITS;

/// Consecutive packets. Zeros at the end are not stored, so that most simulated objects take no memory.
struct Chunk {
    /// Its content up to the last packet with another byte than zero. All further bytes that are
    /// there are zeros.
    bytes: Vec<u8>,
    /// Length of the whole chunk in bytes.
    len: usize,
    /// Bit i: packet i of the chunk is there.
    have: u32,
}

impl Chunk {
    /// Keeps the payload of packet `index`, which begins at byte `at`. False: the chunk is not as
    /// long.
    fn store(&mut self, index: u32, at: usize, payload: &[u8], buffers: &mut Buffers) -> bool {
        if at + payload.len() > self.len {
            return false;
        }
        self.have |= 1 << index;
        if let Some(place) = self.bytes.get_mut(at..at + payload.len()) {
            place.copy_from_slice(payload);
        } else if !is_zero(payload) {
            if self.bytes.capacity() == 0 {
                self.bytes = buffers.take();
            }
            // Room for the first packet with content, which in an object of zeros is the one with the envelope; for
            // the whole chunk with the second one.
            let room = match self.bytes.len() {
                0 => at + payload.len(),
                _ => self.len,
            };
            self.bytes.reserve_exact(room - self.bytes.len());
            self.bytes.resize(at, 0);
            self.bytes.extend_from_slice(payload);
        }
        true
    }
}

/// A ring of chunks, which begins with the one that is delivered next.
pub struct Reassembly {
    shape: StreamShape,
    packets: u32,
    /// First packet of `chunks[0]`: all below have been delivered.
    base: u32,
    chunks: VecDeque<Option<Chunk>>,
    delivered_bytes: u64,
}

impl Reassembly {
    /// `packets`: number of packets of the object.
    pub fn new(shape: StreamShape, packets: u32) -> Self {
        Reassembly {
            shape,
            packets,
            base: 0,
            chunks: VecDeque::new(),
            delivered_bytes: 0,
        }
    }

    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    pub fn is_complete(&self) -> bool {
        self.base >= self.packets
    }

    pub fn has(&self, number: u32) -> bool {
        let Some(ahead) = number.checked_sub(self.base) else {
            return true;
        };
        let chunk = self.chunks.get((ahead / CHUNK_PACKETS) as usize);
        let have = chunk.and_then(Option::as_ref).map_or(0, |c| c.have);
        have & 1 << (ahead % CHUNK_PACKETS) != 0
    }

    /// Stores a packet that has not arrived before. False: there is no room. The chunk that is
    /// delivered next always has room. Packets of others have it if they are less than `ahead_packets`
    /// ahead, and the sessions of the host together hold at most `total_bytes`.
    pub fn store(
        &mut self,
        number: u32,
        payload: &[u8],
        (ahead_packets, total_bytes): (u32, u64),
        buffers: &mut Buffers,
    ) -> bool {
        let Some(ahead) = number.checked_sub(self.base) else {
            return false;
        };
        let index = (ahead / CHUNK_PACKETS) as usize;
        if index > 0 && ahead >= ahead_packets {
            return false;
        }
        let first = number - ahead % CHUNK_PACKETS;
        if self.chunks.get(index).is_none_or(Option::is_none) {
            let len = self.chunk_bytes(first);
            if index > 0 && buffers.held() + len as u64 > total_bytes {
                return false;
            }
            if self.chunks.len() <= index {
                self.chunks.resize_with(index + 1, || None);
            }
            buffers.hold(len);
            self.chunks[index] = Some(Chunk {
                bytes: Vec::new(),
                len,
                have: 0,
            });
        }
        let Some(Some(chunk)) = self.chunks.get_mut(index) else {
            return false;
        };
        let index = number - first;
        let at = index as usize * usize::from(self.shape.symbol_bytes);
        chunk.store(index, at, payload, buffers)
    }

    /// The next bytes of the stream in pieces, once a chunk is complete.
    pub fn deliver(
        &mut self,
        buffers: &mut Buffers,
    ) -> Option<impl Iterator<Item = StreamBytes> + use<>> {
        let packets = CHUNK_PACKETS.min(self.packets - self.base);
        let all = u32::MAX >> (CHUNK_PACKETS - packets.max(1));
        let complete = |chunk: &Chunk| chunk.have == all;
        if !self.chunks.front()?.as_ref().is_some_and(complete) {
            return None;
        }
        let chunk = self.chunks.pop_front()??;
        self.base += packets;
        self.delivered_bytes += chunk.len as u64;
        buffers.let_go(chunk.len);
        Some(pieces(chunk.bytes, chunk.len))
    }

    /// Gives back what is held.
    pub fn release(&mut self, buffers: &mut Buffers) {
        for chunk in self.chunks.drain(..).flatten() {
            buffers.let_go(chunk.len);
            buffers.give(chunk.bytes);
        }
    }

    fn chunk_bytes(&self, first: u32) -> usize {
        let (offset, _) = self.shape.extent(first.into());
        let full = u64::from(CHUNK_PACKETS) * u64::from(self.shape.symbol_bytes);
        full.min(self.shape.object_bytes.saturating_sub(offset)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOL: u16 = 10;

    fn new(object_bytes: u64) -> Reassembly {
        let shape = StreamShape {
            object_bytes,
            symbol_bytes: SYMBOL,
            block_symbols: 0,
        };
        Reassembly::new(shape, shape.packets() as u32)
    }

    /// Packet `number` of an object in which every byte says the number of its packet.
    fn payload(reassembly: &Reassembly, number: u32) -> Vec<u8> {
        vec![number as u8; reassembly.shape.extent(number.into()).1]
    }

    fn store_all(
        reassembly: &mut Reassembly,
        buffers: &mut Buffers,
        order: impl Iterator<Item = u32>,
    ) -> Vec<u8> {
        let mut stream = Vec::new();
        for number in order {
            let payload = payload(reassembly, number);
            assert!(!reassembly.has(number));
            assert!(reassembly.store(number, &payload, (10_000, u64::MAX), buffers));
            assert!(reassembly.has(number));
            for bytes in std::iter::from_fn(|| reassembly.deliver(buffers)).flatten() {
                stream.extend_from_slice(&bytes);
            }
        }
        stream
    }

    #[test]
    fn any_order_gives_the_stream() {
        for bytes in [0, 1, 9, 10, 11, 320, 321, 1005] {
            for stride in [1, 7, 89] {
                let (mut r, mut buffers) = (new(bytes), Buffers::default());
                let packets = r.packets;
                let order = (0..packets).map(|i| packets - 1 - (i * stride) % packets);
                let mut seen = std::collections::BTreeSet::new();
                let order: Vec<u32> = order.filter(|n| seen.insert(*n)).collect();
                let rest = (0..packets).filter(|n| !seen.contains(n));
                let order: Vec<u32> = order.into_iter().chain(rest).collect();
                let stream = store_all(&mut r, &mut buffers, order.into_iter());
                let want: Vec<u8> = (0..bytes).map(|i| (i / 10) as u8).collect();
                assert_eq!(stream, want);
                assert!(r.is_complete());
                assert_eq!((buffers.held(), r.delivered_bytes()), (0, bytes));
            }
        }
    }

    #[test]
    fn zeros_take_no_memory() {
        let (mut r, mut buffers) = (new(640), Buffers::default());
        let packet = |number: u32| match number {
            5 | 40 => [number as u8; 10],
            _ => [0; 10],
        };
        let mut stream = Vec::new();
        for number in (0..64).rev() {
            assert!(r.store(number, &packet(number), (10_000, u64::MAX), &mut buffers));
            let kept = r
                .chunks
                .iter()
                .flatten()
                .map(|chunk| chunk.bytes.capacity());
            let most = usize::from(number <= 40) * 90 + usize::from(number <= 5) * 60;
            assert!(kept.sum::<usize>() <= most, "{number}");
            for bytes in std::iter::from_fn(|| r.deliver(&mut buffers)).flatten() {
                stream.extend_from_slice(&bytes);
            }
        }
        let want: Vec<u8> = (0..64).flat_map(packet).collect();
        assert_eq!(stream, want);
    }

    #[test]
    fn memory_is_bounded_but_the_next_chunk_always_fits() {
        let (mut r, mut buffers) = (new(100_000), Buffers::default());
        let limits = (1000, 640);
        let bytes = [7; 10];
        assert!(!r.store(1000, &bytes, limits, &mut buffers), "too far");
        assert!(r.store(999, &bytes, limits, &mut buffers));
        assert!(r.store(500, &bytes, limits, &mut buffers));
        assert_eq!(buffers.held(), 640);
        assert!(!r.store(64, &bytes, limits, &mut buffers), "total");
        assert!(r.store(501, &bytes, limits, &mut buffers), "chunk is there");
        assert!(r.store(3, &bytes, limits, &mut buffers), "next chunk");
        r.release(&mut buffers);
        assert_eq!(buffers.held(), 0);
    }
}
