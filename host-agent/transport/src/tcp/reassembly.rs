//! Out-of-order reassembly and the SACK blocks that describe it (RFC 9293 3.10.7.4, RFC 2018 4).
//!
//! Positions are 64-bit stream offsets: the 32-bit sequence numbers of the wire are unwrapped
//! before they come here.

use std::collections::BTreeMap;

/// Three blocks fit beside timestamps, four without (RFC 2018 3).
pub(crate) const MAX_SACK_BLOCKS: usize = 4;

/// What has been received beyond the cumulative acknowledgment point.
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
}

impl Reassembly {
    pub(crate) fn new(next: u64) -> Self {
        Reassembly {
            next,
            chunks: BTreeMap::new(),
            ranges: Vec::new(),
            ready: Vec::new(),
        }
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn has_gaps(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// In-order bytes waiting for the application.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.ready.len()
    }

    pub(crate) fn take_ready(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.ready)
    }

    /// The ranges for the SACK option, the one with the latest segment first.
    pub(crate) fn sack_blocks(&self) -> &[(u64, u64)] {
        &self.ranges[..self.ranges.len().min(MAX_SACK_BLOCKS)]
    }

    /// Takes `data` that starts at offset `start`. The caller has cut it to the receive window.
    pub(crate) fn insert(&mut self, start: u64, data: &[u8]) {
        let end = start + data.len() as u64;
        if end <= self.next {
            return;
        }
        if start > self.next {
            self.insert_chunks(start, data);
            self.extend_ranges(start.max(self.next), end);
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
                self.chunks.insert(from, piece.to_vec());
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
            let chunk = entry.remove();
            let known = (self.next - start) as usize;
            if known < chunk.len() {
                self.ready.extend_from_slice(&chunk[known..]);
                self.next = start + chunk.len() as u64;
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

    #[test]
    fn in_order_data_is_ready_at_once() {
        let mut r = Reassembly::new(1);
        r.insert(1, b"abc");
        r.insert(4, b"de");
        assert_eq!(r.take_ready(), b"abcde");
        assert_eq!(r.next(), 6);
        assert!(!r.has_gaps());
    }

    #[test]
    fn blocks_are_reported_latest_first_and_merged() {
        let mut r = Reassembly::new(0);
        r.insert(10, b"xxxxx");
        r.insert(30, b"xxxxx");
        r.insert(20, b"xxxxx");
        assert_eq!(r.sack_blocks(), [(20, 25), (30, 35), (10, 15)]);
        r.insert(15, b"xxxxx");
        assert_eq!(r.sack_blocks(), [(10, 25), (30, 35)]);
        r.insert(0, b"0123456789");
        assert_eq!(r.sack_blocks(), [(30, 35)]);
        assert_eq!(r.next(), 25);
        assert_eq!(r.unread_bytes(), 25);
    }

    #[test]
    fn old_and_overlapping_data_is_taken_once() {
        let mut r = Reassembly::new(0);
        r.insert(0, b"abcd");
        r.insert(0, b"abcd");
        r.insert(2, b"cdef");
        assert_eq!(r.take_ready(), b"abcdef");
    }

    proptest! {
        /// Whatever the order, overlap and repetition: the bytes come out once, in order, and the
        /// SACK blocks are exactly the maximal ranges that are covered but not yet in order.
        #[test]
        fn any_arrival_order_gives_the_same_stream(
            pieces in prop::collection::vec((0u64..200, 1u64..40), 1..60),
        ) {
            let stream: Vec<u8> = (0..=255).collect();
            let mut r = Reassembly::new(0);
            let mut covered = vec![false; 256];
            let mut out = Vec::new();
            for (start, len) in pieces {
                let end = start + len;
                r.insert(start, &stream[start as usize..end as usize]);
                covered[start as usize..end as usize].fill(true);
                out.extend(r.take_ready());
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
