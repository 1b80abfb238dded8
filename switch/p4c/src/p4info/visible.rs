//! Objects of a program that the control plane sees, with their names and ids.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use num_traits::ToPrimitive;

use super::Builder;
use super::ids::Kind;
use super::objects;
use crate::annotations::{self, own_name};
use crate::diagnostics::Diagnostic;
use crate::digests::{self, Digest};
use crate::elaborate::flat::{ActionParam, Flat, FlatAction, FlatTable, FlatUnit, Tofino};
use crate::ir::{self, ActionId, Annotation, TableId};
use crate::source::Span;
use crate::types::StructType;

/// In the order in which P4Info lists them.
pub struct Visible<'a> {
    pub tables: Vec<&'a FlatTable>,
    pub actions: Vec<VisibleAction<'a>>,
    pub headers: Vec<Rc<StructType>>,
    pub digests: Vec<Digest>,
}

#[derive(Clone)]
pub struct VisibleAction<'a> {
    pub name: String,
    pub annotations: &'a [Annotation],
    pub params: &'a [ActionParam],
    /// Whether a table has it, so that the control plane may choose it.
    in_table: bool,
    span: Span,
}

impl VisibleAction<'_> {
    /// Whether the control plane gives both the same parameters.
    fn is_like(&self, other: &VisibleAction<'_>) -> bool {
        let id = |p: &ActionParam| annotations::number(&p.annotations, "id");
        let pairs = self.params.iter().zip(other.params);
        self.params.len() == other.params.len()
            && pairs
                .into_iter()
                .all(|(a, b)| a.own_name() == b.own_name() && a.ty == b.ty && id(a) == id(b))
    }
}

/// Objects of each instance of a control, by the number of the instance.
#[derive(Default)]
struct Parts {
    /// Indices of tables and actions, by their number in the program.
    tables: HashMap<(usize, TableId), usize>,
    actions: HashMap<(usize, ActionId), usize>,
    /// The same tables, in their order.
    tables_of: HashMap<usize, Vec<usize>>,
    /// Actions that are called, with whether the control declares them.
    called: HashMap<usize, Vec<(bool, ActionId)>>,
    calls: HashSet<(usize, ActionId)>,
}

impl Parts {
    fn of(flat: &Flat) -> Parts {
        let mut parts = Parts::default();
        for (index, table) in flat.tables.iter().enumerate() {
            parts.tables.insert((table.unit, table.table), index);
            parts.tables_of.entry(table.unit).or_default().push(index);
        }
        for (index, action) in flat.actions.iter().enumerate() {
            if let Some(unit) = action.unit {
                parts.actions.entry((unit, action.action)).or_insert(index);
            }
        }
        for (unit, own, action) in &flat.called_actions {
            let called = parts.called.entry(*unit).or_default();
            called.push((*own, *action));
            if *own {
                parts.calls.insert((*unit, *action));
            }
        }
        parts
    }
}

/// Actions in the order in which P4Info lists them, and where each name is in the list.
#[derive(Default)]
struct Actions<'a> {
    list: Vec<VisibleAction<'a>>,
    places: HashMap<String, usize>,
}

impl<'a> Builder<'a> {
    /// Gives every visible object its id.
    pub(super) fn collect(&mut self) -> Visible<'a> {
        let flat = self.flat;
        let headers = self.program.headers.iter();
        let headers = headers.filter(|h| annotations::has(&h.annotations, "controller_header"));
        let digests = digests::digests(flat);
        let mut visible = Visible {
            tables: Vec::new(),
            actions: Vec::new(),
            headers: headers.cloned().collect(),
            digests: digests.list,
        };
        if let Some(call) = digests.clash {
            let message = "the control plane knows two digests by the name of this one's type";
            let error = Diagnostic::error("duplicate-name", call, message);
            let error = error.help("give one of the types another @name");
            self.problem.get_or_insert(Box::new(error));
        }
        let mut actions = Actions::default();
        let mut tables = HashMap::new();
        let parts = Parts::of(flat);
        for unit in &flat.units {
            self.collect_actions(unit, &parts, &mut actions);
            self.collect_tables(unit, &parts, &mut tables, &mut visible.tables);
        }
        visible.actions = actions.list;
        let objects = flat.objects.iter().filter(|object| object.declared);
        let objects = objects.filter_map(|o| {
            let kind = objects::kind(o)?;
            Some((kind, &o.extern_name[..], &o.name, &o.annotations, o.span))
        });
        let value_sets = flat.value_sets.iter();
        let value_sets =
            value_sets.map(|v| (Kind::ValueSet, "value_set", &v.name, &v.annotations, v.span));
        let mut seen: HashMap<(Kind, &str), Span> = HashMap::new();
        for (kind, what, name, annotations, span) in objects.chain(value_sets) {
            if let Some(first) = seen.insert((kind, name), span) {
                let error = same_name(what, name, [span, first]);
                self.diagnostics.report(error);
            }
            self.symbol(kind, name, annotations, span);
        }
        let mut packets: HashMap<String, Span> = HashMap::new();
        for header in &visible.headers {
            let kind = Kind::ControllerHeader;
            let packet = annotations::string(&header.annotations, "controller_header");
            let packet = packet.unwrap_or_default();
            if let Some(first) = packets.insert(packet.clone(), header.span) {
                let error = same_name("controller header", &packet, [header.span, first]);
                self.problem.get_or_insert(Box::new(error));
            }
            self.symbol(kind, &header.name, &header.annotations, header.span);
        }
        // p4c writes the (empty) type info of a program with extern functions; so do we.
        self.types.used |= !digests::extern_calls(flat).is_empty();
        for digest in &visible.digests {
            self.symbol(Kind::Digest, &digest.name, &[], Span::default());
        }
        let tofino = flat.tofino.as_ref();
        self.symbols.assign(tofino.and_then(Tofino::only_pipe));
        visible
    }

    /// Actions of one name are one to the control plane, which only names them together with a table. So those that
    /// tables have must have the same parameters.
    fn collect_actions(&mut self, unit: &FlatUnit, parts: &Parts, visible: &mut Actions<'a>) {
        for action in self.actions_of(unit, parts) {
            if annotations::has(action.annotations, "hidden") {
                continue;
            }
            let Some(place) = visible.places.get(&action.name) else {
                self.symbol(Kind::Action, &action.name, action.annotations, action.span);
                let place = visible.list.len();
                visible.places.insert(action.name.clone(), place);
                visible.list.push(action);
                continue;
            };
            let first = &mut visible.list[*place];
            if !first.in_table {
                *first = action;
            } else if action.in_table && !first.is_like(&action) {
                let message = format!("the control plane knows two actions as `{}`", action.name);
                let help = "give one of them another @name, or both the same parameters";
                let error = Diagnostic::error("duplicate-name", action.span, message);
                let error = error.note(first.span, "the first one").help(help);
                self.problem.get_or_insert(Box::new(error));
            }
        }
    }

    /// The actions that tables or statements of a control use. Global ones come first.
    fn actions_of(&self, unit: &FlatUnit, parts: &Parts) -> Vec<VisibleAction<'a>> {
        let flat = self.flat;
        let in_tables = |action: &'a FlatAction| VisibleAction {
            name: action.name.clone(),
            annotations: &action.annotations,
            params: &action.params,
            in_table: true,
            span: action.span,
        };
        let tables = parts.tables_of.get(&unit.id).into_iter().flatten();
        let used = tables.flat_map(|t| &flat.tables[*t].actions);
        let used = used.map(|a| &flat.actions[*a]);
        let global = used.filter(|action| action.unit.is_none()).map(in_tables);
        let calls = parts.called.get(&unit.id).into_iter().flatten();
        let called = calls.filter(|(own, _)| !own);
        let called = called.map(|(_, action)| self.called_action(*action, None));
        let declared = self.program.controls[unit.control].actions.iter();
        let own = declared.filter_map(|id| {
            let found = parts.actions.get(&(unit.id, *id));
            let found = found.map(|index| in_tables(&flat.actions[*index]));
            let called = || parts.calls.contains(&(unit.id, *id));
            found.or_else(|| called().then(|| self.called_action(*id, Some(&unit.path))))
        });
        global.chain(called).chain(own).collect()
    }

    /// An action that is only called has no data from the control plane. `path` is the name of the control that
    /// declares it.
    fn called_action(&self, id: ActionId, path: Option<&str>) -> VisibleAction<'a> {
        let action = &self.program.actions[id];
        let own = annotations::string(&action.annotations, "name");
        let is_absolute = own.is_some_and(|name| name.starts_with('.'));
        let name = own_name(&action.name, &action.annotations);
        VisibleAction {
            name: match path.filter(|_| !is_absolute) {
                Some(path) => format!("{path}.{name}"),
                None => name,
            },
            annotations: &action.annotations,
            params: &[],
            in_table: false,
            span: action.span,
        }
    }

    fn collect_tables(
        &mut self,
        unit: &FlatUnit,
        parts: &Parts,
        seen: &mut HashMap<&'a str, Span>,
        visible: &mut Vec<&'a FlatTable>,
    ) {
        let (flat, program) = (self.flat, self.program);
        for declared in &program.controls[unit.control].tables {
            let Some(index) = parts.tables.get(&(unit.id, *declared)) else {
                continue;
            };
            let table = &flat.tables[*index];
            let ir::Table {
                annotations, span, ..
            } = &program.tables[*declared];
            // The JSON refers to tables by their names, also to those that the control plane does not see.
            if let Some(first) = seen.insert(&table.name, *span) {
                let error = same_name("table", &table.name, [*span, first]);
                self.diagnostics.report(error);
            }
            self.check_names_of_actions(table, *declared);
            if annotations::has(annotations, "hidden") {
                continue;
            }
            self.symbol(Kind::Table, &table.name, annotations, *span);
            visible.push(table);
        }
    }

    /// An entry of a table names its action.
    fn check_names_of_actions(&self, table: &FlatTable, declared: TableId) {
        let references = &self.program.tables[declared].actions;
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for (index, reference) in table.actions.iter().zip(references) {
            let name = &self.flat.actions[*index].name;
            if let Some(first) = seen.insert(name, reference.span) {
                let message = format!("table `{}` has two actions `{name}`", table.name);
                let error = Diagnostic::error("duplicate-name", reference.span, message);
                let help = "give one of them another @name";
                self.diagnostics
                    .report(error.note(first, "the first one").help(help));
            }
        }
    }

    fn symbol(&mut self, kind: Kind, name: &str, annotations: &[Annotation], span: Span) {
        let id = annotations::number(annotations, "id").and_then(|id| id.to_u32());
        if let Err(bad) = self.symbols.add(kind, name, id) {
            let place = annotations::find(annotations, "id").map_or(span, |a| a.name.span);
            let message = format!(
                "@id({:#x}) of `{name}` is taken, or has the prefix of another kind",
                bad.0
            );
            self.diagnostics
                .report(Diagnostic::error("bad-id", place, message));
        }
    }
}

fn same_name(kind: &str, name: &str, [second, first]: [Span; 2]) -> Diagnostic {
    let message = format!("the control plane knows two {kind}s as `{name}`");
    Diagnostic::error("duplicate-name", second, message)
        .note(first, "the first one")
        .help("give one of them another @name")
}
