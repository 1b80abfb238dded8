//! A match-action table and its entries.

mod hasher;
mod key;
mod lookup;
mod map;
mod prefixes;
mod prune;
mod recent;
#[cfg(test)]
mod tests;
mod tuples;
mod word_map;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use ebb_units::{Duration, Instant};

use crate::bits::{from_bytes, ones, to_bytes};
use crate::control::{
    ControlError, CounterValue, MatchKey, MatchKind, TableAction, TableEntry, WeightedAction,
};
use crate::ids::{ActionId, EntryId, ProfileId};
use crate::profile::Resolved;
use crate::slot::Slot;
use crate::stateful::Meter;
pub(crate) use hasher::WordHasher;
pub(crate) use key::{CompiledKey, KeyField};
pub(crate) use lookup::Lookup;
use prefixes::Prefixes;
use recent::Recent;
use tuples::Tuples;
pub(crate) use word_map::WordMap;

/// Properties of a table in the program.
#[derive(Clone, Debug)]
pub(crate) struct TableSpec {
    /// Its name in P4.
    pub name: String,
    /// The fields of its key.
    pub key: Vec<KeyField>,
    /// Whether its entries have priorities.
    pub needs_priority: bool,
    /// Whether a field of its key is matched by longest prefix.
    pub lpm: bool,
    /// Most entries that it can have.
    pub max_size: u32,
    /// Its actions.
    pub actions: Vec<ActionId>,
    /// Its action profile; `None` if it has none.
    pub profile: Option<ProfileId>,
    /// Whether its entries have counters.
    pub with_counter: bool,
    /// The meter of its entries; `None` if they have none.
    pub meter: Option<DirectMeter>,
    /// Whether its entries may have idle timeouts.
    pub support_timeout: bool,
    /// Whether all its entries come from the program and cannot be changed.
    pub is_const: bool,
    /// The only default action that it can have; `None` if it can have others.
    pub const_default_action: Option<ActionId>,
    /// Whether its default action and the arguments of that are constant.
    pub const_default_entry: bool,
}

impl TableSpec {
    /// Whether a packet that hits an entry changes something in it.
    pub fn notes_hits(&self) -> bool {
        self.with_counter || self.meter.is_some() || self.support_timeout
    }
}

/// The meter that each entry of a table has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectMeter {
    /// Unit that it counts.
    pub unit: crate::control::MeterUnit,
    /// Bytes that it adds to the length of each packet.
    pub adjust: i32,
    /// The field that gets the colour.
    pub target: Slot,
}

/// A table with the entries that the control plane has installed.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// Its properties in the program.
    pub spec: Arc<TableSpec>,
    /// Word of the packet that is the key; `None` if the key is not just one word.
    key_at: Option<u32>,
    /// The meter of its entries, as in `spec`, kept where packets look.
    pub meter: Option<DirectMeter>,
    /// Whether entries have counters, as in `spec`.
    with_counter: bool,
    /// Whether entries have idle timeouts, as in `spec`.
    support_timeout: bool,
    /// Whether the control plane has set masks of the key, which apply to the keys of entries too.
    is_masked: bool,
    /// How many entries there are.
    count: u32,
    /// Finds the entry of a key.
    lookup: Lookup,
    /// Results of the latest searches.
    recent: Recent,
    /// Parts of the entries that packets need, at the same indices as `entries`.
    pub hot: Vec<Hot>,
    /// The entries; `None` marks a free index.
    pub entries: Vec<Option<Entry>>,
    /// The free indices. The least is taken first, so an emptied table stores its next entries in the order in which
    /// they come.
    free: BinaryHeap<Reverse<u32>>,
    /// The sequence number of the next entry.
    next_sequence: u64,
    /// The entry with this key and priority. It is empty in tables without priorities, where
    /// `lookup` knows.
    by_key: HashMap<(CompiledKey, i32), u32, BuildHasherDefault<WordHasher>>,
    /// The default action; `None` if there is none.
    pub default: Option<DefaultEntry>,
    /// The default action that the program sets.
    pub program_default: Option<DefaultEntry>,
    /// Direct counter of the default entry: packets that missed.
    pub default_counter: CounterValue,
    /// Direct meter of the default entry.
    pub default_meter: Meter,
}

/// Part of an entry that a packet which hits it reads and writes: one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Hot {
    /// Effect of the entry.
    pub action: Resolved,
    /// Its direct counter.
    pub counter: CounterValue,
}

/// Part of an entry that packets do not need. There may be millions of entries, so what few of them
/// have is kept apart.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its key.
    pub key: CompiledKey,
    /// Its priority; 0 in tables without priorities.
    pub priority: i32,
    /// Whether it comes from the program and cannot be changed.
    pub is_const: bool,
    /// Its number in the order of insertion.
    pub sequence: u64,
    /// When it was last hit; kept only if the table has idle timeouts.
    pub last_hit: Instant,
    /// Its direct meter; `None` if the table has none.
    pub meter: Option<Box<Meter>>,
    /// Parts that few entries have; `None` for all others.
    pub extra: Option<Box<Extra>>,
}

/// Parts that few entries have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extra {
    /// After this time without a hit the entry is idle; `None` means never.
    pub idle_timeout: Option<Duration>,
    /// When it was last reported as idle.
    pub told_idle: Instant,
    /// Bytes of the controller.
    pub metadata: Vec<u8>,
    /// Its one-shot set as it was given, with weights and watch ports; else empty.
    pub set: Vec<WeightedAction>,
}

impl Entry {
    /// The idle timeout; `None` if it has none.
    pub fn idle_timeout(&self) -> Option<Duration> {
        self.extra.as_ref()?.idle_timeout
    }

    /// Whether it was neither hit nor reported as idle during its timeout.
    pub fn turns_idle(&mut self, now: Instant) -> bool {
        let last_hit = self.last_hit;
        let Some(extra) = self.extra.as_deref_mut() else {
            return false;
        };
        let quiet_since = last_hit.max(extra.told_idle);
        let idle = extra
            .idle_timeout
            .is_some_and(|t| now.since(quiet_since) >= t);
        if idle {
            extra.told_idle = now;
        }
        idle
    }

    /// Keeps what `entry` says beyond its key and action.
    pub fn set_extra(&mut self, entry: TableEntry) {
        let set = match entry.action {
            TableAction::Set(set) => set,
            _ => Vec::new(),
        };
        let plain = entry.idle_timeout.is_none() && entry.metadata.is_empty() && set.is_empty();
        self.extra = (!plain).then(|| {
            Box::new(Extra {
                idle_timeout: entry.idle_timeout,
                told_idle: Instant::ZERO,
                metadata: entry.metadata,
                set,
            })
        });
    }
}

/// The default action of a table.
#[derive(Clone, Debug)]
pub(crate) struct DefaultEntry {
    /// The action as the control plane gave it.
    pub action: TableAction,
    /// The action, ready to run.
    pub resolved: Resolved,
}

impl Table {
    /// A table without entries.
    pub fn new(spec: TableSpec) -> Table {
        let widths: Box<[u32]> = spec.key.iter().map(|f| f.slot.bits).collect();
        let lookup = if spec.needs_priority {
            Lookup::Ternary(Tuples::new(widths))
        } else if spec.lpm {
            Lookup::Lpm(Prefixes::new(widths, spec.max_size))
        } else {
            Lookup::Exact(map::Map::new(&widths))
        };
        let key_words = spec.key.iter().map(KeyField::words).sum();
        let key_at = match spec.key.as_slice() {
            [field] if field.mask.is_none() && field.slot.words == 1 => Some(field.slot.at),
            _ => None,
        };
        Table {
            key_at,
            meter: spec.meter,
            with_counter: spec.with_counter,
            support_timeout: spec.support_timeout,
            spec: Arc::new(spec),
            is_masked: false,
            count: 0,
            lookup,
            recent: Recent::new(key_words),
            hot: Vec::new(),
            entries: Vec::new(),
            free: BinaryHeap::new(),
            next_sequence: 0,
            by_key: HashMap::default(),
            default: None,
            program_default: None,
            default_counter: CounterValue::default(),
            default_meter: Meter::default(),
        }
    }

    /// Checks the key of an entry and turns it into words.
    pub fn compile(&self, key: &[MatchKey]) -> Result<CompiledKey, ControlError> {
        let mut made = CompiledKey::compile(&self.spec.key, key, &self.spec.name)?;
        if self.is_masked {
            let masks = self
                .spec
                .key
                .iter()
                .filter_map(|f| Some((f.first, f.mask.as_ref()?)));
            for (first, mask) in masks {
                let words = made.value[first..].iter_mut().zip(mask);
                words.for_each(|(word, mask)| *word &= mask);
            }
        }
        Ok(made)
    }

    /// Sets the bits of each key field that are compared.
    pub fn set_masks(&mut self, masks: &[Vec<u8>]) -> Result<(), ControlError> {
        let refused = |why: String| ControlError::invalid(format!("table {}", self.spec.name), why);
        if self.count > 0 {
            return Err(refused(format!(
                "it has {} entries; its mask can be changed while it is empty",
                self.count
            )));
        }
        let fields = &self.spec.key;
        if masks.len() != fields.len() || fields.iter().any(|f| f.kind != MatchKind::Exact) {
            return Err(refused(
                "a mask has one value for each field of an exact key".to_owned(),
            ));
        }
        let words = fields.iter().zip(masks).map(|(field, mask)| {
            from_bytes(mask, field.slot.bits)
                .ok_or_else(|| refused(format!("mask {mask:02x?} of field {}", field.name)))
        });
        let words = words.collect::<Result<Vec<_>, _>>()?;
        let mut spec = TableSpec::clone(&self.spec);
        for (field, mask) in spec.key.iter_mut().zip(words) {
            field.mask = Some(mask.into());
        }
        self.spec = Arc::new(spec);
        // Packets look the key up as fields under masks from now on.
        self.key_at = None;
        self.is_masked = true;
        self.recent.forget();
        Ok(())
    }

    /// The bits of each key field that are compared.
    pub fn masks(&self) -> Vec<Vec<u8>> {
        let of = |field: &KeyField| match &field.mask {
            Some(mask) => to_bytes(mask, field.slot.bits),
            None => to_bytes(&ones(field.slot.bits), field.slot.bits),
        };
        self.spec.key.iter().map(of).collect()
    }

    /// The index of the entry with this key and priority.
    pub fn find(&self, key: &[MatchKey], priority: i32) -> Result<u32, ControlError> {
        let identity = (self.compile(key)?, self.effective_priority(priority)?);
        self.slot_of(&identity).ok_or_else(|| {
            ControlError::not_found("table entry", format!("{}: {key:?}", self.spec.name))
        })
    }

    fn slot_of(&self, identity: &(CompiledKey, i32)) -> Option<u32> {
        match self.spec.needs_priority {
            true => self.by_key.get(identity).copied(),
            false => self.lookup.entry(&identity.0),
        }
    }

    /// The priority to search with, after a check.
    fn effective_priority(&self, priority: i32) -> Result<i32, ControlError> {
        match (self.spec.needs_priority, priority) {
            (true, 1..) | (false, 0) => Ok(priority),
            (true, _) => Err(ControlError::invalid(
                format!("table {}", self.spec.name),
                format!(
                    "priority {priority}: entries of a table with ternary, optional or range fields \
                     need a priority above 0"
                ),
            )),
            (false, _) => Err(ControlError::invalid(
                format!("table {}", self.spec.name),
                format!(
                    "priority {priority}: a table with exact and lpm fields only has no priorities, give 0"
                ),
            )),
        }
    }

    /// Adds an entry.
    pub fn insert(
        &mut self,
        entry: TableEntry,
        action: Resolved,
        now: Instant,
        is_const: bool,
    ) -> Result<EntryId, ControlError> {
        let key = self.compile(&entry.key)?;
        let priority = self.effective_priority(entry.priority)?;
        let identity = (key, priority);
        if self.slot_of(&identity).is_some() {
            return Err(ControlError::exists(
                "table entry",
                format!("{}: {:?}", self.spec.name, entry.key),
            ));
        }
        if self.count >= self.spec.max_size && !is_const {
            return Err(ControlError::Full {
                kind: "table",
                name: self.spec.name.clone(),
                size: self.spec.max_size,
            });
        }
        let hot = Hot {
            action,
            counter: CounterValue::default(),
        };
        let slot = match self.free.pop() {
            Some(Reverse(slot)) => {
                self.hot[slot as usize] = hot;
                slot
            }
            None => {
                self.hot.push(hot);
                self.entries.push(None);
                self.entries.len() as u32 - 1
            }
        };
        self.recent.forget();
        self.lookup.insert(&identity.0, priority, slot);
        let mut installed = Entry {
            key: identity.0.clone(),
            priority,
            is_const,
            sequence: self.next_sequence,
            last_hit: now,
            meter: self.meter.map(|_| Box::default()),
            extra: None,
        };
        installed.set_extra(entry);
        self.entries[slot as usize] = Some(installed);
        if self.spec.needs_priority {
            self.by_key.insert(identity, slot);
        }
        self.next_sequence += 1;
        self.count += 1;
        Ok(EntryId(slot))
    }

    /// Removes the entry at an index.
    pub fn remove(&mut self, slot: u32) {
        if let Some(entry) = self.entries[slot as usize].take() {
            self.recent.forget();
            self.lookup.remove(&entry.key, entry.priority, slot);
            self.by_key.remove(&(entry.key, entry.priority));
            self.free.push(Reverse(slot));
            self.count -= 1;
        }
    }

    /// The entries in the order of insertion.
    pub fn ordered(&self) -> Vec<(EntryId, &Entry)> {
        let mut all: Vec<_> = self
            .entries
            .iter()
            .enumerate()
            .filter_map(|(i, e)| Some((EntryId(i as u32), e.as_ref()?)))
            .collect();
        all.sort_by_key(|(_, e)| e.sequence);
        all
    }

    /// The actions of all entries.
    pub fn actions(&self) -> impl Iterator<Item = &Resolved> {
        let present = self.entries.iter().zip(&self.hot);
        present.filter_map(|(entry, hot)| entry.as_ref().map(|_| &hot.action))
    }

    /// Whether a packet that looks for its entry changes something.
    #[inline]
    pub fn changes_with_hits(&self) -> bool {
        self.with_counter || self.support_timeout || self.lookup.is_long()
    }

    /// The entry that a packet hits, with the hit noted where the program wants that. `key` and
    /// `scratch` are working memory.
    #[inline]
    pub fn hit(
        &mut self,
        words: &[u64],
        (bytes, now): (u64, Instant),
        key: &mut Vec<u64>,
        scratch: &mut Vec<u64>,
    ) -> Option<u32> {
        let entry = match self.lookup.is_long() {
            true => self.lookup_recent(words, key, scratch),
            false => self.lookup(words, key, scratch),
        };
        if self.with_counter {
            match entry {
                Some(entry) => self.hot.get_mut(entry as usize)?.counter.count(bytes),
                None => self.default_counter.count(bytes),
            }
        }
        let entry = entry?;
        if self.support_timeout
            && let Some(Some(e)) = self.entries.get_mut(entry as usize)
        {
            e.last_hit = now;
        }
        Some(entry)
    }

    /// Adds bytes, modulo 2^64, to what an entry has counted, or the default entry (`None`).
    pub fn add_bytes(&mut self, entry: Option<u32>, more: u64) {
        let counter = match entry {
            Some(entry) => self.hot.get_mut(entry as usize).map(|hot| &mut hot.counter),
            None => Some(&mut self.default_counter),
        };
        if let Some(counter) = counter {
            counter.bytes = counter.bytes.wrapping_add(more);
        }
    }

    /// The action of an entry, or of a miss (`None`).
    #[inline]
    pub fn action(&self, entry: Option<u32>) -> Option<&Resolved> {
        Some(match entry {
            Some(entry) => &self.hot.get(entry as usize)?.action,
            None => &self.default.as_ref()?.resolved,
        })
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Keys of one word that certainly hit one entry: whole ones, in tables without priorities.
    pub fn whole_keys(&self) -> impl Iterator<Item = (u64, u32)> {
        let bits = match self.spec.key.as_slice() {
            [field] if !self.spec.needs_priority => Some(field.slot.bits),
            _ => None,
        };
        (0..).zip(&self.entries).filter_map(move |(slot, entry)| {
            let key = &entry.as_ref()?.key;
            match (&*key.value, &*key.mask) {
                ([value], [mask]) if bits == Some(mask.count_ones()) => Some((*value, slot)),
                _ => None,
            }
        })
    }

    /// The entry that a key of one word hits, if the table has keys.
    pub fn find_word(&self, key: u64) -> Option<u32> {
        match self.count {
            0 => None,
            _ => self.lookup.find_word(key),
        }
    }

    /// Lays out the packet's key and finds its entry. `key` and `scratch` are working memory.
    #[inline]
    pub fn lookup(&self, words: &[u64], key: &mut Vec<u64>, scratch: &mut Vec<u64>) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        match self.key_at {
            Some(at) => self.lookup.find_word(words[at as usize]),
            None => self.lookup_fields(words, key, scratch),
        }
    }

    /// Like [`lookup`](Self::lookup), but remembers the latest results.
    fn lookup_recent(
        &mut self,
        words: &[u64],
        key: &mut Vec<u64>,
        scratch: &mut Vec<u64>,
    ) -> Option<u32> {
        self.lay_out_key(words, key);
        let lookup = &self.lookup;
        self.recent.find(key, || lookup.find(key, scratch))
    }

    fn lookup_fields(
        &self,
        words: &[u64],
        key: &mut Vec<u64>,
        scratch: &mut Vec<u64>,
    ) -> Option<u32> {
        self.lay_out_key(words, key);
        self.lookup.find(key, scratch)
    }

    fn lay_out_key(&self, words: &[u64], key: &mut Vec<u64>) {
        key.clear();
        for field in &self.spec.key {
            let field_words = field.slot.of(words);
            match &field.mask {
                None => key.extend_from_slice(field_words),
                Some(mask) => key.extend(field_words.iter().zip(mask).map(|(w, m)| w & m)),
            }
        }
    }
}

/// Whether entries have priorities. The strongest match kind of the key decides how a table is
/// searched.
pub(crate) fn needs_priority(key: &[KeyField]) -> bool {
    key.iter()
        .any(|f| matches!(f.kind, MatchKind::Ternary | MatchKind::Range))
}
