//! Requests for symbols that a receiver waits for. Each has a label of its own, which comes back with
//! the symbol: so every symbol measures a round trip, whatever was lost or overtaken.

use std::collections::VecDeque;

use ebb_units::{Duration, Instant};

use crate::rtt::RttEstimator;
use crate::splitmix::splitmix64;

/// Expired requests that are remembered, to know their symbols when they come after all.
const MAX_EXPIRED: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Request {
    label: u32,
    block: u32,
    sent_at: Instant,
}

#[derive(Debug)]
pub struct Requests {
    seed: u64,
    /// Labels made so far.
    made: u64,
    /// Oldest first.
    pending: VecDeque<Request>,
    /// Oldest first.
    expired: VecDeque<Request>,
    rtt: RttEstimator,
    /// Whether all requests have expired since the last answer.
    is_silent: bool,
}

/// Information that the label of a symbol carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It was waited for, and took so long.
    InTime(Duration),
    /// Its request had expired.
    Late,
    /// Nobody asked for it, or it is a copy.
    Unasked,
}

impl Requests {
    /// `seed`: two sessions that are open at the same time have different ones. The timer starts at
    /// `initial` and stays between that and `longest`, but for the measured round trip.
    pub fn new(seed: u64, initial: Duration, longest: Duration) -> Self {
        Requests {
            seed,
            made: 0,
            pending: VecDeque::new(),
            expired: VecDeque::new(),
            rtt: RttEstimator::new(initial, initial, longest),
            is_silent: false,
        }
    }

    /// Notes a request that leaves, and returns its label, which is not 0.
    pub fn ask(&mut self, now: Instant, block: u32) -> u32 {
        let label = loop {
            let label = (splitmix64(self.seed, self.made) >> 32) as u32;
            self.made += 1;
            let mut all = self.pending.iter().chain(&self.expired);
            if label != 0 && all.all(|request| request.label != label) {
                break label;
            }
        };
        self.pending.push_back(Request {
            label,
            block,
            sent_at: now,
        });
        label
    }

    /// Notes the arrival of a symbol. One that is late raises the timer as its round trip is longer.
    pub fn answer(&mut self, now: Instant, label: u32) -> Answer {
        let take = |list: &mut VecDeque<Request>| {
            let at = list.iter().position(|request| request.label == label)?;
            list.remove(at).map(|request| now.since(request.sent_at))
        };
        if let Some(rtt) = take(&mut self.pending) {
            self.is_silent = false;
            self.rtt.sample(rtt);
            return Answer::InTime(rtt);
        }
        match take(&mut self.expired) {
            Some(rtt) => {
                self.is_silent = false;
                self.rtt.sample(rtt);
                Answer::Late
            }
            None => Answer::Unasked,
        }
    }

    /// Takes off the oldest request for `block` that is pending. False: there is none.
    pub fn answer_oldest(&mut self, block: u32) -> bool {
        let at = self
            .pending
            .iter()
            .position(|request| request.block == block);
        at.and_then(|at| self.pending.remove(at)).is_some()
    }

    /// Lets the requests expire that are due, and returns how many. Where all of them are, nothing
    /// comes any more, and the timer doubles until something does.
    pub fn expire(&mut self, now: Instant) -> u32 {
        let mut count = 0;
        while self.deadline().is_some_and(|at| at <= now) {
            self.expired.extend(self.pending.pop_front());
            count += 1;
        }
        while self.expired.len() > MAX_EXPIRED {
            self.expired.pop_front();
        }
        if count > 0 && self.pending.is_empty() {
            self.rtt.back_off();
            self.is_silent = true;
        }
        count
    }

    /// Whether all requests have expired since the last answer: those made since may be in vain.
    pub fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// When the oldest request expires.
    pub fn deadline(&self) -> Option<Instant> {
        self.pending
            .front()
            .map(|request| request.sent_at + self.rtt.rto())
    }

    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Symbols of a block that are waited for.
    pub fn pending_of(&self, block: u32) -> u32 {
        self.pending
            .iter()
            .filter(|request| request.block == block)
            .count() as u32
    }

    #[cfg(test)]
    pub fn timer(&self) -> Duration {
        self.rtt.rto()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_micros(us)
    }

    fn requests() -> Requests {
        Requests::new(7, Duration::from_micros(100), Duration::from_micros(10_000))
    }

    #[test]
    fn every_answer_measures_its_own_round_trip_in_any_order() {
        let mut requests = requests();
        let labels: Vec<u32> = (0..50).map(|n| requests.ask(at(n), 3)).collect();
        let mut unique = labels.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!((unique.len(), requests.pending_of(3)), (50, 50));
        for (n, label) in labels.iter().enumerate().rev() {
            let rtt = Duration::from_micros(90 - n as u64);
            assert_eq!(requests.answer(at(90), *label), Answer::InTime(rtt));
        }
        assert_eq!(requests.answer(at(91), labels[0]), Answer::Unasked);
        assert_eq!(requests.pending(), 0);
    }

    #[test]
    fn a_symbol_after_expiry_is_known_and_raises_the_timer() {
        let mut requests = requests();
        for _ in 0..20 {
            let label = requests.ask(at(0), 0);
            requests.answer(at(50), label);
        }
        let label = requests.ask(at(0), 0);
        assert_eq!(requests.expire(at(99)), 0);
        assert_eq!(requests.expire(at(100)), 1);
        assert_eq!(requests.pending(), 0);
        let before = Duration::from_micros(100);
        assert_eq!(requests.answer(at(400), label), Answer::Late);
        assert!(requests.timer() > before, "{}", requests.timer());
        assert_eq!(requests.answer(at(401), label), Answer::Unasked, "a copy");
    }

    #[test]
    fn silence_doubles_the_timer_and_an_answer_undoes_that() {
        let mut requests = requests();
        let mut now = at(0);
        for doubled in [100, 200, 400, 800] {
            let label = requests.ask(now, 0);
            assert_eq!(
                requests.deadline(),
                Some(now + Duration::from_micros(doubled))
            );
            now = requests.deadline().unwrap();
            assert_eq!(requests.expire(now), 1);
            assert!(label != 0);
        }
        let label = requests.ask(now, 0);
        requests.answer(now + Duration::from_micros(10), label);
        assert_eq!(requests.timer(), Duration::from_micros(100));
    }

    #[test]
    fn only_so_many_expired_requests_are_remembered() {
        let mut requests = requests();
        for n in 0..5000 {
            requests.ask(at(n), 0);
            requests.expire(at(n + 20_000));
        }
        assert!(requests.expired.len() <= MAX_EXPIRED);
    }
}
