//! The pacer for a virtual machine that knows nothing of it: Ethernet frames that pass between the
//! VM and its link.

use std::net::Ipv4Addr;

use ebb_units::Instant;
use ebb_wire::EthernetHeader;

use super::guarantee::Guarantee;
use super::pacer::VmPacer;
use crate::buffers::BufferPool;

/// FCS, preamble and gap between frames: on the wire, and not in a frame as hosts see it.
pub const WIRE_OVERHEAD_BYTES: u64 = 24;
/// Where the destination of an IPv4 packet is, in a frame without tags.
const IPV4_DESTINATION: std::ops::Range<usize> = 30..34;

/// Who a frame is for: one peer of the tenant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Peer {
    Address(Ipv4Addr),
    /// All that is not IPv4.
    Station([u8; 6]),
}

impl Peer {
    /// None: too short for an Ethernet frame.
    fn of(frame: &[u8]) -> Option<Peer> {
        let ethernet = EthernetHeader::parse(frame).ok()?.header;
        let address = frame.get(IPV4_DESTINATION);
        match address.and_then(|octets| octets.first_chunk::<4>()) {
            Some(octets) if ethernet.ethertype == EthernetHeader::IPV4 => {
                Some(Peer::Address(Ipv4Addr::from(*octets)))
            }
            _ => Some(Peer::Station(ethernet.dst.0)),
        }
    }
}

/// What became of an outgoing frame.
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
}

/// The pacer of all frames of one VM by its guarantee.
#[derive(Debug)]
pub struct GuaranteedFrames {
    pacer: VmPacer<Peer, Vec<u8>>,
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
            pacer: VmPacer::new(guarantee, frame_bytes, queue_bytes),
            guarantee,
            frame_bytes,
            buffers: BufferPool::default(),
            counters: GuaranteeCounters::default(),
        }
    }

    /// Counters since the pacer was made.
    pub fn counters(&self) -> GuaranteeCounters {
        self.counters
    }

    /// Bytes on the wire that wait.
    pub fn backlog_bytes(&self) -> u64 {
        self.pacer.backlog_bytes()
    }

    /// The VM sends `frame`.
    pub fn handle_outgoing(&mut self, now: Instant, frame: &[u8]) -> Outcome {
        let wire_bytes = frame.len() as u64 + WIRE_OVERHEAD_BYTES;
        let rate = self.guarantee.rate;
        let peer = Peer::of(frame).filter(|_| wire_bytes <= self.frame_bytes);
        let queued = match peer {
            Some(peer) => {
                let mut copy = self.buffers.take();
                copy.extend_from_slice(frame);
                self.pacer.enqueue(now, peer, wire_bytes, copy, rate)
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
        let backlog_bytes = self.pacer.backlog_bytes();
        self.counters.max_backlog_bytes = self.counters.max_backlog_bytes.max(backlog_bytes);
        Outcome::Held
    }

    /// The next frame whose time has come by `now`, exchanged for the storage of `frame`. False:
    /// there is none, and `frame` is as it was.
    pub fn poll(&mut self, now: Instant, frame: &mut Vec<u8>) -> bool {
        let Some(departure) = self.pacer.poll(now) else {
            return false;
        };
        self.buffers.put(std::mem::replace(frame, departure.packet));
        true
    }

    /// When [`Self::poll`] has the next frame. None: no frame is held.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.pacer.next_departure()
    }
}

#[cfg(test)]
mod tests {
    use ebb_units::BitRate;
    use ebb_wire::MacAddress;

    use super::*;

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
}
