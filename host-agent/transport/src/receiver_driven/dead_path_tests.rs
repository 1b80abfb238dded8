//! Half of all paths dead, both ways: what the fabric is between a failure and the controller's
//! answer to it.

use ebb_wire::EbbHeader;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::HostConfig;
use crate::Transport;
use crate::ndp::{NdpHost, NdpParams};
use crate::scdp::{ScdpHost, ScdpParams};
use crate::testing::{Fate, FateOf, Network, PortParams};

fn ndp(config: HostConfig) -> NdpHost {
    NdpHost::new(config, NdpParams::default())
}

fn scdp(config: HostConfig) -> ScdpHost {
    ScdpHost::new(config, ScdpParams::default())
}

fn any_packet(seed: u64) -> FateOf {
    let mut rng = SmallRng::seed_from_u64(seed);
    Box::new(move |_, _| Fate::Drop.when(rng.random_bool(0.5)))
}

/// Which entropies are dead is a matter of the hash in the switches.
fn half_of_the_entropies(seed: u64) -> FateOf {
    Box::new(move |_, header: &EbbHeader| {
        let hash = (u64::from(header.entropy) ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Fate::Drop.when(hash >> 63 == 0)
    })
}

fn all_end_well<T: Transport + 'static>(make: fn(HostConfig) -> T) {
    for (packets, seeds) in [(1, 150), (3, 60), (12, 40), (40, 30), (300, 4)] {
        for seed in 0..seeds {
            for fate in [any_packet(seed), half_of_the_entropies(seed)] {
                let mut net = Network::new(2, PortParams::default(), make);
                net.fate = fate;
                net.send(0, 1, packets * 1432);
                net.run();
                net.pair(0, 1);
                assert_eq!(net.records.len(), 2, "{packets} packets, seed {seed}");
                assert!(!net.transport(0).is_active() && !net.transport(1).is_active());
            }
        }
    }
}

#[test]
fn ndp_flows_end_well_at_both_ends() {
    all_end_well(ndp);
}

#[test]
fn scdp_flows_end_well_at_both_ends() {
    all_end_well(scdp);
}
