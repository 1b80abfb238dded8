//! Where variables live: header instances, stacks, and the fields of the `scalars` header.
//!
//! Headers keep the path of their field in the headers struct (`ipv4`, `inner.ipv4`, `tags[0]`). All
//! scalars of the program's metadata and of local variables are fields of one metadata header. Copies of the
//! standard metadata are headers of their own, of the same type, since `mark_to_drop` takes a header.

use std::collections::{HashMap, HashSet};

use ebb_bmv2_json as json;

use crate::annotations;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::elaborate::flat::{FlatVar, Role};
use crate::ir::{self, Expr, ExprKind, VarId};
use crate::names::Names;
use crate::source::Span;
use crate::types::{FieldType, Fields, StructKind, StructType, Type};

/// The header of scalars, unless the program has a header of this name.
const SCALARS: &str = "scalars";
const SCALARS_TYPE: &str = "scalars_0";
const VARBIT_FIELD: &str = "value";
pub(super) const STANDARD: &str = "standard_metadata";
/// How many headers of metadata come before all others: `scalars` and `standard_metadata`.
const METADATA_HEADERS: u32 = 2;

pub(super) struct Layout<'a> {
    diagnostics: &'a Diagnostics,
    fills_headers: bool,
    /// The variables of the flat program, and those that the backend adds.
    pub vars: Vec<FlatVar>,
    /// Name of the header of scalars.
    scalars_name: String,
    scalars: Vec<json::FieldDecl>,
    scalar_names: HashSet<String>,
    /// Names of header types, and of header instances.
    header_types: HashSet<String>,
    headers: HashSet<String>,
    /// Names of what has been declared, and those of what is around it: `a` and `a.b` for `a.b[1]`.
    taken: HashSet<String>,
    /// Names of variables, and of scalars.
    names: Names,
    /// Where the variables are, by number: a path; empty for the headers struct.
    paths: HashMap<VarId, String>,
    /// Headers, stacks and unions with their types, without those of metadata.
    json: json::Program,
}

/// Place that an expression refers to, in terms of the JSON.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Field(json::FieldRef),
    /// The parameter of this index of the action.
    ActionData(usize),
    Header(String),
    Stack(String),
    Union(String),
    UnionStack(String),
    /// A struct or tuple outside of headers, by its path.
    Group(String),
    /// A struct inside of a header, or standard metadata: the header and the path in it.
    HeaderGroup(String, String),
    StackNext(String),
    StackLast(String),
    /// A field of the last element of a stack.
    StackField(json::FieldRef),
    UnionStackNext(String, String),
}

/// Whether a field is what a deparser of Tofino chooses a mirror, resubmission or digest by.
fn is_selector(s: &StructType, field: &str) -> bool {
    matches!(field, "mirror_type" | "resubmit_type" | "digest_type")
        && matches!(
            s.name.as_str(),
            "ingress_intrinsic_metadata_for_deparser_t"
                | "egress_intrinsic_metadata_for_deparser_t"
        )
}

impl<'a> Layout<'a> {
    /// Places for the variables. `fills_headers`: headers are filled up to whole bytes, as the compiler for Tofino lays
    /// out those with flexible fields; otherwise such headers are errors.
    pub fn new(vars: &[FlatVar], fills_headers: bool, diagnostics: &'a Diagnostics) -> Self {
        let mut layout = Layout {
            diagnostics,
            fills_headers,
            vars: vars.to_vec(),
            scalars_name: String::new(),
            scalars: Vec::new(),
            scalar_names: HashSet::new(),
            header_types: HashSet::new(),
            headers: HashSet::new(),
            taken: HashSet::new(),
            names: Names::default(),
            paths: HashMap::new(),
            json: json::Program::default(),
        };
        for var in vars {
            layout.names.take(&var.name);
        }
        for id in 0..vars.len() {
            layout.declare_var(id);
        }
        layout
    }

    /// A new scalar variable.
    pub fn temp(&mut self, ty: &Type, span: Span) -> Expr {
        let var = FlatVar {
            name: self.names.unique("tmp"),
            ty: ty.clone(),
            role: Role::Local,
            span,
        };
        let id = ir::add(&mut self.vars, var);
        self.declare_var(id);
        Expr::var(id, ty.clone(), span)
    }

    /// Notes that a name is taken, and with it those of what is around it.
    fn take(&mut self, name: &str) {
        let around = name.match_indices(['.', '[']).map(|(at, _)| &name[..at]);
        self.taken.extend(around.map(str::to_owned));
        self.taken.insert(name.to_owned());
    }

    fn declare_var(&mut self, id: usize) {
        let var = self.vars[id].clone();
        match var.role {
            Role::ActionData(_) => {}
            Role::Standard => {
                self.paths.insert(id, STANDARD.to_owned());
                self.declare_standard(&var.ty);
            }
            Role::Headers => {
                self.check_header_names(&var.ty);
                self.paths.insert(id, String::new());
                self.declare(&var.ty, "", var.span);
            }
            Role::Metadata | Role::Local => {
                // Variables must not take the name of a header, nor of something with headers inside.
                let path = if self.taken.contains(&var.name) {
                    format!("{}.local", var.name)
                } else {
                    var.name.clone()
                };
                self.paths.insert(id, path.clone());
                self.declare(&var.ty, &path, var.span);
            }
        }
    }

    /// The packet's headers are called as the program does. One may have the name that scalars would have; that of
    /// the standard metadata is fixed.
    fn check_header_names(&mut self, headers: &Type) {
        let Type::Struct(s) = headers else { return };
        let names: Vec<String> = s.fields.iter().map(|f| s.own_field_name(&f.name)).collect();
        self.scalars_name = SCALARS.to_owned();
        while names.contains(&self.scalars_name) {
            self.scalars_name.push('_');
        }
        if names.iter().any(|name| name == STANDARD) {
            let message = format!("BMv2 has metadata of the name `{STANDARD}`");
            self.diagnostics.error_with_help(
                "reserved-name",
                s.span,
                message,
                "give the header another name",
            );
        }
    }

    fn declare(&mut self, ty: &Type, path: &str, span: Span) {
        match ty {
            Type::Struct(_) if self.is_standard(ty) => {
                self.add_header(path, STANDARD.to_owned(), true);
            }
            Type::Struct(s) if s.kind == StructKind::Struct => {
                for field in &s.fields {
                    let name = s.own_field_name(&field.name);
                    let path = join(path, &name);
                    match &field.ty {
                        ty if is_selector(s, &field.name) => self.declare_selector(ty, &path),
                        ty => self.declare(ty, &path, span),
                    }
                }
            }
            Type::Struct(s) if s.kind == StructKind::Header => {
                self.declare_header(s, path, span);
            }
            Type::Struct(s) => {
                self.declare_union(s, path, span);
            }
            Type::Tuple(items) => {
                for (i, item) in items.iter().enumerate() {
                    self.declare(item, &join(path, &i.to_string()), span);
                }
            }
            Type::Stack(element, size) => self.declare_stack(element, *size, path, span),
            Type::Varbit(max) => self.declare_varbit(*max, path, span),
            Type::String | Type::Int | Type::Void | Type::Poison => {}
            _ => {
                let (width, signed) = scalar_shape(ty);
                self.declare_scalar(path, width, signed);
            }
        }
    }

    fn declare_scalar(&mut self, path: &str, width: u32, signed: bool) {
        if !self.scalar_names.insert(path.to_owned()) {
            self.duplicate_name("fields of metadata", path);
        }
        self.take(path);
        self.names.take(path);
        self.scalars
            .push(json::FieldDecl::bits(path, width, signed));
    }

    /// A field by which a deparser of Tofino chooses is not valid until it is written. It has a bit more than its type,
    /// so that the switch can give it a number which is none of the type until then.
    fn declare_selector(&mut self, ty: &Type, path: &str) {
        let (width, signed) = scalar_shape(ty);
        self.declare_scalar(path, width + 1, signed);
    }

    fn declare_header(&mut self, s: &StructType, path: &str, span: Span) -> u32 {
        let header_type = self.declare_header_type(s, span);
        self.add_header(path, header_type, false)
    }

    fn add_header(&mut self, name: &str, header_type: String, metadata: bool) -> u32 {
        if !self.headers.insert(name.to_owned()) {
            self.duplicate_name("headers", name);
        }
        self.take(name);
        let id = self.json.headers.len() as u32 + METADATA_HEADERS;
        self.json.headers.push(json::Header {
            name: name.to_owned(),
            id,
            header_type,
            metadata,
            pi_omit: true,
        });
        id
    }

    /// Reports a name that two have: a `@name` may be the path of another header or field.
    fn duplicate_name(&self, what: &str, name: &str) {
        let message = format!("two {what} of the program are called `{name}`");
        self.diagnostics.report(
            Diagnostic::global("duplicate-name", message).help("give one of them another @name"),
        );
    }

    /// Whether a type is that of the architecture's standard metadata.
    fn is_standard(&self, ty: &Type) -> bool {
        let own = self.vars.iter().find(|v| v.role == Role::Standard);
        match (ty, own.map(|v| &v.ty)) {
            (Type::Struct(s), Some(Type::Struct(own))) => s.name == own.name,
            _ => false,
        }
    }

    /// A varbit variable is the only field of a header of its own.
    fn declare_varbit(&mut self, max: u32, path: &str, span: Span) {
        let holder = StructType {
            kind: StructKind::Header,
            name: format!("varbit<{max}>"),
            args: Vec::new(),
            fields: Fields::from(vec![FieldType {
                name: VARBIT_FIELD.to_owned(),
                ty: Type::Varbit(max),
                annotations: Vec::new(),
            }]),
            annotations: Vec::new(),
            span,
        };
        self.declare_header(&holder, path, span);
    }

    fn declare_union(&mut self, s: &StructType, path: &str, span: Span) -> u32 {
        let mut header_ids = Vec::new();
        let mut members = Vec::new();
        for field in &s.fields {
            let Type::Struct(header) = &field.ty else {
                continue;
            };
            let name = s.own_field_name(&field.name);
            header_ids.push(self.declare_header(header, &join(path, &name), span));
            members.push((name, type_name(header)));
        }
        let name = type_name(s);
        if !self.json.header_union_types.iter().any(|t| t.name == name) {
            let id = self.json.header_union_types.len() as u32;
            self.json.header_union_types.push(json::HeaderUnionType {
                name: name.clone(),
                id,
                headers: members,
            });
        }
        self.take(path);
        let id = self.json.header_unions.len() as u32;
        self.json.header_unions.push(json::HeaderUnion {
            name: path.to_owned(),
            id,
            union_type: name,
            header_ids,
            pi_omit: true,
        });
        id
    }

    fn declare_stack(&mut self, element: &Type, size: u32, path: &str, span: Span) {
        let Type::Struct(s) = element else { return };
        if s.kind == StructKind::Union {
            let header_union_ids = (0..size)
                .map(|i| self.declare_union(s, &format!("{path}[{i}]"), span))
                .collect();
            self.take(path);
            let id = self.json.header_union_stacks.len() as u32;
            self.json.header_union_stacks.push(json::HeaderUnionStack {
                name: path.to_owned(),
                id,
                union_type: type_name(s),
                size: Some(size),
                header_union_ids,
            });
            return;
        }
        let header_ids = (0..size)
            .map(|i| self.declare_header(s, &format!("{path}[{i}]"), span))
            .collect();
        self.take(path);
        let id = self.json.header_stacks.len() as u32;
        self.json.header_stacks.push(json::HeaderStack {
            name: path.to_owned(),
            id,
            header_type: type_name(s),
            size: Some(size),
            header_ids,
        });
    }

    fn declare_header_type(&mut self, s: &StructType, span: Span) -> String {
        let name = type_name(s);
        if !self.header_types.insert(name.clone()) {
            return name;
        }
        let mut fields = Vec::new();
        let mut varbit = None;
        flatten(s, "", &mut fields, &mut varbit);
        if self.fills_headers {
            pad(&mut fields, "_padding");
        }
        let bits: u32 = fields
            .iter()
            .filter_map(|f| match f.width {
                json::FieldWidth::Bits(bits) => Some(bits),
                json::FieldWidth::Variable => None,
            })
            .sum();
        if !bits.is_multiple_of(8) || varbit.is_some_and(|v| !v.is_multiple_of(8)) {
            let message = format!("header `{name}` has {bits} bits; BMv2 needs a multiple of 8");
            let place = if s.span == Span::default() {
                span
            } else {
                s.span
            };
            self.diagnostics.error("unaligned-header", place, message);
        }
        self.json.header_types.push(json::HeaderType {
            max_length: varbit.map(|v| (bits + v).div_ceil(8)),
            ..header_type(&name, fields)
        });
        name
    }

    fn declare_standard(&mut self, ty: &Type) {
        let Type::Struct(s) = ty else { return };
        let mut fields = Vec::new();
        flatten(s, "", &mut fields, &mut None);
        for field in &s.fields {
            if let Some(alias) = annotations::string(&field.annotations, "alias") {
                let target = json::FieldRef::new(STANDARD, &field.name);
                self.json.field_aliases.push((alias, target));
            }
        }
        pad(&mut fields, "_padding");
        self.header_types.insert(STANDARD.to_owned());
        self.json.header_types.push(header_type(STANDARD, fields));
    }

    /// Declares standard metadata with no more than what the switch itself keeps there, for programs that have none.
    pub fn declare_own_standard(&mut self) {
        let fields = [
            ("ingress_port", 9),
            ("egress_spec", 9),
            ("egress_port", 9),
            ("instance_type", 32),
            ("packet_length", 32),
        ];
        let mut fields: Vec<_> = fields
            .iter()
            .map(|(name, bits)| json::FieldDecl::bits(*name, *bits, false))
            .collect();
        pad(&mut fields, "_padding");
        self.header_types.insert(STANDARD.to_owned());
        self.json.header_types.push(header_type(STANDARD, fields));
    }

    /// Gives a field a name by which the target knows it.
    pub fn alias(&mut self, name: String, field: json::FieldRef) {
        self.json.field_aliases.push((name, field));
    }

    /// Puts the declarations into the JSON: metadata first, then headers.
    pub fn finish(mut self, json: &mut json::Program) {
        pad(&mut self.scalars, "_padding_0");
        let mut types = vec![header_type(SCALARS_TYPE, self.scalars)];
        types.append(&mut self.json.header_types);
        for (id, header_type) in (0..).zip(&mut types) {
            header_type.id = id;
        }
        let metadata = |name: &str, id, header_type: &str| json::Header {
            name: name.to_owned(),
            id,
            header_type: header_type.to_owned(),
            metadata: true,
            pi_omit: true,
        };
        let mut headers = vec![
            metadata(&self.scalars_name, 0, SCALARS_TYPE),
            metadata(STANDARD, 1, STANDARD),
        ];
        headers.append(&mut self.json.headers);
        json.header_types = types;
        json.headers = headers;
        json.header_stacks = self.json.header_stacks;
        json.header_union_types = self.json.header_union_types;
        json.header_unions = self.json.header_unions;
        json.header_union_stacks = self.json.header_union_stacks;
        json.field_aliases = self.json.field_aliases;
    }

    /// Names of all header instances that a value of headers consists of, in order.
    pub fn header_instances(&self, expr: &Expr) -> Vec<String> {
        match &expr.ty {
            Type::Struct(s) if s.kind == StructKind::Header => match self.place(expr) {
                Some(Place::Header(name)) => vec![name],
                _ => Vec::new(),
            },
            Type::Struct(_) | Type::Stack(..) | Type::Tuple(_) => expr
                .members()
                .iter()
                .flat_map(|m| self.header_instances(m))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Place that an expression refers to; none if it is not a place.
    pub fn place(&self, expr: &Expr) -> Option<Place> {
        match &expr.kind {
            ExprKind::Var(id) => {
                let role = self.vars[*id].role;
                match role {
                    Role::ActionData(i) => Some(Place::ActionData(i)),
                    _ => self.at_path(&expr.ty, self.paths.get(id)?.clone()),
                }
            }
            ExprKind::Field(base, name) => {
                let name = match &base.ty {
                    Type::Struct(s) => s.own_field_name(name),
                    _ => name.clone(),
                };
                self.field_place(self.place(base)?, &expr.ty, name)
            }
            ExprKind::Index(base, index) => match (self.place(base)?, index.as_int()) {
                (Place::Group(path), Some(i)) => {
                    self.at_path(&expr.ty, join(&path, &i.to_string()))
                }
                (Place::Stack(stack), Some(i)) => Some(Place::Header(format!("{stack}[{i}]"))),
                (Place::UnionStack(stack), Some(i)) => Some(Place::Union(format!("{stack}[{i}]"))),
                _ => None,
            },
            ExprKind::StackNext(base) => match self.place(base)? {
                Place::Stack(stack) => Some(Place::StackNext(stack)),
                Place::UnionStack(stack) => Some(Place::UnionStackNext(stack, String::new())),
                _ => None,
            },
            ExprKind::StackLast(base) => match self.place(base)? {
                Place::Stack(stack) => Some(Place::StackLast(stack)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The field `name`, as the JSON calls it, of what is at a place.
    fn field_place(&self, base: Place, ty: &Type, name: String) -> Option<Place> {
        match base {
            Place::Group(path) => self.at_path(ty, join(&path, &name)),
            Place::Union(path) => Some(Place::Header(join(&path, &name))),
            Place::Header(header) => in_header(ty, header, name),
            Place::HeaderGroup(header, path) => in_header(ty, header, join(&path, &name)),
            Place::StackLast(stack) => Some(Place::StackField(json::FieldRef::new(stack, name))),
            Place::UnionStackNext(stack, _) => Some(Place::UnionStackNext(stack, name)),
            _ => None,
        }
    }

    fn at_path(&self, ty: &Type, path: String) -> Option<Place> {
        Some(match ty {
            Type::Struct(_) if self.is_standard(ty) => Place::HeaderGroup(path, String::new()),
            Type::Struct(s) => match s.kind {
                StructKind::Struct => Place::Group(path),
                StructKind::Header => Place::Header(path),
                StructKind::Union => Place::Union(path),
            },
            Type::Tuple(_) => Place::Group(path),
            Type::Stack(element, _) if element.is_union() => Place::UnionStack(path),
            Type::Stack(..) => Place::Stack(path),
            Type::Varbit(_) => Place::Field(json::FieldRef::new(path, VARBIT_FIELD)),
            _ => Place::Field(json::FieldRef::new(&self.scalars_name, path)),
        })
    }
}

/// A type of fixed length. Types are numbered in the end.
fn header_type(name: &str, fields: Vec<json::FieldDecl>) -> json::HeaderType {
    json::HeaderType {
        name: name.to_owned(),
        id: 0,
        fields,
        length_exp: None,
        max_length: None,
    }
}

fn in_header(ty: &Type, header: String, path: String) -> Option<Place> {
    Some(match ty {
        Type::Struct(_) => Place::HeaderGroup(header, path),
        _ => Place::Field(json::FieldRef::new(header, path)),
    })
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// Name of a type in the JSON: as the program does, but not as it calls the types of metadata.
pub fn type_name(s: &StructType) -> String {
    let name = written_type(s);
    match name.as_str() {
        STANDARD | SCALARS_TYPE => format!("{name}_"),
        _ => name,
    }
}

fn written_type(s: &StructType) -> String {
    Type::Struct(std::rc::Rc::new(StructType {
        kind: s.kind,
        name: s.name.clone(),
        args: s.args.clone(),
        fields: Fields::default(),
        annotations: Vec::new(),
        span: s.span,
    }))
    .to_string()
}

/// Width and signedness of the field that holds a scalar.
pub fn scalar_shape(ty: &Type) -> (u32, bool) {
    match ty.stored() {
        Type::Bits { width, signed } => (*width, *signed),
        other => (other.width().unwrap_or(32), false),
    }
}

/// Collects the fields of a header, those of structs inside among them, and the most bits of its varbit.
fn flatten(
    s: &StructType,
    prefix: &str,
    fields: &mut Vec<json::FieldDecl>,
    varbit: &mut Option<u32>,
) {
    for (field, name) in s.fields.iter().zip(s.fields.own_names()) {
        let path = join(prefix, name);
        match field.ty.representation() {
            Type::Struct(inner) => flatten(inner, &path, fields, varbit),
            Type::Varbit(max) => {
                *varbit = Some(*max);
                fields.push(json::FieldDecl::variable(path));
            }
            ty => {
                let (width, signed) = scalar_shape(ty);
                fields.push(json::FieldDecl::bits(path, width, signed));
            }
        }
    }
}

/// Fills a header up to whole bytes, as BMv2 wants it.
fn pad(fields: &mut Vec<json::FieldDecl>, name: &str) {
    let bits: u32 = fields
        .iter()
        .map(|f| match f.width {
            json::FieldWidth::Bits(bits) => bits,
            json::FieldWidth::Variable => 0,
        })
        .sum();
    let missing = bits.next_multiple_of(8) - bits;
    if missing > 0 {
        fields.push(json::FieldDecl::bits(name, missing, false));
    }
}
