//! Actions, compiled: a list of primitives whose operands are resolved.

use std::collections::HashMap;

use ebb_bmv2_json as json;
use ebb_bmv2_json::{Expression, FieldRef, Value};

use crate::bits::{low_mask, words_for};
use crate::error::LoadError;
use crate::expr::{BinaryOp, Compiler, Condition, HeaderRef, Num, Number, UnionRef, Word};
use crate::layout::Layout;
use crate::math_unit::MathUnit;
use crate::program::Place;
use crate::slot::Slot;
use crate::stateful::RegisterRef;
use crate::trace::Source;

/// An action of the program.
#[derive(Debug)]
pub(crate) struct Action {
    /// Its name in P4.
    pub name: String,
    /// Its number in the JSON file.
    pub id: u32,
    /// Its name, and the place of its first primitive in the P4 program.
    pub source: Source,
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// How many words its arguments take.
    pub data_words: usize,
    /// Its primitives, in order.
    pub body: Vec<Primitive>,
}

/// A parameter of an action.
#[derive(Debug)]
pub(crate) struct Param {
    /// Its name in P4.
    pub name: String,
    /// Where its argument lies in the action data.
    pub slot: Slot,
}

/// Where a result is stored.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// In a field.
    Field(Slot),
    /// In the field of a stack element that an index chooses; one slot for each element.
    Element(Box<[Slot]>, Box<Number>),
    /// In a field of the last element of a stack: the word of its counter, and a slot for each
    /// element.
    Last(u32, Box<[Slot]>),
    /// In a cell of a register array.
    Register(RegisterRef, Box<Number>),
    /// Nowhere: the target cannot be written, or would never be seen again.
    Nowhere,
}

/// One step of an action. Jumps count primitives from the start of the body.
#[derive(Debug)]
pub(crate) enum Primitive {
    /// Does nothing.
    NoOp,
    /// Stores a number.
    Assign(Target, Number),
    /// The most common assignment: word of the packet, mask, value.
    AssignWord(u32, u64, Word),
    /// Copies a variable-length field; each is given by its slot and the word of its length.
    AssignVariable { to: (Slot, u32), from: (Slot, u32) },
    /// Copies a header and its validity to another one.
    AssignHeader(HeaderRef, HeaderRef),
    /// Copies a header union.
    AssignUnion(UnionRef, UnionRef),
    /// Copies a header stack.
    AssignStack { to: StackRef, from: StackRef },
    /// P4's `push_front`.
    Push(StackRef, Number),
    /// P4's `pop_front`.
    Pop(StackRef, Number),
    /// Goes on at another primitive.
    Jump(Number),
    /// Goes on at another primitive if a condition is false (`_jump_if_zero`).
    JumpUnless(Condition, Number),
    /// Ends the pipeline.
    Exit,
    /// Drops the packet if the condition is false.
    Assert(Condition),
    /// Drops the packet if the condition is false; a promise to verification tools.
    Assume(Condition),
    /// P4's `log_msg`: text with `{}` for each number.
    Log(String, Vec<Number>),
    /// P4's `mark_to_drop`.
    MarkToDrop(Dropping),
    /// P4's `setValid`.
    SetValid(HeaderRef),
    /// P4's `setInvalid`.
    SetInvalid(HeaderRef),
    /// Asks for a clone at the end of the pipeline.
    Clone { session: Number, field_list: Number },
    /// Asks for a resubmit, preserving this field list.
    Resubmit(Number),
    /// Asks for a recirculation, preserving this field list.
    Recirculate(Number),
    /// Asks for a digest with this learn list.
    Digest(Number),
    /// Stores `base` plus the hash modulo `size`.
    Hash {
        to: Target,
        base: Number,
        calculation: u32,
        size: Number,
    },
    /// Stores a random number between two bounds, both included.
    Random {
        to: Target,
        low: Number,
        high: Number,
    },
    /// Stores the colour of the packet.
    Meter {
        meter: u32,
        index: Number,
        to: Target,
    },
    /// Counts the packet in a cell of a counter array.
    Count(u32, Number),
    /// Reads a cell of a register array.
    RegisterRead {
        to: Target,
        register: RegisterRef,
        index: Number,
    },
    /// Writes a cell of a register array.
    RegisterWrite {
        register: RegisterRef,
        index: Number,
        value: Number,
    },
    /// Cuts the packet to this many bytes when it leaves.
    Truncate(Number),
    /// A primitive that only Tofino has.
    Tofino(TofinoPrimitive),
}

/// A primitive that only programs for Tofino have.
#[derive(Debug)]
pub(crate) enum TofinoPrimitive {
    /// Puts a header in front of the packet, behind those before, if it is valid.
    Emit(u32),
    /// Asks for a copy in a mirror session, with a header in front of it.
    Mirror(Number, Option<u32>),
    /// Asks for a resubmission with a header.
    Resubmit(Option<u32>),
    /// Counts the packet in a cell of a counter array, with fewer bytes than it has.
    CountLess(u32, Number, Number),
    /// Stores the whole result of a calculation.
    WholeHash(Target, u32),
    /// Counts the packet with the bytes that leave: in a cell of a counter array, or in the entry that the table has
    /// hit, which has counted it already.
    CountDeparting(Option<(u32, Number)>),
    /// Stores the index of the entry that the table has hit, which is that of its cell in direct registers.
    EntryIndex(Target),
    /// Stores what a cell of a filter array makes of a number.
    Filter {
        to: Target,
        filter: u32,
        index: Number,
        of: Number,
    },
    /// Stores a function of a number, as the math unit of a register computes it.
    Math {
        to: Target,
        of: Number,
        unit: MathUnit,
    },
}

impl Primitive {
    /// Whether it needs to know which entry the table has hit.
    pub fn needs_entry(&self) -> bool {
        use TofinoPrimitive::{CountDeparting, EntryIndex};
        matches!(
            self,
            Primitive::Tofino(EntryIndex(_) | CountDeparting(None))
        )
    }
}

/// The fields that `mark_to_drop` sets. They are those of the metadata passed to it, which may be a
/// copy of the packet's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropping {
    /// The field that is set to the drop port.
    pub egress_spec: Place,
    /// The field that is set to 0; `None` if the metadata lacks it.
    pub mcast_grp: Option<Place>,
}

/// A header stack, or a stack of unions.
#[derive(Clone, Debug)]
pub(crate) struct StackRef {
    /// Word of the index of the next free element.
    pub next_at: u32,
    /// Numbers of the headers or unions.
    pub elements: Box<[u32]>,
    /// Whether the elements are header unions.
    pub of_unions: bool,
}

/// The arrays and calculations that actions refer to, by name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub registers: HashMap<String, RegisterRef>,
    pub counters: HashMap<String, u32>,
    pub meters: HashMap<String, u32>,
    pub filters: HashMap<String, u32>,
    pub calculations: HashMap<String, u32>,
}

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
        // P4_14 has two forms: `op(dst, a, b)` and `op_to_field(dst, b)`.
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
            // `set` is what p4c writes for an assignment in the deparser.
            "assign" | "modify_field" | "set" => {
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
            "add_header" | "add_header_fast" => Primitive::SetValid(header(0)?),
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
            "count" if p.parameters.len() > 2 => Primitive::Tofino(TofinoPrimitive::CountLess(
                array(0, "counter array", &self.names.counters)?,
                number(1)?,
                number(2)?,
            )),
            "count_departing" if p.parameters.is_empty() => {
                Primitive::Tofino(TofinoPrimitive::CountDeparting(None))
            }
            "count_departing" => Primitive::Tofino(TofinoPrimitive::CountDeparting(Some((
                array(0, "counter array", &self.names.counters)?,
                number(1)?,
            )))),
            "whole_hash" => Primitive::Tofino(TofinoPrimitive::WholeHash(
                target(0)?,
                array(1, "calculation", &self.names.calculations)?,
            )),
            "entry_index" => Primitive::Tofino(TofinoPrimitive::EntryIndex(target(0)?)),
            "filter" => Primitive::Tofino(TofinoPrimitive::Filter {
                to: target(0)?,
                filter: array(1, "filter array", &self.names.filters)?,
                index: number(2)?,
                of: number(3)?,
            }),
            "math_unit" => Primitive::Tofino(TofinoPrimitive::Math {
                to: target(0)?,
                of: number(1)?,
                unit: MathUnit::load(&p.parameters[2..])?,
            }),
            "emit" => Primitive::Tofino(TofinoPrimitive::Emit(fixed(&header(0)?)?)),
            "mirror" => Primitive::Tofino(TofinoPrimitive::Mirror(
                number(0)?,
                optional_header(&header, p.parameters.len(), 1)?,
            )),
            "resubmit_with" => Primitive::Tofino(TofinoPrimitive::Resubmit(optional_header(
                &header,
                p.parameters.len(),
                0,
            )?)),
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

    /// Where the result of a primitive goes.
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

    /// A variable-length field: its slot, and the word of its length.
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

/// The number of a header that is no element of a stack chosen at run time.
fn fixed(header: &HeaderRef) -> Result<u32> {
    match header {
        HeaderRef::Fixed(header) => Ok(*header),
        _ => Err(LoadError::new(
            "argument",
            "expected a header, found one that an index chooses",
        )),
    }
}

/// The header that is argument `i` of this many; `None` if there are fewer.
fn optional_header(
    header: &dyn Fn(usize) -> Result<HeaderRef>,
    arguments: usize,
    i: usize,
) -> Result<Option<u32>> {
    (arguments > i).then(|| fixed(&header(i)?)).transpose()
}

/// The object of a kind that argument `i` names.
fn named<T: Copy>(argument: &Value, i: usize, kind: &str, names: &HashMap<String, T>) -> Result<T> {
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
    names
        .get(name)
        .copied()
        .ok_or_else(|| LoadError::missing(kind, name))
}

/// The cheapest primitive for an assignment.
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

/// Whether a field is the hidden validity bit of a header.
fn is_valid_bit(layout: &Layout, slot: Slot) -> bool {
    layout.headers.iter().any(|h| h.valid_at == slot.at)
}

impl Target {
    /// Width of what is stored, in bits.
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
