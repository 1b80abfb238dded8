//! The numbers that a tenant is guaranteed.

use ebb_units::BitRate;
use serde::Deserialize;

/// FCS, preamble and gap between frames: on the wire, and not in a frame as hosts see it.
pub const WIRE_OVERHEAD_BYTES: u64 = 24;

/// The guarantee {B, S, Bmax} of one virtual machine, as a file has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guarantee {
    /// B: bits per second on the wire that the VM may send, and receive, on average.
    #[serde(rename = "rate_bps")]
    pub rate: BitRate,
    /// S: bytes on the wire that the VM may send beyond B at once. At least one full frame.
    pub burst_bytes: u64,
    /// Bmax: bits per second at which a burst leaves. At least B.
    #[serde(rename = "peak_bps")]
    pub peak: BitRate,
}

impl Guarantee {
    /// In words what is wrong. `frame_bytes`: the longest frame on the wire.
    pub fn validate(&self, frame_bytes: u64) -> Result<(), String> {
        if self.rate.is_zero() {
            return Err("rate_bps is 0: a guarantee needs a rate".to_owned());
        }
        if self.peak < self.rate {
            return Err(format!(
                "peak_bps is {}, less than rate_bps ({}): a burst leaves at the rate at least",
                self.peak.as_bps(),
                self.rate.as_bps()
            ));
        }
        if self.burst_bytes < frame_bytes {
            return Err(format!(
                "burst_bytes is {}, less than a full frame on the wire ({frame_bytes})",
                self.burst_bytes
            ));
        }
        Ok(())
    }
}
