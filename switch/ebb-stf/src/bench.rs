//! A switch with a host at each of its ports, under a virtual clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use ebb_engine::simulation::Simulation;
use ebb_engine::trace::Watch;
use ebb_engine::{NodeId, NodePort, Switch, SwitchOptions};
use ebb_pipeline::Pipeline;
use ebb_traffic_manager::TrafficManagerConfig;
use ebb_units::{Duration, Instant};

use crate::port::{Port, Received};

/// The drop port of simple_switch without options.
const DROP_PORT: u16 = 511;
/// Queues of a port. With a program for Tofino, 1 stands for all queues that it can select.
const PRIORITY_QUEUES: u8 = 1;
/// Queues of ports of PSA, where programs choose them by class of service.
const CLASSES_OF_SERVICE: u8 = 8;
/// The time between two packets: long enough for everything that a packet starts, since links have no delay.
const BETWEEN_PACKETS: Duration = Duration::from_millis(1);

/// Traces of the packets, by the number that the switch gives each one that comes in, from 1.
pub type Traces = BTreeMap<u64, String>;

pub struct Bench {
    simulation: Simulation<Port>,
    switch: NodeId,
    /// The hosts at the ports, by the number of the port.
    ports: Vec<NodeId>,
    received: Received,
}

impl Bench {
    /// A switch that runs `pipeline`, with a host at every port, so that no frame that leaves is missed. Ports by which
    /// Tofino recirculates have none. Frames may come in at the drop port too.
    pub fn new(pipeline: Pipeline) -> Result<Self, String> {
        let options = SwitchOptions {
            name: "stf".into(),
            device_id: 0,
            cpu_port: None,
            drop_port: DROP_PORT,
        };
        let recirculating: Vec<bool> = (0..=DROP_PORT).map(|p| pipeline.recirculates(p)).collect();
        let queues = if pipeline.is_v1model() || pipeline.cell_bytes().is_some() {
            PRIORITY_QUEUES
        } else {
            CLASSES_OF_SERVICE
        };
        let config = TrafficManagerConfig::like_bmv2(queues);
        let mut switch = in_words(Switch::new(options, config))?;
        in_words(switch.install(pipeline))?;
        let mut simulation = Simulation::new();
        let switch = simulation.add_switch(switch);
        let received = Received::default();
        let mut ports = Vec::new();
        for port in 0..=DROP_PORT {
            let host = simulation.add_host(Port::new(port, received.clone()));
            let ends = (
                NodePort { node: switch, port },
                NodePort {
                    node: host,
                    port: 0,
                },
            );
            if !recirculating[usize::from(port)] {
                in_words(simulation.connect(ends.0, ends.1))?;
            }
            ports.push(host);
        }
        Ok(Bench {
            simulation,
            switch,
            ports,
            received,
        })
    }

    /// Records everything that happens to packets from now on. Traced packets are interpreted.
    pub fn watch(&mut self) -> Arc<Mutex<Traces>> {
        let traces = Arc::new(Mutex::new(Traces::new()));
        let sink = traces.clone();
        let watch = Watch {
            ports: BTreeSet::new(),
            packets: u64::MAX,
            sink: Box::new(move |visit| {
                if let Ok(mut traces) = sink.lock() {
                    let text = traces.entry(visit.packet_id).or_default();
                    text.push_str(&visit.to_string());
                }
                true
            }),
        };
        self.simulation
            .with_switch(self.switch, |switch| switch.watch(watch));
        traces
    }

    pub fn now(&self) -> Instant {
        self.simulation.now()
    }

    pub fn wait(&mut self, time: Duration) {
        self.simulation.run_until(self.now() + time, |_, _| false);
    }

    /// Sends a frame to a port and returns what leaves the switch, with the port.
    pub fn send(&mut self, port: u16, frame: Vec<u8>) -> Result<Vec<(u16, Vec<u8>)>, String> {
        let Some(host) = self.ports.get(usize::from(port)) else {
            return Err(format!(
                "there is no port {port}; the last one is {DROP_PORT}"
            ));
        };
        let now = self.now();
        self.simulation
            .with_host(*host, |host| host.send(now, frame));
        self.wait(BETWEEN_PACKETS);
        let mut received = self.received.lock().map_err(|_| "a port has panicked")?;
        Ok(std::mem::take(&mut received))
    }

    /// Gives access to the program's state at the present time.
    pub fn control<R>(
        &mut self,
        f: impl FnOnce(&mut Pipeline, Instant) -> Result<R, String>,
    ) -> Result<R, String> {
        let now = self.now();
        let result = self.simulation.with_switch(self.switch, |switch| {
            switch.pipeline_mut().map(|p| f(p, now))
        });
        match result.flatten() {
            Some(result) => result,
            None => Err("the switch has no program".into()),
        }
    }
}

/// The result of a call of the switch, with its error as text.
pub fn in_words<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}
