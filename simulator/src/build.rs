//! Builds the simulation that a network file describes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::Result;
use ebb_engine::simulation::{NodeId, NodePort, Simulation};
use ebb_p4runtime::proto::p4::ForwardingPipelineConfig;
use ebb_p4runtime::{ProgramFiles, Schema};

use crate::feed::Place;
use crate::hosts::HostBuilder;
use crate::network::{Network, SwitchEntry};
use crate::node::Node;
use crate::workload::{Plan, Survey};

/// A switch of the simulation and how controllers reach it.
pub struct SimSwitch {
    /// Its number in the simulation.
    pub node: NodeId,
    /// Its P4Runtime device id.
    pub device_id: u64,
    /// Where P4Runtime is served for it.
    pub grpc_address: SocketAddr,
    /// Schema of BF Runtime. None: that is not served.
    pub bf_rt_schema: Option<Schema>,
}

/// A simulation whose clock has not run yet, and what belongs to it.
pub struct Built {
    /// The network.
    pub simulation: Simulation<Node>,
    /// The switches, in the order of the file.
    pub switches: Vec<SimSwitch>,
    /// Programs that they start with, each with the switches that do, by their places in the file. Others wait for one.
    pub programs: Vec<(Vec<usize>, ForwardingPipelineConfig)>,
    /// The hosts, in the order of the file.
    pub hosts: Vec<NodeId>,
    /// The links, in the order of the file.
    pub links: Vec<[NodePort; 2]>,
    /// Socket of the fabric service; `None` if it is not served.
    pub fabric_socket: Option<PathBuf>,
    /// Folder for packet captures.
    pub captures: PathBuf,
    /// The transfers.
    pub plan: Plan,
    /// The hosts that take part in transfers, by their numbers there, with their names.
    pub planned: Vec<(Place, String)>,
    /// Properties of the transfers that are known in advance.
    pub survey: Survey,
    /// Parts of the workload with which a run ends; empty means all.
    pub ends_with: Vec<String>,
    /// Counts the transfers that have ended.
    pub ended: Arc<AtomicU64>,
    /// Whether rounds that repeat each other are skipped.
    pub skip: bool,
    /// Hosts that programs outside play, by name.
    pub external: BTreeMap<String, NodeId>,
    /// These are given what has arrived at multiples of this time, in ns.
    pub reaction_ns: u64,
}

impl Network {
    /// Builds the simulation, or says what in the file makes no sense.
    pub fn build(mut self) -> Result<Built> {
        self.check_names()?;
        self.check_skip()?;
        let plan = self.plan()?;
        let program = self.program.take();
        let mut switch_entries = std::mem::take(&mut self.switches);
        let mut builder = HostBuilder::new(&self, &plan)?;
        let survey = plan.survey(&builder.catalog.transports, &builder.catalog.addresses)?;
        survey.check_names("ends_with", self.ends_with.iter())?;
        survey.check_names("transport_of", self.transport_of.keys())?;
        let programs = programs(program, &mut switch_entries, &self.folder)?;
        let mut simulation = Simulation::new();
        simulation.set_seed(self.seed);
        let mut ids = BTreeMap::new();
        let mut switches = Vec::new();
        for entry in switch_entries {
            let name = entry.name.clone();
            let switch = self.add_switch(entry, &mut simulation)?;
            ids.insert(name, switch.node);
            switches.push(switch);
        }
        let mut hosts = Vec::new();
        let mut planned = Vec::new();
        let mut external = BTreeMap::new();
        for entry in &self.hosts {
            let (node, members) = builder.node(entry)?;
            let node = simulation.add_host(node);
            for (member, name) in members.into_iter().enumerate() {
                if let Some(number) = builder.number(&name) {
                    planned.push((number, (Place { node, member }, name)));
                }
            }
            ids.insert(entry.name.clone(), node);
            if entry.external {
                external.insert(entry.name.clone(), node);
            }
            hosts.push(node);
        }
        // `catalog` has found all of them, so none is missing.
        planned.sort_by_key(|(number, _)| *number);
        let ended = builder.ended;
        let mut links = Vec::new();
        for [a, b] in &self.links {
            let ends = [a.find(&ids)?, b.find(&ids)?];
            simulation.connect(ends[0], ends[1])?;
            links.push(ends);
        }
        Ok(Built {
            simulation,
            switches,
            programs,
            hosts,
            links,
            fabric_socket: self.fabric_socket.map(|socket| self.folder.join(socket)),
            captures: self.folder.join(&self.captures),
            plan,
            planned: planned.into_iter().map(|(_, place)| place).collect(),
            survey,
            ends_with: self.ends_with,
            ended,
            skip: self.skip,
            external,
            reaction_ns: self.reaction_ns,
        })
    }

    fn add_switch(
        &self,
        mut entry: SwitchEntry,
        simulation: &mut Simulation<Node>,
    ) -> Result<SimSwitch> {
        let schema = entry.bf_rt_schema.take();
        let bf_rt_schema = schema.map(|schema| schema.within(&self.folder).read());
        let (device_id, grpc_address) = (entry.device_id, entry.grpc_server_addr);
        Ok(SimSwitch {
            node: simulation.add_switch(entry.build()?),
            device_id,
            grpc_address,
            bf_rt_schema: bf_rt_schema.transpose()?,
        })
    }
}

/// The programs that switches start with: their own, or that of all.
fn programs(
    all: Option<ProgramFiles>,
    switches: &mut [SwitchEntry],
    folder: &Path,
) -> Result<Vec<(Vec<usize>, ForwardingPipelineConfig)>> {
    let read = |files: ProgramFiles| files.within(folder).read();
    let (mut of_all, mut programs) = (Vec::new(), Vec::new());
    for (index, switch) in switches.iter_mut().enumerate() {
        match switch.program.take() {
            Some(own) => programs.push((vec![index], read(own)?)),
            None => of_all.push(index),
        }
    }
    if let Some(files) = all {
        programs.push((of_all, read(files)?));
    }
    Ok(programs)
}
