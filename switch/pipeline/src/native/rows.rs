//! Tables as arrays that generated code reads by itself.
//!
//! ```text
//!  Tables ─┬─ Held,  Held,  ..  ────► Table         entries, defaults: what the control plane sees
//!          └─ View,  View,  ..  ─┬──► Row[key]      small keys: the action and its data for every key
//!                                └──► Memo[hash]    other keys of a word: those of the latest packets, and of entries
//!                                                   that have but one; each with the choices of its entry, of which
//!                                                   a selector takes one
//! ```
//!
//! Taking a table in order to change it (`IndexMut`), or its profile (`forget`), drops its view.
//! The next packets ask the interpreter's lookup, which makes a new one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use super::calls::{HIT, NO_ACTION};
use ebb_units::Instant;

use crate::ids::ProfileId;
use crate::profile::{BoundAction, Profile, Resolved};
use crate::stateful::Meter;
use crate::table::{DirectMeter, Table, TableSpec, WordHasher};

/// The result of a key.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The action's number or [`NO_ACTION`] in the low half, and perhaps [`HIT`].
    pub outcome: u64,
    /// The data of the action.
    pub data: *const u64,
}

/// The results of a key among which a selector chooses.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Choices {
    /// The rows.
    pub rows: *const Row,
    /// How many rows there are.
    pub count: u64,
    /// The memory of the rows.
    memory: Box<[Row]>,
}

impl From<Vec<Row>> for Choices {
    fn from(rows: Vec<Row>) -> Choices {
        let memory: Box<[Row]> = rows.into();
        Choices {
            rows: memory.as_ptr(),
            count: memory.len() as u64,
            memory,
        }
    }
}

/// Actions of which a selector chooses one, each listed as often as its weight says: a one-shot
/// set, or those of a group.
#[derive(Debug)]
pub(crate) struct ActionSet {
    actions: Box<[BoundAction]>,
    /// The results of a hit.
    choices: Choices,
}

// SAFETY: the pointers lead to `actions`, which does not change.
unsafe impl Send for ActionSet {}
// SAFETY: as above.
unsafe impl Sync for ActionSet {}

impl ActionSet {
    pub fn new(actions: Vec<BoundAction>) -> ActionSet {
        let actions: Box<[_]> = actions.into();
        let rows: Vec<Row> = actions.iter().map(|a| bound_row(a, HIT)).collect();
        let choices = rows.into();
        ActionSet { actions, choices }
    }

    pub fn actions(&self) -> &[BoundAction] {
        &self.actions
    }
}

/// Results of a lookup of one of the latest packets. Its slot is the hash of the key, or the one
/// beside it (`^ 1`), which lies in the same cache line.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Memo {
    /// The key, or [`NO_KEY`], which is none because keys have fewer than 64 bits.
    pub key: u64,
    /// Its results.
    pub choices: *const Choices,
}

/// Marks a slot without a key.
const NO_KEY: u64 = u64::MAX;

/// Bits of the hash of a key: twice as many slots as the table has entries, within these bounds.
/// The routes of a fat-tree with 1024 hosts then all have a slot.
const MEMO_BITS: std::ops::RangeInclusive<u32> = 8..=12;

/// Before all entries are remembered, one in this many must have been asked for. So tables that
/// change all the time are not walked through for every packet.
const ASKED_PART: usize = 16;

/// Factor of keys for their hash, which is the upper bits: 2^64 / golden ratio.
pub(super) const MEMO_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Parts of a table that generated code reads, if any.
#[repr(C)]
#[derive(Debug)]
pub(super) struct View {
    /// The row of each key; null while there are none.
    pub rows: *const Row,
    /// A memo for each hash; null while there are none.
    pub memos: *const Memo,
    /// How far the product is shifted right to leave the hash.
    pub memo_shift: u64,
    /// How the table is read.
    access: Access,
    /// How many packets found no memo.
    asked: usize,
    /// The memory of the rows.
    row_memory: Vec<Row>,
    /// The memory of the memos.
    memo_memory: Vec<Memo>,
    /// Results of the entries that packets have hit, without one-shot sets; `None` is the default
    /// action.
    entries: HashMap<Option<u32>, Box<Choices>, BuildHasherDefault<WordHasher>>,
    /// Actions of the members (false) and groups (true) that packets have hit.
    chosen: HashMap<(bool, u32), Box<ActionSet>, BuildHasherDefault<WordHasher>>,
}

// SAFETY: the pointers lead to memory that the same `Tables` owns or shares, so both move together.
unsafe impl Send for View {}
// SAFETY: as above, and reading changes nothing.
unsafe impl Sync for View {}

/// The tables of a switch, and what generated code sees of them.
#[derive(Debug)]
pub(crate) struct Tables {
    tables: Vec<Held>,
    views: Vec<View>,
}

/// A table of a switch. Most tables of a program are never changed.
#[derive(Debug)]
enum Held {
    /// As the program has it, for all of its switches.
    Shared(Arc<Table>),
    /// Changed, for this switch alone.
    Own(Box<Table>),
}

impl Held {
    #[inline]
    fn get(&self) -> &Table {
        match self {
            Held::Shared(table) => table,
            Held::Own(table) => table,
        }
    }
}

/// A key that fits into one word, less a bit: its fields one behind the other, the first one lowest.
#[derive(Debug)]
pub(super) struct WordKey {
    pub parts: Vec<KeyPart>,
    /// Width in bits; 0 if the table has no key.
    pub bits: u32,
}

/// A field of such a key.
#[derive(Debug)]
pub(super) struct KeyPart {
    /// Word of the packet.
    pub at: u32,
    /// Bits of it that count.
    pub mask: u64,
    /// Its lowest bit in the key.
    pub shift: u32,
}

impl WordKey {
    /// `None` if the key is too wide.
    fn of(spec: &TableSpec) -> Option<WordKey> {
        let (mut parts, mut bits) = (Vec::new(), 0);
        for field in &spec.key {
            let mask = field.mask.as_ref().and_then(|m| m.last().copied());
            parts.push(KeyPart {
                at: field.slot.at,
                mask: mask.unwrap_or(u64::MAX) & crate::bits::low_mask(field.slot.bits),
                shift: bits,
            });
            bits += field.slot.bits;
            if bits >= u64::BITS {
                return None;
            }
        }
        Some(WordKey { parts, bits })
    }

    /// The key of a packet.
    fn of_packet(&self, words: &[u64]) -> u64 {
        let part = |p: &KeyPart| (words[p.at as usize] & p.mask) << p.shift;
        self.parts.iter().map(part).fold(0, |key, part| key | part)
    }
}

/// How generated code reads a table.
#[derive(Debug)]
pub(super) enum Access {
    /// By key, in [`View::rows`].
    Rows(WordKey),
    /// By hash, in [`View::memos`].
    Memos(WordKey),
    /// Not at all: it asks the interpreter.
    Ask,
}

/// Wider keys have no rows, because these would take too much memory.
const MAX_ROW_BITS: u32 = 10;

pub(super) fn access(spec: &TableSpec) -> Access {
    // Packets change something in the entries of such tables.
    if spec.notes_hits() {
        return Access::Ask;
    }
    let Some(key) = WordKey::of(spec) else {
        return Access::Ask;
    };
    if key.parts.len() <= 1 && key.bits <= MAX_ROW_BITS && spec.profile.is_none() {
        Access::Rows(key)
    } else {
        Access::Memos(key)
    }
}

impl Tables {
    pub fn new(tables: &[Arc<Table>]) -> Tables {
        let view = |table: &Arc<Table>| View {
            rows: std::ptr::null(),
            memos: std::ptr::null(),
            memo_shift: 0,
            access: access(&table.spec),
            asked: 0,
            row_memory: Vec::new(),
            memo_memory: Vec::new(),
            entries: HashMap::default(),
            chosen: HashMap::default(),
        };
        Tables {
            views: tables.iter().map(view).collect(),
            tables: tables.iter().cloned().map(Held::Shared).collect(),
        }
    }

    pub fn len(&self) -> usize {
        self.tables.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Table> {
        self.tables.iter().map(Held::get)
    }

    /// A table, to be changed in a way that no view shows.
    #[inline]
    fn own(&mut self, table: usize) -> &mut Table {
        if let Held::Shared(_) = &self.tables[table] {
            self.take_over(table);
        }
        match &mut self.tables[table] {
            Held::Own(table) => table,
            Held::Shared(_) => unreachable!("it was taken over"),
        }
    }

    /// Copies a shared table for this switch alone. The view drops what leads to the shared one.
    #[cold]
    fn take_over(&mut self, table: usize) {
        self.views[table].drop_all();
        let own = self.tables[table].get().clone();
        self.tables[table] = Held::Own(Box::new(own));
    }

    /// Like [`Table::hit`], which changes nothing that a view shows.
    #[inline]
    pub fn hit(
        &mut self,
        table: usize,
        words: &[u64],
        seen: (u64, Instant),
        key: &mut Vec<u64>,
        scratch: &mut Vec<u64>,
    ) -> Option<u32> {
        let found = self.tables[table].get();
        match found.changes_with_hits() {
            true => self.own(table).hit(words, seen, key, scratch),
            false => found.lookup(words, key, scratch),
        }
    }

    /// The direct meter of an entry, or of the default entry if it is configured: without that, a
    /// miss leaves the metadata alone, as on BMv2.
    #[inline]
    pub fn meter(&mut self, table: usize, entry: Option<u32>) -> Option<(DirectMeter, &mut Meter)> {
        let meter = self.tables[table].get().meter?;
        let table = self.own(table);
        let cell = match entry {
            Some(entry) => table.entries[entry as usize]
                .as_mut()?
                .meter
                .as_deref_mut()?,
            None => Some(&mut table.default_meter).filter(|m| m.config().is_some())?,
        };
        Some((meter, cell))
    }

    pub(super) fn views(&self) -> *const View {
        self.views.as_ptr()
    }

    /// Whether generated code sees a table, and does not ask for each packet.
    pub fn is_viewed(&self, table: usize) -> bool {
        !matches!(self.views[table].access, Access::Ask)
    }

    /// Brings the view up to date, for a packet that hit this entry, or none.
    pub fn refresh(
        &mut self,
        table: usize,
        words: &[u64],
        entry: Option<u32>,
        profile: Option<&Profile>,
    ) {
        let (table, view) = (self.tables[table].get(), &mut self.views[table]);
        match &view.access {
            Access::Rows(key) => {
                let bits = key.bits;
                view.lay_out(table, bits);
            }
            Access::Memos(key) => {
                let key = key.of_packet(words);
                view.remember((table, profile), key, entry);
            }
            Access::Ask => {}
        }
    }

    /// Drops the views of tables with this profile, whose members or groups are going to change.
    pub fn forget(&mut self, profile: ProfileId) {
        for (table, view) in self.tables.iter().zip(&mut self.views) {
            if table.get().spec.profile == Some(profile) {
                view.memos = std::ptr::null();
            }
        }
    }
}

impl View {
    /// Drops what generated code sees of the table.
    fn drop_all(&mut self) {
        self.rows = std::ptr::null();
        self.memos = std::ptr::null();
    }

    fn lay_out(&mut self, table: &Table, bits: u32) {
        let default = row(table.default.as_ref().map(|d| &d.resolved), 0);
        self.row_memory.clear();
        for key in 0..1u64 << bits {
            let entry = table.find_word(key);
            self.row_memory.push(match entry {
                Some(_) => row(table.action(entry), HIT),
                None => default,
            });
        }
        self.rows = self.row_memory.as_ptr();
    }

    /// Remembers the results of a packet's key. Once this many keys were asked for that it pays, all
    /// other keys are remembered that are known to hit one entry: in a large network most of them
    /// come seldom, to tables that are in no cache.
    fn remember(&mut self, of: (&Table, Option<&Profile>), key: u64, entry: Option<u32>) {
        let (table, _) = of;
        let (least, most) = MEMO_BITS.into_inner();
        if self.memos.is_null() {
            let none = Memo {
                key: NO_KEY,
                choices: std::ptr::null(),
            };
            let places = (2 * table.len()).next_power_of_two();
            let bits = places.ilog2().clamp(least, most);
            self.memo_shift = u64::from(u64::BITS - bits);
            self.memo_memory.clear();
            self.memo_memory.resize(1 << bits, none);
            self.entries.clear();
            self.chosen.clear();
            self.memos = self.memo_memory.as_ptr();
            self.asked = 0;
        }
        self.asked += 1;
        if self.asked == 1 + table.len() / ASKED_PART && 2 * table.len() <= 1 << most {
            for (key, entry) in table.whole_keys() {
                self.note(of, key, Some(entry));
            }
        }
        self.note(of, key, entry);
    }

    fn note(&mut self, (table, profile): (&Table, Option<&Profile>), key: u64, entry: Option<u32>) {
        let action = table.action(entry);
        let choices = match (action, profile) {
            (Some(Resolved::Set(set)), _) if entry.is_some() => Some(&set.choices),
            (Some(chosen @ (Resolved::Member(_) | Resolved::Group(_))), Some(profile)) => entry
                .is_some()
                .then(|| self.choices_among(profile, chosen))
                .flatten(),
            _ => Some(self.choices_of(entry, action)),
        };
        let Some(choices) = choices else { return };
        if choices.count > 0 {
            let memo = Memo { key, choices };
            let place = (key.wrapping_mul(MEMO_FACTOR) >> self.memo_shift) as usize;
            let memos = &mut self.memo_memory;
            // The other memo stays, unless it has to make room for this one.
            if ![key, NO_KEY].contains(&memos[place].key) {
                memos[place ^ 1] = memos[place];
            }
            memos[place] = memo;
        }
    }

    /// The results of a member or a group, shared by all entries that name it; `None` if it has
    /// none.
    fn choices_among(&mut self, profile: &Profile, chosen: &Resolved) -> Option<&Choices> {
        let key = match chosen {
            Resolved::Member(member) => (false, *member),
            Resolved::Group(group) => (true, *group),
            Resolved::Action(_) | Resolved::Set(_) => return None,
        };
        let set = match self.chosen.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                place.insert(Box::new(ActionSet::new(profile.actions_of(chosen)?)))
            }
        };
        Some(&set.choices)
    }

    /// The results of an entry with one action, or of the default action.
    fn choices_of(&mut self, entry: Option<u32>, action: Option<&Resolved>) -> &Choices {
        self.entries.entry(entry).or_insert_with(|| {
            let rows: Vec<Row> = match (entry, action) {
                (None, Some(Resolved::Set(set))) => {
                    set.actions.iter().map(|a| bound_row(a, 0)).collect()
                }
                _ => vec![row(action, if entry.is_some() { HIT } else { 0 })],
            };
            Box::new(rows.into())
        })
    }
}

impl Index<usize> for Tables {
    type Output = Table;

    fn index(&self, table: usize) -> &Table {
        self.tables[table].get()
    }
}

impl IndexMut<usize> for Tables {
    fn index_mut(&mut self, table: usize) -> &mut Table {
        self.views[table].drop_all();
        self.own(table)
    }
}

fn row(resolved: Option<&Resolved>, hit: u64) -> Row {
    match resolved {
        Some(Resolved::Action(bound)) => bound_row(bound, hit),
        // The other kinds belong to tables with a profile.
        _ => Row {
            outcome: u64::from(NO_ACTION),
            data: std::ptr::null(),
        },
    }
}

fn bound_row(bound: &BoundAction, hit: u64) -> Row {
    Row {
        outcome: u64::from(bound.action) | hit,
        data: bound.data.as_ptr(),
    }
}
