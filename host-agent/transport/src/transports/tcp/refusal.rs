//! Aborts of flows, with the reason for the peer.

use ebb_units::Instant;

use super::endpoint::TcpEndpoint;
use super::flow::Ending;
use crate::objection::Objection;
use crate::transport::FlowId;

impl TcpEndpoint {
    /// Gives a flow up; `reason` is for its record, the objection for the peer.
    pub(super) fn give_up(
        &mut self,
        now: Instant,
        id: FlowId,
        reason: &str,
        objection: Option<Objection>,
    ) {
        if let Some(&connection) = self.carriers.get(&id) {
            // Its peer gets the reason itself.
            self.with_persistent(connection, |objects, flow, shared| {
                objects.abort(now, id, reason, flow, shared);
            });
            return self.after_input(now, connection);
        }
        let flow = self.flows.get_mut(id);
        let Some(flow) = flow.filter(|flow| flow.persistent.is_none()) else {
            return;
        };
        let unconfirmed = flow.connection.is_to_close();
        if flow.ending == Ending::Reported && !unconfirmed {
            return;
        }
        flow.abort_reason = Some(reason.to_owned());
        flow.connection.refuse(objection);
        self.after_input(now, id);
    }
}
