//! The queues of a port and the pool that they share: admission of packets, and push-out.

use ebb_units::Instant;

use crate::admission::{Admission, Arrival};
use crate::config::{OnFull, Profile};
use crate::depth::Depth;
use crate::limits::MAX_QUEUES;
use crate::per_queue::PerQueue;
use crate::port_id::PortId;
use crate::pushed_out::PushedOut;
use crate::queue::{Item, Limit, PausedBy, Queue};
use crate::scheduler::{QueueSet, ids};
use crate::statistics::{DropReason, Recorder};

/// The buffer of a port.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Buffer<P> {
    /// Limit of the shared pool.
    pool_limit: Limit,
    /// Occupancy of the pool: all queues that use it.
    pool: Depth,
    /// Behind an ingress stage: the limit of the pool applies to each queue by itself.
    room_per_queue: bool,
    /// The queues; those beyond the first eight exist only after [`reach`](Self::reach). Queues that the
    /// profile does not list admit nothing.
    queues: PerQueue<Queue<P>>,
}

impl<P> Buffer<P> {
    /// A buffer without queues.
    pub(crate) fn new() -> Self {
        Self {
            pool_limit: Limit::default(),
            pool: Depth::default(),
            room_per_queue: false,
            queues: PerQueue::new(Queue::new),
        }
    }

    /// Takes over a profile. Packets stay even above a lower capacity, except those of queues that
    /// no longer exist.
    pub(crate) fn configure(&mut self, now: Instant, profile: &Profile) {
        // Behind an ingress stage all queues share the egress buffer; validation allows no pool.
        self.pool_limit = Limit {
            packets: profile.pool_packets,
            bytes: profile.egress_bytes.or(profile.pool_bytes),
        };
        self.pool = Depth::default();
        self.room_per_queue = profile.egress_per_queue;
        profile.queue.iter().for_each(|q| self.reach(q.id.into()));
        for (id, queue) in self.queues.iter_mut().enumerate() {
            queue.configure(profile.queue.iter().find(|q| usize::from(q.id) == id));
            if !queue.exists {
                queue.clear(now);
            }
            queue.pooled |= profile.egress_bytes.is_some();
            if queue.pooled {
                self.pool = self.pool.plus(queue.depth);
            }
        }
    }

    /// Drops all packets that wait.
    pub(crate) fn clear(&mut self, now: Instant) {
        self.queues.iter_mut().for_each(|queue| queue.clear(now));
        self.pool = Depth::default();
    }

    /// Queues that the profile lists.
    pub(crate) fn listed(&self) -> QueueSet {
        let listed = self.queues().filter(|(_, queue)| queue.exists);
        listed.fold(0, |set, (id, _)| set | 1 << id)
    }

    /// Makes sure that a queue exists in memory, whether listed or not.
    #[inline]
    pub(crate) fn reach(&mut self, id: usize) {
        self.queues.reach(id, Queue::new);
    }

    /// A queue. `None`: it has not been reached.
    pub(crate) fn known(&self, id: usize) -> Option<&Queue<P>> {
        self.queues.get(id)
    }

    /// A queue that has been reached, which need not be listed.
    #[inline]
    pub(crate) fn queue(&self, id: usize) -> &Queue<P> {
        &self.queues[id]
    }

    /// All queues with their ids.
    pub(crate) fn queues(&self) -> impl Iterator<Item = (usize, &Queue<P>)> {
        self.queues.iter().enumerate()
    }

    /// All packets with the ids of their queues.
    pub(crate) fn items(&self) -> impl Iterator<Item = (usize, &Item<P>)> {
        self.queues()
            .flat_map(|(id, queue)| queue.items().map(move |item| (id, item)))
    }

    /// The counters of a queue.
    pub(crate) fn recorder(&mut self, id: usize) -> &mut Recorder {
        &mut self.queues[id].recorder
    }

    /// Reason to refuse a packet of `len` bytes that is offered to a queue; `None` if there is room.
    #[inline]
    pub(crate) fn objection(&self, id: usize, len: u64) -> Option<DropReason> {
        let queue = &self.queues[id];
        if !queue.exists {
            Some(DropReason::NoSuchQueue)
        } else if !queue.limit.admits(queue.depth, len) {
            Some(DropReason::QueueFull)
        } else if queue.pooled && !self.pool_limit.admits(self.pool, len) {
            Some(DropReason::PoolFull)
        } else {
            None
        }
    }

    /// Adds a packet to a queue, whether there is room or not. True: it is the head of the queue.
    #[inline(always)]
    pub(crate) fn push(&mut self, now: Instant, id: usize, item: Item<P>) -> bool {
        push(&mut self.queues[id], &mut self.pool, now, item)
    }

    /// Whether a packet of `len` bytes that is offered to an empty queue may leave it at once.
    #[inline]
    pub(crate) fn passes(&self, now: Instant, id: usize, len: u64) -> bool {
        self.queues[id].is_open(now) && self.objection(id, len).is_none()
    }

    /// Takes a packet that leaves the empty queue at once.
    #[inline]
    pub(crate) fn pass(&mut self, now: Instant, id: usize, len: u64) {
        let queue = &mut self.queues[id];
        queue.recorder.passed(now, len);
        queue.check();
    }

    /// Lets a queue that keeps notes of its packets note the one that was just pushed.
    #[inline]
    pub(crate) fn note(&mut self, id: usize, arrival: &Arrival) {
        let queue = &mut self.queues[id];
        if queue.notes {
            queue.note(arrival);
        }
    }

    /// Removes the packet of a queue whose turn it is at a time.
    #[inline]
    pub(crate) fn pop(&mut self, id: usize, at: Instant) -> Option<Item<P>> {
        let queue = &mut self.queues[id];
        let item = queue.pop(at)?;
        if queue.pooled {
            self.pool.remove(item.len());
        }
        Some(item)
    }

    /// Hands back a packet for which there is no room.
    pub(crate) fn refuse(
        &mut self,
        reason: DropReason,
        arrival: Arrival,
        packet: P,
    ) -> Admission<P> {
        let queue = &mut self.queues[usize::from(arrival.queue) % MAX_QUEUES];
        let full = reason != DropReason::NoSuchQueue;
        if full && queue.deflects(&arrival) {
            queue.recorder.rare().deflected.add(arrival.len);
            queue.check();
            let depth = queue.depth;
            return Admission::Deflected { packet, depth };
        }
        let reason = match full && arrival.deflections > 0 {
            true => DropReason::DeflectFailed,
            false => reason,
        };
        queue.recorder.dropped(reason, arrival.len);
        queue.check();
        Admission::Dropped { packet, reason }
    }

    /// Makes room for a packet that was refused for `reason`, by pushing out packets that give way to it. False: there
    /// are too few of them, and none is pushed out. If its queue has room and is exempt from the pool's limit, the
    /// packet is admitted even then, and they are pushed out.
    #[cold]
    pub(crate) fn make_room(
        &mut self,
        now: Instant,
        reason: DropReason,
        (port, arrival): (PortId, Arrival),
        pushed_out: &mut Vec<PushedOut<P>>,
    ) -> bool {
        let id = usize::from(arrival.queue) % MAX_QUEUES;
        let queue = &self.queues[id];
        if queue.on_full == OnFull::DeflectEither {
            return self.take_place_of_youngest(now, port, arrival, pushed_out);
        }
        if reason == DropReason::NoSuchQueue || !queue.on_full.pushes_out() {
            return false;
        }
        // With ranks those of greater rank in the queue give way, else those in lower queues.
        let (giving, own, pooled) = match queue.ranked {
            true => {
                let above = queue.above_rank(arrival.rank);
                (1 << id, above, above)
            }
            false => (
                self.below(id),
                Depth::default(),
                self.depth_of(self.below(id)),
            ),
        };
        let exempt = queue.pool_exempt && queue.limit.admits(queue.depth, arrival.len);
        if !exempt && !self.fits(id, arrival.len, own, pooled) {
            return false;
        }
        let nothing = Depth::default();
        for giving in ids(giving) {
            while !self.fits(id, arrival.len, nothing, nothing)
                && let Some((item, deflected)) = self.queues[giving].push_out(now)
            {
                if self.queues[giving].pooled {
                    self.pool.remove(item.len());
                }
                pushed_out.push(PushedOut::new(port, giving, item, deflected));
            }
        }
        true
    }

    /// Deflects the youngest packet of the queue in place of the arriving one, if the coin selects it and that makes
    /// enough room.
    #[cold]
    #[inline(never)]
    fn take_place_of_youngest(
        &mut self,
        now: Instant,
        port: PortId,
        arrival: Arrival,
        pushed_out: &mut Vec<PushedOut<P>>,
    ) -> bool {
        let id = usize::from(arrival.queue) % MAX_QUEUES;
        let Some(bytes) = self.queues[id].loses_youngest(now, port) else {
            return false;
        };
        let youngest = Depth { packets: 1, bytes };
        if !self.fits(id, arrival.len, youngest, youngest) {
            return false;
        }
        let Some(item) = self.queues[id].deflect_youngest(now) else {
            return false;
        };
        if self.queues[id].pooled {
            self.pool.remove(bytes);
        }
        pushed_out.push(PushedOut::new(port, id, item, true));
        true
    }

    /// Whether a packet of `len` bytes would fit into a queue if `own` had left it, and `pooled` the pool.
    fn fits(&self, id: usize, len: u64, own: Depth, pooled: Depth) -> bool {
        let queue = &self.queues[id];
        queue.limit.admits(queue.depth.minus(own), len)
            && (!queue.pooled || self.pool_limit.admits(self.pool.minus(pooled), len))
    }

    /// The queues below this one that give way to it in the pool.
    fn below(&self, id: usize) -> QueueSet {
        let lower = self.queues().take(id);
        // No lossless queue is in a pool.
        let giving = lower.filter(|(_, queue)| queue.pooled);
        giving.fold(0, |set, (id, _)| set | 1 << id)
    }

    /// Packets and bytes in these queues.
    fn depth_of(&self, queues: QueueSet) -> Depth {
        ids(queues).fold(Depth::default(), |sum, id| sum.plus(self.queues[id].depth))
    }

    /// Whether there is room for a packet of `len` bytes of a queue behind an ingress stage. A
    /// packet that is longer than the buffer has it for itself.
    pub(crate) fn has_room(&self, id: usize, len: u64) -> bool {
        let held = match self.room_per_queue {
            true => self.queues[id].depth,
            false => self.pool,
        };
        held.packets == 0 || self.pool_limit.admits(held, len)
    }

    /// Whether packets of one queue may proceed while those of a higher one have no room.
    pub(crate) fn room_per_queue(&self) -> bool {
        self.room_per_queue
    }

    /// Packets and bytes in all queues and in ingress buffers before them.
    pub(crate) fn depth(&self) -> Depth {
        let queues = self.queues.iter();
        queues.fold(Depth::default(), |sum, q| {
            sum.plus(q.depth).plus(q.recorder.staged)
        })
    }

    /// Pauses a queue, or lets it resume unless somebody else pauses it.
    pub(crate) fn set_paused(&mut self, now: Instant, id: usize, by: PausedBy, paused: bool) {
        self.queues[id].set_paused(now, by, paused);
    }

    /// Sets the statistics to zero.
    pub(crate) fn reset_statistics(&mut self, now: Instant) {
        for queue in self.queues.iter_mut() {
            queue.recorder = queue.recorder.restart(now, queue.depth);
        }
    }
}

/// Adds a packet to a queue and to the pool if the queue is in it. True: it is the head of the queue.
fn push<P>(queue: &mut Queue<P>, pool: &mut Depth, now: Instant, item: Item<P>) -> bool {
    let len = item.len();
    queue.push(now, item);
    let (is_head, pooled) = (queue.depth.packets == 1, queue.pooled);
    if pooled {
        pool.add(len);
    }
    is_head
}
