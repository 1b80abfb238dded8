//! The tract locator table: which replicas a tract of a blob is written to.
//!
//! Nightingale et al., *Flat Datacenter Storage* (OSDI 2012), section 2.2: row = (hash(GUID) + tract)
//! mod length. Moncaster, *Optimising data centre operation by removing the transport bottleneck*
//! (UCAM-CL-TR-921), section 4.4.1, adds the multicast group of a row's replicas.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::name::Digest;

/// Replicas of the tracts that fall on a row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Grows whenever the replicas change, or one of them has lost what it held.
    pub version: u64,
    /// In the order of preference of this row.
    pub replicas: Vec<Ipv4Addr>,
}

impl Row {
    /// The multicast group of the replicas. `None`: there are fewer than two.
    pub fn group(&self) -> Option<Ipv4Addr> {
        (self.replicas.len() > 1)
            .then(|| ebb_transport::group_address(self.replicas.iter().copied()))
    }
}

/// All rows.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Table {
    /// The rows, by their numbers.
    pub rows: Vec<Row>,
}

impl Table {
    /// The number of the row of a tract. The table has rows.
    pub fn row_number(&self, blob: &str, tract: usize) -> usize {
        let length = self.rows.len() as u64;
        let row = (first_bytes(blob.as_bytes()) % length + tract as u64) % length;
        row as usize
    }

    /// The row of a tract. The table has rows.
    pub fn row(&self, blob: &str, tract: usize) -> &Row {
        &self.rows[self.row_number(blob, tract)]
    }
}

/// The replicas of a row: the servers that are first in an order of its own (rendezvous hashing), so
/// that a server that goes or comes changes no row that it does not belong to.
pub fn choose(row: usize, servers: impl Iterator<Item = Ipv4Addr>, copies: usize) -> Vec<Ipv4Addr> {
    let weight = |server: &Ipv4Addr| {
        let key = [&(row as u64).to_be_bytes()[..], &server.octets()].concat();
        first_bytes(&key)
    };
    let mut servers: Vec<_> = servers.collect();
    servers.sort_by_key(|server| (weight(server), *server));
    servers.truncate(copies);
    servers
}

fn first_bytes(text: &[u8]) -> u64 {
    let Digest([a, b, c, d, e, f, g, h, ..]) = Digest::of(text);
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(numbers: std::ops::Range<u8>) -> impl Iterator<Item = Ipv4Addr> + Clone {
        numbers.map(|n| Ipv4Addr::new(10, 0, 0, n))
    }

    #[test]
    fn consecutive_tracts_are_on_consecutive_rows() {
        let row = Row {
            version: 1,
            replicas: vec![],
        };
        let table = Table { rows: vec![row; 7] };
        let first = table.row_number("a", 0);
        for tract in 0..20 {
            assert_eq!(table.row_number("a", tract), (first + tract) % 7);
        }
        let rows: std::collections::BTreeSet<_> = (0..100)
            .map(|n| table.row_number(&format!("blob {n}"), 0))
            .collect();
        assert_eq!(rows.len(), 7);
    }

    #[test]
    fn a_server_that_goes_changes_its_own_rows_only() {
        let gone = Ipv4Addr::new(10, 0, 0, 3);
        let mut changed = 0;
        for row in 0..200 {
            let before = choose(row, servers(1..9), 3);
            let after = choose(row, servers(1..9).filter(|server| *server != gone), 3);
            assert_eq!((before.len(), after.len()), (3, 3));
            if before.contains(&gone) {
                changed += 1;
                let kept: Vec<_> = before.iter().filter(|server| **server != gone).collect();
                assert_eq!(after.iter().take(2).collect::<Vec<_>>(), kept);
            } else {
                assert_eq!(before, after);
            }
        }
        // Three of eight servers have a row: 75 of 200 are expected.
        assert!((50..100).contains(&changed), "{changed}");
    }
}
