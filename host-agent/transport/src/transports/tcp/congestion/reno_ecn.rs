//! Reno with ECN: a mark halves the window as a loss does, once per window (RFC 3168 6.1.2).

use super::reno::Reno;
use super::{Algorithm, EcnMode};
use crate::tcp::{entry, make};
use crate::transports::Entry;

pub(crate) const ENTRY: Entry = entry("reno-ecn", 7003, |host, suite| {
    make(
        host,
        "reno-ecn",
        RENO_ECN,
        &suite.tcp,
        suite.pacer_if(suite.tcp.paced),
    )
});

/// Reno with ECN as in RFC 3168.
pub const RENO_ECN: Algorithm = Algorithm {
    ecn: EcnMode::Classic,
    priority_ecn: EcnMode::Classic,
    start: |_, window| Box::new(Reno::new(window)),
    ..Algorithm::BASE
};
