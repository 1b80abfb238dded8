//! A switch that forwards nothing.

use std::sync::{Mutex, MutexGuard};

use ebb_pipeline::Pipeline;
use ebb_traffic_manager::{ConfigError, Count, PortStatistics, TrafficManagerConfig};
use ebb_units::Instant;
use tokio::sync::mpsc;

use crate::device::{Device, Event, Job, Switch, TraceRequest, TraceSink};
use crate::lock::lock;

/// A switch without ports, whose clock stands still, and whose jobs run at once in the caller's thread.
/// For [`Sessions`](crate::Sessions), to check which messages of controllers reach the switch.
pub struct Plain {
    id: u64,
    switch: Mutex<PlainSwitch>,
}

struct PlainSwitch {
    pipeline: Option<Pipeline>,
    traffic: TrafficManagerConfig,
    installs: usize,
    packets_out: usize,
}

impl Plain {
    /// A switch without a program.
    pub fn new(id: u64) -> Self {
        Self {
            id,
            switch: Mutex::new(PlainSwitch {
                pipeline: None,
                traffic: TrafficManagerConfig::like_bmv2(1),
                installs: 0,
                packets_out: 0,
            }),
        }
    }

    /// Number of programs that were installed.
    pub fn installs(&self) -> usize {
        self.switch().installs
    }

    /// Number of packet-outs.
    pub fn packets_out(&self) -> usize {
        self.switch().packets_out
    }

    /// Calls `f` with the pipeline. None: no program is installed.
    pub fn with_pipeline<R>(&self, f: impl FnOnce(Option<&Pipeline>) -> R) -> R {
        f(self.switch().pipeline.as_ref())
    }

    fn switch(&self) -> MutexGuard<'_, PlainSwitch> {
        lock(&self.switch)
    }
}

impl Device for Plain {
    fn id(&self) -> u64 {
        self.id
    }
    fn submit(&self, job: Job) {
        job(&mut *self.switch());
    }
    fn subscribe(&self, _: mpsc::Sender<Event>) {}
}

impl Switch for PlainSwitch {
    fn now(&self) -> Instant {
        Instant::ZERO
    }
    fn pipeline(&mut self) -> Option<&mut Pipeline> {
        self.pipeline.as_mut()
    }
    fn install(&mut self, pipeline: Pipeline) -> Result<(), ConfigError> {
        self.pipeline = Some(pipeline);
        self.installs += 1;
        Ok(())
    }
    fn packet_out(&mut self, _: Vec<u8>) {
        self.packets_out += 1;
    }
    fn traffic_config(&self) -> &TrafficManagerConfig {
        &self.traffic
    }
    fn set_traffic_config(&mut self, _: TrafficManagerConfig) -> Result<(), ConfigError> {
        Ok(())
    }
    fn traffic_statistics(&self) -> Vec<PortStatistics> {
        Vec::new()
    }
    fn reset_traffic_statistics(&mut self) {}
    fn other_drops(&self) -> Vec<(u16, String, Count)> {
        Vec::new()
    }
    fn trace(&mut self, _: TraceRequest, _: TraceSink) -> bool {
        false
    }
}
