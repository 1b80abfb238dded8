//! Compiles actions of the BMv2 JSON file, primitive by primitive.

use std::collections::HashMap;

use ebb_bmv2_json as json;
use ebb_bmv2_json::{Expression, FieldRef, Value};

use crate::action::{Action, Dropping, Param, Primitive, StackRef, Target, TofinoPrimitive};
use crate::bits::{low_mask, words_for};
use crate::error::LoadError;
use crate::expr::{BinaryOp, Compiler, Condition, HeaderRef, Num, Number, UnionRef};
use crate::layout::Layout;
use crate::math_unit::MathUnit;
use crate::names::Names;
use crate::slot::{Place, Slot};
use crate::stateful::RegisterRef;
use crate::trace::Source;

/// Compiles actions of the JSON file.
pub(crate) struct ActionCompiler<'a> {
    pub layout: &'a Layout,
    pub names: &'a Names,
}

type Result<T> = std::result::Result<T, LoadError>;

impl ActionCompiler<'_> {
    /// Compiles an action; its errors say where it stands.
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

    /// Compiles primitives, which may use these parameters.
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
            // Primitives without effect keep their places, because jumps count primitives.
            .collect()
    }

    fn primitive(&self, p: &json::Primitive, params: &[Slot]) -> Result<Primitive> {
        let args = Arguments {
            layout: self.layout,
            names: self.names,
            expr: Compiler {
                layout: self.layout,
                registers: &self.names.registers,
                params,
            },
            values: &p.parameters,
        };
        let op = p.op.as_str();
        for load in [Arguments::common, Arguments::stateful, Arguments::tofino] {
            if let Some(primitive) = load(&args, op)? {
                return Ok(primitive);
            }
        }
        match operands(op) {
            Some((op, a, b)) => args.arithmetic(op, a, b),
            None => Err(LoadError::new(
                "v1model",
                "this target has no such primitive",
            )),
        }
    }
}

/// Operation and places of its operands. P4_14 has two forms: `op(dst, a, b)` and `op_to_field(dst, b)`.
fn operands(op: &str) -> Option<(BinaryOp, usize, usize)> {
    Some(match op {
        "add_to_field" => (BinaryOp::Add, 0, 1),
        "subtract_from_field" => (BinaryOp::Sub, 0, 1),
        "add" => (BinaryOp::Add, 1, 2),
        "subtract" => (BinaryOp::Sub, 1, 2),
        "bit_xor" => (BinaryOp::Xor, 1, 2),
        "bit_or" => (BinaryOp::Or, 1, 2),
        "bit_and" => (BinaryOp::And, 1, 2),
        "shift_left" => (BinaryOp::Shl, 1, 2),
        "shift_right" => (BinaryOp::Shr, 1, 2),
        _ => return None,
    })
}

/// The arguments of a primitive.
struct Arguments<'a> {
    layout: &'a Layout,
    names: &'a Names,
    expr: Compiler<'a>,
    values: &'a [Value],
}

impl Arguments<'_> {
    /// A primitive on headers, fields and the packet; `None`: there is none of this name.
    fn common(&self, op: &str) -> Result<Option<Primitive>> {
        Ok(Some(match op {
            // `set` is what p4c writes for an assignment in the deparser.
            "assign" | "modify_field" | "set" => {
                let to = self.target(0)?;
                let bits = to.bits();
                assignment(to, self.number_for(1, bits)?)
            }
            "assign_VL" => Primitive::AssignVariable {
                to: self.variable(0)?,
                from: self.variable(1)?,
            },
            "assign_header" | "copy_header" => {
                Primitive::AssignHeader(self.header(0)?, self.header(1)?)
            }
            "assign_union" => Primitive::AssignUnion(self.union(0)?, self.union(1)?),
            "assign_header_stack" | "assign_union_stack" => Primitive::AssignStack {
                to: self.stack(0)?,
                from: self.stack(1)?,
            },
            "push" => Primitive::Push(self.stack(0)?, self.number(1)?),
            "pop" => Primitive::Pop(self.stack(0)?, self.number(1)?),
            "_jump" => Primitive::Jump(self.number(0)?),
            "_jump_if_zero" => Primitive::JumpUnless(self.condition(0)?, self.number(1)?),
            "exit" => Primitive::Exit,
            "assert" => Primitive::Assert(self.condition(0)?),
            "assume" => Primitive::Assume(self.condition(0)?),
            "log_msg" => self.log()?,
            "mark_to_drop" => Primitive::MarkToDrop(self.dropping(&self.header(0)?)?),
            "drop" => Primitive::MarkToDrop(self.dropping_of_the_packet()?),
            "add_header" | "add_header_fast" => Primitive::SetValid(self.header(0)?),
            "remove_header" => Primitive::SetInvalid(self.header(0)?),
            "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => Primitive::Clone {
                session: self.number(0)?,
                field_list: self.number(1)?,
            },
            "resubmit" => Primitive::Resubmit(self.number(0)?),
            "recirculate" => Primitive::Recirculate(self.number(0)?),
            "generate_digest" => Primitive::Digest(self.number(1)?),
            "truncate" => Primitive::Truncate(self.number(0)?),
            "no_op" => Primitive::NoOp,
            _ => return Ok(None),
        }))
    }

    /// A primitive on state, or one that computes a hash or a random number; `None`: there is none of this name.
    fn stateful(&self, op: &str) -> Result<Option<Primitive>> {
        Ok(Some(match op {
            "modify_field_with_hash_based_offset" => Primitive::Hash {
                to: self.target(0)?,
                base: self.number(1)?,
                calculation: self.calculation(2)?,
                size: self.number(3)?,
            },
            "modify_field_rng_uniform" => Primitive::Random {
                to: self.target(0)?,
                low: self.number(1)?,
                high: self.number(2)?,
            },
            "execute_meter" => Primitive::Meter {
                meter: self.object(0, "meter array", &self.names.meters)?,
                index: self.number(1)?,
                to: self.target(2)?,
            },
            "count" if self.values.len() <= 2 => {
                Primitive::Count(self.counters(0)?, self.number(1)?)
            }
            "register_read" => Primitive::RegisterRead {
                to: self.target(0)?,
                register: self.register(1)?,
                index: self.number(2)?,
            },
            "register_write" => {
                let register = self.register(0)?;
                Primitive::RegisterWrite {
                    register,
                    index: self.number(1)?,
                    value: self.number_for(2, register.bits)?,
                }
            }
            _ => return Ok(None),
        }))
    }

    /// A primitive that only Tofino has; `None`: there is none of this name.
    fn tofino(&self, op: &str) -> Result<Option<Primitive>> {
        Ok(Some(Primitive::Tofino(match op {
            "count" => {
                TofinoPrimitive::CountLess(self.counters(0)?, self.number(1)?, self.number(2)?)
            }
            "count_departing" => TofinoPrimitive::CountDeparting(match self.values {
                [] => None,
                _ => Some((self.counters(0)?, self.number(1)?)),
            }),
            "whole_hash" => TofinoPrimitive::WholeHash(self.target(0)?, self.calculation(1)?),
            "entry_index" => TofinoPrimitive::EntryIndex(self.target(0)?),
            "filter" => TofinoPrimitive::Filter {
                to: self.target(0)?,
                filter: self.object(1, "filter array", &self.names.filters)?,
                index: self.number(2)?,
                of: self.number(3)?,
            },
            "math_unit" => TofinoPrimitive::Math {
                to: self.target(0)?,
                of: self.number(1)?,
                unit: MathUnit::load(self.values.get(2..).unwrap_or_default())?,
            },
            "emit" => TofinoPrimitive::Emit(self.fixed_header(0)?),
            "mirror" => TofinoPrimitive::Mirror(self.number(0)?, self.optional_header(1)?),
            "resubmit_with" => TofinoPrimitive::Resubmit(self.optional_header(0)?),
            _ => return Ok(None),
        })))
    }

    fn arithmetic(&self, op: BinaryOp, a: usize, b: usize) -> Result<Primitive> {
        let operand = |i| Ok::<_, LoadError>(Box::new(self.expr.num(self.value(i)?)?));
        let tree = Num::Binary(op, operand(a)?, operand(b)?);
        let to = self.target(0)?;
        let bits = to.bits();
        Ok(assignment(to, Number::low(tree, bits, self.layout)))
    }

    fn value(&self, i: usize) -> Result<&Value> {
        self.values.get(i).ok_or_else(|| {
            LoadError::new(
                format!("argument {i}"),
                format!("it is missing, there are {}", self.values.len()),
            )
        })
    }

    fn number(&self, i: usize) -> Result<Number> {
        self.expr.number(self.value(i)?)
    }

    fn number_for(&self, i: usize, bits: u32) -> Result<Number> {
        self.expr.number_for(self.value(i)?, bits)
    }

    fn condition(&self, i: usize) -> Result<Condition> {
        self.expr.condition(self.value(i)?)
    }

    fn header(&self, i: usize) -> Result<HeaderRef> {
        self.expr.header(self.value(i)?)
    }

    /// The number of a header that is no element of a stack chosen at run time.
    fn fixed_header(&self, i: usize) -> Result<u32> {
        match self.header(i)? {
            HeaderRef::Fixed(header) => Ok(header),
            _ => Err(LoadError::new(
                "argument",
                "expected a header, found one that an index chooses",
            )),
        }
    }

    /// `None` if there are fewer arguments.
    fn optional_header(&self, i: usize) -> Result<Option<u32>> {
        let given = self.values.len() > i;
        given.then(|| self.fixed_header(i)).transpose()
    }

    fn union(&self, i: usize) -> Result<UnionRef> {
        self.expr.union(self.value(i)?)
    }

    fn stack(&self, i: usize) -> Result<StackRef> {
        let (next_at, elements, of_unions) = self.expr.stack(self.value(i)?)?;
        Ok(StackRef {
            next_at,
            elements,
            of_unions,
        })
    }

    fn target(&self, i: usize) -> Result<Target> {
        self.target_of(self.value(i)?)
    }

    fn counters(&self, i: usize) -> Result<u32> {
        self.object(i, "counter array", &self.names.counters)
    }

    fn calculation(&self, i: usize) -> Result<u32> {
        self.object(i, "calculation", &self.names.calculations)
    }

    fn register(&self, i: usize) -> Result<RegisterRef> {
        self.object(i, "register array", &self.names.registers)
    }

    /// The object of a kind that argument `i` names.
    fn object<T: Copy>(&self, i: usize, kind: &str, names: &HashMap<String, T>) -> Result<T> {
        let argument = self.value(i)?;
        let (Value::RegisterArray(name)
        | Value::CounterArray(name)
        | Value::MeterArray(name)
        | Value::FilterArray(name)
        | Value::Calculation(name)) = argument
        else {
            return Err(LoadError::new(
                format!("argument {i}"),
                format!("expected a {kind}, found {argument:?}"),
            ));
        };
        let number = names.get(name).copied();
        number.ok_or_else(|| LoadError::missing(kind, name))
    }

    /// The fields of the metadata passed to `mark_to_drop`.
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

    /// The fields for `drop`, the P4_14 form, which names no header.
    fn dropping_of_the_packet(&self) -> Result<Dropping> {
        let spec = FieldRef::new("standard_metadata", "egress_spec");
        let group = self.layout.known("intrinsic_metadata.mcast_grp");
        Ok(Dropping {
            egress_spec: Place::of("egress_spec", self.layout.slot(&spec)?)?,
            mcast_grp: group.map(|slot| Place::of("mcast_grp", slot)).transpose()?,
        })
    }

    fn log(&self) -> Result<Primitive> {
        let (text, args) = match self.values {
            [Value::String(text)] => (text, &[][..]),
            [Value::String(text), Value::ParametersVector(args)] => (text, args.as_slice()),
            _ => {
                return Err(LoadError::new(
                    "arguments",
                    "expected a string and a parameters_vector",
                ));
            }
        };
        let args = args
            .iter()
            .map(|a| self.expr.number(a))
            .collect::<Result<_>>()?;
        Ok(Primitive::Log(text.clone(), args))
    }

    /// Where the result of a primitive goes.
    fn target_of(&self, value: &Value) -> Result<Target> {
        let inner = match value {
            Value::Expression(e) => match &**e {
                Expression::Value(v) => return self.target_of(v),
                Expression::Op(_) => value,
            },
            v => v,
        };
        let number = |tree| Box::new(Number::exact(tree, self.layout));
        match self.expr.num(inner)? {
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

    /// A variable-length field: its slot, and the word of its length.
    fn variable(&self, i: usize) -> Result<(Slot, u32)> {
        let Value::Field(f) = self.value(i)? else {
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

/// The cheapest primitive for an assignment.
fn assignment(to: Target, value: Number) -> Primitive {
    match (to, value) {
        (
            Target::Field(slot),
            Number {
                word: Some(word),
                tree,
                ..
            },
        ) if slot.words == 1 => {
            // A field or a parameter that is no wider need not be cut.
            let mask = match &tree {
                Num::Field(from) | Num::Param(from) if !from.signed && from.bits <= slot.bits => {
                    u64::MAX
                }
                _ => low_mask(slot.bits),
            };
            Primitive::AssignWord(slot.at, mask, word)
        }
        (to, value) => Primitive::Assign(to, value),
    }
}

/// Whether a field is the hidden validity bit of a header.
fn is_valid_bit(layout: &Layout, slot: Slot) -> bool {
    layout.headers.iter().any(|h| h.valid_at == slot.at)
}
