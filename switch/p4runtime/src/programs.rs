//! Programs that switches have loaded. Those of a fabric load the same one, each through its own
//! endpoint; it is compiled, indexed and kept once.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};

use ebb_bmv2_json as json;
use ebb_bmv2_json::{FieldWidth, HeaderType};
use ebb_pipeline::control::MatchKind;
use ebb_pipeline::{ActionId, DigestId, Pipeline, Program};
use prost::Message;

use crate::entities::{CellType, Plans, action_of, match_kind, plans};
use crate::error::{EntityError, Result};
use crate::lock::lock;
use crate::p4info::{Index, Object};
use crate::proto::config::{self, ControllerPacketMetadata, P4Info, P4NamedType};
use crate::proto::p4::ForwardingPipelineConfig;

/// A P4Info and a device configuration that belong together. Nothing in it changes.
pub struct Loaded {
    /// The config without its cookie, which is not the program's.
    pub config: ForwardingPipelineConfig,
    pub info: Index,
    /// The P4Info's ids of the pipeline's digests.
    pub digests: HashMap<DigestId, u32>,
    pub program: Arc<Program>,
    pub plans: Plans,
}

/// The programs of all switches of a server. One that no switch has any more is forgotten.
#[derive(Default)]
pub struct Programs {
    interpreted: bool,
    loaded: Mutex<Vec<Weak<Loaded>>>,
}

impl Programs {
    /// `interpreted`: without native code.
    pub fn new(interpreted: bool) -> Self {
        Self {
            interpreted,
            loaded: Mutex::default(),
        }
    }

    /// Loads a config unless it is there. Other requests for the same one wait meanwhile.
    pub fn load(&self, mut config: ForwardingPipelineConfig) -> Result<Arc<Loaded>> {
        config.cookie = None;
        let mut all = lock(&self.loaded);
        all.retain(|loaded| loaded.strong_count() > 0);
        let mut present = all.iter().filter_map(Weak::upgrade);
        if let Some(same) = present.find(|loaded| loaded.config == config) {
            return Ok(same);
        }
        let loaded = Arc::new(Loaded::new(config, self.interpreted)?);
        all.push(Arc::downgrade(&loaded));
        Ok(loaded)
    }
}

impl Loaded {
    fn new(config: ForwardingPipelineConfig, interpreted: bool) -> Result<Self> {
        let empty = P4Info::default();
        let mut info = Index::new(config.p4info.as_ref().unwrap_or(&empty))?;
        let program = compile(&config.p4_device_config, &mut info, interpreted)?;
        let pipeline = Pipeline::new(program.clone());
        complete_widths(&mut info, &pipeline);
        // The compiler leaves a profile that no table has out of the JSON.
        let profiles = &mut info.action_profiles;
        profiles.retain(|_, p| !p.table_ids.is_empty() || pipeline.profile(p.name()).is_ok());
        check(&info, &pipeline)?;
        let plans = plans(&info, &pipeline)?;
        let digests = info.digests.values().flat_map(|digest| {
            let lists = pipeline.digests(digest.name());
            lists.map(|list| (list, digest.id()))
        });
        Ok(Self {
            digests: digests.collect(),
            info,
            config,
            program,
            plans,
        })
    }
}

/// The older wrapper that the P4 tutorials still send around the JSON (p4.tmp.P4DeviceConfig).
#[derive(Clone, PartialEq, Message)]
struct P4DeviceConfig {
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

fn compile(device_config: &[u8], info: &mut Index, interpreted: bool) -> Result<Arc<Program>> {
    let starts_as_json = |bytes: &[u8]| bytes.trim_ascii_start().first() == Some(&b'{');
    let wrapped = P4DeviceConfig::decode(device_config).ok();
    let json = match wrapped {
        _ if starts_as_json(device_config) => device_config,
        Some(ref wrapper) if starts_as_json(&wrapper.device_data) => &wrapper.device_data,
        _ => {
            let size = device_config.len();
            return Err(EntityError::invalid(format!(
                "p4_device_config ({size} bytes) is not BMv2 JSON; give the .json file that \
                 ebb-p4c or p4c-bm2-ss wrote"
            )));
        }
    };
    let mut program: json::Program = serde_json::from_slice(json)
        .map_err(|e| EntityError::invalid(format!("p4_device_config is not BMv2 JSON: {e}")))?;
    mark_preinitialized(&mut program, info);
    for header in [&mut info.packet_in, &mut info.packet_out] {
        take_widths(header, &program.header_types);
    }
    let load = if interpreted {
        Program::load_interpreted
    } else {
        Program::load
    };
    load(&program)
        .map_err(|e| EntityError::invalid(format!("p4_device_config cannot be loaded: {e}")))
}

/// The JSON of p4c-bm2-ss does not tell `entries` from `const entries`; the P4Info does (spec,
/// "Preinitialized tables"). Neither says which entries of the former are const, so none is.
fn mark_preinitialized(program: &mut json::Program, info: &Index) {
    let const_tables = info.tables.values().filter(|t| t.is_const_table);
    let const_tables: HashSet<&str> = const_tables.map(Object::name).collect();
    let known: HashSet<&str> = info.tables.values().map(Object::name).collect();
    let tables = program.pipelines.iter_mut().flat_map(|p| &mut p.tables);
    for table in tables {
        let name = table.name.as_str();
        if const_tables.contains(name) || !known.contains(name) {
            continue;
        }
        match &mut table.entries {
            Some(entries) if entries.is_empty() => table.entries = None,
            entries => {
                for entry in entries.iter_mut().flatten() {
                    entry.is_const.get_or_insert(false);
                }
            }
        }
    }
}

/// Gives the fields of a controller header their widths in packets. For a translated type the P4Info has the
/// controller's width. The header is found by its fields, as the JSON does not say which is the controller's.
fn take_widths(header: &mut Option<ControllerPacketMetadata>, types: &[HeaderType]) {
    let fields = header.iter_mut().flat_map(|header| &mut header.metadata);
    let mut fields: Vec<_> = fields.collect();
    let same = |kind: &&HeaderType| {
        let names = kind.fields.iter().map(|f| &f.name);
        kind.fields.len() == fields.len() && names.eq(fields.iter().map(|f| &f.name))
    };
    let Some(found) = types.iter().find(same) else {
        return;
    };
    for (field, declared) in fields.iter_mut().zip(&found.fields) {
        if let FieldWidth::Bits(bits) = declared.width {
            field.bitwidth = bits as i32;
        }
    }
}

/// The P4Info gives no width to what is no number in P4: `error`, and enums without a type of their own. In the program
/// they are numbers, so a controller can write them as such.
fn complete_widths(info: &mut Index, pipeline: &Pipeline) {
    let types = &info.types.new_types;
    let complete = |width: &mut i32, kind: &Option<P4NamedType>, bits: u32| {
        // Another type that has no width is a string for controllers.
        let is_new = |kind: &P4NamedType| types.contains_key(&kind.name);
        if *width == 0 && !kind.as_ref().is_some_and(is_new) {
            *width = bits as i32;
        }
    };
    for table in info.tables.values_mut() {
        let Ok(id) = pipeline.table(table.name()) else {
            continue;
        };
        let keys = pipeline.table_info(id).key;
        for (field, key) in table.match_fields.iter_mut().zip(keys) {
            complete(&mut field.bitwidth, &field.type_name, key.bits);
        }
        for reference in &table.action_refs {
            let Some(action) = info.actions.get_mut(&reference.id) else {
                continue;
            };
            let Ok(found) = pipeline.table_action(id, action.name()) else {
                continue;
            };
            let has = pipeline.action_info(found).params;
            for (param, (_, bits)) in action.params.iter_mut().zip(has) {
                complete(&mut param.bitwidth, &param.type_name, bits);
            }
        }
    }
}

/// Whether the program has what the P4Info promises, as it does if both are of one compilation.
fn check(info: &Index, pipeline: &Pipeline) -> Result<()> {
    let missing = |kind: &str, name: &str, why: &dyn std::fmt::Display| {
        EntityError::invalid(format!(
            "P4Info and p4_device_config do not belong together: {kind} '{name}': {why}"
        ))
    };
    for t in info.tables.values() {
        check_table(info, pipeline, t).map_err(|e| missing("table", t.name(), &e))?;
    }
    if let Some(name) = unknown_table(info, pipeline) {
        let why = "the program has it, the P4Info does not; give the one of the same compilation";
        return Err(missing("table", name, &why));
    }
    macro_rules! check_names {
        ($($objects:ident by $find:ident),* $(,)?) => {$(
            for object in info.$objects.values() {
                pipeline
                    .$find(object.name())
                    .map_err(|e| missing(kind(object), object.name(), &e))?;
            }
        )*};
    }
    check_names!(
        action_profiles by profile,
        counters by counter,
        meters by meter,
        registers by register,
        digests by digest,
        value_sets by value_set,
    );
    check_arrays(info, pipeline).map_err(|e| {
        EntityError::invalid(format!(
            "P4Info and p4_device_config do not belong together: {}",
            e.message
        ))
    })
}

/// A table of the program that controllers should fill, and that an empty P4Info or that of another program lacks. One
/// that is `@hidden` is not in its P4Info either, but its actions are; those that the compiler makes have no key, or
/// entries of their own.
fn unknown_table<'a>(info: &Index, pipeline: &'a Pipeline) -> Option<&'a str> {
    let known: HashSet<&str> = info.tables.values().map(Object::name).collect();
    let actions: HashSet<&str> = info.actions.values().map(Object::name).collect();
    let is_named = |action: &ActionId| actions.contains(pipeline.action_info(*action).name);
    let mut tables = pipeline.tables().map(|id| pipeline.table_info(id));
    let found = tables.find(|table| {
        let is_filled = !table.key.is_empty() && !table.is_const;
        is_filled && !known.contains(table.name) && !table.actions.iter().all(is_named)
    });
    found.map(|table| table.name)
}

/// Whether arrays have the cells that the P4Info promises, and registers its width.
fn check_arrays(info: &Index, pipeline: &Pipeline) -> Result<()> {
    let enough = |kind: &str, name: &str, promised: i64, there: u64| match promised > there as i64 {
        false => Ok(()),
        true => Err(EntityError::invalid(format!(
            "{kind} '{name}' has {promised} cells in the P4Info, {there} in the JSON"
        ))),
    };
    for c in info.counters.values() {
        let there = pipeline.counter_size(pipeline.counter(c.name())?);
        enough("counter", c.name(), c.size, there)?;
    }
    for m in info.meters.values() {
        let there = pipeline.meter_size(pipeline.meter(m.name())?);
        enough("meter", m.name(), m.size, there)?;
    }
    for r in info.registers.values() {
        let id = pipeline.register(r.name())?;
        enough(
            "register",
            r.name(),
            r.size.into(),
            pipeline.register_size(id),
        )?;
        // Nothing is read or written of other types than numbers.
        let bits = pipeline.register_bits(id) as usize;
        if let Ok(promised) = CellType::of(info, r).map(|ty| ty.width())
            && promised != bits
        {
            return Err(EntityError::invalid(format!(
                "register '{}' has {promised} bits in the P4Info, {bits} in the JSON",
                r.name()
            )));
        }
    }
    Ok(())
}

fn kind<T: Object>(_: &T) -> &'static str {
    T::KIND
}

fn check_table(info: &Index, pipeline: &Pipeline, table: &config::Table) -> Result<()> {
    let id = pipeline.table(table.name())?;
    let has = pipeline.table_info(id);
    if has.key.len() != table.match_fields.len() {
        return Err(EntityError::invalid(format!(
            "{} match fields in the P4Info, {} in the JSON",
            table.match_fields.len(),
            has.key.len()
        )));
    }
    for (field, key) in table.match_fields.iter().zip(&has.key) {
        let fits = key.kind == match_kind(field)? || key.kind == MatchKind::Valid;
        let same_width = key.bits as i32 == field.bitwidth || field.type_name.is_some();
        if !fits || !same_width {
            return Err(EntityError::invalid(format!(
                "match field '{}' has {} bits in the P4Info; the JSON has '{}', {:?}, {} bits",
                field.name, field.bitwidth, key.name, key.kind, key.bits
            )));
        }
    }
    for reference in &table.action_refs {
        let action = info.action(reference.id)?;
        check_action(pipeline, action, action_of(pipeline, id, action.name())?)?;
    }
    Ok(())
}

fn check_action(pipeline: &Pipeline, action: &config::Action, id: ActionId) -> Result<()> {
    let has = pipeline.action_info(id).params;
    let widths: Vec<_> = action.params.iter().map(|p| p.bitwidth).collect();
    let found: Vec<_> = has.iter().map(|(_, bits)| *bits as i32).collect();
    let translated = action.params.iter().any(|p| p.type_name.is_some());
    if widths.len() != found.len() || (widths != found && !translated) {
        return Err(EntityError::invalid(format!(
            "action '{}' has parameters of {widths:?} bits in the P4Info, of {found:?} in the JSON",
            action.name()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ebb_bmv2_json::FieldDecl;

    use super::*;
    use crate::fixture;
    use crate::proto::config::controller_packet_metadata::Metadata;
    use crate::proto::p4::forwarding_pipeline_config::Cookie;

    fn config(cookie: u64) -> ForwardingPipelineConfig {
        ForwardingPipelineConfig {
            cookie: Some(Cookie { cookie }),
            ..fixture::compiled("entities").pipeline_config()
        }
    }

    /// The error of a program whose P4Info was changed.
    fn load_with(change: impl FnOnce(&mut P4Info)) -> Option<String> {
        let mut config = config(1);
        change(config.p4info.as_mut().unwrap());
        let error = Programs::default().load(config).err()?;
        Some(error.message)
    }

    #[test]
    fn the_p4info_of_another_program_lacks_a_table() {
        let lacks = |name: &str| {
            Some(format!(
                "P4Info and p4_device_config do not belong together: table '{name}': the program has it, the P4Info \
                 does not; give the one of the same compilation"
            ))
        };
        let empty = load_with(|info| *info = P4Info::default());
        assert_eq!(empty, lacks("MyIngress.source"));
        let older = |info: &mut P4Info| {
            info.tables.retain(|t| t.name() != "MyIngress.source");
            info.actions.retain(|a| a.name() != "MyIngress.learn");
        };
        assert_eq!(load_with(older), lacks("MyIngress.source"));
        // As of a table that is @hidden.
        let hidden = |info: &mut P4Info| info.tables.retain(|t| t.name() != "MyIngress.source");
        assert_eq!(load_with(hidden), None);
    }

    #[test]
    fn the_same_program_is_there_once_and_goes_with_its_last_user() {
        let programs = Programs::default();
        let first = programs.load(config(1)).unwrap();
        let second = programs.load(config(2)).unwrap();
        assert!(Arc::ptr_eq(&first, &second), "only the cookie differs");
        let mut other = config(1);
        other.p4_device_config.push(b'\n');
        let other = programs.load(other).unwrap();
        assert!(!Arc::ptr_eq(&first, &other));
        let program = Arc::downgrade(&first.program);
        drop((first, second));
        assert_eq!(program.strong_count(), 0, "the cache keeps it");
        assert!(programs.load(config(1)).is_ok());
    }

    #[test]
    fn what_cannot_be_loaded_is_not_kept() {
        let programs = Programs::default();
        for _ in 0..2 {
            let error = programs.load(ForwardingPipelineConfig::default());
            assert!(error.is_err_and(|e| e.message.contains("is not BMv2 JSON")));
        }
    }

    #[test]
    fn a_digest_has_all_learn_lists_of_its_name() {
        let mut config = config(1);
        let mut json: serde_json::Value = serde_json::from_slice(&config.p4_device_config).unwrap();
        let lists = json["learn_lists"].as_array_mut().unwrap();
        let mut second = lists[0].clone();
        second["id"] = 2.into();
        lists.push(second);
        config.p4_device_config = serde_json::to_vec(&json).unwrap();
        let digest = config::Digest {
            preamble: Some(config::Preamble {
                id: 0x1700_0001,
                name: "learned_t".into(),
                ..config::Preamble::default()
            }),
            ..config::Digest::default()
        };
        config.p4info.as_mut().unwrap().digests = vec![digest];
        let loaded = Programs::default().load(config).unwrap();
        assert_eq!(loaded.digests.len(), 2);
        assert!(loaded.digests.values().all(|id| *id == 0x1700_0001));
    }

    fn header(fields: &[(&str, i32)]) -> Option<ControllerPacketMetadata> {
        let field = |(name, bitwidth): &(&str, i32)| Metadata {
            name: (*name).to_owned(),
            bitwidth: *bitwidth,
            ..Default::default()
        };
        Some(ControllerPacketMetadata {
            metadata: fields.iter().map(field).collect(),
            ..Default::default()
        })
    }

    fn kind(fields: &[(&str, u32)]) -> HeaderType {
        let fields = fields.iter();
        HeaderType {
            fields: fields
                .map(|(name, bits)| FieldDecl::bits(*name, *bits, false))
                .collect(),
            ..Default::default()
        }
    }

    #[test]
    fn a_translated_port_is_as_wide_as_in_packets() {
        let types = [
            kind(&[("port", 16)]),
            kind(&[("port", 9), ("pad", 7)]),
            kind(&[("pad", 7), ("port", 9)]),
        ];
        let mut found = header(&[("port", 32), ("pad", 7)]);
        take_widths(&mut found, &types);
        assert_eq!(found, header(&[("port", 9), ("pad", 7)]));
    }

    #[test]
    fn a_header_that_the_program_does_not_have_keeps_its_widths() {
        let mut none = None;
        take_widths(&mut none, &[kind(&[])]);
        assert_eq!(none, None);
        let mut other = header(&[("port", 32)]);
        take_widths(&mut other, &[kind(&[("port", 9), ("pad", 7)])]);
        assert_eq!(other, header(&[("port", 32)]));
    }
}
