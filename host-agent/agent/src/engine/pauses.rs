//! Pauses of the NIC by its neighbour, reported beside the lateness of the engine.

use std::sync::{Arc, Mutex};

use ebb_transport::nic::{Nic, NicStatistics};
use ebb_units::{Duration, Instant};
use serde_json::{Value, json};

use crate::machine::lock::lock;

/// Pauses of the NIC by its neighbour; shared by the engine and those who report them.
#[derive(Clone, Debug)]
pub struct Pauses(Option<Arc<Mutex<NicStatistics>>>);

impl Pauses {
    /// `obeys`: whether the NIC obeys PFC; without it there is nothing to report.
    pub fn new(obeys: bool) -> Self {
        Pauses(obeys.then(Arc::default))
    }

    /// Takes the statistics of the NIC at `now`.
    pub fn update(&self, now: Instant, nic: &mut Nic) {
        if let Some(shared) = &self.0 {
            *lock(shared) = nic.statistics(now);
        }
    }

    /// None: the NIC does not obey PFC.
    pub fn to_json(&self) -> Option<Value> {
        let statistics = *lock(self.0.as_ref()?);
        Some(json!({
            "pauses_received": statistics.pauses_received,
            "paused_ns": statistics.paused.map(Duration::as_nanos),
            "refused_frames": statistics.refused_frames,
        }))
    }
}
