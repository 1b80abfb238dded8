//! Values of types with `@p4runtime_translation` (spec, "User-defined types" and "PSA Metadata
//! Translation"): what the controller says, and what the data plane has.
//!
//! Numbers are the same on both sides, whatever their widths, but for ports that stand for no link: in a program whose
//! ports are narrower, 0xfffffffd is the port of the controller (PSA), and 0xffffff00 to 0xffffff03 are the ports that
//! lead back to ingress in each pipe of Tofino (Stratum). Of strings, a decimal number is that
//! number; any other string gets the lowest number that no string of its type has, from 1 on, when
//! it is first written, and keeps it for as long as the config is loaded.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ebb_pipeline::Pipeline;

use crate::bytes::{self, canonical, strip};
use crate::error::{EntityError, Result};
use crate::proto::config::p4_new_type_spec::Representation;
use crate::proto::config::p4_new_type_translation::SdnType;
use crate::proto::config::{P4NamedType, P4TypeInfo};

/// The strings of all translated types, by type.
#[derive(Debug, Default)]
pub struct Names {
    types: BTreeMap<String, Type>,
    /// Types of ports.
    ports: BTreeSet<String>,
    /// Ports that controllers have named by other numbers, with these.
    named: BTreeMap<u64, u64>,
    special: SpecialPorts,
}

/// Ports of a switch that controllers may name by other numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpecialPorts {
    /// That of the controller.
    pub cpu: Option<u16>,
    /// That which leads back to ingress in the first pipe, on Tofino.
    pub recirculation: Option<u16>,
}

/// The port of the controller in PSA.
const CPU: u64 = 0xffff_fffd;
/// Ports of the pipes that lead back to ingress, as Stratum numbers them.
const RECIRCULATION: std::ops::Range<u64> = 0xffff_ff00..0xffff_ff04;
/// Ports of a pipe.
const PORTS_OF_PIPE: u64 = 128;

impl SpecialPorts {
    /// Those of a switch with this program. Ports of PSA are as wide as controllers' and have the same numbers.
    pub fn of(pipeline: &Pipeline) -> Self {
        match pipeline.is_psa() {
            true => Self::default(),
            false => Self {
                cpu: pipeline.cpu_port(),
                recirculation: pipeline.recirculation_port(),
            },
        }
    }

    fn number(self, given: u64) -> Option<u64> {
        match given {
            CPU => self.cpu.map(u64::from),
            given if RECIRCULATION.contains(&given) => {
                let first = u64::from(self.recirculation?);
                Some(first + (given - RECIRCULATION.start) * PORTS_OF_PIPE)
            }
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
struct Type {
    numbers: HashMap<String, u64>,
    names: HashMap<u64, String>,
}

impl Names {
    /// One map for every type that the controller sees as strings.
    pub fn new(types: &P4TypeInfo) -> Self {
        let is_string = |name: &&String| {
            let spec = types.new_types.get(*name);
            let representation = spec.and_then(|s| s.representation.as_ref());
            matches!(representation, Some(Representation::TranslatedType(t))
                if matches!(t.sdn_type, Some(SdnType::SdnString(_))))
        };
        let strings = types.new_types.keys().filter(is_string);
        Self {
            types: strings.map(|n| (n.clone(), Type::default())).collect(),
            ports: types
                .new_types
                .keys()
                .filter(|n| is_port(types, n))
                .cloned()
                .collect(),
            ..Self::default()
        }
    }

    /// Says which ports of the switch controllers may name by other numbers.
    pub fn set_special(&mut self, special: SpecialPorts) {
        self.special = special;
    }

    /// The data plane's number, canonical.
    pub fn decode(
        &mut self,
        kind: Option<&P4NamedType>,
        width: usize,
        value: &[u8],
    ) -> Result<Vec<u8>> {
        match kind.and_then(|kind| self.types.get_mut(&kind.name)) {
            None => match self.special_port(kind, value) {
                Some(port) => Ok(minimal(port)),
                None => canonical(value, width),
            },
            Some(names) => names.number(value),
        }
    }

    /// The number of a port that the controller names by another one, which it is shown from then on.
    fn special_port(&mut self, kind: Option<&P4NamedType>, value: &[u8]) -> Option<u64> {
        if !self.ports.contains(&kind?.name) {
            return None;
        }
        let given = bytes::to_u64(value)?;
        let port = self.special.number(given)?;
        self.named.insert(port, given);
        Some(port)
    }

    /// The port of a replica, which has no type, by the number that the controller has for it.
    pub fn replica_port(&self, given: u64) -> u64 {
        let named = self.special.number(given);
        named.filter(|_| !self.ports.is_empty()).unwrap_or(given)
    }

    /// The controller's value of a number of the data plane, in canonical form.
    pub fn encode(&self, kind: Option<&P4NamedType>, value: &[u8]) -> Vec<u8> {
        match kind.and_then(|kind| self.types.get(&kind.name)) {
            None => self.shown(kind, value).unwrap_or_else(|| value.to_vec()),
            Some(names) => names.name(value),
        }
    }
}

impl Names {
    /// The number by which the controller has named a port.
    fn shown(&self, kind: Option<&P4NamedType>, value: &[u8]) -> Option<Vec<u8>> {
        if self.named.is_empty() || !self.ports.contains(&kind?.name) {
            return None;
        }
        let given = self.named.get(&bytes::to_u64(value)?)?;
        Some(minimal(*given))
    }
}

/// Whether a type is that of ports, by the name of its translation: a number of 32 bits for controllers.
fn is_port(types: &P4TypeInfo, name: &str) -> bool {
    let spec = types.new_types.get(name);
    let representation = spec.and_then(|s| s.representation.as_ref());
    matches!(representation, Some(Representation::TranslatedType(t))
        if t.uri.rsplit('/').next() == Some("PortId_t")
            && matches!(t.sdn_type, Some(SdnType::SdnBitwidth(32))))
}

impl Type {
    fn number(&mut self, value: &[u8]) -> Result<Vec<u8>> {
        let name = std::str::from_utf8(value).map_err(|_| {
            EntityError::invalid(format!("value {} is not UTF-8 text", bytes::hex(value)))
        })?;
        if name.is_empty() {
            return Err(EntityError::out_of_range("the value is an empty string"));
        }
        if let Some(number) = self.numbers.get(name) {
            return Ok(minimal(*number));
        }
        let decimal = name.parse().ok();
        if let Some(number) = decimal.filter(|n: &u64| n.to_string() == name) {
            return Ok(minimal(number));
        }
        let free = (1..).find(|n| !self.names.contains_key(n));
        let number = free.ok_or_else(|| EntityError::exhausted("no number is free"))?;
        self.numbers.insert(name.to_owned(), number);
        self.names.insert(number, name.to_owned());
        Ok(minimal(number))
    }

    fn name(&self, value: &[u8]) -> Vec<u8> {
        let Some(number) = bytes::to_u64(value) else {
            return bytes::hex(value).into_bytes();
        };
        match self.names.get(&number) {
            Some(name) => name.clone().into_bytes(),
            None => number.to_string().into_bytes(),
        }
    }
}

fn minimal(number: u64) -> Vec<u8> {
    strip(&number.to_be_bytes()).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::config::p4_new_type_translation::SdnString;
    use crate::proto::config::{P4NewTypeSpec, P4NewTypeTranslation};
    use tonic::Code;

    fn names(sdn_type: SdnType) -> Names {
        of(P4NewTypeTranslation {
            uri: "example/port".into(),
            sdn_type: Some(sdn_type),
        })
    }

    fn of(translation: P4NewTypeTranslation) -> Names {
        let spec = P4NewTypeSpec {
            representation: Some(Representation::TranslatedType(translation)),
            ..Default::default()
        };
        Names::new(&P4TypeInfo {
            new_types: [("port_t".to_owned(), spec)].into(),
            ..Default::default()
        })
    }

    fn port() -> Option<&'static P4NamedType> {
        static PORT: std::sync::OnceLock<P4NamedType> = std::sync::OnceLock::new();
        Some(PORT.get_or_init(|| P4NamedType {
            name: "port_t".into(),
        }))
    }

    #[test]
    fn strings_get_numbers_and_decimal_strings_are_numbers() {
        let mut names = names(SdnType::SdnString(SdnString {}));
        assert_eq!(names.decode(port(), 0, b"eth0").unwrap(), [1]);
        assert_eq!(names.decode(port(), 0, b"eth1").unwrap(), [2]);
        assert_eq!(names.decode(port(), 0, b"eth0").unwrap(), [1]);
        assert_eq!(names.decode(port(), 0, b"300").unwrap(), [1, 44]);
        assert_eq!(names.encode(port(), &[2]), b"eth1");
        assert_eq!(names.encode(port(), &[1, 44]), b"300");
        assert!(names.decode(port(), 0, &[0xff]).is_err());
        assert!(names.decode(port(), 0, b"").is_err());
    }

    #[test]
    fn ports_without_a_link_have_numbers_of_their_own() {
        let translation = P4NewTypeTranslation {
            uri: "tna/PortId_t".into(),
            sdn_type: Some(SdnType::SdnBitwidth(32)),
        };
        let mut names = of(translation);
        let special = |cpu| SpecialPorts {
            cpu,
            recirculation: Some(68),
        };
        names.set_special(special(Some(320)));
        // As it was written, it is read.
        assert_eq!(names.decode(port(), 32, &[1, 64]).unwrap(), [1, 64]);
        assert_eq!(names.encode(port(), &[1, 64]), [1, 64]);
        let controller = [0xff, 0xff, 0xff, 0xfd];
        assert_eq!(names.decode(port(), 32, &controller).unwrap(), [1, 64]);
        assert_eq!(names.encode(port(), &[1, 64]), controller);
        for (pipe, device) in [(0, 68), (1, 196), (2, 324), (3, 452)] {
            let given = 0xffff_ff00 + pipe;
            assert_eq!(names.replica_port(given), device);
            let written = names.decode(port(), 32, &minimal(given)).unwrap();
            assert_eq!(written, minimal(device));
            assert_eq!(names.encode(port(), &minimal(device)), minimal(given));
        }
        // A switch without such a port, another number, another type.
        names.set_special(special(None));
        assert_eq!(names.decode(port(), 32, &controller).unwrap(), controller);
        assert_eq!(names.replica_port(0xffff_ff04), 0xffff_ff04);
        assert_eq!(names.decode(None, 32, &controller).unwrap(), controller);
    }

    #[test]
    fn numbers_stay_what_they_are_within_the_controllers_width() {
        let mut names = names(SdnType::SdnBitwidth(32));
        assert_eq!(names.decode(port(), 32, &[0, 7]).unwrap(), [7]);
        let error = names.decode(port(), 32, &[1, 0, 0, 0, 0]).unwrap_err();
        assert_eq!(error.code, Code::OutOfRange);
        assert_eq!(names.encode(port(), &[7]), [7]);
    }
}
