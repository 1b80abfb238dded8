//! Links: the port at the other end of each, its delay, and its faults.

use ebb_units::{BitRate, Duration, Instant};
use thiserror::Error;

use super::calendar::{Calendar, Crossing};
use super::event::Event;
use super::trace::mix;
use super::{Address, NodePort};
use crate::drops::DropReason;

/// The state of one direction of a link. The default delivers all frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkState {
    /// Whether the link is up. If it is down every frame is lost, though the sender keeps sending.
    pub up: bool,
    /// Probability that a frame is lost, 0 to 1.
    pub loss: f64,
    /// Probability that one bit of a frame is flipped, unseen by the frame check sequence, 0 to 1.
    pub corrupt: f64,
    /// Rate of the link in bits per second where it is slower than the sender's port; `None`: it is
    /// not. A switch port sends at this rate; the frames of a host wait where its link begins.
    pub rate_bps: Option<u64>,
}

impl Default for LinkState {
    fn default() -> Self {
        Self {
            up: true,
            loss: 0.0,
            corrupt: 0.0,
            rate_bps: None,
        }
    }
}

/// Reason why a link cannot have a state.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
pub enum LinkStateError {
    /// A probability lies outside 0 to 1.
    #[error("`{name}` is {value}; it is a probability, from 0 to 1")]
    NoProbability { name: &'static str, value: f64 },
    /// The rate is 0.
    #[error("`rate_bps` is 0; a link that carries nothing is down (`up = false`)")]
    NoRate,
}

impl LinkState {
    /// Checks that probabilities and rate make sense.
    pub fn validate(&self) -> Result<(), LinkStateError> {
        for (name, value) in [("loss", self.loss), ("corrupt", self.corrupt)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(LinkStateError::NoProbability { name, value });
            }
        }
        match self.rate_bps {
            Some(0) => Err(LinkStateError::NoRate),
            _ => Ok(()),
        }
    }

    /// The rate of the link; `None` if it is as fast as the sender.
    pub fn rate(&self) -> Option<BitRate> {
        self.rate_bps.map(BitRate::from_bps)
    }
}

/// One direction of a link, and its state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkInfo {
    /// The port that sends.
    pub from: NodePort,
    /// The port that receives.
    pub to: NodePort,
    /// Faults and limits of the link.
    pub state: LinkState,
}

/// One direction of a link, kept by its sender.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// The port at the other end.
    pub peer: NodePort,
    /// Partition and index of the node at the other end.
    pub to: Address,
    /// Delay beyond the time at which the sender says that a frame arrives.
    pub delay: Duration,
    /// Frames sent so far, including lost ones.
    sent: u64,
    /// Faults and limits of the link; `None` while its state is the default.
    faults: Option<Box<Faults>>,
}

/// The kind of node that sends, which decides who counts the faults of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// A switch, which counts itself.
    Switch,
    /// A host, which counts nothing: the switch at the other end does.
    Host,
}

impl Link {
    /// A link in the default state.
    pub fn new(peer: NodePort, to: Address) -> Self {
        Self {
            peer,
            to,
            delay: Duration::ZERO,
            sent: 0,
            faults: None,
        }
    }

    /// The state of the link.
    pub fn state(&self) -> LinkState {
        let faults = self.faults.as_ref();
        faults.map_or(LinkState::default(), |faults| faults.state)
    }

    /// Sets the state. `key` differs from link to link and decides which frames are hit; `paced`
    /// says that the sender itself keeps to the rate.
    pub fn set_state(&mut self, state: LinkState, key: u64, paced: bool) {
        let free_at = self.faults.as_ref().map_or(Instant::ZERO, |f| f.free_at);
        let faulty = state != LinkState::default();
        self.faults = faulty.then(|| {
            Box::new(Faults {
                state,
                key,
                paced,
                free_at,
            })
        });
    }

    /// Carries a frame that leaves the sender at this time, or arrives then if the sender has added
    /// the delay. `calendar` gets the events at the other end. Returns the fault that hit the frame,
    /// if the sender has to count it.
    #[inline(always)]
    pub fn send(
        &mut self,
        at: Instant,
        frame: Vec<u8>,
        sender: Sender,
        calendar: &mut Calendar,
    ) -> Option<DropReason> {
        self.sent += 1;
        if self.faults.is_some() {
            return self.send_faulty(at, frame, sender, calendar);
        }
        let port = self.peer.port;
        calendar.deliver(self.crossing(at, Event::Receive { port, frame }));
        None
    }

    /// An event at the other end that is caused by a frame which leaves the sender at this time.
    #[inline]
    fn crossing(&self, at: Instant, event: Event) -> Crossing {
        Crossing {
            to: self.to,
            at: at + self.delay,
            event,
        }
    }

    /// Carries the frame that was counted last over a link that is not in the default state.
    #[inline(never)]
    fn send_faulty(
        &mut self,
        mut at: Instant,
        mut frame: Vec<u8>,
        sender: Sender,
        calendar: &mut Calendar,
    ) -> Option<DropReason> {
        let mut fault = None;
        if let Some(faults) = &mut self.faults {
            if !faults.paced {
                at = faults.serialise(at, frame.len() as u64);
            }
            fault = faults.apply(self.sent - 1, &mut frame);
        }
        let (port, bytes) = (self.peer.port, frame.len() as u64);
        let mut carry = |event| calendar.deliver(self.crossing(at, event));
        if fault.is_none_or(|reason| reason == DropReason::LinkCorrupt) {
            carry(Event::Receive { port, frame });
        }
        match (fault, sender) {
            (Some(reason), Sender::Host) => {
                carry(Event::Fault {
                    port,
                    reason,
                    bytes,
                });
                None
            }
            _ => fault,
        }
    }
}

/// A link that is not in the default state.
#[derive(Clone, Debug)]
struct Faults {
    /// Faults and limits.
    state: LinkState,
    /// Decides, with the number of a frame, what happens to it.
    key: u64,
    /// Whether the sender itself keeps to the rate of the link.
    paced: bool,
    /// Time at which a link that is slower than its host has sent all frames that it was given.
    free_at: Instant,
}

impl Faults {
    /// Time at which the last bit of a frame is sent, if the link gets the frame at this time.
    fn serialise(&mut self, at: Instant, bytes: u64) -> Instant {
        let Some(rate) = self.state.rate() else {
            return at;
        };
        self.free_at = at.max(self.free_at) + rate.time_for(bytes);
        self.free_at
    }

    /// Decides whether a frame is lost or damaged, and damages it. The draw depends only on the link and
    /// the number of the frame: neither on the partition that runs the link nor on other events.
    fn apply(&self, sequence: u64, frame: &mut [u8]) -> Option<DropReason> {
        let LinkState {
            up, loss, corrupt, ..
        } = self.state;
        let draw = |purpose: u64| mix(mix(self.key, purpose), sequence);
        // An f64 holds 53 bits.
        let happens = |purpose, probability: f64| {
            probability > 0.0 && ((draw(purpose) >> 11) as f64) < probability * (1u64 << 53) as f64
        };
        if !up {
            return Some(DropReason::LinkDown);
        }
        if happens(1, loss) {
            return Some(DropReason::LinkLoss);
        }
        if !happens(2, corrupt) || frame.is_empty() {
            return None;
        }
        let bit = draw(3) % (frame.len() as u64 * 8);
        frame[(bit / 8) as usize] ^= 1 << (bit % 8);
        Some(DropReason::LinkCorrupt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::NodeId;

    const FRAMES: usize = 20_000;

    fn link(state: LinkState, key: u64) -> Link {
        let peer = NodePort {
            node: NodeId(1),
            port: 3,
        };
        let mut link = Link::new(peer, Address::default());
        link.set_state(state, key, false);
        link
    }

    /// Faults of the first frames, by number.
    fn strikes(state: LinkState, key: u64) -> Vec<Option<DropReason>> {
        let mut link = link(state, key);
        let mut calendar = Calendar::new(1, 1);
        (0..FRAMES)
            .map(|_| link.send(Instant::ZERO, vec![0; 100], Sender::Switch, &mut calendar))
            .collect()
    }

    #[test]
    fn losses_have_the_probability_asked_for_and_are_independent_of_each_other() {
        let state = LinkState {
            loss: 0.1,
            ..LinkState::default()
        };
        let lost: Vec<bool> = strikes(state, 7).iter().map(Option::is_some).collect();
        let count = lost.iter().filter(|lost| **lost).count();
        assert!((1850..2150).contains(&count), "{count}");
        let pairs = lost.windows(2).filter(|w| w[0] && w[1]).count();
        assert!((150..250).contains(&pairs), "{pairs}");
        assert_ne!(strikes(state, 7), strikes(state, 8));
        assert_eq!(strikes(state, 7), strikes(state, 7));
    }

    #[test]
    fn corruption_flips_one_bit_anywhere() {
        let state = LinkState {
            corrupt: 1.0,
            ..LinkState::default()
        };
        let mut link = link(state, 1);
        let (mut hit, mut calendar) = ([false; 800], Calendar::new(1, 1));
        for _ in 0..FRAMES {
            let fault = link.send(Instant::ZERO, vec![0; 100], Sender::Switch, &mut calendar);
            assert_eq!(fault, Some(DropReason::LinkCorrupt));
            let out = calendar.take_crossing(0);
            let [
                Crossing {
                    event: Event::Receive { frame, .. },
                    ..
                },
            ] = &out[..]
            else {
                panic!("{out:?}");
            };
            let bits = |byte: &u8| byte.count_ones();
            assert_eq!(frame.iter().map(bits).sum::<u32>(), 1);
            let byte = frame
                .iter()
                .position(|byte| *byte != 0)
                .expect("a flipped bit");
            hit[byte * 8 + frame[byte].trailing_zeros() as usize] = true;
        }
        assert!(hit.iter().all(|hit| *hit));
    }

    #[test]
    fn a_host_has_the_switch_at_the_end_count_and_the_link_keep_the_rate() {
        let state = LinkState {
            loss: 1.0,
            rate_bps: Some(8_000_000),
            ..LinkState::default()
        };
        let mut link = link(state, 1);
        let mut calendar = Calendar::new(1, 1);
        for _ in 0..2 {
            let fault = link.send(Instant::ZERO, vec![0; 100], Sender::Host, &mut calendar);
            assert_eq!(fault, None);
        }
        let out = calendar.take_crossing(0);
        let times: Vec<_> = out.iter().map(|crossing| crossing.at).collect();
        assert_eq!(times, [100, 200].map(Instant::from_micros));
        let told = |crossing: &Crossing| {
            matches!(
                crossing.event,
                Event::Fault {
                    port: 3,
                    reason: DropReason::LinkLoss,
                    bytes: 100,
                    ..
                }
            )
        };
        assert!(out.iter().all(told), "{out:?}");
    }

    #[test]
    fn states_that_make_no_sense_are_refused() {
        let with = |loss, corrupt, rate_bps| LinkState {
            up: true,
            loss,
            corrupt,
            rate_bps,
        };
        assert_eq!(with(1.0, 0.0, Some(1)).validate(), Ok(()));
        for wrong in [
            with(1.1, 0.0, None),
            with(0.0, f64::NAN, None),
            with(-0.1, 0.0, None),
            with(0.0, 0.0, Some(0)),
        ] {
            assert!(wrong.validate().is_err(), "{wrong:?}");
        }
    }
}
