//! Where the threads tell each other how far they are: reports that are read without a lock, all as
//! of one moment, and what it takes to wake a thread that sleeps.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use ebb_packet_io::{PollFd, wait};
use ebb_units::{Duration, Instant};

use crate::progress::{Report, Toward};
use crate::wake::Waker;
use ebb_engine::drive::Wake;

/// Attempts to read all reports while none changes. A failed one is no harm: an old limit holds.
const ATTEMPTS: usize = 8;
/// Nobody waits.
const NOBODY: u64 = u64::MAX;
const AWAKE: u64 = 0;

pub(crate) struct Board(Vec<Slot>);

/// A thread's report: written by it alone, under a version that is odd while it writes (a sequence
/// lock, but its readers give up instead of waiting). Slots share no cache line.
#[repr(align(128))]
struct Slot {
    version: AtomicU64,
    next: AtomicU64,
    read_until: AtomicU64,
    /// Bit 0: asleep; bit 1: done.
    flags: AtomicU64,
    toward: Vec<[AtomicU64; 4]>,
    /// While it sleeps: until when, if nothing comes.
    asleep_until: AtomicU64,
    /// For each thread that waits for this one: how far it must be.
    wanted: Vec<AtomicU64>,
    waker: Arc<Waker>,
    /// Readable when anything waits for the thread outside.
    epoll: Arc<OwnedFd>,
}

/// The reports, and what shows whether they are still the same.
pub(crate) struct Snapshot {
    pub reports: Vec<Report>,
    versions: Vec<u64>,
}

impl Board {
    /// With what wakes each thread, and its epoll.
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

    pub fn threads(&self) -> usize {
        self.0.len()
    }

    pub fn snapshot(&self) -> Snapshot {
        let count = self.0.len();
        Snapshot {
            reports: vec![Report::new(count); count],
            versions: vec![0; count],
        }
    }

    /// Tells the others.
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

    /// Reads all reports as of one moment. False if they kept changing.
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

    /// The thread is about to sleep, until `until` if nothing comes. What it looks at after this it
    /// does not miss.
    pub fn fall_asleep(&self, own: usize, until: Instant) {
        let until = until.as_picos().max(AWAKE + 1);
        self.0[own].asleep_until.store(until, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// What the thread told before this, the others know before they can see what it does after.
    pub fn wake_up(&self, own: usize) {
        self.0[own].asleep_until.store(AWAKE, Ordering::SeqCst);
        for slot in &self.0 {
            slot.wanted[own].store(NOBODY, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }

    /// To be called after something was told, or sent.
    pub fn settle(&self) {
        fence(Ordering::SeqCst);
    }

    /// Wakes a thread if it would sleep beyond the arrival of what was sent to it.
    pub fn wake_for(&self, to: usize, arrival: Instant) {
        let slot = &self.0[to];
        let until = slot.asleep_until.load(Ordering::SeqCst);
        if until != AWAKE && arrival.as_picos() < until {
            slot.waker.wake();
        }
    }

    /// The thread waits until another one is at `instant` or later.
    pub fn want(&self, own: usize, of: usize, instant: Instant) {
        self.0[of].wanted[own].store(instant.as_picos(), Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Wakes those who waited for the thread to get as far as it is.
    pub fn wake_waiting(&self, own: usize, earliest: Instant) {
        for (waiting, wanted) in self.0[own].wanted.iter().enumerate() {
            let instant = wanted.load(Ordering::SeqCst);
            if instant != NOBODY && instant <= earliest.as_picos() {
                wanted.store(NOBODY, Ordering::Relaxed);
                self.0[waiting].waker.wake();
            }
        }
    }

    /// Whether nothing waits for a thread outside.
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
