//! The guarantee of a virtual machine behind the bump in the wire, from a file
//! (`docs/tenant-pacer.md`).

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::anyhow;
use ebb_transport::tenant::{
    Batcher, CoordinationParams, Guarantee, GuaranteedFrames, Peers, WIRE_OVERHEAD_BYTES,
};
use ebb_units::{BitRate, Duration};
use ebb_wire::HoseMessage;
use serde::Deserialize;

use crate::engine::params;

/// Bytes that may wait for the rate of a guarantee, on the wire.
const QUEUE_BYTES: u64 = 16 << 20;
/// The longest time that a key may give, ns: an hour.
const MAX_NS: u64 = 3_600_000_000_000;

/// The file. The first three keys are those of [`Guarantee`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rate_bps: BitRate,
    burst_bytes: u64,
    peak_bps: BitRate,
    void_frames: Option<VoidFrames>,
    hose: Option<Hose>,
}

/// Batches whose gaps are void frames.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VoidFrames {
    /// Rate of the outside interface, which is fixed.
    link_bps: BitRate,
    /// Time of a batch on it.
    #[serde(default = "fifty_microseconds")]
    batch_ns: u64,
}

/// Coordination with the pacers of the tenant's other VMs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hose {
    /// Address of the VM.
    address: Ipv4Addr,
    /// Those of the others.
    peers: Vec<Ipv4Addr>,
    /// Between two messages.
    #[serde(default = "one_millisecond")]
    period_ns: u64,
    /// The longest time of a message.
    message_ns: u64,
}

fn fifty_microseconds() -> u64 {
    50_000
}

fn one_millisecond() -> u64 {
    1_000_000
}

/// The pacer of the guarantee in a file. `frame_bytes`: the longest frame on the wire.
pub fn read(path: &Path, frame_bytes: u64) -> anyhow::Result<GuaranteedFrames> {
    let file: File = params::read_file(path, "guarantee")?;
    file.pacer(frame_bytes)
        .map_err(|error| anyhow!("in the guarantee file {}: {error}", path.display()))
}

impl File {
    fn pacer(self, frame_bytes: u64) -> Result<GuaranteedFrames, String> {
        let guarantee = Guarantee {
            rate: self.rate_bps,
            burst_bytes: self.burst_bytes,
            peak: self.peak_bps,
        };
        guarantee.validate(frame_bytes)?;
        let mut pacer = GuaranteedFrames::new(guarantee, frame_bytes, QUEUE_BYTES);
        if let Some(void) = self.void_frames {
            pacer = pacer.in_batches(void.batcher(&guarantee, frame_bytes)?);
        }
        if let Some(hose) = self.hose {
            pacer = pacer.among(hose.peers(&guarantee)?);
        }
        Ok(pacer)
    }
}

impl VoidFrames {
    fn batcher(self, guarantee: &Guarantee, frame_bytes: u64) -> Result<Batcher, String> {
        if self.link_bps < guarantee.peak {
            return Err(format!(
                "void_frames.link_bps is {}, less than peak_bps ({})",
                self.link_bps.as_bps(),
                guarantee.peak.as_bps()
            ));
        }
        let batch = Duration::from_nanos(self.batch_ns.min(MAX_NS));
        let least = self.link_bps.time_for(2 * frame_bytes);
        if batch < least {
            return Err(format!(
                "void_frames.batch_ns is {}, expected at least {}, two full frames on the link",
                self.batch_ns,
                least.as_nanos()
            ));
        }
        Ok(Batcher::new(self.link_bps, batch, frame_bytes))
    }
}

impl Hose {
    fn peers(self, guarantee: &Guarantee) -> Result<Peers, String> {
        if self.period_ns == 0 || self.period_ns > MAX_NS || self.message_ns > MAX_NS {
            return Err(format!(
                "hose: period_ns is {} and message_ns {}, expected 1 and 0 to {MAX_NS}",
                self.period_ns, self.message_ns
            ));
        }
        // Each peer sends demands, and grants for ours.
        let message_bits = 8 * (HoseMessage::FRAME_BYTES as u64 + WIRE_OVERHEAD_BYTES);
        let in_period = 2 * self.peers.len() as u64 * message_bits;
        let messages_bps = (in_period * 1_000_000_000).div_ceil(self.period_ns);
        let rate_bps = guarantee.rate.as_bps();
        if messages_bps > rate_bps / 2 {
            return Err(format!(
                "hose: messages of {} peers every {} ns take {messages_bps} bit/s, more than half of \
                 rate_bps ({rate_bps}); raise hose.period_ns",
                self.peers.len(),
                self.period_ns
            ));
        }
        let params = CoordinationParams {
            period: Duration::from_nanos(self.period_ns),
            delay: Duration::from_nanos(self.message_ns),
        };
        let receives = BitRate::from_bps(rate_bps - messages_bps);
        Ok(Peers::new(self.address, self.peers, receives, params))
    }
}
