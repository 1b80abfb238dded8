//! From names to handles, and what the program says about its objects.

use std::sync::atomic::Ordering;

use std::collections::HashMap;

use crate::packet::Packet;
use crate::slot::Place;

use super::{ActionInfo, ControlError, KeyFieldInfo, Result, TableInfo};
use crate::{
    ActionId, CounterId, DigestId, FilterId, MeterId, PacketField, Pipeline, ProfileId, RegisterId,
    TableId, ValueSetId,
};

/// How both compilers call the user's metadata.
const USER_METADATA: &str = "scalars.userMetadata.";

/// The object of a kind that has this name.
fn find<T: Copy>(names: &HashMap<String, T>, kind: &'static str, name: &str) -> Result<T> {
    names
        .get(name)
        .copied()
        .ok_or_else(|| ControlError::not_found(kind, name))
}

impl Pipeline {
    /// The table with this name.
    pub fn table(&self, name: &str) -> Result<TableId> {
        find(&self.program.table_names, "table", name).map(TableId)
    }

    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = TableId> + '_ {
        (0..self.state.tables.len() as u32).map(TableId)
    }

    /// Properties of a table in the program.
    pub fn table_info(&self, table: TableId) -> TableInfo<'_> {
        let spec = &self.state.tables[table.index()].spec;
        TableInfo {
            name: &spec.name,
            key: spec
                .key
                .iter()
                .map(|f| KeyFieldInfo {
                    name: &f.name,
                    kind: f.kind,
                    bits: f.slot.bits,
                })
                .collect(),
            max_size: spec.max_size,
            actions: &spec.actions,
            profile: spec.profile,
            with_counter: spec.with_counter,
            meter: spec.meter.map(|m| m.unit),
            is_const: spec.is_const,
            support_timeout: spec.support_timeout,
            needs_priority: spec.needs_priority,
        }
    }

    /// The action with this name that the table has. p4c gives several actions one name, so the
    /// table matters.
    pub fn table_action(&self, table: TableId, name: &str) -> Result<ActionId> {
        self.action_among(&self.state.tables[table.index()].spec.actions, name)
    }

    fn action_among(&self, actions: &[ActionId], name: &str) -> Result<ActionId> {
        actions
            .iter()
            .copied()
            .find(|a| self.program.actions[a.index()].name == name)
            .ok_or_else(|| ControlError::not_found("action", name))
    }

    /// Properties of an action in the program.
    pub fn action_info(&self, action: ActionId) -> ActionInfo<'_> {
        let action = &self.program.actions[action.index()];
        ActionInfo {
            name: &action.name,
            params: action
                .params
                .iter()
                .map(|p| (p.name.as_str(), p.slot.bits))
                .collect(),
        }
    }

    /// The action profile with this name.
    pub fn profile(&self, name: &str) -> Result<ProfileId> {
        self.state
            .profiles()
            .iter()
            .position(|p| p.spec.name == name)
            .map(|i| ProfileId(i as u32))
            .ok_or_else(|| ControlError::not_found("action profile", name))
    }

    /// The name of an action profile.
    pub fn profile_name(&self, profile: ProfileId) -> &str {
        &self.state.profiles()[profile.index()].spec.name
    }

    /// The action with this name that the profile has.
    pub fn profile_action(&self, profile: ProfileId, name: &str) -> Result<ActionId> {
        self.action_among(&self.state.profiles()[profile.index()].spec.actions, name)
    }

    /// The counter array with this name.
    pub fn counter(&self, name: &str) -> Result<CounterId> {
        find(&self.program.names.counters, "counter", name).map(CounterId)
    }

    /// The meter array with this name.
    pub fn meter(&self, name: &str) -> Result<MeterId> {
        find(&self.program.names.meters, "meter", name).map(MeterId)
    }

    /// The field of packets with this name, and its width in bits: a field of the user's metadata
    /// (`rank`), or one with its header in front (`ipv4.identification`). It must fit into a word.
    pub fn packet_field(&self, name: &str) -> Result<(PacketField, u32)> {
        let layout = &self.program.layout;
        let own = layout.known(&format!("{USER_METADATA}{name}"));
        let slot = own.or_else(|| layout.known(name));
        let slot = slot.ok_or_else(|| ControlError::not_found("field", name))?;
        let place = Place::of(name, slot);
        let place = place.map_err(|e| ControlError::invalid("field", e.to_string()))?;
        // The program itself may never read it.
        self.state.sets_all.store(true, Ordering::Relaxed);
        Ok((PacketField(place), slot.bits))
    }

    /// The value of a field in a packet.
    #[inline]
    pub fn field_value(&self, packet: &Packet, field: PacketField) -> u64 {
        field.0.get(&packet.words)
    }

    /// The register array with this name.
    pub fn register(&self, name: &str) -> Result<RegisterId> {
        find(&self.program.names.registers, "register", name).map(|r| RegisterId(r.number))
    }

    /// The filter array with this name.
    pub fn filter(&self, name: &str) -> Result<FilterId> {
        find(&self.program.names.filters, "filter array", name).map(FilterId)
    }

    /// The parser value set with this name.
    pub fn value_set(&self, name: &str) -> Result<ValueSetId> {
        find(&self.program.value_set_names, "value set", name).map(ValueSetId)
    }

    /// The first learn list with this name.
    pub fn digest(&self, name: &str) -> Result<DigestId> {
        self.digests(name)
            .next()
            .ok_or_else(|| ControlError::not_found("digest", name))
    }

    /// All learn lists with this name: a digest that is sent from several places may have several.
    pub fn digests(&self, name: &str) -> impl Iterator<Item = DigestId> {
        let all = self.program.digests.iter().enumerate();
        all.filter(move |(_, d)| d.name == name)
            .map(|(i, _)| DigestId(i as u32))
    }
}
