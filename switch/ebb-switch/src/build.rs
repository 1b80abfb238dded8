//! From settings to a network on interfaces and bound gRPC addresses. Everything that can be wrong
//! with the settings or the machine comes out here, before the first packet.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use ebb_bmv2_json::Program;
use ebb_engine::{Driver, DriverOptions, Interface, Network, NodePort, Switch, SwitchOptions};
use ebb_p4runtime::Server;
use ebb_pipeline::Pipeline;

use crate::settings::{Settings, SwitchSettings};

/// Everything that is ready to run.
pub struct Built {
    pub driver: Driver,
    /// Addresses in the order of the switches.
    pub server: Server,
}

pub fn build(settings: &Settings, captures: Option<&Path>) -> Result<Built> {
    let mut network = Network::new();
    let mut ids = Vec::new();
    for entry in &settings.switches {
        ids.push(network.add_switch(build_switch(entry)?));
    }
    let end = |(switch, port): (usize, u16)| NodePort {
        node: ids[switch],
        port,
    };
    for [a, b] in &settings.links {
        network.connect(end(*a), end(*b))?;
    }
    for (index, entry) in settings.switches.iter().enumerate() {
        for (port, interface) in &entry.interfaces {
            Interface::attach(&mut network, end((index, *port)), interface)?;
        }
    }
    let mut driver = Driver::new(network, DriverOptions::default())?;
    if let Some(directory) = captures {
        fs::create_dir_all(directory)
            .with_context(|| format!("--pcap: cannot create {}", directory.display()))?;
        for (index, entry) in settings.switches.iter().enumerate() {
            for (port, interface) in &entry.interfaces {
                let stem = directory.join(interface);
                let network = driver.network_mut();
                network.start_capture(end((index, *port)), &stem)?;
            }
        }
    }
    let switches = settings.switches.iter();
    let addresses: Vec<_> = switches.map(|s| s.grpc_server_addr).collect();
    let server = Server::bind(&addresses)?;
    Ok(Built { driver, server })
}

fn build_switch(settings: &SwitchSettings) -> Result<Switch> {
    let options = SwitchOptions {
        name: settings.name.clone(),
        device_id: settings.device_id,
        cpu_port: settings.cpu_port,
        drop_port: settings.drop_port,
    };
    let mut switch = Switch::new(options, settings.traffic_manager.clone())?;
    let Some(path) = &settings.program else {
        return Ok(switch);
    };
    let json =
        fs::read(path).with_context(|| format!("cannot read the program {}", path.display()))?;
    let program =
        Program::from_json(&json).map_err(|e| anyhow!("program {}: {e}", path.display()))?;
    let pipeline =
        Pipeline::load(&program).map_err(|e| anyhow!("program {}: {e}", path.display()))?;
    switch.install(pipeline);
    Ok(switch)
}
