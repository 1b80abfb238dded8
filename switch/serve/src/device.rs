//! A switch of an engine as the P4Runtime server sees it.

use ebb_engine::trace::Watch;
use ebb_engine::{ControlHandle, NodeId, Notice, Switch};
use ebb_p4runtime::{Device, Event, Job, Lateness, PortState, TraceRequest, TraceSink};
use ebb_pipeline::Pipeline;
use ebb_traffic_manager::{ConfigError, Count, PortStatistics, TrafficManagerConfig};
use ebb_units::Instant;
use tokio::sync::mpsc;

use crate::trace;

/// A switch of the fabric, as the server's threads use it.
pub struct EngineDevice {
    /// Device id, by which controllers name it (P4Runtime, 6.2).
    pub id: u64,
    /// The switch in its network.
    pub switch: NodeId,
    /// Handle of the thread that runs the network.
    pub handle: ControlHandle,
    /// Ports and the names of their interfaces, for gNMI.
    pub ports: Vec<(u16, String)>,
}

impl Device for EngineDevice {
    fn id(&self) -> u64 {
        self.id
    }

    fn port_names(&self) -> Vec<(u16, String)> {
        self.ports.clone()
    }

    fn submit(&self, job: Job) {
        // After the end a job is dropped, which its sender notices.
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

/// A switch, for a job that runs in the packet thread.
struct Adapter<'a>(&'a mut Switch);

impl ebb_p4runtime::Switch for Adapter<'_> {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn pipeline(&mut self) -> Option<&mut Pipeline> {
        self.0.pipeline_mut()
    }

    fn check_program(&self, pipeline: &Pipeline) -> Result<(), ConfigError> {
        self.0.check_program(pipeline)
    }

    fn install(&mut self, pipeline: Pipeline) -> Result<(), ConfigError> {
        self.0.install(pipeline)
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

    fn ports(&self) -> Vec<PortState> {
        let statistics = self.0.statistics();
        let of_port = |port| statistics.iter().find(|s| s.port == port);
        let state = |port| {
            let found = of_port(port);
            let dropped = found.iter().flat_map(|s| &s.queues);
            let dropped = dropped.flat_map(|queue| queue.dropped.values());
            PortState {
                port,
                is_up: self.0.is_port_up(port),
                received: self.0.received(port),
                sent: found.map(|s| s.transmitted).unwrap_or_default(),
                refused: dropped.fold(Count::default(), |sum, count| Count {
                    packets: sum.packets + count.packets,
                    bytes: sum.bytes + count.bytes,
                }),
            }
        };
        self.0.ports().map(state).collect()
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
            sink: Box::new(move |visit| match visit.events.is_empty() {
                true => sink(None),
                false => sink(Some(&|| trace::message(visit))),
            }),
        })
    }

    fn other_drops(&self) -> Vec<(u16, String, Count)> {
        let drops = self.0.drops();
        drops
            .map(|(port, reason, count)| (port, reason.to_owned(), count))
            .collect()
    }
}
