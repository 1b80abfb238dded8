//! Types after name resolution. All of P4_16's types are here; what BMv2 cannot hold is refused by the backend.

mod fields;

use std::fmt;
use std::rc::Rc;

use num_bigint::BigInt;

pub use self::fields::Fields;
use crate::annotations::Annotation;
pub use crate::ast::StructKind;
use crate::names::Places;
use crate::source::Span;

/// Index of a kind of extern in the program.
pub type ExternId = usize;
/// Index of a parser, control or package in the program.
pub type BlockId = usize;

/// A type after name resolution.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Type of an expression with an error that has been reported. Fits everywhere, so that one mistake is one error.
    Poison,
    /// Result of a callable that returns nothing.
    Void,
    /// `bool`.
    Bool,
    /// `int`: an integer of arbitrary precision, which exists at compile time only.
    Int,
    /// `bit<width>` or `int<width>`.
    Bits {
        /// Bits, 0 to 65,536.
        width: u32,
        /// Whether it is `int<width>`.
        signed: bool,
    },
    /// `varbit<width>`, with the largest width in bits.
    Varbit(u32),
    /// `string`, which exists at compile time only.
    String,
    /// `error`.
    Error,
    /// `match_kind`.
    MatchKind,
    /// `_`: a type argument that is inferred.
    DontCare,
    /// Type of `{#}` before it meets a header type.
    InvalidHeader,
    /// Type of `...` before it meets a type.
    Dots,
    /// An enum, with or without an underlying type.
    Enum(Rc<EnumType>),
    /// A type that `type` has declared.
    New(Rc<NewType>),
    /// A struct, header, header union, or a record that has no type yet.
    Struct(Rc<StructType>),
    /// A header stack: type and number of its headers.
    Stack(Rc<Type>, u32),
    /// `tuple<..>`, with the types of its members.
    Tuple(Rc<Vec<Type>>),
    /// `list<..>`, with the type of its items.
    List(Rc<Type>),
    /// A type variable.
    Var(TypeVar),
    /// An extern type with its type arguments.
    Extern(ExternId, Vec<Type>),
    /// A parser, control or package type.
    Block(BlockId, Vec<Type>),
}

/// A type parameter, or an unknown that inference has to find.
#[derive(Clone, Debug)]
pub struct TypeVar {
    /// Unique in the program.
    pub id: u32,
    /// Name in the program; of an unknown that of its type variable.
    pub name: Rc<str>,
}

impl PartialEq for TypeVar {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// Type parameters and what they stand for.
pub type Bindings = Vec<(TypeVar, Type)>;

/// Binds type parameters to arguments, in their order.
pub fn bind(params: &[TypeVar], args: impl IntoIterator<Item = Type>) -> Bindings {
    params.iter().cloned().zip(args).collect()
}

/// An enum.
#[derive(Debug)]
pub struct EnumType {
    /// Its name.
    pub name: String,
    /// Its members, in order.
    pub members: Vec<String>,
    /// Index of members by name.
    pub places: Places,
    /// Representation of a serializable enum: its type and the value of each member.
    pub underlying: Option<(Type, Vec<BigInt>)>,
    /// Annotations of the declaration.
    pub annotations: Vec<Annotation>,
    /// Its place in the source.
    pub span: Span,
}

/// A type that `type` has declared, which casts alone convert.
#[derive(Debug)]
pub struct NewType {
    /// Its name.
    pub name: String,
    /// Type with the same values.
    pub underlying: Type,
    /// Annotations of the declaration.
    pub annotations: Vec<Annotation>,
}

/// A type with named fields.
#[derive(Debug)]
pub struct StructType {
    /// Struct, header or header union.
    pub kind: StructKind,
    /// Empty for the type of a `{ a = 1 }` that has not met its struct yet.
    pub name: String,
    /// Type arguments of a generic type; empty for others.
    pub args: Vec<Type>,
    /// Its fields, in order.
    pub fields: Fields,
    /// Annotations of the declaration.
    pub annotations: Vec<Annotation>,
    /// Its place in the source.
    pub span: Span,
}

/// A field of a struct, header or header union.
#[derive(Clone, Debug)]
pub struct FieldType {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Annotations of the field.
    pub annotations: Vec<Annotation>,
}

// P4 types are equal by name; the definition behind a name is unique.
impl PartialEq for EnumType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl PartialEq for NewType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl PartialEq for StructType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.args == other.args
            && (!self.name.is_empty()
                || self.fields.len() == other.fields.len()
                    && self
                        .fields
                        .iter()
                        .zip(&other.fields)
                        .all(|(a, b)| a.name == b.name && a.ty == b.ty))
    }
}

impl EnumType {
    /// The index of the member of this name.
    pub fn member(&self, name: &str) -> Option<usize> {
        self.places
            .of(name, self.members.iter().map(String::as_str))
    }
}

impl StructType {
    /// Index and type of the field of this name.
    pub fn field(&self, name: &str) -> Option<(usize, &FieldType)> {
        let place = self.fields.place(name)?;
        Some((place, &self.fields[place]))
    }

    /// Name of a field for the control plane and in the JSON.
    pub fn own_field_name(&self, name: &str) -> String {
        match self.fields.place(name) {
            Some(place) => self.fields.own_names()[place].clone(),
            None => name.to_owned(),
        }
    }
}

impl Type {
    /// `bit<width>`.
    pub const fn bit(width: u32) -> Type {
        Type::Bits {
            width,
            signed: false,
        }
    }

    /// The width in bits of `bit<W>` and `int<W>`, and whether it is the latter; none for other types.
    pub fn as_bits(&self) -> Option<(u32, bool)> {
        match self.stored() {
            Type::Bits { width, signed } => Some((*width, *signed)),
            _ => None,
        }
    }

    /// Whether it is the type of a reported error.
    pub fn is_poison(&self) -> bool {
        matches!(self, Type::Poison)
    }

    /// Its fields, if it is a struct, header or header union.
    pub fn as_struct(&self) -> Option<&Rc<StructType>> {
        match self {
            Type::Struct(s) => Some(s),
            _ => None,
        }
    }

    fn is_struct_kind(&self, kind: StructKind) -> bool {
        self.as_struct().is_some_and(|s| s.kind == kind)
    }

    /// Whether it is a header.
    pub fn is_header(&self) -> bool {
        self.is_struct_kind(StructKind::Header)
    }

    /// Whether it is a header union.
    pub fn is_union(&self) -> bool {
        self.is_struct_kind(StructKind::Union)
    }

    /// Whether it is a header, stack or union, or made of nothing else. A type parameter may stand for one.
    pub fn is_of_headers(&self) -> bool {
        match self {
            Type::Poison | Type::Var(_) | Type::InvalidHeader | Type::Stack(..) => true,
            Type::Struct(s) if s.kind != StructKind::Struct => true,
            Type::Struct(s) => s.fields.iter().all(|f| f.ty.is_of_headers()),
            Type::Tuple(items) => items.iter().all(Type::is_of_headers),
            _ => false,
        }
    }

    /// Whether it is the type that `{ a = .., b = .. }` has until it meets a named one.
    pub fn is_record(&self) -> bool {
        self.as_struct().is_some_and(|s| s.name.is_empty())
    }

    /// Whether one field of BMv2 can hold a value of this type.
    pub fn is_scalar(&self) -> bool {
        matches!(
            self.representation(),
            Type::Bool | Type::Bits { .. } | Type::Error | Type::Enum(_)
        )
    }

    /// The type that declarations with `type` stand for.
    pub fn representation(&self) -> &Type {
        match self {
            Type::New(n) => n.underlying.representation(),
            other => other,
        }
    }

    /// The type of the bits that are stored: that behind `type` declarations and serializable enums.
    pub fn stored(&self) -> &Type {
        match self.representation() {
            Type::Enum(e) => match &e.underlying {
                Some((ty, _)) => ty.stored(),
                None => self.representation(),
            },
            other => other,
        }
    }

    /// Width in bits, for types that have one (specification, section 9: `minSizeInBits`).
    pub fn width(&self) -> Option<u32> {
        match self.stored() {
            Type::Bool => Some(1),
            Type::Bits { width, .. } => Some(*width),
            Type::Varbit(max) => Some(*max),
            // Enums and errors without representation take 32 bits on BMv2.
            Type::Enum(_) | Type::Error => Some(32),
            Type::Struct(s) if s.kind == StructKind::Union => s
                .fields
                .iter()
                .map(|f| f.ty.width())
                .collect::<Option<Vec<_>>>()?
                .into_iter()
                .max(),
            Type::Struct(s) => s.fields.iter().map(|f| f.ty.width()).sum(),
            Type::Tuple(items) => items.iter().map(Type::width).sum(),
            Type::Stack(element, size) => element.width()?.checked_mul(*size),
            _ => None,
        }
    }

    /// The type with its type parameters replaced by what they stand for in `map`.
    pub fn substitute(&self, map: &[(TypeVar, Type)]) -> Type {
        if map.is_empty() {
            return self.clone();
        }
        let all = |types: &[Type]| types.iter().map(|t| t.substitute(map)).collect::<Vec<_>>();
        match self {
            Type::Var(var) => map
                .iter()
                .find(|(v, _)| v == var)
                .map_or_else(|| self.clone(), |(_, t)| t.clone()),
            Type::Struct(s) if !s.args.is_empty() || s.name.is_empty() => {
                Type::Struct(Rc::new(StructType {
                    kind: s.kind,
                    name: s.name.clone(),
                    args: all(&s.args),
                    fields: s
                        .fields
                        .iter()
                        .map(|f| FieldType {
                            ty: f.ty.substitute(map),
                            ..f.clone()
                        })
                        .collect(),
                    annotations: s.annotations.clone(),
                    span: s.span,
                }))
            }
            Type::Stack(element, size) => Type::Stack(Rc::new(element.substitute(map)), *size),
            Type::Tuple(items) => Type::Tuple(Rc::new(all(items))),
            Type::List(item) => Type::List(Rc::new(item.substitute(map))),
            Type::Extern(id, args) => Type::Extern(*id, all(args)),
            Type::Block(id, args) => Type::Block(*id, all(args)),
            other => other.clone(),
        }
    }
}

fn write_args(f: &mut fmt::Formatter<'_>, args: &[Type]) -> fmt::Result {
    if args.is_empty() {
        return Ok(());
    }
    f.write_str("<")?;
    for (i, arg) in args.iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        write!(f, "{comma}{arg}")?;
    }
    f.write_str(">")
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Poison => f.write_str("?"),
            Type::Void => f.write_str("void"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Bits { width, signed } => {
                write!(f, "{}<{width}>", if *signed { "int" } else { "bit" })
            }
            Type::Varbit(width) => write!(f, "varbit<{width}>"),
            Type::String => f.write_str("string"),
            Type::Error => f.write_str("error"),
            Type::MatchKind => f.write_str("match_kind"),
            Type::DontCare => f.write_str("_"),
            Type::InvalidHeader => f.write_str("{#}"),
            Type::Dots => f.write_str("..."),
            Type::Enum(e) => f.write_str(&e.name),
            Type::New(n) => f.write_str(&n.name),
            Type::Struct(s) if s.name.is_empty() => {
                f.write_str("struct { ")?;
                for field in &s.fields {
                    write!(f, "{} {}; ", field.ty, field.name)?;
                }
                f.write_str("}")
            }
            Type::Struct(s) => {
                f.write_str(&s.name)?;
                write_args(f, &s.args)
            }
            Type::Stack(element, size) => write!(f, "{element}[{size}]"),
            Type::Tuple(items) => {
                f.write_str("tuple")?;
                if items.is_empty() {
                    f.write_str("<>")
                } else {
                    write_args(f, items)
                }
            }
            Type::List(item) => write!(f, "list<{item}>"),
            Type::Var(var) => f.write_str(&var.name),
            // Names of externs and blocks live in the program; messages use `Program::type_name`.
            Type::Extern(..) => f.write_str("extern object"),
            Type::Block(..) => f.write_str("parser, control or package"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn substitution_reaches_inside() {
        let var = TypeVar {
            id: 7,
            name: "T".into(),
        };
        let ty = Type::Tuple(Rc::new(vec![Type::Var(var.clone()), Type::Bool]));
        let found = ty.substitute(&[(var, Type::bit(8))]);
        assert_eq!(found.to_string(), "tuple<bit<8>, bool>");
        assert_eq!(found.width(), Some(9));
    }
}
