//! The pending events of the nodes of a partition, and the time at which each node runs next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ebb_units::Instant;

use super::arrivals::Spare;
use super::event::Event;
use super::event_queue::EventQueue;
use crate::prefetch::prefetch;

/// Where a node is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Address {
    /// Number of the partition that runs it.
    pub partition: u32,
    /// Its index in that partition.
    pub index: u32,
}

/// An event on its way to another node: the arrival of a frame, or a fault of a link that the node has to count.
#[derive(Debug)]
pub struct Crossing {
    /// The node it goes to.
    pub(crate) to: Address,
    /// When it arrives.
    pub at: Instant,
    /// Event at the node.
    pub(crate) event: Event,
}

/// The pending events of the nodes of a partition, by their index.
#[derive(Debug)]
pub(super) struct Calendar {
    /// Number of the partition.
    number: u32,
    /// Pending events of each node.
    queues: Vec<EventQueue>,
    /// Time of the earliest entry of each node in `list`; [`Instant::FAR_FUTURE`]: it has none.
    listed: Vec<Instant>,
    /// Next events of nodes, by time and index. An entry counts only if its time is the one that `listed` has.
    list: BinaryHeap<Reverse<(Instant, u32)>>,
    /// For each partition, the events that go to its nodes.
    crossing: Vec<Vec<Crossing>>,
    /// Memory for all queues.
    spare: Spare,
}

impl Calendar {
    /// The calendar of partition `number` of `partitions`, without nodes.
    pub fn new(number: u32, partitions: usize) -> Self {
        Self {
            number,
            queues: Vec::new(),
            listed: Vec::new(),
            list: BinaryHeap::new(),
            crossing: (0..partitions).map(|_| Vec::new()).collect(),
            spare: Spare::default(),
        }
    }

    /// Adds the events of a node, which is not on the list yet.
    pub fn add(&mut self, events: EventQueue) {
        self.queues.push(events);
        self.listed.push(Instant::FAR_FUTURE);
    }

    /// Takes the events of a node that goes to another partition.
    pub fn take(&mut self, index: u32) -> EventQueue {
        std::mem::replace(self.of(index), EventQueue::new())
    }

    /// Number of the partition.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Number of partitions.
    pub fn partitions(&self) -> usize {
        self.crossing.len()
    }

    /// The pending events of a node.
    #[inline]
    pub fn of(&mut self, index: u32) -> &mut EventQueue {
        &mut self.queues[index as usize]
    }

    /// Begins the turn of a node: [`EventQueue::prepare`].
    pub fn prepare(&mut self, index: u32) {
        self.queues[index as usize].prepare(&mut self.spare);
    }

    /// Ends the turn of a node.
    pub fn end_turn(&mut self, index: u32) {
        self.queues[index as usize].forget_taken(&mut self.spare);
    }

    /// When the next node is on the list; `None` if none is.
    pub fn next_time(&self) -> Option<Instant> {
        Some(self.list.peek()?.0.0)
    }

    /// Takes the next node off the list if it is there for a time before `horizon`.
    pub fn pop_before(&mut self, horizon: Instant) -> Option<u32> {
        while let Some(&Reverse((at, index))) = self.list.peek()
            && at < horizon
        {
            self.list.pop();
            let listed = &mut self.listed[index as usize];
            if *listed == at {
                *listed = Instant::FAR_FUTURE;
                return Some(index);
            }
        }
        None
    }

    /// Puts a node on the list for this time, unless it is there for an earlier one.
    #[inline]
    pub fn enlist(&mut self, index: u32, at: Instant) {
        let listed = &mut self.listed[index as usize];
        if at < *listed {
            *listed = at;
            self.list.push(Reverse((at, index)));
        }
    }

    /// Adds an event to those of the node that it goes to, or to those that go to another partition.
    #[inline(always)]
    pub fn deliver(&mut self, crossing: Crossing) {
        let Crossing { to, at, event } = crossing;
        if to.partition != self.number {
            return self.hand_over(Crossing { to, at, event });
        }
        self.queues[to.index as usize].push_arrival(at, event);
        self.enlist(to.index, at);
    }

    /// Adds an event to those that go to another partition.
    #[inline(never)]
    fn hand_over(&mut self, crossing: Crossing) {
        self.crossing[crossing.to.partition as usize].push(crossing);
    }

    /// Takes the events that go to nodes of another partition.
    pub fn take_crossing(&mut self, to: usize) -> Vec<Crossing> {
        std::mem::take(&mut self.crossing[to])
    }

    /// Prefetches the ends of the queues of these nodes, where their next arrivals are added: they were last touched a
    /// turn ago. Each step is done for all nodes before the next one, so that cache misses overlap.
    pub fn prefetch<'a>(&self, to: impl Iterator<Item = &'a Address> + Clone) {
        let here = to.filter(|to| to.partition == self.number);
        let queues = here.map(|to| &self.queues[to.index as usize]);
        for queue in queues.clone() {
            prefetch(std::slice::from_ref(queue), 1);
        }
        queues.for_each(EventQueue::prefetch_end);
    }
}
