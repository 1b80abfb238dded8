//! The network interface of a host: what waits in it, when a frame starts to leave, which classes
//! its neighbour has stopped, and how what arrives is put together before the host sees it.
//!
//! It has neither link nor clock: the agent drives one over a packet socket, the simulator one per
//! simulated host (`docs/hosts.md`). Whoever drives it does, whenever something happened:
//!
//! ```text
//!  nic.handle_control(now, frame)                 a MAC control frame arrived
//!  nic.receive(now, packet, |packet| ..)          an IPv4 packet arrived; some wait in the NIC
//!  while !nic.wants(now).is_empty()               the classes of which it takes a packet
//!      nic.push(now, &mut packet)
//!  while let Some(end) = nic.poll(now, &mut packet)   the frame that starts now, and its last bit
//!  nic.release(now, |packet| ..)                  when next_delivery() has come
//!  sleep until the earlier of
//!      nic.next_start(now)                        while there is more to send
//!      nic.next_delivery()
//! ```

mod classes;
mod coalesce;
mod merge;
mod params;
mod pauses;
mod queue;
mod serialiser;

use ebb_units::{Duration, Instant};
use ebb_wire::{EthernetFrame, ParseError, PfcFrame};

pub use classes::{CLASSES, ClassEntry, Classes, DscpSet};
use coalesce::Coalescer;
pub use params::{NicParams, QueueKind};
pub use pauses::Pauses;
use queue::Queue;
pub use serialiser::Serialiser;

/// A class of each of eight.
pub type PerClass<T> = [T; CLASSES];

/// Pauses of the NIC by its neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NicStatistics {
    /// PFC frames that stopped the class; those that let it resume do not count.
    pub pauses_received: PerClass<u64>,
    /// How long the class was stopped.
    pub paused: PerClass<Duration>,
    /// MAC control frames that are none of PFC, or damaged.
    pub refused_frames: u64,
}

/// The network interface of a host.
#[derive(Clone, Debug)]
pub struct Nic {
    params: NicParams,
    serialiser: Serialiser,
    queue: Queue,
    pauses: Pauses,
    coalescer: Coalescer,
    refused_frames: u64,
}

impl Nic {
    /// A NIC that is free, with empty queues.
    pub fn new(params: NicParams) -> Self {
        Nic {
            serialiser: Serialiser::new(params),
            queue: Queue::new(&params),
            pauses: Pauses::new(params.pfc_response()),
            coalescer: Coalescer::new(&params),
            params,
            refused_frames: 0,
        }
    }

    /// The link has another rate from now on, 0 for no limit. The frame being sent keeps its end,
    /// and a pause that has been received its length.
    pub fn set_rate_bps(&mut self, rate_bps: u64) {
        self.params.rate_bps = rate_bps;
        self.serialiser.set_rate_bps(rate_bps);
    }

    /// When the frame being sent is out.
    pub fn free_at(&self) -> Instant {
        self.serialiser.free_at()
    }

    /// Whether a frame that is handed over now leaves at once.
    pub fn is_free(&self, now: Instant) -> bool {
        self.serialiser.is_free(now)
    }

    /// A MAC control frame arrived. It counts only with `pfc`; what is none of PFC's is refused and
    /// counted.
    pub fn handle_control(
        &mut self,
        now: Instant,
        frame: &EthernetFrame<'_>,
    ) -> Result<(), ParseError> {
        if !self.params.pfc {
            return Ok(());
        }
        let frame = PfcFrame::parse(frame).inspect_err(|_| self.refused_frames += 1)?;
        self.pauses.handle_frame(now, &frame, self.params.rate());
        Ok(())
    }

    /// The classes of which it takes a packet at `now`: of a round robin those that may start at
    /// once, of a FIFO those that have room.
    pub fn wants(&mut self, now: Instant) -> DscpSet {
        let classes = match self.params.queue {
            QueueKind::Fifo => self.queue.with_room(),
            QueueKind::RoundRobin if !self.is_free(now) => 0,
            QueueKind::RoundRobin => {
                let open = self.pauses.open(now);
                let waiting = self.queue.waiting();
                // Waiting packets go before anything else is asked for.
                if open & waiting == 0 {
                    open & !waiting
                } else {
                    0
                }
            }
        };
        self.params.classes.dscps(classes)
    }

    /// Takes a complete IPv4 packet, to be sent; `packet` gets memory for the next one. A packet
    /// that was not wanted waits all the same, and nothing overtakes it in its class.
    pub fn push(&mut self, packet: &mut Vec<u8>) {
        let class = self.params.classes.of_packet(packet);
        self.queue.push(class, packet);
    }

    /// The packet that starts to leave at `now`, written over `packet`, and when its last bit is
    /// out. None: the link is busy, or nothing waits that may leave.
    pub fn poll(&mut self, now: Instant, packet: &mut Vec<u8>) -> Option<Instant> {
        if !self.is_free(now) {
            return None;
        }
        let open = self.pauses.open(now);
        if !self.queue.pop(open, packet) {
            self.serialiser.idle(now);
            return None;
        }
        Some(self.serialiser.send(now, packet.len()))
    }

    /// When something may leave that may not at `now`: the frame being sent is out, or a class that
    /// is stopped resumes. None: nothing hinders anything.
    pub fn next_start(&mut self, now: Instant) -> Option<Instant> {
        if !self.is_free(now) {
            return Some(self.free_at());
        }
        self.pauses.next_change(now)
    }

    /// Packets wait in the NIC.
    #[cfg(test)]
    fn has_backlog(&self) -> bool {
        self.queue.waiting() != 0
    }

    /// A packet arrived: what the host gets to see of it, and of others that waited, goes to
    /// `deliver`, in order.
    pub fn receive(&mut self, now: Instant, packet: &[u8], deliver: impl FnMut(&[u8])) {
        self.coalescer.receive(now, packet, deliver);
    }

    /// Hands over what has waited long enough.
    pub fn release(&mut self, now: Instant, deliver: impl FnMut(&[u8])) {
        self.coalescer.release(now, deliver);
    }

    /// When [`release`](Self::release) has something to do. None: nothing that arrived waits.
    pub fn next_delivery(&self) -> Option<Instant> {
        self.coalescer.due()
    }

    /// Pauses by neighbours until `now`.
    pub fn statistics(&mut self, now: Instant) -> NicStatistics {
        NicStatistics {
            pauses_received: self.pauses.received(),
            paused: self.pauses.stopped_for(now),
            refused_frames: self.refused_frames,
        }
    }
}

#[cfg(test)]
mod tests;
