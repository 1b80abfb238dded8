//! Which connections there are to whom.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::transport::FlowId;

/// Connections to one peer that carry the same class of priority.
#[derive(Debug, Default)]
struct OfPeer {
    /// Those that this host opened, by number.
    opened: BTreeMap<u32, FlowId>,
    /// Those that the peer opened.
    accepted: Vec<FlowId>,
}

/// All persistent connections that can take one more object.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// By peer and DSCP.
    of_peers: BTreeMap<(Ipv4Addr, u8), OfPeer>,
}

impl Pool {
    /// The connection of this number that this host opened.
    pub(super) fn numbered(&self, peer: Ipv4Addr, dscp: u8, number: u32) -> Option<FlowId> {
        let of_peer = self.of_peers.get(&(peer, dscp))?;
        of_peer.opened.get(&number).copied()
    }

    /// All that this host opened, with their numbers.
    pub(super) fn opened(&self, peer: Ipv4Addr, dscp: u8) -> impl Iterator<Item = (u32, FlowId)> {
        let of_peer = self.of_peers.get(&(peer, dscp)).into_iter();
        of_peer.flat_map(|of| of.opened.iter().map(|(number, id)| (*number, *id)))
    }

    /// All that the peer opened.
    pub(super) fn accepted(&self, peer: Ipv4Addr, dscp: u8) -> &[FlowId] {
        let of_peer = self.of_peers.get(&(peer, dscp));
        of_peer.map_or(&[], |of| &of.accepted)
    }

    /// `number`: of a connection that this host opened. None: the peer did.
    pub(crate) fn add(&mut self, peer: Ipv4Addr, dscp: u8, number: Option<u32>, id: FlowId) {
        let of_peer = self.of_peers.entry((peer, dscp)).or_default();
        match number {
            Some(number) => {
                of_peer.opened.insert(number, id);
            }
            None => of_peer.accepted.push(id),
        }
    }

    /// The connection takes no more objects. Harmless if it is not here.
    pub(crate) fn remove(&mut self, peer: Ipv4Addr, dscp: u8, id: FlowId) {
        let key = (peer, dscp);
        if let Some(of_peer) = self.of_peers.get_mut(&key) {
            of_peer.opened.retain(|_, opened| *opened != id);
            of_peer.accepted.retain(|accepted| *accepted != id);
            if of_peer.opened.is_empty() && of_peer.accepted.is_empty() {
                self.of_peers.remove(&key);
            }
        }
    }
}
