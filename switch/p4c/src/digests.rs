//! How the digests of a program are called, in JSON and P4Info alike: the controller finds them by their name.

use std::collections::HashMap;

use crate::annotations;
use crate::elaborate::flat::{Flat, FlatKind, FlatStmt};
use crate::source::Span;
use crate::types::Type;

/// Calls of `digest` that share a name.
pub struct Digest {
    pub name: String,
    pub ty: Type,
}

/// The digests of a program, and which calls send them.
#[derive(Default)]
pub struct Digests {
    pub list: Vec<Digest>,
    /// The first call whose data has another type than the digest of its name.
    pub clash: Option<Span>,
    /// Those with a named type by its name, the others by the places of their calls.
    named: HashMap<String, usize>,
    called: HashMap<Span, Vec<usize>>,
}

impl Digests {
    /// The digest that the call at a place, with data of this type, sends.
    pub fn of_call(&self, ty: &Type, span: Span) -> Option<&Digest> {
        let index = match name_of(ty) {
            Some(name) => self.named.get(&name)?,
            // An action stands in the program once, wherever it is called; a generic function has several types.
            None => {
                let mut here = self.called.get(&span)?.iter();
                here.find(|i| self.list[**i].ty == *ty)?
            }
        };
        Some(&self.list[*index])
    }
}

/// A call of an extern function.
pub struct ExternCall<'a> {
    pub name: &'a str,
    pub type_arg: Option<&'a Type>,
    pub span: Span,
}

/// The digests of a program: objects of Tofino, or calls. Calls with the same named type share a digest of its name;
/// others get a number.
pub fn digests(flat: &Flat) -> Digests {
    let mut all = Digests::default();
    let mut numbered = 0;
    for call in extern_calls(flat) {
        let (true, Some(ty)) = (call.name == "digest", call.type_arg) else {
            continue;
        };
        if let Some(known) = all.of_call(ty, call.span) {
            if known.ty != *ty {
                all.clash.get_or_insert(call.span);
            }
            continue;
        }
        let index = all.list.len();
        let name = match name_of(ty) {
            Some(name) => {
                all.named.insert(name.clone(), index);
                name
            }
            None => {
                all.called.entry(call.span).or_default().push(index);
                numbered += 1;
                format!("digest_{}", numbered - 1)
            }
        };
        let ty = ty.clone();
        all.list.push(Digest { name, ty });
    }
    // Those of Tofino are objects, which have a name.
    for object in flat
        .objects
        .iter()
        .filter(|object| object.extern_name == "Digest")
    {
        if let Some(ty) = object.type_args.first() {
            all.list.push(Digest {
                name: object.name.clone(),
                ty: ty.clone(),
            });
        }
    }
    all
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
    let pipes = flat.tofino.iter().flat_map(|tofino| &tofino.pipes);
    let of_pipes = pipes.flat_map(|pipe| [&pipe.ingress, &pipe.egress]);
    let bodies = controls.into_iter().chain(of_pipes).map(|c| &c.body);
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
