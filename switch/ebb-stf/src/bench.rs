//! A switch with something at each of its ports, under a virtual clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use ebb_engine::simulation::Simulation;
use ebb_engine::trace::Watch;
use ebb_engine::{NodeId, NodePort, Switch, SwitchOptions};
use ebb_pipeline::Pipeline;
use ebb_traffic_manager::TrafficManagerConfig;
use ebb_units::{Duration, Instant};

use crate::port::Port;

/// simple_switch's without options.
const DROP_PORT: u16 = 511;
const PRIORITY_QUEUES: u8 = 1;
/// Between two packets. Long enough for everything that a packet starts, since links have no delay.
const BETWEEN_PACKETS: Duration = Duration::from_millis(1);

/// By number of the packet: the switch counts those that come in from 1.
pub type Traces = BTreeMap<u64, String>;

pub struct Bench {
    simulation: Simulation<Port>,
    switch: NodeId,
    ports: BTreeMap<u16, NodeId>,
}

impl Bench {
    /// Other ports than these lead nowhere, as interfaces that simple_switch was not given.
    pub fn new(pipeline: Pipeline, ports: impl IntoIterator<Item = u16>) -> Result<Self, String> {
        let options = SwitchOptions {
            name: "stf".into(),
            device_id: 0,
            cpu_port: None,
            drop_port: DROP_PORT,
        };
        let config = TrafficManagerConfig::like_bmv2(PRIORITY_QUEUES);
        let mut switch = Switch::new(options, config).map_err(|error| error.to_string())?;
        switch.install(pipeline);
        let mut simulation = Simulation::new();
        let switch = simulation.add_switch(switch);
        let mut hosts = BTreeMap::new();
        for port in ports {
            if hosts.contains_key(&port) {
                continue;
            }
            let host = simulation.add_host(Port::new(port));
            let ends = (
                NodePort { node: switch, port },
                NodePort {
                    node: host,
                    port: 0,
                },
            );
            simulation
                .connect(ends.0, ends.1)
                .map_err(|error| error.to_string())?;
            hosts.insert(port, host);
        }
        Ok(Bench {
            simulation,
            switch,
            ports: hosts,
        })
    }

    /// Has everything written down that happens to packets from now on. Traced packets are interpreted.
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

    /// Sends a frame to a port and returns what leaves the switch, by port.
    pub fn send(&mut self, port: u16, frame: Vec<u8>) -> Vec<(u16, Vec<u8>)> {
        let now = self.now();
        if let Some(host) = self.ports.get(&port) {
            self.simulation
                .with_host(*host, |host| host.send(now, frame));
        }
        self.wait(BETWEEN_PACKETS);
        let mut sent = Vec::new();
        for (port, host) in &self.ports {
            let frames = self.simulation.with_host(*host, Port::take_received);
            sent.extend(frames.unwrap_or_default().into_iter().map(|f| (*port, f)));
        }
        sent
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
