//! Which transport carries which part of a workload.

use std::collections::{BTreeMap, BTreeSet};

use ebb_transport::Scheme;

/// The transports of a workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrafficSchemes {
    /// That of all parts which have none of their own.
    pub default: Scheme,
    /// Those of parts that have one of their own, by the name of the part.
    pub of_traffic: BTreeMap<String, Scheme>,
}

impl TrafficSchemes {
    /// The transport of a part of the workload.
    pub fn of(&self, traffic: &str) -> Scheme {
        self.of_traffic
            .get(traffic)
            .copied()
            .unwrap_or(self.default)
    }

    /// All transports, each once: first the one that most parts have.
    pub fn all(&self) -> impl Iterator<Item = Scheme> {
        let mut others: BTreeSet<Scheme> = self.of_traffic.values().copied().collect();
        others.remove(&self.default);
        std::iter::once(self.default).chain(others)
    }
}

impl From<Scheme> for TrafficSchemes {
    fn from(default: Scheme) -> Self {
        TrafficSchemes {
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
        let mut schemes = TrafficSchemes::from(Scheme::Reno);
        assert_eq!(schemes.of("storage"), Scheme::Reno);
        for (traffic, scheme) in [("storage", Scheme::Ndp), ("web", Scheme::Reno)] {
            schemes.of_traffic.insert(traffic.into(), scheme);
        }
        assert_eq!(schemes.of("storage"), Scheme::Ndp);
        assert_eq!(schemes.of("queries"), Scheme::Reno);
        let all: Vec<_> = schemes.all().collect();
        assert_eq!(all, [Scheme::Reno, Scheme::Ndp]);
    }
}
