//! Every constant of the TCP family, with unit, default and source (table in `docs/tcp.md`).

use ebb_units::Duration;
use serde::{Deserialize, Serialize};

/// Parameters of one endpoint. All durations are nominal; whoever runs the experiment has already
/// multiplied every `_ns` by the dilation factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TcpParams {
    /// Largest segment payload we announce and send, as far as packets fit the MTU. With timestamps
    /// 12 bytes of it go to the option (RFC 6691). 0: what the MTU has room for.
    pub mss_bytes: u16,
    /// Initial congestion window (RFC 6928).
    pub initial_window_packets: u32,
    /// No ECN reaction and no slow-start threshold goes below this many segments.
    pub min_window_packets: u32,
    /// No congestion window grows above this many segments.
    pub max_window_packets: u32,
    /// Slow-start threshold of a new connection (RFC 5681: arbitrarily high).
    pub initial_threshold_packets: u32,
    /// A new connection begins with the slow-start threshold that the last one to its peer ended
    /// with (RFC 9040), as if it were the same connection after a pause.
    pub share_threshold: bool,
    /// Receive buffer, and so the largest window we advertise.
    pub receive_buffer_bytes: u32,
    /// Receive window at first; it grows to the receive buffer as twice the bytes of a round trip
    /// do. 0: it is the whole buffer from the beginning.
    pub initial_receive_window_bytes: u32,
    /// Most payload that a flow hands to the network card at once (segmentation offload), at most 64
    /// KB; it waits for a third of its window to be free. 0: each segment leaves when it may.
    pub offload_bytes: u32,
    /// Lower bound of the retransmission timeout.
    pub min_rto_ns: u64,
    /// Retransmission timeout until the first round trip has been measured.
    pub initial_rto_ns: u64,
    /// Upper bound of the backed-off retransmission timeout.
    pub max_rto_ns: u64,
    /// Consecutive timeouts of one segment (SYN and FIN too) after which the flow has failed.
    pub max_retries: u32,
    /// SYN-ACKs sent again to a peer that does not answer, before its handshake is forgotten.
    pub max_syn_ack_retries: u32,
    /// How long an ACK may wait for a second segment.
    pub delayed_ack_timeout_ns: u64,
    /// An ACK is sent at the latest after this many full segments. 1 turns delayed ACKs off.
    pub ack_every_packets: u32,
    /// Segments SACKed above a hole (or duplicate ACKs) that make it a loss (RFC 6675 DupThresh).
    pub duplicate_ack_threshold: u32,
    /// Offer selective acknowledgments (RFC 2018). Without them recovery is NewReno's (RFC 6582).
    pub sack: bool,
    /// Offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// After a pause longer than the timeout the window begins anew (RFC 5681 4.1). False: it stays
    /// as it was, as if the path had not changed (RFC 7661).
    pub restart_after_idle: bool,
    /// Whether a connection carries one object or stays open for more.
    pub connections: Connections,
    /// Persistent connections to one peer, for each of the two classes of priority.
    pub max_connections_per_peer: u32,
    /// How long one of them may carry nothing before the side that opened it closes it.
    pub keep_open_ns: u64,
    /// SYNs carry the first bytes of the stream, and those of peers are delivered at once: TCP Fast
    /// Open (RFC 7413) between hosts that have each other's cookies already.
    pub data_in_syn: bool,
    /// ICMP messages by which switches ask a sender to send less lower its window, at most once in a
    /// round trip, as ECN does (RFC 792). False: they are ignored, as hosts must (RFC 6633).
    pub source_quench: bool,
    /// How long the side that closed first still answers late segments.
    pub time_wait_ns: u64,
    /// A connection on which the peer has been silent this long while we wait for it has failed.
    /// Must exceed `max_rto_ns`.
    pub idle_timeout_ns: u64,
    /// Connections open at a time, those in TIME-WAIT included.
    pub max_flows: usize,
    /// How many of those may be handshakes that peers began and have not finished.
    pub max_half_open: usize,
    /// DSCP of every packet of the connection.
    pub dscp: u8,
    /// DCTCP's g, the weight of the newest window in alpha.
    pub dctcp_gain: f64,
    /// Alpha before the first window has been observed.
    pub dctcp_initial_alpha: f64,
    /// Whether HULL's pacer works for schemes other than `hull` too, which always has it.
    pub paced: bool,
}

/// How many objects a connection carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// One; its end is that of the object.
    #[default]
    PerRequest,
    /// One after another, in both directions.
    Open,
}

impl Default for TcpParams {
    fn default() -> Self {
        TcpParams {
            mss_bytes: 0,
            initial_window_packets: 10,
            min_window_packets: 2,
            max_window_packets: 1256,
            initial_threshold_packets: 1256,
            share_threshold: false,
            receive_buffer_bytes: 2 << 20,
            initial_receive_window_bytes: 0,
            offload_bytes: 0,
            min_rto_ns: 10_000_000,
            initial_rto_ns: 10_000_000,
            max_rto_ns: 160_000_000,
            max_retries: 28,
            max_syn_ack_retries: 3,
            delayed_ack_timeout_ns: 1_000_000,
            ack_every_packets: 2,
            duplicate_ack_threshold: 3,
            sack: true,
            timestamps: false,
            restart_after_idle: true,
            connections: Connections::PerRequest,
            max_connections_per_peer: 16,
            keep_open_ns: 10_000_000_000,
            data_in_syn: false,
            source_quench: false,
            time_wait_ns: 20_000_000,
            idle_timeout_ns: 4_000_000_000,
            max_flows: 10_000,
            max_half_open: 1024,
            dscp: 0,
            dctcp_gain: 1.0 / 16.0,
            dctcp_initial_alpha: 1.0,
            paced: false,
        }
    }
}

/// Headers of IPv4 and TCP without options, in bytes.
const HEADERS_BYTES: u16 = 40;
/// Largest payload that Linux hands to a network card at once (GSO_MAX_SIZE), in bytes.
const MAX_OFFLOAD_BYTES: u32 = 65_536;

/// A parameter outside the range in which the protocol works.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tcp.{name} is {value}: expected {expected}")]
pub struct InvalidTcpParams {
    name: &'static str,
    value: String,
    expected: &'static str,
}

/// Refuses a parameter unless it is `ok`.
fn check(
    ok: bool,
    name: &'static str,
    value: impl ToString,
    expected: &'static str,
) -> Result<(), InvalidTcpParams> {
    if ok {
        return Ok(());
    }
    Err(InvalidTcpParams {
        name,
        value: value.to_string(),
        expected,
    })
}

impl TcpParams {
    /// Settles the segment size so that packets, options included, fit `mtu_bytes`.
    pub fn fit_mtu(&mut self, mtu_bytes: u16) {
        // RFC 9293 3.7.1: the MTU less the fixed headers; options come out of the payload. A SACK
        // option may be longer than that of timestamps, but only on segments without payload.
        let most = mtu_bytes.saturating_sub(HEADERS_BYTES).max(1);
        self.mss_bytes = match self.mss_bytes {
            0 => most,
            asked => asked.min(most),
        };
    }

    /// The segment size: that of [`TcpParams::fit_mtu`], or what the usual MTU of 1500 bytes has
    /// room for.
    pub fn segment_bytes(&self) -> u16 {
        match self.mss_bytes {
            0 => 1500 - HEADERS_BYTES,
            fitted => fitted,
        }
    }

    /// Refuses values with which a connection could hang, divide by zero or not fit its header.
    pub fn validate(&self) -> Result<(), InvalidTcpParams> {
        self.validate_windows()?;
        self.validate_timers()?;
        self.validate_connections()?;
        self.validate_marks()
    }

    fn validate_windows(&self) -> Result<(), InvalidTcpParams> {
        let p = self;
        let mss_bytes = u32::from(p.segment_bytes());
        check(mss_bytes >= 88, "mss_bytes", mss_bytes, "at least 88")?;
        check(
            p.initial_window_packets > 0,
            "initial_window_packets",
            p.initial_window_packets,
            "at least 1",
        )?;
        check(
            p.min_window_packets > 0,
            "min_window_packets",
            p.min_window_packets,
            "at least 1",
        )?;
        check(
            p.max_window_packets >= p.min_window_packets.max(p.initial_window_packets),
            "max_window_packets",
            p.max_window_packets,
            "at least min_window_packets and initial_window_packets",
        )?;
        check(
            p.initial_threshold_packets >= p.min_window_packets,
            "initial_threshold_packets",
            p.initial_threshold_packets,
            "at least min_window_packets",
        )?;
        check(
            p.receive_buffer_bytes >= mss_bytes && p.receive_buffer_bytes <= 1 << 30,
            "receive_buffer_bytes",
            p.receive_buffer_bytes,
            "between mss_bytes and 2^30 (RFC 7323 2.3)",
        )?;
        check(
            (mss_bytes..=p.receive_buffer_bytes).contains(&p.first_receive_window()),
            "initial_receive_window_bytes",
            p.initial_receive_window_bytes,
            "0 (all of the buffer), or mss_bytes to receive_buffer_bytes",
        )?;
        check(
            p.offload_bytes == 0 || (mss_bytes..=MAX_OFFLOAD_BYTES).contains(&p.offload_bytes),
            "offload_bytes",
            p.offload_bytes,
            "0 (off), or mss_bytes to 65536",
        )
    }

    fn validate_timers(&self) -> Result<(), InvalidTcpParams> {
        let p = self;
        check(p.min_rto_ns > 0, "min_rto_ns", p.min_rto_ns, "more than 0")?;
        check(
            p.initial_rto_ns > 0,
            "initial_rto_ns",
            p.initial_rto_ns,
            "more than 0",
        )?;
        check(
            p.max_rto_ns >= p.min_rto_ns.max(p.initial_rto_ns),
            "max_rto_ns",
            p.max_rto_ns,
            "at least min_rto_ns and initial_rto_ns",
        )?;
        check(
            p.idle_timeout_ns > p.max_rto_ns,
            "idle_timeout_ns",
            p.idle_timeout_ns,
            "more than max_rto_ns, or a peer that is backing off is taken for dead",
        )
    }

    fn validate_connections(&self) -> Result<(), InvalidTcpParams> {
        let p = self;
        check(
            p.ack_every_packets > 0,
            "ack_every_packets",
            p.ack_every_packets,
            "at least 1",
        )?;
        check(
            p.duplicate_ack_threshold > 0,
            "duplicate_ack_threshold",
            p.duplicate_ack_threshold,
            "at least 1",
        )?;
        check(
            (1..=1 << 16).contains(&p.max_connections_per_peer),
            "max_connections_per_peer",
            p.max_connections_per_peer,
            "1 to 65536",
        )?;
        check(
            p.max_half_open > 0,
            "max_half_open",
            p.max_half_open,
            "at least 1",
        )?;
        check(p.dscp < 64, "dscp", p.dscp, "0 to 63")
    }

    fn validate_marks(&self) -> Result<(), InvalidTcpParams> {
        let p = self;
        check(
            p.dctcp_gain > 0.0 && p.dctcp_gain <= 1.0,
            "dctcp_gain",
            p.dctcp_gain,
            "more than 0, at most 1",
        )?;
        check(
            (0.0..=1.0).contains(&p.dctcp_initial_alpha),
            "dctcp_initial_alpha",
            p.dctcp_initial_alpha,
            "0 to 1",
        )
    }

    pub(crate) fn min_rto(&self) -> Duration {
        Duration::from_nanos(self.min_rto_ns)
    }
    pub(crate) fn initial_rto(&self) -> Duration {
        Duration::from_nanos(self.initial_rto_ns)
    }
    pub(crate) fn max_rto(&self) -> Duration {
        Duration::from_nanos(self.max_rto_ns)
    }
    pub(crate) fn delayed_ack_timeout(&self) -> Duration {
        Duration::from_nanos(self.delayed_ack_timeout_ns)
    }
    /// The receive window of a new connection, in bytes.
    pub(crate) fn first_receive_window(&self) -> u32 {
        match self.initial_receive_window_bytes {
            0 => self.receive_buffer_bytes,
            bytes => bytes,
        }
    }
    pub(crate) fn keep_open(&self) -> Duration {
        Duration::from_nanos(self.keep_open_ns)
    }
    pub(crate) fn time_wait(&self) -> Duration {
        Duration::from_nanos(self.time_wait_ns)
    }
    pub(crate) fn idle_timeout(&self) -> Duration {
        Duration::from_nanos(self.idle_timeout_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_parameter_with_its_default() {
        let page = include_str!("../../../../../docs/tcp.md");
        let defaults = serde_json::to_value(TcpParams::default()).unwrap();
        for (name, default) in defaults.as_object().unwrap() {
            let default = default
                .as_f64()
                .map_or(default.to_string(), |number| number.to_string());
            let row = format!("| `{name}` | {default} |");
            assert!(page.contains(&row), "docs/tcp.md lacks `{row}`");
        }
    }

    #[test]
    fn unknown_keys_are_errors_and_missing_ones_defaults() {
        let parse = |json| serde_json::from_str::<TcpParams>(json);
        assert!(
            parse(r#"{"min_rto_ms": 1}"#)
                .unwrap_err()
                .to_string()
                .contains("min_rto_ns")
        );
        let params = parse(r#"{"min_rto_ns": 5}"#).unwrap();
        assert_eq!(
            params,
            TcpParams {
                min_rto_ns: 5,
                ..TcpParams::default()
            }
        );
    }

    #[test]
    fn segments_fit_the_mtu() {
        let fitted = |mss_bytes, mtu| {
            let mut params = TcpParams {
                mss_bytes,
                ..TcpParams::default()
            };
            params.fit_mtu(mtu);
            params.segment_bytes()
        };
        assert_eq!(
            [950, 1500, 9000].map(|mtu| fitted(0, mtu)),
            [910, 1460, 8960]
        );
        assert_eq!(
            [950, 1500, 9000].map(|mtu| fitted(1000, mtu)),
            [910, 1000, 1000]
        );
        assert_eq!(TcpParams::default().segment_bytes(), 1460);
    }

    #[test]
    fn defaults_are_valid() {
        assert_eq!(TcpParams::default().validate(), Ok(()));
    }

    #[test]
    fn a_bad_value_is_named_with_what_was_expected() {
        let params = TcpParams {
            dctcp_gain: 0.0,
            ..TcpParams::default()
        };
        assert_eq!(
            params.validate().unwrap_err().to_string(),
            "tcp.dctcp_gain is 0: expected more than 0, at most 1"
        );
        let params = TcpParams {
            idle_timeout_ns: 1,
            ..TcpParams::default()
        };
        assert!(
            params
                .validate()
                .unwrap_err()
                .to_string()
                .contains("idle_timeout_ns")
        );
        let params = TcpParams {
            dctcp_initial_alpha: f64::NAN,
            ..TcpParams::default()
        };
        assert!(params.validate().is_err());
    }
}
