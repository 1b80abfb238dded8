//! Events that a switch asks its caller for, and the ports with a transmission that starts now.

use std::collections::VecDeque;

use ebb_traffic_manager::PortId;
use ebb_units::Instant;

/// Something that a switch wants to happen at some time.
#[derive(Debug)]
pub(crate) enum Effect {
    /// A transmission may start at this port.
    Serve(PortId),
    /// The last bit of a frame is at the far end of the port's link, or at the controller.
    Send { port: PortId, frame: Vec<u8> },
}

/// Effects that nobody has taken, and when each port will be served.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Effects with their times, in the order in which they were asked for.
    waiting: VecDeque<(Instant, Effect)>,
    /// Time at which each port will be served, by an [`Effect::Serve`] or because it is in `due`;
    /// `None` if it has nothing to send.
    serve_at: Vec<Option<Instant>>,
    /// Ports with a transmission that starts now.
    due: VecDeque<PortId>,
}

impl Effects {
    /// The next effect.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(Instant, Effect)> {
        // Most events have one effect. To see that there is no other takes less than to ask for it.
        if self.waiting.is_empty() {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Asks for a frame to be at the far end of a port's link.
    pub(super) fn send(&mut self, arrival: Instant, port: PortId, frame: Vec<u8>) {
        let effect = Effect::Send { port, frame };
        self.waiting.push_back((arrival, effect));
    }

    /// Makes sure that a port is served at its deadline, or now if that is past.
    pub(super) fn serve(&mut self, now: Instant, port: PortId, deadline: Instant) {
        let index = usize::from(port);
        if self.serve_at.len() <= index {
            self.serve_at.resize(index + 1, None);
        }
        if self.serve_at[index].is_some_and(|at| at <= deadline) {
            return;
        }
        self.serve_at[index] = Some(deadline);
        if deadline <= now {
            self.due.push_back(port);
        } else {
            self.waiting.push_back((deadline, Effect::Serve(port)));
        }
    }

    /// Notes that a port is served.
    pub(super) fn served(&mut self, port: PortId) {
        self.serve_at[usize::from(port)] = None;
    }

    /// A port with a transmission that starts now.
    pub(super) fn pop_due(&mut self) -> Option<PortId> {
        self.due.pop_front()
    }

    /// All ports that were ever served.
    pub(super) fn ports(&self) -> std::ops::Range<PortId> {
        0..self.serve_at.len() as PortId
    }

    /// Forgets when ports will be served. Frames that have left stay on their way.
    pub(super) fn forget_services(&mut self) {
        self.serve_at.fill(None);
    }
}
