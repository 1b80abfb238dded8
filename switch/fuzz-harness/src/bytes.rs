//! Numbers of so few values that packets and entries often have the same one.

use arbitrary::{Result, Unstructured};

/// Values that packets and entries of the programs here have in common.
const POPULAR: [u64; 18] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 0x10, 0x17, 0x20, 0x30, 0x40, 0x50, 0x80, 0x800, 0xff,
];

/// A number of this width, big-endian; sometimes too wide.
pub fn number(input: &mut Unstructured, bits: u32) -> Result<Vec<u8>> {
    let len = bits.div_ceil(8) as usize;
    let mut bytes = vec![0; len];
    match input.int_in_range(0..=9u8)? {
        0 => return Ok(input.bytes(len.min(input.len()))?.to_vec()),
        1 => {
            bytes.fill(0xff);
            if let (Some(first), true) = (bytes.first_mut(), !bits.is_multiple_of(8)) {
                *first >>= 8 - bits % 8;
            }
        }
        _ => {
            let popular = input.choose(&POPULAR)?.to_be_bytes();
            let n = len.min(8);
            bytes[len - n..].copy_from_slice(&popular[8 - n..]);
            if let (Some(first), true) = (bytes.first_mut(), !bits.is_multiple_of(8)) {
                *first &= 0xff >> (8 - bits % 8);
            }
        }
    }
    Ok(bytes)
}

/// One of the values that occur often.
pub fn popular(input: &mut Unstructured) -> Result<u64> {
    input.choose(&POPULAR).copied()
}
