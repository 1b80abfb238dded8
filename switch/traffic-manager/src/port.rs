//! One port: a buffer of queues, the arbiter that chooses the next one, and the serialiser.

use ebb_units::{BitRate, Duration, Instant};

use crate::account::drain;
use crate::admission::{Admission, Arrival, Departure};
use crate::arbiter::Arbiter;
use crate::buffer::Buffer;
use crate::config::Profile;
use crate::depth::Depth;
use crate::limits::{CLASSES, MAX_QUEUES};
use crate::port_id::PortId;
use crate::pushed_out::PushedOut;
use crate::queue::{Item, PausedBy, Queue};
use crate::scheduler::{FIRST, QueueSet, ids};
use crate::serialiser::{Serialiser, Transmission};
use crate::statistics::{Count, DropReason, PortStatistics, Recorder};

/// A port. The fields that every packet touches come first, so that they share few cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Port<P> {
    /// The serialiser and the link behind it.
    line: Serialiser,
    /// Packets sent since the statistics began.
    transmitted: Count,
    /// Time from the last bit of a frame to ingress.
    pipeline_delay: Duration,
    /// Chooses the queue that sends next.
    arbiter: Arbiter,
    /// Queues that the profile lists.
    listed: QueueSet,
    /// The queues.
    buffer: Buffer<P>,
    /// Delay added to frames that arrive from outside.
    rx_delay: Duration,
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
pub type PrefetchSpan = (*const u8, usize);

/// Bytes at the start of a port, before its queues, that every packet touches. They end after the
/// first heads.
const HOT_BYTES: usize = 6 * 64;

impl<P> Port<P> {
    pub(crate) fn new(now: Instant, profile: &Profile) -> Self {
        let mut port = Self {
            line: Serialiser::default(),
            transmitted: Count::default(),
            arbiter: Arbiter::new(now, profile),
            listed: 0,
            buffer: Buffer::new(),
            rx_delay: Duration::ZERO,
            pipeline_delay: Duration::ZERO,
            ingress_bytes: None,
            control: Count::default(),
            control_received: Count::default(),
            profile_name: String::new(),
        };
        port.configure(now, profile);
        port
    }

    /// Takes over a profile. Packets stay even above a lower capacity, except those of queues that
    /// no longer exist.
    pub(crate) fn configure(&mut self, now: Instant, profile: &Profile) {
        self.profile_name.clone_from(&profile.name);
        self.rx_delay = Duration::from_nanos(profile.rx_delay_ns);
        self.pipeline_delay = Duration::from_nanos(profile.pipeline_delay_ns);
        self.ingress_bytes = profile.ingress_bytes;
        self.line.configure(profile);
        self.arbiter.configure(now, profile);
        self.buffer.configure(now, profile);
        self.listed = self.buffer.listed();
        self.note_heads();
    }

    /// Drops all packets that wait.
    pub(crate) fn clear(&mut self, now: Instant) {
        self.buffer.clear(now);
        self.arbiter.clear();
    }

    /// See [`TrafficManager::limit_rate`](crate::TrafficManager::limit_rate).
    pub(crate) fn limit_rate(&mut self, now: Instant, limit: Option<BitRate>) {
        self.arbiter.fill(now, self.line.rate());
        self.line.limit_rate(limit);
        self.note_heads();
    }

    /// See [`TrafficManager::set_credit`](crate::TrafficManager::set_credit).
    pub(crate) fn set_credit(&mut self, now: Instant, credit: Option<u64>) {
        self.line.set_credit(now, credit);
    }

    /// The lower of the rates of profile and link; zero means no limit.
    pub(crate) fn effective_rate(&self) -> BitRate {
        self.line.rate()
    }

    /// Packets and bytes in a queue.
    pub(crate) fn depth(&self, queue: u8) -> Depth {
        let queue = self.buffer.known(usize::from(queue) % MAX_QUEUES);
        queue.map_or(Depth::default(), |queue| queue.depth)
    }

    /// How many quarters of its own capacity a queue with this depth fills, 0 to 3.
    pub(crate) fn quarters(&self, queue: u8, depth: Depth) -> u8 {
        let queue = self.buffer.known(usize::from(queue) % MAX_QUEUES);
        queue.map_or(0, |queue| queue.limit.quarters(depth))
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
        self.line.delay()
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
        match usize::from(arrival.queue) % MAX_QUEUES {
            id @ 0..CLASSES => self.enqueue_at(now, port, (id, arrival), packet, pushed_out),
            id => self.enqueue_further(now, port, (id, arrival), packet, pushed_out),
        }
    }

    /// Takes a packet that leaves at once; see [`TrafficManager::pass`](crate::TrafficManager::pass).
    #[inline]
    pub(crate) fn pass(&mut self, now: Instant, arrival: &Arrival) -> bool {
        let id = usize::from(arrival.queue) % MAX_QUEUES;
        let passes = id < CLASSES
            && self.line.is_free(now)
            && self.arbiter.is_idle()
            && self.buffer.passes(now, id, arrival.len)
            && self.arbiter.pick_only(id);
        if passes {
            self.buffer.pass(now, id, arrival.len);
        }
        passes
    }

    /// The same for a queue beyond the first eight.
    #[cold]
    #[inline(never)]
    fn enqueue_further(
        &mut self,
        now: Instant,
        port: PortId,
        (id, arrival): (usize, Arrival),
        packet: P,
        pushed_out: &mut Vec<PushedOut<P>>,
    ) -> Admission<P> {
        self.buffer.reach(id);
        self.enqueue_at(now, port, (id, arrival), packet, pushed_out)
    }

    /// The same for a queue that has been reached. Inlined, so that the first queues need no checks.
    #[inline(always)]
    fn enqueue_at(
        &mut self,
        now: Instant,
        port: PortId,
        (id, arrival): (usize, Arrival),
        packet: P,
        pushed_out: &mut Vec<PushedOut<P>>,
    ) -> Admission<P> {
        let Arrival { len, .. } = arrival;
        let depth = self.buffer.queue(id).depth;
        self.buffer.recorder(id).offered(depth);
        if let Some(reason) = self.buffer.objection(id, len) {
            let before = pushed_out.len();
            if !(self.buffer).make_room(now, reason, (port, arrival), pushed_out) {
                return self.buffer.refuse(reason, arrival, packet);
            }
            for gone in &pushed_out[before..] {
                self.note_head(gone.queue.into());
            }
        }
        self.accept(now, id, Item::new(now, arrival.ingress_port, len, packet));
        self.buffer.note(id, &arrival);
        Admission::Enqueued { depth }
    }

    /// Makes sure that a queue is there, whether listed or not.
    pub(crate) fn reach(&mut self, id: usize) {
        self.buffer.reach(id);
    }

    /// Adds a packet to a queue that has been reached, whether there is room or not.
    #[inline(always)]
    pub(crate) fn accept(&mut self, now: Instant, id: usize, item: Item<P>) {
        if self.buffer.push(now, id, item) {
            self.note_head(id);
        }
    }

    /// Hands back a packet for which there is no room.
    pub(crate) fn refuse(
        &mut self,
        reason: DropReason,
        arrival: Arrival,
        packet: P,
    ) -> Admission<P> {
        self.buffer.refuse(reason, arrival, packet)
    }

    /// Notes from when on the heads of all queues may leave.
    fn note_heads(&mut self) {
        for id in 0..self.buffer.queues().count() {
            self.note_head(id);
        }
    }

    /// Notes from when on the head of a queue may leave.
    #[inline(always)]
    fn note_head(&mut self, id: usize) {
        (self.arbiter).note(id, self.buffer.queue(id), &self.line);
    }

    /// The queues, as the ingress stage has to know them.
    pub(crate) fn buffer(&self) -> &Buffer<P> {
        &self.buffer
    }

    /// The counters of a queue.
    pub(crate) fn recorder(&mut self, id: usize) -> &mut Recorder {
        self.buffer.recorder(id)
    }

    /// Whether packets wait in ingress buffers until there is room at this port.
    pub(crate) fn staged(&self) -> bool {
        self.ingress_bytes.is_some()
    }

    /// Size of the ingress buffer of this port, for packets to it from a port that has none; `None`
    /// without an ingress stage.
    pub(crate) fn ingress_bytes(&self) -> Option<u64> {
        self.ingress_bytes
    }

    /// When the next transmission starts: once the link is free, accepts a frame, and a packet is
    /// there.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        debug_assert!(
            self.arbiter.agrees(&self.buffer),
            "the heads are not those of the queues"
        );
        if !self.line.has_credit() {
            return None;
        }
        Some(self.line.start_of(self.arbiter.earliest()?))
    }

    /// Memory of the port that every packet touches.
    pub(crate) fn ahead(&self) -> PrefetchSpan {
        (std::ptr::from_ref(self).cast(), HOT_BYTES)
    }

    pub(crate) fn queues_ahead(&self) -> impl Iterator<Item = PrefetchSpan> {
        // This leaves out what is rare at the end of the recorder.
        let bytes = std::mem::offset_of!(Queue<P>, recorder) + Recorder::OFTEN_BYTES;
        // Others are rare.
        let listed = ids(self.listed & FIRST);
        listed.map(move |id| (std::ptr::from_ref(self.buffer.queue(id)).cast(), bytes))
    }

    /// Memory of the first four packets in the queue that is probably served next.
    pub(crate) fn packets_ahead(&self) -> Option<PrefetchSpan> {
        let first = self.buffer.queue(self.arbiter.likely()?).items().next()?;
        Some((std::ptr::from_ref(first).cast(), 4 * size_of_val(first)))
    }

    /// Packets of the queue that is probably served next which would leave before this time if it
    /// had the link for itself.
    pub(crate) fn leaving(&self, before: Instant) -> Option<impl Iterator<Item = &P>> {
        let queue = self.buffer.queue(self.arbiter.likely()?);
        let rate = self.effective_rate();
        let mut at = self.next_deadline().unwrap_or(before);
        Some(queue.items().map_while(move |item| {
            let leaves = at < before;
            at += rate.time_for(self.line.wire_bytes(item.len()));
            leaves.then_some(&item.packet)
        }))
    }

    /// The packet whose transmission starts at the deadline, if that is not after `now`.
    pub(crate) fn dequeue(&mut self, now: Instant) -> Option<Departure<P>> {
        let start = self.next_deadline().filter(|start| *start <= now)?;
        let id = self.arbiter.pick(start, &self.buffer, &self.line)?;
        let item = self.buffer.pop(id, start)?;
        self.note_head(id);
        Some(Departure {
            queue: id as u8,
            ingress_port: item.ingress_port,
            enqueued_at: item.arrived,
            start,
            depth_at_enqueue: item.depth_before(),
            depth_at_dequeue: self.buffer.queue(id).depth,
            len: item.len(),
            packet: item.packet,
        })
    }

    /// Sends a packet of `len` bytes, from `start` or when the link is free.
    pub(crate) fn transmit(
        &mut self,
        queue: u8,
        start: Instant,
        len: u64,
        ecn_ce: bool,
    ) -> Transmission {
        self.transmitted.add(len);
        let recorder = self.recorder_of(queue);
        recorder.transmitted.add(len);
        if ecn_ce {
            recorder.ecn_ce.add(len);
        }
        self.line.send(start, len)
    }

    /// Sends a MAC control frame of `len` bytes, from `now` or when the link is free.
    pub(crate) fn transmit_control(&mut self, now: Instant, len: u64) -> Transmission {
        self.control.add(len);
        self.line.send(now, len)
    }

    /// Counts a MAC control frame of `len` bytes that came in.
    pub(crate) fn control_received(&mut self, len: u64) {
        self.control_received.add(len);
    }

    /// Counts a pause of a queue that was not renewed.
    pub(crate) fn pause_expired(&mut self, queue: u8) {
        self.recorder_of(queue).rare().pauses_expired += 1;
    }

    /// Counts a pause of a queue that lasts for too long.
    pub(crate) fn pause_storm(&mut self, queue: u8) {
        self.recorder_of(queue).rare().pause_storms += 1;
    }

    /// Counts a packet of `len` bytes that egress dropped.
    pub(crate) fn egress_dropped(&mut self, queue: u8, len: u64) {
        self.recorder_of(queue).rare().egress_dropped.add(len);
    }

    /// Counts a replica of `len` bytes that egress dropped at the port by which its packet came in.
    pub(crate) fn pruned(&mut self, queue: u8, len: u64) {
        self.recorder_of(queue).rare().pruned.add(len);
    }

    /// The counters of the queue with this id, of which the five low bits count, and from which packets came.
    fn recorder_of(&mut self, queue: u8) -> &mut Recorder {
        self.buffer.recorder(usize::from(queue) % MAX_QUEUES)
    }

    /// Bytes in each of the first eight queues and in those above it.
    pub(crate) fn drain_bytes(&self) -> [u64; CLASSES] {
        let mut queues = self.buffer.queues();
        let mut bytes = [0; CLASSES + 1];
        for (sum, (_, queue)) in bytes.iter_mut().zip(queues.by_ref().take(CLASSES)) {
            *sum = queue.depth.bytes;
        }
        bytes[CLASSES] = queues.map(|(_, queue)| queue.depth.bytes).sum();
        let drained = drain(bytes);
        std::array::from_fn(|id| drained[id])
    }

    /// Pauses a queue, or lets it resume unless somebody else pauses it.
    pub(crate) fn set_paused(&mut self, now: Instant, queue: u8, by: PausedBy, paused: bool) {
        let id = usize::from(queue) % MAX_QUEUES;
        self.buffer.reach(id);
        self.buffer.set_paused(now, id, by, paused);
        self.note_head(id);
    }

    /// Packets and bytes in all queues and in ingress buffers before them.
    pub(crate) fn queued(&self) -> Depth {
        self.buffer.depth()
    }

    /// Packets dropped since the statistics began, here and by egress.
    pub(crate) fn dropped_packets(&self) -> u64 {
        let recorders = self.buffer.queues().map(|(_, queue)| &queue.recorder);
        recorders.map(Recorder::dropped_packets).sum()
    }

    /// The statistics of the port, whose number is given.
    pub(crate) fn statistics(&self, now: Instant, port: PortId) -> PortStatistics {
        let used = |q: &Queue<P>| q.exists || q.recorder.rarely().dropped_packets() > 0;
        let queues = self.buffer.queues().filter(|(_, q)| used(q));
        PortStatistics {
            port,
            profile: self.profile_name.clone(),
            transmitted: self.transmitted,
            control: self.control,
            control_received: self.control_received,
            busy_ns: self.line.busy().as_nanos(),
            queues: queues
                .map(|(id, q)| q.recorder.snapshot(now, id as u8, q.depth))
                .collect(),
        }
    }

    /// Sets the statistics to zero.
    pub(crate) fn reset_statistics(&mut self, now: Instant) {
        self.transmitted = Count::default();
        self.control = Count::default();
        self.control_received = Count::default();
        self.line.reset_statistics();
        self.buffer.reset_statistics(now);
    }
}
