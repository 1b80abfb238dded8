//! The pacer for a virtual machine that knows nothing of it: Ethernet frames that pass between the
//! VM and its link.

use std::collections::VecDeque;

use ebb_units::{BitRate, Instant};
use ebb_wire::{EthernetHeader, MacAddress, VoidFrame};

use super::batch::{Batcher, Slot};
use super::guarantee::{Guarantee, WIRE_OVERHEAD_BYTES};
use super::pacer::VmPacer;
use super::peers::{Peer, Peers};
use crate::buffers::BufferPool;

/// Fate of an outgoing frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Copied; [`GuaranteedFrames::poll`] gives it back in its time.
    Held,
    /// There was no room for it, it is longer than any that the guarantee allows, or it is no frame.
    Dropped,
}

/// Frames of the VM. Bytes are those on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuaranteeCounters {
    /// Frames that were held.
    pub held_frames: u64,
    /// Their bytes.
    pub held_bytes: u64,
    /// Frames for which there was no room, or that were malformed.
    pub dropped_frames: u64,
    /// Largest number of bytes held at a time.
    pub max_backlog_bytes: u64,
    /// Void frames that left.
    pub void_frames: u64,
    /// Their bytes.
    pub void_bytes: u64,
    /// Messages about the hose that left.
    pub messages: u64,
}

/// The pacer of all frames of one VM by its guarantee.
#[derive(Debug)]
pub struct GuaranteedFrames {
    /// The only one, in the form of those of a host.
    pacer: [VmPacer<Option<Peer>, Vec<u8>>; 1],
    /// Makes batches with void frames. None: each frame leaves at its time.
    batcher: Option<Batcher>,
    /// The rest of a batch.
    batch: VecDeque<Slot<Vec<u8>>>,
    /// MAC address of the VM, for void frames and messages. None: it has sent nothing yet.
    station: Option<MacAddress>,
    /// The other VMs of the tenant, with which it shares what receivers are guaranteed. None: it has
    /// its rate to each destination.
    peers: Option<Peers>,
    guarantee: Guarantee,
    /// The longest frame on the wire: what the peak rate lets go at once.
    frame_bytes: u64,
    buffers: BufferPool,
    counters: GuaranteeCounters,
}

impl GuaranteedFrames {
    /// `frame_bytes`: the longest frame on the wire. `queue_bytes`: what may wait, on the wire.
    pub fn new(guarantee: Guarantee, frame_bytes: u64, queue_bytes: u64) -> Self {
        GuaranteedFrames {
            pacer: [VmPacer::new(guarantee, frame_bytes, queue_bytes)],
            batcher: None,
            batch: VecDeque::new(),
            station: None,
            peers: None,
            guarantee,
            frame_bytes,
            buffers: BufferPool::default(),
            counters: GuaranteeCounters::default(),
        }
    }

    /// The same, but frames leave in batches whose gaps are void frames: for a link with a fixed rate,
    /// which takes a batch at once.
    pub fn in_batches(self, batcher: Batcher) -> Self {
        GuaranteedFrames {
            batcher: Some(batcher),
            ..self
        }
    }

    /// The same, but its rates to other VMs of the tenant are those that these grant.
    pub fn among(self, peers: Peers) -> Self {
        GuaranteedFrames {
            peers: Some(peers),
            ..self
        }
    }

    /// Counters since the pacer was made.
    pub fn counters(&self) -> GuaranteeCounters {
        self.counters
    }

    /// Bytes on the wire that wait.
    pub fn backlog_bytes(&self) -> u64 {
        self.pacer[0].backlog_bytes()
    }

    /// The VM sends `frame`.
    pub fn handle_outgoing(&mut self, now: Instant, frame: &[u8]) -> Outcome {
        let wire_bytes = frame.len() as u64 + WIRE_OVERHEAD_BYTES;
        let peer = Peer::of(frame).filter(|_| wire_bytes <= self.frame_bytes);
        let queued = match peer {
            Some(peer) => {
                let rate = self.meet(now, peer, frame);
                let mut copy = self.buffers.take();
                copy.extend_from_slice(frame);
                self.pacer[0].enqueue(now, Some(peer), wire_bytes, copy, rate)
            }
            None => Err(Vec::new()),
        };
        if let Err(buffer) = queued {
            self.buffers.put(buffer);
            self.counters.dropped_frames += 1;
            return Outcome::Dropped;
        }
        self.counters.held_frames += 1;
        self.counters.held_bytes += wire_bytes;
        let backlog_bytes = self.pacer[0].backlog_bytes();
        self.counters.max_backlog_bytes = self.counters.max_backlog_bytes.max(backlog_bytes);
        Outcome::Held
    }

    /// The next frame whose time has come by `now`, exchanged for the storage of `frame`. False:
    /// there is none, and `frame` is as it was.
    pub fn poll(&mut self, now: Instant, frame: &mut Vec<u8>) -> bool {
        self.coordinate(now);
        let next = match self.batcher {
            // Who ends lets all out at once.
            None => self.take(now),
            Some(_) if now == Instant::FAR_FUTURE => self.take(now),
            Some(mut batcher) => {
                if self.batch.is_empty() && self.departure().is_some() && batcher.free_at() <= now {
                    let mut slots = Vec::new();
                    batcher.fill(now, &mut self.pacer, &mut slots);
                    self.batch.extend(slots);
                    self.batcher = Some(batcher);
                }
                self.next_of_batch()
            }
        };
        let Some(next) = next else {
            return false;
        };
        self.buffers.put(std::mem::replace(frame, next));
        true
    }

    /// When [`Self::poll`] has the next frame, or something else is due. None: no frame is held that
    /// has a rate.
    pub fn next_deadline(&self) -> Option<Instant> {
        let frame = match self.batcher {
            _ if !self.batch.is_empty() => Some(Instant::ZERO),
            None => self.departure(),
            Some(batcher) => self.departure().map(|_| batcher.free_at()),
        };
        let peers = self.peers.as_ref().and_then(Peers::next_deadline);
        Instant::earliest([frame, peers])
    }

    /// A frame has arrived from the network. True: it is a message about the hose, and not for the VM.
    pub fn handle_incoming(&mut self, now: Instant, frame: &[u8]) -> bool {
        let peers = self.peers.as_mut();
        peers.is_some_and(|peers| peers.handle_incoming(now, frame, &mut self.pacer[0]))
    }

    /// When the next frame that has a rate conforms.
    fn departure(&self) -> Option<Instant> {
        let at = self.pacer[0].next_departure();
        at.filter(|at| *at < Instant::FAR_FUTURE)
    }

    fn take(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.departure()?;
        Some(self.pacer[0].poll(now)?.packet)
    }

    fn next_of_batch(&mut self) -> Option<Vec<u8>> {
        let slot = self.batch.pop_front()?;
        if let Some((_, departure)) = slot.content {
            return Some(departure.packet);
        }
        self.counters.void_frames += 1;
        self.counters.void_bytes += slot.wire_bytes;
        let mut frame = self.buffers.take();
        let bytes = slot.wire_bytes - WIRE_OVERHEAD_BYTES;
        let address = self.station.unwrap_or(MacAddress([2, 0, 0, 0, 0, 0]));
        VoidFrame { address }.emit(bytes as usize, &mut frame);
        Some(frame)
    }

    /// Learns from a frame of the VM. Returns its rate to the peer, if that is new.
    fn meet(&mut self, now: Instant, peer: Peer, frame: &[u8]) -> BitRate {
        if let Ok(ethernet) = EthernetHeader::parse(frame) {
            self.station = Some(ethernet.header.src);
            if let Some(peers) = &mut self.peers
                && let Some(rate) = peers.handle_outgoing(now, peer, &ethernet.header)
            {
                return rate;
            }
        }
        self.guarantee.rate
    }

    /// Says to peers what is due.
    fn coordinate(&mut self, now: Instant) {
        let (Some(peers), Some(station)) = (&mut self.peers, self.station) else {
            return;
        };
        for frame in peers.poll(now, station, &mut self.pacer[0]) {
            let wire_bytes = frame.len() as u64 + WIRE_OVERHEAD_BYTES;
            let queued = self.pacer[0].enqueue(now, None, wire_bytes, frame, self.guarantee.peak);
            self.counters.messages += u64::from(queued.is_ok());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use ebb_units::Duration;

    use super::*;
    use crate::tenant::{CoordinationParams, MIN_VOID_BYTES};

    fn frame(to: u8, bytes: usize) -> Vec<u8> {
        let mut frame = Vec::new();
        EthernetHeader {
            dst: MacAddress([2, 0, 0, 0, 0, 9]),
            src: MacAddress([2, 0, 0, 0, 0, 1]),
            ethertype: EthernetHeader::IPV4,
        }
        .emit(&mut frame);
        frame.resize(30, 0);
        frame.extend([10, 0, 0, to]);
        frame.resize(bytes, to);
        frame
    }

    fn pacer() -> GuaranteedFrames {
        let guarantee = Guarantee {
            rate: BitRate::from_mbps(8),
            burst_bytes: 1_538,
            peak: BitRate::from_mbps(8),
        };
        GuaranteedFrames::new(guarantee, 1_538, 4 * 1_538)
    }

    #[test]
    fn frames_leave_whole_in_order_and_at_the_rate_on_the_wire() {
        let mut pacer = pacer();
        for n in 1..=3 {
            let outcome = pacer.handle_outgoing(Instant::ZERO, &frame(n, 1_514));
            assert_eq!(outcome, Outcome::Held);
        }
        // 8 Mbit/s are a byte per microsecond.
        let mut left = Vec::new();
        for n in 1..=3_u8 {
            let due = pacer.next_deadline().unwrap();
            assert_eq!(due, Instant::from_micros(1_538 * u64::from(n - 1)));
            assert!(pacer.poll(due, &mut left));
            assert_eq!(left, frame(n, 1_514));
            assert!(!pacer.poll(due, &mut left));
        }
        assert_eq!(pacer.next_deadline(), None);
        assert_eq!(pacer.counters().held_bytes, 3 * 1_538);
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let mut pacer = pacer();
        for _ in 0..4 {
            assert_eq!(
                pacer.handle_outgoing(Instant::ZERO, &frame(1, 1_514)),
                Outcome::Held
            );
        }
        for dropped in [frame(1, 1_514), vec![0; 13]] {
            assert_eq!(
                pacer.handle_outgoing(Instant::ZERO, &dropped),
                Outcome::Dropped
            );
        }
        assert_eq!(pacer.counters().dropped_frames, 2);
        assert_eq!(pacer.backlog_bytes(), 4 * 1_538);
    }

    #[test]
    fn a_frame_longer_than_the_guarantee_allows_at_once_is_dropped() {
        let mut pacer = pacer();
        for (bytes, outcome) in [(1_515, Outcome::Dropped), (1_514, Outcome::Held)] {
            let frame = frame(1, bytes);
            assert_eq!(pacer.handle_outgoing(Instant::ZERO, &frame), outcome);
        }
        assert_eq!(pacer.counters().dropped_frames, 1);
    }

    #[test]
    fn what_is_not_ipv4_is_for_its_station() {
        let mut arp = frame(1, 42);
        arp[12..14].copy_from_slice(&[8, 6]);
        let station = [2, 0, 0, 0, 0, 9];
        assert_eq!(Peer::of(&arp), Some(Peer::Station(station)));
        assert_eq!(
            Peer::of(&frame(7, 42)),
            Some(Peer::Address(Ipv4Addr::new(10, 0, 0, 7)))
        );
        assert_eq!(Peer::of(&frame(7, 20)[..20]), Some(Peer::Station(station)));
    }

    /// All frames that leave until `end`, polled when asked for.
    fn run(pacer: &mut GuaranteedFrames, end: Instant) -> Vec<Vec<u8>> {
        let mut left = Vec::new();
        while let Some(due) = pacer.next_deadline().filter(|at| *at <= end) {
            let mut frame = Vec::new();
            while pacer.poll(due, &mut frame) {
                left.push(std::mem::take(&mut frame));
            }
        }
        left
    }

    #[test]
    fn void_frames_take_the_time_between_frames_on_the_link() {
        // 8 Mbit/s on a link of 80: a frame in ten places.
        let batcher = Batcher::new(BitRate::from_mbps(80), Duration::from_micros(1_000), 1_538);
        let mut pacer = pacer().in_batches(batcher);
        for n in 1..=4 {
            pacer.handle_outgoing(Instant::ZERO, &frame(n, 1_514));
        }
        let left = run(&mut pacer, Instant::from_micros(10_000));
        let is_void = |frame: &Vec<u8>| frame[..6] == frame[6..12];
        let mut gaps = vec![0];
        for frame in &left {
            let wire_bytes = frame.len() as u64 + WIRE_OVERHEAD_BYTES;
            match is_void(frame) {
                true => *gaps.last_mut().unwrap() += wire_bytes,
                false => gaps.push(0),
            }
        }
        assert_eq!(gaps.len(), 5);
        for gap in &gaps[1..4] {
            let longer = gap - 9 * 1_538;
            assert!(longer < 2 * MIN_VOID_BYTES, "{gap}");
        }
        // Nothing waits any more, and so no void frame leaves.
        assert_eq!(gaps[4], 0);
        let counted = pacer.counters();
        assert_eq!(counted.void_bytes, gaps.iter().sum::<u64>());
        assert_eq!(
            counted.void_frames,
            left.iter().filter(|f| is_void(f)).count() as u64
        );
    }

    const PARAMS: CoordinationParams = CoordinationParams {
        period: Duration::from_micros(1_000),
        delay: Duration::from_micros(100),
    };

    fn among(me: u8, others: &[u8], burst_bytes: u64) -> GuaranteedFrames {
        let guarantee = Guarantee {
            rate: BitRate::from_mbps(80),
            burst_bytes,
            peak: BitRate::from_mbps(80),
        };
        let address = |last| Ipv4Addr::new(10, 0, 0, last);
        let peers = others.iter().copied().map(address);
        let peers = Peers::new(address(me), peers, BitRate::from_mbps(70), PARAMS);
        GuaranteedFrames::new(guarantee, 1_538, 1 << 20).among(peers)
    }

    fn is_message(frame: &[u8]) -> bool {
        frame.len() == 60 && frame[23] == 254
    }

    #[test]
    fn without_a_grant_no_more_than_the_burst_leaves_to_a_peer() {
        let mut pacer = among(1, &[2], 2 * 1_538);
        for _ in 0..20 {
            pacer.handle_outgoing(Instant::ZERO, &frame(2, 1_514));
        }
        let left = run(&mut pacer, Instant::from_micros(50_000));
        let (messages, data): (Vec<_>, Vec<_>) = left.into_iter().partition(|f| is_message(f));
        assert_eq!(data.len(), 2);
        assert!(messages.len() >= 40, "{}", messages.len());
        assert_eq!(pacer.counters().messages, messages.len() as u64);
        // To others it has its rate.
        pacer.handle_outgoing(Instant::from_micros(50_000), &frame(9, 1_514));
        let left = run(&mut pacer, Instant::from_micros(60_000));
        assert!(left.iter().any(|f| f == &frame(9, 1_514)));
    }

    #[test]
    fn a_demand_is_answered_with_a_grant_that_lets_frames_go() {
        let mut sender = among(1, &[2], 1_538);
        let mut receiver = among(2, &[1], 1_538);
        // It knows its own station from a frame to anybody.
        receiver.handle_outgoing(Instant::ZERO, &frame(9, 60));
        for _ in 0..8 {
            sender.handle_outgoing(Instant::ZERO, &frame(2, 1_514));
        }
        let (mut data, mut hidden) = (0, 0);
        for step in 1..=20 {
            let now = Instant::from_micros(500 * step);
            for frame in run(&mut sender, now) {
                let taken = receiver.handle_incoming(now, &frame);
                assert_eq!(taken, is_message(&frame));
                data += usize::from(!taken);
                hidden += usize::from(taken);
            }
            for frame in run(&mut receiver, now) {
                sender.handle_incoming(now, &frame);
            }
        }
        assert_eq!(data, 8);
        assert!(hidden >= 1);
    }

    #[test]
    fn messages_of_strangers_change_nothing_and_reach_nobody() {
        let mut receiver = among(2, &[1], 1_538);
        let mut stranger = among(3, &[2], 1_538);
        stranger.handle_outgoing(Instant::ZERO, &frame(2, 1_514));
        stranger.handle_outgoing(Instant::ZERO, &frame(2, 1_514));
        let sent = run(&mut stranger, Instant::from_micros(5_000));
        let mut taken = 0;
        for frame in sent.iter().filter(|frame| is_message(frame)) {
            taken += usize::from(receiver.handle_incoming(Instant::ZERO, frame));
        }
        assert!(taken > 0);
        assert_eq!(receiver.next_deadline(), None);
    }
}
