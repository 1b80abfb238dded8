//! The harness with random bytes. What the fuzzer has found worth keeping is in `corpora.rs`.

use std::sync::LazyLock;

use ebb_switch_fuzz_harness::{
    Loaded, PROGRAMS, Target, bmv2_json, controllers, p4, p4runtime, packets,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

static KITCHEN_SINK: LazyLock<Loaded> = LazyLock::new(|| Loaded::compile(PROGRAMS[0]));
static ROUTER: LazyLock<Loaded> = LazyLock::new(|| Loaded::compile(PROGRAMS[1]));

/// Long enough for a few dozen operations.
fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}

/// The same inputs in every run, or with `EBB_FUZZ_CASES=N` that many others: a fuzzer without coverage, where there is
/// no nightly compiler.
fn config(cases: u32) -> ProptestConfig {
    let others = std::env::var("EBB_FUZZ_CASES").ok();
    let others = others.map(|n| n.parse().expect("EBB_FUZZ_CASES is a number"));
    ProptestConfig {
        cases: others.unwrap_or(ebb_testkit::cases(cases)),
        rng_seed: match others {
            Some(_) => RngSeed::Random,
            None => RngSeed::Fixed(2026),
        },
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(75))]

    #[test]
    fn the_compiler_answers(bytes in bytes(40)) {
        p4(&bytes);
    }
}

proptest! {
    #![proptest_config(config(250))]

    #[test]
    fn files_are_loaded_or_refused(bytes in bytes(120)) {
        bmv2_json(&KITCHEN_SINK, &bytes);
    }
}

static TARGET: LazyLock<Target> = LazyLock::new(Target::fixture);

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn requests_are_done_or_refused(bytes in bytes(2000)) {
        p4runtime(&TARGET, &bytes);
    }
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn controllers_do_not_confuse_the_switch(bytes in bytes(1500)) {
        controllers(&TARGET, &bytes);
    }
}

proptest! {
    #![proptest_config(config(75))]

    #[test]
    fn every_executor_does_the_same(sink in bytes(3000), router in bytes(1500)) {
        packets(&KITCHEN_SINK, &sink);
        packets(&ROUTER, &router);
    }
}
