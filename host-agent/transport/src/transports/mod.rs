//! All transports: the list of them, and their parameters.
//!
//! A transport is a folder here with an [`Entry`], or a congestion control of TCP with one, and a line in
//! the list. Whoever offers a choice of transports (command lines, the simulator, fuzzing, `ebb-agent
//! transports` and with it Python) walks the list.

mod entry;
pub mod ndp;
pub mod scdp;
pub mod tcp;
pub mod trevi;

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use ebb_wire::Protocol;
use serde::{Deserialize, Serialize};

use crate::nic::NicParams;
use crate::pacer::PacerParams;
use crate::{DscpParams, HostConfig, Transport};

pub use entry::{Entry, Make};
use ndp::NdpParams;
use scdp::ScdpParams;
use tcp::TcpParams;
use tcp::congestion::detail::DetailParams;
use tcp::congestion::pfabric::PfabricParams;
use tcp::fastlane::FastlaneParams;
use trevi::TreviParams;

/// Makes the list: [`TransportKind`] with a variant for each transport, and the entry of each.
macro_rules! list {
    ($($(#[$about:meta])* $variant:ident: $entry:path,)*) => {
        /// One of the transports, by name: what `--transport` of the agent and the key `scheme` of its records say.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        #[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
        pub enum TransportKind {
            $($(#[$about])* $variant,)*
        }

        impl TransportKind {
            /// All transports, in the order of the list.
            pub const ALL: [TransportKind; [$(stringify!($variant)),*].len()] = [$(TransportKind::$variant),*];

            /// Name, port, abilities and constructor of the transport.
            pub fn entry(self) -> &'static Entry {
                match self {
                    $(TransportKind::$variant => &$entry,)*
                }
            }
        }

        const SERVICE_PORTS: &[u16] = &[$($entry.service_port),*];
    };
}

list! {
    /// NDP: trimming, and a paced pull queue at the receiver
    Ndp: ndp::ENTRY,
    /// SCDP: NDP with fountain coding, one-to-many and many-to-one
    Scdp: scdp::ENTRY,
    /// TCP NewReno
    Reno: tcp::congestion::reno::ENTRY,
    /// TCP NewReno with ECN
    RenoEcn: tcp::congestion::reno_ecn::ENTRY,
    /// DCTCP
    Dctcp: tcp::congestion::dctcp::ENTRY,
    /// DCTCP with the pacer of HULL
    Hull: tcp::congestion::hull::ENTRY,
    /// NewReno over hashed paths, a baseline of DeTail
    Fh: tcp::congestion::fh::ENTRY,
    /// Lossless packet scatter, a baseline of DeTail
    Lps: tcp::congestion::lps::ENTRY,
    /// NewReno over paths that reorder and do not lose
    Detail: tcp::congestion::detail::ENTRY,
    /// NewReno whose senders switches notify of drops
    Fastlane: tcp::fastlane::ENTRY,
    /// Full speed at once over switches that serve and drop by what is left of a flow
    Pfabric: tcp::congestion::pfabric::ENTRY,
    /// Fountain-coded storage as a scavenger
    Trevi: trevi::ENTRY,
}

const _: () = {
    let mut last = 0;
    while last < SERVICE_PORTS.len() {
        let mut other = 0;
        while other < last {
            assert!(
                SERVICE_PORTS[other] != SERVICE_PORTS[last],
                "two transports have the same service port: take the one after the highest"
            );
            other += 1;
        }
        last += 1;
    }
};

impl TransportKind {
    /// [`Entry::name`].
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// [`Entry::service_port`].
    pub fn service_port(self) -> u16 {
        self.entry().service_port
    }

    /// [`Entry::protocol`].
    pub fn protocol(self) -> Protocol {
        self.entry().protocol
    }

    /// Names of the transports whose flows can have several senders, for messages: `a, b and c`.
    pub fn many_to_one_names() -> String {
        names("and", |entry| entry.many_to_one)
    }

    /// All flows of the transport on the host `address`, whose own flows leave from `source_ports`.
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
        (self.entry().make)(host, suite)
    }
}

/// A parameters file: a section for the NIC, for each family of transports, and two sections of
/// whoever runs them. Each section has defaults for all its keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[serde(bound(
    serialize = "Engine: Serialize, Faults: Serialize",
    deserialize = "Engine: Default + Deserialize<'de>, Faults: Default + Deserialize<'de>"
))]
pub struct Params<Engine, Faults> {
    /// How a machine is used.
    pub engine: Engine,
    /// Parameters of the NIC.
    pub nic: NicParams,
    /// DSCPs of packets.
    pub dscp: DscpParams,
    /// Parameters of NDP.
    pub ndp: NdpParams,
    /// Parameters of SCDP.
    pub scdp: ScdpParams,
    /// Parameters of the TCP family.
    pub tcp: TcpParams,
    /// Parameters of DeTail's TCP.
    pub detail: DetailParams,
    /// Parameters of FastLane's TCP.
    pub fastlane: FastlaneParams,
    /// Parameters of pFabric's TCP.
    pub pfabric: PfabricParams,
    /// Parameters of Trevi.
    pub trevi: TreviParams,
    /// Parameters of HULL's pacer.
    pub pacer: PacerParams,
    /// Faults to inject.
    pub faults: Faults,
}

/// The sections that transports are made with.
pub type Suite = Params<(), ()>;

impl<Engine, Faults> Params<Engine, Faults> {
    /// Parameters of the transports.
    pub fn suite(&self) -> Suite {
        Params {
            engine: (),
            nic: self.nic,
            dscp: self.dscp,
            ndp: self.ndp,
            scdp: self.scdp.clone(),
            tcp: self.tcp.clone(),
            detail: self.detail,
            fastlane: self.fastlane,
            pfabric: self.pfabric,
            trevi: self.trevi,
            pacer: self.pacer.clone(),
            faults: (),
        }
    }
}

impl Suite {
    /// Parameters of the pacer of a transport that is paced.
    pub(crate) fn pacer_if(&self, paced: bool) -> Option<&PacerParams> {
        paced.then_some(&self.pacer)
    }

    /// In words what is wrong, with section and key.
    pub fn validate(&self) -> Result<(), String> {
        self.nic.validate()?;
        self.dscp.validate()?;
        self.ndp.validate()?;
        self.scdp.validate()?;
        self.tcp.validate().map_err(|error| error.to_string())?;
        self.detail.validate()?;
        self.fastlane.validate()?;
        self.pfabric.validate()?;
        self.trevi.validate()?;
        self.pacer.validate().map_err(|error| error.to_string())
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no transport has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{name}` is no transport; choose {}", names("or", |_| true))]
pub struct UnknownTransport {
    name: String,
}

/// Names of the transports with a property, as in a sentence: `a, b or c`.
fn names(conjunction: &str, has: impl Fn(&Entry) -> bool) -> String {
    let entries = TransportKind::ALL.into_iter().map(TransportKind::entry);
    let names: Vec<_> = entries
        .filter(|entry| has(entry))
        .map(|entry| entry.name)
        .collect();
    match &names[..] {
        [others @ .., last] if !others.is_empty() => {
            format!("{} {conjunction} {last}", others.join(", "))
        }
        _ => names.concat(),
    }
}

impl FromStr for TransportKind {
    type Err = UnknownTransport;

    fn from_str(text: &str) -> Result<Self, UnknownTransport> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|kind| kind.name() == text);
        found.ok_or_else(|| UnknownTransport {
            name: text.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_share_a_name_or_a_seed() {
        for (index, a) in TransportKind::ALL
            .iter()
            .map(|kind| kind.entry())
            .enumerate()
        {
            for b in TransportKind::ALL[..index].iter().map(|kind| kind.entry()) {
                assert_ne!(a.name, b.name);
                assert_ne!(a.seed(), b.seed(), "{} and {}", a.name, b.name);
            }
        }
    }

    #[test]
    fn every_name_leads_to_its_transport() {
        for kind in TransportKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!(json, format!("\"{kind}\""));
        }
        assert_eq!(TransportKind::many_to_one_names(), "scdp and trevi");
        let error = "Ndp".parse::<TransportKind>().unwrap_err().to_string();
        assert!(
            error.contains("`Ndp`") && error.contains("reno-ecn, dctcp"),
            "{error}"
        );
    }
}
