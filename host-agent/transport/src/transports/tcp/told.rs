//! What switches tell a host of its packets: that one was dropped (`docs/fastlane.md`), or that it should
//! send less (`docs/source-quench.md`).

use std::net::SocketAddrV4;

use ebb_units::Instant;
use ebb_wire::{DropNotification, SourceQuench};

use super::connection::Connection;
use super::endpoint::TcpEndpoint;
use crate::transport::FlowId;

impl TcpEndpoint {
    /// A packet in the class of notifications: the network says that it dropped one of ours.
    pub(super) fn handle_drop(&mut self, now: Instant, packet: &[u8]) {
        let Ok(dropped) = DropNotification::parse(packet) else {
            self.counters.malformed_packets += 1;
            return;
        };
        if *dropped.sender.ip() != self.host.address {
            self.counters.foreign_packets += 1;
            return;
        }
        if let Some((id, connection)) = self.sent_by(dropped.sender, dropped.receiver) {
            connection.handle_drop(now, &dropped);
            self.after_input(now, id);
        }
    }

    /// A switch asks us to send less.
    pub(super) fn handle_quench(&mut self, now: Instant, packet: &[u8]) {
        let Ok(quench) = SourceQuench::parse(packet) else {
            self.counters.malformed_packets += 1;
            return;
        };
        if let Some((id, connection)) = self.sent_by(quench.sender, quench.receiver)
            && connection.handle_quench(quench.seq)
        {
            self.counters.quenched += 1;
            self.after_input(now, id);
        }
    }

    /// The connection of a packet from `sender`, which may be us, to `receiver`.
    fn sent_by(
        &mut self,
        sender: SocketAddrV4,
        receiver: SocketAddrV4,
    ) -> Option<(FlowId, &mut Connection)> {
        let id = *self.by_address.get(&(sender.port(), receiver))?;
        let flow = self.flows.get_mut(&id)?;
        (flow.local == sender).then_some((id, &mut flow.connection))
    }
}
