//! Binary values as P4Runtime carries them: big-endian byte strings of any length (spec,
//! "Bytestrings"). Inside the server they are always canonical: no leading zero bytes, zero is one
//! zero byte. So equal values are equal byte strings.

use crate::error::{EntityError, Result};

/// Checks that `bytes` fits in `width` bits and returns its canonical form.
pub fn canonical(bytes: &[u8], width: usize) -> Result<Vec<u8>> {
    if bytes.is_empty() {
        return Err(EntityError::out_of_range(
            "the value is an empty byte string; write zero as 0x00",
        ));
    }
    let value = strip(bytes);
    let used = bit_length(value);
    if used > width {
        return Err(EntityError::out_of_range(format!(
            "value {} needs {used} bits, the field has {width}; allowed: 0 to {}",
            hex(value),
            hex(&ones(width))
        )));
    }
    Ok(value.to_vec())
}

/// The number that up to 16 bytes are; of more, the last 16 count.
pub fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |n, b| n << 8 | u128::from(*b))
}

/// The value without leading zero bytes; zero keeps one.
pub fn strip(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    match bytes.len() {
        0 => &[0],
        len => &bytes[zeros.min(len - 1)..],
    }
}

/// A number in two's complement of any length, as the lowest `width` bits of it (spec, "Bytestrings").
pub fn from_signed(bytes: &[u8], width: usize) -> Result<Vec<u8>> {
    let Some(first) = bytes.first() else {
        return canonical(bytes, width);
    };
    let fill = if first & 0x80 == 0 { 0 } else { 0xff };
    let mut wide = vec![fill; width.div_ceil(8).max(bytes.len()) + 1 - bytes.len()];
    wide.extend_from_slice(bytes);
    // From the sign bit of the type on, all bits are the same.
    let bit = |n: usize| wide[wide.len() - 1 - n / 8] >> (n % 8) & 1;
    if (width.max(1) - 1..wide.len() * 8).any(|n| bit(n) != fill & 1) {
        return Err(EntityError::out_of_range(format!(
            "value {} does not fit in int<{width}>",
            hex(bytes)
        )));
    }
    let mask = ones(width);
    let kept = padded(&wide, width);
    let first = kept.len() - mask.len().min(kept.len());
    Ok(kept
        .iter()
        .enumerate()
        .map(|(i, b)| match i.checked_sub(first) {
            Some(at) => b & mask[at],
            None => 0,
        })
        .collect())
}

/// The value of `width` bits as the shortest two's complement that means the same.
pub fn to_signed(bytes: &[u8], width: usize) -> Vec<u8> {
    let mut value = padded(bytes, width);
    let sign = width.max(1) - 1;
    let last = value.len() - 1;
    let negative = value[last - sign / 8] >> (sign % 8) & 1 == 1;
    let fill = if negative { 0xff } else { 0 };
    if negative {
        for n in width..value.len() * 8 {
            value[last - n / 8] |= 1 << (n % 8);
        }
    }
    let spare = |pair: &[u8]| pair[0] == fill && pair[1] >> 7 == fill >> 7;
    let cut = value.windows(2).take_while(|pair| spare(pair)).count();
    value.split_off(cut)
}

/// The position of the highest set bit, counted from 1; 0 for zero.
pub fn bit_length(bytes: &[u8]) -> usize {
    let bytes = strip(bytes);
    bytes.len() * 8 - bytes[0].leading_zeros() as usize
}

pub fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| *b == 0)
}

/// The value in exactly the bytes that `width` bits take. Higher bytes are cut.
pub fn padded(bytes: &[u8], width: usize) -> Vec<u8> {
    let len = width.div_ceil(8).max(1);
    let mut out = vec![0; len];
    let keep = bytes.len().min(len);
    out[len - keep..].copy_from_slice(&bytes[bytes.len() - keep..]);
    out
}

/// All ones in `width` bits.
pub fn ones(width: usize) -> Vec<u8> {
    prefix_mask(width, width)
}

/// `prefix` ones at the top of `width` bits, canonical.
pub fn prefix_mask(prefix: usize, width: usize) -> Vec<u8> {
    let mut mask = vec![0; width.div_ceil(8).max(1)];
    let last = mask.len() - 1;
    for bit in width.saturating_sub(prefix)..width {
        mask[last - bit / 8] |= 1 << (bit % 8);
    }
    strip(&mask).to_vec()
}

/// Bits of `value` outside of `mask`: set where a masked value is not allowed to be.
pub fn outside(value: &[u8], mask: &[u8]) -> Vec<u8> {
    let width = 8 * value.len().max(mask.len());
    let bytes = padded(value, width).into_iter().zip(padded(mask, width));
    strip(&bytes.map(|(v, m)| v & !m).collect::<Vec<_>>()).to_vec()
}

/// The order of two canonical values as numbers.
pub fn compare(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// The value as a number; `None` if it has more than 64 bits.
pub fn to_u64(bytes: &[u8]) -> Option<u64> {
    let bytes = strip(bytes);
    if bytes.len() > 8 {
        return None;
    }
    Some(number(bytes) as u64)
}

/// `0x0a000001`, for messages.
pub fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("0x{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[test]
    fn leading_zeros_go_and_zero_keeps_one_byte() {
        assert_eq!(canonical(&[0, 0, 1, 0], 32).unwrap(), [1, 0]);
        assert_eq!(canonical(&[0, 0], 9).unwrap(), [0]);
        assert_eq!(canonical(&[0, 0, 0, 0, 0x63], 7).unwrap(), [0x63]);
    }

    #[test]
    fn too_wide_and_empty_values_are_refused() {
        let error = canonical(&[0x80], 7).unwrap_err();
        assert_eq!(error.code, Code::OutOfRange);
        assert_eq!(
            error.message,
            "value 0x80 needs 8 bits, the field has 7; allowed: 0 to 0x7f"
        );
        assert_eq!(canonical(&[], 8).unwrap_err().code, Code::OutOfRange);
    }

    #[test]
    fn masks() {
        assert_eq!(prefix_mask(24, 32), [0xff, 0xff, 0xff, 0]);
        assert_eq!(prefix_mask(0, 32), [0]);
        assert_eq!(prefix_mask(3, 9), [0x01, 0xc0]);
        assert_eq!(ones(9), [0x01, 0xff]);
        assert_eq!(outside(&[10, 0, 0, 1], &[0xff, 0, 0, 0]), [1]);
        assert!(is_zero(&outside(&[0xf0], &[0xff, 0xf0])));
    }

    #[test]
    fn signed_values_are_as_in_the_table_of_the_spec() {
        assert_eq!(to_signed(&[0x9d], 8), [0x9d]);
        assert_eq!(to_signed(&[0x0d, 0x1d], 12), [0xfd, 0x1d]);
        assert_eq!(to_signed(&[0, 0], 16), [0]);
        assert_eq!(to_signed(&[0, 0x80], 16), [0, 0x80]);
        assert_eq!(from_signed(&[0xff, 0x9d], 8).unwrap(), [0x9d]);
        assert_eq!(from_signed(&[0xfd, 0x1d], 12).unwrap(), [0x0d, 0x1d]);
        assert_eq!(from_signed(&[0x63], 8).unwrap(), [0x63]);
        assert!(from_signed(&[0, 0x9d], 8).is_err());
        assert!(from_signed(&[0x8d, 0x1d], 12).is_err());
        assert!(from_signed(&[], 16).is_err());
    }

    #[test]
    fn padding_keeps_the_low_bytes() {
        assert_eq!(padded(&[1], 9), [0, 1]);
        assert_eq!(padded(&[1, 2, 3], 16), [2, 3]);
        assert_eq!(padded(&[0], 48), [0; 6]);
        assert_eq!(to_u64(&padded(&[0x12, 0x34], 48)), Some(0x1234));
    }

    #[test]
    fn numbers_compare_by_value() {
        assert!(compare(&[0xff], &[1, 0]).is_lt());
        assert!(compare(&[2], &[1]).is_gt());
    }
}
