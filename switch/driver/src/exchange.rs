//! One thread's dealings with the other threads of a driver: frames both ways, and how far it may
//! run.
//!
//! Frames cross in batches over one queue per pair of threads: unbounded, so that nobody ever waits
//! for room, and lock-free (`std::sync::mpsc` locks only to wake a receiver that blocks, and none
//! does). What bounds them is the limit: a thread that does not take frames holds back the others.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use ebb_units::{Duration, Instant};

use crate::board::{Board, Snapshot};
use crate::clock::Clock;
use crate::interface::Interface;
use crate::progress::{Course, Limit};
use ebb_engine::drive::{Crossing, Partition};

type Batch = Vec<Crossing>;

pub(crate) struct Exchange {
    own: usize,
    board: Arc<Board>,
    snapshot: Snapshot,
    course: Course,
    /// The last one known. It holds: limits only grow.
    limit: Limit,
    /// For each thread; those of the own one are not used.
    senders: Vec<Sender<Batch>>,
    receivers: Vec<Receiver<Batch>>,
    /// Earliest arrival of what was sent since the others were last told.
    just_sent: Vec<Option<Instant>>,
    /// The others have been told so.
    asleep: bool,
    /// Frames that came for a time that had passed already.
    late: u64,
}

/// One for each thread of the board.
pub(crate) fn exchanges(board: &Arc<Board>) -> Vec<Exchange> {
    let count = board.threads();
    let mut senders: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
    let mut receivers: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
    for from in &mut senders {
        for to in &mut receivers {
            let (sender, receiver) = channel();
            from.push(sender);
            to.push(receiver);
        }
    }
    let pairs = senders.into_iter().zip(receivers).enumerate();
    let exchange = |(own, (senders, receivers))| Exchange {
        own,
        board: board.clone(),
        snapshot: board.snapshot(),
        course: Course::new(own, count),
        limit: Limit {
            until: Instant::ZERO,
            by: own,
            distance: Duration::ZERO,
        },
        senders,
        receivers,
        just_sent: vec![None; count],
        asleep: false,
        late: 0,
    };
    pairs.map(exchange).collect()
}

impl Exchange {
    /// To be called whenever the delays of links have been measured.
    pub fn set_lookahead(&mut self, partition: &Partition<Interface>) {
        self.course.set_lookahead(partition.lookahead());
    }

    /// Takes what the others have sent.
    pub fn take(&mut self, partition: &mut Partition<Interface>) -> bool {
        let mut any = false;
        for (from, receiver) in self.receivers.iter().enumerate() {
            while let Ok(batch) = receiver.try_recv() {
                self.course.took(from, batch.len());
                self.late += partition.accept_late(batch);
                any = true;
            }
        }
        any
    }

    /// Until when the partition may run, if it has read from outside until `read_until`.
    pub fn limit(
        &mut self,
        partition: &Partition<Interface>,
        read_until: Instant,
        clock: Clock,
    ) -> Instant {
        let next = next_of(partition);
        // There is nothing to do, or it is allowed.
        if next >= read_until || read_until <= self.limit.until {
            return self.limit.until;
        }
        if !self.board.read(&mut self.snapshot) {
            return self.limit.until;
        }
        let reports = &mut self.snapshot.reports;
        self.course.acknowledge(reports);
        reports[self.own].clone_from(self.course.report(next, read_until, false));
        let mut limit = self.course.limit(reports);
        // A sleeping thread has read everything until now, if nothing waits for it.
        while limit.until <= next {
            let now = clock.now();
            let report = &mut self.snapshot.reports[limit.by];
            let stale = report.asleep && report.read_until < read_until;
            if limit.by == self.own || !stale || !self.board.is_quiet(limit.by) {
                break;
            }
            report.read_until = now;
            if !self.board.unchanged(&self.snapshot) {
                break;
            }
            limit = self.course.limit(&self.snapshot.reports);
        }
        self.limit = limit;
        limit.until
    }

    /// Sends what the partition has for the others, and tells them how far it is.
    pub fn tell(&mut self, partition: &mut Partition<Interface>, read_until: Instant) {
        for to in 0..self.senders.len() {
            let batch = partition.take_crossing(to);
            if let Some(earliest) = batch.iter().map(|crossing| crossing.at).min() {
                self.course.sent(to, batch.len(), earliest);
                self.just_sent[to] = Some(earliest);
                // Who has ended takes nothing.
                let _ = self.senders[to].send(batch);
            }
        }
        let report = self.course.report(next_of(partition), read_until, false);
        self.board.post(self.own, report);
        self.board.settle();
        for (to, sent) in self.just_sent.iter_mut().enumerate() {
            if let Some(arrival) = sent.take() {
                self.board.wake_for(to, arrival);
            }
        }
        self.board.wake_waiting(self.own, report.earliest());
    }

    /// How long the thread may sleep that would sleep for `patience`. If not at all it is zero; else
    /// the others know that it sleeps, until [`wake_up`](Self::wake_up).
    pub fn patience(
        &mut self,
        partition: &mut Partition<Interface>,
        read_until: Instant,
        clock: Clock,
        patience: Duration,
    ) -> Duration {
        let next = next_of(partition);
        let blocked = next < read_until && next >= self.limit(partition, read_until, clock);
        if !blocked && patience.is_zero() {
            return Duration::ZERO;
        }
        self.asleep = true;
        let report = self.course.report(next, read_until, true);
        self.board.post(self.own, report);
        self.board.fall_asleep(self.own, next);
        // Frames that were sent before anybody could see that it sleeps.
        if self.take(partition) {
            return Duration::ZERO;
        }
        if !blocked {
            return patience;
        }
        // It has something to do and may not: whoever holds it back wakes it.
        let Limit { by, distance, .. } = self.limit;
        if by == self.own {
            return Duration::ZERO;
        }
        let needed = next - distance + Duration::from_picos(1);
        self.board.want(self.own, by, needed);
        let still = self.limit(partition, read_until, clock) <= next && self.limit.by == by;
        match still {
            true => Duration::MAX,
            false => Duration::ZERO,
        }
    }

    /// To be called after a sleep, before anything is read from outside.
    pub fn wake_up(&mut self, partition: &Partition<Interface>, read_until: Instant) {
        if std::mem::take(&mut self.asleep) {
            let report = self.course.report(next_of(partition), read_until, false);
            self.board.post(self.own, report);
            self.board.wake_up(self.own);
        }
    }

    /// Frames that came too late for the time they were meant for.
    pub fn late(&self) -> u64 {
        self.late
    }
}

impl Drop for Exchange {
    /// However the thread ends, the others do not wait for it.
    fn drop(&mut self) {
        let report = self.course.report_end();
        self.board.post(self.own, report);
        self.board.settle();
        self.board.wake_waiting(self.own, report.earliest());
    }
}

fn next_of(partition: &Partition<Interface>) -> Instant {
    partition.next_event().unwrap_or(Instant::FAR_FUTURE)
}
