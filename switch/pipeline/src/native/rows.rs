//! Small tables as arrays that generated code reads by itself: for every key, the action and its data.
//!
//! ```text
//!  Tables ─┬─ Table, Table, ..                      entries, defaults: what the control plane sees
//!          └─ View,  View,  ..  ──► Row[key]        the same for packets; none while out of date
//! ```
//!
//! Whoever takes a table to change it (`IndexMut`) takes its view away; the next packet asks the interpreter's
//! lookup, which makes a new one.

use std::ops::{Index, IndexMut};

use super::calls::NO_ACTION;
use ebb_units::Instant;

use crate::profile::{BoundAction, Resolved};
use crate::stateful::Meter;
use crate::table::{DirectMeter, Table, TableSpec};

/// What a key comes to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The action's number or [`NO_ACTION`] in the low half; 2^32: a hit.
    pub outcome: u64,
    pub data: *const u64,
}

/// One row for every key, or none.
#[repr(C)]
#[derive(Debug)]
pub(super) struct View {
    /// Null while there are none.
    pub rows: *const Row,
    memory: Vec<Row>,
}

// SAFETY: the pointers are to memory that the same `Tables` owns; who has the one has the other.
unsafe impl Send for View {}
// SAFETY: as above; reading it changes nothing.
unsafe impl Sync for View {}

/// The tables of a switch.
#[derive(Debug)]
pub(crate) struct Tables {
    tables: Vec<Table>,
    views: Vec<View>,
}

/// The key of a table whose entries are an array; 0 bits: no key.
pub(super) struct DirectKey {
    pub at: u32,
    pub mask: u64,
    pub bits: u32,
}

/// Wider keys would take too much memory.
const MAX_BITS: u32 = 10;

/// `Some` if rows say all there is to a table.
pub(super) fn direct_key(spec: &TableSpec) -> Option<DirectKey> {
    if spec.notes_hits() || spec.profile.is_some() {
        return None;
    }
    match spec.key.as_slice() {
        [] => Some(DirectKey {
            at: 0,
            mask: 0,
            bits: 0,
        }),
        [field] if field.slot.bits <= MAX_BITS => Some(DirectKey {
            at: field.slot.at,
            mask: field
                .mask
                .as_ref()
                .and_then(|m| m.last().copied())
                .unwrap_or(u64::MAX)
                & crate::bits::low_mask(field.slot.bits),
            bits: field.slot.bits,
        }),
        _ => None,
    }
}

impl Tables {
    pub fn new(tables: Vec<Table>) -> Tables {
        let view = |_: &Table| View {
            rows: std::ptr::null(),
            memory: Vec::new(),
        };
        Tables {
            views: tables.iter().map(view).collect(),
            tables,
        }
    }

    pub fn len(&self) -> usize {
        self.tables.len()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Table> {
        self.tables.iter()
    }

    /// As [`Table::hit`], which changes nothing that a view shows.
    #[inline]
    pub fn hit(
        &mut self,
        table: usize,
        words: &[u64],
        seen: (u64, Instant),
        key: &mut Vec<u64>,
        scratch: &mut Vec<u64>,
    ) -> Option<u32> {
        self.tables[table].hit(words, seen, key, scratch)
    }

    /// The direct meter of an entry.
    #[inline]
    pub fn meter(&mut self, table: usize, entry: u32) -> Option<(DirectMeter, &mut Meter)> {
        let table = &mut self.tables[table];
        let meter = table.meter?;
        let entry = table.entries[entry as usize].as_mut()?;
        Some((meter, &mut entry.meter))
    }

    pub(super) fn views(&self) -> *const View {
        self.views.as_ptr()
    }

    /// Makes the rows of a table that can have some.
    pub(super) fn refresh(&mut self, table: usize) {
        let (table, view) = (&self.tables[table], &mut self.views[table]);
        let Some(key) = direct_key(&table.spec) else {
            return;
        };
        let default = row(table.default.as_ref().map(|d| &d.resolved), 0);
        view.memory.clear();
        for key in 0..1u64 << key.bits {
            let entry = table.find_word(key);
            view.memory.push(match entry {
                Some(_) => row(table.action(entry), 1 << 32),
                None => default,
            });
        }
        view.rows = view.memory.as_ptr();
    }
}

impl Index<usize> for Tables {
    type Output = Table;

    fn index(&self, table: usize) -> &Table {
        &self.tables[table]
    }
}

impl IndexMut<usize> for Tables {
    fn index_mut(&mut self, table: usize) -> &mut Table {
        self.views[table].rows = std::ptr::null();
        &mut self.tables[table]
    }
}

fn row(resolved: Option<&Resolved>, hit: u64) -> Row {
    match resolved {
        Some(Resolved::Action(BoundAction { action, data })) => Row {
            outcome: u64::from(*action) | hit,
            data: data.as_ptr(),
        },
        // The others are for tables with a profile.
        _ => Row {
            outcome: u64::from(NO_ACTION),
            data: std::ptr::null(),
        },
    }
}
