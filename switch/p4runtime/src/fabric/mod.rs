//! The fabric service: a network of switches and links as people and experiments see it, under
//! either clock.

mod captures;
mod places;
mod service;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tonic::Status;

pub(crate) use service::Service;

use crate::proto::fabric::LinkState;

/// Switches, hosts and links of a network. It never changes.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// In the order of the devices that the server serves.
    pub switches: Vec<SwitchInfo>,
    /// The names of the hosts.
    pub hosts: Vec<String>,
    /// Both ends of each link.
    pub links: Vec<[LinkEnd; 2]>,
}

/// A switch of the network.
#[derive(Clone, Debug)]
pub struct SwitchInfo {
    /// Name in the topology.
    pub name: String,
    /// Device id, by which controllers name it (P4Runtime, 6.2).
    pub device_id: u64,
    /// Address of its P4Runtime server.
    pub grpc_address: SocketAddr,
}

/// An index into the switches or the hosts of a [`Layout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// Index in [`Layout::switches`].
    Switch(usize),
    /// Index in [`Layout::hosts`].
    Host(usize),
}

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    /// Switch or host that it is at.
    pub node: Node,
    /// 0 at a host.
    pub port: u16,
}

/// The network behind the service. Arguments are valid: links and switches are those of the layout, and the values of
/// states are in their ranges.
#[tonic::async_trait]
pub trait Fabric: Send + Sync + 'static {
    /// Switches, hosts and links.
    fn layout(&self) -> &Layout;
    /// The folder for captures.
    fn captures(&self) -> &Path;
    /// States of every link: of the direction from its first end, and from its second.
    async fn link_states(&self) -> Result<Vec<[LinkState; 2]>, Status>;
    /// Sets the states of a link: of the direction from its first end, and from its second.
    async fn set_link(&self, link: usize, states: [LinkState; 2]) -> Result<(), Status>;
    /// Restarts a switch: all packets, entries and counters are lost.
    async fn restart_switch(&self, switch: usize) -> Result<(), Status>;
    /// Starts a capture into `{stem}_in.pcap` and `{stem}_out.pcap`. It is for the implementation to refuse ports
    /// without a link, and files that cannot be written.
    async fn start_capture(&self, switch: usize, port: u16, stem: PathBuf) -> Result<(), Status>;
    /// Ends the capture at a port and completes its files.
    async fn stop_capture(&self, switch: usize, port: u16) -> Result<(), Status>;
}
