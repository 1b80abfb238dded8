//! The multicast address of a set of receivers, from which sender and controller compute it without
//! messages to each other: `docs/wire-format.md`, section on groups.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use sha2::{Digest, Sha256};

/// 239.x.y.z, where x, y, z are the first bytes of the SHA-256 over the receivers' addresses, in
/// ascending order, each once, 4 bytes each in network byte order. 239.0.0.0/8 is the block for
/// private use of RFC 2365.
pub fn group_address(receivers: impl IntoIterator<Item = Ipv4Addr>) -> Ipv4Addr {
    let sorted: BTreeSet<Ipv4Addr> = receivers.into_iter().collect();
    let mut hash = Sha256::new();
    for address in sorted {
        hash.update(address.octets());
    }
    let digest: [u8; 32] = hash.finalize().into();
    Ipv4Addr::new(239, digest[0], digest[1], digest[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the document, which the controller has too.
    #[test]
    fn order_and_repetition_make_no_difference() {
        let a = Ipv4Addr::new(10, 0, 0, 2);
        let b = Ipv4Addr::new(10, 1, 0, 3);
        let group = group_address([a, b]);
        assert_eq!(group.to_string(), "239.93.176.22");
        assert_eq!(group_address([b, a, b]), group);
        assert_ne!(group_address([a]), group);
    }
}
