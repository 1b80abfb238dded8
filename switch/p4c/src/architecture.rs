//! Architectures: how a program is known to be for one, and how that calls what stands beside a table.

use crate::ast::{DeclarationKind, Program};

/// The architecture that a program is written for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Architecture {
    /// BMv2's simple_switch.
    #[default]
    V1model,
    /// Tofino's.
    Tna,
    /// Tofino 2's.
    T2na,
    /// The portable one of p4.org.
    Psa,
}

/// A property of a table that names an object, and the extern types that the object may have.
pub type ObjectProperty = (&'static str, &'static [&'static str]);

const V1MODEL: &[ObjectProperty] = &[
    ("implementation", &["action_profile", "action_selector"]),
    ("counters", &["direct_counter"]),
    ("meters", &["direct_meter"]),
];

const TNA: &[ObjectProperty] = &[
    (
        "implementation",
        &["ActionProfile", "ActionSelector", "Alpm", "Atcam"],
    ),
    ("counters", &["DirectCounter"]),
    ("meters", &["DirectMeter"]),
    ("registers", &["DirectRegister"]),
    ("filters", &["DirectLpf", "DirectWred", "Lpf", "Wred"]),
    ("alpm", &["Alpm"]),
    ("atcam", &["Atcam"]),
    ("proxy_hash", &["Hash"]),
];

const PSA: &[ObjectProperty] = &[
    ("psa_implementation", &["ActionProfile", "ActionSelector"]),
    ("psa_direct_counter", &["DirectCounter"]),
    ("psa_direct_meter", &["DirectMeter"]),
];

impl Architecture {
    /// The architecture whose file a program includes, known by the package that it instantiates as `main`.
    pub fn of(program: &Program) -> Architecture {
        let package = |name: &str| {
            program.declarations.iter().find_map(|d| match &d.kind {
                DeclarationKind::Package(package) if d.name.text == name => Some(package),
                _ => None,
            })
        };
        match (package("Switch"), package("Pipeline")) {
            (Some(_), Some(pipe)) if pipe.params.iter().any(|p| p.name.text == "ghost") => {
                Architecture::T2na
            }
            (Some(_), Some(_)) => Architecture::Tna,
            _ if package("PSA_Switch").is_some() => Architecture::Psa,
            _ => Architecture::V1model,
        }
    }

    /// As P4Info calls it.
    pub fn name(self) -> &'static str {
        match self {
            Architecture::V1model => "v1model",
            Architecture::Tna => "tna",
            Architecture::T2na => "t2na",
            Architecture::Psa => "psa",
        }
    }

    /// Properties of tables that name objects.
    pub fn object_properties(self) -> &'static [ObjectProperty] {
        match self {
            Architecture::V1model => V1MODEL,
            Architecture::Tna | Architecture::T2na => TNA,
            Architecture::Psa => PSA,
        }
    }

    /// The property that asks for idle timeouts.
    pub fn timeout_property(self) -> &'static str {
        match self {
            Architecture::V1model => "support_timeout",
            Architecture::Tna | Architecture::T2na => "idle_timeout",
            Architecture::Psa => "psa_idle_timeout",
        }
    }

    /// How a program ends, for messages.
    pub fn main(self) -> &'static str {
        match self {
            Architecture::V1model => "V1Switch(...) main;",
            Architecture::Tna | Architecture::T2na => "Switch(pipe) main;",
            Architecture::Psa => {
                "PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;"
            }
        }
    }
}
