//! The glue between the engine and the P4Runtime server: a switch as the server sees it.

use std::time::Duration;

use ebb_engine::trace::Watch;
use ebb_engine::{ControlHandle, NodeId, Notice, Switch};
use ebb_p4runtime::{Device, Event, Job, Lateness, TraceRequest, TraceSink};
use ebb_pipeline::Pipeline;
use ebb_traffic_manager::{ConfigError, Count, PortStatistics, TrafficManagerConfig};
use ebb_units::Instant;
use tokio::sync::mpsc;

use crate::trace;

/// A switch of the fabric, from the server's threads.
pub struct EngineDevice {
    pub id: u64,
    pub switch: NodeId,
    pub handle: ControlHandle,
}

/// How often entries are looked at for their idle timeout, as often as BMv2 does.
const IDLE_CHECK: Duration = Duration::from_secs(1);

/// Keeps looking for idle entries until the switch stops.
pub async fn watch_idle_entries(handle: ControlHandle, switch: NodeId) {
    let mut ticks = tokio::time::interval(IDLE_CHECK);
    loop {
        ticks.tick().await;
        if handle.post(switch, Switch::check_idle_entries).is_err() {
            return;
        }
    }
}

/// How soon the members of groups that watch a port follow its interface.
const PORT_CHECK: Duration = Duration::from_millis(100);

/// Tells switches which of their interfaces have no carrier, until they stop.
pub async fn watch_ports(handle: ControlHandle, interfaces: Vec<(NodeId, u16, String)>) {
    let mut ticks = tokio::time::interval(PORT_CHECK);
    let mut up = vec![true; interfaces.len()];
    loop {
        ticks.tick().await;
        for ((switch, port, name), was_up) in interfaces.iter().zip(&mut up) {
            let (port, is_up) = (*port, has_carrier(name));
            if is_up == *was_up {
                continue;
            }
            *was_up = is_up;
            tracing::info!(
                "port {port} ({name}) is {}",
                if is_up { "up" } else { "down" }
            );
            let set = move |switch: &mut Switch| switch.set_port_up(port, is_up);
            if handle.post(*switch, set).is_err() {
                return;
            }
        }
    }
}

/// An interface that sysfs does not show, as in a namespace without its own, counts as up.
fn has_carrier(interface: &str) -> bool {
    match std::fs::read_to_string(format!("/sys/class/net/{interface}/carrier")) {
        Ok(carrier) => carrier.trim() == "1",
        // The kernel says so of an interface that is set down.
        Err(error) => error.kind() != std::io::ErrorKind::InvalidInput,
    }
}

impl Device for EngineDevice {
    fn id(&self) -> u64 {
        self.id
    }

    fn submit(&self, job: Job) {
        // A job that comes too late is dropped, which tells its sender.
        let _ = self
            .handle
            .post(self.switch, |switch| job(&mut Adapter(switch)));
    }

    fn subscribe(&self, events: mpsc::Sender<Event>) {
        let listener = move |notice| {
            let event = match notice {
                Notice::PacketIn(frame) => Event::PacketIn(frame),
                Notice::Digest(digest) => Event::Digest(digest),
                Notice::Idle { table, entry } => Event::Idle { table, entry },
            };
            events.try_send(event).is_ok()
        };
        let subscribe = |switch: &mut Switch| switch.set_listener(Some(Box::new(listener)));
        // As above: after the end there are no events.
        let _ = self.handle.post(self.switch, subscribe);
    }
}

/// A switch in the hands of the packet thread.
struct Adapter<'a>(&'a mut Switch);

impl ebb_p4runtime::Switch for Adapter<'_> {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn pipeline(&mut self) -> Option<&mut Pipeline> {
        self.0.pipeline_mut()
    }

    fn install(&mut self, pipeline: Pipeline) {
        self.0.install(pipeline);
    }

    fn packet_out(&mut self, frame: Vec<u8>) {
        if !self.0.packet_out(frame) {
            tracing::warn!(
                "{}: a packet-out was dropped: the switch has no CPU port; start it with --cpu-port",
                self.0.name()
            );
        }
    }

    fn traffic_config(&self) -> &TrafficManagerConfig {
        self.0.traffic_manager_config()
    }

    fn set_traffic_config(&mut self, config: TrafficManagerConfig) -> Result<(), ConfigError> {
        self.0.set_traffic_manager_config(config)
    }

    fn traffic_statistics(&self) -> Vec<PortStatistics> {
        self.0.statistics()
    }

    fn reset_traffic_statistics(&mut self) {
        self.0.reset_statistics();
    }

    fn lateness(&self) -> Lateness {
        let late = self.0.lateness();
        Lateness {
            wakeups: late.wakeups,
            departures: late.departures,
        }
    }

    fn trace(&mut self, request: TraceRequest, mut sink: TraceSink) -> bool {
        self.0.watch(Watch {
            ports: request.ports,
            packets: request.packets,
            sink: Box::new(move |visit| sink(trace::message(visit))),
        })
    }

    fn other_drops(&self) -> Vec<(u16, String, Count)> {
        let drops = self.0.drops();
        drops
            .map(|(port, reason, count)| (port, reason.to_owned(), count))
            .collect()
    }
}
