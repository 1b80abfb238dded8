//! Events that a switch asks its caller for, and the ports with a transmission that starts now.

use std::collections::VecDeque;

use ebb_traffic_manager::PortId;
use ebb_units::Instant;

/// A frame that a switch has sent.
#[derive(Debug)]
pub(crate) struct Sent {
    /// When its last bit is at the far end of the port's link, or at the controller.
    pub(crate) at: Instant,
    /// The port.
    pub(crate) port: PortId,
    /// The frame.
    pub(crate) frame: Vec<u8>,
}

/// Time in place of a service, where there is none.
const NEVER: Instant = Instant::FAR_FUTURE;

/// Frames and wishes that nobody has taken, and when each port will be served.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// The frame that was sent first. Most events send one at most.
    sent: Option<Sent>,
    /// Frames that were sent after it, in this order.
    sent_later: VecDeque<Sent>,
    /// Ports that want to be served at a time, as a transmission may start then.
    services: Vec<(Instant, PortId)>,
    /// Time at which each port will be served, because it was in `services` or is in `due`;
    /// [`NEVER`] if it has nothing to send.
    serve_at: Vec<Instant>,
    /// Ports with a transmission that starts now.
    due: VecDeque<PortId>,
}

impl Effects {
    /// The next frame that was sent.
    #[inline]
    pub(super) fn next_sent(&mut self) -> Option<Sent> {
        // To take nothing takes as much as to take a frame.
        self.sent.as_ref()?;
        let sent = self.sent.take()?;
        // To see that there is no other takes less than to ask for it.
        if !self.sent_later.is_empty() {
            self.sent = self.sent_later.pop_front();
        }
        Some(sent)
    }

    /// A port that wants to be served, and when. Those of one call have no order.
    #[inline]
    pub(super) fn next_service(&mut self) -> Option<(Instant, PortId)> {
        self.services.pop()
    }

    /// Asks for a frame to be at the far end of a port's link.
    #[inline]
    pub(super) fn send(&mut self, at: Instant, port: PortId, frame: Vec<u8>) {
        let sent = Sent { at, port, frame };
        match self.sent {
            None => self.sent = Some(sent),
            Some(_) => self.sent_later.push_back(sent),
        }
    }

    /// Makes sure that a port is served at its deadline, or now if that is past.
    #[inline]
    pub(super) fn serve(&mut self, now: Instant, port: PortId, deadline: Instant) {
        let index = usize::from(port);
        if self.serve_at.len() <= index {
            self.serve_at.resize(index + 1, NEVER);
        }
        if self.serve_at[index] <= deadline {
            return;
        }
        self.serve_at[index] = deadline;
        if deadline <= now {
            self.due.push_back(port);
        } else {
            self.services.push((deadline, port));
        }
    }

    /// Notes that a port is served.
    #[inline]
    pub(super) fn served(&mut self, port: PortId) {
        self.serve_at[usize::from(port)] = NEVER;
    }

    /// Whether a transmission starts now at a port.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// A port with a transmission that starts now.
    #[inline]
    pub(super) fn pop_due(&mut self) -> Option<PortId> {
        if self.due.is_empty() {
            return None;
        }
        self.due.pop_front()
    }

    /// All ports that were ever served.
    pub(super) fn ports(&self) -> std::ops::Range<PortId> {
        0..self.serve_at.len() as PortId
    }

    /// Forgets when ports will be served. Frames that have left stay on their way.
    pub(super) fn forget_services(&mut self) {
        self.serve_at.fill(NEVER);
    }
}
