//! What of a program the control plane sees, under which names and ids.

use std::collections::HashMap;
use std::rc::Rc;

use num_traits::ToPrimitive;

use super::Builder;
use super::ids::Kind;
use super::objects;
use crate::annotations::{self, own_name};
use crate::diagnostics::Diagnostic;
use crate::digests::{self, Digest};
use crate::elaborate::flat::{ActionParam, FlatAction, FlatTable, FlatUnit};
use crate::ir::{ActionId, Annotation};
use crate::source::Span;
use crate::types::StructType;

/// In the order in which P4Info lists them.
pub struct Visible<'a> {
    pub tables: Vec<&'a FlatTable>,
    pub actions: Vec<VisibleAction<'a>>,
    pub headers: Vec<Rc<StructType>>,
    pub digests: Vec<Digest>,
}

pub struct VisibleAction<'a> {
    pub name: String,
    pub annotations: &'a [Annotation],
    pub params: &'a [ActionParam],
    span: Span,
}

impl<'a> Builder<'a> {
    /// Gives every visible object its id.
    pub(super) fn collect(&mut self) -> Visible<'a> {
        let flat = self.flat;
        let headers = self.program.headers.iter();
        let headers = headers.filter(|h| annotations::has(&h.annotations, "controller_header"));
        let mut visible = Visible {
            tables: Vec::new(),
            actions: Vec::new(),
            headers: headers.cloned().collect(),
            digests: digests::digests(flat),
        };
        for unit in &flat.units {
            self.collect_actions(unit, &mut visible.actions);
            self.collect_tables(unit, &mut visible.tables);
        }
        let objects = flat.objects.iter().filter(|object| object.declared);
        let objects = objects.filter_map(|o| {
            let kind = objects::kind(&o.extern_name)?;
            Some((kind, &o.extern_name[..], &o.name, &o.annotations, o.span))
        });
        let value_sets = flat.value_sets.iter();
        let value_sets =
            value_sets.map(|v| (Kind::ValueSet, "value_set", &v.name, &v.annotations, v.span));
        let mut seen: HashMap<(Kind, &str), Span> = HashMap::new();
        for (kind, what, name, annotations, span) in objects.chain(value_sets) {
            if let Some(first) = seen.insert((kind, name), span) {
                self.same_name(what, name, [span, first]);
            }
            self.symbol(kind, name, annotations, span);
        }
        for header in &visible.headers {
            let kind = Kind::ControllerHeader;
            self.symbol(kind, &header.name, &header.annotations, header.span);
        }
        // p4c writes the (empty) type info of a program with extern functions; so do we.
        self.types.used |= !digests::extern_calls(flat).is_empty();
        for digest in &visible.digests {
            self.symbol(Kind::Digest, &digest.name, &[], Span::default());
        }
        self.symbols.assign();
        visible
    }

    fn collect_actions(&mut self, unit: &FlatUnit, visible: &mut Vec<VisibleAction<'a>>) {
        for action in self.actions_of(unit) {
            let name = &action.name;
            if annotations::has(action.annotations, "hidden") {
                continue;
            }
            // The same one, perhaps: several controls use it.
            if let Some(first) = visible.iter().find(|other| other.name == *name) {
                if first.span != action.span {
                    self.same_name("action", name, [action.span, first.span]);
                }
                continue;
            }
            self.symbol(Kind::Action, name, action.annotations, Span::default());
            visible.push(action);
        }
    }

    /// The actions that tables or statements of a control use. Global ones come first.
    fn actions_of(&self, unit: &FlatUnit) -> Vec<VisibleAction<'a>> {
        let flat = self.flat;
        let in_tables = |action: &'a FlatAction| VisibleAction {
            name: action.name.clone(),
            annotations: &action.annotations,
            params: &action.params,
            span: action.span,
        };
        let tables = flat.tables.iter().filter(|t| t.unit == unit.id);
        let used = tables.flat_map(|t| &t.actions).map(|a| &flat.actions[*a]);
        let global = used.filter(|action| action.unit.is_none()).map(in_tables);
        let calls = flat.called_actions.iter().filter(|(u, ..)| *u == unit.id);
        let called = calls.filter(|(_, own, _)| !own);
        let called = called.map(|(.., action)| self.called_action(*action, None));
        let declared = self.program.controls[unit.control].actions.iter();
        let own = declared.filter_map(|id| {
            let of_unit = |a: &&FlatAction| a.unit == Some(unit.id) && a.action == *id;
            let found = flat.actions.iter().find(of_unit).map(in_tables);
            let called = || flat.called_actions.contains(&(unit.id, true, *id));
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
            span: action.span,
        }
    }

    fn collect_tables(&mut self, unit: &FlatUnit, visible: &mut Vec<&'a FlatTable>) {
        let (flat, program) = (self.flat, self.program);
        let span = |table: &FlatTable| program.tables[table.table].span;
        for declared in &program.controls[unit.control].tables {
            let of_unit = |t: &&FlatTable| t.unit == unit.id && t.table == *declared;
            let Some(table) = flat.tables.iter().find(of_unit) else {
                continue;
            };
            let annotations = &program.tables[*declared].annotations;
            if annotations::has(annotations, "hidden") {
                continue;
            }
            if let Some(other) = visible.iter().find(|t| t.name == table.name) {
                self.same_name("table", &table.name, [span(table), span(other)]);
            }
            self.symbol(Kind::Table, &table.name, annotations, span(table));
            visible.push(table);
        }
    }

    fn same_name(&self, kind: &str, name: &str, [second, first]: [Span; 2]) {
        let message = format!("the control plane knows two {kind}s as `{name}`");
        self.diagnostics.report(
            Diagnostic::error("duplicate-name", second, message)
                .note(first, "the first one")
                .help("give one of them another @name"),
        );
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
