//! Remaining size of a flow, in 16 bits of the IPv4 header (`docs/wire-format.md`, "Remaining size").

/// Bits of the mantissa, without its leading 1.
const MANTISSA_BITS: u32 = 11;

/// Encodes the remaining bytes of a flow for the identification field of an IPv4 header, which is free
/// where packets are never fragmented. The code is a floating-point number: the 12 leading bits, and
/// how many follow them. It never decreases with the size, so switches compare codes as integers. Up
/// to 4095 it is the size itself; from 2^42 bytes on it is the greatest code.
pub fn remaining_code(bytes: u64) -> u16 {
    let significant = u64::BITS - bytes.leading_zeros();
    let cut = significant.saturating_sub(MANTISSA_BITS + 1);
    let code = (u64::from(cut) << MANTISSA_BITS) + (bytes >> cut);
    u16::try_from(code).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_page() {
        let page = [
            (0, 0),
            (1, 1),
            (1_460, 1_460),
            (4_095, 4_095),
            (4_096, 4_096),
            (4_097, 4_096),
            (4_098, 4_097),
            (100_000, 13_365),
            (1_000_000, 20_290),
            (20_000_000, 29_065),
            (1 << 42, u16::MAX),
            (u64::MAX, u16::MAX),
        ];
        for (bytes, code) in page {
            assert_eq!(remaining_code(bytes), code, "{bytes}");
        }
    }

    #[test]
    fn more_never_has_a_lesser_code_and_a_packet_more_a_greater_one() {
        let steps =
            (0..42).flat_map(|bit| (0..4096).map(move |i| (1_u64 << bit) + (i << bit >> 12)));
        let mut before = 0;
        for bytes in steps {
            let code = remaining_code(bytes);
            assert!(code >= before, "{bytes}");
            before = code;
        }
        // Full packets of the same flow differ as long as fewer than 3 MB are left.
        for bytes in (0..2_900_000).step_by(1_000) {
            assert!(
                remaining_code(bytes) < remaining_code(bytes + 1_460),
                "{bytes}"
            );
        }
    }
}
