//! Encoding of a filter, for the process at the other end of a ring, which applies it in place of the kernel.
//!
//! ```text
//!  flags (bit 0: MAC control) | bytes kept: 4 | rule, rule, ..
//!  rule: protocol | port offset | first port: 2 | last port: 2 | bits: 0 or 1 | their offset | their mask
//! ```
//! Sizes in bytes, 1 where there is none; numbers in network byte order.

use crate::filter::{Bits, Filter, PortOffset, Rule};

/// Most rules of a filter of another process: a frame may have to be compared with all of them.
const MAX_RULES: usize = 256;
const HEAD_BYTES: usize = 5;
const RULE_BYTES: usize = 9;
/// Length of the longest encoded filter.
pub(crate) const MAX_FILTER_BYTES: usize = HEAD_BYTES + MAX_RULES * RULE_BYTES;

impl Filter {
    /// The filter as bytes; `None` if it has too many rules.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        if self.rules.len() > MAX_RULES {
            return None;
        }
        let mut bytes = vec![self.mac_control.into()];
        bytes.extend(self.keep_bytes.to_be_bytes());
        for rule in &self.rules {
            bytes.extend([rule.protocol, rule.port_at.0]);
            bytes.extend(rule.ports.start().to_be_bytes());
            bytes.extend(rule.ports.end().to_be_bytes());
            bytes.extend(rule.bits.map_or([0, 0, 0], |bits| [1, bits.at, bits.mask]));
        }
        Some(bytes)
    }

    /// Decodes a filter. `None`: the bytes are not one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Filter> {
        let (head, rules) = bytes.split_at_checked(HEAD_BYTES)?;
        if rules.len() % RULE_BYTES != 0 || bytes.len() > MAX_FILTER_BYTES {
            return None;
        }
        let mac_control = flag(head[0])?;
        let keep_bytes = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let rule = |rule: &[u8]| {
            let bits = Bits {
                at: rule[7],
                mask: rule[8],
            };
            Some(Rule {
                protocol: rule[0],
                port_at: PortOffset(rule[1]),
                ports: u16::from_be_bytes([rule[2], rule[3]])
                    ..=u16::from_be_bytes([rule[4], rule[5]]),
                bits: flag(rule[6])?.then_some(bits),
            })
        };
        Some(Filter {
            rules: rules
                .chunks_exact(RULE_BYTES)
                .map(rule)
                .collect::<Option<_>>()?,
            mac_control,
            keep_bytes,
        })
    }
}

fn flag(byte: u8) -> Option<bool> {
    (byte < 2).then_some(byte == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many(rules: usize) -> Filter {
        (0..rules).fold(
            Filter::new().with_mac_control(true).keeping(99),
            |filter, n| {
                let bits = Bits { at: 13, mask: 7 };
                match n % 2 {
                    0 => filter.or(6, PortOffset::TCP, 7000..=7000 + n as u16),
                    _ => filter.or_if(253, bits, PortOffset(0), 1..=2),
                }
            },
        )
    }

    #[test]
    fn a_filter_comes_back_as_it_was() {
        for filter in [Filter::new(), many(3), many(MAX_RULES)] {
            let bytes = filter.encode().unwrap();
            assert_eq!(Filter::decode(&bytes), Some(filter));
        }
        assert_eq!(many(MAX_RULES + 1).encode(), None);
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        let bytes = many(2).encode().unwrap();
        for length in (0..bytes.len()).filter(|length| *length != 5 && *length != 14) {
            assert_eq!(Filter::decode(&bytes[..length]), None, "{length} bytes");
        }
        for (at, byte) in [(0, 2), (5 + 6, 9)] {
            let mut bad = bytes.clone();
            bad[at] = byte;
            assert_eq!(Filter::decode(&bad), None, "byte {at}");
        }
        let long = [&bytes[..5], &[0; RULE_BYTES * (MAX_RULES + 1)]].concat();
        assert_eq!(Filter::decode(&long), None);
    }
}
