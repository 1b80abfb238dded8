//! LPS, lossless packet scatter, a baseline of DeTail: each packet takes a random shortest path, PFC
//! keeps the network from dropping, hosts do as DeTail's without ECN (Zats, section 5.4.1).

use super::Algorithm;
use super::detail::params_of;
use super::reno::Reno;
use crate::tcp::{entry, make};
use crate::transports::Entry;

pub(crate) const ENTRY: Entry = entry("lps", 7007, |host, suite| {
    let params = params_of(suite);
    make(host, "lps", LPS, &params, suite.pacer_if(params.paced))
});

const LPS: Algorithm = Algorithm {
    start: |_, window| Box::new(Reno::over_reordering_paths(window)),
    ..Algorithm::BASE
};
