//! Types as the control plane sees them: `P4DataTypeSpec` and `P4TypeInfo`.

use ebb_p4_proto::config::p4_bitstring_like_type_spec::TypeSpec as Bitstring;
use ebb_p4_proto::config::p4_data_type_spec::TypeSpec;
use ebb_p4_proto::config::p4_new_type_spec::Representation;
use ebb_p4_proto::config::p4_new_type_translation::{SdnString, SdnType};
use ebb_p4_proto::config::{
    P4BitTypeSpec, P4BitstringLikeTypeSpec, P4BoolType, P4DataTypeSpec, P4EnumTypeSpec,
    P4ErrorType, P4ErrorTypeSpec, P4HeaderTypeSpec, P4IntTypeSpec, P4NamedType, P4NewTypeSpec,
    P4NewTypeTranslation, P4SerializableEnumTypeSpec, P4StructTypeSpec, P4TupleTypeSpec,
    P4TypeInfo, P4VarbitTypeSpec, p4_enum_type_spec, p4_header_type_spec,
    p4_serializable_enum_type_spec, p4_struct_type_spec,
};
use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::notes::Notes;
use super::saturated;
use crate::annotations::{self, own_name};
use crate::eval::{self, Value};
use crate::types::{EnumType, NewType, StructKind, StructType, Type};

/// The types of the program that its control-plane objects mention.
#[derive(Debug, Default)]
pub struct Types {
    info: P4TypeInfo,
    /// Names of the program's errors.
    errors: Vec<String>,
    /// Some object has a type at all; otherwise there is no type info, as p4c does.
    pub used: bool,
}

impl Types {
    pub fn new(errors: &[String]) -> Types {
        Types {
            errors: errors.to_vec(),
            ..Types::default()
        }
    }

    pub fn into_info(self) -> Option<P4TypeInfo> {
        self.used.then_some(self.info)
    }

    /// The name and width of a scalar in a match field or parameter. Width 0: any.
    pub fn scalar(&mut self, ty: &Type) -> (Option<P4NamedType>, i32) {
        self.spec(ty);
        let width = ty.width().map_or(0, saturated);
        match ty {
            Type::New(n) => {
                let name = own_name(&n.name, &n.annotations);
                let width = match translation(n).and_then(|t| t.sdn_type) {
                    Some(SdnType::SdnBitwidth(width)) => width,
                    Some(SdnType::SdnString(_)) => 0,
                    None => width,
                };
                (Some(named(name)), width)
            }
            Type::Enum(e) if e.underlying.is_none() => {
                (Some(named(own_name(&e.name, &e.annotations))), 0)
            }
            _ => (None, width),
        }
    }

    /// `P4DataTypeSpec` of a type; types of the program are entered into the type info.
    pub fn spec(&mut self, ty: &Type) -> P4DataTypeSpec {
        self.used = true;
        let spec = match ty {
            Type::Bits { .. } | Type::Varbit(_) => Some(TypeSpec::Bitstring(bitstring(ty))),
            Type::Bool => Some(TypeSpec::Bool(P4BoolType {})),
            Type::Tuple(items) => Some(TypeSpec::Tuple(P4TupleTypeSpec {
                members: items.iter().map(|item| self.spec(item)).collect(),
            })),
            Type::Struct(s) => Some(self.structure(s)),
            Type::Enum(e) => Some(self.enumeration(e)),
            Type::Error => {
                let members = self.errors.clone();
                self.info.error = Some(P4ErrorTypeSpec { members });
                Some(TypeSpec::Error(P4ErrorType {}))
            }
            Type::New(n) => Some(self.new_type(n)),
            _ => None,
        };
        P4DataTypeSpec { type_spec: spec }
    }

    fn structure(&mut self, s: &StructType) -> TypeSpec {
        let name = own_name(&s.name, &s.annotations);
        let fields = s.fields.iter();
        let fields = fields.map(|f| (own_name(&f.name, &f.annotations), &f.ty));
        if s.kind == StructKind::Struct {
            if !self.info.structs.contains_key(&name) {
                let member = |(name, ty)| p4_struct_type_spec::Member {
                    name,
                    type_spec: Some(self.spec(ty)),
                };
                let members = fields.map(member).collect();
                let info = P4StructTypeSpec {
                    members,
                    ..Default::default()
                };
                self.info.structs.insert(name.clone(), info);
            }
            return TypeSpec::Struct(named(name));
        }
        let member = |(name, ty): (_, &Type)| p4_header_type_spec::Member {
            name,
            type_spec: Some(bitstring(ty.stored())),
        };
        let info = || P4HeaderTypeSpec {
            members: fields.map(member).collect(),
            ..Default::default()
        };
        self.info.headers.entry(name.clone()).or_insert_with(info);
        TypeSpec::Header(named(name))
    }

    fn enumeration(&mut self, e: &EnumType) -> TypeSpec {
        let name = own_name(&e.name, &e.annotations);
        let Some((underlying, values)) = &e.underlying else {
            let member = |name: &String| p4_enum_type_spec::Member {
                name: name.clone(),
                ..Default::default()
            };
            let info = P4EnumTypeSpec {
                members: e.members.iter().map(member).collect(),
                ..Default::default()
            };
            self.info.enums.entry(name.clone()).or_insert(info);
            return TypeSpec::Enum(named(name));
        };
        let width = underlying.width().unwrap_or(0);
        let member = |(name, value): (&String, _)| p4_serializable_enum_type_spec::Member {
            name: name.clone(),
            value: bytes(value, width),
            ..Default::default()
        };
        let info = P4SerializableEnumTypeSpec {
            underlying_type: Some(P4BitTypeSpec {
                bitwidth: saturated(width),
            }),
            members: e.members.iter().zip(values).map(member).collect(),
            ..Default::default()
        };
        let enums = &mut self.info.serializable_enums;
        enums.entry(name.clone()).or_insert(info);
        TypeSpec::SerializableEnum(named(name))
    }

    fn new_type(&mut self, n: &NewType) -> TypeSpec {
        let name = own_name(&n.name, &n.annotations);
        if !self.info.new_types.contains_key(&name) {
            let representation = translation(n).map(Representation::TranslatedType);
            let notes = Notes::of(&n.annotations, &["hidden", "p4runtime_translation"]);
            let info = P4NewTypeSpec {
                representation: representation.or_else(|| {
                    // The controller sees what is behind a `type` of a `type`.
                    let mut original = &n.underlying;
                    while let Type::New(inner) = original {
                        original = &inner.underlying;
                    }
                    Some(Representation::OriginalType(self.spec(original)))
                }),
                annotations: notes.annotations,
                structured_annotations: notes.structured_annotations,
                ..Default::default()
            };
            self.info.new_types.insert(name.clone(), info);
        }
        TypeSpec::NewType(named(name))
    }
}

pub fn named(name: String) -> P4NamedType {
    P4NamedType { name }
}

fn bitstring(ty: &Type) -> P4BitstringLikeTypeSpec {
    let bitwidth = ty.width().map_or(1, saturated);
    P4BitstringLikeTypeSpec {
        type_spec: Some(match ty {
            Type::Varbit(width) => Bitstring::Varbit(P4VarbitTypeSpec {
                max_bitwidth: saturated(*width),
            }),
            Type::Bits { signed: true, .. } => Bitstring::Int(P4IntTypeSpec { bitwidth }),
            _ => Bitstring::Bit(P4BitTypeSpec { bitwidth }),
        }),
        ..Default::default()
    }
}

/// Big-endian, as many bytes as the width needs.
pub fn bytes(value: &BigInt, width: u32) -> Vec<u8> {
    let (_, magnitude) = eval::wrap(value, width, false).to_bytes_be();
    let size = width.div_ceil(8) as usize;
    let mut out = vec![0; size.saturating_sub(magnitude.len())];
    out.extend(magnitude);
    out
}

/// How values of a `type` are shown to the controller: `@p4runtime_translation("uri", 32)`, `(..., bit<32>)` or
/// `(..., string)`.
fn translation(n: &NewType) -> Option<P4NewTypeTranslation> {
    let values = &annotations::find(&n.annotations, "p4runtime_translation")?.values;
    let uri = annotations::string(&n.annotations, "p4runtime_translation")?;
    let sdn_type = match values.get(1).map(|v| &v.value) {
        Some(Value::Int(width)) => SdnType::SdnBitwidth(saturated(width.to_u64()?)),
        _ => SdnType::SdnString(SdnString {}),
    };
    Some(P4NewTypeTranslation {
        uri,
        sdn_type: Some(sdn_type),
    })
}
