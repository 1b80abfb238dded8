//! Architectures: how a program is known to be for one, and how that calls what stands beside a table.

use crate::ast::{DeclarationKind, Program};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Architecture {
    #[default]
    V1model,
    /// Tofino's, of either generation: TNA and T2NA have the same words.
    Tna,
}

/// A property of a table that names an object, and the extern types that the object may have.
pub type ObjectProperty = (&'static str, &'static [&'static str]);

const V1MODEL: &[ObjectProperty] = &[
    ("implementation", &["action_profile", "action_selector"]),
    ("counters", &["direct_counter"]),
    ("meters", &["direct_meter"]),
];

const TNA: &[ObjectProperty] = &[
    ("implementation", &["ActionProfile", "ActionSelector"]),
    ("counters", &["DirectCounter"]),
    ("meters", &["DirectMeter"]),
    ("registers", &["DirectRegister"]),
    ("filters", &["DirectLpf", "DirectWred", "Lpf", "Wred"]),
    ("alpm", &["Alpm"]),
    ("atcam", &["Atcam"]),
    ("proxy_hash", &["Hash"]),
];

impl Architecture {
    /// The architecture whose file a program includes, known by the package that it instantiates as `main`.
    pub fn of(program: &Program) -> Architecture {
        let declares = |package: &str| {
            (program.declarations.iter())
                .any(|d| matches!(d.kind, DeclarationKind::Package(_)) && d.name.text == package)
        };
        match declares("Pipeline") && declares("Switch") {
            true => Architecture::Tna,
            false => Architecture::V1model,
        }
    }

    pub fn object_properties(self) -> &'static [ObjectProperty] {
        match self {
            Architecture::V1model => V1MODEL,
            Architecture::Tna => TNA,
        }
    }

    /// The property that asks for idle timeouts.
    pub fn timeout_property(self) -> &'static str {
        match self {
            Architecture::V1model => "support_timeout",
            Architecture::Tna => "idle_timeout",
        }
    }

    /// How a program ends, for messages.
    pub fn main(self) -> &'static str {
        match self {
            Architecture::V1model => "V1Switch(...) main;",
            Architecture::Tna => "Switch(pipe) main;",
        }
    }
}
