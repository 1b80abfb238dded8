//! The P4Info of a pipeline, indexed by id, with errors that help people who mistyped an id.

use std::collections::BTreeMap;

use crate::error::{EntityError, Result};
use crate::p4_data::check_type;
use crate::proto::config::{self, P4Info, Preamble};

/// Most alternatives that an error lists.
const SUGGESTIONS: usize = 8;

/// A P4Info object with an id of its own.
pub trait Object {
    /// As in "the P4Info has no table with id ...".
    const KIND: &'static str;
    fn preamble(&self) -> Option<&Preamble>;

    fn id(&self) -> u32 {
        self.preamble().map_or(0, |p| p.id)
    }

    /// The fully qualified name, which is also that of the BMv2 JSON.
    fn name(&self) -> &str {
        self.preamble().map_or("", |p| p.name.as_str())
    }
}

macro_rules! objects {
    ($($type:ident => $kind:literal),* $(,)?) => {
        $(impl Object for config::$type {
            const KIND: &'static str = $kind;
            fn preamble(&self) -> Option<&Preamble> {
                self.preamble.as_ref()
            }
        })*
    };
}

objects! {
    Table => "table",
    Action => "action",
    ActionProfile => "action profile",
    Counter => "counter",
    DirectCounter => "direct counter",
    Meter => "meter",
    DirectMeter => "direct meter",
    Register => "register",
    Digest => "digest",
    ValueSet => "value set",
    ControllerPacketMetadata => "controller header",
}

/// Objects of one kind by id.
pub type Objects<T> = BTreeMap<u32, T>;

#[derive(Debug)]
pub struct Index {
    pub tables: Objects<config::Table>,
    pub actions: Objects<config::Action>,
    pub action_profiles: Objects<config::ActionProfile>,
    pub counters: Objects<config::Counter>,
    pub direct_counters: Objects<config::DirectCounter>,
    pub meters: Objects<config::Meter>,
    pub direct_meters: Objects<config::DirectMeter>,
    pub registers: Objects<config::Register>,
    pub digests: Objects<config::Digest>,
    pub value_sets: Objects<config::ValueSet>,
    pub packet_in: Option<config::ControllerPacketMetadata>,
    pub packet_out: Option<config::ControllerPacketMetadata>,
    pub types: config::P4TypeInfo,
    /// Kind and name of the object with each id.
    kinds: BTreeMap<u32, (&'static str, String)>,
}

impl Index {
    pub fn new(info: &P4Info) -> Result<Self> {
        let mut kinds = BTreeMap::new();
        let header = |name: &str| {
            let mut headers = info.controller_packet_metadata.iter();
            headers.find(|h| h.name() == name).cloned()
        };
        let index = Self {
            tables: objects(&info.tables, &mut kinds)?,
            actions: objects(&info.actions, &mut kinds)?,
            action_profiles: objects(&info.action_profiles, &mut kinds)?,
            counters: objects(&info.counters, &mut kinds)?,
            direct_counters: objects(&info.direct_counters, &mut kinds)?,
            meters: objects(&info.meters, &mut kinds)?,
            direct_meters: objects(&info.direct_meters, &mut kinds)?,
            registers: objects(&info.registers, &mut kinds)?,
            digests: objects(&info.digests, &mut kinds)?,
            value_sets: objects(&info.value_sets, &mut kinds)?,
            packet_in: header("packet_in"),
            packet_out: header("packet_out"),
            types: info.type_info.clone().unwrap_or_default(),
            kinds,
        };
        index.check_references()?;
        Ok(index)
    }

    pub fn table(&self, id: u32) -> Result<&config::Table> {
        self.find(&self.tables, id)
    }

    pub fn action(&self, id: u32) -> Result<&config::Action> {
        self.find(&self.actions, id)
    }

    pub fn action_profile(&self, id: u32) -> Result<&config::ActionProfile> {
        self.find(&self.action_profiles, id)
    }

    /// The object with this id. The error names an object of another kind that has it, or the nearest ids of this kind.
    pub fn find<'a, T: Object>(&self, objects: &'a Objects<T>, id: u32) -> Result<&'a T> {
        if let Some(object) = objects.get(&id) {
            return Ok(object);
        }
        let kind = T::KIND;
        if id == 0 {
            return Err(EntityError::invalid(format!("the {kind} id is not set")));
        }
        if let Some((other, name)) = self.kinds.get(&id) {
            return Err(EntityError::invalid(format!(
                "id {id} ({id:#010x}) is the {other} '{name}', not a {kind}"
            )));
        }
        Err(EntityError::not_found(format!(
            "the P4Info has no {kind} with id {id} ({id:#010x}); {}",
            alternatives(objects, id)
        )))
    }

    /// Checks the id of a read, where 0 selects all objects of the kind.
    pub fn check_filter<T: Object>(&self, objects: &Objects<T>, id: u32) -> Result<()> {
        match id {
            0 => Ok(()),
            id => self.find(objects, id).map(drop),
        }
    }

    pub fn direct_counter_of(&self, table: &config::Table) -> Option<&config::DirectCounter> {
        let mut ids = table.direct_resource_ids.iter();
        ids.find_map(|id| self.direct_counters.get(id))
    }

    pub fn direct_meter_of(&self, table: &config::Table) -> Option<&config::DirectMeter> {
        let mut ids = table.direct_resource_ids.iter();
        ids.find_map(|id| self.direct_meters.get(id))
    }

    /// Checks the references inside the P4Info, and widths: errors in them would surface much later, in a Write.
    fn check_references(&self) -> Result<()> {
        for table in self.tables.values() {
            let check = || {
                for action in &table.action_refs {
                    self.action(action.id)?;
                }
                if table.implementation_id != 0 {
                    self.action_profile(table.implementation_id)?;
                }
                check_fields(&table.match_fields)
            };
            check().map_err(|e| {
                EntityError::invalid(e.message).at(format!("P4Info, table '{}'", table.name()))
            })?;
        }
        for set in self.value_sets.values() {
            let place = || format!("P4Info, value set '{}'", set.name());
            check_fields(&set.r#match).map_err(|e| e.at(place()))?;
        }
        for action in self.actions.values() {
            let widths = action.params.iter().map(|p| (&p.name, p.bitwidth));
            let place = || format!("P4Info, action '{}'", action.name());
            check_widths("parameter", widths).map_err(|e| e.at(place()))?;
        }
        for header in [&self.packet_in, &self.packet_out].into_iter().flatten() {
            let widths = header.metadata.iter().map(|m| (&m.name, m.bitwidth));
            let place = || format!("P4Info, controller header '{}'", header.name());
            check_widths("metadata", widths).map_err(|e| e.at(place()))?;
        }
        for digest in self.digests.values() {
            let place = || format!("P4Info, digest '{}'", digest.name());
            check_type(digest.type_spec.as_ref(), &self.types).map_err(|e| e.at(place()))?;
        }
        Ok(())
    }
}

/// Most bits of a field, as in the pipeline. A field with 0 bits has a type that is translated to strings.
const MAX_BITS: i32 = 1 << 16;

fn check_widths<'a>(what: &str, widths: impl Iterator<Item = (&'a String, i32)>) -> Result<()> {
    let mut total = 0;
    for (name, bits) in widths {
        if !(0..=MAX_BITS).contains(&bits) {
            return Err(EntityError::invalid(format!(
                "{what} '{name}' has bitwidth {bits}; allowed: 0 to {MAX_BITS}"
            )));
        }
        total += i64::from(bits);
    }
    // The header of a packet-in or packet-out; no frame is longer.
    match total > i64::from(8 * MAX_BITS) {
        true => Err(EntityError::invalid(format!(
            "the bitwidths add up to {total}; allowed: up to {}",
            8 * MAX_BITS
        ))),
        false => Ok(()),
    }
}

fn check_fields(fields: &[config::MatchField]) -> Result<()> {
    if let Some(field) = fields.iter().find(|f| f.id == 0) {
        let name = &field.name;
        return Err(EntityError::invalid(format!("field '{name}' has id 0")));
    }
    check_widths("field", fields.iter().map(|f| (&f.name, f.bitwidth)))
}

fn objects<T: Object + Clone>(
    all: &[T],
    kinds: &mut BTreeMap<u32, (&'static str, String)>,
) -> Result<Objects<T>> {
    let mut map = Objects::new();
    for object in all {
        let (id, name) = (object.id(), object.name());
        if id == 0 || name.is_empty() {
            return Err(EntityError::invalid(format!(
                "P4Info: a {} without id or name ('{name}', id {id})",
                T::KIND
            )));
        }
        if let Some((kind, other)) = kinds.insert(id, (T::KIND, name.to_owned())) {
            return Err(EntityError::invalid(format!(
                "P4Info: id {id:#010x} is both the {kind} '{other}' and the {} '{name}'",
                T::KIND
            )));
        }
        map.insert(id, object.clone());
    }
    Ok(map)
}

/// A list of the objects, or of those with the nearest ids if there are many.
fn alternatives<T: Object>(objects: &Objects<T>, id: u32) -> String {
    let mut near: Vec<_> = objects.values().collect();
    if near.is_empty() {
        return "it has none at all".into();
    }
    near.sort_by_key(|o| (o.id().abs_diff(id), o.id()));
    let hidden = near.len().saturating_sub(SUGGESTIONS);
    near.truncate(SUGGESTIONS);
    let shown: Vec<_> = near
        .iter()
        .map(|o| format!("'{}' ({:#010x})", o.name(), o.id()))
        .collect();
    let more = match hidden {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!("nearest: {}{more}", shown.join(", "))
}

/// A list of valid names and ids, such as "'a' (1), 'b' (2)", for errors about parameters, fields and the like.
pub fn choices<'a>(items: impl Iterator<Item = (&'a str, u32)>) -> String {
    let list: Vec<_> = items.map(|(name, id)| format!("'{name}' ({id})")).collect();
    match list.is_empty() {
        true => "none".into(),
        false => list.join(", "),
    }
}
