//! Actions, compiled: each primitive with its operands resolved.

use std::collections::HashMap;

use ebb_bmv2_json as json;
use ebb_bmv2_json::{Expression, FieldRef, Value};

use crate::bits::{low_mask, words_for};
use crate::error::LoadError;
use crate::expr::{BinaryOp, Compiler, Condition, HeaderRef, Num, Number, UnionRef, Word};
use crate::layout::{Layout, Slot};
use crate::program::Place;
use crate::stateful::RegisterRef;
use crate::trace::Source;

#[derive(Debug)]
pub(crate) struct Action {
    pub name: String,
    pub id: u32,
    /// Its name, and where its first primitive stands.
    pub source: Source,
    pub params: Vec<Param>,
    /// Words of action data.
    pub data_words: usize,
    pub body: Vec<Primitive>,
}

#[derive(Debug)]
pub(crate) struct Param {
    pub name: String,
    pub slot: Slot,
}

/// Where a result goes.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Field(Slot),
    Element(Box<[Slot]>, Box<Number>),
    /// A field of the last element of a stack.
    Last(u32, Box<[Slot]>),
    Register(RegisterRef, Box<Number>),
    /// Something that is read only or never seen again.
    Nowhere,
}

#[derive(Debug)]
pub(crate) enum Primitive {
    NoOp,
    Assign(Target, Number),
    /// The usual case of it: word of the packet, mask, value.
    AssignWord(u32, u64, Word),
    AssignVariable {
        to: (Slot, u32),
        from: (Slot, u32),
    },
    AssignHeader(HeaderRef, HeaderRef),
    AssignUnion(UnionRef, UnionRef),
    AssignStack {
        to: StackRef,
        from: StackRef,
    },
    Push(StackRef, Number),
    Pop(StackRef, Number),
    Jump(Number),
    /// `_jump_if_zero`: the condition, the target.
    JumpUnless(Condition, Number),
    Exit,
    Assert(Condition),
    Assume(Condition),
    Log(String, Vec<Number>),
    MarkToDrop(Dropping),
    SetValid(HeaderRef),
    SetInvalid(HeaderRef),
    Clone {
        session: Number,
        field_list: Number,
    },
    Resubmit(Number),
    Recirculate(Number),
    Digest(Number),
    Hash {
        to: Target,
        base: Number,
        calculation: u32,
        size: Number,
    },
    Random {
        to: Target,
        low: Number,
        high: Number,
    },
    Meter {
        meter: u32,
        index: Number,
        to: Target,
    },
    Count(u32, Number),
    RegisterRead {
        to: Target,
        register: RegisterRef,
        index: Number,
    },
    RegisterWrite {
        register: RegisterRef,
        index: Number,
        value: Number,
    },
    Truncate(Number),
}

/// What `mark_to_drop` sets in the standard metadata that it is given, which may be a copy of the packet's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropping {
    pub egress_spec: Place,
    pub mcast_grp: Option<Place>,
}

/// A header stack, or a stack of unions.
#[derive(Clone, Debug)]
pub(crate) struct StackRef {
    pub next_at: u32,
    pub elements: Box<[u32]>,
    pub of_unions: bool,
}

/// Names of the arrays that actions refer to.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub registers: HashMap<String, RegisterRef>,
    pub counters: HashMap<String, u32>,
    pub meters: HashMap<String, u32>,
    pub calculations: HashMap<String, u32>,
}

pub(crate) struct ActionCompiler<'a> {
    pub layout: &'a Layout,
    pub names: &'a Names,
}

type Result<T> = std::result::Result<T, LoadError>;

impl ActionCompiler<'_> {
    pub fn action(&self, action: &json::Action) -> Result<Action> {
        let mut at = 0;
        let params: Vec<Param> = action
            .runtime_data
            .iter()
            .map(|p| {
                let words = words_for(p.bitwidth) as u32;
                at += words;
                Param {
                    name: p.name.clone(),
                    slot: Slot {
                        at: at - words,
                        words,
                        bits: p.bitwidth,
                        signed: false,
                    },
                }
            })
            .collect();
        let slots: Vec<Slot> = params.iter().map(|p| p.slot).collect();
        let body = self
            .body(&action.primitives, &slots)
            .map_err(|e| e.within(format_args!("action {}", action.name)))?;
        let source = action
            .primitives
            .first()
            .map_or_else(Source::default, |p| Source::from(&p.source_info));
        Ok(Action {
            name: action.name.clone(),
            id: action.id,
            source: Source {
                text: action.name.clone(),
                ..source
            },
            params,
            data_words: at as usize,
            body,
        })
    }

    pub fn body(&self, primitives: &[json::Primitive], params: &[Slot]) -> Result<Vec<Primitive>> {
        primitives
            .iter()
            .map(|p| {
                self.primitive(p, params).map_err(|e| {
                    let e = e.within(format_args!("primitive `{}`", p.op));
                    match &p.source_info {
                        Some(s) => e.within(format_args!("{}:{}", s.filename, s.line)),
                        None => e,
                    }
                })
            })
            // A primitive without effect keeps its place, since jumps count primitives.
            .collect()
    }

    fn primitive(&self, p: &json::Primitive, params: &[Slot]) -> Result<Primitive> {
        let expr = Compiler {
            layout: self.layout,
            registers: &self.names.registers,
            params,
        };
        let arg = |i: usize| {
            p.parameters.get(i).ok_or_else(|| {
                LoadError::new(
                    format!("argument {i}"),
                    format!("it is missing, there are {}", p.parameters.len()),
                )
            })
        };
        let number = |i| expr.number(arg(i)?);
        let condition = |i| expr.condition(arg(i)?);
        let header = |i| expr.header(arg(i)?);
        let target = |i| self.target(&expr, arg(i)?);
        let stack = |i| -> Result<StackRef> {
            let (next_at, elements, of_unions) = expr.stack(arg(i)?)?;
            Ok(StackRef {
                next_at,
                elements,
                of_unions,
            })
        };
        let array = |i, kind: &str, names: &HashMap<String, u32>| named(arg(i)?, i, kind, names);
        let register = |i| named(arg(i)?, i, "register array", &self.names.registers);
        // The P4_14 forms `op(dst, a, b)` and `op_field(dst, b)`.
        let arithmetic = |op, a, b| -> Result<Primitive> {
            let tree = Num::Binary(
                op,
                Box::new(expr.num(arg(a)?)?),
                Box::new(expr.num(arg(b)?)?),
            );
            let to = target(0)?;
            let bits = to.bits();
            Ok(assignment(to, Number::low(tree, bits, self.layout)))
        };
        Ok(match p.op.as_str() {
            "assign" | "modify_field" => {
                let to = target(0)?;
                let bits = to.bits();
                assignment(to, expr.number_for(arg(1)?, bits)?)
            }
            "assign_VL" => Primitive::AssignVariable {
                to: self.variable(arg(0)?)?,
                from: self.variable(arg(1)?)?,
            },
            "assign_header" | "copy_header" => Primitive::AssignHeader(header(0)?, header(1)?),
            "assign_union" => Primitive::AssignUnion(expr.union(arg(0)?)?, expr.union(arg(1)?)?),
            "assign_header_stack" | "assign_union_stack" => Primitive::AssignStack {
                to: stack(0)?,
                from: stack(1)?,
            },
            "push" => Primitive::Push(stack(0)?, number(1)?),
            "pop" => Primitive::Pop(stack(0)?, number(1)?),
            "_jump" => Primitive::Jump(number(0)?),
            "_jump_if_zero" => Primitive::JumpUnless(condition(0)?, number(1)?),
            "exit" => Primitive::Exit,
            "assert" => Primitive::Assert(condition(0)?),
            "assume" => Primitive::Assume(condition(0)?),
            "log_msg" => self.log(&expr, p)?,
            "mark_to_drop" => Primitive::MarkToDrop(self.dropping(&header(0)?)?),
            "drop" => Primitive::MarkToDrop(self.dropping_of_the_packet()?),
            "add_header" => Primitive::SetValid(header(0)?),
            "remove_header" => Primitive::SetInvalid(header(0)?),
            "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => Primitive::Clone {
                session: number(0)?,
                field_list: number(1)?,
            },
            "resubmit" => Primitive::Resubmit(number(0)?),
            "recirculate" => Primitive::Recirculate(number(0)?),
            "generate_digest" => Primitive::Digest(number(1)?),
            "modify_field_with_hash_based_offset" => Primitive::Hash {
                to: target(0)?,
                base: number(1)?,
                calculation: array(2, "calculation", &self.names.calculations)?,
                size: number(3)?,
            },
            "modify_field_rng_uniform" => Primitive::Random {
                to: target(0)?,
                low: number(1)?,
                high: number(2)?,
            },
            "execute_meter" => Primitive::Meter {
                meter: array(0, "meter array", &self.names.meters)?,
                index: number(1)?,
                to: target(2)?,
            },
            "count" => {
                Primitive::Count(array(0, "counter array", &self.names.counters)?, number(1)?)
            }
            "register_read" => Primitive::RegisterRead {
                to: target(0)?,
                register: register(1)?,
                index: number(2)?,
            },
            "register_write" => {
                let register = register(0)?;
                Primitive::RegisterWrite {
                    register,
                    index: number(1)?,
                    value: expr.number_for(arg(2)?, register.bits)?,
                }
            }
            "truncate" => Primitive::Truncate(number(0)?),
            "no_op" => Primitive::NoOp,
            "add_to_field" => arithmetic(BinaryOp::Add, 0, 1)?,
            "subtract_from_field" => arithmetic(BinaryOp::Sub, 0, 1)?,
            "add" => arithmetic(BinaryOp::Add, 1, 2)?,
            "subtract" => arithmetic(BinaryOp::Sub, 1, 2)?,
            "bit_xor" => arithmetic(BinaryOp::Xor, 1, 2)?,
            "bit_or" => arithmetic(BinaryOp::Or, 1, 2)?,
            "bit_and" => arithmetic(BinaryOp::And, 1, 2)?,
            "shift_left" => arithmetic(BinaryOp::Shl, 1, 2)?,
            "shift_right" => arithmetic(BinaryOp::Shr, 1, 2)?,
            _ => {
                return Err(LoadError::new(
                    "v1model",
                    "this target has no such primitive",
                ));
            }
        })
    }

    fn dropping(&self, header: &HeaderRef) -> Result<Dropping> {
        let HeaderRef::Fixed(header) = header else {
            return Err(LoadError::new(
                "argument 0",
                "expected the standard metadata, found an element of a header stack",
            ));
        };
        let header = self.layout.header_at(*header);
        let place = |field: &str| Place::of(field, header.field(field)?.slot);
        Ok(Dropping {
            egress_spec: place("egress_spec")?,
            mcast_grp: place("mcast_grp").ok(),
        })
    }

    /// `drop` is the P4_14 form and names no header.
    fn dropping_of_the_packet(&self) -> Result<Dropping> {
        let spec = FieldRef::new("standard_metadata", "egress_spec");
        let group = self.layout.known("intrinsic_metadata.mcast_grp");
        Ok(Dropping {
            egress_spec: Place::of("egress_spec", self.layout.slot(&spec)?)?,
            mcast_grp: group.map(|slot| Place::of("mcast_grp", slot)).transpose()?,
        })
    }

    fn log(&self, expr: &Compiler, p: &json::Primitive) -> Result<Primitive> {
        let (text, args) = match p.parameters.as_slice() {
            [Value::String(text)] => (text, &[][..]),
            [Value::String(text), Value::ParametersVector(args)] => (text, args.as_slice()),
            _ => {
                return Err(LoadError::new(
                    "arguments",
                    "expected a string and a parameters_vector",
                ));
            }
        };
        let args = args.iter().map(|a| expr.number(a)).collect::<Result<_>>()?;
        Ok(Primitive::Log(text.clone(), args))
    }

    fn target(&self, expr: &Compiler, value: &Value) -> Result<Target> {
        let inner = match value {
            Value::Expression(e) => match &**e {
                Expression::Value(v) => return self.target(expr, v),
                Expression::Op(_) => value,
            },
            v => v,
        };
        let number = |tree| Box::new(Number::exact(tree, self.layout));
        match expr.num(inner)? {
            Num::Field(slot) if is_valid_bit(self.layout, slot) => Ok(Target::Nowhere),
            Num::Field(slot) => Ok(Target::Field(slot)),
            Num::Element(slots, index) => Ok(Target::Element(slots, number(*index))),
            Num::Last(next, slots) => Ok(Target::Last(next, slots)),
            Num::Register(register, index) => Ok(Target::Register(register, number(*index))),
            _ => Err(LoadError::new(
                "target",
                format!("{value:?} cannot be assigned to"),
            )),
        }
    }

    /// The slot of a variable-length field and the word of its length.
    fn variable(&self, value: &Value) -> Result<(Slot, u32)> {
        let Value::Field(f) = value else {
            return Err(LoadError::new("argument", "expected a field"));
        };
        let header = self.layout.header_at(self.layout.header(f.header())?);
        let field = header.field(f.field())?;
        match field.length_at {
            Some(length) => Ok((field.slot, length)),
            None => Err(LoadError::new(
                format!("field {f}"),
                "it is not a variable-length field",
            )),
        }
    }
}

/// The array or calculation that argument `i` names, by the names of its kind.
fn named<T: Copy>(argument: &Value, i: usize, kind: &str, names: &HashMap<String, T>) -> Result<T> {
    let (Value::RegisterArray(name)
    | Value::CounterArray(name)
    | Value::MeterArray(name)
    | Value::Calculation(name)) = argument
    else {
        return Err(LoadError::new(
            format!("argument {i}"),
            format!("expected a {kind}, found {argument:?}"),
        ));
    };
    names
        .get(name)
        .copied()
        .ok_or_else(|| LoadError::missing(kind, name))
}

fn assignment(to: Target, value: Number) -> Primitive {
    match (to, value) {
        (
            Target::Field(slot),
            Number {
                word: Some(word), ..
            },
        ) if slot.words == 1 => Primitive::AssignWord(slot.at, low_mask(slot.bits), word),
        (to, value) => Primitive::Assign(to, value),
    }
}

fn is_valid_bit(layout: &Layout, slot: Slot) -> bool {
    layout.headers.iter().any(|h| h.valid_at == slot.at)
}

impl Target {
    /// Width of what is stored.
    pub fn bits(&self) -> u32 {
        match self {
            Target::Field(slot) => slot.bits,
            Target::Element(slots, _) | Target::Last(_, slots) => {
                slots.iter().map(|s| s.bits).max().unwrap_or(0)
            }
            Target::Register(register, _) => register.bits,
            Target::Nowhere => 0,
        }
    }
}
