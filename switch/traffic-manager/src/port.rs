//! One port: admission of packets to its queues, choice of the next one, and the serialiser.

use ebb_units::{BitRate, Duration, Instant};

use crate::account::drain;
use crate::config::Profile;
use crate::depth::Depth;
use crate::heads::Heads;
use crate::port_id::PortId;
use crate::pushed_out::PushedOut;
use crate::queue::{Item, Limit, Queue, Rank};
use crate::scheduler::{QueueSet, Scheduler};
use crate::shares::Shares;
use crate::statistics::{Count, DropReason, PortStatistics, Recorder};
use crate::{MAX_DEFLECTIONS, MAX_QUEUES};

/// What the port must know about a packet that is offered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrival {
    /// Port on which the packet came in, for flow control and the ingress stage.
    pub ingress_port: PortId,
    /// Value of v1model's `standard_metadata.priority`; only its three low bits count.
    pub queue: u8,
    /// Length of the packet in bytes.
    pub len: u64,
    /// How often the packet has been deflected. After [`MAX_DEFLECTIONS`] times it is dropped instead.
    pub deflections: u8,
    /// In a queue with ranks the packet of the least rank leaves first; elsewhere it means nothing.
    pub rank: u32,
    /// Number of the packet's flow, whose packets leave a queue with ranks in order of arrival.
    pub flow: u32,
}

/// Fate of a packet that was offered to a queue.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a packet that was not queued is handed back"]
pub enum Admission<P> {
    /// It waits in its queue.
    Enqueued {
        /// Depth without the packet.
        depth: Depth,
    },
    /// Its queue is full and hands it back for another pass through ingress.
    Deflected {
        /// The packet.
        packet: P,
        /// Depth of its queue.
        depth: Depth,
    },
    /// It is handed back to be discarded.
    Dropped {
        /// The packet.
        packet: P,
        /// Why it has no place.
        reason: DropReason,
    },
}

/// A packet whose transmission starts.
#[derive(Debug, PartialEq, Eq)]
pub struct Departure<P> {
    /// The packet.
    pub packet: P,
    /// Id of the queue it comes from, 0 to 7.
    pub queue: u8,
    /// Port on which it came in.
    pub ingress_port: PortId,
    /// When it was queued, in an ingress buffer or here.
    pub enqueued_at: Instant,
    /// When the transmission starts; this may be before the time of the call.
    pub start: Instant,
    /// Depth of its queue when the packet came (v1model's `enq_qdepth`).
    pub depth_at_enqueue: Depth,
    /// Depth of its queue without the packet, as it leaves (v1model's `deq_qdepth`).
    pub depth_at_dequeue: Depth,
    /// Length in bytes at the time it was queued.
    pub len: u64,
}

/// The time during which one frame occupies the serialiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// When the first bit leaves.
    pub start: Instant,
    /// When the last bit has left.
    pub end: Instant,
    /// When the last bit arrives at the other end of the link.
    pub arrival: Instant,
}

/// A port. The fields that every packet touches come first, so that they share few cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Port<P> {
    /// From when on the head of each queue may leave.
    heads: Heads,
    /// Queues that the profile lists.
    listed: QueueSet,
    /// When the serialiser will have finished the frames it was given.
    free_at: Instant,
    /// How many more frames the link behind the port takes; `None` means no limit.
    credit: Option<u64>,
    /// Rate of the profile; zero means no limit.
    rate: BitRate,
    /// Rate of the link behind the port where that is lower; `None` if it is not.
    rate_limit: Option<BitRate>,
    /// Bytes that each frame costs on the wire beyond its own.
    overhead: u64,
    /// Propagation delay.
    delay: Duration,
    /// What was sent since the statistics began.
    transmitted: Count,
    /// How long the serialiser was busy since the statistics began.
    busy: Duration,
    /// Groups with a share of the link; `None` if there are none.
    shares: Option<Box<Shares>>,
    /// Chooses the queue that sends next.
    scheduler: Scheduler,
    /// Limit of the shared pool.
    pool_limit: Limit,
    /// What waits in all queues that use the shared pool.
    pool: Depth,
    /// Behind an ingress stage, the limit of the pool is that of each queue.
    room_per_queue: bool,
    /// All queues that a port can have; those that are not listed admit nothing.
    queues: [Queue<P>; MAX_QUEUES],
    /// Delay added to frames that arrive from outside.
    rx_delay: Duration,
    /// Time from the last bit of a frame to ingress.
    pipeline_delay: Duration,
    /// Size of the ingress buffer; `None` if packets go to the queues of their ports at once.
    ingress_bytes: Option<u64>,
    /// MAC control frames that were sent since the statistics began.
    control: Count,
    /// MAC control frames that came in and were taken since the statistics began.
    control_received: Count,
    /// Name of the profile, for the statistics.
    profile_name: String,
}

/// Memory that a port is about to touch: its address and length in bytes.
pub type Ahead = (*const u8, usize);

/// Bytes at the start of a port, before its queues, that every packet touches. They end after the
/// first groups of the scheduler.
const HOT_BYTES: usize = 4 * 64;

impl<P> Port<P> {
    pub(crate) fn new(now: Instant, profile: &Profile) -> Self {
        let mut port = Self {
            profile_name: String::new(),
            rate: BitRate::default(),
            rate_limit: None,
            delay: Duration::ZERO,
            rx_delay: Duration::ZERO,
            pipeline_delay: Duration::ZERO,
            ingress_bytes: None,
            control: Count::default(),
            control_received: Count::default(),
            overhead: 0,
            queues: std::array::from_fn(|_| Queue::new()),
            heads: Heads::default(),
            listed: 0,
            scheduler: Scheduler::new(profile),
            shares: None,
            pool_limit: Limit::default(),
            pool: Depth::default(),
            room_per_queue: false,
            free_at: Instant::ZERO,
            credit: None,
            transmitted: Count::default(),
            busy: Duration::ZERO,
        };
        port.configure(now, profile);
        port
    }

    /// Takes over a profile. Packets stay even above a lower capacity, except those of queues that
    /// no longer exist.
    pub(crate) fn configure(&mut self, now: Instant, profile: &Profile) {
        self.profile_name.clone_from(&profile.name);
        self.rate = profile.rate_bps;
        self.delay = Duration::from_nanos(profile.delay_ns);
        self.rx_delay = Duration::from_nanos(profile.rx_delay_ns);
        self.pipeline_delay = Duration::from_nanos(profile.pipeline_delay_ns);
        self.overhead = profile.frame_overhead_bytes;
        self.scheduler = Scheduler::new(profile);
        self.shares = Shares::new(now, profile);
        self.ingress_bytes = profile.ingress_bytes;
        // Behind an ingress stage all queues share the egress buffer; validation allows no pool.
        self.pool_limit = Limit {
            packets: profile.pool_packets,
            bytes: profile.egress_bytes.or(profile.pool_bytes),
        };
        self.pool = Depth::default();
        self.room_per_queue = profile.egress_per_queue;
        self.listed = 0;
        for (id, queue) in self.queues.iter_mut().enumerate() {
            queue.configure(profile.queue.iter().find(|q| usize::from(q.id) == id));
            if !queue.exists {
                queue.clear(now);
                self.heads.set(id, None);
            }
            self.listed |= QueueSet::from(queue.exists) << id;
            queue.pooled |= profile.egress_bytes.is_some();
            if queue.pooled {
                self.pool = self.pool.plus(queue.depth);
            }
        }
        (0..MAX_QUEUES).for_each(|id| self.note_head(id));
    }

    /// Drops all packets that wait.
    pub(crate) fn clear(&mut self, now: Instant) {
        self.queues.iter_mut().for_each(|queue| queue.clear(now));
        self.heads = Heads::default();
        self.pool = Depth::default();
    }

    /// See [`TrafficManager::limit_rate`](crate::TrafficManager::limit_rate).
    pub(crate) fn limit_rate(&mut self, now: Instant, limit: Option<BitRate>) {
        let rate = self.effective_rate();
        if let Some(shares) = &mut self.shares {
            shares.fill(now, rate);
        }
        self.rate_limit = limit;
        self.note_capped_heads();
    }

    fn is_capped(&self, id: usize) -> bool {
        let shares = self.shares.as_ref();
        shares.is_some_and(|shares| shares.is_capped(id))
    }

    /// Buckets fill at another rate.
    fn note_capped_heads(&mut self) {
        for id in 0..MAX_QUEUES {
            if self.is_capped(id) {
                self.note_head(id);
            }
        }
    }

    /// See [`TrafficManager::set_credit`](crate::TrafficManager::set_credit).
    pub(crate) fn set_credit(&mut self, now: Instant, credit: Option<u64>) {
        if self.credit == Some(0) && credit != Some(0) {
            // Without credit the link was not free until now.
            self.free_at = self.free_at.max(now);
        }
        self.credit = credit;
    }

    /// The lower of the rates of profile and link; zero means no limit.
    pub(crate) fn effective_rate(&self) -> BitRate {
        match self.rate_limit {
            Some(limit) if self.rate.is_zero() || limit < self.rate => limit,
            _ => self.rate,
        }
    }

    /// How much waits in a queue.
    pub(crate) fn depth(&self, queue: u8) -> Depth {
        self.queues[usize::from(queue) % MAX_QUEUES].depth
    }

    /// Delay added to frames that arrive from outside.
    pub(crate) fn rx_delay(&self) -> Duration {
        self.rx_delay
    }

    /// Time from the last bit of a frame to ingress.
    pub(crate) fn pipeline_delay(&self) -> Duration {
        self.pipeline_delay
    }

    /// Propagation delay.
    pub(crate) fn tx_delay(&self) -> Duration {
        self.delay
    }

    /// Queues a packet, or hands it back for deflection or as dropped. Packets that give way to it
    /// are added to `pushed_out`, with the number of this port.
    pub(crate) fn enqueue(
        &mut self,
        now: Instant,
        port: PortId,
        arrival: Arrival,
        packet: P,
        pushed_out: &mut Vec<PushedOut<P>>,
    ) -> Admission<P> {
        let Arrival { len, .. } = arrival;
        let id = usize::from(arrival.queue) % MAX_QUEUES;
        let queue = &mut self.queues[id];
        let depth = queue.depth;
        queue.recorder.offered(depth);
        let problem = if !queue.exists {
            Some(DropReason::NoSuchQueue)
        } else if !queue.limit.admits(depth, len) {
            Some(DropReason::QueueFull)
        } else if queue.pooled && !self.pool_limit.admits(self.pool, len) {
            Some(DropReason::PoolFull)
        } else {
            None
        };
        if let Some(reason) = problem
            && !self.make_room(now, reason, (port, arrival), pushed_out)
        {
            return self.refuse(reason, arrival, packet);
        }
        self.accept(now, id, Item::new(now, arrival.ingress_port, len, packet));
        if self.queues[id].ranked {
            let deflects =
                self.queues[id].on_full.deflects() && arrival.deflections < MAX_DEFLECTIONS;
            self.queues[id].set_rank(Rank {
                rank: arrival.rank,
                flow: arrival.flow,
                deflects,
            });
        }
        Admission::Enqueued { depth }
    }

    /// Adds a packet to a queue, whether there is room or not.
    #[inline]
    pub(crate) fn accept(&mut self, now: Instant, id: usize, item: Item<P>) {
        let queue = &mut self.queues[id];
        let len = item.len();
        queue.push(now, item);
        let (is_head, pooled) = (queue.depth.packets == 1, queue.pooled);
        if is_head {
            self.note_head(id);
        }
        if pooled {
            self.pool.add(len);
        }
    }

    /// Notes from when on the head of a queue may leave.
    fn note_head(&mut self, id: usize) {
        let ready = self.queues[id].ready_at();
        let since = match self.shares {
            None => ready,
            Some(_) => ready.map(|at| self.within_share(id, at)),
        };
        self.heads.set(id, since);
    }

    /// The earliest time from `at` on at which a cap lets the next packet of a queue go.
    fn within_share(&self, id: usize, at: Instant) -> Instant {
        let cost = || self.queues[id].next_len(at).unwrap_or(0) + self.overhead;
        let rate = self.effective_rate();
        let shares = self.shares.as_ref();
        shares.map_or(at, |shares| shares.affordable_at(id, at, cost, rate))
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
        let deflects = queue.on_full.deflects() && arrival.deflections < MAX_DEFLECTIONS;
        if full && deflects {
            queue.recorder.deflected.add(arrival.len);
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

    /// Whether a packet that does not fit for a reason is kept, because other packets gave way to it. If
    /// there are too few of them none does, except to a queue that is exempt from the pool's limit.
    #[cold]
    fn make_room(
        &mut self,
        now: Instant,
        reason: DropReason,
        (port, arrival): (PortId, Arrival),
        pushed_out: &mut Vec<PushedOut<P>>,
    ) -> bool {
        let id = usize::from(arrival.queue) % MAX_QUEUES;
        let queue = &self.queues[id];
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
        for giving in (0..MAX_QUEUES).filter(|other| giving & 1 << other != 0) {
            while !self.fits(id, arrival.len, nothing, nothing)
                && let Some((item, deflected)) = self.queues[giving].push_out(now)
            {
                self.note_head(giving);
                if self.queues[giving].pooled {
                    self.pool.remove(item.len());
                }
                pushed_out.push(PushedOut::new(port, giving, item, deflected));
            }
        }
        true
    }

    /// Whether a packet of `len` bytes would fit into a queue if so much had left it and the pool.
    fn fits(&self, id: usize, len: u64, own: Depth, pooled: Depth) -> bool {
        let queue = &self.queues[id];
        queue.limit.admits(queue.depth.minus(own), len)
            && (!queue.pooled || self.pool_limit.admits(self.pool.minus(pooled), len))
    }

    /// The queues below this one that give way to it in the pool.
    fn below(&self, id: usize) -> QueueSet {
        let lower = self.queues[..id].iter().enumerate();
        // No lossless queue is in a pool.
        let giving = lower.filter(|(_, queue)| queue.pooled);
        giving.fold(0, |set, (id, _)| set | 1 << id)
    }

    /// How much waits in these queues.
    fn depth_of(&self, queues: QueueSet) -> Depth {
        let queues = (0..MAX_QUEUES).filter(|id| queues & 1 << id != 0);
        queues.fold(Depth::default(), |sum, id| sum.plus(self.queues[id].depth))
    }

    /// What happens to packets of a queue that do not fit, and whether the queue exists.
    pub(crate) fn queue(&self, id: usize) -> &Queue<P> {
        &self.queues[id]
    }

    /// The counters of a queue.
    pub(crate) fn recorder(&mut self, id: usize) -> &mut Recorder {
        &mut self.queues[id].recorder
    }

    /// Whether packets wait in ingress buffers until there is room at this port.
    pub(crate) fn staged(&self) -> bool {
        self.ingress_bytes.is_some()
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

    /// Whether packets of one queue may go on while those of a higher one have no room.
    pub(crate) fn room_per_queue(&self) -> bool {
        self.room_per_queue
    }

    /// Size of the ingress buffer of this port, for packets to it from a port that has none; `None`
    /// without an ingress stage.
    pub(crate) fn ingress_bytes(&self) -> Option<u64> {
        self.ingress_bytes
    }

    /// All packets that wait, with their queues.
    pub(crate) fn items(&self) -> impl Iterator<Item = (usize, &Item<P>)> {
        let queues = self.queues.iter().enumerate();
        queues.flat_map(|(id, queue)| queue.items().map(move |item| (id, item)))
    }

    /// When the next transmission starts: once the link is free, accepts a frame, and a packet is
    /// there.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        debug_assert!(
            (0..MAX_QUEUES)
                .all(|id| self.is_capped(id) || self.heads.get(id) == self.queues[id].ready_at()),
            "the heads are not those of the queues"
        );
        if self.credit == Some(0) {
            return None;
        }
        Some(self.heads.earliest()?.max(self.free_at))
    }

    /// Memory of the port that every packet touches.
    pub(crate) fn ahead(&self) -> Ahead {
        (std::ptr::from_ref(self).cast(), HOT_BYTES)
    }

    pub(crate) fn queues_ahead(&self) -> impl Iterator<Item = Ahead> {
        // This leaves out the rare counters at the end of the recorder.
        let bytes = std::mem::offset_of!(Queue<P>, recorder) + Recorder::OFTEN_BYTES;
        let queues = (0..).zip(&self.queues);
        let listed = queues.filter(|(id, _)| self.listed & 1 << id != 0);
        listed.map(move |(_, queue)| (std::ptr::from_ref(queue).cast(), bytes))
    }

    /// Memory of the first four packets in the highest queue that has one.
    pub(crate) fn packets_ahead(&self) -> Option<Ahead> {
        let first = self.queues[self.heads.highest()?].items().next()?;
        Some((std::ptr::from_ref(first).cast(), 4 * size_of_val(first)))
    }

    /// Packets of the highest queue that would leave before this time if it had the link for
    /// itself.
    pub(crate) fn leaving(&self, before: Instant) -> impl Iterator<Item = &P> {
        let rate = self.effective_rate();
        let mut at = self.next_deadline().unwrap_or(before);
        let queue = self.heads.highest().map(|id| &self.queues[id]);
        let items = queue.into_iter().flat_map(Queue::items);
        items.map_while(move |item| {
            let leaves = at < before;
            at += rate.time_for(item.len() + self.overhead);
            leaves.then_some(&item.packet)
        })
    }

    /// The packet whose transmission starts at the deadline, if that is not after `now`.
    pub(crate) fn dequeue(&mut self, now: Instant) -> Option<Departure<P>> {
        let start = self.next_deadline().filter(|start| *start <= now)?;
        // However late this call is, only packets that were there at the start take part.
        let ready = self.heads.ready(start);
        let id = match self.shares {
            None => self
                .scheduler
                .pick(ready, |queues| self.heads.earliest_of(queues)),
            Some(_) => self.pick_with_shares(start, ready),
        }?;
        let queue = &mut self.queues[id];
        let item = queue.pop(start)?;
        self.note_head(id);
        let queue = &self.queues[id];
        if queue.pooled {
            self.pool.remove(item.len());
        }
        Some(Departure {
            queue: id as u8,
            ingress_port: item.ingress_port,
            enqueued_at: item.arrived,
            start,
            depth_at_enqueue: item.depth_before(),
            depth_at_dequeue: queue.depth,
            len: item.len(),
            packet: item.packet,
        })
    }

    /// Chooses the next queue among those that are ready, where groups have a share of the link.
    fn pick_with_shares(&mut self, start: Instant, ready: QueueSet) -> Option<usize> {
        let rate = self.effective_rate();
        let shares = self.shares.as_mut()?;
        shares.fill(start, rate);
        let (queues, overhead) = (&self.queues, self.overhead);
        let cost = |id: usize| queues[id].next_len(start).unwrap_or(0) + overhead;
        let first = shares.pick_first(ready, cost);
        first
            .or_else(|| {
                self.scheduler.pick(ready & !shares.queues, |queues| {
                    self.heads.earliest_of(queues)
                })
            })
            .or_else(|| shares.pick_last(ready))
    }

    /// Occupies the serialiser with a packet of `len` bytes, from `start` or when the link is free.
    pub(crate) fn transmit(
        &mut self,
        queue: u8,
        start: Instant,
        len: u64,
        ecn_ce: bool,
    ) -> Transmission {
        let start = start.max(self.free_at);
        let time = self.effective_rate().time_for(len + self.overhead);
        self.free_at = start + time;
        self.credit = self.credit.map(|frames| frames.saturating_sub(1));
        self.busy += time;
        self.transmitted.add(len);
        let recorder = &mut self.queues[usize::from(queue) % MAX_QUEUES].recorder;
        recorder.transmitted.add(len);
        if ecn_ce {
            recorder.ecn_ce.add(len);
        }
        Transmission {
            start,
            end: self.free_at,
            arrival: self.free_at + self.delay,
        }
    }

    /// Occupies the serialiser with a MAC control frame of `len` bytes, from `now` or when the link
    /// is free.
    pub(crate) fn transmit_control(&mut self, now: Instant, len: u64) -> Transmission {
        let start = now.max(self.free_at);
        let time = self.effective_rate().time_for(len + self.overhead);
        self.free_at = start + time;
        self.credit = self.credit.map(|frames| frames.saturating_sub(1));
        self.busy += time;
        self.control.add(len);
        Transmission {
            start,
            end: self.free_at,
            arrival: self.free_at + self.delay,
        }
    }

    /// Counts a MAC control frame of `len` bytes that came in.
    pub(crate) fn control_received(&mut self, len: u64) {
        self.control_received.add(len);
    }

    /// Counts a pause of a queue that was not renewed.
    pub(crate) fn pause_expired(&mut self, queue: u8) {
        let recorder = &mut self.queues[usize::from(queue) % MAX_QUEUES].recorder;
        recorder.pauses_expired += 1;
    }

    /// Counts a pause of a queue that lasts for too long.
    pub(crate) fn pause_storm(&mut self, queue: u8) {
        let recorder = &mut self.queues[usize::from(queue) % MAX_QUEUES].recorder;
        recorder.pause_storms += 1;
    }

    /// Bytes that wait in each queue and in those above it.
    pub(crate) fn drain_bytes(&self) -> [u64; MAX_QUEUES] {
        drain(self.queues.each_ref().map(|queue| queue.depth.bytes))
    }

    /// Counts a packet of `len` bytes that egress dropped.
    pub(crate) fn egress_dropped(&mut self, queue: u8, len: u64) {
        let recorder = &mut self.queues[usize::from(queue) % MAX_QUEUES].recorder;
        recorder.egress_dropped.add(len);
    }

    /// Pauses or resumes a queue.
    pub(crate) fn set_paused(&mut self, now: Instant, queue: u8, paused: bool) {
        let id = usize::from(queue) % MAX_QUEUES;
        let queue = &mut self.queues[id];
        match (queue.paused, paused) {
            (false, true) => queue.recorder.paused(now),
            (true, false) => {
                queue.recorder.resumed(now);
                queue.resumed_at = now;
            }
            _ => {}
        }
        queue.paused = paused;
        self.note_head(id);
    }

    /// How much waits in all queues and for them.
    pub(crate) fn queued(&self) -> Depth {
        let queues = self.queues.iter();
        queues.fold(Depth::default(), |sum, q| {
            sum.plus(q.depth).plus(q.recorder.staged)
        })
    }

    /// Packets dropped since the statistics began, here and by egress.
    pub(crate) fn dropped_packets(&self) -> u64 {
        let recorders = self.queues.iter().map(|queue| &queue.recorder);
        recorders.map(Recorder::dropped_packets).sum()
    }

    /// The statistics of the port, whose number is given.
    pub(crate) fn statistics(&self, now: Instant, port: PortId) -> PortStatistics {
        let used =
            |q: &Queue<P>| q.exists || q.recorder.dropped.iter().any(|count| !count.is_zero());
        PortStatistics {
            port,
            profile: self.profile_name.clone(),
            transmitted: self.transmitted,
            control: self.control,
            control_received: self.control_received,
            busy_ns: self.busy.as_nanos(),
            queues: (0..)
                .zip(&self.queues)
                .filter(|(_, q)| used(q))
                .map(|(id, q)| q.recorder.snapshot(now, id, q.depth))
                .collect(),
        }
    }

    /// Sets the statistics to zero.
    pub(crate) fn reset_statistics(&mut self, now: Instant) {
        self.transmitted = Count::default();
        self.control = Count::default();
        self.control_received = Count::default();
        self.busy = Duration::ZERO;
        for queue in &mut self.queues {
            queue.recorder = queue.recorder.restart(now, queue.depth);
        }
    }
}
