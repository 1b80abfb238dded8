//! Bytes that still arrive for a queue after the neighbour is asked to pause it (headroom), whether
//! the ingress buffer has room for them, and thresholds that follow from both (Zats, "Achieving
//! Consistent Latencies in Datacenter Networks", UC Berkeley 2014, section 5.2.3).

use super::{Accounting, Pfc, Profile, TrafficManagerConfig};

/// Bytes that a PFC frame occupies on the wire: 64, preamble and inter-frame gap.
const PFC_FRAME_BYTES: u64 = 84;
/// Nanoseconds of a second times bits of a byte.
const NS_BITS: u128 = 8_000_000_000;

/// When neighbours are asked to pause a queue, and to resume it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// Bytes that count for a queue.
    pub(crate) accounting: Accounting,
    /// XOFF: the neighbour is asked to pause a queue when more bytes than this count for it.
    pub(crate) pause_bytes: u64,
    /// XON: it is asked to resume when no more than this count.
    pub(crate) resume_bytes: u64,
}

impl TrafficManagerConfig {
    /// The given thresholds, or those that hold at all ports. None: there is no flow control.
    ///
    /// XON is then the least that keeps a queue from running empty, the largest headroom H, and
    /// XOFF the middle between that and the most that loses nothing, which of B bytes for N queues
    /// is B / N - H: so B / 2N. It is lower where that would not leave room for the frame that crosses
    /// it and for what arrives during the PFC frame as well.
    pub(crate) fn thresholds(&self) -> Option<Thresholds> {
        let pfc = self.pfc.as_ref()?;
        let lossless = || {
            self.profile
                .iter()
                .filter(|profile| profile.lossless() != 0)
        };
        let headroom = || lossless().map(|profile| headroom(profile, pfc)).max();
        let resume_bytes = pfc.resume_bytes.or_else(headroom).unwrap_or(0);
        let pause = |profile: &Profile| {
            let queues = u64::from(profile.lossless().count_ones());
            let each = profile.ingress_bytes.unwrap_or(0) / queues;
            let kept = resume_bytes.saturating_add(crossing(pfc));
            (each / 2).min(each.saturating_sub(kept))
        };
        let pauses = || lossless().map(pause).min();
        Some(Thresholds {
            accounting: pfc.accounting,
            pause_bytes: pfc.pause_bytes.or_else(pauses).unwrap_or(0),
            resume_bytes,
        })
    }
}

/// Bytes that arrive per queue of a port after it is asked to pause: H = C * T / 8, T being the time
/// until the neighbour's last frame is here.
fn headroom(profile: &Profile, pfc: &Pfc) -> u64 {
    // The PFC frame waits for a frame that has just started, goes to the neighbour, is obeyed
    // there after a frame that has just started, and that frame comes here.
    let there = profile.delay_ns;
    let back = profile.delay_ns.max(profile.rx_delay_ns);
    let waits = [
        there,
        back,
        pfc.response_ns,
        pfc.wakeup_ns,
        profile.pipeline_delay_ns,
    ];
    let ns: u128 = waits.into_iter().map(u128::from).sum();
    let arriving = (u128::from(profile.rate_bps.as_bps()) * ns).div_ceil(NS_BITS);
    let arriving = u64::try_from(arriving).unwrap_or(u64::MAX);
    arriving.saturating_add(pfc.max_frame_bytes.saturating_mul(2))
}

/// Bytes of the frame that crosses the threshold, and of those that arrive during the PFC frame.
fn crossing(pfc: &Pfc) -> u64 {
    pfc.max_frame_bytes.saturating_add(PFC_FRAME_BYTES)
}

/// The buffer that the lossless queues of a profile need.
pub(crate) struct Need {
    /// Number of lossless queues.
    queues: u64,
    /// Rate of the link in bits per second.
    rate_bps: u64,
    /// Bytes that arrive per queue after it is asked to pause.
    headroom: u64,
    /// Bytes at which the queue is asked to pause.
    pause_bytes: u64,
    /// Bytes of the frame that crosses the threshold, and of those during the PFC frame.
    crossing: u64,
}

impl Need {
    /// The need of a profile whose rate is limited.
    pub(crate) fn new(profile: &Profile, pfc: &Pfc, thresholds: Thresholds) -> Self {
        Self {
            queues: u64::from(profile.lossless().count_ones()),
            rate_bps: profile.rate_bps.as_bps(),
            headroom: headroom(profile, pfc),
            pause_bytes: thresholds.pause_bytes,
            crossing: crossing(pfc),
        }
    }

    /// Bytes that the lossless queues may hold together of what came in on one port.
    pub(crate) fn bytes(&self) -> u64 {
        let each = self.pause_bytes.saturating_add(self.crossing);
        let each = each.saturating_add(self.headroom);
        self.queues.saturating_mul(each)
    }

    /// Complaint about an ingress buffer of this many bytes; none if it is large enough.
    pub(crate) fn complaint(&self, ingress_bytes: u64) -> Option<String> {
        if self.bytes() <= ingress_bytes {
            return None;
        }
        let Self {
            queues,
            headroom,
            pause_bytes,
            crossing,
            ..
        } = self;
        let total = queues.saturating_mul(*headroom);
        let spare = (ingress_bytes / queues).checked_sub(headroom.saturating_add(*crossing));
        let problem = match spare.filter(|spare| *spare > 0) {
            None => format!(
                "{queues} lossless queues need {queues} * {headroom} = {total} bytes of headroom \
                 alone of the {ingress_bytes} bytes of ingress_bytes: a pause takes {time} us to \
                 stop the neighbour at {rate} Gbit/s; use fewer lossless queues, more ingress_bytes \
                 or a lower rate_bps",
                time = microseconds(*headroom, self.rate_bps),
                rate = self.rate_bps as f64 / 1e9,
            ),
            Some(spare) => format!(
                "{queues} lossless queues need {queues} * ({pause_bytes} + {crossing} + {headroom}) \
                 = {bytes} bytes (pause_bytes, the frame that crosses it with the PFC frame, \
                 headroom) of the {ingress_bytes} bytes of ingress_bytes; use a pause_bytes of at \
                 most {spare}",
                bytes = self.bytes(),
            ),
        };
        Some(problem)
    }
}

/// Time that bytes take at a rate, in microseconds with the digits that matter.
fn microseconds(bytes: u64, rate_bps: u64) -> f64 {
    let ns = u128::from(bytes) * NS_BITS / u128::from(rate_bps.max(1));
    ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use ebb_units::BitRate;
    use proptest::prelude::*;

    use super::*;
    use crate::config::QueueConfig;

    /// Lossless queues behind a link with the delays of the thesis: 476 ns of propagation, 5 us of
    /// transceivers.
    fn profile(name: &str, rate_bps: u64, queues: u8, ingress_bytes: u64) -> Profile {
        let queue = |id| QueueConfig {
            id,
            lossless: true,
            ..QueueConfig::default()
        };
        Profile {
            name: name.into(),
            rate_bps: BitRate::from_bps(rate_bps),
            delay_ns: 5_476,
            ingress_bytes: Some(ingress_bytes),
            egress_bytes: Some(ingress_bytes),
            queue: (0..queues).map(queue).collect(),
            ..Profile::default()
        }
    }

    /// Profiles with computed thresholds.
    fn computed(response_ns: u64, profile: Vec<Profile>) -> TrafficManagerConfig {
        let pfc = format!(r#"{{"response_ns": {response_ns}}}"#);
        TrafficManagerConfig {
            profile,
            pfc: Some(serde_json::from_str(&pfc).expect("no thresholds")),
            ..TrafficManagerConfig::default()
        }
    }

    fn thresholds(config: &TrafficManagerConfig) -> (u64, u64) {
        let found = config.thresholds().expect("flow control");
        (found.pause_bytes, found.resume_bytes)
    }

    /// Section 5.2.3: 36.456 us, which are 4557 bytes; 8192 is the middle of 4557 and 11827. At
    /// 10 Gbit/s a receiver of pauses has 60 quanta.
    #[test]
    fn thresholds_are_those_of_the_thesis() {
        let eight = computed(1_024, vec![profile("p", 1_000_000_000, 8, 131_072)]);
        assert_eq!(thresholds(&eight), (8_192, 4_557));
        eight.validate().expect("a buffer that is large enough");
        let two = computed(3_072, vec![profile("p", 10_000_000_000, 2, 131_072)]);
        assert_eq!(thresholds(&two), (32_768, 20_590));
        two.validate().expect("a buffer that is large enough");
    }

    #[test]
    fn the_link_that_needs_most_decides() {
        let slow = profile("slow", 250_000_000, 8, 131_072);
        let fast = profile("fast", 1_000_000_000, 8, 131_072);
        let alone = thresholds(&computed(1_024, vec![fast.clone()]));
        assert_ne!(thresholds(&computed(1_024, vec![slow.clone()])), alone);
        assert_eq!(thresholds(&computed(1_024, vec![slow, fast])), alone);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Every queue can hold what was there when it paused and what arrives after that; and what
        /// is refused could not.
        #[test]
        fn nothing_is_lost_below_computed_thresholds(
            ingress_bytes in 1_600..10_000_000u64,
            queues in 1..=8u8,
            response_ns in 0..10_000_000u64,
            rate_bps in 1_000_000..100_000_000_000u64,
        ) {
            let profile = profile("p", rate_bps, queues, ingress_bytes);
            let config = computed(response_ns, vec![profile]);
            let (pause, resume) = thresholds(&config);
            let queues = u64::from(queues);
            match config.validate() {
                Ok(()) => {
                    prop_assert!(resume <= pause);
                    let each = pause + 1_530 + PFC_FRAME_BYTES + resume;
                    prop_assert!(queues * each <= ingress_bytes);
                }
                Err(_) => {
                    let each = ingress_bytes / queues;
                    let twice = 2 * resume + 1_530 + PFC_FRAME_BYTES;
                    prop_assert!(each < twice || each / 2 < resume);
                }
            }
        }
    }
}
