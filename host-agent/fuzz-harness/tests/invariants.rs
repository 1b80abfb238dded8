//! The harness with random bytes. What the fuzzer found and a person reduced is in `found.rs`.

use ebb_fuzz_harness::{blind, on_path, stream_head, together, wire};
use ebb_transport::TransportKind;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn any_transport() -> impl Strategy<Value = TransportKind> {
    prop::sample::select(vec![
        TransportKind::Ndp,
        TransportKind::Scdp,
        TransportKind::Reno,
        TransportKind::Dctcp,
        TransportKind::Hull,
        TransportKind::Detail,
        TransportKind::Fastlane,
        TransportKind::Pfabric,
        TransportKind::Trevi,
    ])
}

/// Long enough for a few dozen operations.
fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}

proptest! {
    // The same inputs in every run: to look for new ones is what the fuzzer is for.
    #![proptest_config(ProptestConfig {
        cases: ebb_testkit::cases(64),
        rng_seed: RngSeed::Fixed(2012),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn parsers_take_anything(bytes in bytes(200)) {
        wire(&bytes);
        stream_head(&bytes);
        let mut envelope = vec![bytes.len() as u8];
        envelope.extend_from_slice(b"EBB1\0\x01\0\0\0\0\0\0\0");
        envelope.extend_from_slice(&bytes);
        stream_head(&envelope);
    }

    #[test]
    fn strangers_do_no_harm(transport in any_transport(), bytes in bytes(1500)) {
        blind(transport, &bytes);
    }

    #[test]
    fn whatever_happens_on_the_path_ends(transport in any_transport(), bytes in bytes(1500)) {
        on_path(transport, &bytes);
    }

    #[test]
    fn whatever_happens_to_groups_and_to_reads_from_several_ends(
        transport in prop::sample::select(vec![TransportKind::Scdp, TransportKind::Trevi]),
        bytes in bytes(1500),
    ) {
        together(transport, &bytes);
    }
}
