//! Traces what happens to chosen packets in a switch.
//!
//! A [`Watch`] chooses packets by the port at which they come in. It then gets a [`Visit`] for each
//! stretch of their way and of that of their copies: through ingress and into queues, or out of a
//! queue and through egress. A visit tells everything in order; the pipeline's part is
//! [`ebb_pipeline::trace`]. A packet that nobody watches costs one comparison.

mod text;

use std::collections::BTreeSet;
use std::sync::Arc;

use ebb_pipeline::control::Replica;
use ebb_pipeline::trace::TraceEvent;
use ebb_traffic_manager::{Depth, PortId};
use ebb_units::{Duration, Instant};

pub use ebb_wire::PfcFrame;

/// Takes visits; returning false ends the watch. A visit without events only asks whether there is anybody left.
pub type Sink = Box<dyn FnMut(&Visit) -> bool + Send>;

/// Which packets are traced, and who gets the traces.
pub struct Watch {
    /// The ports at which they come in; empty means all ports.
    pub ports: BTreeSet<PortId>,
    /// Most packets from outside that are traced. The sink is dropped when the last of them and its
    /// copies have left.
    pub packets: u64,
    /// Takes the visits.
    pub sink: Sink,
}

/// Events of a packet in the switch in one stretch without waiting, or at a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// Name of the switch.
    pub switch: Arc<str>,
    /// When it happened.
    pub at: Instant,
    /// Number of the packet, which is the same for all its visits and for its copies; 0 for what
    /// happened at a link.
    pub packet_id: u64,
    /// Events, in order.
    pub events: Vec<Event>,
}

/// Something that happened to a packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A frame enters ingress.
    Enters {
        /// The port at which it came in.
        port: PortId,
        /// Why it enters.
        cause: Cause,
        /// Its bytes.
        frame: Vec<u8>,
    },
    /// Something in the pipeline.
    Pipeline(TraceEvent),
    /// A clone session made copies; none if there is no such session.
    Cloned {
        /// Number of the session.
        session: u32,
        /// Its replicas.
        replicas: Vec<Replica>,
    },
    /// A multicast group made copies; none if there is no such group.
    Multicast {
        /// Number of the group.
        group: u16,
        /// Its replicas.
        replicas: Vec<Replica>,
    },
    /// The program sent a digest.
    Digest {
        /// The values of its fields, each big-endian.
        values: Vec<Vec<u8>>,
    },
    /// The packet joined a queue, in which `depth` was before.
    Enqueued {
        /// Port of the queue.
        port: PortId,
        /// Number of the queue.
        queue: u8,
        /// Length of the packet.
        bytes: u64,
        /// Depth of the queue without the packet.
        depth: Depth,
    },
    /// The packet did not fit into a queue, and ingress gets it again.
    Deflected {
        /// Port of the queue.
        port: PortId,
        /// Number of the queue.
        queue: u8,
        /// Depth of the queue.
        depth: Depth,
    },
    /// The traffic manager dropped the packet.
    Refused {
        /// Port of the queue.
        port: PortId,
        /// Number of the queue.
        queue: u8,
        /// Name of the reason.
        reason: &'static str,
        /// Depth of the queue.
        depth: Depth,
    },
    /// The packet stopped a queue or let it resume, by advanced flow control.
    QueuePaused {
        /// Port of the queue.
        port: PortId,
        /// Number of the queue.
        queue: u8,
        /// Whether it stops.
        paused: bool,
    },
    /// The packet left a queue, in which `depth` stays, and egress begins.
    Dequeued {
        /// Port of the queue.
        port: PortId,
        /// Number of the queue.
        queue: u8,
        /// v1model's `egress_rid`.
        instance: u16,
        /// How long it was queued.
        waited: Duration,
        /// Depth of the queue without the packet.
        depth: Depth,
    },
    /// The program resubmits the packet.
    Resubmitted,
    /// The program recirculates the packet.
    Recirculated,
    /// The packet was dropped, by the program or by the switch.
    Dropped {
        /// Name of the reason.
        reason: &'static str,
    },
    /// The packet was sent.
    Sent {
        /// The port.
        port: PortId,
        /// When its last bit is at the other end of the link.
        arrival: Instant,
        /// Its bytes.
        frame: Vec<u8>,
    },
    /// A port asked its neighbour to stop classes, or to let them resume.
    PauseSent {
        /// The port.
        port: PortId,
        /// Its request, class by class.
        frame: PfcFrame,
    },
    /// The neighbour of a port asked for the same; it takes effect when the port has responded.
    PauseReceived {
        /// The port.
        port: PortId,
        /// Request of the neighbour, class by class.
        frame: PfcFrame,
    },
    /// Classes (bit i: class i) of a port resume because their pause was not renewed.
    PauseExpired {
        /// The port.
        port: PortId,
        /// Bit i: class i.
        classes: u8,
    },
    /// A class of a port has been paused for too long.
    PauseStorm {
        /// The port.
        port: PortId,
        /// Number of the class.
        class: u8,
        /// Length of the pause so far.
        lasted: Duration,
        /// Whether the pauses of the port are ignored from now on.
        ignored: bool,
    },
    /// A port whose pauses were ignored was quiet for long enough and is obeyed again.
    PausesObeyedAgain {
        /// The port.
        port: PortId,
    },
}

/// Why a frame enters ingress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It arrived from outside.
    Arrived,
    /// It was resubmitted after ingress.
    Resubmitted,
    /// It was recirculated after egress.
    Recirculated,
    /// A queue had no room for it.
    Deflected,
}

impl Event {
    /// Whether the packet, or a copy of it, will have another visit.
    fn goes_on(&self) -> bool {
        matches!(
            self,
            Event::Enqueued { .. }
                | Event::Deflected { .. }
                | Event::Resubmitted
                | Event::Recirculated
        )
    }
}

/// A set of watches: bit i is the watch in slot i.
pub(crate) type Watches = u8;

/// All watches of a switch.
#[derive(Default)]
pub(crate) struct Tracer {
    /// The watches; `None` is a free slot.
    slots: [Option<Slot>; Watches::BITS as usize],
    /// The watches that want more packets.
    open: Watches,
    /// The visit that is under way, and the watches it is for.
    visit: Option<(Watches, Visit)>,
}

/// One watch.
struct Slot {
    /// The ports at which its packets come in; empty means all.
    ports: BTreeSet<PortId>,
    /// How many more packets it wants.
    left: u64,
    /// How many of its packets and their copies are in the switch.
    inside: u64,
    /// Takes the visits; `None` if nobody wants them any more, while packets of the watch are still
    /// there.
    sink: Option<Sink>,
}

impl Tracer {
    /// Adds a watch; false if there are too many.
    pub fn add(&mut self, watch: Watch) -> bool {
        let Some(free) = self.free_slot() else {
            return false;
        };
        if watch.packets > 0 {
            self.open |= 1 << free;
            self.slots[free] = Some(Slot {
                ports: watch.ports,
                left: watch.packets,
                inside: 0,
                sink: Some(watch.sink),
            });
        }
        true
    }

    /// A slot without a watch. Where no packets come, a watch whose owner has gone ends only here.
    fn free_slot(&mut self) -> Option<usize> {
        let free = |slots: &[Option<Slot>]| slots.iter().position(Option::is_none);
        free(&self.slots).or_else(|| {
            let question = Visit {
                switch: "".into(),
                at: Instant::ZERO,
                packet_id: 0,
                events: Vec::new(),
            };
            for bit in 0..self.slots.len() {
                self.pass(bit, &question);
                self.close_if_over(bit);
            }
            free(&self.slots)
        })
    }

    /// Passes a visit to the watcher, if there is one.
    fn pass(&mut self, bit: usize, visit: &Visit) {
        if let Some(slot) = &mut self.slots[bit]
            && slot.sink.as_mut().is_some_and(|sink| !sink(visit))
        {
            slot.sink = None;
            self.open &= !(1 << bit);
        }
    }

    /// The watches that a frame which comes in belongs to.
    #[inline]
    pub fn admit(&mut self, port: PortId) -> Watches {
        match self.open {
            0 => 0,
            _ => self.admit_watched(port),
        }
    }

    /// Like [`admit`](Self::admit), if any watch wants packets.
    fn admit_watched(&mut self, port: PortId) -> Watches {
        let mut watches = 0;
        for (bit, slot) in self.slots.iter_mut().enumerate() {
            let Some(slot) = slot.as_mut().filter(|_| self.open & 1 << bit != 0) else {
                continue;
            };
            if slot.ports.is_empty() || slot.ports.contains(&port) {
                watches |= 1 << bit;
                slot.inside += 1;
                slot.left -= 1;
                if slot.left == 0 {
                    self.open &= !(1 << bit);
                }
            }
        }
        watches
    }

    /// Begins a visit.
    pub fn begin(&mut self, watches: Watches, visit: Visit) {
        self.visit = Some((watches, visit));
    }

    /// Notes an event of the visit, if there is one.
    #[inline]
    pub fn note(&mut self, event: impl FnOnce() -> Event) {
        if let Some((_, visit)) = &mut self.visit {
            visit.events.push(event());
        }
    }

    /// Notes what the pipeline did, if there is a visit.
    pub fn note_pipeline(&mut self, events: Vec<TraceEvent>) {
        if let Some((_, visit)) = &mut self.visit {
            visit.events.extend(events.into_iter().map(Event::Pipeline));
        }
    }

    /// Whether a visit is under way.
    pub fn is_visited(&self) -> bool {
        self.visit.is_some()
    }

    /// Ends the visit and passes it to those who watch.
    pub fn end(&mut self) {
        let Some((watches, visit)) = self.visit.take() else {
            return;
        };
        let on_their_way = visit.events.iter().filter(|e| e.goes_on()).count() as u64;
        for bit in 0..self.slots.len() {
            if watches & 1 << bit == 0 {
                continue;
            }
            if let Some(slot) = &mut self.slots[bit] {
                slot.inside = (slot.inside + on_their_way).saturating_sub(1);
            }
            self.pass(bit, &visit);
            self.close_if_over(bit);
        }
    }

    /// Passes what happened at the link of a port to those who watch it.
    pub fn note_link(
        &mut self,
        switch: &str,
        at: Instant,
        port: PortId,
        event: impl FnOnce() -> Event,
    ) {
        if self.open == 0 {
            return;
        }
        let visit = Visit {
            switch: switch.into(),
            at,
            packet_id: 0,
            events: vec![event()],
        };
        for bit in 0..self.slots.len() {
            let open = self.open & 1 << bit != 0;
            let Some(slot) = self.slots[bit].as_ref().filter(|_| open) else {
                continue;
            };
            if slot.ports.is_empty() || slot.ports.contains(&port) {
                self.pass(bit, &visit);
            }
            self.close_if_over(bit);
        }
    }

    /// Ends the watches of packets that are gone, when all queues have been emptied.
    pub fn flush(&mut self) {
        for bit in 0..self.slots.len() {
            if let Some(slot) = &mut self.slots[bit] {
                slot.inside = 0;
            }
            self.close_if_over(bit);
        }
    }

    /// Frees a slot whose watch wants no packets and has none in the switch.
    fn close_if_over(&mut self, bit: usize) {
        if let Some(slot) = &self.slots[bit]
            && slot.inside == 0
            && self.open & 1 << bit == 0
        {
            self.slots[bit] = None;
        }
    }
}
