//! The pauses of one link under priority-based flow control (IEEE 802.1Qbb): the classes that the
//! switch has asked its neighbour to stop, and those that the neighbour has asked the switch to
//! stop.
//!
//! A pause lasts for as many quanta as its frame says, unless it is renewed or taken back before.
//! One that lasts for longer than the watchdog allows, whether renewed or not, is a *storm*: the
//! neighbour, or whoever pauses the neighbour, sends nothing on for good.

use ebb_units::{Duration, Instant};
use ebb_wire::PfcFrame;

/// A set of classes: bit i is class i.
pub(super) type Classes = u8;

/// The quanta of a pause that is to last until it is taken back.
const LONGEST: u16 = u16::MAX;

/// The classes of a set, lowest first.
pub(super) fn classes_in(set: Classes) -> impl Iterator<Item = u8> {
    (0..PfcFrame::CLASSES as u8).filter(move |class| set >> class & 1 == 1)
}

/// When a pause is a storm, and what is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watch {
    /// How long a class may be paused without interruption.
    pub storm: Duration,
    /// Time without a pause after which a port that had a storm is obeyed again; `None`:
    /// it is obeyed always.
    pub quiet: Option<Duration>,
}

/// A pause that the switch obeys.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Since when the class has been paused without interruption.
    since: Instant,
    /// When the pause ends unless it is renewed; `None`: not by itself.
    until: Option<Instant>,
    /// Whether it has been found to be a storm.
    storm: bool,
}

/// The pauses of one link.
#[derive(Debug, Default)]
pub(super) struct LinkPauses {
    /// Classes that the neighbour was asked to stop.
    asked: Classes,
    /// When they are asked for again; `None` if nothing is.
    refresh_at: Option<Instant>,
    /// The pauses that are obeyed, by class.
    held: [Option<Held>; PfcFrame::CLASSES],
    /// When the earliest review is due that was asked for; `None` if none is.
    review_at: Option<Instant>,
    /// When the last pause came that was ignored; `None` if pauses are obeyed.
    ignored_at: Option<Instant>,
}

/// Queues to pause and to resume after a change of the pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Classes that stop.
    pub stop: Classes,
    /// Classes that resume.
    pub go: Classes,
    /// Whether the port was ignored until now and is obeyed again.
    pub calmed: bool,
}

/// Findings of a review of the pauses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Review {
    /// Classes whose pause has expired; they resume.
    pub expired: Classes,
    /// New storms: the class, and for how long it has been paused.
    pub storms: Vec<(u8, Duration)>,
    /// Classes that resume because the port is ignored from now on.
    pub ignored: Classes,
}

impl LinkPauses {
    /// The frame that asks the neighbour to stop the classes of `paused`, and that says so of those
    /// in `changed`.
    pub(super) fn ask(&mut self, changed: Classes, paused: Classes) -> PfcFrame {
        self.asked = self.asked & !changed | paused & changed;
        let quanta = |class| {
            let named = changed >> class & 1 == 1;
            let stops = paused >> class & 1 == 1;
            named.then_some(if stops { LONGEST } else { 0 })
        };
        PfcFrame {
            quanta: std::array::from_fn(quanta),
        }
    }

    /// The frame that repeats all pauses that were asked for; `None` if it is not due, or nothing is
    /// paused.
    pub(super) fn refresh(&mut self, now: Instant) -> Option<PfcFrame> {
        self.refresh_at.filter(|at| *at <= now)?;
        self.refresh_at = None;
        let asked = Some(self.asked).filter(|asked| *asked != 0)?;
        Some(PfcFrame::of_classes(asked, LONGEST))
    }

    /// When the pauses that were asked for must be repeated, if that was not known yet: after half
    /// of their time. `bits` is the time of a number of bits on the link.
    pub(super) fn next_refresh(
        &mut self,
        now: Instant,
        bits: impl Fn(u64) -> Option<Duration>,
    ) -> Option<Instant> {
        if self.asked == 0 {
            self.refresh_at = None;
        }
        if self.asked == 0 || self.refresh_at.is_some() {
            return None;
        }
        let half = bits(u64::from(LONGEST) * PfcFrame::QUANTUM_BITS / 2)?;
        self.refresh_at = Some(now + half);
        self.refresh_at
    }

    /// Obeys a frame for those of `classes` that it names.
    pub(super) fn obey(
        &mut self,
        now: Instant,
        frame: &PfcFrame,
        classes: Classes,
        watch: Option<Watch>,
        bits: impl Fn(u64) -> Option<Duration>,
    ) -> Change {
        let mut change = Change::default();
        if let Some(last) = self.ignored_at {
            let quiet = watch.and_then(|watch| watch.quiet);
            if quiet.is_some_and(|quiet| now.since(last) < quiet) {
                if frame.quanta.iter().flatten().any(|quanta| *quanta > 0) {
                    self.ignored_at = Some(now);
                }
                return change;
            }
            self.ignored_at = None;
            change.calmed = true;
        }
        for class in classes_in(classes) {
            match frame.quanta[usize::from(class)] {
                Some(0) => change.go |= self.end(class),
                Some(quanta) => {
                    let lasts = bits(u64::from(quanta) * PfcFrame::QUANTUM_BITS);
                    change.stop |= self.hold(now, class, lasts.map(|lasts| now + lasts));
                }
                None => {}
            }
        }
        change
    }

    /// Begins or renews a pause. Returns the class if it is not paused yet.
    fn hold(&mut self, now: Instant, class: u8, until: Option<Instant>) -> Classes {
        let held = &mut self.held[usize::from(class)];
        let new = held.is_none();
        held.get_or_insert(Held {
            since: now,
            until,
            storm: false,
        })
        .until = until;
        Classes::from(new) << class
    }

    /// Ends a pause. Returns the class if it was paused.
    fn end(&mut self, class: u8) -> Classes {
        let held = self.held[usize::from(class)].take();
        Classes::from(held.is_some()) << class
    }

    /// Ends all pauses of classes that are not in `classes`, because they no longer take part.
    /// Returns those that resume.
    pub(super) fn end_others(&mut self, classes: Classes) -> Classes {
        classes_in(!classes).fold(0, |go, class| go | self.end(class))
    }

    /// Ends pauses that have expired, and looks for storms.
    pub(super) fn review(&mut self, now: Instant, watch: Option<Watch>) -> Review {
        self.review_at = self.review_at.filter(|at| *at > now);
        let mut review = Review::default();
        for class in classes_in(Classes::MAX) {
            let Some(held) = &mut self.held[usize::from(class)] else {
                continue;
            };
            if held.until.is_some_and(|until| until <= now) {
                review.expired |= self.end(class);
                continue;
            }
            let lasted = now.since(held.since);
            if !held.storm && watch.is_some_and(|watch| lasted >= watch.storm) {
                held.storm = true;
                review.storms.push((class, lasted));
            }
        }
        if !review.storms.is_empty() && watch.is_some_and(|watch| watch.quiet.is_some()) {
            self.ignored_at = Some(now);
            review.ignored = self.end_others(0);
        }
        review
    }

    /// When the next review is due, if that is earlier than was known.
    pub(super) fn next_review(&mut self, watch: Option<Watch>) -> Option<Instant> {
        let due = |held: &Held| {
            let storm = watch.filter(|_| !held.storm);
            let storm = storm.map(|watch| held.since + watch.storm);
            held.until.into_iter().chain(storm).min()
        };
        let next = self.held.iter().flatten().filter_map(due).min()?;
        if self.review_at.is_some_and(|at| at <= next) {
            return None;
        }
        self.review_at = Some(next);
        self.review_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At 1 Gbit/s.
    fn bits(bits: u64) -> Option<Duration> {
        Some(Duration::from_nanos(bits))
    }

    fn ns(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    const WATCH: Watch = Watch {
        storm: Duration::from_micros(100),
        quiet: None,
    };
    const ALL: Classes = Classes::MAX;

    fn pause(classes: Classes, quanta: u16) -> PfcFrame {
        PfcFrame::of_classes(classes, quanta)
    }

    #[test]
    fn a_pause_lasts_for_its_quanta_unless_renewed_or_taken_back() {
        let mut link = LinkPauses::default();
        let change = link.obey(ns(0), &pause(0b110, 10), ALL, None, bits);
        assert_eq!((change.stop, change.go), (0b110, 0));
        assert_eq!(link.next_review(None), Some(ns(5120)));
        assert_eq!(link.next_review(None), None, "it is known");
        // Class 1 is renewed, class 2 is taken back, and class 0 was not paused.
        let change = link.obey(ns(100), &pause(0b010, 10), ALL, None, bits);
        assert_eq!(change, Change::default());
        let change = link.obey(ns(200), &pause(0b101, 0), ALL, None, bits);
        assert_eq!((change.stop, change.go), (0, 0b100));
        assert_eq!(link.review(ns(5120), None), Review::default());
        assert_eq!(link.next_review(None), Some(ns(5220)));
        let review = link.review(ns(5220), None);
        assert_eq!(review.expired, 0b010);
        assert_eq!(link.next_review(None), None);
    }

    #[test]
    fn classes_that_take_no_part_are_not_paused() {
        let mut link = LinkPauses::default();
        let change = link.obey(ns(0), &pause(0b11, 9), 0b10, None, bits);
        assert_eq!(change.stop, 0b10);
        assert_eq!(link.end_others(0), 0b10);
    }

    #[test]
    fn a_link_without_a_rate_is_paused_until_that_is_taken_back() {
        let mut link = LinkPauses::default();
        let change = link.obey(ns(0), &pause(1, 1), ALL, None, |_| None);
        assert_eq!(change.stop, 1);
        assert_eq!(link.next_review(None), None);
        assert_eq!(link.ask(1, 1), pause(1, LONGEST));
        assert_eq!(link.next_refresh(ns(0), |_| None), None);
    }

    #[test]
    fn pauses_asked_for_are_repeated_after_half_of_their_time() {
        let mut link = LinkPauses::default();
        assert_eq!(link.next_refresh(ns(0), bits), None);
        assert_eq!(link.ask(0b101, 0b101), pause(0b101, 0xffff));
        let half = 65_535 * 512 / 2;
        assert_eq!(link.next_refresh(ns(3), bits), Some(ns(3 + half)));
        // Class 0 resumes, class 1 stops: only they are named.
        let mut mixed = pause(0b10, 0xffff);
        mixed.quanta[0] = Some(0);
        assert_eq!(link.ask(0b11, 0b110), mixed);
        assert_eq!(link.next_refresh(ns(9), bits), None, "it is known");
        assert_eq!(link.refresh(ns(2 + half)), None);
        assert_eq!(link.refresh(ns(3 + half)), Some(pause(0b110, 0xffff)));
        assert_eq!(
            link.next_refresh(ns(3 + half), bits),
            Some(ns(3 + 2 * half))
        );
        link.ask(0b110, 0);
        assert_eq!(link.next_refresh(ns(4 + half), bits), None);
        assert_eq!(link.refresh(ns(3 + 2 * half)), None);
    }

    #[test]
    fn a_pause_that_is_renewed_for_too_long_is_a_storm_once() {
        let mut link = LinkPauses::default();
        let watch = Some(WATCH);
        for at in (0..=90_000).step_by(30_000) {
            link.obey(ns(at), &pause(0b1000, 100), ALL, watch, bits);
        }
        assert_eq!(link.next_review(watch), Some(ns(100_000)));
        let review = link.review(ns(100_000), watch);
        assert_eq!(review.storms, [(3, WATCH.storm)]);
        assert_eq!((review.expired, review.ignored), (0, 0));
        assert_eq!(link.next_review(watch), Some(ns(90_000 + 51_200)));
        link.obey(ns(120_000), &pause(0b1000, 100), ALL, watch, bits);
        assert_eq!(link.review(ns(141_200), watch), Review::default());
        // A new pause may be a new storm.
        link.obey(ns(160_000), &pause(0b1000, 0), ALL, watch, bits);
        link.obey(ns(170_000), &pause(0b1000, 1000), ALL, watch, bits);
        assert_eq!(link.review(ns(270_000), watch).storms.len(), 1);
    }

    #[test]
    fn after_a_storm_a_port_may_be_ignored_until_it_is_quiet() {
        let mut link = LinkPauses::default();
        let quiet = Some(Duration::from_micros(10));
        let watch = Some(Watch { quiet, ..WATCH });
        link.obey(ns(0), &pause(0b11, 1000), ALL, watch, bits);
        let review = link.review(ns(100_000), watch);
        assert_eq!((review.storms.len(), review.ignored), (2, 0b11));
        for at in [105_000, 114_999, 124_998] {
            let change = link.obey(ns(at), &pause(0b11, 1000), ALL, watch, bits);
            assert_eq!(change, Change::default(), "at {at}");
        }
        let change = link.obey(ns(134_998), &pause(0b11, 1000), ALL, watch, bits);
        assert_eq!((change.stop, change.calmed), (0b11, true));
    }
}
