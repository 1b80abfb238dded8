//! State of variables at a point of the program: parts that may be unset, headers that are valid.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::ir::{Direction, Expr, ExprKind, Param, VarId};
use crate::types::{FieldType, Type};

/// A field of a struct, header or union, or an element of a stack or tuple.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Field(Rc<str>),
    Element(u32),
}

/// A variable or a part of one. Ordered so that the parts of a place follow it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub var: VarId,
    pub path: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    Valid,
    Invalid,
    /// Valid on some paths to here only.
    Either,
}

/// A variable with more parts than this is taken to be set, so that a state stays small.
const MOST_PARTS: usize = 1024;

/// Paths share what they have not changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Parts without parts that have no value on some path to here.
    unset: Rc<BTreeSet<Place>>,
    /// Headers of which something is known. What the program has asked by `isValid()` is not among them: it knows
    /// better than we do.
    validity: Rc<BTreeMap<Place, Validity>>,
}

/// Where an expression reads or writes.
#[derive(Clone, Debug)]
pub struct Found {
    pub place: Place,
    /// Not so if an index on the way is unknown; the place is then the whole stack.
    pub is_exact: bool,
}

impl Place {
    pub fn of(var: VarId) -> Place {
        Place {
            var,
            path: Vec::new(),
        }
    }

    fn with(&self, part: Part) -> Place {
        let mut path = self.path.clone();
        path.push(part);
        Place {
            var: self.var,
            path,
        }
    }

    pub fn field(&self, name: &str) -> Place {
        self.with(Part::Field(name.into()))
    }

    fn element(&self, index: u32) -> Place {
        self.with(Part::Element(index))
    }

    /// Whether the other place is this one or a part of it.
    pub fn holds(&self, other: &Place) -> bool {
        self.var == other.var && other.path.starts_with(&self.path)
    }

    pub fn overlaps(&self, other: &Place) -> bool {
        self.holds(other) || other.holds(self)
    }

    /// The place that has the same path from `to` on as this one has from `from` on.
    fn moved(&self, from: &Place, to: &Place) -> Place {
        let rest = &self.path[from.path.len()..];
        Place {
            var: to.var,
            path: [&to.path[..], rest].concat(),
        }
    }

    /// The parts of a place of a type that have names of their own.
    pub fn parts(&self, ty: &Type) -> Vec<(Place, Type)> {
        match ty {
            Type::Struct(s) => {
                let part = |f: &FieldType| (self.field(&f.name), f.ty.clone());
                s.fields.iter().map(part).collect()
            }
            Type::Tuple(types) => {
                let part = |(i, ty): (u32, &Type)| (self.element(i), ty.clone());
                (0..).zip(types.iter()).map(part).collect()
            }
            Type::Stack(ty, size) => {
                let part = |i| (self.element(i), (**ty).clone());
                (0..*size).map(part).collect()
            }
            _ => Vec::new(),
        }
    }

    /// How a program writes the place.
    pub fn text(&self, name: &str) -> String {
        let mut text = name.to_owned();
        for part in &self.path {
            match part {
                Part::Field(name) => text.push_str(&format!(".{name}")),
                Part::Element(index) => text.push_str(&format!("[{index}]")),
            }
        }
        text
    }
}

/// Where an expression reads or writes; none if it is no variable or a part of one.
pub fn find(expr: &Expr) -> Option<Found> {
    match &expr.kind {
        ExprKind::Var(var) => Some(Found {
            place: Place::of(*var),
            is_exact: true,
        }),
        ExprKind::Field(base, name) => {
            let mut found = find(base)?;
            if found.is_exact {
                found.place = found.place.field(name);
            }
            Some(found)
        }
        ExprKind::Index(base, index) => {
            let mut found = find(base)?;
            match index.as_number::<u32>() {
                Some(index) if found.is_exact => found.place = found.place.element(index),
                _ => found.is_exact = false,
            }
            Some(found)
        }
        ExprKind::StackNext(base) | ExprKind::StackLast(base) => Some(Found {
            is_exact: false,
            ..find(base)?
        }),
        ExprKind::Slice { base, .. } => find(base),
        _ => None,
    }
}

/// The places in a place that are of a type that `is_wanted`, or have no parts; none if there are too many to follow.
fn inside(place: &Place, ty: &Type, is_wanted: fn(&Type) -> bool) -> Option<Vec<(Place, Type)>> {
    let mut found = Vec::new();
    let mut waiting = vec![(place.clone(), ty.clone())];
    while let Some((place, ty)) = waiting.pop() {
        match &ty {
            Type::Stack(_, size) if *size as usize > MOST_PARTS => return None,
            Type::Struct(_) | Type::Tuple(_) | Type::Stack(..) if !is_wanted(&ty) => {
                waiting.extend(place.parts(&ty));
            }
            _ => found.push((place, ty)),
        }
        if waiting.len() + found.len() > MOST_PARTS {
            return None;
        }
    }
    Some(found)
}

/// All headers in a place, if there are not too many to follow.
pub fn headers(place: &Place, ty: &Type) -> Vec<Place> {
    let found = inside(place, ty, Type::is_header).unwrap_or_default();
    let found = found.into_iter().filter(|(_, ty)| ty.is_header());
    found.map(|(header, _)| header).collect()
}

impl State {
    /// How much there is to copy and compare.
    pub fn size(&self) -> usize {
        self.unset.len() + self.validity.len()
    }

    /// A variable without a value: declared, or an `out` parameter.
    pub fn declare(&mut self, var: VarId, ty: &Type) {
        let place = Place::of(var);
        self.forget(&place);
        let Some(leaves) = inside(&place, ty, |_| false) else {
            return;
        };
        let leaves = leaves.into_iter().map(|(leaf, _)| leaf);
        Rc::make_mut(&mut self.unset).extend(leaves);
        self.set_validity(&place, ty, Validity::Invalid);
    }

    /// A parameter that has a value.
    pub fn given(&mut self, var: VarId, ty: &Type) {
        let place = Place::of(var);
        self.forget(&place);
        self.set_validity(&place, ty, Validity::Valid);
    }

    /// The parameters of a body: those that are `out` have no value.
    pub fn declare_params(&mut self, params: &[Param]) {
        for param in params {
            match param.direction {
                Direction::Out => self.declare(param.var, &param.ty),
                _ => self.given(param.var, &param.ty),
            }
        }
    }

    /// All of the place has a value; nothing is known of its headers any more.
    pub fn forget(&mut self, place: &Place) {
        let unset: Vec<Place> = self.unset_in(place).cloned().collect();
        for leaf in unset {
            Rc::make_mut(&mut self.unset).remove(&leaf);
        }
        self.forget_validity(place);
    }

    pub fn forget_validity(&mut self, place: &Place) {
        let headers: Vec<Place> = self.headers_in(place).map(|(h, _)| h.clone()).collect();
        for header in headers {
            Rc::make_mut(&mut self.validity).remove(&header);
        }
    }

    pub fn set_validity(&mut self, place: &Place, ty: &Type, validity: Validity) {
        for header in headers(place, ty) {
            if self.validity.get(&header) != Some(&validity) {
                Rc::make_mut(&mut self.validity).insert(header, validity);
            }
        }
    }

    /// The headers of one place become as valid as those of the other.
    pub fn copy_validity(&mut self, from: &Place, to: &Place) {
        let headers: Vec<(Place, Validity)> = self
            .headers_in(from)
            .map(|(header, validity)| (header.moved(from, to), *validity))
            .collect();
        self.forget_validity(to);
        if !headers.is_empty() {
            Rc::make_mut(&mut self.validity).extend(headers);
        }
    }

    /// The headers of a place become as valid as those of the value that is assigned to it.
    pub fn assign_validity(&mut self, place: &Place, ty: &Type, value: &Expr) {
        match &value.kind {
            // A record keeps the order in which it is written.
            ExprKind::Cast(inner) if inner.ty.is_record() && !ty.is_header() => {
                self.forget_validity(place);
            }
            ExprKind::Cast(inner) => self.assign_validity(place, ty, inner),
            ExprKind::InvalidHeader => self.set_validity(place, ty, Validity::Invalid),
            ExprKind::List(_) if ty.is_header() => self.set_validity(place, ty, Validity::Valid),
            ExprKind::List(items) => {
                for ((part, ty), item) in place.parts(ty).into_iter().zip(items) {
                    self.assign_validity(&part, &ty, item);
                }
            }
            _ => match find(value) {
                Some(from) if from.is_exact && !from.place.overlaps(place) => {
                    self.copy_validity(&from.place, place);
                }
                _ => self.forget_validity(place),
            },
        }
    }

    pub fn validity(&self, header: &Place) -> Option<Validity> {
        self.validity.get(header).copied()
    }

    /// The parts of the place that may have no value.
    pub fn unset_in<'a>(&'a self, place: &'a Place) -> impl Iterator<Item = &'a Place> {
        let from = self.unset.range(place..);
        from.take_while(|leaf| place.holds(leaf))
    }

    fn headers_in<'a>(
        &'a self,
        place: &'a Place,
    ) -> impl Iterator<Item = (&'a Place, &'a Validity)> {
        let from = self.validity.range(place..);
        from.take_while(|(header, _)| place.holds(header))
    }

    /// State where this path and another one meet.
    pub fn join(&mut self, other: State) {
        if !Rc::ptr_eq(&self.unset, &other.unset) && !other.unset.is_subset(&self.unset) {
            Rc::make_mut(&mut self.unset).extend(other.unset.iter().cloned());
        }
        if Rc::ptr_eq(&self.validity, &other.validity) {
            return;
        }
        Rc::make_mut(&mut self.validity).retain(|header, validity| {
            let known = other.validity.get(header);
            if known.is_some_and(|known| known != validity) {
                *validity = Validity::Either;
            }
            known.is_some()
        });
    }
}
