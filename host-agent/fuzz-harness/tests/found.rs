//! Inputs with which the fuzzer broke an invariant, reduced. Each says what was wrong.

use ebb_fuzz_harness::on_path;
use ebb_transport::Scheme;

/// A forged ACK ahead of the receiver shut the window for good: the receiver's own word counted as
/// older, the sender probed for ever, and the probes kept the receiver waiting.
#[test]
fn a_window_that_only_one_end_believes_shut() {
    let bytes = [
        0x18, 0x9f, 0xfe, 0xff, 0xff, 0xff, 0x51, 0x59, 0x77, 0x6b, 0x59, 0x77, 0x6b, 0xb1, 0x27,
        0x1f, 0x6b,
    ];
    on_path(Scheme::Dctcp, &bytes);
}
