//! The serialiser of the host's link: one frame at a time, at the link's rate.
//!
//! A veth moves a frame in no time. Without this, the initial window of a flow would arrive at the
//! first switch all at once, and so would the window of a TCP flow.

use ebb_units::Instant;

use crate::params::NicParams;

/// The serialiser.
#[derive(Clone, Debug)]
pub struct Serialiser {
    params: NicParams,
    free_at: Instant,
}

impl Serialiser {
    /// A link that is free.
    pub fn new(params: NicParams) -> Self {
        Serialiser {
            params,
            free_at: Instant::ZERO,
        }
    }

    /// Sets the rate of the link, 0 for no limit. The end of the frame being sent stays as it is.
    pub fn set_rate_bps(&mut self, rate_bps: u64) {
        self.params.rate_bps = rate_bps;
    }

    /// Time at which the last bit of the frame being sent leaves.
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Whether no frame is being sent.
    pub fn is_free(&self, now: Instant) -> bool {
        self.free_at <= now
    }

    /// Time at which a frame that is sent at `now` starts on the wire: at the end of the last one if
    /// that was less than `catch_up_packets` ago, even if it has passed.
    pub fn next_start(&self, now: Instant) -> Instant {
        if self.free_at > now {
            self.free_at
        } else {
            self.free_at.max(now - self.params.catch_up())
        }
    }

    /// Start to send a frame with an IPv4 packet of `len` bytes, and return when its last bit is
    /// out. The frame starts where the last one ended if that was less than `catch_up_packets` ago:
    /// idle time cannot be distinguished from the driver's lateness, so this bounds the burst of either.
    pub fn send(&mut self, now: Instant, len: usize) -> Instant {
        self.free_at = self.next_start(now) + self.params.frame_time(len);
        self.free_at
    }

    /// The link had nothing to send at `now`: time until the next frame is idle time, not lateness.
    pub fn idle(&mut self, now: Instant) {
        self.free_at = self.free_at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use ebb_units::Duration;

    use super::*;

    fn nic(catch_up_packets: u32) -> Serialiser {
        Serialiser::new(NicParams {
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
        let mut nic = Serialiser::new(NicParams {
            rate_bps: 0,
            ..Default::default()
        });
        let now = Instant::from_micros(5);
        nic.idle(now);
        assert_eq!(nic.send(now, 1500), now);
        assert!(nic.is_free(now));
    }
}
