//! Common parts of the tests: networks whose switches do not trim, and packets by what they are for.

use ebb_units::Duration;
use ebb_wire::{EbbFlags, EbbHeader, PacketType};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{Mode, TreviHost, TreviParams};
use crate::testing::{Fate, Network, PortParams};
use crate::{DscpParams, JobResult};

pub const SYMBOL: u64 = 1432;
pub const MODES: [Mode; 4] = [Mode::ConstantRate, Mode::Push, Mode::Pull, Mode::Hybrid];

/// Parameters with blocks of up to 500 symbols.
pub fn params_of(mode: Mode, rate_bps: u64) -> TreviParams {
    TreviParams {
        mode,
        rate_bps,
        block_symbols: 500,
        ..TreviParams::default()
    }
}

/// Hosts at one switch.
pub fn network_of(hosts: usize, params: TreviParams) -> Network {
    let port = PortParams {
        data_dscp: DscpParams::default().scavenger,
        data_packets: 50,
        trimming: false,
        ..PortParams::default()
    };
    Network::new(hosts, port, move |config| TreviHost::new(config, params))
}

pub fn carries_payload(header: &EbbHeader) -> bool {
    header.packet_type == PacketType::Coded && !header.flags.contains(EbbFlags::TRIMMED)
}

pub fn is_last_stop(header: &EbbHeader) -> bool {
    header.packet_type == PacketType::Stop && header.flags.contains(EbbFlags::FIN)
}

/// Packets get lost, doubled and late at random, and coding takes its time.
pub fn disturb(net: &mut Network, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    net.fate = Box::new(move |_, _| match rng.random_range(0..100) {
        0..10 => Fate::Drop,
        10..15 => Fate::Duplicate,
        15..40 => Fate::Late(Duration::from_micros(rng.random_range(1..300))),
        _ => Fate::Pass,
    });
    net.job_takes = any_time(seed);
}

/// Times that coding takes.
pub fn any_time(seed: u64) -> Box<dyn FnMut(&JobResult) -> Duration> {
    let mut rng = SmallRng::seed_from_u64(seed);
    Box::new(move |_| Duration::from_micros(rng.random_range(0..3000)))
}
