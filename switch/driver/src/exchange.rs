//! Exchange of one thread with the others of a driver: frames both ways, and how far each
//! may run.
//!
//! Frames cross in batches over one queue per pair of threads. The queues are unbounded, so that
//! nobody waits for room, and lock-free (`std::sync::mpsc` locks only to wake a receiver that
//! blocks, and none does here). The limit bounds them: a thread that takes no frames holds back the
//! others.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use ebb_units::{Duration, Instant};

use crate::board::{ProgressBoard, Snapshot};
use crate::clock::Clock;
use crate::interface::Interface;
use crate::progress::{Course, Limit};
use ebb_engine::drive::{Crossing, Partition};

type Batch = Vec<Crossing>;

/// The end of one thread.
pub(crate) struct Exchange {
    /// Number of the thread.
    own: usize,
    /// Where all threads post their reports.
    board: Arc<ProgressBoard>,
    /// Memory for reading the board.
    snapshot: Snapshot,
    /// Frames that the thread has sent and taken, from which its limit follows.
    course: Course,
    /// The last limit that was computed. It stays valid, because limits only grow.
    limit: Limit,
    /// A queue to each thread; the one to itself is not used.
    senders: Vec<Sender<Batch>>,
    /// A queue from each thread; the one from itself is not used.
    receivers: Vec<Receiver<Batch>>,
    /// For each thread, the earliest arrival of what was sent to it since the last report; `None`
    /// if nothing was sent.
    just_sent: Vec<Option<Instant>>,
    /// Whether the others know that the thread sleeps.
    asleep: bool,
    /// Frames that came after their time of arrival.
    late: u64,
}

/// The ends of all threads of the board.
pub(crate) fn exchanges(board: &Arc<ProgressBoard>) -> Vec<Exchange> {
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
    /// Takes the delays of the links to other partitions. To be called whenever the delays of links
    /// have been measured.
    pub fn set_lookahead(&mut self, partition: &Partition<Interface>) {
        self.course.set_lookahead(partition.lookahead());
    }

    /// Takes the frames that the others have sent; true if there were any.
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

    /// Time before which the partition may run, if it has read its sockets up to `read_until`.
    pub fn limit(
        &mut self,
        partition: &Partition<Interface>,
        read_until: Instant,
        clock: Clock,
    ) -> Instant {
        let next = next_of(partition);
        // Either there is nothing to do, or the known limit allows it.
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
        // A sleeping thread has read everything until now, provided that nothing waits for it.
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

    /// Sends the frames that the partition has for others, then posts its progress and wakes the
    /// threads that wait for it.
    pub fn post(&mut self, partition: &mut Partition<Interface>, read_until: Instant) {
        for to in 0..self.senders.len() {
            let batch = partition.take_crossing(to);
            if let Some(earliest) = batch.iter().map(|crossing| crossing.at).min() {
                self.course.sent(to, batch.len(), earliest);
                self.just_sent[to] = Some(earliest);
                // A thread that has ended takes no frames.
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

    /// How long the thread may sleep; `patience` is how long it would. Unless the result is zero,
    /// the others know that it sleeps until it calls [`wake_up`](Self::wake_up).
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
        // This takes frames that were sent before anybody could see that the thread sleeps.
        if self.take(partition) {
            return Duration::ZERO;
        }
        if !blocked {
            return patience;
        }
        // There is work beyond the limit: the thread that holds this one back wakes it.
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

    /// Tells the others that the sleep has ended. To be called before anything is read from
    /// outside.
    pub fn wake_up(&mut self, partition: &Partition<Interface>, read_until: Instant) {
        if std::mem::take(&mut self.asleep) {
            let report = self.course.report(next_of(partition), read_until, false);
            self.board.post(self.own, report);
            self.board.wake_up(self.own);
        }
    }

    /// How many frames came when their time of arrival had already passed.
    pub fn late(&self) -> u64 {
        self.late
    }
}

impl Drop for Exchange {
    /// However the thread ends, the others must not wait for it.
    fn drop(&mut self) {
        let report = self.course.report_end();
        self.board.post(self.own, report);
        self.board.settle();
        self.board.wake_waiting(self.own, report.earliest());
    }
}

/// When the partition has its next event; the far future if it has none.
fn next_of(partition: &Partition<Interface>) -> Instant {
    partition.next_event().unwrap_or(Instant::FAR_FUTURE)
}
