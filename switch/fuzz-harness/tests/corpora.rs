//! Replay of inputs that the fuzzer found worth keeping: one test for each target of `switch/fuzz`.
//! The inputs in `fuzz/corpora`; of a large corpus every n-th, or all with `EBB_FUZZ_CORPORA=all`.

use std::path::Path;
use std::sync::LazyLock;

use ebb_fuzz_corpus::replay;
use ebb_switch_fuzz_harness::{self as harness, Loaded, PROGRAMS, Target};

static KITCHEN_SINK: LazyLock<Loaded> = LazyLock::new(|| Loaded::compile(PROGRAMS[0]));
static FABRIC: LazyLock<Loaded> = LazyLock::new(Loaded::fabric);
static TARGET: LazyLock<Target> = LazyLock::new(Target::fixture);

macro_rules! corpora {
    ($($target:ident: $few:expr, $run:expr;)*) => {
        $(
            #[test]
            fn $target() {
                let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpora");
                replay(&corpora.join(concat!(stringify!($target), ".corpus")), $few, $run);
            }
        )*
    };
}

// How many inputs of each corpus are replayed: as many as take about a second in the test profile.
corpora! {
    p4: 100, harness::p4;
    bmv2_json: 40, |bytes| harness::bmv2_json(&KITCHEN_SINK, bytes);
    packets_kitchen_sink: 60, |bytes| harness::packets(&KITCHEN_SINK, bytes);
    packets_fabric: 200, |bytes| harness::packets(&FABRIC, bytes);
    p4runtime: 200, |bytes| harness::p4runtime(&TARGET, bytes);
    controllers: 200, |bytes| harness::controllers(&TARGET, bytes);
}
