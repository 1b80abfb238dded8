//! Who watches what happens to packets: the switch's side of the glass box.
//!
//! A [`Watch`] chooses packets by the port they come in, and from then on gets a [`Visit`] for every stretch of
//! their way, and of their copies: once through ingress and into queues, once out of a queue and through
//! egress. Everything is told, in order; the pipeline's part is [`ebb_pipeline::trace`]. A packet
//! that nobody watches costs one comparison.

mod text;

use std::collections::BTreeSet;
use std::sync::Arc;

use ebb_pipeline::control::Replica;
use ebb_pipeline::trace::TraceEvent;
use ebb_traffic_manager::Depth;
use ebb_units::{Duration, Instant};

use crate::switch::PortId;

/// Gets what happens; false ends the watch.
pub type Sink = Box<dyn FnMut(&Visit) -> bool + Send>;

/// Which packets are traced, and who gets to know.
pub struct Watch {
    /// Those that come in here; none: everywhere.
    pub ports: BTreeSet<PortId>,
    /// At most so many packets from outside. When the last of them and its copies have left, the sink is dropped.
    pub packets: u64,
    pub sink: Sink,
}

/// A packet in the switch without interruption.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// Name of the switch.
    pub switch: Arc<str>,
    pub at: Instant,
    /// The same for all visits of a packet and of its copies.
    pub packet_id: u64,
    pub events: Vec<Event>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A frame enters ingress.
    Enters {
        port: PortId,
        cause: Cause,
        frame: Vec<u8>,
    },
    Pipeline(TraceEvent),
    /// The copies of a clone session; none if there is no such session.
    Cloned {
        session: u32,
        replicas: Vec<Replica>,
    },
    /// The copies of a multicast group; none if there is no such group.
    Multicast {
        group: u16,
        replicas: Vec<Replica>,
    },
    Digest {
        /// Big-endian.
        values: Vec<Vec<u8>>,
    },
    /// `depth` is what was in the queue before.
    Enqueued {
        port: PortId,
        queue: u8,
        bytes: u64,
        depth: Depth,
    },
    /// The queue has no room, and ingress gets the packet again.
    Deflected {
        port: PortId,
        queue: u8,
        depth: Depth,
    },
    Refused {
        port: PortId,
        queue: u8,
        reason: &'static str,
        depth: Depth,
    },
    /// Egress begins. `depth` is what stays in the queue.
    Dequeued {
        port: PortId,
        queue: u8,
        /// `egress_rid`
        instance: u16,
        waited: Duration,
        depth: Depth,
    },
    Resubmitted,
    Recirculated,
    Dropped {
        reason: &'static str,
    },
    Sent {
        port: PortId,
        /// When its last bit is at the other end of the link.
        arrival: Instant,
        frame: Vec<u8>,
    },
}

/// Why a frame enters ingress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Arrived,
    Resubmitted,
    Recirculated,
    Deflected,
}

impl Event {
    /// Whether the packet will be seen again.
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

/// Bits of a packet: which watches it belongs to.
pub(crate) type Watches = u8;

/// All watches of a switch.
#[derive(Default)]
pub(crate) struct Tracer {
    slots: [Option<Slot>; Watches::BITS as usize],
    /// Watches that want more packets.
    open: Watches,
    visit: Option<(Watches, Visit)>,
}

struct Slot {
    ports: BTreeSet<PortId>,
    left: u64,
    /// Packets and copies in the switch.
    inside: u64,
    /// `None`: nobody is interested any more, but there are packets with this bit.
    sink: Option<Sink>,
}

impl Tracer {
    /// False if there are too many watches.
    pub fn add(&mut self, watch: Watch) -> bool {
        let Some(free) = self.slots.iter().position(Option::is_none) else {
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

    /// The watches of a frame that comes in.
    #[inline]
    pub fn admit(&mut self, port: PortId) -> Watches {
        match self.open {
            0 => 0,
            _ => self.admit_watched(port),
        }
    }

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

    pub fn note_pipeline(&mut self, events: Vec<TraceEvent>) {
        if let Some((_, visit)) = &mut self.visit {
            visit.events.extend(events.into_iter().map(Event::Pipeline));
        }
    }

    pub fn is_visited(&self) -> bool {
        self.visit.is_some()
    }

    /// Tells those who watch.
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
                if slot.sink.as_mut().is_some_and(|sink| !sink(&visit)) {
                    slot.sink = None;
                    self.open &= !(1 << bit);
                }
            }
            self.close_if_over(bit);
        }
    }

    /// There are no packets in the switch any more.
    pub fn flush(&mut self) {
        for bit in 0..self.slots.len() {
            if let Some(slot) = &mut self.slots[bit] {
                slot.inside = 0;
            }
            self.close_if_over(bit);
        }
    }

    fn close_if_over(&mut self, bit: usize) {
        if let Some(slot) = &self.slots[bit]
            && slot.inside == 0
            && self.open & 1 << bit == 0
        {
            self.slots[bit] = None;
        }
    }
}
