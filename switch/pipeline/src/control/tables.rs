//! Table entries, with their direct counters and meters.

use ebb_units::Instant;

use super::profiles::unbind;
use super::{
    ControlError, CounterValue, EntryView, MatchKey, MeterConfig, MeterCounts, Result, TableAction,
    TableEntry,
};
use crate::profile::Resolved;
use crate::stateful::Meter;
use crate::table::{DefaultEntry, Entry, Table};
use crate::{EntryId, Pipeline, TableId};

impl Pipeline {
    /// Adds an entry to a table.
    pub fn insert_entry(
        &mut self,
        now: Instant,
        table: TableId,
        entry: TableEntry,
    ) -> Result<EntryId> {
        self.check_mutable(table)?;
        let action = self.resolve(table, &entry.action)?;
        let t = &mut self.state.tables[table.index()];
        check_timeout(t, &entry)?;
        if t.spec.key.is_empty() {
            return Err(ControlError::invalid(
                format!("table {}", t.spec.name),
                "it has no key; set its default action instead",
            ));
        }
        let id = t.insert(entry, action, now, false)?;
        let blueprint = &self.program.blueprint;
        for &(_, number) in blueprint
            .direct_registers
            .iter()
            .filter(|(t, _)| *t == table)
        {
            let spec = &blueprint.registers[number];
            let first = &mut self.state.registers;
            let others = self.state.tofino.other_pipes.iter_mut();
            for pipe in [first].into_iter().chain(others) {
                pipe.arrays[number].reset(spec, id.index() as u32);
            }
        }
        for &(_, number) in blueprint.direct_filters.iter().filter(|(t, _)| *t == table) {
            self.state.filters[number].reset(id.index());
        }
        Ok(id)
    }

    /// Sets the bits of each key field that an exact table without entries compares, as big-endian bytes. Of the keys
    /// of its entries the other bits count as 0.
    pub fn set_key_masks(&mut self, table: TableId, masks: &[Vec<u8>]) -> Result<()> {
        if self.program.tofino().is_none() {
            return Err(ControlError::invalid(
                format!("table {}", self.state.tables[table.index()].spec.name),
                "keys of programs for Tofino have masks, not those of v1model",
            ));
        }
        self.state.tables[table.index()].set_masks(masks)
    }

    /// The bits of each key field that a table compares, as big-endian bytes.
    pub fn key_masks(&self, table: TableId) -> Vec<Vec<u8>> {
        self.state.tables[table.index()].masks()
    }

    /// Replaces action, idle timeout and metadata of the entry with the same key and priority.
    pub fn modify_entry(
        &mut self,
        now: Instant,
        table: TableId,
        entry: TableEntry,
    ) -> Result<EntryId> {
        self.check_mutable(table)?;
        let action = self.resolve(table, &entry.action)?;
        let t = &mut self.state.tables[table.index()];
        check_timeout(t, &entry)?;
        let slot = t.find(&entry.key, entry.priority)?;
        check_changeable(t, slot)?;
        t.hot[slot as usize].action = action;
        if let Some(e) = &mut t.entries[slot as usize] {
            e.set_extra(entry);
            e.last_hit = now;
        }
        Ok(EntryId(slot))
    }

    /// Deletes the entry with this key and priority.
    pub fn delete_entry(
        &mut self,
        table: TableId,
        key: &[MatchKey],
        priority: i32,
    ) -> Result<EntryId> {
        self.check_mutable(table)?;
        let t = &mut self.state.tables[table.index()];
        let slot = t.find(key, priority)?;
        check_changeable(t, slot)?;
        t.remove(slot);
        Ok(EntryId(slot))
    }

    /// The entry with this key and priority.
    pub fn entry(&self, table: TableId, key: &[MatchKey], priority: i32) -> Result<EntryView> {
        let slot = self.state.tables[table.index()].find(key, priority)?;
        self.entry_by_id(table, EntryId(slot))
    }

    /// The entry with this handle.
    pub fn entry_by_id(&self, table: TableId, entry: EntryId) -> Result<EntryView> {
        let t = &self.state.tables[table.index()];
        match t.entries.get(entry.index()) {
            Some(Some(e)) => Ok(self.view(t, entry, e)),
            _ => Err(no_entry(&t.spec.name, entry)),
        }
    }

    /// All entries, in the order of insertion.
    pub fn entries(&self, table: TableId) -> impl Iterator<Item = EntryView> + '_ {
        let t = &self.state.tables[table.index()];
        t.ordered().into_iter().map(|(id, e)| self.view(t, id, e))
    }

    /// All entries from one on (`None`: from the first), in the order in which they are stored.
    pub fn entries_from(
        &self,
        table: TableId,
        first: Option<EntryId>,
    ) -> impl Iterator<Item = EntryView> + '_ {
        let t = &self.state.tables[table.index()];
        let first = first.map_or(0, EntryId::index);
        let slots = t.entries.iter().enumerate().skip(first);
        slots.filter_map(move |(slot, e)| Some(self.view(t, EntryId(slot as u32), e.as_ref()?)))
    }

    /// Sets the default action; `None` sets the one of the program again.
    pub fn set_default_entry(&mut self, table: TableId, action: Option<TableAction>) -> Result<()> {
        let spec = &self.state.tables[table.index()].spec;
        if spec.const_default_entry {
            return Err(ControlError::Const {
                name: format!("the default action of table {}", spec.name),
            });
        }
        if let (Some(fixed), Some(TableAction::Direct(call))) = (spec.const_default_action, &action)
            && call.action != fixed
        {
            return Err(ControlError::Const {
                name: format!("the default action of table {}", spec.name),
            });
        }
        let default = match action {
            None => self.state.tables[table.index()].program_default.clone(),
            Some(action) => Some(DefaultEntry {
                resolved: self.resolve(table, &action)?,
                action,
            }),
        };
        self.state.tables[table.index()].default = default;
        Ok(())
    }

    /// The default action; `None` if there is none, and a miss does nothing.
    pub fn default_entry(&self, table: TableId) -> Option<&TableAction> {
        let t = &self.state.tables[table.index()];
        t.default.as_ref().map(|d| &d.action)
    }

    /// The direct counter of an entry; `None` stands for the default entry, which counts the
    /// packets that miss.
    pub fn entry_counter(&self, table: TableId, entry: Option<EntryId>) -> CounterValue {
        let t = &self.state.tables[table.index()];
        match entry {
            None => t.default_counter,
            Some(entry) => t
                .hot
                .get(entry.index())
                .map_or_else(Default::default, |h| h.counter),
        }
    }

    /// Sets the counter that [`entry_counter`](Self::entry_counter) reads.
    pub fn set_entry_counter(
        &mut self,
        table: TableId,
        entry: Option<EntryId>,
        value: CounterValue,
    ) -> Result<()> {
        let t = &mut self.state.tables[table.index()];
        if !t.spec.with_counter {
            return Err(ControlError::invalid(
                format!("table {}", t.spec.name),
                "it has no direct counter",
            ));
        }
        match entry {
            None => t.default_counter = value,
            Some(entry) => match t.hot.get_mut(entry.index()) {
                Some(hot) => hot.counter = value,
                None => return Err(no_entry(&t.spec.name, entry)),
            },
        }
        Ok(())
    }

    /// The direct meter of an entry: its configuration and the packets by colour. `None` stands for
    /// the default entry.
    pub fn entry_meter(
        &self,
        table: TableId,
        entry: Option<EntryId>,
    ) -> (Option<MeterConfig>, MeterCounts) {
        let t = &self.state.tables[table.index()];
        let meter = match entry {
            None => Some(&t.default_meter),
            Some(entry) => t
                .entries
                .get(entry.index())
                .and_then(|e| e.as_ref()?.meter.as_deref()),
        };
        meter.map_or_else(Default::default, |m| (m.config(), m.counts()))
    }

    /// Configures the direct meter of an entry; without `config` every packet is green.
    pub fn set_entry_meter(
        &mut self,
        now: Instant,
        table: TableId,
        entry: Option<EntryId>,
        config: Option<MeterConfig>,
    ) -> Result<()> {
        super::state::check_meter(config)?;
        self.direct_meter(table, entry)?.configure(config, now);
        Ok(())
    }

    /// Sets how many packets the direct meter of an entry has coloured.
    pub fn set_entry_meter_counts(
        &mut self,
        table: TableId,
        entry: Option<EntryId>,
        counts: MeterCounts,
    ) -> Result<()> {
        self.direct_meter(table, entry)?.set_counts(counts);
        Ok(())
    }

    fn direct_meter(&mut self, table: TableId, entry: Option<EntryId>) -> Result<&mut Meter> {
        let t = &mut self.state.tables[table.index()];
        let name = &t.spec.name;
        if t.spec.meter.is_none() {
            let owner = format!("table {name}");
            return Err(ControlError::invalid(owner, "it has no direct meter"));
        }
        let Some(entry) = entry else {
            return Ok(&mut t.default_meter);
        };
        let found = t.entries.get_mut(entry.index()).and_then(Option::as_mut);
        let meter = found.and_then(|e| e.meter.as_deref_mut());
        meter.ok_or_else(|| no_entry(name, entry))
    }

    /// Whether the entry is constant in the program.
    pub fn is_const_entry(&self, table: TableId, entry: EntryId) -> bool {
        let entries = &self.state.tables[table.index()].entries;
        let entry = entries.get(entry.index()).and_then(Option::as_ref);
        entry.is_some_and(|e| e.is_const)
    }

    /// The entry with this key and priority.
    pub fn find_entry(&self, table: TableId, key: &[MatchKey], priority: i32) -> Result<EntryId> {
        let slot = self.state.tables[table.index()].find(key, priority)?;
        Ok(EntryId(slot))
    }

    /// Entries that were not hit during their idle timeout. Each comes again after each further
    /// timeout.
    pub fn take_idle_entries(&mut self, now: Instant) -> Vec<(TableId, EntryId)> {
        let mut idle = Vec::new();
        for i in 0..self.state.tables.len() {
            if !self.state.tables[i].spec.support_timeout {
                continue;
            }
            let entries = &mut self.state.tables[i].entries;
            for (slot, entry) in entries.iter_mut().enumerate() {
                if entry.as_mut().is_some_and(|e| e.turns_idle(now)) {
                    idle.push((TableId(i as u32), EntryId(slot as u32)));
                }
            }
        }
        idle
    }

    /// Makes the time from one moment to another count for no idle timeout of a table; entries that were hit in between
    /// begin anew at its end. Those that were idle by a third moment stay idle.
    pub fn skip_idle_time(
        &mut self,
        table: TableId,
        (from, to): (Instant, Instant),
        idle_by: Instant,
    ) {
        let entries = self.state.tables[table.index()].entries.iter_mut();
        for entry in entries.flatten() {
            let is_idle = |timeout| idle_by.since(entry.last_hit) >= timeout;
            if entry.idle_timeout().is_none_or(is_idle) {
                continue;
            }
            entry.last_hit = match entry.last_hit < from {
                true => entry.last_hit + to.since(from),
                false => to,
            };
        }
    }

    /// Checks that the program lets the entries of a table change.
    fn check_mutable(&self, table: TableId) -> Result<()> {
        let spec = &self.state.tables[table.index()].spec;
        if spec.is_const {
            return Err(ControlError::Const {
                name: format!("the entries of table {}", spec.name),
            });
        }
        Ok(())
    }

    /// An entry as the control plane reads it.
    fn view(&self, t: &Table, id: EntryId, e: &Entry) -> EntryView {
        let hot = &t.hot[id.index()];
        let extra = e.extra.as_deref();
        let action = match &hot.action {
            Resolved::Action(bound) => TableAction::Direct(unbind(&self.program.actions, bound)),
            Resolved::Member(member) => TableAction::Member(*member),
            Resolved::Group(group) => TableAction::Group(*group),
            Resolved::Set(_) => TableAction::Set(extra.map_or_else(Vec::new, |x| x.set.clone())),
        };
        EntryView {
            id,
            entry: TableEntry {
                key: e.key.decompile(&t.spec.key),
                priority: e.priority,
                action,
                idle_timeout: e.idle_timeout(),
                metadata: extra.map_or_else(Vec::new, |x| x.metadata.clone()),
            },
            is_const: e.is_const,
            counter: hot.counter,
            meter: e.meter.as_ref().and_then(|m| m.config()),
            last_hit: e.last_hit,
        }
    }
}

fn no_entry(table: &str, entry: EntryId) -> ControlError {
    ControlError::not_found("table entry", format!("{table}#{}", entry.0))
}

/// Checks that an entry may change: even a table that is not constant may have constant entries.
fn check_changeable(t: &Table, slot: u32) -> Result<()> {
    match &t.entries[slot as usize] {
        Some(e) if e.is_const => Err(ControlError::Const {
            name: format!("this entry of table {}", t.spec.name),
        }),
        _ => Ok(()),
    }
}

/// Checks that the table supports an idle timeout, if the entry has one.
fn check_timeout(t: &Table, entry: &TableEntry) -> Result<()> {
    if entry.idle_timeout.is_some() && !t.spec.support_timeout {
        return Err(ControlError::invalid(
            format!("table {}", t.spec.name),
            "it does not support idle timeouts; declare `support_timeout = true` in P4",
        ));
    }
    Ok(())
}
