//! Out-of-order reassembly and the SACK blocks that describe it (RFC 9293 3.10.7.4, RFC 2018 4).
//!
//! Positions are 64-bit stream offsets: the 32-bit sequence numbers of the wire are unwrapped
//! before they come here.

use std::collections::BTreeMap;

use arrayvec::ArrayVec;

/// SACK blocks, in offsets. Three fit beside timestamps, four without (RFC 2018 3).
pub(crate) type SackRanges = ArrayVec<(u64, u64), 4>;

/// Buffers of out-of-order segments that are kept for the next ones.
const MAX_SPARE_CHUNKS: usize = 64;

/// Data received beyond the cumulative acknowledgment.
#[derive(Debug)]
pub(crate) struct Reassembly {
    /// RCV.NXT.
    next: u64,
    /// Chunks above `next`, disjoint, by start offset.
    chunks: BTreeMap<u64, Vec<u8>>,
    /// Maximal ranges covered by `chunks`, most recently changed first (RFC 2018 4).
    ranges: Vec<(u64, u64)>,
    /// In-order bytes the application has not taken yet.
    ready: Vec<u8>,
    /// Out-of-order segments that are held at most. What would exceed it is not taken, and so not
    /// SACKed: the sender keeps it. Else a peer that sends every second byte could make its window
    /// take many times its size here.
    max_chunks: usize,
    spare_chunks: Vec<Vec<u8>>,
}

impl Reassembly {
    pub(crate) fn new(next: u64, max_chunks: usize) -> Self {
        Reassembly {
            next,
            chunks: BTreeMap::new(),
            ranges: Vec::new(),
            ready: Vec::new(),
            max_chunks,
            spare_chunks: Vec::new(),
        }
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn has_gaps(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Bytes beyond the gaps.
    pub(crate) fn out_of_order_bytes(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// In-order bytes waiting for the application.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.ready.len()
    }

    /// Exchanges the in-order bytes for the storage of `buffer`, which is empty.
    pub(crate) fn take_ready(&mut self, buffer: &mut Vec<u8>) {
        std::mem::swap(&mut self.ready, buffer);
    }

    /// The ranges for the SACK option, the one with the latest segment first.
    pub(crate) fn sack_blocks(&self) -> SackRanges {
        let blocks = self.ranges.iter().take(SackRanges::new().capacity());
        blocks.copied().collect()
    }

    /// Takes `data` that starts at offset `start`. The caller has cut it to the receive window.
    pub(crate) fn insert(&mut self, start: u64, data: &[u8]) {
        let end = start + data.len() as u64;
        if end <= self.next {
            return;
        }
        if start > self.next {
            if self.chunks.len() < self.max_chunks {
                self.insert_chunks(start, data);
                self.extend_ranges(start, end);
            }
            return;
        }
        self.ready
            .extend_from_slice(&data[(self.next - start) as usize..]);
        self.next = end;
        self.drain_chunks();
        self.ranges.retain(|&(_, end)| end > self.next);
    }

    /// Stores the parts of `data` that no chunk has yet.
    fn insert_chunks(&mut self, start: u64, data: &[u8]) {
        let end = start + data.len() as u64;
        let mut from = start;
        if let Some((&s, chunk)) = self.chunks.range(..=start).next_back() {
            from = from.max(s + chunk.len() as u64);
        }
        while from < end {
            let following = self
                .chunks
                .range(from..)
                .next()
                .map(|(&s, c)| (s, s + c.len() as u64));
            let (until, resume) = match following {
                Some((s, e)) if s < end => (s, e),
                _ => (end, end),
            };
            if from < until {
                let piece = &data[(from - start) as usize..(until - start) as usize];
                let mut chunk = self.spare_chunks.pop().unwrap_or_default();
                chunk.extend_from_slice(piece);
                self.chunks.insert(from, chunk);
            }
            from = resume;
        }
    }

    /// Moves chunks that have become in-order to `ready`.
    fn drain_chunks(&mut self) {
        while let Some(entry) = self.chunks.first_entry() {
            let start = *entry.key();
            if start > self.next {
                break;
            }
            let mut chunk = entry.remove();
            let known = (self.next - start) as usize;
            if known < chunk.len() {
                self.ready.extend_from_slice(&chunk[known..]);
                self.next = start + chunk.len() as u64;
            }
            if self.spare_chunks.len() < MAX_SPARE_CHUNKS {
                chunk.clear();
                self.spare_chunks.push(chunk);
            }
        }
    }

    /// Merges `[start, end)` with the ranges it touches and puts the result first.
    fn extend_ranges(&mut self, mut start: u64, mut end: u64) {
        self.ranges.retain(|&(s, e)| {
            let touches = s <= end && start <= e;
            if touches {
                start = start.min(s);
                end = end.max(e);
            }
            !touches
        });
        self.ranges.insert(0, (start, end));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ready(r: &mut Reassembly) -> Vec<u8> {
        let mut bytes = Vec::new();
        r.take_ready(&mut bytes);
        bytes
    }

    #[test]
    fn in_order_data_is_ready_at_once() {
        let mut r = Reassembly::new(1, 100);
        r.insert(1, b"abc");
        r.insert(4, b"de");
        assert_eq!(ready(&mut r), b"abcde");
        assert_eq!(r.next(), 6);
        assert!(!r.has_gaps());
    }

    #[test]
    fn blocks_are_reported_latest_first_and_merged() {
        let mut r = Reassembly::new(0, 100);
        r.insert(10, b"xxxxx");
        r.insert(30, b"xxxxx");
        r.insert(20, b"xxxxx");
        assert_eq!(r.sack_blocks()[..], [(20, 25), (30, 35), (10, 15)]);
        r.insert(15, b"xxxxx");
        assert_eq!(r.sack_blocks()[..], [(10, 25), (30, 35)]);
        r.insert(0, b"0123456789");
        assert_eq!(r.sack_blocks()[..], [(30, 35)]);
        assert_eq!(r.next(), 25);
        assert_eq!(r.unread_bytes(), 25);
    }

    #[test]
    fn old_and_overlapping_data_is_taken_once() {
        let mut r = Reassembly::new(0, 100);
        r.insert(0, b"abcd");
        r.insert(0, b"abcd");
        r.insert(2, b"cdef");
        assert_eq!(ready(&mut r), b"abcdef");
    }

    #[test]
    fn holes_do_not_multiply_what_is_held() {
        let mut r = Reassembly::new(0, 10);
        for start in (1..1000).step_by(2) {
            r.insert(start, b"x");
        }
        assert_eq!((r.chunks.len(), r.ranges.len()), (10, 10));
        // Data in order is always taken.
        let stream: Vec<u8> = (0..100)
            .map(|i| if i % 2 == 0 { b'e' } else { b'x' })
            .collect();
        for start in (0..100).step_by(2) {
            r.insert(start, &stream[start as usize..][..1]);
        }
        assert_eq!(r.next(), 21);
        for start in 21..100 {
            r.insert(start, &stream[start as usize..][..1]);
        }
        assert_eq!(ready(&mut r), stream);
    }

    proptest! {
        /// Whatever the order, overlap and repetition: the bytes come out once, in order, and the
        /// SACK blocks are exactly the maximal ranges that are covered but not yet in order.
        #[test]
        fn any_arrival_order_gives_the_same_stream(
            pieces in prop::collection::vec((0u64..200, 1u64..40), 1..60),
        ) {
            let stream: Vec<u8> = (0..=255).collect();
            let mut r = Reassembly::new(0, 100);
            let mut covered = vec![false; 256];
            let mut out = Vec::new();
            for (start, len) in pieces {
                let end = start + len;
                r.insert(start, &stream[start as usize..end as usize]);
                covered[start as usize..end as usize].fill(true);
                out.extend(ready(&mut r));
                let next = covered.iter().position(|c| !c).unwrap_or(256);
                prop_assert_eq!(r.next(), next as u64);
                prop_assert_eq!(&out[..], &stream[..next]);
                let mut ranges = r.ranges.clone();
                ranges.sort_unstable();
                let mut expected = Vec::new();
                let mut i = next;
                while i < 256 {
                    if covered[i] {
                        let e = (i..256).find(|&j| !covered[j]).unwrap_or(256);
                        expected.push((i as u64, e as u64));
                        i = e;
                    } else {
                        i += 1;
                    }
                }
                prop_assert_eq!(ranges, expected);
            }
        }
    }
}
