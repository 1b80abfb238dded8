//! A network of an engine as the fabric service sees it, under either clock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ebb_engine::{ControlHandle, LinkState, NetworkError, NodeId, NodePort, Stopped};
use ebb_p4runtime::proto::fabric as proto;
use ebb_p4runtime::{Fabric, Layout};
use tonic::Status;

use crate::capture;

/// A network of the engine, from the server's threads.
pub struct EngineFabric {
    /// Switches, hosts and links.
    pub layout: Layout,
    /// The switches of the layout, in the same order.
    pub switches: Vec<NodeId>,
    /// The ends of the links of the layout, in the same order.
    pub links: Vec<[NodePort; 2]>,
    /// The folder for captures.
    pub captures: PathBuf,
    /// Origin of the times in captures: see [`capture::to_files`].
    pub epoch_ns: u64,
    /// Handle of the thread that runs the network.
    pub handle: ControlHandle,
}

#[tonic::async_trait]
impl Fabric for EngineFabric {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn captures(&self) -> &Path {
        &self.captures
    }

    async fn link_states(&self) -> Result<Vec<[proto::LinkState; 2]>, Status> {
        let infos = self.handle.link_states().await.map_err(stopped)?;
        let by_sender: BTreeMap<NodePort, LinkState> =
            infos.into_iter().map(|i| (i.from, i.state)).collect();
        let state = |end| by_sender.get(&end).copied().unwrap_or_default();
        let links = self.links.iter();
        Ok(links
            .map(|ends| ends.map(|end| to_proto(state(end))))
            .collect())
    }

    async fn set_link(&self, link: usize, states: [proto::LinkState; 2]) -> Result<(), Status> {
        for (end, state) in self.links[link].into_iter().zip(states) {
            let set = self.handle.set_link(end, from_proto(state));
            set.await.map_err(stopped)?.map_err(refused)?;
        }
        Ok(())
    }

    async fn restart_switch(&self, switch: usize) -> Result<(), Status> {
        let restart = self.handle.restart_switch(self.switches[switch]);
        restart.await.map_err(stopped)?.map_err(refused)
    }

    async fn start_capture(&self, switch: usize, port: u16, stem: PathBuf) -> Result<(), Status> {
        let files = capture::to_files(stem, self.epoch_ns);
        let start = self.handle.start_capture(self.port(switch, port), files);
        start.await.map_err(stopped)?.map_err(refused)
    }

    async fn stop_capture(&self, switch: usize, port: u16) -> Result<(), Status> {
        let stop = self.handle.stop_capture(self.port(switch, port));
        stop.await.map_err(stopped)?.map_err(refused)
    }
}

impl EngineFabric {
    fn port(&self, switch: usize, port: u16) -> NodePort {
        NodePort {
            node: self.switches[switch],
            port,
        }
    }
}

fn to_proto(state: LinkState) -> proto::LinkState {
    proto::LinkState {
        up: state.up,
        loss: state.loss,
        corrupt: state.corrupt,
        rate_bps: state.rate_bps,
    }
}

fn from_proto(state: proto::LinkState) -> LinkState {
    LinkState {
        up: state.up,
        loss: state.loss,
        corrupt: state.corrupt,
        rate_bps: state.rate_bps,
    }
}

fn stopped(stopped: Stopped) -> Status {
    Status::unavailable(stopped.to_string())
}

fn refused(error: NetworkError) -> Status {
    let message = error.to_string();
    match error {
        NetworkError::NoLink { .. } | NetworkError::NoCapture { .. } => Status::not_found(message),
        NetworkError::NotASwitch { .. } => Status::invalid_argument(message),
        NetworkError::LinkState { .. } => Status::out_of_range(message),
        _ => Status::failed_precondition(message),
    }
}
