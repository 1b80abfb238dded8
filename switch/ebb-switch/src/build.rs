//! Makes a network on interfaces and bound gRPC addresses from the settings. Everything that can be wrong
//! with the settings or the machine comes out here, before the first packet.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use ebb_driver::{Driver, DriverOptions, Interface, Reception};
use ebb_engine::{Network, NodeId, NodePort, Switch, SwitchOptions};
use ebb_p4runtime::{Layout, LinkEnd, Node, Schema, Server, SwitchInfo, read_config};
use ebb_pipeline::{Pipeline, Program};
use ebb_serve::{EngineFabric, capture};

use crate::options::FrameIo;
use crate::settings::{PortAt, Settings, SwitchSettings};
use crate::trace;

/// Memory of all receive rings together, unless each would be too small.
const RINGS_BYTES: usize = 128 << 20;
/// Memory of one ring. 8 MB hold half a second of full frames at 100 Mbit/s, or 40 ms of frames of any length at
/// 100,000 per second.
const RING_BYTES: RangeInclusive<usize> = 1 << 20..=8 << 20;

/// Network, servers and threads, ready to run.
pub struct Built {
    pub driver: Driver,
    /// It has the addresses in the order of the switches.
    pub server: Server,
    /// The ports of all switches that are on interfaces: switch, port, name of the interface.
    pub interfaces: Vec<(NodeId, u16, String)>,
    /// The ports of each switch that have an interface or a link, and their names.
    pub ports: Vec<Vec<(u16, String)>>,
}

pub fn build(
    settings: &Settings,
    driver: DriverOptions,
    io: FrameIo,
    captures: Option<&Path>,
) -> Result<Built> {
    let mut network = Network::new();
    let mut switches = Vec::new();
    trace::check(
        &settings.trace,
        settings.switches.iter().map(|s| s.name.as_str()),
    )?;
    let mut programs = HashMap::new();
    for entry in &settings.switches {
        let mut switch = build_switch(entry, settings.interpreted, &mut programs)?;
        trace::print(&mut switch, &settings.trace, settings.trace_packets);
        trace::dump(&mut switch, settings.dump_packet_data);
        trace::log(&mut switch);
        switches.push(network.add_switch(switch));
    }
    let end = |(switch, port): PortAt| NodePort {
        node: switches[switch],
        port,
    };
    for [a, b] in &settings.links {
        network.connect(end(*a), end(*b))?;
    }
    let ports = settings.switches.iter().map(|s| s.interfaces.len()).sum();
    let reception = reception(io, ports);
    let mut outside = BTreeMap::new();
    let mut interfaces = Vec::new();
    for (index, entry) in settings.switches.iter().enumerate() {
        for (port, interface) in &entry.interfaces {
            let at = (index, *port);
            let (at_end, rings) = (end(at), settings.rings.as_deref());
            let node =
                Interface::attach_with_rings(&mut network, at_end, interface, reception, rings)?;
            outside.insert(at, NodePort { node, port: 0 });
            interfaces.push((switches[index], *port, interface.clone()));
        }
    }
    let mut driver = Driver::new(network, driver)?;
    if let Some(directory) = captures {
        start_captures(&mut driver, directory, settings, &end)?;
    }
    let mut server = bind_server(settings)?;
    if let Some(socket) = &settings.fabric_socket {
        let inner = settings.links.iter().map(|ends| ends.map(end));
        let outer = settings.hosts.iter();
        let outer = outer.filter_map(|(_, at)| Some([end(*at), *outside.get(at)?]));
        let fabric = EngineFabric {
            layout: layout(settings),
            links: inner.chain(outer).collect(),
            switches: switches.clone(),
            captures: settings.captures.clone(),
            epoch_ns: driver.epoch_ns(),
            handle: driver.handle(),
        };
        server = server.with_fabric(socket, Arc::new(fabric))?;
    }
    let mut ports = vec![Vec::new(); switches.len()];
    for ((switch, port), name) in port_names(settings) {
        ports[switch].push((port, name));
    }
    Ok(Built {
        driver,
        server,
        interfaces,
        ports,
    })
}

/// The server of all switches, with the programs that they start with.
fn bind_server(settings: &Settings) -> Result<Server> {
    let addresses = settings.switches.iter().map(|s| s.grpc_server_addr);
    let addresses: Vec<_> = addresses.collect();
    let mut server = Server::bind(&addresses)?
        .interpreted(settings.interpreted)
        .with_arbitration(settings.arbitration)
        .with_max_message_bytes(settings.max_message_bytes);
    if let Some(tls) = &settings.tls {
        server = server.with_tls(tls)?;
    }
    if let Some(path) = &settings.bf_rt_schema {
        let program = settings
            .switches
            .iter()
            .find_map(|entry| entry.program.as_ref());
        let name = program
            .and_then(|program| program.file_stem())
            .unwrap_or_default();
        let schema = Schema::read(&name.to_string_lossy(), path)?;
        server = server.with_bf_runtime(0..addresses.len(), schema);
    }
    if let Some(files) = &settings.program {
        let switches = settings.switches.iter().enumerate();
        let without = switches.filter(|(_, entry)| entry.program.is_none());
        server = server.preload(without.map(|(index, _)| index), files.read()?)?;
    }
    for (index, entry) in settings.switches.iter().enumerate() {
        if let (Some(program), Some(p4info)) = (&entry.program, &entry.p4info) {
            server = server.preload(index..index + 1, read_config(program, p4info)?)?;
        }
    }
    Ok(server)
}

/// Captures every port into a file of its name.
fn start_captures(
    driver: &mut Driver,
    directory: &Path,
    settings: &Settings,
    end: &dyn Fn(PortAt) -> NodePort,
) -> Result<()> {
    fs::create_dir_all(directory)
        .with_context(|| format!("--pcap: cannot create {}", directory.display()))?;
    for (at, name) in port_names(settings) {
        let files = capture::to_files(directory.join(name), driver.epoch_ns());
        driver.network_mut().start_capture(end(at), files)?;
    }
    Ok(())
}

fn reception(io: FrameIo, ports: usize) -> Reception {
    match io {
        FrameIo::Sockets => Reception::Calls,
        FrameIo::Ring => Reception::Ring {
            bytes: (RINGS_BYTES / ports.max(1)).clamp(*RING_BYTES.start(), *RING_BYTES.end()),
        },
    }
}

/// The network as the fabric service tells it: links inside first, then those to hosts.
fn layout(settings: &Settings) -> Layout {
    let at = |(switch, port): PortAt| LinkEnd {
        node: Node::Switch(switch),
        port,
    };
    let inner = settings.links.iter().map(|ends| ends.map(at));
    let outer = settings.hosts.iter().enumerate().map(|(index, (_, port))| {
        let host = LinkEnd {
            node: Node::Host(index),
            port: 0,
        };
        [at(*port), host]
    });
    Layout {
        switches: settings
            .switches
            .iter()
            .map(|s| SwitchInfo {
                name: s.name.clone(),
                device_id: s.device_id,
                grpc_address: s.grpc_server_addr,
            })
            .collect(),
        hosts: settings
            .hosts
            .iter()
            .map(|(name, _)| name.clone())
            .collect(),
        links: inner.chain(outer).collect(),
    }
}

/// The names of ports and of their captures: that of the interface for a port on one, that which it would have in
/// Mininet for others.
fn port_names(settings: &Settings) -> impl Iterator<Item = (PortAt, String)> {
    let inner = settings.links.iter().flatten().map(|(switch, port)| {
        let name = &settings.switches[*switch].name;
        ((*switch, *port), format!("{name}-eth{port}"))
    });
    let outer = settings.switches.iter().enumerate().flat_map(|(index, s)| {
        let ports = s.interfaces.iter();
        ports.map(move |(port, interface)| ((index, *port), interface.clone()))
    });
    outer.chain(inner)
}

/// `programs`: those that other switches were built with, by file.
fn build_switch<'a>(
    settings: &'a SwitchSettings,
    interpreted: bool,
    programs: &mut HashMap<&'a Path, Arc<Program>>,
) -> Result<Switch> {
    settings.check().map_err(|problem| anyhow!(problem))?;
    let options = SwitchOptions {
        name: settings.name.clone(),
        device_id: settings.device_id,
        cpu_port: settings.cpu_port,
        drop_port: settings.drop_port,
    };
    let mut switch = Switch::new(options, settings.traffic_manager.clone())?;
    // With a P4Info the server installs the program, as if a controller had asked for it.
    let (Some(path), None) = (&settings.program, &settings.p4info) else {
        return Ok(switch);
    };
    let program = match programs.get(&**path) {
        Some(present) => present.clone(),
        None => load(path, interpreted)?,
    };
    programs.insert(path, program.clone());
    switch
        .install(Pipeline::new(program))
        .with_context(|| format!("program {}", path.display()))?;
    Ok(switch)
}

fn load(path: &Path, interpreted: bool) -> Result<Arc<Program>> {
    let json = ebb_files::read(path)
        .with_context(|| format!("cannot read the program {}", path.display()))?;
    let wrong = |problem: &dyn Display| anyhow!("program {}: {problem}", path.display());
    let json = ebb_bmv2_json::Program::from_json(&json).map_err(|e| wrong(&e))?;
    let load = if interpreted {
        Program::load_interpreted
    } else {
        Program::load
    };
    load(&json).map_err(|e| wrong(&e))
}
