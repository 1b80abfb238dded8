//! The board on which the threads post their progress. Reports are read without locks, all as of one
//! moment; beside them is the state for waking a thread that sleeps.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use ebb_packet_io::{PollFd, wait};
use ebb_units::{Duration, Instant};

use crate::progress::{Report, Toward};
use crate::wake::Waker;
use ebb_engine::drive::Wake;

/// Attempts to read all reports while none changes. If they fail, the limit known so far stays
/// valid.
const ATTEMPTS: usize = 8;
/// Value of [`Slot::wanted`] if the thread does not wait.
const NOBODY: u64 = u64::MAX;
/// Value of [`Slot::asleep_until`] while the thread is awake.
const AWAKE: u64 = 0;

/// One slot per thread.
pub(crate) struct ProgressBoard(Vec<Slot>);

/// The report of one thread, written only by that thread. Its version is odd while it writes: a
/// sequence lock whose readers give up instead of waiting. Slots share no cache line.
#[repr(align(128))]
struct Slot {
    /// Even while the report is whole; grows by two with every report.
    version: AtomicU64,
    /// [`Report::next`] in picoseconds.
    next: AtomicU64,
    /// [`Report::read_until`] in picoseconds.
    read_until: AtomicU64,
    /// [`Report::asleep`] in bit 0, [`Report::done`] in bit 1.
    flags: AtomicU64,
    /// [`Report::toward`]: lookahead, frames sent, earliest in flight, frames taken.
    toward: Vec<[AtomicU64; 4]>,
    /// Time in picoseconds until which the thread sleeps if nothing comes, or [`AWAKE`].
    asleep_until: AtomicU64,
    /// Time in picoseconds that each other thread waits for this one to reach, or [`NOBODY`].
    wanted: Vec<AtomicU64>,
    /// Wakes the thread.
    waker: Arc<Waker>,
    /// The thread's epoll: readable when a frame or command waits for the thread.
    epoll: Arc<OwnedFd>,
}

/// A copy of all reports, with the versions that show whether they still hold.
pub(crate) struct Snapshot {
    /// The reports, by thread.
    pub reports: Vec<Report>,
    versions: Vec<u64>,
}

impl ProgressBoard {
    /// A board for threads of which each has a waker and an epoll.
    pub fn new(threads: Vec<(Arc<Waker>, Arc<OwnedFd>)>) -> Self {
        let count = threads.len();
        let slots = threads.into_iter().map(|(waker, epoll)| Slot {
            version: AtomicU64::new(0),
            next: AtomicU64::new(0),
            read_until: AtomicU64::new(0),
            flags: AtomicU64::new(0),
            toward: (0..count).map(|_| Default::default()).collect(),
            asleep_until: AtomicU64::new(AWAKE),
            wanted: (0..count).map(|_| AtomicU64::new(NOBODY)).collect(),
            waker,
            epoll,
        });
        let board = Self(slots.collect());
        for own in 0..count {
            board.post(own, &Report::new(count));
        }
        board
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.0.len()
    }

    /// A snapshot to read into, of the right size.
    pub fn snapshot(&self) -> Snapshot {
        let count = self.0.len();
        Snapshot {
            reports: vec![Report::new(count); count],
            versions: vec![0; count],
        }
    }

    /// Publishes the report of thread `own`.
    pub fn post(&self, own: usize, report: &Report) {
        let slot = &self.0[own];
        let version = slot.version.load(Ordering::Relaxed);
        slot.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        let store = |cell: &AtomicU64, value| cell.store(value, Ordering::Relaxed);
        store(&slot.next, report.next.as_picos());
        store(&slot.read_until, report.read_until.as_picos());
        let flags = u64::from(report.asleep) | u64::from(report.done) << 1;
        store(&slot.flags, flags);
        for (cells, toward) in slot.toward.iter().zip(&report.toward) {
            store(&cells[0], toward.lookahead.as_picos());
            store(&cells[1], toward.sent);
            store(&cells[2], toward.in_flight.as_picos());
            store(&cells[3], toward.taken);
        }
        slot.version.store(version + 2, Ordering::Release);
    }

    /// Reads all reports as of one moment; false if they kept changing.
    pub fn read(&self, into: &mut Snapshot) -> bool {
        (0..ATTEMPTS).any(|_| {
            for (version, slot) in into.versions.iter_mut().zip(&self.0) {
                *version = slot.version.load(Ordering::Acquire);
            }
            for (report, slot) in into.reports.iter_mut().zip(&self.0) {
                slot.read(report);
            }
            self.unchanged(into)
        })
    }

    /// Whether the reports are still those of the snapshot.
    pub fn unchanged(&self, snapshot: &Snapshot) -> bool {
        fence(Ordering::SeqCst);
        let mut versions = snapshot.versions.iter().zip(&self.0);
        versions.all(|(version, slot)| {
            version.is_multiple_of(2) && slot.version.load(Ordering::Relaxed) == *version
        })
    }

    /// Announces that thread `own` is about to sleep until `until`, unless it is woken. The thread
    /// checks for frames and reports once more after this call: those that the check does not see wake it.
    pub fn fall_asleep(&self, own: usize, until: Instant) {
        let until = until.as_picos().max(AWAKE + 1);
        self.0[own].asleep_until.store(until, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Ends the announced sleep. Reports posted before this call are visible to the others before
    /// anything that the thread does after it.
    pub fn wake_up(&self, own: usize) {
        self.0[own].asleep_until.store(AWAKE, Ordering::SeqCst);
        for slot in &self.0 {
            slot.wanted[own].store(NOBODY, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }

    /// Makes posted reports and sent frames visible before sleeping threads are looked for. To be called
    /// between the two.
    pub fn settle(&self) {
        fence(Ordering::SeqCst);
    }

    /// Wakes a thread that would sleep beyond the arrival of a frame that was sent to it.
    pub fn wake_for(&self, to: usize, arrival: Instant) {
        let slot = &self.0[to];
        let until = slot.asleep_until.load(Ordering::SeqCst);
        if until != AWAKE && arrival.as_picos() < until {
            slot.waker.wake();
        }
    }

    /// Registers that thread `own` waits until thread `of` has reached `instant`.
    pub fn want(&self, own: usize, of: usize, instant: Instant) {
        self.0[of].wanted[own].store(instant.as_picos(), Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Wakes the threads that waited for thread `own` to get as far as `earliest`.
    pub fn wake_waiting(&self, own: usize, earliest: Instant) {
        for (waiting, wanted) in self.0[own].wanted.iter().enumerate() {
            let instant = wanted.load(Ordering::SeqCst);
            if instant != NOBODY && instant <= earliest.as_picos() {
                wanted.store(NOBODY, Ordering::Relaxed);
                self.0[waiting].waker.wake();
            }
        }
    }

    /// Whether neither frames from outside nor commands wait for a thread.
    pub fn is_quiet(&self, of: usize) -> bool {
        let mut polled = [PollFd::readable(self.0[of].epoll.as_fd())];
        wait(&mut polled, Some(std::time::Duration::ZERO)).is_ok() && !polled[0].is_readable()
    }
}

impl Slot {
    fn read(&self, into: &mut Report) {
        let load = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        into.next = Instant::from_picos(load(&self.next));
        into.read_until = Instant::from_picos(load(&self.read_until));
        let flags = load(&self.flags);
        into.asleep = flags & 1 != 0;
        into.done = flags & 2 != 0;
        for (toward, cells) in into.toward.iter_mut().zip(&self.toward) {
            *toward = Toward {
                lookahead: Duration::from_picos(load(&cells[0])),
                sent: load(&cells[1]),
                in_flight: Instant::from_picos(load(&cells[2])),
                taken: load(&cells[3]),
            };
        }
    }
}
