//! Table entries.

use ebb_units::Instant;

use super::{
    ControlError, CounterValue, EntryView, MatchKey, MeterConfig, Result, TableAction, TableEntry,
};
use crate::table::{DefaultEntry, Entry, Table};
use crate::{EntryId, Pipeline, TableId};

impl Pipeline {
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
        t.insert(entry, action, now, false)
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
        t.hot[slot as usize].action = action;
        if let Some(e) = &mut t.entries[slot as usize] {
            e.entry = entry;
            e.last_hit = now;
        }
        Ok(EntryId(slot))
    }

    pub fn delete_entry(&mut self, table: TableId, key: &[MatchKey], priority: i32) -> Result<()> {
        self.check_mutable(table)?;
        let t = &mut self.state.tables[table.index()];
        let slot = t.find(key, priority)?;
        t.remove(slot);
        Ok(())
    }

    pub fn entry(&self, table: TableId, key: &[MatchKey], priority: i32) -> Result<EntryView<'_>> {
        let slot = self.state.tables[table.index()].find(key, priority)?;
        self.entry_by_id(table, EntryId(slot))
    }

    pub fn entry_by_id(&self, table: TableId, entry: EntryId) -> Result<EntryView<'_>> {
        let t = &self.state.tables[table.index()];
        match t.entries.get(entry.index()) {
            Some(Some(e)) => Ok(view(t, entry, e)),
            _ => Err(ControlError::not_found(
                "table entry",
                format!("{}#{}", t.spec.name, entry.0),
            )),
        }
    }

    /// In order of insertion.
    pub fn entries(&self, table: TableId) -> impl Iterator<Item = EntryView<'_>> + '_ {
        let t = &self.state.tables[table.index()];
        t.ordered().into_iter().map(|(id, e)| view(t, id, e))
    }

    /// `None` sets the program's default again.
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

    /// `None`: no default action, a miss does nothing.
    pub fn default_entry(&self, table: TableId) -> Option<&TableAction> {
        let t = &self.state.tables[table.index()];
        t.default.as_ref().map(|d| &d.action)
    }

    pub fn set_entry_counter(
        &mut self,
        table: TableId,
        key: &[MatchKey],
        priority: i32,
        value: CounterValue,
    ) -> Result<()> {
        let t = &mut self.state.tables[table.index()];
        if !t.spec.with_counter {
            return Err(ControlError::invalid(
                format!("table {}", t.spec.name),
                "it has no direct counter",
            ));
        }
        let slot = t.find(key, priority)?;
        t.hot[slot as usize].counter = value;
        Ok(())
    }

    /// `None`: every packet is green.
    pub fn set_entry_meter(
        &mut self,
        now: Instant,
        table: TableId,
        key: &[MatchKey],
        priority: i32,
        config: Option<MeterConfig>,
    ) -> Result<()> {
        super::state::check_meter(config)?;
        let t = &mut self.state.tables[table.index()];
        if t.spec.meter.is_none() {
            return Err(ControlError::invalid(
                format!("table {}", t.spec.name),
                "it has no direct meter",
            ));
        }
        let slot = t.find(key, priority)?;
        if let Some(e) = &mut t.entries[slot as usize] {
            e.meter.configure(config, now);
        }
        Ok(())
    }

    /// Entries that were not hit for their idle timeout.
    pub fn idle_entries(&self, now: Instant) -> Vec<(TableId, EntryId)> {
        let mut idle = Vec::new();
        for (i, t) in self.state.tables.iter().enumerate() {
            if t.spec.support_timeout {
                for (id, e) in t.ordered() {
                    if e.entry
                        .idle_timeout
                        .is_some_and(|timeout| now.since(e.last_hit) >= timeout)
                    {
                        idle.push((TableId(i as u32), id));
                    }
                }
            }
        }
        idle
    }

    fn check_mutable(&self, table: TableId) -> Result<()> {
        let spec = &self.state.tables[table.index()].spec;
        if spec.is_const {
            return Err(ControlError::Const {
                name: format!("the entries of table {}", spec.name),
            });
        }
        Ok(())
    }
}

fn check_timeout(t: &Table, entry: &TableEntry) -> Result<()> {
    if entry.idle_timeout.is_some() && !t.spec.support_timeout {
        return Err(ControlError::invalid(
            format!("table {}", t.spec.name),
            "it does not support idle timeouts; declare `support_timeout = true` in P4",
        ));
    }
    Ok(())
}

fn view<'a>(t: &'a Table, id: EntryId, e: &'a Entry) -> EntryView<'a> {
    EntryView {
        id,
        entry: &e.entry,
        is_const: e.is_const,
        counter: t.hot[id.index()].counter,
        meter: e.meter.config(),
        last_hit: e.last_hit,
    }
}
