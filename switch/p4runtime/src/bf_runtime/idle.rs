//! Idle timeouts as the chip counts them: a table that is told to looks at its entries at intervals, and their time
//! stands still while that is turned off. And whether entries were hit, for clients that ask for it themselves.

use std::collections::BTreeMap;

use ebb_pipeline::TableId;
use ebb_units::{Duration, Instant};
use prost::Message;

use super::schema::{Table, fixed};
use crate::entities::Context;
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::data_field::Value;

const ACTIVE: &str = "ENTRY_ACTIVE";
const IDLE: &str = "ENTRY_IDLE";

/// The time of the entries of a table.
#[derive(Clone, Copy, Debug, Default)]
pub enum Clock {
    /// As that of the switch, as long as nobody has said anything.
    #[default]
    Running,
    /// The table has looked at its entries at intervals since then.
    Sweeping(Instant, Duration),
    /// It has not since then.
    Stopped(Instant),
}

impl Clock {
    /// Until when entries have aged.
    fn aged_until(self, now: Instant) -> Instant {
        match self {
            Clock::Running => now,
            Clock::Stopped(at) => at,
            Clock::Sweeping(from, every) => {
                let since = now.since(from).as_picos();
                from + every * (since / every.as_picos().max(1))
            }
        }
    }

    /// Starts or stops the time of a table. What has passed since it last looked at its entries does not count.
    pub fn set(&mut self, ctx: &mut Context, table: TableId, every: Option<Duration>) {
        let now = ctx.now;
        let until = self.aged_until(now);
        let is_stopped = matches!(self, Clock::Stopped(_));
        ctx.pipeline
            .skip_idle_time(table, (until, now), if is_stopped { until } else { now });
        *self = match every {
            Some(every) => Clock::Sweeping(now, every),
            None => Clock::Stopped(now),
        };
    }

    /// Time that is left until an entry is idle that was hit so long ago.
    fn left(self, now: Instant, (timeout, elapsed): (Duration, Duration)) -> Duration {
        let is_idle = elapsed >= timeout && !matches!(self, Clock::Stopped(_));
        match is_idle {
            true => Duration::default(),
            false => {
                let uncounted = now.since(self.aged_until(now));
                timeout.saturating_sub(elapsed.saturating_sub(uncounted))
            }
        }
    }

    /// Puts what is left into the place of what an entry was read with.
    pub fn show(self, now: Instant, entry: &mut bf::TableEntry, idle: (Duration, Duration)) {
        let milliseconds = self.left(now, idle).as_nanos() / 1_000_000;
        let milliseconds = u32::try_from(milliseconds).unwrap_or(u32::MAX);
        let fields = entry.data.iter_mut().flat_map(|data| &mut data.fields);
        for field in fields.filter(|field| field.field_id == fixed::TTL) {
            field.value = Some(Value::Stream(milliseconds.to_be_bytes().into()));
        }
    }
}

/// Whether the entries of tables were hit, by table and key.
#[derive(Clone, Debug, Default)]
pub struct Hits(BTreeMap<(u32, Vec<u8>), Hit>);

#[derive(Clone, Copy, Debug)]
struct Hit {
    /// The state of the entry at the last `UpdateHitState`, or as a client has set it.
    is_active: bool,
    /// Hits after this moment are new.
    since: Instant,
}

fn place(entry: &bf::TableEntry) -> (u32, Vec<u8>) {
    let key = entry.key.as_ref().map(Message::encode_to_vec);
    (entry.table_id, key.unwrap_or_default())
}

impl Hits {
    /// An entry with this key was inserted, or a client has set its state.
    pub fn written(&mut self, now: Instant, table: &Table, entry: &bf::TableEntry, is_new: bool) {
        let mut fields = entry.data.iter().flat_map(|data| &data.fields);
        let given = fields.find_map(|field| match &field.value {
            Some(Value::StrVal(state)) if field.field_id == fixed::HIT_STATE => Some(state),
            _ => None,
        });
        if table.has(fixed::HIT_STATE) && (is_new || given.is_some()) {
            let is_active = given.is_some_and(|state| state == ACTIVE);
            let since = now;
            self.0.insert(place(entry), Hit { is_active, since });
        }
    }

    /// An entry was deleted; without a key all of its table.
    pub fn deleted(&mut self, entry: &bf::TableEntry) {
        match entry.key {
            Some(_) => {
                self.0.remove(&place(entry));
            }
            None => self.0.retain(|(table, _), _| *table != entry.table_id),
        }
    }

    /// `UpdateHitState`: whether an entry was hit since the last one.
    pub fn update(&mut self, now: Instant, entry: &bf::TableEntry, last_hit: Instant) {
        let hit = self.0.entry(place(entry)).or_insert(Hit {
            is_active: false,
            since: Instant::ZERO,
        });
        *hit = Hit {
            is_active: last_hit > hit.since,
            since: now,
        };
    }

    /// Puts the state of an entry into the place of what it was read with: as it is, or as it was last updated.
    pub fn show(&self, entry: &mut bf::TableEntry, last_hit: Instant, is_kept: bool) {
        let Some(hit) = self.0.get(&place(entry)) else {
            return;
        };
        let is_active = hit.is_active || !is_kept && last_hit > hit.since;
        let fields = entry.data.iter_mut().flat_map(|data| &mut data.fields);
        for field in fields.filter(|field| field.field_id == fixed::HIT_STATE) {
            let state = if is_active { ACTIVE } else { IDLE };
            field.value = Some(Value::StrVal(state.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::from_micros(n * 1000)
    }

    #[test]
    fn time_passes_from_one_look_to_the_next() {
        let left = |clock: Clock, now: u64, hit: u64| {
            let idle = (Duration::from_millis(1000), ms(now).since(ms(hit)));
            clock.left(ms(now), idle).as_micros() / 1000
        };
        assert_eq!(left(Clock::Running, 1300, 1000), 700);
        let sweeping = Clock::Sweeping(ms(1000), Duration::from_millis(400));
        let seen = [1000, 1399, 1400, 1799, 1800, 2000].map(|now| left(sweeping, now, 1000));
        assert_eq!(seen, [1000, 1000, 600, 600, 200, 0]);
        // Hit after the last look: as long as at first.
        assert_eq!(left(sweeping, 1790, 1500), 1000);
        let stopped = Clock::Stopped(ms(1250));
        assert_eq!([1250, 5000].map(|now| left(stopped, now, 1000)), [750, 750]);
    }

    #[test]
    fn a_state_is_that_of_the_time_between_two_updates() {
        let mut hits = Hits::default();
        let entry = |state: &str| bf::TableEntry {
            table_id: 7,
            key: Some(bf::TableKey::default()),
            data: Some(bf::TableData {
                action_id: 0,
                fields: vec![bf::DataField {
                    field_id: fixed::HIT_STATE,
                    value: Some(Value::StrVal(state.into())),
                }],
            }),
            ..bf::TableEntry::default()
        };
        let shown = |hits: &Hits, last: u64, is_kept| {
            let mut shown = entry(ACTIVE);
            hits.show(&mut shown, ms(last), is_kept);
            shown == entry(ACTIVE)
        };
        hits.update(ms(5), &entry(IDLE), ms(0));
        assert!(!shown(&hits, 0, true) && !shown(&hits, 0, false));
        // A hit is seen at once in the data plane, elsewhere after the update.
        assert!(!shown(&hits, 6, true) && shown(&hits, 6, false));
        hits.update(ms(7), &entry(IDLE), ms(6));
        assert!(shown(&hits, 6, true));
        hits.update(ms(8), &entry(IDLE), ms(6));
        assert!(!shown(&hits, 6, true) && !shown(&hits, 6, false));
        hits.deleted(&entry(IDLE));
        assert!(shown(&hits, 0, true), "nothing is known of it");
    }
}
