//! How a congestion control becomes an entry of the list of transports.

use ebb_wire::Protocol;

use super::{Algorithm, TcpEndpoint, TcpParams};
use crate::pacer::PacerParams;
use crate::transports::{Entry, Make};
use crate::{HostConfig, Transport};

/// An entry of the registry for a TCP that `make` makes. TCP has flows between two hosts only.
pub(crate) const fn entry(name: &'static str, service_port: u16, make: Make) -> Entry {
    Entry {
        name,
        service_port,
        protocol: Protocol::TCP,
        payload: None,
        groups: false,
        many_to_one: false,
        make,
    }
}

/// All TCP flows of one host, under the name `name` in records. Data packets pass the `pacer`, if
/// there is one.
pub(crate) fn make(
    host: HostConfig,
    name: &'static str,
    algorithm: Algorithm,
    params: &TcpParams,
    pacer: Option<&PacerParams>,
) -> Result<Box<dyn Transport + Send>, String> {
    TcpEndpoint::new(host, name, algorithm, params.clone(), pacer)
        .map(|endpoint| Box::new(endpoint) as Box<dyn Transport + Send>)
        .map_err(|error| error.to_string())
}
