//! Values of types with `@p4runtime_translation` (spec, "User-defined types" and "PSA Metadata
//! Translation"): what the controller says, and what the data plane has.
//!
//! Numbers are the same on both sides, whatever their widths. Of strings, a decimal number is that
//! number; any other string gets the lowest number that no string of its type has, from 1 on, when
//! it is first written, and keeps it for as long as the config is loaded.

use std::collections::{BTreeMap, HashMap};

use crate::bytes::{self, canonical, strip};
use crate::error::{EntityError, Result};
use crate::proto::config::p4_new_type_spec::Representation;
use crate::proto::config::p4_new_type_translation::SdnType;
use crate::proto::config::{P4NamedType, P4TypeInfo};

/// The strings of all translated types, by type.
#[derive(Debug, Default)]
pub struct Names {
    types: BTreeMap<String, Type>,
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
        }
    }

    /// The data plane's number, canonical.
    pub fn decode(
        &mut self,
        kind: Option<&P4NamedType>,
        width: usize,
        value: &[u8],
    ) -> Result<Vec<u8>> {
        match kind.and_then(|kind| self.types.get_mut(&kind.name)) {
            None => canonical(value, width),
            Some(names) => names.number(value),
        }
    }

    /// The controller's value of a number of the data plane, in canonical form.
    pub fn encode(&self, kind: Option<&P4NamedType>, value: &[u8]) -> Vec<u8> {
        match kind.and_then(|kind| self.types.get(&kind.name)) {
            None => value.to_vec(),
            Some(names) => names.name(value),
        }
    }
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
        let translation = P4NewTypeTranslation {
            uri: "example/port".into(),
            sdn_type: Some(sdn_type),
        };
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
    fn numbers_stay_what_they_are_within_the_controllers_width() {
        let mut names = names(SdnType::SdnBitwidth(32));
        assert_eq!(names.decode(port(), 32, &[0, 7]).unwrap(), [7]);
        let error = names.decode(port(), 32, &[1, 0, 0, 0, 0]).unwrap_err();
        assert_eq!(error.code, Code::OutOfRange);
        assert_eq!(names.encode(port(), &[7]), [7]);
    }
}
