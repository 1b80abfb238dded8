//! The hose of one VM in both directions, and the messages about it between hypervisors.

use ebb_units::{BitRate, Duration, Instant};
use ebb_wire::HoseMessage;

use super::hose::{HoseReceiver, HoseSender};
use super::pacer::VmPacer;

/// How the hypervisors of a tenant coordinate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoordinationParams {
    /// Between two messages from a VM to another that are about the same direction.
    pub period: Duration,
    /// The longest time of a message from pacer to pacer.
    pub delay: Duration,
}

/// Who wants to send to a VM, and at which rates the VM may send. Its peers are named by `K`; its
/// pacer has a bucket for each, and one more, [`MESSAGES`](Self::MESSAGES), for the messages
/// themselves: they keep to {B, S} and the peak as all else does, but wait for no grant.
#[derive(Debug)]
pub struct Coordination<K> {
    receiver: HoseReceiver<K>,
    sender: HoseSender<K>,
    period: Duration,
    /// When demands are due. None: no destination needs a rate.
    demands_at: Option<Instant>,
    /// No demands before then.
    quiet_until: Instant,
    /// When the next lease ends. None: there is none.
    lease_ends: Option<Instant>,
}

impl<K: Copy + Ord> Coordination<K> {
    /// The destination of messages in the pacer.
    pub const MESSAGES: Option<K> = None;

    /// `rate`: what all senders together may send to the VM: B less the messages.
    pub fn new(rate: BitRate, params: CoordinationParams) -> Self {
        Coordination {
            receiver: HoseReceiver::new(rate, params.period, params.delay),
            sender: HoseSender::new(),
            period: params.period,
            demands_at: None,
            quiet_until: Instant::ZERO,
            lease_ends: None,
        }
    }

    /// The VM has a packet for a peer: the rate of a bucket that is new.
    pub fn handle_packet(&mut self, now: Instant, to: K) -> BitRate {
        self.demands_at.get_or_insert(self.quiet_until.max(now));
        self.sender.rate(now, to)
    }

    /// A message of a peer about this VM.
    pub fn handle_message<P>(
        &mut self,
        now: Instant,
        from: K,
        message: HoseMessage,
        pacer: &mut VmPacer<Option<K>, P>,
    ) {
        match message {
            HoseMessage::Demand => self.receiver.handle_demand(now, from),
            HoseMessage::Grant { rate_bps, lease_ns } => {
                let rate = BitRate::from_bps(rate_bps);
                let lease = Duration::from_nanos(lease_ns).min(self.period * 2);
                self.sender.handle_grant(now, from, rate, lease);
                self.lease_ends = self.sender.next_deadline();
                pacer.set_rate(now, Some(from), rate);
            }
        }
    }

    /// When [`poll`](Self::poll) has something to do. None: not before something arrives.
    pub fn next_deadline(&self) -> Option<Instant> {
        let grants = self.receiver.next_deadline();
        Instant::earliest([self.demands_at, grants, self.lease_ends])
    }

    /// Ends leases that have run out, and hands what is due by `now` to `say`.
    pub fn poll<P>(
        &mut self,
        now: Instant,
        pacer: &mut VmPacer<Option<K>, P>,
        mut say: impl FnMut(K, HoseMessage),
    ) {
        if self.lease_ends.is_some_and(|at| at <= now) {
            while let Some(receiver) = self.sender.poll_ended(now) {
                pacer.set_rate(now, Some(receiver), BitRate::from_bps(0));
            }
            self.lease_ends = self.sender.next_deadline();
        }
        if self.demands_at.is_some_and(|at| at <= now) {
            let mut wanting = false;
            for to in pacer.poll_wanting(now).flatten() {
                wanting = true;
                say(to, HoseMessage::Demand);
            }
            self.quiet_until = now + self.period;
            self.demands_at = wanting.then_some(self.quiet_until);
        }
        for grant in self.receiver.poll_grants(now) {
            let message = HoseMessage::Grant {
                rate_bps: grant.rate.as_bps(),
                lease_ns: grant.lease.as_nanos(),
            };
            say(grant.sender, message);
        }
    }
}

#[cfg(test)]
#[path = "coordination_tests.rs"]
mod tests;
