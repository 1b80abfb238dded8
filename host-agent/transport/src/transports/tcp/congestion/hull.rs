//! HULL's hosts: DCTCP whose data packets pass a pacer (Alizadeh et al., NSDI 2012, section 4).

use super::DCTCP;
use crate::tcp::{entry, make};
use crate::transports::Entry;

pub(crate) const ENTRY: Entry = entry("hull", 7005, |host, suite| {
    make(host, "hull", DCTCP, &suite.tcp, suite.pacer_if(true))
});
