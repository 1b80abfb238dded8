//! The schemes and their transports.

use std::net::Ipv4Addr;

use clap::ValueEnum;
use ebb_transport::ndp::NdpHost;
use ebb_transport::scdp::ScdpHost;
use ebb_transport::tcp::{Algorithm, TcpEndpoint};
use ebb_transport::{HostConfig, Transport};
use ebb_wire::Protocol;

use crate::params::Params;
use crate::port_lock::PortRange;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub enum Scheme {
    Ndp,
    Scdp,
    Reno,
    RenoEcn,
    Dctcp,
    /// DCTCP with the pacer of HULL
    Hull,
}

impl Scheme {
    pub fn protocol(self) -> Protocol {
        match self {
            Scheme::Ndp | Scheme::Scdp => Protocol::EBB,
            Scheme::Reno | Scheme::RenoEcn | Scheme::Dctcp | Scheme::Hull => Protocol::TCP,
        }
    }

    pub fn transport(
        self,
        address: Ipv4Addr,
        params: &Params,
        source_ports: PortRange,
        seed: u64,
    ) -> anyhow::Result<Box<dyn Transport + Send>> {
        let host = HostConfig {
            address,
            nic: params.nic,
            dscp: params.dscp,
            source_ports: (source_ports.first, source_ports.last),
            seed,
        };
        let tcp = |name, algorithm, pacer| -> anyhow::Result<Box<dyn Transport + Send>> {
            let mut tcp = params.tcp.clone();
            tcp.fit_mtu(params.nic.mtu_bytes);
            Ok(Box::new(TcpEndpoint::new(
                address, name, algorithm, tcp, pacer, seed,
            )?))
        };
        match self {
            Scheme::Ndp => Ok(Box::new(NdpHost::new(host, params.ndp))),
            Scheme::Scdp => Ok(Box::new(ScdpHost::new(host, params.scdp.clone()))),
            Scheme::Reno => tcp("reno", Algorithm::Reno, None),
            Scheme::RenoEcn => tcp("reno-ecn", Algorithm::RenoEcn, None),
            Scheme::Dctcp => tcp("dctcp", Algorithm::Dctcp, None),
            Scheme::Hull => tcp("hull", Algorithm::Dctcp, Some(&params.pacer)),
        }
    }
}
