//! `ebb-agent bench --vms`: the shares of the virtual machines of this host in a workload.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{anyhow, ensure};
use ebb_transport::tenant::{HypervisorCounters, HypervisorEntry, VmEntry};
use serde::Deserialize;
use serde_json::json;

use super::args::BenchArgs;
use super::workload::HostShare;
use crate::api::client::Client;
use crate::commands::record;
use crate::commands::session;
use crate::engine::departures::DepartureFile;
use crate::engine::hypervisor::HypervisorRuntime;
use crate::engine::params;
use crate::machine::interface::Interface;

/// The virtual machines of a host, as a file has them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VmsFile {
    /// How the hypervisor works.
    hypervisor: HypervisorEntry,
    /// File in which all hosts note when packets conformed; made if it is not there.
    departures: PathBuf,
    /// The VMs.
    vms: Vec<VmEntry>,
}

/// Whether everything that concerns the VMs of this host went well.
pub fn run(args: &BenchArgs, workload: &Path, vms: &Path) -> anyhow::Result<bool> {
    let file: VmsFile = params::read_file(vms, "virtual machines")?;
    let engine = &args.common.engine;
    ensure!(
        engine.ring.is_none(),
        "--ring: frames of virtual machines go through the interface; leave it out"
    );
    let params = params::read(engine.params.as_deref())?;
    let in_file =
        |error: String| anyhow!("in the virtual machines file {}: {error}", vms.display());
    let shares = file
        .vms
        .iter()
        .map(|vm| HostShare::open(args, workload, "--vms:", &vm.name));
    let shares: Vec<HostShare> = shares.collect::<Result<_, _>>()?;
    let Some(first) = shares.first() else {
        return Err(in_file("vms is empty".to_owned()));
    };
    let hypervisor = file.hypervisor.params(first.transports.all(), &params.nic);
    let hypervisor = hypervisor.map_err(in_file)?;
    for vm in &file.vms {
        vm.guest(&params.nic, &hypervisor).map_err(in_file)?;
        let listed = first.addresses().any(|address| address == vm.ip);
        ensure!(
            listed,
            "{}: no host of the workload has its address {}",
            vm.name,
            vm.ip
        );
    }
    let departures = Arc::new(DepartureFile::open(&file.departures, first.addresses())?);
    let interface = match &engine.interface {
        Some(interface) => interface.clone(),
        None => Interface::only()?,
    };
    let seed = engine.protocol_seed.unwrap_or_else(rand::random);
    let (name, vms) = (interface.clone(), file.vms);
    let mut runtime =
        HypervisorRuntime::open(&interface, params, hypervisor, vms, departures, seed)?;
    let works = shares
        .into_iter()
        .map(|share| |client: Client| share.run(client, &args.workload));
    let result = session::serve_vms(&mut runtime, works.collect());
    print_end(&runtime, &name);
    result
}

/// Prints the delays of packets between VMs, and counts and lateness of the hypervisor.
fn print_end(runtime: &HypervisorRuntime, interface: &str) {
    for delays in runtime.delays() {
        record::print("delays", [delays]);
    }
    let HypervisorCounters {
        void_frames,
        void_bytes,
        dropped_frames,
        messages,
        stale_messages,
    } = runtime.counters();
    let counters = json!({
        "interface": interface,
        "void_frames": void_frames,
        "void_bytes": void_bytes,
        "dropped_frames": dropped_frames,
        "messages": messages,
        "stale_messages": stale_messages,
    });
    record::print("hypervisor", [counters]);
    record::print("end", [json!({"lateness": runtime.lateness()})]);
}
