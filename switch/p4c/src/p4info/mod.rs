//! The P4Info backend: what the control plane can see of a program, for P4Runtime.

mod entries;
mod format;
mod ids;
mod notes;
mod objects;
mod tables;
mod type_info;
mod visible;

use ebb_p4_proto::config::match_field::MatchType;
use ebb_p4_proto::config::{Digest, P4Info, PkgInfo, PlatformProperties, Preamble};
use ebb_p4_proto::p4::WriteRequest;
use num_traits::{Bounded, ToPrimitive};

use crate::annotations;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::elaborate::flat::Flat;
use crate::eval::Value;
use crate::ir::{Annotation, Expr, Program};
pub use format::{to_json, to_text};
use ids::{Kind, Symbols};
use notes::{HIDDEN, Notes};
use type_info::{Types, bytes};
use visible::Visible;

/// Keys of `@pkginfo`.
const PACKAGE_PROPERTIES: [&str; 5] = ["name", "version", "organization", "contact", "url"];
const PLATFORM_PROPERTIES: [&str; 3] = [
    "multicast_group_table_size",
    "multicast_group_table_total_replicas",
    "multicast_group_table_max_replicas_per_entry",
];

struct Builder<'a> {
    program: &'a Program,
    flat: &'a Flat,
    diagnostics: &'a Diagnostics,
    symbols: Symbols,
    types: Types,
    problem: Option<Box<Diagnostic>>,
}

/// The hash of a name from which ids are made.
pub(crate) fn hash(name: &str) -> u32 {
    ids::one_at_a_time(name.as_bytes())
}

/// Annotations of an object as written, without those that P4Info has fields for.
pub(crate) fn plain_annotations(list: &[Annotation]) -> Vec<String> {
    Notes::of(list, HIDDEN).annotations
}

/// P4Info, and the program's entries.
#[derive(Debug)]
pub struct Generated {
    /// Tables, actions, counters and other objects with their ids.
    pub p4info: P4Info,
    /// The first two objects that have one name in it, if there are such.
    pub problem: Option<Box<Diagnostic>>,
    /// Or why there are none: the first entry that P4Runtime has no form for.
    pub entries: Result<WriteRequest, Box<Diagnostic>>,
}

/// Generates both messages.
pub fn generate(program: &Program, flat: &Flat, diagnostics: &Diagnostics) -> Generated {
    let mut builder = Builder {
        program,
        flat,
        diagnostics,
        symbols: Symbols::default(),
        types: Types::new(&program.errors),
        problem: None,
    };
    let visible = builder.collect();
    Generated {
        entries: builder.entries(),
        problem: builder.problem.take(),
        p4info: builder.build(visible),
    }
}

impl Builder<'_> {
    fn build(mut self, visible: Visible<'_>) -> P4Info {
        let mut info = P4Info {
            pkg_info: Some(self.package()),
            ..P4Info::default()
        };
        let tables = visible.tables.into_iter();
        info.tables = tables.map(|table| self.table(table)).collect();
        let actions = visible.actions.iter();
        info.actions = actions.map(|action| self.action(action)).collect();
        self.add_objects(&mut info);
        let headers = visible.headers.iter();
        info.controller_packet_metadata = headers.map(|h| self.controller_header(h)).collect();
        let value_sets = self.flat.value_sets.iter();
        info.value_sets = value_sets.map(|v| self.value_set(v)).collect();
        for digest in &visible.digests {
            info.digests.push(Digest {
                preamble: self.preamble(Kind::Digest, &digest.name, &[], &[]),
                type_spec: Some(self.types.spec(&digest.ty)),
            });
        }
        info.type_info = self.types.into_info();
        info
    }

    /// Architecture, and what annotations of `main` say: `@pkginfo(name = "value")`,
    /// `@platform_property(name = number)` and others.
    fn package(&self) -> PkgInfo {
        let main = self.program.main;
        let list = main.map_or(&[][..], |id| &self.program.instances[id].annotations);
        self.check_keys(list, "pkginfo", &PACKAGE_PROPERTIES);
        self.check_keys(list, "platform_property", &PLATFORM_PROPERTIES);
        let [name, version, organization, contact, url] =
            PACKAGE_PROPERTIES.map(|key| match setting(list, "pkginfo", key) {
                Some(Value::Str(text)) => text.clone(),
                _ => String::new(),
            });
        let notes = Notes::of(list, &["hidden", "pkginfo", "platform_property"]);
        PkgInfo {
            name,
            version,
            arch: self.program.architecture.name().into(),
            organization,
            contact,
            url,
            annotations: notes.annotations,
            structured_annotations: notes.structured_annotations,
            doc: notes.doc,
            platform_properties: platform_properties(list),
            ..PkgInfo::default()
        }
    }

    /// Warns of keys that P4Info has no field for.
    fn check_keys(&self, list: &[Annotation], name: &str, known: &[&'static str]) {
        let Some(annotation) = annotations::find(list, name) else {
            return;
        };
        let keys = annotation.values.iter().filter_map(|v| v.key.as_deref());
        for key in keys.filter(|key| !known.contains(key)) {
            let message = format!("P4Info has no `{key}` for @{name}; it is ignored");
            let known = known.iter().copied();
            self.diagnostics.report(
                Diagnostic::warning("unknown-property", annotation.name.span, message)
                    .suggest(key, known),
            );
        }
    }

    /// The preamble of an object with these annotations, without those in `elsewhere`, for which it has other fields.
    fn preamble(
        &self,
        kind: Kind,
        name: &str,
        annotations: &[Annotation],
        elsewhere: &[&str],
    ) -> Option<Preamble> {
        let notes = Notes::of(annotations, elsewhere);
        Some(Preamble {
            id: self.symbols.id(kind, name),
            name: name.to_owned(),
            alias: self.symbols.alias(name).to_owned(),
            annotations: notes.annotations,
            structured_annotations: notes.structured_annotations,
            doc: notes.doc,
            ..Preamble::default()
        })
    }

    /// Numbers of keys, parameters or fields: what `@id` says, and small numbers for the rest, as p4c counts them.
    fn field_ids<'b>(&self, items: impl Iterator<Item = &'b [Annotation]>) -> Vec<u32> {
        let mut taken: Vec<u32> = Vec::new();
        let mut chosen = Vec::new();
        for list in items {
            let id = annotations::number(list, "id");
            if let (Some(id), Some(annotation)) = (id, annotations::find(list, "id")) {
                if id == 0 || id > u32::MAX.into() || taken.contains(&saturated(id)) {
                    let message = format!("@id({id}) is taken, or not between 1 and {}", u32::MAX);
                    self.diagnostics.report(Diagnostic::error(
                        "bad-id",
                        annotation.name.span,
                        message,
                    ));
                }
                taken.push(saturated(id));
            }
            chosen.push(id.map(saturated));
        }
        let mut next = 1;
        let mut number = |id: Option<u32>| match id {
            Some(id) => {
                next += 1;
                id
            }
            None => {
                while taken.contains(&next) {
                    next += 1;
                }
                taken.push(next);
                next
            }
        };
        chosen.into_iter().map(&mut number).collect()
    }
}

fn match_type(kind: &str) -> Option<MatchType> {
    Some(match kind {
        "exact" => MatchType::Exact,
        "lpm" => MatchType::Lpm,
        "ternary" => MatchType::Ternary,
        "range" => MatchType::Range,
        "optional" => MatchType::Optional,
        _ => return None,
    })
}

fn constant_bytes(expr: &Expr) -> Option<Vec<u8>> {
    match expr.as_value()? {
        Value::Int(value) => Some(bytes(value, expr.ty.width()?)),
        Value::Bool(value) => Some(vec![u8::from(*value)]),
        _ => None,
    }
}

/// The number, or the largest that the field takes.
fn saturated<N: Into<u64>, T: TryFrom<u64> + Bounded>(number: N) -> T {
    T::try_from(number.into()).unwrap_or(T::max_value())
}

fn platform_properties(list: &[Annotation]) -> Option<PlatformProperties> {
    annotations::find(list, "platform_property")?;
    let [size, total, each] =
        PLATFORM_PROPERTIES.map(|key| match setting(list, "platform_property", key) {
            Some(Value::Int(number)) => number.to_u64().map_or(0, saturated),
            _ => 0,
        });
    Some(PlatformProperties {
        multicast_group_table_size: size,
        multicast_group_table_total_replicas: total,
        multicast_group_table_max_replicas_per_entry: each,
    })
}

/// The value of `key` in `@annotation(key = value)`.
fn setting<'a>(list: &'a [Annotation], annotation: &str, key: &str) -> Option<&'a Value> {
    let values = &annotations::find(list, annotation)?.values;
    let found = values.iter().find(|v| v.key.as_deref() == Some(key))?;
    Some(&found.value)
}
