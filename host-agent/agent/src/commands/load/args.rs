//! `ebb-agent load` and `ebb-agent sink`: their command lines.

use std::path::PathBuf;

use clap::Args;

use super::packet::MIN_PACKET_BYTES;
use crate::api::MAX_START_NS;
use crate::api::message::Peer;

/// The UDP port where loads arrive unless another one is given; no service port of a transport.
pub const PORT: u16 = 7010;
/// The source ports of a load, at most.
pub const SOURCE_PORTS: u16 = 1 << 14;

#[derive(Args, Debug)]
pub struct LoadArgs {
    /// Host to send to, on which `ebb-agent sink` or `load` runs: IP or IP:PORT
    pub host: Peer,
    /// Rate on the line in bit/s, Ethernet headers included; k, M and G may follow
    #[arg(long, value_name = "R", default_value = "100M", value_parser = parse_rate)]
    pub rate_bps: u64,
    /// Length of the IP packets
    #[arg(
        long, value_name = "N", default_value_t = 1500,
        value_parser = clap::value_parser!(u16).range(i64::from(MIN_PACKET_BYTES)..)
    )]
    pub packet_bytes: u16,
    /// Bytes on the line beyond those of a frame; 24: preamble, FCS and gap
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub frame_overhead_bytes: u16,
    /// How long to send
    #[arg(long, value_name = "T", default_value_t = 5.0, value_parser = parse_seconds)]
    pub seconds: f64,
    /// Source ports, one of which each packet gets at random: where paths are chosen by flow, this
    /// spreads packets over all of them. 1: one flow
    #[arg(
        long, value_name = "N", default_value_t = SOURCE_PORTS,
        value_parser = clap::value_parser!(u16).range(1..=i64::from(SOURCE_PORTS))
    )]
    pub flows: u16,
    /// Class of the packets
    #[arg(long, value_name = "D", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..64))]
    pub dscp: u8,
    /// Start at this time of CLOCK_MONOTONIC, in ns
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(..MAX_START_NS))]
    pub start_at_ns: Option<u64>,
    /// How late a packet may leave at most, for a host that was kept from sending; what is later is
    /// skipped and counted
    #[arg(long, value_name = "US", default_value_t = 10_000)]
    pub patience_us: u32,
    /// How long to wait for packets under way, after the last one was sent
    #[arg(long, value_name = "T", default_value_t = 1.0, value_parser = parse_seconds)]
    pub settle_seconds: f64,
    #[command(flatten)]
    pub receive: ReceiveArgs,
}

#[derive(Args, Debug)]
pub struct SinkArgs {
    /// End after this many streams have ended
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    #[command(flatten)]
    pub receive: ReceiveArgs,
}

/// Options of both commands.
#[derive(Args, Debug)]
pub struct ReceiveArgs {
    /// Interface of the host; not needed if there is only one with an IPv4 address
    #[arg(long)]
    pub interface: Option<String>,
    /// Share a ring with the switch at the other end of the interface, instead of sending frames through
    /// the kernel: the Unix socket that the switch has for the interface (docs/agent.md)
    #[arg(long, value_name = "PATH")]
    pub ring: Option<PathBuf>,
    /// UDP port to receive on
    #[arg(long, default_value_t = PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// How long what can be sent or read may wait for more, so that the process wakes once for all
    /// of it; 0: each packet by itself
    #[arg(long, value_name = "US", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub lateness_us: u32,
    /// One JSON object per line, also on a terminal
    #[arg(long)]
    pub json: bool,
}

const DAY_SECONDS: f64 = 86_400.0;

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= DAY_SECONDS => Ok(seconds),
        _ => Err("seconds: a number above 0, at most 86400".to_owned()),
    }
}

fn parse_rate(text: &str) -> Result<u64, String> {
    let (number, factor) = match text.char_indices().next_back() {
        Some((at, 'k')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        Some((at, 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    let rate = number.parse::<f64>().map(|number| number * factor);
    match rate {
        Ok(rate) if (1e3..=1e12).contains(&rate) => Ok(rate as u64),
        _ => Err("bits per second, from 1k to 1000G, such as 100M".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_units() {
        assert_eq!(parse_rate("100M"), Ok(100_000_000));
        assert_eq!(parse_rate("2.5G"), Ok(2_500_000_000));
        assert_eq!(parse_rate("64k"), Ok(64_000));
        assert_eq!(parse_rate("123456"), Ok(123_456));
        for bad in ["", "M", "-1M", "1", "1e13", "10 Mbit", "10m", "nan", "1é"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
    }
}
