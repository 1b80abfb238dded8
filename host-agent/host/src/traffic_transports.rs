//! Transports of the parts of a workload.

use std::collections::{BTreeMap, BTreeSet};

use ebb_transport::TransportKind;

/// The transports of a workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrafficTransports {
    /// Transport of the parts that do not name one.
    pub default: TransportKind,
    /// Transports of the parts that name one, by the name of the part.
    pub of_traffic: BTreeMap<String, TransportKind>,
}

impl TrafficTransports {
    /// The transport of a part of the workload.
    pub fn of(&self, traffic: &str) -> TransportKind {
        self.of_traffic
            .get(traffic)
            .copied()
            .unwrap_or(self.default)
    }

    /// All transports, each once, the default first.
    pub fn all(&self) -> impl Iterator<Item = TransportKind> {
        let mut others: BTreeSet<TransportKind> = self.of_traffic.values().copied().collect();
        others.remove(&self.default);
        std::iter::once(self.default).chain(others)
    }
}

impl From<TransportKind> for TrafficTransports {
    fn from(default: TransportKind) -> Self {
        TrafficTransports {
            default,
            of_traffic: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_its_own_transport_or_that_of_all() {
        let mut transports = TrafficTransports::from(TransportKind::Reno);
        assert_eq!(transports.of("storage"), TransportKind::Reno);
        for (traffic, transport) in [
            ("storage", TransportKind::Ndp),
            ("web", TransportKind::Reno),
        ] {
            transports.of_traffic.insert(traffic.into(), transport);
        }
        assert_eq!(transports.of("storage"), TransportKind::Ndp);
        assert_eq!(transports.of("queries"), TransportKind::Reno);
        let all: Vec<_> = transports.all().collect();
        assert_eq!(all, [TransportKind::Reno, TransportKind::Ndp]);
    }
}
