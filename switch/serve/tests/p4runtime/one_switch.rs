//! A simulation of one switch, in a thread of its own: it does what is asked of the switch while its clock stands
//! still, and lets time pass when a test says so.

use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use ebb_engine::drive::Late;
use ebb_engine::simulation::{Host, Simulation};
use ebb_engine::trace::{Event, Watch};
use ebb_engine::{
    ControlHandle, ControlReceiver, NodeId, NodePort, Switch, SwitchOptions, control_channel,
};
use ebb_pipeline::Pipeline;
use ebb_serve::EngineDevice;
use ebb_traffic_manager::TrafficManagerConfig;
use ebb_units::{Duration, Instant};

pub const DEVICE_ID: u64 = 7;
pub const CPU_PORT: u16 = 510;
/// There is a host at each of the ports from 1.
const PORTS: u16 = 9;
/// How late frames left, as if the switch were under the wall clock.
pub const LATE_DEPARTURES: [Duration; 3] = [
    Duration::from_nanos(1_000),
    Duration::from_nanos(2_000),
    Duration::from_nanos(2_501),
];

/// The simulation from outside; it ends when this is dropped.
pub struct OneSwitch {
    switch: NodeId,
    handle: ControlHandle,
    outside: Arc<Mutex<Outside>>,
}

/// Work of the thread of the simulation besides its commands.
#[derive(Default)]
pub struct Outside {
    /// Time after the next command.
    now: Instant,
    /// Frames that arrive at that command, with their ports.
    to_arrive: Vec<(u16, Vec<u8>)>,
    /// Frames that have left, with their ports.
    left: Vec<(u16, Vec<u8>)>,
}

impl OneSwitch {
    pub fn start() -> Arc<Self> {
        let mut simulation = Simulation::new();
        let switch = simulation.add_switch(new_switch("s1", DEVICE_ID));
        let outside = Arc::new(Mutex::new(Outside::default()));
        for port in 1..=PORTS {
            let host = simulation.add_host(Port {
                number: port,
                outside: outside.clone(),
            });
            let ends = [(switch, port), (host, 0)];
            let [a, b] = ends.map(|(node, port)| NodePort { node, port });
            simulation.connect(a, b).unwrap();
        }
        let late = Late {
            wakeup: None,
            departures: LATE_DEPARTURES.to_vec(),
        };
        simulation.partitions()[0].note_lateness(place(1), &late);
        Self::of(simulation, switch, outside)
    }

    /// One of several switches, with all of which it ends.
    pub fn of(
        simulation: Simulation<Port>,
        switch: NodeId,
        outside: Arc<Mutex<Outside>>,
    ) -> Arc<Self> {
        let (handle, commands) = control_channel();
        let others = outside.clone();
        thread::spawn(move || run(simulation, &commands, &others));
        Arc::new(Self {
            switch,
            handle,
            outside,
        })
    }

    pub fn handle(&self) -> ControlHandle {
        self.handle.clone()
    }

    /// The switch as the server sees it.
    pub fn device(&self) -> EngineDevice {
        EngineDevice {
            id: DEVICE_ID,
            switch: self.switch,
            handle: self.handle.clone(),
            ports: vec![(1, "s-eth1".into()), (2, "s-eth2".into())],
        }
    }

    /// Gives access to the switch.
    pub fn with<R: Send + 'static>(&self, f: impl FnOnce(&mut Switch) -> R + Send + 'static) -> R {
        let (reply, result) = mpsc::channel();
        let work = move |switch: &mut Switch| drop(reply.send(f(switch)));
        self.handle.post(self.switch, work).unwrap();
        result.recv().unwrap()
    }

    /// Looks at the pipeline, or changes it.
    pub fn on_pipeline<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Pipeline) -> R + Send + 'static,
    ) -> R {
        self.with(|switch| f(switch.pipeline_mut().unwrap()))
    }

    pub fn has_program(&self) -> bool {
        self.with(|switch| switch.pipeline().is_some())
    }

    /// Lets time pass, and all that happens in it happen.
    pub fn pass(&self, ns: u64) {
        self.outside().now += Duration::from_nanos(ns);
        // Time passes after the first command; the second one comes when it has.
        (0..2).for_each(|_| self.with(|_| ()));
    }

    /// Frames arrive at a port at the same time, and a microsecond passes.
    pub fn arrive(&self, port: u16, frames: &[Vec<u8>]) {
        let frames = frames.iter().map(|frame| (port, frame.clone()));
        self.outside().to_arrive.extend(frames);
        self.pass(1_000);
    }

    /// Frames that have left the ports since the last call.
    pub fn left(&self) -> Vec<(u16, Vec<u8>)> {
        std::mem::take(&mut self.outside().left)
    }

    /// Has the program send a frame from the CPU port back there.
    pub fn packet_in(&self, frame: &[u8]) {
        // Nine bits of egress port, seven of padding.
        let mut packet = (CPU_PORT << 7).to_be_bytes().to_vec();
        packet.extend_from_slice(frame);
        assert!(self.with(|switch| switch.packet_out(packet)));
        self.pass(1_000);
    }

    /// The frames that the CPU port gets from now on.
    pub fn packets_out(&self) -> Arc<Mutex<Vec<Vec<u8>>>> {
        let frames = Arc::new(Mutex::new(Vec::new()));
        let noted = frames.clone();
        let watch = Watch {
            ports: [CPU_PORT].into(),
            packets: u64::MAX,
            sink: Box::new(move |visit| {
                let entered = visit.events.iter().filter_map(|event| match event {
                    Event::Enters { frame, .. } => Some(frame.clone()),
                    _ => None,
                });
                noted.lock().unwrap().extend(entered);
                true
            }),
        };
        assert!(self.with(|switch| switch.watch(watch)));
        frames
    }

    fn outside(&self) -> MutexGuard<'_, Outside> {
        self.outside.lock().unwrap()
    }
}

impl Drop for OneSwitch {
    fn drop(&mut self) {
        self.handle.stop();
    }
}

pub fn new_switch(name: &str, device_id: u64) -> Switch {
    let options = SwitchOptions {
        name: name.into(),
        device_id,
        cpu_port: Some(CPU_PORT),
        drop_port: 511,
    };
    Switch::new(options, TrafficManagerConfig::like_bmv2(1)).unwrap()
}

fn run(mut simulation: Simulation<Port>, commands: &ControlReceiver, outside: &Mutex<Outside>) {
    while let Some(command) = commands.wait() {
        if !simulation.obey(command) {
            return;
        }
        let (until, frames) = {
            let mut outside = outside.lock().unwrap();
            (outside.now, std::mem::take(&mut outside.to_arrive))
        };
        let now = simulation.now();
        for (port, frame) in frames {
            simulation.partitions()[0].inject(place(port), now, frame);
        }
        simulation.run_until(until, |_, _| false);
    }
}

/// The place of the host at a port: they come after the switch.
fn place(port: u16) -> u32 {
    port.into()
}

/// The other end of a port.
pub struct Port {
    pub number: u16,
    pub outside: Arc<Mutex<Outside>>,
}

impl Host for Port {
    fn name(&self) -> &str {
        "a port"
    }
    fn receive(&mut self, _: Instant, frame: Vec<u8>) {
        self.outside.lock().unwrap().left.push((self.number, frame));
    }
    fn wake(&mut self, _: Instant) {}
    fn next_wake(&self) -> Option<Instant> {
        None
    }
    fn poll_transmit(&mut self, _: Instant) -> Option<(Instant, Vec<u8>)> {
        None
    }
}
