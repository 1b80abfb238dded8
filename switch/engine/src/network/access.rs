//! Access to a node between two events, for commands of other threads and for tests.

use ebb_units::Instant;

use super::NetworkError;
use super::host::Host;
use super::link::{LinkInfo, LinkState};
use super::node::Node;
use crate::capture::OpenSink;
use crate::control::NodeControl;
use crate::switch::{PortId, Switch};

/// Settings that all nodes of a network share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Seed of the draws by which links lose and corrupt frames.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { seed: 1 }
    }
}

/// A node at a certain time.
pub(crate) struct Access<'a, H> {
    pub(super) node: &'a mut Node<H>,
    pub(super) now: Instant,
    pub(super) settings: Settings,
}

impl<H: Host> NodeControl for Access<'_, H> {
    fn switch(&mut self) -> Option<&mut Switch> {
        self.node.as_switch_mut()
    }

    fn set_link(&mut self, port: PortId, state: LinkState) -> Result<(), NetworkError> {
        self.node
            .set_link(self.now, port, state, self.settings.seed)
    }

    fn link_states(&self) -> Vec<LinkInfo> {
        self.node.link_states().collect()
    }

    fn restart(&mut self) -> Result<(), NetworkError> {
        self.node.restart(self.now)
    }

    fn start_capture(&mut self, port: PortId, open: OpenSink) -> Result<(), NetworkError> {
        self.node.start_capture(port, open)
    }

    fn stop_capture(&mut self, port: PortId) -> Result<(), NetworkError> {
        self.node.stop_capture(port)
    }
}
