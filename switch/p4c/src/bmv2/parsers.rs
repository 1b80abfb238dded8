//! Parser states.
//!
//! BMv2 states are straight lines with one select at the end; `if` becomes a select on a computed bit:
//!
//! ```text
//! state s { if (c) { a; } b; transition t; }
//!     ==>  s { tmp = c; select tmp { 1: s_then; default: s_next } }
//!          s_then { a; -> s_next }    s_next { b; -> t }
//! ```

use std::collections::{HashMap, HashSet};

use ebb_bmv2_json::{self as json, Value as Json};
use num_bigint::BigInt;
use num_traits::One;

use super::backend::{Backend, Stage, hex, hex_value};
use super::layout::Place;
use crate::elaborate::flat::{FlatKind, FlatParser, FlatStmt, FlatTarget, FlatTransition, Label};
use crate::eval;
use crate::ir::{self, BinaryOp, Callee, Expr, ExprKind};
use crate::names::Names;
use crate::source::Span;
use crate::types::{StructKind, Type};

/// End of a state.
#[derive(Clone)]
enum End<'a> {
    Program(&'a FlatTransition),
    /// Goes on in the state of this index in [`States::list`].
    Goto(usize),
}

#[derive(Default)]
struct States {
    list: Vec<json::ParseState>,
    names: Names,
    labels: HashMap<Label, usize>,
    /// The state that ends the parser with `error.NoMatch`, once a select needs it.
    no_match: Option<usize>,
    /// States, and the stacks that have an element there.
    filled: HashSet<(usize, String)>,
}

/// The most transitions of one select case, since a case with many ranges would become a very long list.
const MAX_CASES: usize = 4096;

impl Backend<'_> {
    pub(super) fn parser(&mut self, parser: &FlatParser, name: &str, id: u32) -> json::Parser {
        self.stage = Stage::Parser;
        let mut states = States::default();
        for state in &parser.states {
            add_state(&mut states, &state.name);
        }
        for (i, state) in parser.states.iter().enumerate() {
            self.state(i, &state.body, End::Program(&state.transition), &mut states);
        }
        let init_state = states
            .list
            .get(parser.start)
            .map_or_else(String::new, |s| s.name.clone());
        json::Parser {
            name: name.to_owned(),
            id,
            init_state,
            parse_states: states.list,
        }
    }

    pub(super) fn value_sets(&mut self) {
        let flat = self.flat;
        for (i, value_set) in (0..).zip(&flat.value_sets) {
            let fields = Expr::new(ExprKind::Poison, value_set.ty.clone(), value_set.span);
            let width: u32 = fields.leaves().iter().filter_map(|l| l.ty.width()).sum();
            self.json.parse_vsets.push(json::ParseVset {
                name: value_set.name.clone(),
                id: i,
                compressed_bitwidth: width,
                max_size: Some(value_set.size),
            });
        }
    }

    fn state(&mut self, index: usize, body: &[FlatStmt], end: End<'_>, states: &mut States) {
        for (i, statement) in body.iter().enumerate() {
            let rest = &body[i + 1..];
            match &statement.kind {
                FlatKind::If(condition, then, otherwise) => {
                    let next = self.rest_state(index, rest, end, states);
                    let then = self.branch_state(index, "then", then, next, states);
                    let otherwise = self.branch_state(index, "else", otherwise, next, states);
                    self.check_last(index, &[condition], states);
                    self.choose(index, condition, then, otherwise, states);
                    return;
                }
                FlatKind::Labeled(label, inner) => {
                    let next = self.rest_state(index, rest, end, states);
                    states.labels.insert(*label, next);
                    self.state(index, inner, End::Goto(next), states);
                    return;
                }
                FlatKind::Break(label) => {
                    let target = states.labels.get(label).copied();
                    if let Some(target) = target {
                        self.finish(index, &End::Goto(target), states);
                    }
                    return;
                }
                _ => {
                    self.check_last(index, &operands(&statement.kind), states);
                    let ops = self.parser_ops(statement);
                    states.list[index].parser_ops.extend(ops);
                    self.note_elements(index, &statement.kind, states);
                }
            }
        }
        self.finish(index, &end, states);
    }

    fn rest_state(
        &mut self,
        index: usize,
        rest: &[FlatStmt],
        end: End<'_>,
        states: &mut States,
    ) -> usize {
        let name = format!("{}_next", states.list[index].name);
        let next = add_state(states, &name);
        self.state(next, rest, end, states);
        next
    }

    fn branch_state(
        &mut self,
        index: usize,
        suffix: &str,
        body: &[FlatStmt],
        next: usize,
        states: &mut States,
    ) -> usize {
        if body.is_empty() {
            return next;
        }
        let name = format!("{}_{suffix}", states.list[index].name);
        let branch = add_state(states, &name);
        self.state(branch, body, End::Goto(next), states);
        branch
    }

    fn choose(
        &mut self,
        index: usize,
        condition: &Expr,
        then: usize,
        otherwise: usize,
        states: &mut States,
    ) {
        let temp = self.temp(&Type::bit(1), condition.span);
        let bit = condition.clone().cast(Type::bit(1));
        let ((), primitives) = self.apart(|b| b.assign(&temp, &bit, condition.span));
        let names = [then, otherwise].map(|s| states.list[s].name.clone());
        let key = self.field_of(&temp).map(Json::Field);
        let state = &mut states.list[index];
        state
            .parser_ops
            .extend(primitives.into_iter().map(to_parser_op));
        state.transition_key.extend(key);
        let [then, otherwise] = names;
        state.transitions.push(json::Transition {
            kind: Some(json::TransitionKind::Hexstr),
            value: Some("0x01".to_owned()),
            mask: None,
            next_state: Some(then),
        });
        state.transitions.push(default_transition(Some(otherwise)));
    }

    fn finish(&mut self, index: usize, end: &End<'_>, states: &mut States) {
        let transition = match end {
            End::Goto(state) => {
                let name = states.list[*state].name.clone();
                states.list[index]
                    .transitions
                    .push(default_transition(Some(name)));
                return;
            }
            End::Program(transition) => transition,
        };
        // BMv2 has no reject: the packet goes on, with the error that `verify` or `extract` set. So it does on Tofino,
        // whose compiler makes accept of it.
        let target = |states: &States, t: FlatTarget| match t {
            FlatTarget::State(s) => Some(states.list[s].name.clone()),
            FlatTarget::Accept | FlatTarget::Reject => None,
        };
        match transition {
            FlatTransition::Direct(t) => {
                let next = target(states, *t);
                states.list[index]
                    .transitions
                    .push(default_transition(next));
            }
            FlatTransition::Select { keys, cases } => {
                self.check_last(index, &keys.iter().collect::<Vec<_>>(), states);
                let (transition_key, ops) = self.apart(|b| {
                    let keys = keys.iter();
                    keys.filter_map(|key| b.transition_key(key)).collect()
                });
                let widths: Vec<u32> = keys.iter().map(|k| k.ty.width().unwrap_or(32)).collect();
                let mut transitions = Vec::new();
                for (sets, t) in cases {
                    self.select_case(sets, &widths, target(states, *t), &mut transitions);
                    // Nothing behind a default can match.
                    if ends_with_default(&transitions) {
                        break;
                    }
                }
                if !ends_with_default(&transitions) {
                    let no_match = self.no_match_state(states);
                    transitions.push(default_transition(Some(no_match)));
                }
                let state = &mut states.list[index];
                state.parser_ops.extend(ops.into_iter().map(to_parser_op));
                state.transition_key = transition_key;
                state.transitions = transitions;
            }
        }
    }

    /// The name of the state to which a select goes where none of its cases matches (specification, section 12.6).
    fn no_match_state(&mut self, states: &mut States) -> String {
        let index = states.no_match.unwrap_or_else(|| {
            let index = add_state(states, "no_match");
            let state = &mut states.list[index];
            state
                .parser_ops
                .push(self.verify(Json::Bool(false), "NoMatch"));
            state.transitions.push(default_transition(None));
            states.no_match = Some(index);
            index
        });
        states.list[index].name.clone()
    }

    fn verify(&self, condition: Json, error: &str) -> json::ParserOp {
        let number = self.program.errors.iter().position(|name| name == error);
        let error = hex_value(number.unwrap_or_default(), 32);
        op(json::ParserOpKind::Verify, vec![condition, error])
    }

    /// Where `stack.last` is read of a stack that may be empty, ends the parser with an error (specification, section
    /// 8.18): BMv2 would read in front of the stack.
    fn check_last(&mut self, index: usize, read: &[&Expr], states: &mut States) {
        let mut stacks = Vec::new();
        for expr in read {
            self.stacks_read(expr, &mut stacks);
        }
        for stack in stacks {
            if states.filled.insert((index, stack.clone())) {
                let count = Json::unary("size_stack", Json::HeaderStack(stack));
                let check = Json::binary(">", count, hex_value(0, 8));
                let verify = self.verify(check, "StackOutOfBounds");
                states.list[index].parser_ops.push(verify);
            }
        }
    }

    /// The stacks whose last element the evaluation of an expression reads in any case.
    fn stacks_read(&self, expr: &Expr, stacks: &mut Vec<String>) {
        match &expr.kind {
            ExprKind::StackLast(base) => {
                if let Some(Place::Stack(stack)) = self.place(base) {
                    stacks.push(stack);
                }
            }
            ExprKind::Binary(BinaryOp::And | BinaryOp::Or, first, _)
            | ExprKind::Conditional(first, ..) => self.stacks_read(first, stacks),
            ExprKind::Call(call) => {
                if let Callee::IsValid(header) = &call.callee {
                    self.stacks_read(header, stacks);
                }
            }
            _ => {
                expr.any_operand(|operand| {
                    self.stacks_read(operand, stacks);
                    false
                });
            }
        }
    }

    /// Notes whether a statement leaves an element in a stack.
    fn note_elements(&self, index: usize, statement: &FlatKind, states: &mut States) {
        match statement {
            FlatKind::Extern { name, args, .. } if name == "extract" => {
                if let Some(Place::StackNext(stack)) = args.first().and_then(|a| self.place(a)) {
                    states.filled.insert((index, stack));
                }
            }
            FlatKind::PopFront(..) => states.filled.retain(|(state, _)| *state != index),
            FlatKind::Assign(target, _)
                if matches!(target.ty, Type::Stack(..) | Type::Struct(_)) =>
            {
                states.filled.retain(|(state, _)| *state != index);
            }
            _ => {}
        }
    }

    fn transition_key(&mut self, key: &Expr) -> Option<Json> {
        match self.place(key) {
            Some(Place::StackField(field)) => Some(Json::StackField(field)),
            _ => self.field_with(key, key.span).map(Json::Field),
        }
    }

    /// The transitions for one case: one, or several where a range is split into masks.
    fn select_case(
        &self,
        sets: &[Expr],
        widths: &[u32],
        next_state: Option<String>,
        transitions: &mut Vec<json::Transition>,
    ) {
        if sets.iter().all(|s| matches!(s.kind, ExprKind::Default)) {
            transitions.push(default_transition(next_state));
            return;
        }
        if let [set] = sets
            && let ExprKind::ValueSet(index) = set.kind
        {
            transitions.push(json::Transition {
                kind: Some(json::TransitionKind::ParseVset),
                value: Some(self.flat.value_sets[index].name.clone()),
                mask: None,
                next_state,
            });
            return;
        }
        if let Some(set) = sets.iter().find(|set| set.is_empty_range()) {
            let message = "this range ends before it begins";
            self.error("bad-select-set", set.span, message);
            return;
        }
        // Each key gives (value, mask) pairs; the case is their product.
        let mut product = vec![(BigInt::default(), BigInt::default(), true)];
        for (set, width) in sets.iter().zip(widths) {
            let Some(masks) = self.masks(set, *width) else {
                self.error("bad-select-set", set.span, "BMv2 cannot select by this set");
                return;
            };
            let bits = width.div_ceil(8) * 8;
            let full = eval::mask(*width);
            product = product
                .iter()
                .flat_map(|(value, mask, exact)| {
                    masks.iter().map({
                        let full = full.clone();
                        move |(v, m)| {
                            (
                                (value << bits) | v,
                                (mask << bits) | m,
                                *exact && *m == full,
                            )
                        }
                    })
                })
                .collect();
            if product.len() > MAX_CASES {
                let message = "the ranges of this case need too many masks";
                self.error("too-many-cases", set.span, message);
                return;
            }
        }
        let total: u32 = widths.iter().map(|w| w.div_ceil(8) * 8).sum();
        if !self.diagnostics.spend(product.len(), sets[0].span) {
            return;
        }
        for (value, mask, exact) in product {
            transitions.push(json::Transition {
                kind: Some(json::TransitionKind::Hexstr),
                value: Some(hex(&value, total).0),
                mask: (!exact).then(|| hex(&mask, total)),
                next_state: next_state.clone(),
            });
        }
    }

    /// A set of values as masked values.
    fn masks(&self, set: &Expr, width: u32) -> Option<Vec<(BigInt, BigInt)>> {
        Some(match &set.kind {
            ExprKind::Default => vec![(BigInt::default(), BigInt::default())],
            ExprKind::Mask(value, mask) => {
                let mask = self.key_number(mask)?;
                vec![(self.key_number(value)? & &mask, mask)]
            }
            ExprKind::Range(low, high) => {
                range_masks(self.key_number(low)?, self.key_number(high)?, width)
            }
            _ => vec![(self.key_number(set)?, eval::mask(width))],
        })
    }

    fn parser_ops(&mut self, statement: &FlatStmt) -> Vec<json::ParserOp> {
        let span = statement.span;
        match &statement.kind {
            FlatKind::Extern {
                name,
                args,
                object: Some(_),
                ..
            } => match (name.as_str(), &args[..]) {
                ("extract", [header]) => return self.extract(header, None, span),
                ("extract", [header, length]) => return self.extract(header, Some(length), span),
                ("advance", [bits]) => {
                    return vec![op(json::ParserOpKind::Advance, vec![self.argument(bits)])];
                }
                _ => {}
            },
            FlatKind::Extern {
                name,
                result: Some(target),
                object: None,
                ..
            } if name == "port_metadata_unpack" => {
                let mut ops = self.lookahead(target, span);
                let bits = vec![hex_value(self.port_metadata_bits(), 32)];
                ops.push(op(json::ParserOpKind::Advance, bits));
                return ops;
            }
            FlatKind::Extern {
                name,
                args,
                object: None,
                ..
            } => {
                if let ("verify", [check, error]) = (name.as_str(), &args[..]) {
                    let check = self.condition(check);
                    let error = self.argument(error);
                    return vec![op(json::ParserOpKind::Verify, vec![check, error])];
                }
            }
            FlatKind::Assign(target, value) => {
                if let ExprKind::Call(call) = &value.kind
                    && matches!(call.callee, Callee::Method { .. })
                {
                    return self.lookahead(target, span);
                }
            }
            _ => {}
        }
        let ((), primitives) = self.apart(|b| b.simple_statement(statement));
        primitives.into_iter().map(to_parser_op).collect()
    }

    fn extract(&mut self, header: &Expr, length: Option<&Expr>, span: Span) -> Vec<json::ParserOp> {
        if matches!(header.kind, ExprKind::DontCare | ExprKind::Poison) {
            // A header that nobody wants is skipped.
            let bits = header.ty.width().unwrap_or(0);
            return vec![op(json::ParserOpKind::Advance, vec![hex_value(bits, 32)])];
        }
        let target = match self.place(header) {
            Some(Place::Header(name)) => Json::Regular(name),
            Some(Place::StackNext(stack)) => Json::Stack(stack),
            Some(Place::UnionStackNext(stack, member)) if !member.is_empty() => {
                Json::UnionStack(stack, member)
            }
            _ => {
                let message = "BMv2 can extract to headers and to `stack.next` only";
                self.error("unsupported-extract", span, message);
                return Vec::new();
            }
        };
        match length {
            None => vec![op(json::ParserOpKind::Extract, vec![target])],
            Some(length) => {
                let length = self.data(length).wrapped();
                vec![op(json::ParserOpKind::ExtractVl, vec![target, length])]
            }
        }
    }

    /// Makes all headers of a value valid.
    fn set_all_valid(&mut self, value: &Expr, span: Span) {
        match &value.ty {
            Type::Struct(s) if s.kind == StructKind::Header => {
                self.set_valid(value, true, span);
            }
            Type::Struct(_) | Type::Tuple(_) | Type::Stack(..) => {
                for member in value.members() {
                    self.set_all_valid(&member, span);
                }
            }
            _ => {}
        }
    }

    /// Looks at all bits at once, whose result nobody reads, so that a packet that is too short is an error. For a part
    /// of them BMv2 compares only its width with what is left of the packet, not where it begins, and reads beyond the
    /// end.
    fn look_at_all(&mut self, target: &Expr, span: Span) -> Option<json::ParserOp> {
        let width = target.ty.width()?;
        let temp = self.temp(&Type::bit(width), span);
        let parameters = vec![
            Json::Field(self.field_of(&temp)?),
            Json::Lookahead(0, width),
        ];
        Some(op(json::ParserOpKind::Set, parameters))
    }

    /// `target = packet.lookahead<T>()`, field by field.
    fn lookahead(&mut self, target: &Expr, span: Span) -> Vec<json::ParserOp> {
        let ((), primitives) = self.apart(|b| b.set_all_valid(target, span));
        let mut ops: Vec<json::ParserOp> = primitives.into_iter().map(to_parser_op).collect();
        let leaves = target.leaves();
        if leaves.len() > 1 {
            ops.extend(self.look_at_all(target, span));
        }
        let mut offset = 0;
        for leaf in leaves {
            let width = leaf.ty.width().unwrap_or(0);
            match self.field_of(&leaf) {
                Some(field) => {
                    let parameters = vec![Json::Field(field), Json::Lookahead(offset, width)];
                    ops.push(op(json::ParserOpKind::Set, parameters));
                }
                None => self.error(
                    "unsupported-target",
                    span,
                    "lookahead needs a variable to store its result",
                ),
            }
            offset += width;
        }
        ops
    }
}

fn add_state(states: &mut States, name: &str) -> usize {
    let state = json::ParseState {
        name: states.names.unique(name),
        id: states.list.len() as u32,
        parser_ops: Vec::new(),
        transitions: Vec::new(),
        transition_key: Vec::new(),
    };
    ir::add(&mut states.list, state)
}

/// The expressions that a statement evaluates.
fn operands(statement: &FlatKind) -> Vec<&Expr> {
    match statement {
        FlatKind::Assign(target, value) => vec![target, value],
        FlatKind::SetValid(header, _) => vec![header],
        FlatKind::Extern { args, .. } => args.iter().collect(),
        _ => Vec::new(),
    }
}

fn ends_with_default(transitions: &[json::Transition]) -> bool {
    let last = transitions.last().and_then(|t| t.kind);
    last == Some(json::TransitionKind::Default)
}

fn default_transition(next_state: Option<String>) -> json::Transition {
    json::Transition {
        kind: Some(json::TransitionKind::Default),
        value: None,
        mask: None,
        next_state,
    }
}

fn op(op: json::ParserOpKind, parameters: Vec<Json>) -> json::ParserOp {
    json::ParserOp {
        parameters: parameters
            .into_iter()
            .map(json::ParserParameter::Value)
            .collect(),
        op,
    }
}

/// Assignments of fields are `set` in parsers; other primitives are wrapped.
fn to_parser_op(primitive: json::Primitive) -> json::ParserOp {
    let is_set =
        primitive.op == "assign" && matches!(primitive.parameters.first(), Some(Json::Field(_)));
    if is_set {
        return op(json::ParserOpKind::Set, primitive.parameters);
    }
    json::ParserOp {
        parameters: vec![json::ParserParameter::Primitive(primitive)],
        op: json::ParserOpKind::Primitive,
    }
}

/// Splits `low..high` into the fewest aligned blocks, each a value and a mask.
fn range_masks(mut low: BigInt, high: BigInt, width: u32) -> Vec<(BigInt, BigInt)> {
    let full = eval::mask(width);
    let mut masks = Vec::new();
    while low <= high {
        let mut bits = 0;
        loop {
            let size = BigInt::one() << (bits + 1);
            let aligned = (&low & (&size - 1)) == BigInt::default();
            if bits >= width || !aligned || &low + &size - 1 > high {
                break;
            }
            bits += 1;
        }
        let block = BigInt::one() << bits;
        masks.push((low.clone(), &full & -(block.clone())));
        low += block;
    }
    masks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_aligned_blocks() {
        let masks = |low: u8, high: u8| -> Vec<(BigInt, BigInt)> {
            range_masks(low.into(), high.into(), 8)
        };
        let pair = |v: u8, m: u8| (BigInt::from(v), BigInt::from(m));
        assert_eq!(masks(3, 5), [pair(3, 0xff), pair(4, 0xfe)]);
        assert_eq!(masks(0, 255), [pair(0, 0)]);
        assert_eq!(masks(7, 7), [pair(7, 0xff)]);
        assert_eq!(masks(5, 4), []);
    }
}
