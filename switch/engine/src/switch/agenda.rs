//! Delayed work of a switch: frames that are on their way to ingress, and the timers of flow control
//! and of the export of queue states.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use ebb_traffic_manager::PortId;
use ebb_units::Instant;
use ebb_wire::PfcFrame;

/// Work at a later time. Tasks of the same time are done in the order of these variants, those of one
/// variant by port, and then in the order in which they were added.
#[derive(Debug)]
pub(super) enum Task {
    /// A PFC frame that came in at a port takes effect.
    Obey { port: PortId, frame: PfcFrame },
    /// Pauses of a port may have expired, or last for too long.
    Review { port: PortId },
    /// The pauses that a port has asked for are due to be repeated.
    Refresh { port: PortId },
    /// The changed states of queues are due to be exported to the program.
    Export { export: usize },
    /// A frame that came in at a port enters ingress.
    Enter { port: PortId, frame: Vec<u8> },
}

impl Task {
    /// Its kind and its port, which order tasks of the same time.
    fn rank(&self) -> (u8, usize) {
        match self {
            Task::Obey { port, .. } => (0, (*port).into()),
            Task::Review { port } => (1, (*port).into()),
            Task::Refresh { port } => (2, (*port).into()),
            Task::Export { export } => (3, *export),
            Task::Enter { port, .. } => (4, (*port).into()),
        }
    }
}

/// The tasks of one switch by time.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    tasks: BinaryHeap<Reverse<Entry>>,
    /// Tasks added so far.
    added: u64,
}

/// A task and its place in the order of all.
#[derive(Debug)]
struct Entry {
    at: Instant,
    number: u64,
    task: Task,
}

impl Entry {
    fn key(&self) -> (Instant, (u8, usize), u64) {
        (self.at, self.task.rank(), self.number)
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl Agenda {
    /// Adds a task.
    pub(super) fn add(&mut self, at: Instant, task: Task) {
        self.added += 1;
        self.tasks.push(Reverse(Entry {
            at,
            number: self.added,
            task,
        }));
    }

    /// When the next task is due; `None` if there is none.
    pub(super) fn next(&self) -> Option<Instant> {
        self.tasks.peek().map(|Reverse(entry)| entry.at)
    }

    /// The next task, if it is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Task> {
        self.next().filter(|at| *at <= now)?;
        self.tasks.pop().map(|Reverse(entry)| entry.task)
    }

    /// Forgets all tasks.
    pub(super) fn clear(&mut self) {
        self.tasks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_come_by_time_kind_port_and_order_of_being_added() {
        let us = Instant::from_micros;
        let enter = |port, byte| Task::Enter {
            port,
            frame: vec![byte],
        };
        let mut agenda = Agenda::default();
        agenda.add(us(2), enter(1, 1));
        agenda.add(us(2), enter(1, 2));
        agenda.add(us(2), enter(0, 3));
        agenda.add(us(2), Task::Refresh { port: 9 });
        agenda.add(us(1), enter(7, 4));
        assert_eq!(agenda.next(), Some(us(1)));
        assert!(agenda.pop_due(Instant::ZERO).is_none());
        let mut order = Vec::new();
        while let Some(task) = agenda.pop_due(us(2)) {
            order.push(match task {
                Task::Enter { frame, .. } => frame[0],
                _ => 0,
            });
        }
        assert_eq!(order, [4, 0, 3, 1, 2]);
        assert_eq!(agenda.next(), None);
    }
}
