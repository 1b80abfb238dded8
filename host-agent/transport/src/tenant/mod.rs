//! What a tenant is guaranteed, kept at the hosts of its virtual machines (Moncaster,
//! UCAM-CL-TR-921, sections 5.4.3 and 5.5; Silo, SIGCOMM 2015, section 4.3).
//!
//! ```text
//!  packets of a VM ──► bucket of the destination ──► bucket of the VM ──► peak ──► batch ──► NIC
//!                      rate by the receiver (hose)    B, depth S           Bmax     void frames
//! ```
//!
//! No bucket needs a timer: each knows how much it lacks at a time, so a packet gets the time of
//! its departure ([`VmPacer`]). A NIC that sends back to back keeps these times when the gaps
//! between frames are frames as well, which the first switch drops ([`Batcher`]). All sizes are
//! bytes on the wire: frame, FCS, preamble and gap between frames.

mod batch;
mod bucket;
mod frames;
mod hose;
mod pacer;

pub use batch::{Batcher, MIN_VOID_BYTES, Slot};
pub use bucket::VirtualBucket;
pub use frames::{GuaranteeCounters, GuaranteedFrames, Outcome};
pub use hose::{Grant, HoseReceiver, HoseSender};
pub use pacer::{Departure, VmPacer};

use ebb_units::BitRate;
use serde::Deserialize;

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
