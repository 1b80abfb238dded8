//! Replay of inputs that the fuzzer found worth keeping: one test for each target of `host-agent/fuzz`.
//! The inputs in `fuzz/corpora`; of a large corpus every n-th, or all with `EBB_FUZZ_CORPORA=all`.

use std::path::Path;

use ebb_fuzz_corpus::replay;
use ebb_fuzz_harness::{self as harness, blind, on_path, together};
use ebb_transport::TransportKind;

/// Inputs of one target that take about a second in the test profile.
const FEW: usize = 100;

macro_rules! corpora {
    ($($target:ident: $run:expr;)*) => {
        $(
            #[test]
            fn $target() {
                let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpora");
                replay(&corpora.join(concat!(stringify!($target), ".corpus")), FEW, $run);
            }
        )*
    };
}

corpora! {
    wire: harness::wire;
    stream_head: harness::stream_head;
    ndp_blind: |bytes| blind(TransportKind::Ndp, bytes);
    scdp_blind: |bytes| blind(TransportKind::Scdp, bytes);
    trevi_blind: |bytes| blind(TransportKind::Trevi, bytes);
    tcp_blind: |bytes| blind(TransportKind::Dctcp, bytes);
    ndp_on_path: |bytes| on_path(TransportKind::Ndp, bytes);
    scdp_on_path: |bytes| on_path(TransportKind::Scdp, bytes);
    trevi_on_path: |bytes| on_path(TransportKind::Trevi, bytes);
    scdp_together: |bytes| together(TransportKind::Scdp, bytes);
    trevi_together: |bytes| together(TransportKind::Trevi, bytes);
    tcp_on_path: |bytes| on_path(TransportKind::Dctcp, bytes);
    hull_on_path: |bytes| on_path(TransportKind::Hull, bytes);
    fastlane_on_path: |bytes| on_path(TransportKind::Fastlane, bytes);
}
