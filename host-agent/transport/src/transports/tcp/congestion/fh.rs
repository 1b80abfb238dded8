//! FH, the baseline of DeTail: NewReno over paths by flow hash, in a network that drops (Zats,
//! "Achieving Consistent Latencies in Datacenter Networks", section 5.4.1).

use super::RENO;
use crate::tcp::{TcpParams, entry, make};
use crate::transports::Entry;

pub(crate) const ENTRY: Entry = entry("fh", 7006, |host, suite| {
    // Without SACK recovery is NewReno's. The minimum timeout is the family's: 10 ms, as there.
    let params = TcpParams {
        sack: false,
        ..suite.tcp.clone()
    };
    make(host, "fh", RENO, &params, suite.pacer_if(params.paced))
});
