//! The hash algorithms that BMv2 JSON can name.

use crate::error::LoadError;

/// A cyclic redundancy check, with the parameters of Williams' "A painless guide to CRC".
#[derive(Clone, Debug)]
pub(crate) struct Crc {
    /// Width of the checksum in bits, 8 to 64.
    bits: u32,
    /// The checksum of no bytes, before `xor_out`.
    pub init: u64,
    /// Value that the result is combined with.
    pub xor_out: u64,
    /// Whether bits are taken lowest first.
    reflect: bool,
    /// The contribution of each byte value.
    table: Box<[u64; 256]>,
    /// The contribution of each byte value that 0 to 7 other bytes follow ("slicing by 8"); `None`
    /// unless reflected and at most 32 bits wide.
    pub sliced: Option<Box<[[u32; 256]; 8]>>,
}

/// A hash algorithm.
#[derive(Clone, Debug)]
pub(crate) enum Algorithm {
    /// A cyclic redundancy check.
    Crc(Crc),
    /// The Internet checksum (RFC 1071): the complement of the one's complement sum.
    Csum16,
    /// XOR of all words of this many bytes.
    Xor(usize),
    /// The first eight bytes as a number.
    Identity,
    /// A counter instead of a hash.
    RoundRobin,
}

impl Algorithm {
    /// The algorithm with this name in BMv2 JSON.
    pub fn by_name(name: &str) -> Result<Algorithm, LoadError> {
        Ok(match name {
            // The `custom` ones start with the same parameters.
            "crc8_custom" => Algorithm::Crc(Crc::new(8, 0x07, 0, 0, false)),
            "crc16" | "crc16_custom" => Algorithm::Crc(Crc::new(16, 0x8005, 0, 0, true)),
            "crcCCITT" => Algorithm::Crc(Crc::new(16, 0x1021, 0xffff, 0, false)),
            "crc32" | "crc32_custom" => {
                Algorithm::Crc(Crc::new(32, 0x04c1_1db7, 0xffff_ffff, 0xffff_ffff, true))
            }
            "crc64_custom" => Algorithm::Crc(Crc::new(64, 0x1b, 0, 0, true)),
            "csum16" | "cksum16" => Algorithm::Csum16,
            "xor8" => Algorithm::Xor(1),
            "xor16" => Algorithm::Xor(2),
            "xor32" => Algorithm::Xor(4),
            "identity" => Algorithm::Identity,
            "round_robin" => Algorithm::RoundRobin,
            custom if custom.starts_with("crc:") => {
                let crc = Crc::custom(custom);
                Algorithm::Crc(crc.ok_or_else(|| {
                    LoadError::new(
                        format!("hash algorithm {custom}"),
                        "expected crc:BITS:POLYNOMIAL:REVERSED:INIT:XOR, of 8 to 64 bits",
                    )
                })?)
            }
            _ => {
                return Err(LoadError::new(
                    format!("hash algorithm {name}"),
                    "it is not supported; use crc16, crc32, csum16, xor16, identity or one of the others of v1model",
                ));
            }
        })
    }

    /// The hash of these bytes. `turns` is the counter of [`Algorithm::RoundRobin`].
    #[inline]
    pub fn compute(&self, bytes: &[u8], turns: &mut u64) -> u64 {
        match self {
            Algorithm::Crc(crc) => crc.compute(bytes),
            Algorithm::Csum16 => u64::from(internet_checksum(bytes)),
            Algorithm::Xor(width) => bytes.chunks(*width).fold(0, |sum, chunk| {
                let word = chunk.iter().fold(0, |n, b| n << 8 | u64::from(*b));
                // A short last word is filled up with zeros at its end.
                sum ^ word << (8 * (*width - chunk.len()))
            }),
            Algorithm::Identity => bytes.iter().take(8).fold(0, |n, b| n << 8 | u64::from(*b)),
            Algorithm::RoundRobin => {
                *turns = turns.wrapping_add(1);
                turns.wrapping_sub(1)
            }
        }
    }
}

impl Crc {
    /// The parameters of a polynomial that a program of Tofino has, `crc:BITS:POLYNOMIAL:REVERSED:INIT:XOR`, with
    /// hexadecimal numbers; `None` if it is not of this form.
    fn custom(name: &str) -> Option<Crc> {
        let mut parts = name.strip_prefix("crc:")?.split(':');
        let bits = parts.next()?.parse().ok()?;
        if !(8..=64).contains(&bits) {
            return None;
        }
        let mask = u64::MAX >> (64 - bits);
        let mut number = || {
            let digits = parts.next()?.trim_start_matches("0x");
            Some(u64::from_str_radix(digits, 16).ok()? & mask)
        };
        let (polynomial, reversed) = (number()?, number()?);
        let (init, xor_out) = (number()?, number()?);
        Some(Crc::new(bits, polynomial, init, xor_out, reversed != 0))
    }

    /// The check with these parameters, which have `bits` bits each.
    pub fn new(bits: u32, polynomial: u64, init: u64, xor_out: u64, reflect: bool) -> Crc {
        let mask = u64::MAX >> (64 - bits);
        let mut table = Box::new([0; 256]);
        for (i, entry) in table.iter_mut().enumerate() {
            *entry = if reflect {
                let polynomial = polynomial.reverse_bits() >> (64 - bits);
                (0..8).fold(i as u64, |n, _| (n >> 1) ^ ((n & 1) * polynomial))
            } else {
                (0..8).fold((i as u64) << (bits - 8), |n, _| {
                    ((n << 1) ^ ((n >> (bits - 1) & 1) * polynomial)) & mask
                })
            };
        }
        let init = if reflect {
            init.reverse_bits() >> (64 - bits)
        } else {
            init
        };
        let sliced = (reflect && bits <= 32).then(|| slice(&table));
        Crc {
            bits,
            init,
            xor_out,
            reflect,
            table,
            sliced,
        }
    }

    /// The checksum of these bytes.
    pub fn compute(&self, bytes: &[u8]) -> u64 {
        let mask = u64::MAX >> (64 - self.bits);
        let (start, bytes) = match &self.sliced {
            Some(tables) => {
                let (chunks, rest) = bytes.as_chunks();
                let crc = chunks
                    .iter()
                    .fold(self.init as u32, |crc, chunk| eight(tables, crc, *chunk));
                (u64::from(crc), rest)
            }
            None => (self.init, bytes),
        };
        let crc = bytes.iter().fold(start, |crc, byte| {
            if self.reflect {
                crc >> 8 ^ self.table[(crc as u8 ^ byte) as usize]
            } else {
                let index = (crc >> (self.bits - 8)) as u8 ^ byte;
                (crc << 8 ^ self.table[index as usize]) & mask
            }
        });
        crc ^ self.xor_out
    }
}

/// The tables for slicing by 8.
fn slice(table: &[u64; 256]) -> Box<[[u32; 256]; 8]> {
    let mut sliced = Box::new([[0; 256]; 8]);
    for (byte, start) in table.iter().enumerate() {
        let mut crc = *start;
        for later in sliced.iter_mut() {
            later[byte] = crc as u32;
            crc = crc >> 8 ^ table[usize::from(crc as u8)];
        }
    }
    sliced
}

/// Takes eight bytes at once: their contributions do not depend on each other.
#[inline]
fn eight(tables: &[[u32; 256]; 8], crc: u32, chunk: [u8; 8]) -> u32 {
    let word = u64::from_le_bytes(chunk) ^ u64::from(crc);
    let bytes = word.to_le_bytes();
    (0..8).fold(0, |sum, i| sum ^ tables[7 - i][usize::from(bytes[i])])
}

/// The Internet checksum (RFC 1071).
pub(crate) fn internet_checksum(bytes: &[u8]) -> u16 {
    // 2^16 is 1 in one's complement arithmetic, so words of any multiple of 16 bits have the same
    // sum.
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = words
        .iter()
        .map(|w| u64::from(u32::from_be_bytes(*w)))
        .sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum += u64::from(u32::from_be_bytes(last));
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, input: &[u8]) -> u64 {
        Algorithm::by_name(name).unwrap().compute(input, &mut 0)
    }

    /// The check values of the CRC catalogues: the CRC of "123456789".
    #[test]
    fn crc_check_values() {
        let input = b"123456789";
        assert_eq!(check("crc8_custom", input), 0xf4);
        assert_eq!(check("crc16", input), 0xbb3d);
        assert_eq!(check("crcCCITT", input), 0x29b1);
        assert_eq!(check("crc32", input), 0xcbf4_3926);
        assert_eq!(check("crc64_custom", input), 0x46a5_a938_8a5b_effe);
    }

    #[test]
    fn slices_are_as_good_as_bytes() {
        let bytes: Vec<u8> = (0..70u8).map(|i| i.wrapping_mul(37)).collect();
        for name in ["crc16", "crc32"] {
            let Ok(Algorithm::Crc(fast)) = Algorithm::by_name(name) else {
                panic!("{name} is no CRC");
            };
            assert!(fast.sliced.is_some());
            let plain = Crc {
                sliced: None,
                ..fast.clone()
            };
            for end in 0..bytes.len() {
                assert_eq!(fast.compute(&bytes[..end]), plain.compute(&bytes[..end]));
            }
        }
    }

    /// RFC 1071, section 3, and the header of a well-known IPv4 example.
    #[test]
    fn internet_checksums() {
        assert_eq!(
            check("csum16", &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            0x220d
        );
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(check("csum16", &header), 0xb861);
        assert_eq!(check("csum16", &[0xff]), 0x00ff);
    }

    #[test]
    fn the_simple_ones() {
        assert_eq!(check("xor16", &[0x12, 0x34, 0x56]), 0x1234 ^ 0x5600);
        assert_eq!(check("xor32", &[1, 2, 3, 4, 5]), 0x0102_0304 ^ 0x0500_0000);
        assert_eq!(check("identity", &[1, 2, 3]), 0x01_02_03);
        assert!(Algorithm::by_name("md5").is_err());
    }
}
