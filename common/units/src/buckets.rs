//! Numbers of buckets whose width is a fixed share of their values, as in HdrHistogram: each octave
//! of values is cut into `PARTS` (a power of two) equal buckets, and values below `PARTS` have a
//! bucket each. A percentile that is read from such buckets is off by at most 1 / `PARTS`.

/// Number of the bucket that holds a value.
#[inline]
pub fn bucket<const PARTS: u64>(value: u64) -> usize {
    // Octave n has the values from PARTS << n on, in buckets 1 << n wide; smaller ones count as octave 0.
    let octave = value.max(PARTS).ilog2() - PARTS.ilog2();
    (u64::from(octave) * PARTS + (value >> octave)) as usize
}

/// Smallest value of a bucket; `u64::MAX` for the number after the last bucket.
pub fn lowest<const PARTS: u64>(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let octave = (bucket / PARTS).saturating_sub(1);
    let part = u128::from(bucket - octave * PARTS);
    u64::try_from(part << octave).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow_each_other<const PARTS: u64>() {
        assert_eq!(lowest::<PARTS>(0), 0);
        for number in 0..=bucket::<PARTS>(u64::MAX) {
            let (from, below) = (lowest::<PARTS>(number), lowest::<PARTS>(number + 1));
            assert!(from < below, "{number}");
            assert_eq!(bucket::<PARTS>(from), number);
            assert_eq!(bucket::<PARTS>(below - 1), number);
            let width = below - from;
            assert!(width == 1 || width * PARTS <= from, "{number}");
        }
    }

    #[test]
    fn buckets_follow_each_other_and_hold_their_values() {
        follow_each_other::<16>();
        follow_each_other::<32>();
    }
}
