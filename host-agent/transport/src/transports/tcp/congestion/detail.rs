//! DeTail's hosts: NewReno that takes no duplicate ACK for a loss, because the network reorders
//! packets and does not drop them; low priority reacts to ECN (Zats, "Achieving Consistent Latencies
//! in Datacenter Networks", sections 5.2.2 and 5.2.3).

use serde::{Deserialize, Serialize};

use super::reno::Reno;
use super::{Algorithm, EcnMode};
use crate::tcp::{TcpParams, entry, make};
use crate::transports::{Entry, Suite};

pub(crate) const ENTRY: Entry = entry("detail", 7008, |host, suite| {
    let params = params_of(suite);
    make(
        host,
        "detail",
        DETAIL,
        &params,
        suite.pacer_if(params.paced),
    )
});

/// Flows of a priority above 0 are ECN-incapable: a mark would be set on low priority only.
pub const DETAIL: Algorithm = Algorithm {
    ecn: EcnMode::Classic,
    priority_ecn: EcnMode::Off,
    start: |_, window| Box::new(Reno::over_reordering_paths(window)),
    ..Algorithm::BASE
};

/// Section `detail` of the parameters: where `detail` and `lps` differ from the section `tcp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DetailParams {
    /// Lower bound of the retransmission timeout. Only a fault of the hardware loses a packet, so
    /// it may be long, and has to be longer than a packet can wait where it is paused.
    pub min_rto_ns: u64,
}

impl Default for DetailParams {
    fn default() -> Self {
        DetailParams {
            min_rto_ns: 200_000_000,
        }
    }
}

/// Largest timeout, in minimum timeouts.
const LARGEST_RTO: u64 = 4;

impl DetailParams {
    pub fn validate(&self) -> Result<(), String> {
        // An hour, so that multiples of it cannot overflow.
        if (1..=3_600_000_000_000).contains(&self.min_rto_ns) {
            return Ok(());
        }
        let min_rto = self.min_rto_ns;
        Err(format!(
            "detail.min_rto_ns is {min_rto}: expected 1 to 3600000000000"
        ))
    }
}

/// Parameters of the TCP of `detail` and `lps`: no SACK, and timeouts that fit the minimum.
pub(super) fn params_of(suite: &Suite) -> TcpParams {
    let (tcp, min_rto_ns) = (&suite.tcp, suite.detail.min_rto_ns);
    let max_rto_ns = tcp.max_rto_ns.max(LARGEST_RTO * min_rto_ns);
    TcpParams {
        sack: false,
        min_rto_ns,
        initial_rto_ns: tcp.initial_rto_ns.max(min_rto_ns),
        max_rto_ns,
        idle_timeout_ns: tcp.idle_timeout_ns.max(2 * max_rto_ns),
        ..tcp.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_fit_the_minimum_whatever_it_is() {
        for min_rto_ns in [1, 10_000_000, 200_000_000, 60_000_000_000] {
            let mut suite = Suite::default();
            suite.detail.min_rto_ns = min_rto_ns;
            let params = params_of(&suite);
            assert_eq!(params.validate(), Ok(()), "{min_rto_ns}");
            assert_eq!(params.min_rto_ns, min_rto_ns);
        }
    }

    #[test]
    fn only_low_priority_is_ecn_capable() {
        assert_eq!(DETAIL.for_priority(false).ecn, EcnMode::Classic);
        assert_eq!(DETAIL.for_priority(true).ecn, EcnMode::Off);
    }

    #[test]
    fn a_minimum_that_cannot_be_is_refused_by_name() {
        let error = DetailParams { min_rto_ns: 0 }.validate().unwrap_err();
        assert!(error.contains("detail.min_rto_ns is 0"), "{error}");
    }
}
