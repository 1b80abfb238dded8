//! The choice of the queue that a port serves next: groups within their share of the link, then
//! groups by weight, then what goes beyond a share.

use ebb_units::{BitRate, Instant};

use crate::buffer::Buffer;
use crate::config::Profile;
use crate::eligible_times::EligibleTimes;
use crate::queue::Queue;
use crate::scheduler::{QueueSet, Scheduler};
use crate::serialiser::Serialiser;
use crate::shares::Shares;

/// The arbiter of a port. Every change at the head of a queue has to be noted ([`note`](Self::note)).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Arbiter {
    /// Groups with a share of the link; `None` if there are none.
    shares: Option<Box<Shares>>,
    /// Groups by weight.
    scheduler: Scheduler,
    /// From when on the head of each queue may leave.
    eligible: EligibleTimes,
}

impl Arbiter {
    /// An arbiter for empty queues.
    pub(crate) fn new(now: Instant, profile: &Profile) -> Self {
        Self {
            eligible: EligibleTimes::default(),
            shares: Shares::new(now, profile),
            scheduler: Scheduler::new(profile),
        }
    }

    /// Takes over the groups of a profile, all at the start of their rounds and with full buckets.
    pub(crate) fn configure(&mut self, now: Instant, profile: &Profile) {
        self.shares = Shares::new(now, profile);
        self.scheduler = Scheduler::new(profile);
    }

    /// Forgets all heads, because the queues are empty.
    pub(crate) fn clear(&mut self) {
        self.eligible = EligibleTimes::default();
    }

    /// Fills the buckets until now, because the link has another rate from now on. Queues with a
    /// [cap](Self::is_capped) are to be noted again.
    pub(crate) fn fill(&mut self, now: Instant, rate: BitRate) {
        if let Some(shares) = &mut self.shares {
            shares.fill(now, rate);
        }
    }

    /// Whether a queue may never go beyond its share.
    pub(crate) fn is_capped(&self, id: usize) -> bool {
        let shares = self.shares.as_ref();
        shares.is_some_and(|shares| shares.is_capped(id))
    }

    /// Notes from when on the head of a queue may leave.
    pub(crate) fn note<P>(&mut self, id: usize, queue: &Queue<P>, line: &Serialiser) {
        let ready = queue.ready_at();
        let since = match &self.shares {
            None => ready,
            Some(shares) => ready.map(|at| {
                let cost = || line.wire_bytes(queue.next_len(at).unwrap_or(0));
                shares.affordable_at(id, at, cost, line.rate())
            }),
        };
        self.eligible.set(id, since);
    }

    /// The earliest time at which a head may leave; `None` if there is none.
    #[inline]
    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.eligible.earliest()
    }

    /// The highest queue with a head, probably the next one: a guess without side effects.
    #[inline]
    pub(crate) fn likely(&self) -> Option<usize> {
        self.eligible.highest()
    }

    /// Chooses the queue that sends at `start`, and charges its group. However late the call is,
    /// only packets that were there at the start take part.
    pub(crate) fn pick<P>(
        &mut self,
        start: Instant,
        buffer: &Buffer<P>,
        line: &Serialiser,
    ) -> Option<usize> {
        let ready = self.eligible.ready(start);
        if self.shares.is_some() {
            return self.pick_with_shares(start, ready, buffer, line);
        }
        let oldest = |queues| self.eligible.earliest_of(queues);
        self.scheduler.pick(ready, oldest)
    }

    /// Whether a packet that comes now is the only one that may leave, and no group has a share of the link.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.shares.is_none() && self.eligible.is_empty()
    }

    /// Chooses a queue with the only packet, and charges its group. False: no group has the queue.
    #[inline]
    pub(crate) fn pick_only(&mut self, id: usize) -> bool {
        self.scheduler.pick(1 << id, |_| Some(id)).is_some()
    }

    /// Chooses among the `ready` queues where groups have a share of the link.
    fn pick_with_shares<P>(
        &mut self,
        start: Instant,
        ready: QueueSet,
        buffer: &Buffer<P>,
        line: &Serialiser,
    ) -> Option<usize> {
        let shares = self.shares.as_mut()?;
        shares.fill(start, line.rate());
        let next_len = |id| buffer.queue(id).next_len(start).unwrap_or(0);
        let first = shares.pick_first(ready, |id| line.wire_bytes(next_len(id)));
        first
            .or_else(|| {
                self.scheduler.pick(ready & !shares.queues, |queues| {
                    self.eligible.earliest_of(queues)
                })
            })
            .or_else(|| shares.pick_last(ready))
    }

    /// Whether the heads are those of the queues, as far as no cap delays them.
    pub(crate) fn agrees<P>(&self, buffer: &Buffer<P>) -> bool {
        let mut queues = buffer.queues();
        queues.all(|(id, queue)| self.is_capped(id) || self.eligible.get(id) == queue.ready_at())
    }
}
