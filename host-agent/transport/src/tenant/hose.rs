//! The hose model between the VMs of a tenant: whatever the senders, a VM receives no more than
//! its B. The thesis leaves the messages open (section 5.4.3: "like EyeQ"); these are ours.
//!
//! A sender that wants to send says so every period. The receiver divides its B among those that
//! did, and grants each a rate for as long as a lease. A grant grows only from what no lease that
//! still runs holds, so that at no time the rates of all senders together exceed B, even if
//! messages are lost: a sender without a lease has its burst, and no rate.

use std::collections::BTreeMap;

use ebb_units::{BitRate, Duration, Instant};

/// The rate at which one sender may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant<K> {
    /// The sender.
    pub sender: K,
    /// Its rate towards the VM that grants it.
    pub rate: BitRate,
    /// How long it holds from its arrival.
    pub lease: Duration,
}

/// A sender as its receiver knows it.
#[derive(Debug)]
struct Sender {
    /// It wants to send until then, unless it says so again.
    wants_until: Instant,
    /// Rates that it may still use, and until when.
    leases: Vec<(BitRate, Instant)>,
}

impl Sender {
    /// The highest rate that it may still use.
    fn holds(&self) -> u64 {
        self.leases
            .iter()
            .map(|(rate, _)| rate.as_bps())
            .max()
            .unwrap_or(0)
    }
}

/// The receiving side of one VM.
#[derive(Debug)]
pub struct HoseReceiver<K> {
    rate: BitRate,
    period: Duration,
    /// Longest time that a message takes.
    delay: Duration,
    senders: BTreeMap<K, Sender>,
    next_round: Instant,
}

impl<K: Copy + Ord> HoseReceiver<K> {
    /// `rate`: B of the VM. Grants are renewed every `period` and hold for two. `delay`: the bound
    /// of a message's time in the network.
    pub fn new(rate: BitRate, period: Duration, delay: Duration) -> Self {
        HoseReceiver {
            rate,
            period,
            delay,
            senders: BTreeMap::new(),
            next_round: Instant::ZERO,
        }
    }

    /// `sender` wants to send.
    pub fn handle_demand(&mut self, now: Instant, sender: K) {
        let until = now + self.period * 2 + self.delay;
        let new = || Sender {
            wants_until: until,
            leases: Vec::new(),
        };
        self.senders.entry(sender).or_insert_with(new).wants_until = until;
    }

    /// When [`Self::poll_grants`] has something to say. None: no sender wants to send.
    pub fn next_deadline(&self) -> Option<Instant> {
        (!self.senders.is_empty()).then_some(self.next_round)
    }

    /// The grants of a round, if one is due.
    pub fn poll_grants(&mut self, now: Instant) -> Vec<Grant<K>> {
        if now < self.next_round {
            return Vec::new();
        }
        self.next_round = now + self.period;
        self.forget(now);
        let wanting = |s: &Sender| s.wants_until > now;
        let share = match self.senders.values().filter(|s| wanting(s)).count() {
            0 => return Vec::new(),
            active => self.rate.as_bps() / active as u64,
        };
        let mut held: u64 = self.senders.values().map(Sender::holds).sum();
        let lease = self.period * 2;
        let ends = now + lease + self.delay;
        let mut grants = Vec::new();
        for (key, sender) in self.senders.iter_mut().filter(|(_, s)| wanting(s)) {
            let others = held - sender.holds();
            let rate = BitRate::from_bps(share.min(self.rate.as_bps() - others));
            if rate.is_zero() {
                continue;
            }
            sender.leases.push((rate, ends));
            held = others + sender.holds();
            grants.push(Grant {
                sender: *key,
                rate,
                lease,
            });
        }
        grants
    }

    /// Drops leases that have run out, and senders that neither want nor hold anything.
    fn forget(&mut self, now: Instant) {
        for sender in self.senders.values_mut() {
            sender.leases.retain(|(_, until)| *until > now);
        }
        self.senders
            .retain(|_, sender| sender.wants_until > now || !sender.leases.is_empty());
    }
}

/// The sending side of one VM: the rates that its receivers have granted.
#[derive(Debug, Default)]
pub struct HoseSender<K> {
    granted: BTreeMap<K, (BitRate, Instant)>,
}

impl<K: Copy + Ord> HoseSender<K> {
    /// A sender without grants.
    pub fn new() -> Self {
        HoseSender {
            granted: BTreeMap::new(),
        }
    }

    /// `receiver` grants `rate` for `lease`.
    pub fn handle_grant(&mut self, now: Instant, receiver: K, rate: BitRate, lease: Duration) {
        self.granted.insert(receiver, (rate, now + lease));
    }

    /// The rate to `receiver`; zero without a lease.
    pub fn rate(&self, now: Instant, receiver: K) -> BitRate {
        match self.granted.get(&receiver) {
            Some((rate, until)) if *until > now => *rate,
            _ => BitRate::from_bps(0),
        }
    }

    /// When the next lease ends. None: there is none.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.granted.values().map(|(_, until)| *until).min()
    }

    /// A receiver whose lease has ended: its rate is zero from now on.
    pub fn poll_ended(&mut self, now: Instant) -> Option<K> {
        let ended = self.granted.iter().find(|(_, (_, until))| *until <= now);
        let receiver = *ended?.0;
        self.granted.remove(&receiver);
        Some(receiver)
    }
}

#[cfg(test)]
#[path = "hose_tests.rs"]
mod tests;
