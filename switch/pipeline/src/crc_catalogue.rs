//! Cyclic redundancy checks by the names that BF Runtime has for them, with the parameters of Cook's catalogue of
//! parametrised CRC algorithms.

use crate::dynamic_hash::HashFunction;

const ONES_16: u64 = 0xffff;
const ONES_32: u64 = 0xffff_ffff;
const ONES_64: u64 = u64::MAX;
const ETHERNET: u64 = 0x04c1_1db7;
const ECMA: u64 = 0x42f0_e1eb_a9ea_3693;

/// Name, width, polynomial, whether bits are taken lowest first, initial value, final XOR.
type Entry = (&'static str, u32, u64, bool, u64, u64);

#[rustfmt::skip]
const ENTRIES: [Entry; 41] = [
    ("CRC_8", 8, 0x07, false, 0, 0),
    ("CRC_8_DARC", 8, 0x39, true, 0, 0),
    ("CRC_8_I_CODE", 8, 0x1d, false, 0xfd, 0),
    ("CRC_8_ITU", 8, 0x07, false, 0, 0x55),
    ("CRC_8_MAXIM", 8, 0x31, true, 0, 0),
    ("CRC_8_ROHC", 8, 0x07, true, 0xff, 0),
    ("CRC_8_WCDMA", 8, 0x9b, true, 0, 0),
    ("CRC_16", 16, 0x8005, true, 0, 0),
    ("CRC_16_BYPASS", 16, 0x8005, false, 0, 0),
    ("CRC_16_DDS_110", 16, 0x8005, false, 0x800d, 0),
    ("CRC_16_DECT", 16, 0x0589, false, 0, 1),
    ("CRC_16_DECT_R", 16, 0x0589, false, 0, 1),
    ("CRC_16_DECT_X", 16, 0x0589, false, 0, 0),
    ("CRC_16_DNP", 16, 0x3d65, true, 0, ONES_16),
    ("CRC_16_EN_13757", 16, 0x3d65, false, 0, ONES_16),
    ("CRC_16_GENIBUS", 16, 0x1021, false, ONES_16, ONES_16),
    ("CRC_16_MAXIM", 16, 0x8005, true, 0, ONES_16),
    ("CRC_16_MCRF4XX", 16, 0x1021, true, ONES_16, 0),
    ("CRC_16_RIELLO", 16, 0x1021, true, 0xb2aa, 0),
    ("CRC_16_T10_DIF", 16, 0x8bb7, false, 0, 0),
    ("CRC_16_TELEDISK", 16, 0xa097, false, 0, 0),
    ("CRC_16_USB", 16, 0x8005, true, ONES_16, ONES_16),
    ("X_25", 16, 0x1021, true, ONES_16, ONES_16),
    ("XMODEM", 16, 0x1021, false, 0, 0),
    ("MODBUS", 16, 0x8005, true, ONES_16, 0),
    ("KERMIT", 16, 0x1021, true, 0, 0),
    ("CRC_CCITT_FALSE", 16, 0x1021, false, ONES_16, 0),
    ("CRC_AUG_CCITT", 16, 0x1021, false, 0x1d0f, 0),
    ("CRC_32", 32, ETHERNET, true, ONES_32, ONES_32),
    ("CRC_32_BZIP2", 32, ETHERNET, false, ONES_32, ONES_32),
    ("CRC_32C", 32, 0x1edc_6f41, true, ONES_32, ONES_32),
    ("CRC_32D", 32, 0xa833_982b, true, ONES_32, ONES_32),
    ("CRC_32_MPEG", 32, ETHERNET, false, ONES_32, 0),
    ("POSIX", 32, ETHERNET, false, 0, ONES_32),
    ("CRC_32Q", 32, 0x8141_41ab, false, 0, 0),
    ("JAMCRC", 32, ETHERNET, true, ONES_32, 0),
    ("XFER", 32, 0xaf, false, 0, 0),
    ("CRC_64", 64, ECMA, false, 0, 0),
    ("CRC_64_GO_ISO", 64, 0x1b, true, ONES_64, ONES_64),
    ("CRC_64_WE", 64, ECMA, false, ONES_64, ONES_64),
    ("CRC_64_JONES", 64, 0xad93_d235_94c9_35a9, true, ONES_64, 0),
];

impl HashFunction {
    /// The check with this name, in letters of any case; `None` if there is none.
    pub fn by_name(name: &str) -> Option<HashFunction> {
        let mut entries = ENTRIES.iter();
        let (_, bits, polynomial, reversed, init, final_xor) =
            *entries.find(|entry| entry.0.eq_ignore_ascii_case(name))?;
        Some(HashFunction::Crc {
            bits,
            polynomial,
            reversed,
            init,
            final_xor,
        })
    }

    /// The name of this check; `None` if it has none.
    pub fn name(&self) -> Option<&'static str> {
        let mut entries = ENTRIES.iter();
        let found = entries.find(|entry| HashFunction::by_name(entry.0).as_ref() == Some(self));
        found.map(|entry| entry.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Crc;

    /// The check values of the catalogue: the CRC of "123456789".
    #[rustfmt::skip]
    const CHECKS: [u64; ENTRIES.len()] = [
        0xf4, 0x15, 0x7e, 0xa1, 0xa1, 0xd0, 0x25,
        0xbb3d, 0xfee8, 0x9ecf, 0x007e, 0x007e, 0x007f, 0xea82, 0xc2b7, 0xd64e, 0x44c2, 0x6f91, 0x63d0, 0xd0db, 0x0fb3,
        0xb4c8, 0x906e, 0x31c3, 0x4b37, 0x2189, 0x29b1, 0xe5cc,
        0xcbf4_3926, 0xfc89_1918, 0xe306_9283, 0x8731_5576, 0x0376_e6e7, 0x765e_7680, 0x3010_bf7f, 0x340b_c6d9,
        0xbd0b_e338,
        0x6c40_df5f_0b49_7347, 0xb909_56c7_75a4_1001, 0x62ec_59e3_f1a4_f00a, 0xcaa7_1716_8609_f281,
    ];

    #[test]
    fn checks_are_those_of_the_catalogue() {
        for ((name, bits, polynomial, reversed, init, xor), check) in
            ENTRIES.into_iter().zip(CHECKS)
        {
            let crc = Crc::new(bits, polynomial, init, xor, reversed);
            assert_eq!(crc.compute(b"123456789"), check, "{name}");
        }
        assert_eq!(
            HashFunction::by_name("crc_32"),
            HashFunction::by_name("CRC_32")
        );
        assert_eq!(
            HashFunction::by_name("CRC_32").and_then(|f| f.name()),
            Some("CRC_32")
        );
        assert_eq!(HashFunction::by_name("XOR"), None);
    }
}
