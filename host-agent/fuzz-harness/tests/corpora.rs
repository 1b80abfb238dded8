//! What the fuzzer has found worth keeping, again: one test for each target of `host-agent/fuzz`.
//! The inputs in `fuzz/corpora`; of a large corpus every n-th, or all with `EBB_FUZZ_CORPORA=all`.

use std::path::PathBuf;

use ebb_fuzz_harness::{self as harness, blind, corpus, on_path};
use ebb_transport::Scheme;

/// Inputs of one target that take about a second in the test profile.
const FEW: usize = 200;

/// Runs inputs of the corpus of `target`; a panic says which it was.
fn replay(target: &str, run: impl Fn(&[u8])) {
    let path = format!(
        "{}/../fuzz/corpora/{target}.corpus",
        env!("CARGO_MANIFEST_DIR")
    );
    let inputs = corpus::read(&PathBuf::from(path));
    assert!(!inputs.is_empty(), "the corpus of {target} is empty");
    let all = std::env::var_os("EBB_FUZZ_CORPORA").is_some_and(|value| value == "all");
    let step = if all { 1 } else { inputs.len().div_ceil(FEW) };
    for input in inputs.into_iter().step_by(step) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&input)));
        assert!(outcome.is_ok(), "{target} fails with {input:?}");
    }
}

macro_rules! corpora {
    ($($target:ident: $run:expr;)*) => {
        $(
            #[test]
            fn $target() {
                replay(stringify!($target), $run);
            }
        )*
    };
}

corpora! {
    wire: harness::wire;
    stream_head: harness::stream_head;
    ndp_blind: |bytes| blind(Scheme::Ndp, bytes);
    scdp_blind: |bytes| blind(Scheme::Scdp, bytes);
    tcp_blind: |bytes| blind(Scheme::Dctcp, bytes);
    ndp_on_path: |bytes| on_path(Scheme::Ndp, bytes);
    scdp_on_path: |bytes| on_path(Scheme::Scdp, bytes);
    tcp_on_path: |bytes| on_path(Scheme::Dctcp, bytes);
    hull_on_path: |bytes| on_path(Scheme::Hull, bytes);
}
