//! Calls: functions, actions, methods, constructors, and the built-in methods of headers and tables.

use super::arguments::{ArgumentRule, closed, written_order};
use super::rules::packet_types;
use super::{Checker, Entity};
use crate::ast::{self, ExprKind as Ast};
use crate::diagnostics::Diagnostic;
use crate::eval::Value;
use crate::ir::{
    Block, BlockKind, Call, Callee, Construct, Constructed, Expr, ExprKind, Instance, Signature,
};
use crate::source::Span;
use crate::types::{self, Type};

/// Callee whose name is resolved.
enum Target {
    Overloads(Vec<(Callee, Signature)>),
    Constructor(Entity),
    /// A built-in whose arguments are already checked.
    Done(Expr),
    Failed,
}

impl Checker<'_> {
    /// Checks a call; `span` is that of the whole call.
    pub(super) fn call_expr(
        &mut self,
        callee: &ast::Expr,
        type_args: &[ast::Type],
        args: &[ast::Arg],
        span: Span,
    ) -> Expr {
        match self.call_target(callee, args, span) {
            Target::Failed => {
                for arg in args {
                    self.expr(&arg.value);
                }
                Expr::poison(span)
            }
            Target::Done(expr) => expr,
            Target::Constructor(entity) => {
                let written = type_args.iter().map(|t| self.ty(t)).collect();
                match self.construct(&entity, written, args, span) {
                    Some((construct, ty)) => {
                        Expr::new(ExprKind::Construct(Box::new(construct)), ty, span)
                    }
                    None => Expr::poison(span),
                }
            }
            Target::Overloads(candidates) => {
                let written: Vec<Type> = type_args.iter().map(|t| self.ty(t)).collect();
                self.call_overload(candidates, &written, args, span)
            }
        }
    }

    fn call_target(&mut self, callee: &ast::Expr, args: &[ast::Arg], span: Span) -> Target {
        match &callee.kind {
            Ast::Member(object, method) => self.method_target(object, method, args, span),
            Ast::Name { name, global } => {
                let Some(entity) = self.resolve(name, *global, "function, action or constructor")
                else {
                    return Target::Failed;
                };
                match entity {
                    Entity::Functions(ids) => {
                        let signature = |id: usize| self.program.functions[id].signature.clone();
                        overloads(ids, Callee::Function, signature)
                    }
                    Entity::ExternFunctions(ids) => {
                        let signature = |id: usize| self.program.extern_functions[id].clone();
                        overloads(ids, Callee::ExternFunction, signature)
                    }
                    Entity::Action(id) => {
                        Target::Overloads(vec![(Callee::Action(id), self.action_signature(id))])
                    }
                    Entity::Table(_) => {
                        let message = format!("`{}` is a table", name.text);
                        let help = format!("apply it: `{}.apply()`", name.text);
                        self.error_with_help("not-callable", span, message, help);
                        Target::Failed
                    }
                    entity if entity.is_type() => Target::Constructor(entity),
                    // The declaration was wrong, which has been reported.
                    Entity::Const(value) if value.ty.is_poison() => Target::Failed,
                    other => {
                        let message =
                            format!("`{}` is {} and cannot be called", name.text, other.kind());
                        self.error("not-callable", callee.span, message);
                        Target::Failed
                    }
                }
            }
            Ast::Type(ty) => {
                let ty = self.ty(ty);
                if !ty.is_poison() {
                    let message = format!("`{}` has no constructor", self.show(&ty));
                    self.error("not-callable", callee.span, message);
                }
                Target::Failed
            }
            _ => {
                self.error("not-callable", callee.span, "this cannot be called");
                Target::Failed
            }
        }
    }

    fn method_target(
        &mut self,
        object: &ast::Expr,
        method: &ast::Ident,
        args: &[ast::Arg],
        span: Span,
    ) -> Target {
        if let Some(ty) = self.as_type(object) {
            return self.size_method(&ty, method, span);
        }
        if let Ast::Name { name, global } = &object.kind {
            match self.lookup(&name.text, *global) {
                Some(Entity::Table(table)) => {
                    if method.text != "apply" {
                        let message = format!("a table has no method `{}`", method.text);
                        self.unknown("unknown-method", method, message, ["apply"]);
                        return Target::Failed;
                    }
                    if !args.is_empty() {
                        let message = "a table is applied without arguments";
                        self.error("argument-count", span, message);
                    }
                    self.check_table_applied(span);
                    return Target::Done(Expr::new(
                        ExprKind::Call(Box::new(Call {
                            callee: Callee::ApplyTable(table),
                            type_args: Vec::new(),
                            args: Vec::new(),
                            order: Vec::new(),
                        })),
                        Type::Void,
                        span,
                    ));
                }
                // `Sub.apply(...)` makes an instance of its own (specification, section 15.2).
                Some(entity @ (Entity::Control(..) | Entity::Parser(..)))
                    if method.text == "apply" =>
                {
                    let Some((construct, ty)) = self.construct(&entity, Vec::new(), &[], span)
                    else {
                        return Target::Failed;
                    };
                    let id = self.add_instance(Instance {
                        name: name.text.clone(),
                        annotations: Vec::new(),
                        construct,
                        ty: ty.clone(),
                        methods: Vec::new(),
                        span,
                    });
                    let object = Expr::new(ExprKind::Instance(id), ty, span);
                    return self.object_method(object, method, args, span);
                }
                _ => {}
            }
        }
        let object = self.expr(object);
        self.object_method(object, method, args, span)
    }

    fn object_method(
        &mut self,
        object: Expr,
        method: &ast::Ident,
        args: &[ast::Arg],
        span: Span,
    ) -> Target {
        match object.ty.clone() {
            Type::Poison => Target::Failed,
            Type::Extern(id, type_args) => {
                let extern_type = &self.program.externs[id];
                let map = types::bind(&extern_type.type_params, type_args);
                let candidates: Vec<_> = extern_type
                    .methods
                    .iter()
                    .enumerate()
                    .filter(|(_, m)| m.name == method.text)
                    .map(|(i, m)| {
                        let callee = Callee::Method {
                            object: object.clone(),
                            extern_type: id,
                            method: i,
                        };
                        (callee, m.substitute(&map))
                    })
                    .collect();
                if candidates.is_empty() {
                    let message = format!(
                        "extern `{}` has no method `{}`",
                        extern_type.name, method.text
                    );
                    let methods = extern_type.methods.iter();
                    let mut names: Vec<&str> = methods.map(|m| m.name.as_str()).collect();
                    names.dedup();
                    let error = Diagnostic::error("unknown-method", method.span, message);
                    self.report(error.suggest_among(&method.text, &names, "its methods are"));
                    return Target::Failed;
                }
                Target::Overloads(candidates)
            }
            Type::Block(id, type_args) if method.text == "apply" => {
                let signature = &self.program.blocks[id].signature;
                let map = types::bind(&signature.type_params, type_args);
                let mut signature = signature.substitute(&map);
                signature.type_params.clear();
                signature.return_type = Type::Void;
                Target::Overloads(vec![(Callee::Apply(object), signature)])
            }
            Type::Struct(_) | Type::Stack(..) => self.header_method(object, method, args, span),
            ty => self.size_method(&ty, method, span),
        }
    }

    /// The built-in methods of headers and stacks: `isValid`, `setValid`, `setInvalid`, `push_front`, `pop_front`
    /// (specification, sections 8.17 and 8.18).
    fn header_method(
        &mut self,
        object: Expr,
        method: &ast::Ident,
        args: &[ast::Arg],
        span: Span,
    ) -> Target {
        let is_stack = matches!(object.ty, Type::Stack(..));
        let is_header = object.ty.is_header();
        let (callee, ty): (fn(Expr) -> Callee, Type) = match method.text.as_str() {
            "isValid" if is_header || object.ty.is_union() => (Callee::IsValid, Type::Bool),
            "setValid" if is_header => (Callee::SetValid, Type::Void),
            "setInvalid" if is_header => (Callee::SetInvalid, Type::Void),
            "push_front" if is_stack => (Callee::PushFront, Type::Void),
            "pop_front" if is_stack => (Callee::PopFront, Type::Void),
            _ => {
                let ty = object.ty.clone();
                return self.size_method(&ty, method, span);
            }
        };
        if method.text != "isValid" && !self.check_lvalue(&object) {
            return Target::Failed;
        }
        let mut checked = Vec::new();
        if is_stack {
            let [arg] = args else {
                let message = format!("`{}` takes one number", method.text);
                self.error("argument-count", span, message);
                return Target::Failed;
            };
            checked.push(self.count(&arg.value));
        } else if !args.is_empty() {
            let message = format!("`{}` takes no arguments", method.text);
            self.error("argument-count", span, message);
        }
        Target::Done(Expr::new(
            ExprKind::Call(Box::new(Call {
                callee: callee(object),
                type_args: Vec::new(),
                args: checked,
                order: Vec::new(),
            })),
            ty,
            span,
        ))
    }

    /// By how many elements a stack moves: a number that is known at compile time.
    fn count(&mut self, written: &ast::Expr) -> Expr {
        let count = self.expr(written);
        if matches!(count.ty, Type::Int) && count.as_int().is_none() {
            return count.cast(Type::bit(32));
        }
        match self.size(written, u32::MAX, "count") {
            Some(count) => Expr::int(count, Type::bit(32), written.span),
            None => Expr::poison(written.span),
        }
    }

    /// `minSizeInBits` and its kin, on types and values (specification, section 9).
    fn size_method(&mut self, ty: &Type, method: &ast::Ident, span: Span) -> Target {
        let bits = |max: bool| -> Option<u32> { if max { ty.width() } else { min_width(ty) } };
        let size = match method.text.as_str() {
            "minSizeInBits" => bits(false),
            "maxSizeInBits" => bits(true),
            "minSizeInBytes" => bits(false).map(|b| b.div_ceil(8)),
            "maxSizeInBytes" => bits(true).map(|b| b.div_ceil(8)),
            _ => None,
        };
        if let Some(size) = size {
            return Target::Done(Expr::int(size, Type::Int, span));
        }
        if !ty.is_poison() {
            let message = format!("`{}` has no method `{}`", self.show(ty), method.text);
            let known: &[&str] = match ty {
                Type::Stack(..) => &["push_front", "pop_front"],
                ty if ty.is_header() => &[
                    "isValid",
                    "setValid",
                    "setInvalid",
                    "minSizeInBits",
                    "minSizeInBytes",
                ],
                _ => &[
                    "minSizeInBits",
                    "minSizeInBytes",
                    "maxSizeInBits",
                    "maxSizeInBytes",
                ],
            };
            match method.text.as_str() {
                "valid" if ty.is_header() => {
                    self.error_with_help(
                        "unknown-method",
                        method.span,
                        message,
                        "call `isValid()`",
                    );
                }
                name @ ("hit" | "miss" | "action_run") if *ty == Type::Void => {
                    let help = format!("write it without parentheses: `.apply().{name}`");
                    self.error_with_help("unknown-method", method.span, message, help);
                }
                name if ty.is_header() || matches!(ty, Type::Stack(..)) => {
                    let error = Diagnostic::error("unknown-method", method.span, message);
                    self.report(error.suggest_among(name, known, "its methods are"));
                }
                _ => self.unknown("unknown-method", method, message, known.iter().copied()),
            }
        }
        Target::Failed
    }

    fn call_overload(
        &mut self,
        mut candidates: Vec<(Callee, Signature)>,
        type_args: &[Type],
        args: &[ast::Arg],
        span: Span,
    ) -> Expr {
        if candidates.len() > 1 {
            candidates.retain(|(_, s)| accepts(s, type_args, args));
            // Overloads of one arity differ in types; the first that fits silently would need a trial run,
            // and v1model and core.p4 have none.
        }
        let Some((callee, signature)) = candidates.into_iter().next() else {
            let message = format!("no overload takes {} arguments", args.len());
            self.error("argument-count", span, message);
            return Expr::poison(span);
        };
        let order = written_order(&signature.params, args);
        // Bodies have variables of their types, which are of run time.
        let type_args: Vec<Type> = match callee {
            Callee::Function(_) => type_args.iter().cloned().map(closed).collect(),
            _ => type_args.to_vec(),
        };
        let Some((args, inferred)) =
            self.arguments(&signature, &type_args, args, ArgumentRule::All, span)
        else {
            return Expr::poison(span);
        };
        let ty = self.affordable(signature.return_type.substitute(&inferred), span);
        let type_args: Vec<Type> = inferred.into_iter().map(|(_, t)| t).collect();
        if let Callee::ExternFunction(_) = callee
            && signature.name == "static_assert"
        {
            return self.static_assert(&args, span);
        }
        self.check_called(&callee, &signature.name, span);
        self.check_deprecated(signature.span, &signature.name, span);
        let call = Call {
            callee,
            type_args,
            args,
            order,
        };
        packet_types::check(
            &call,
            &signature.name,
            span,
            &self.program,
            self.diagnostics,
        );
        Expr::new(ExprKind::Call(Box::new(call)), ty, span)
    }

    fn static_assert(&self, args: &[Expr], span: Span) -> Expr {
        match args.first().and_then(Expr::as_value) {
            Some(Value::Bool(true)) => {}
            Some(_) => {
                let text = match args.get(1).and_then(Expr::as_value) {
                    Some(Value::Str(text)) => format!(": {text}"),
                    _ => String::new(),
                };
                self.error("static-assert", span, format!("static_assert failed{text}"));
            }
            None => self.error(
                "not-constant",
                span,
                "static_assert needs a condition known at compile time",
            ),
        }
        Expr::bool(true, span)
    }

    /// A constructor call; returns it with the type of the object.
    pub(super) fn construct(
        &mut self,
        entity: &Entity,
        type_args: Vec<Type>,
        args: &[ast::Arg],
        span: Span,
    ) -> Option<(Construct, Type)> {
        // A typedef of a specialised extern: `typedef register<bit<8>> bytes; bytes(16) r;`
        if let Entity::Type(Type::Extern(id, bound)) = entity
            && type_args.is_empty()
        {
            return self.construct(&Entity::Extern(*id), bound.clone(), args, span);
        }
        let (what, signature, block) = match entity {
            Entity::Extern(id) => {
                let extern_type = &self.program.externs[*id];
                let constructors = &extern_type.constructors;
                let found = constructors
                    .iter()
                    .find(|c| accepts(c, &[], args))
                    .or(constructors.first());
                let Some(constructor) = found else {
                    let message = format!("extern `{}` has no constructor", extern_type.name);
                    self.error("not-constructible", span, message);
                    return None;
                };
                let signature = Signature {
                    type_params: extern_type.type_params.clone(),
                    ..constructor.clone()
                };
                (Constructed::Extern(*id), signature, None)
            }
            Entity::Control(id, block) => {
                let signature = constructor(&self.program.controls[*id].block);
                (Constructed::Control(*id), signature, Some(*block))
            }
            Entity::Parser(id, block) => {
                let signature = constructor(&self.program.parsers[*id].block);
                (Constructed::Parser(*id), signature, Some(*block))
            }
            Entity::Block(id) if self.program.blocks[*id].kind == BlockKind::Package => {
                let signature = self.program.blocks[*id].signature.clone();
                (Constructed::Package(*id), signature, Some(*id))
            }
            other => {
                let message = format!("{} has no constructor", other.kind());
                self.error("not-constructible", span, message);
                return None;
            }
        };
        let (values, inferred) =
            self.arguments(&signature, &type_args, args, ArgumentRule::All, span)?;
        let type_args: Vec<Type> = inferred.into_iter().map(|(_, t)| t).collect();
        let ty = match (what, block) {
            (Constructed::Extern(id), _) => Type::Extern(id, type_args.clone()),
            (_, Some(block)) => Type::Block(block, type_args.clone()),
            (_, None) => Type::Poison,
        };
        let construct = Construct {
            what,
            type_args,
            args: values,
            names: signature.params.iter().map(|p| p.name.clone()).collect(),
        };
        Some((construct, ty))
    }
}

fn overloads(
    ids: Vec<usize>,
    callee: fn(usize) -> Callee,
    signature: impl Fn(usize) -> Signature,
) -> Target {
    let ids = ids.into_iter();
    Target::Overloads(ids.map(|id| (callee(id), signature(id))).collect())
}

fn constructor(block: &Block) -> Signature {
    Signature::of(&block.name, block.constructor_params.clone(), block.span)
}

/// Whether the arguments fit the parameters by their number and names. If one has a name, all have.
fn accepts(signature: &Signature, type_args: &[Type], args: &[ast::Arg]) -> bool {
    let params = &signature.params;
    let mut required = params.iter().filter(|p| p.is_required());
    let names: Vec<&str> = args
        .iter()
        .filter_map(|a| Some(a.name.as_ref()?.text.as_str()))
        .collect();
    let fits = match names.is_empty() {
        true => (required.count()..=params.len()).contains(&args.len()),
        false => {
            required.all(|p| names.contains(&p.name.as_str()))
                && names
                    .iter()
                    .all(|name| params.iter().any(|p| p.name == *name))
        }
    };
    fits && (type_args.is_empty() || type_args.len() == signature.type_params.len())
}

/// The width in bits of a value whose varbits are empty; none if the type has no width.
fn min_width(ty: &Type) -> Option<u32> {
    match ty.stored() {
        Type::Varbit(_) => Some(0),
        Type::Struct(s) if s.kind == crate::types::StructKind::Union => s
            .fields
            .iter()
            .map(|f| min_width(&f.ty))
            .collect::<Option<Vec<_>>>()?
            .into_iter()
            .min(),
        Type::Struct(s) => s.fields.iter().map(|f| min_width(&f.ty)).sum(),
        Type::Stack(element, size) => min_width(element)?.checked_mul(*size),
        _ => ty.width(),
    }
}
