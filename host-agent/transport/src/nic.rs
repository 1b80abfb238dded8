//! The serialiser of the host's link: one frame at a time, at the link's rate.
//!
//! A veth moves a frame in no time. Without this, the initial window of a flow would arrive at the
//! first switch all at once, and so would the window of a TCP flow.

use ebb_units::{BitRate, Duration, Instant};
use serde::{Deserialize, Serialize};

/// Section `nic` of the parameters file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NicParams {
    /// Rate of the host's link. 0: no limit, frames leave as fast as the machine sends them.
    pub rate_bps: u64,
    /// Largest IPv4 packet.
    pub mtu_bytes: u16,
    /// Bytes of every frame beside the IPv4 packet and the 14 bytes of the Ethernet header: 0, or
    /// 24 for preamble (8), FCS (4) and inter-frame gap (12). The same as in the switches.
    pub frame_overhead_bytes: u32,
    /// A driver that wakes up late may send this many full frames (or pulls for them) at once, so
    /// that its lateness does not lower the rate. Keep it below the data queue of a switch.
    pub catch_up_packets: u32,
}

impl Default for NicParams {
    fn default() -> Self {
        NicParams {
            rate_bps: 1_000_000_000,
            mtu_bytes: 1500,
            frame_overhead_bytes: 0,
            catch_up_packets: 4,
        }
    }
}

const ETHERNET_HEADER_BYTES: u64 = 14;

impl NicParams {
    pub fn rate(&self) -> BitRate {
        BitRate::from_bps(self.rate_bps)
    }

    /// Bytes that an IPv4 packet of `len` bytes occupies on the link.
    pub fn frame_bytes(&self, len: usize) -> u64 {
        len as u64 + ETHERNET_HEADER_BYTES + u64::from(self.frame_overhead_bytes)
    }

    /// How long a frame with an IPv4 packet of `len` bytes occupies the link.
    pub fn frame_time(&self, len: usize) -> Duration {
        self.rate().time_for(self.frame_bytes(len))
    }

    /// The time that `catch_up_packets` full frames take.
    pub fn catch_up(&self) -> Duration {
        self.frame_time(usize::from(self.mtu_bytes)) * u64::from(self.catch_up_packets)
    }

    pub fn validate(&self) -> Result<(), String> {
        if self.mtu_bytes < 576 {
            return Err(format!(
                "nic.mtu_bytes is {}; an IPv4 link carries at least 576",
                self.mtu_bytes
            ));
        }
        Ok(())
    }
}

/// The serialiser.
#[derive(Clone, Debug)]
pub struct Nic {
    params: NicParams,
    free_at: Instant,
}

impl Nic {
    pub fn new(params: NicParams) -> Self {
        Nic {
            params,
            free_at: Instant::ZERO,
        }
    }

    /// The link has another rate from now on, 0 for no limit. The frame being sent keeps its end.
    pub fn set_rate_bps(&mut self, rate_bps: u64) {
        self.params.rate_bps = rate_bps;
    }

    /// When the frame being sent is out.
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    pub fn is_free(&self, now: Instant) -> bool {
        self.free_at <= now
    }

    /// Start to send a frame with an IPv4 packet of `len` bytes, and return when its last bit is
    /// out. The frame starts where the last one ended if that was less than `catch_up_packets` ago:
    /// idle time cannot be told from the driver's lateness, so this bounds the burst of either.
    pub fn send(&mut self, now: Instant, len: usize) -> Instant {
        let start = if self.free_at > now {
            self.free_at
        } else {
            self.free_at.max(now - self.params.catch_up())
        };
        self.free_at = start + self.params.frame_time(len);
        self.free_at
    }

    /// The link had nothing to send at `now`: time until the next frame is idle time, not lateness.
    pub fn idle(&mut self, now: Instant) {
        self.free_at = self.free_at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(catch_up_packets: u32) -> Nic {
        Nic::new(NicParams {
            rate_bps: 1_000_000_000,
            catch_up_packets,
            ..Default::default()
        })
    }

    #[test]
    fn a_frame_occupies_the_link_for_its_ethernet_length() {
        let mut nic = nic(0);
        let t0 = Instant::from_micros(100);
        assert_eq!(nic.send(t0, 1486), t0 + Duration::from_micros(12));
        assert!(!nic.is_free(t0 + Duration::from_nanos(11_999)));
        assert!(nic.is_free(t0 + Duration::from_micros(12)));
    }

    #[test]
    fn lateness_does_not_lower_the_rate() {
        let mut nic = nic(4);
        let t0 = Instant::from_micros(100);
        nic.idle(t0);
        nic.send(t0, 1486);
        // 20 us late: the next frame starts where it should have.
        assert_eq!(
            nic.send(t0 + Duration::from_micros(32), 1486),
            t0 + Duration::from_micros(24)
        );
    }

    #[test]
    fn catching_up_is_bounded() {
        let mut nic = nic(4);
        let t0 = Instant::from_micros(1000);
        nic.idle(t0);
        nic.send(t0, 1486);
        let late = t0 + Duration::from_micros(500);
        let mut sent = 0;
        while nic.is_free(late) {
            nic.send(late, 1486);
            sent += 1;
        }
        assert_eq!(sent, 5); // the late one and four more
    }

    #[test]
    fn idle_time_earns_no_burst() {
        let mut nic = nic(4);
        nic.idle(Instant::from_micros(1000));
        let end = nic.send(Instant::from_micros(1000), 1486);
        assert_eq!(end, Instant::from_micros(1012));
    }

    #[test]
    fn no_rate_means_no_limit() {
        let mut nic = Nic::new(NicParams {
            rate_bps: 0,
            ..Default::default()
        });
        let now = Instant::from_micros(5);
        nic.idle(now);
        assert_eq!(nic.send(now, 1500), now);
        assert!(nic.is_free(now));
    }
}
