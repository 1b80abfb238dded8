//! One port: admission to its queues, and the serialiser.

use ebb_units::{BitRate, Duration, Instant};

use crate::config::{OnFull, Profile};
use crate::heads::Heads;
use crate::queue::{Depth, Limit, Queue};
use crate::scheduler::{QueueSet, Scheduler};
use crate::statistics::{Count, DropReason, PortStatistics, Recorder};
use crate::{MAX_DEFLECTIONS, MAX_QUEUES};

/// What is known about a packet that is offered.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// v1model's priority; only the three low bits count.
    pub queue: u8,
    pub len: u64,
    /// How often the packet has been deflected: at most [`MAX_DEFLECTIONS`](crate::MAX_DEFLECTIONS)
    /// times, then it is dropped.
    pub deflections: u8,
}

/// What became of an offered packet. The depth is that of its queue without the packet.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a packet that was not queued is handed back"]
pub enum Admission<P> {
    Enqueued { depth: Depth },
    Deflected { packet: P, depth: Depth },
    Dropped { packet: P, reason: DropReason },
}

/// A packet whose transmission starts.
#[derive(Debug, PartialEq, Eq)]
pub struct Departure<P> {
    pub packet: P,
    pub queue: u8,
    pub enqueued_at: Instant,
    /// When the transmission starts; may lie before the time of the call.
    pub start: Instant,
    /// What the packet found in its queue (v1model's `enq_qdepth`).
    pub depth_at_enqueue: Depth,
    /// What the packet leaves behind in its queue (v1model's `deq_qdepth`).
    pub depth_at_dequeue: Depth,
    /// The length at enqueue.
    pub len: u64,
}

/// The occupation of the serialiser by one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    pub start: Instant,
    /// When the last bit has left.
    pub end: Instant,
    /// When the last bit is at the other end of the link.
    pub arrival: Instant,
}

/// First what every packet touches.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Port<P> {
    heads: Heads,
    /// Queues that exist.
    listed: QueueSet,
    /// When the serialiser has finished what it was given.
    free_at: Instant,
    /// Frames that the link behind the port takes yet; `None`: as many as there are.
    credit: Option<u64>,
    rate: BitRate,
    /// Rate of the link behind the port, where that is slower; none: it is not.
    rate_limit: Option<BitRate>,
    overhead: u64,
    delay: Duration,
    transmitted: Count,
    busy: Duration,
    scheduler: Scheduler,
    pool_limit: Limit,
    pool: Depth,
    queues: [Queue<P>; MAX_QUEUES],
    rx_delay: Duration,
    profile_name: String,
}

/// Memory that a port is about to touch: where it starts, and how many bytes.
pub type Ahead = (*const u8, usize);

/// Bytes of a port in front of its queues that packets touch; of its scheduler the first groups.
const HOT_BYTES: usize = 4 * 64;

impl<P> Port<P> {
    pub(crate) fn new(now: Instant, profile: &Profile) -> Self {
        let mut port = Self {
            profile_name: String::new(),
            rate: BitRate::default(),
            rate_limit: None,
            delay: Duration::ZERO,
            rx_delay: Duration::ZERO,
            overhead: 0,
            queues: std::array::from_fn(|_| Queue::new()),
            heads: Heads::default(),
            listed: 0,
            scheduler: Scheduler::new(profile),
            pool_limit: Limit::default(),
            pool: Depth::default(),
            free_at: Instant::ZERO,
            credit: None,
            transmitted: Count::default(),
            busy: Duration::ZERO,
        };
        port.configure(now, profile);
        port
    }

    /// Takes over a profile. Packets stay, even above a smaller capacity, except those of queues
    /// that no longer exist.
    pub(crate) fn configure(&mut self, now: Instant, profile: &Profile) {
        self.profile_name.clone_from(&profile.name);
        self.rate = profile.rate_bps;
        self.delay = Duration::from_nanos(profile.delay_ns);
        self.rx_delay = Duration::from_nanos(profile.rx_delay_ns);
        self.overhead = profile.frame_overhead_bytes;
        self.scheduler = Scheduler::new(profile);
        self.pool_limit = Limit {
            packets: profile.pool_packets,
            bytes: profile.pool_bytes,
        };
        self.pool = Depth::default();
        self.listed = 0;
        for (id, queue) in self.queues.iter_mut().enumerate() {
            queue.configure(profile.queue.iter().find(|q| usize::from(q.id) == id));
            if !queue.exists {
                queue.clear(now);
                self.heads.set(id, None);
            }
            self.listed |= QueueSet::from(queue.exists) << id;
            if queue.pooled {
                self.pool.packets += queue.depth.packets;
                self.pool.bytes += queue.depth.bytes;
            }
        }
    }

    pub(crate) fn clear(&mut self, now: Instant) {
        self.queues.iter_mut().for_each(|queue| queue.clear(now));
        self.heads = Heads::default();
        self.pool = Depth::default();
    }

    pub(crate) fn limit_rate(&mut self, limit: Option<BitRate>) {
        self.rate_limit = limit;
    }

    pub(crate) fn set_credit(&mut self, now: Instant, credit: Option<u64>) {
        if self.credit == Some(0) && credit != Some(0) {
            // Until now the link was not free.
            self.free_at = self.free_at.max(now);
        }
        self.credit = credit;
    }

    fn effective_rate(&self) -> BitRate {
        match self.rate_limit {
            Some(limit) if self.rate.is_zero() || limit < self.rate => limit,
            _ => self.rate,
        }
    }

    pub(crate) fn depth(&self, queue: u8) -> Depth {
        self.queues[usize::from(queue) % MAX_QUEUES].depth
    }

    pub(crate) fn rx_delay(&self) -> Duration {
        self.rx_delay
    }

    pub(crate) fn tx_delay(&self) -> Duration {
        self.delay
    }

    pub(crate) fn enqueue(&mut self, now: Instant, arrival: Arrival, packet: P) -> Admission<P> {
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
        let Some(reason) = problem else {
            queue.push(now, packet, len);
            if depth.packets == 0 {
                self.heads.set(id, queue.ready_at());
            }
            if queue.pooled {
                self.pool.add(len);
            }
            return Admission::Enqueued { depth };
        };
        let full = reason != DropReason::NoSuchQueue;
        let deflects = queue.on_full == OnFull::Deflect && arrival.deflections < MAX_DEFLECTIONS;
        if full && deflects {
            queue.recorder.deflected.add(len);
            queue.check();
            return Admission::Deflected { packet, depth };
        }
        let reason = match full && arrival.deflections > 0 {
            true => DropReason::DeflectFailed,
            false => reason,
        };
        queue.recorder.dropped(reason, len);
        queue.check();
        Admission::Dropped { packet, reason }
    }

    /// When the next transmission starts: the link is free, takes a frame, and a packet is there.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        debug_assert!(
            (0..MAX_QUEUES).all(|id| self.heads.get(id) == self.queues[id].ready_at()),
            "the heads are not those of the queues"
        );
        if self.credit == Some(0) {
            return None;
        }
        Some(self.heads.earliest()?.max(self.free_at))
    }

    pub(crate) fn ahead(&self) -> Ahead {
        (std::ptr::from_ref(self).cast(), HOT_BYTES)
    }

    pub(crate) fn queues_ahead(&self) -> impl Iterator<Item = Ahead> {
        // All of it but what is rare.
        let bytes = std::mem::offset_of!(Queue<P>, recorder) + Recorder::OFTEN_BYTES;
        let queues = (0..).zip(&self.queues);
        let listed = queues.filter(|(id, _)| self.listed & 1 << id != 0);
        listed.map(move |(_, queue)| (std::ptr::from_ref(queue).cast(), bytes))
    }

    pub(crate) fn packets_ahead(&self) -> Option<Ahead> {
        let first = self.queues[self.heads.highest()?].items().next()?;
        Some((std::ptr::from_ref(first).cast(), 4 * size_of_val(first)))
    }

    /// Packets of the highest queue, as long as it has the link for itself.
    pub(crate) fn leaving(&self, before: Instant) -> impl Iterator<Item = &P> {
        let rate = self.effective_rate();
        let mut at = self.next_deadline().unwrap_or(before);
        let queue = self.heads.highest().map(|id| &self.queues[id]);
        let items = queue.into_iter().flat_map(Queue::items);
        items.map_while(move |item| {
            let leaves = at < before;
            at += rate.time_for(item.len + self.overhead);
            leaves.then_some(&item.packet)
        })
    }

    /// The packet whose transmission starts at the deadline, if that has come.
    pub(crate) fn dequeue(&mut self, now: Instant) -> Option<Departure<P>> {
        let start = self.next_deadline().filter(|start| *start <= now)?;
        // Only packets that were there at the start take part, however late this call is.
        let id = self.scheduler.pick(self.heads.ready(start))?;
        let queue = &mut self.queues[id];
        let item = queue.pop(start)?;
        self.heads.set(id, queue.ready_at());
        if queue.pooled {
            self.pool.remove(item.len);
        }
        Some(Departure {
            packet: item.packet,
            queue: id as u8,
            enqueued_at: item.enqueued_at,
            start,
            depth_at_enqueue: item.depth_before,
            depth_at_dequeue: queue.depth,
            len: item.len,
        })
    }

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

    pub(crate) fn egress_dropped(&mut self, queue: u8, len: u64) {
        let recorder = &mut self.queues[usize::from(queue) % MAX_QUEUES].recorder;
        recorder.egress_dropped.add(len);
    }

    pub(crate) fn set_paused(&mut self, now: Instant, queue: u8, paused: bool) {
        let id = usize::from(queue) % MAX_QUEUES;
        let queue = &mut self.queues[id];
        if queue.paused && !paused {
            queue.resumed_at = now;
        }
        queue.paused = paused;
        self.heads.set(id, queue.ready_at());
    }

    pub(crate) fn queued(&self) -> Depth {
        self.queues.iter().fold(Depth::default(), |sum, q| Depth {
            packets: sum.packets + q.depth.packets,
            bytes: sum.bytes + q.depth.bytes,
        })
    }

    pub(crate) fn dropped_packets(&self) -> u64 {
        let recorders = self.queues.iter().map(|queue| &queue.recorder);
        recorders.map(Recorder::dropped_packets).sum()
    }

    pub(crate) fn statistics(&self, port: u16) -> PortStatistics {
        let used =
            |q: &Queue<P>| q.exists || q.recorder.dropped.iter().any(|count| !count.is_zero());
        PortStatistics {
            port,
            profile: self.profile_name.clone(),
            transmitted: self.transmitted,
            busy_ns: self.busy.as_nanos(),
            queues: (0..)
                .zip(&self.queues)
                .filter(|(_, q)| used(q))
                .map(|(id, q)| q.recorder.snapshot(id, q.depth))
                .collect(),
        }
    }

    pub(crate) fn reset_statistics(&mut self, now: Instant) {
        self.transmitted = Count::default();
        self.busy = Duration::ZERO;
        for queue in &mut self.queues {
            queue.recorder = Recorder::restart(now, queue.depth);
        }
    }
}
