//! How the digests of a program are called, in JSON and P4Info alike: the controller finds them by their name.

use crate::annotations;
use crate::elaborate::flat::{Flat, FlatKind, FlatStmt};
use crate::source::Span;
use crate::types::Type;

/// Calls of `digest` that share a name.
pub struct Digest {
    pub name: String,
    pub ty: Type,
    calls: Vec<Span>,
}

impl Digest {
    /// Whether the call at a place, with data of this type, sends the digest.
    fn has_call(&self, ty: &Type, span: Span) -> bool {
        match name_of(ty) {
            Some(name) => self.name == name,
            // An action stands in the program once, wherever it is called.
            None => self.ty == *ty && self.calls.contains(&span),
        }
    }
}

/// A call of an extern function.
pub struct ExternCall<'a> {
    pub name: &'a str,
    pub type_arg: Option<&'a Type>,
    pub span: Span,
}

/// The digests of a program. Calls with the same named type share a digest of its name; others get a number.
pub fn digests(flat: &Flat) -> Vec<Digest> {
    let mut all: Vec<Digest> = Vec::new();
    let mut numbered = 0;
    for call in extern_calls(flat) {
        let (true, Some(ty)) = (call.name == "digest", call.type_arg) else {
            continue;
        };
        if let Some(known) = all.iter_mut().find(|d| d.has_call(ty, call.span)) {
            known.calls.push(call.span);
            continue;
        }
        let name = name_of(ty).unwrap_or_else(|| {
            numbered += 1;
            format!("digest_{}", numbered - 1)
        });
        all.push(Digest {
            name,
            ty: ty.clone(),
            calls: vec![call.span],
        });
    }
    all
}

/// The digest that this call sends.
pub fn of_call<'a>(all: &'a [Digest], ty: &Type, span: Span) -> Option<&'a Digest> {
    all.iter().find(|d| d.has_call(ty, span))
}

fn name_of(ty: &Type) -> Option<String> {
    match ty {
        Type::Struct(s) if !s.name.is_empty() => {
            Some(annotations::own_name(&s.name, &s.annotations))
        }
        _ => None,
    }
}

/// All calls of extern functions: in the controls in their order, then in the actions of tables.
pub fn extern_calls(flat: &Flat) -> Vec<ExternCall<'_>> {
    let controls = [
        &flat.verify_checksum,
        &flat.ingress,
        &flat.egress,
        &flat.compute_checksum,
    ];
    let bodies = controls.into_iter().map(|c| &c.body);
    let mut found = Vec::new();
    for body in bodies.chain(flat.actions.iter().map(|a| &a.body)) {
        find(body, &mut found);
    }
    found
}

fn find<'a>(body: &'a [FlatStmt], found: &mut Vec<ExternCall<'a>>) {
    for statement in body {
        match &statement.kind {
            FlatKind::Extern {
                object: None,
                name,
                type_args,
                ..
            } => found.push(ExternCall {
                name,
                type_arg: type_args.first(),
                span: statement.span,
            }),
            kind => kind.bodies().for_each(|body| find(body, found)),
        }
    }
}
