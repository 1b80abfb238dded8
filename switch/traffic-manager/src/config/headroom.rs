//! How many bytes still arrive for a queue after the neighbour is asked to pause it, and whether
//! the ingress buffer has room for them.

use super::{Pfc, Profile};

/// Bytes that a PFC frame occupies on the wire: 64, preamble and inter-frame gap.
const PFC_FRAME_BYTES: u64 = 84;
/// Nanoseconds of a second times bits of a byte.
const NS_BITS: u128 = 8_000_000_000;

/// The buffer that the lossless queues of a profile need.
pub(crate) struct Need {
    /// How many lossless queues there are.
    queues: u64,
    /// Rate of the link in bits per second.
    rate_bps: u64,
    /// Bytes that arrive per queue after it is asked to pause: H = C * T / 8, T being the time
    /// until the neighbour's last frame is here.
    headroom: u64,
    /// Bytes at which the queue is asked to pause.
    pause_bytes: u64,
    /// The frame that crosses the threshold, and the time of the PFC frame itself.
    crossing: u64,
}

impl Need {
    /// The need of a profile whose rate is limited.
    pub(crate) fn new(profile: &Profile, pfc: &Pfc) -> Self {
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
        let rate_bps = profile.rate_bps.as_bps();
        let arriving = (u128::from(rate_bps) * ns).div_ceil(NS_BITS);
        let arriving = u64::try_from(arriving).unwrap_or(u64::MAX);
        Self {
            queues: u64::from(profile.lossless().count_ones()),
            rate_bps,
            headroom: arriving.saturating_add(pfc.max_frame_bytes.saturating_mul(2)),
            pause_bytes: pfc.pause_bytes,
            crossing: pfc.max_frame_bytes.saturating_add(PFC_FRAME_BYTES),
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
