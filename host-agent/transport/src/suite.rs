//! The schemes by name, and their parameters.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::sync::Arc;

use ebb_wire::Protocol;
use serde::{Deserialize, Serialize};

use crate::ndp::{NdpHost, NdpParams};
use crate::nic::NicParams;
use crate::pacer::PacerParams;
use crate::scdp::{ScdpHost, ScdpParams};
use crate::tcp::{Algorithm, Dctcp, Reno, RenoEcn, TcpEndpoint, TcpParams};
use crate::{DscpParams, HostConfig, Transport};

/// Parameters of all schemes; each section has defaults for all its keys.
#[derive(Clone, Debug, Default)]
pub struct Suite {
    pub nic: NicParams,
    pub dscp: DscpParams,
    pub ndp: NdpParams,
    pub scdp: ScdpParams,
    pub tcp: TcpParams,
    pub pacer: PacerParams,
}

impl Suite {
    /// In words what is wrong, with section and key.
    pub fn validate(&self) -> Result<(), String> {
        self.nic.validate()?;
        self.dscp.validate()?;
        self.ndp.validate()?;
        self.scdp.validate()?;
        self.tcp.validate().map_err(|error| error.to_string())?;
        self.pacer.validate().map_err(|error| error.to_string())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
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
    pub const ALL: [Scheme; 6] = [
        Scheme::Ndp,
        Scheme::Scdp,
        Scheme::Reno,
        Scheme::RenoEcn,
        Scheme::Dctcp,
        Scheme::Hull,
    ];

    /// As in files, on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Ndp => "ndp",
            Scheme::Scdp => "scdp",
            Scheme::Reno => "reno",
            Scheme::RenoEcn => "reno-ecn",
            Scheme::Dctcp => "dctcp",
            Scheme::Hull => "hull",
        }
    }

    /// Where a host of this scheme listens: `docs/wire-format.md`.
    pub fn service_port(self) -> u16 {
        7000 + self as u16
    }

    pub fn protocol(self) -> Protocol {
        match self {
            Scheme::Ndp | Scheme::Scdp => Protocol::EBB,
            Scheme::Reno | Scheme::RenoEcn | Scheme::Dctcp | Scheme::Hull => Protocol::TCP,
        }
    }

    /// All flows of the scheme on the host `address`, whose own flows leave from `source_ports`.
    pub fn transport(
        self,
        address: Ipv4Addr,
        suite: &Suite,
        source_ports: (u16, u16),
        seed: u64,
    ) -> Result<Box<dyn Transport + Send>, String> {
        let host = HostConfig {
            address,
            nic: suite.nic,
            dscp: suite.dscp,
            source_ports,
            seed,
        };
        let pacer = (self == Scheme::Hull || suite.tcp.paced).then_some(&suite.pacer);
        let tcp = |algorithm: Arc<dyn Algorithm>| -> Result<Box<dyn Transport + Send>, String> {
            TcpEndpoint::new(host, self.name(), algorithm, suite.tcp.clone(), pacer)
                .map(|endpoint| Box::new(endpoint) as Box<dyn Transport + Send>)
                .map_err(|error| error.to_string())
        };
        match self {
            Scheme::Ndp => Ok(Box::new(NdpHost::new(host, suite.ndp))),
            Scheme::Scdp => Ok(Box::new(ScdpHost::new(host, suite.scdp.clone()))),
            Scheme::Reno => tcp(Arc::new(Reno)),
            Scheme::RenoEcn => tcp(Arc::new(RenoEcn)),
            Scheme::Dctcp | Scheme::Hull => tcp(Arc::new(Dctcp::new(&suite.tcp))),
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no scheme; choose ndp, scdp, reno, reno-ecn, dctcp or hull")]
pub struct UnknownScheme(String);

impl FromStr for Scheme {
    type Err = UnknownScheme;

    fn from_str(text: &str) -> Result<Self, UnknownScheme> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|scheme| scheme.name() == text);
        found.ok_or_else(|| UnknownScheme(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_scheme() {
        for scheme in Scheme::ALL {
            assert_eq!(scheme.name().parse(), Ok(scheme));
            let json = serde_json::to_string(&scheme).unwrap();
            assert_eq!(json, format!("\"{scheme}\""));
        }
        let error = "Ndp".parse::<Scheme>().unwrap_err().to_string();
        assert!(
            error.contains("`Ndp`") && error.contains("reno-ecn"),
            "{error}"
        );
    }
}
