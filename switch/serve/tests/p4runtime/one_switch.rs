//! A simulation of one switch, in a thread of its own: it does what is asked of the switch while its
//! clock stands still.

use std::sync::mpsc;
use std::thread;

use ebb_engine::simulation::{Host, Simulation};
use ebb_engine::{ControlHandle, NodeId, Switch, SwitchOptions, control_channel};
use ebb_serve::EngineDevice;
use ebb_traffic_manager::TrafficManagerConfig;
use ebb_units::Instant;

pub const DEVICE_ID: u64 = 7;
pub const CPU_PORT: u16 = 510;

/// It ends with this.
pub struct OneSwitch {
    switch: NodeId,
    handle: ControlHandle,
}

impl OneSwitch {
    pub fn start() -> Self {
        let options = SwitchOptions {
            name: "s1".into(),
            device_id: DEVICE_ID,
            cpu_port: Some(CPU_PORT),
            drop_port: 511,
        };
        let switch = Switch::new(options, TrafficManagerConfig::like_bmv2(1)).expect("valid");
        let mut simulation: Simulation<Nobody> = Simulation::new();
        let switch = simulation.add_switch(switch);
        let (handle, commands) = control_channel();
        thread::spawn(move || {
            while let Some(command) = commands.wait() {
                if !simulation.obey(command) {
                    return;
                }
            }
        });
        Self { switch, handle }
    }

    /// As the server sees it.
    pub fn device(&self) -> EngineDevice {
        EngineDevice {
            id: DEVICE_ID,
            switch: self.switch,
            handle: self.handle.clone(),
        }
    }

    /// What the switch makes of it, now.
    pub fn with<R: Send + 'static>(&self, f: impl FnOnce(&mut Switch) -> R + Send + 'static) -> R {
        let (reply, result) = mpsc::channel();
        let work = move |switch: &mut Switch| drop(reply.send(f(switch)));
        self.handle.post(self.switch, work).expect("it runs");
        result.recv().expect("it runs")
    }
}

impl Drop for OneSwitch {
    fn drop(&mut self) {
        self.handle.stop();
    }
}

/// There are no hosts.
struct Nobody;

impl Host for Nobody {
    fn name(&self) -> &str {
        "nobody"
    }
    fn receive(&mut self, _: Instant, _: Vec<u8>) {}
    fn wake(&mut self, _: Instant) {}
    fn next_wake(&self) -> Option<Instant> {
        None
    }
    fn poll_transmit(&mut self, _: Instant) -> Option<(Instant, Vec<u8>)> {
        None
    }
}
