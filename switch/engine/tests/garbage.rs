//! Any bytes on any port: nothing panics, and every frame is sent, dropped or still queued.

use ebb_engine::SwitchReport;
use ebb_engine::simulation::Simulation;
use ebb_units::{BitRate, Instant};
use proptest::prelude::*;

use crate::outside::*;
use crate::switches::*;

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(ebb_testkit::cases(64))
    })]

    #[test]
    fn garbage_is_accounted_for(
        frames in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..200), 0..30_000u64, 0..4u8), 1..60),
    ) {
        let mut fabric = Simulation::new();
        let s = fabric.add_switch(switch("s", deflecting_profile(BitRate::from_mbps(100), 100)));
        for port in [1, 2] {
            attach(&mut fabric, at(s, port));
        }
        fabric.with_switch(s, |switch| {
            forward(switch, 1, 2);
            forward(switch, 2, 400);
            forward(switch, 3, CPU_PORT);
        });
        let count = frames.len() as u64;
        for (mut bytes, at_ns, to) in frames {
            // Some reach a table entry, most are noise from the first byte on.
            if let (Some(address), true) = (bytes.get_mut(..6), to > 0) {
                address.copy_from_slice(&mac(to));
            }
            inject(&mut fabric, Instant::from_nanos(at_ns), at(s, 1), bytes);
        }
        let sent = run(&mut fabric).len() as u64;
        let drops = SwitchReport::of(fabric.switch(s).expect("a switch")).drops;
        let dropped: u64 = drops.iter().map(|row| row.count.packets).sum();
        prop_assert_eq!(sent + dropped, count);
    }
}
