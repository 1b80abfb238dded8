//! How late the engine is against its clock. Who emulates a network on a machine that is too busy
//! measures the machine: this shows it.

use std::sync::{Arc, Mutex};

use ebb_units::{Duration, Instant};
use serde_json::{Value, json};

use crate::engine::histogram::Histogram;
use crate::machine::lock::lock;

/// How late an engine was, over its whole life.
#[derive(Clone, Debug)]
struct Times {
    /// From the time for which the engine had asked to be woken to the time at which it looked.
    wakeups: Histogram,
    /// From the time at which the NIC was free for a frame that waited to the time at which it
    /// left.
    departures: Histogram,
}

/// Lateness of the engine; shared by the engine and those who report it.
#[derive(Clone, Debug)]
pub struct Lateness(Arc<Mutex<Times>>);

impl Lateness {
    pub fn new() -> Self {
        let (wakeups, departures) = (Histogram::new(), Histogram::new());
        Lateness(Arc::new(Mutex::new(Times {
            wakeups,
            departures,
        })))
    }

    /// The engine, which sleeps until `due` or until something comes, looks at `now`.
    pub fn woke(&self, due: Option<Instant>, now: Instant) {
        if let Some(late) = after(due, now) {
            lock(&self.0).wakeups.add(late.as_nanos());
        }
    }

    /// A frame that waited for the NIC, which is free since `free`, leaves.
    pub fn left(&self, free: Option<Instant>, now: Instant) {
        if let Some(late) = after(free, now) {
            lock(&self.0).departures.add(late.as_nanos());
        }
    }

    pub fn to_json(&self) -> Value {
        let times = lock(&self.0);
        json!({"wakeups": summary(&times.wakeups), "departures": summary(&times.departures)})
    }
}

/// How long after `due` it is. `None`: nothing was due.
fn after(due: Option<Instant>, now: Instant) -> Option<Duration> {
    due.filter(|due| *due <= now).map(|due| now.since(due))
}

fn summary(times: &Histogram) -> Value {
    json!({
        "count": times.count(),
        "p99_ns": times.per_mille_ns(990),
        "p999_ns": times.per_mille_ns(999),
        "max_ns": times.max_ns(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Option<Instant> {
        Some(Instant::from_micros(us))
    }

    #[test]
    fn only_what_is_due_can_be_late() {
        let lateness = Lateness::new();
        let now = Instant::from_micros(100);
        let nothing = json!({"count": 0, "p99_ns": 0, "p999_ns": 0, "max_ns": 0});
        lateness.woke(None, now);
        lateness.woke(at(101), now);
        lateness.left(None, now);
        assert_eq!(
            lateness.to_json(),
            json!({"wakeups": nothing, "departures": nothing})
        );
        lateness.woke(at(70), now);
        lateness.woke(at(100), now);
        lateness.left(at(99), now);
        let json = lateness.to_json();
        assert_eq!(json["wakeups"]["count"], 2);
        assert_eq!(json["wakeups"]["max_ns"], 30_000);
        assert_eq!(json["wakeups"]["p99_ns"], 30_000);
        assert_eq!(json["departures"]["p999_ns"], 1_000);
    }
}
