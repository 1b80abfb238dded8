//! The gRPC servers beside a simulation. They are answered while its clock stands still.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use ebb_engine::{ControlHandle, NodeId};
use ebb_p4runtime::{Device, Layout, LinkEnd, Node, Server, SwitchInfo};
use ebb_serve::{EngineDevice, EngineFabric};
use tokio::sync::oneshot;

use crate::build::Built;

/// Serves P4Runtime for every switch, which starts with the program that the network has for it, and the fabric service
/// if it has a socket. The servers end when something is sent through the result, or when that is dropped.
///
/// `loaded` is called when the switches have their programs, with the reasons of those that have refused them; until
/// then somebody must obey what comes of `handle`.
pub fn serve(
    built: &mut Built,
    handle: &ControlHandle,
    loaded: impl FnOnce(Vec<String>) + Send + 'static,
) -> Result<oneshot::Sender<()>> {
    let addresses: Vec<_> = built.switches.iter().map(|s| s.grpc_address).collect();
    let mut server = Server::bind(&addresses)?
        .while_the_clock_stands()
        .when_loaded(loaded);
    for (switches, program) in &built.programs {
        server = server.preload(switches.iter().copied(), program.clone())?;
    }
    for (index, switch) in built.switches.iter_mut().enumerate() {
        if let Some(schema) = switch.bf_rt_schema.take() {
            server = server.with_bf_runtime([index], schema);
        }
    }
    if let Some(socket) = &built.fabric_socket {
        let fabric = EngineFabric {
            layout: layout(built, &server),
            switches: built.switches.iter().map(|s| s.node).collect(),
            links: built.links.clone(),
            captures: built.captures.clone(),
            epoch_ns: 0,
            handle: handle.clone(),
        };
        server = server.with_fabric(socket, Arc::new(fabric))?;
    }
    let mut ports = ports(built);
    let devices = built.switches.iter().map(|switch| {
        let device = EngineDevice {
            id: switch.device_id,
            switch: switch.node,
            handle: handle.clone(),
            ports: ports.remove(&switch.node).unwrap_or_default(),
        };
        Arc::new(device) as Arc<dyn Device>
    });
    let devices = devices.collect();
    let (stop, stopped) = oneshot::channel::<()>();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the gRPC runtime")?;
    thread::Builder::new()
        .name("grpc".into())
        .spawn(move || {
            let shutdown = async {
                let _ = stopped.await;
            };
            if let Err(error) = runtime.block_on(server.serve(devices, shutdown)) {
                tracing::error!("the gRPC server has ended: {error}");
            }
        })
        .context("cannot start the gRPC thread")?;
    Ok(stop)
}

/// The ports that have a link, by node, with the names that they would have in Mininet.
fn ports(built: &Built) -> BTreeMap<NodeId, Vec<(u16, String)>> {
    let mut ports: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for end in built.links.iter().flatten() {
        let name = format!("{}-eth{}", built.simulation.name(end.node), end.port);
        ports.entry(end.node).or_default().push((end.port, name));
    }
    ports
}

/// The network as the fabric service describes it.
fn layout(built: &Built, server: &Server) -> Layout {
    let switches = built.switches.iter().enumerate();
    let switches = switches.map(|(index, switch)| (switch.node, Node::Switch(index)));
    let hosts = built.hosts.iter().enumerate();
    let hosts = hosts.map(|(index, host)| (*host, Node::Host(index)));
    let nodes: BTreeMap<NodeId, Node> = switches.chain(hosts).collect();
    let links = built.links.iter().map(|ends| {
        ends.map(|end| LinkEnd {
            node: nodes[&end.node],
            port: end.port,
        })
    });
    let switches = built.switches.iter().zip(server.addresses());
    let name = |node| built.simulation.name(node).to_owned();
    Layout {
        switches: switches
            .map(|(switch, grpc_address)| SwitchInfo {
                name: name(switch.node),
                device_id: switch.device_id,
                grpc_address,
            })
            .collect(),
        hosts: built.hosts.iter().map(|host| name(*host)).collect(),
        links: links.collect(),
    }
}
