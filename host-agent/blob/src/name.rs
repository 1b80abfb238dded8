//! Names: of blobs, which people choose, and of tracts, which follow from their content.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use crate::limits::MAX_NAME_BYTES;

/// A SHA-256; 64 hexadecimal digits as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of some content.
    pub fn of(content: &[u8]) -> Self {
        Digest(sha2::Sha256::digest(content).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut digest = [0; 32];
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(format!(
                "a SHA-256 has 64 hexadecimal digits, not {}",
                digits.len()
            ));
        }
        for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (nibble(pair[0])? << 4) | nibble(pair[1])?;
        }
        Ok(Digest(digest))
    }
}

/// Value of a hexadecimal digit, in lower case only, so that a digest has one text.
fn nibble(digit: u8) -> Result<u8, String> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err("a SHA-256 is written with the digits 0-9 and a-f".to_owned()),
    }
}

/// A number that is unique over all starts of its maker.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(deny_unknown_fields)]
pub struct Stamp {
    /// Grows with every start of the maker.
    pub start: u64,
    /// Number among those of this start.
    pub number: u64,
}

/// A tract: its write, its place in the blob and the digest of its content. As text it is the name of the
/// object on the network and of the file on a replica, so that both can be checked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TractName {
    /// The write that made it.
    pub write: Stamp,
    /// Its place in the blob.
    pub index: u32,
    /// Digest of its content.
    pub sha256: Digest,
}

impl fmt::Display for TractName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stamp { start, number } = self.write;
        write!(
            f,
            "tract-{start:x}-{number:x}-{:x}-{}",
            self.index, self.sha256
        )
    }
}

impl FromStr for TractName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let mut parts = text.strip_prefix("tract-")?.split('-');
            let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
            let write = Stamp {
                start: number()?,
                number: number()?,
            };
            let index = number()?.try_into().ok()?;
            let sha256 = parts.next()?.parse().ok()?;
            let name = TractName {
                write,
                index,
                sha256,
            };
            // One name, one text: no leading zeros or signs.
            (name.to_string() == text).then_some(name)
        };
        parse().ok_or_else(|| "no name of a tract".to_owned())
    }
}

macro_rules! as_text {
    ($($name:ident)*) => {$(
        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.to_string()
            }
        }
    )*};
}

as_text!(Digest TractName);

/// Checks the name of a blob.
pub fn check_blob_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        let bytes = name.len();
        return Err(format!(
            "the name of a blob has 1 to {MAX_NAME_BYTES} bytes, not {bytes}"
        ));
    }
    if name.chars().any(char::is_control) {
        return Err("the name of a blob has no control characters".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tract_has_one_text() {
        let name = TractName {
            write: Stamp {
                start: 3,
                number: 255,
            },
            index: 16,
            sha256: Digest::of(b"abc"),
        };
        let text = name.to_string();
        assert_eq!(
            text,
            "tract-3-ff-10-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(text.parse(), Ok(name));
        for other in [
            text.replace("-3-", "-03-"),
            text.replace("-3-", "-+3-"),
            text.replace("ba78", "BA78"),
            text.replace("-10-", "-100000000-"),
            format!("{text}-"),
            format!(".{text}"),
            "tract-3-ff".to_owned(),
        ] {
            assert!(other.parse::<TractName>().is_err(), "{other}");
        }
    }

    #[test]
    fn names_of_blobs_are_short_and_print_on_one_line() {
        for name in ["a", "bücher/1 of 2", &"x".repeat(255)] {
            assert_eq!(check_blob_name(name), Ok(()));
        }
        for name in ["", "a\nb", "\u{1b}[2J", &"x".repeat(256)] {
            assert!(check_blob_name(name).is_err(), "{name}");
        }
    }
}
