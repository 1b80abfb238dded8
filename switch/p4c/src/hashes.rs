//! Hashes of Tofino that the control plane can set at run time: those that the program calls at one place, as p4c has
//! it, with fields and constants.

use std::collections::BTreeMap;

use crate::elaborate::flat::{Flat, FlatKind, FlatStmt, Pipe};
use crate::ir::{Expr, ExprKind};
use crate::source::Span;

/// A hash with its call.
#[derive(Debug)]
pub(crate) struct HashCall {
    /// Bits of its result.
    pub bits: u32,
    /// Its inputs.
    pub fields: Vec<HashInput>,
}

/// An input of a hash.
#[derive(Debug)]
pub(crate) struct HashInput {
    /// Its name for the control plane: the text of the program.
    pub name: String,
    /// Its width in bits.
    pub bits: u32,
    /// Whether it is a constant.
    pub is_constant: bool,
}

/// The hashes of a program that can be set, by their index in [`Flat::objects`].
pub(crate) fn of(flat: &Flat) -> BTreeMap<usize, HashCall> {
    let mut calls = BTreeMap::new();
    let pipes = flat.tofino.iter().flat_map(|tofino| &tofino.pipes);
    let bodies = flat.actions.iter().map(|action| &action.body[..]);
    for body in bodies.chain(pipes.flat_map(bodies_of)) {
        collect(body, &mut calls);
    }
    let single = calls.into_iter().filter_map(|(object, mut calls)| {
        calls.dedup_by_key(|call| call.0);
        match &calls[..] {
            [(_, data, bits)] if flat.objects[object].extern_name == "Hash" => {
                Some((object, call(flat, data, *bits)?))
            }
            _ => None,
        }
    });
    single.collect()
}

/// The statements of a pipeline.
fn bodies_of(pipe: &Pipe) -> impl Iterator<Item = &[FlatStmt]> {
    let parsers = [&pipe.ingress_parser, &pipe.egress_parser];
    let states = parsers.into_iter().flat_map(|parser| &parser.states);
    let controls = [
        &pipe.ingress,
        &pipe.ingress_deparser,
        &pipe.egress,
        &pipe.egress_deparser,
    ];
    let controls = controls.into_iter().chain(&pipe.ghost);
    let bodies = controls.map(|control| &control.body[..]);
    bodies.chain(states.map(|state| &state.body[..]))
}

/// Adds the calls of `get` with a result, by object: where, of what, and the bits of the result.
fn collect<'a>(body: &'a [FlatStmt], calls: &mut BTreeMap<usize, Vec<(Span, &'a Expr, u32)>>) {
    for statement in body {
        if let FlatKind::Extern {
            object: Some(object),
            name,
            args,
            result: Some(result),
            ..
        } = &statement.kind
            && let ("get", [data, ..]) = (name.as_str(), &args[..])
        {
            let bits = result.ty.width().unwrap_or(0);
            let of_object = calls.entry(*object).or_default();
            of_object.push((statement.span, data, bits));
        }
        statement
            .kind
            .bodies()
            .for_each(|body| collect(body, calls));
    }
}

/// A call as the control plane sees it; none: an input has no name.
fn call(flat: &Flat, data: &Expr, bits: u32) -> Option<HashCall> {
    let mut constants = 0;
    let fields = data.leaves().into_iter().map(|leaf| {
        let bits = leaf.ty.width()?;
        let is_constant = leaf.as_value().is_some();
        let name = match is_constant {
            true => {
                constants += 1;
                format!("constant{}_{bits}_{bits}w{}", constants - 1, leaf.as_int()?)
            }
            false => name(flat, &leaf)?,
        };
        Some(HashInput {
            name,
            bits,
            is_constant,
        })
    });
    let fields = fields.collect::<Option<_>>()?;
    (1..=64)
        .contains(&bits)
        .then_some(HashCall { bits, fields })
}

/// The text of a field or of bits of one.
fn name(flat: &Flat, e: &Expr) -> Option<String> {
    Some(match &e.kind {
        ExprKind::Var(number) => {
            let unique = &flat.vars.get(*number)?.name;
            let plain = unique
                .rsplit_once('.')
                .map_or(&unique[..], |(_, last)| last);
            plain.to_owned()
        }
        ExprKind::Field(base, field) => format!("{}.{field}", name(flat, base)?),
        ExprKind::Index(base, index) => format!("{}[{}]", name(flat, base)?, index.as_int()?),
        ExprKind::Slice { base, high, low } => format!("{}[{high}:{low}]", name(flat, base)?),
        ExprKind::Cast(base) => name(flat, base)?,
        _ => return None,
    })
}
