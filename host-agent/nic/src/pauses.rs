//! Classes that the neighbour has paused (IEEE 802.1Qbb, 36.2).

use std::collections::VecDeque;

use ebb_units::{BitRate, Duration, Instant};
use ebb_wire::PfcFrame;

use crate::PerClass;

/// Most frames per class that have been received and have no effect yet. If a neighbour sends more
/// within the response time, each further one replaces the effect of the last.
const MOST_PENDING: usize = 64;

/// The pauses of all classes.
#[derive(Clone, Debug)]
pub struct Pauses {
    /// From the reception of a frame until it has effect.
    response: Duration,
    classes: PerClass<Pause>,
    /// Whether there has been a frame.
    any: bool,
}

/// The pause of one class.
#[derive(Clone, Debug, Default)]
struct Pause {
    /// Time until which the class is stopped; one that has passed: it is not.
    until: Instant,
    /// Frames with no effect yet: the time of their effect, and the time until which they stop the class.
    pending: VecDeque<(Instant, Instant)>,
    /// Time for which it was stopped, counted up to `counted_to`.
    stopped: Duration,
    counted_to: Instant,
    received: u64,
}

impl Pauses {
    /// No class is stopped.
    pub fn new(response: Duration) -> Self {
        Pauses {
            response,
            classes: Default::default(),
            any: false,
        }
    }

    /// A PFC frame arrived on a link of this rate.
    pub fn handle_frame(&mut self, now: Instant, frame: &PfcFrame, rate: BitRate) {
        let quantum = rate.time_for(PfcFrame::QUANTUM_BITS / 8);
        for (class, quanta) in frame.quanta.into_iter().enumerate() {
            if let Some(quanta) = quanta {
                self.handle(now, class, quantum * u64::from(quanta));
            }
        }
    }

    /// A frame that names the class arrived. It stops the class for `time` from when it has effect,
    /// whatever frames before it said: with 0 the class resumes.
    pub fn handle(&mut self, now: Instant, class: usize, time: Duration) {
        self.any = true;
        let pause = &mut self.classes[class];
        pause.received += u64::from(!time.is_zero());
        let effect = now + self.response;
        let is_full = pause.pending.len() >= MOST_PENDING;
        match pause.pending.back_mut().filter(|_| is_full) {
            Some(last) => last.1 = effect + time,
            None => pause.pending.push_back((effect, effect + time)),
        }
    }

    /// The classes that may start to send at `now`, bit 0 for class 0.
    pub fn open(&mut self, now: Instant) -> u8 {
        if !self.any {
            return u8::MAX;
        }
        self.advance(now);
        let stopped = self.classes.iter().enumerate();
        stopped.fold(u8::MAX, |open, (class, pause)| {
            open & !(u8::from(pause.until > now) << class)
        })
    }

    /// When the first of the classes that are stopped at `now` may resume. None: none is stopped.
    pub fn next_change(&mut self, now: Instant) -> Option<Instant> {
        if !self.any {
            return None;
        }
        self.advance(now);
        let stopped = self.classes.iter().filter(|pause| pause.until > now);
        stopped
            .map(|pause| match pause.pending.front() {
                Some((effect, _)) => pause.until.min(*effect),
                None => pause.until,
            })
            .min()
    }

    /// Time for which each class was stopped until `now`.
    pub fn stopped_for(&mut self, now: Instant) -> PerClass<Duration> {
        self.advance(now);
        std::array::from_fn(|class| {
            let pause = &mut self.classes[class];
            pause.count(now);
            pause.stopped
        })
    }

    /// Number of frames that stopped each class, refreshes included.
    pub fn received(&self) -> PerClass<u64> {
        std::array::from_fn(|class| self.classes[class].received)
    }

    /// Applies the frames that have taken effect by `now`.
    fn advance(&mut self, now: Instant) {
        for pause in &mut self.classes {
            while let Some((effect, until)) = pause.pending.front().copied()
                && effect <= now
            {
                pause.pending.pop_front();
                pause.count(effect);
                pause.until = until;
            }
        }
    }
}

impl Pause {
    /// Counts how long the class was stopped from the last count until `to`.
    fn count(&mut self, to: Instant) {
        self.stopped += self.until.min(to).since(self.counted_to);
        self.counted_to = self.counted_to.max(to);
    }
}
