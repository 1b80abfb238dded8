#![no_main]

use std::sync::LazyLock;

use ebb_switch_fuzz_harness::{Target, p4runtime};

static TARGET: LazyLock<Target> = LazyLock::new(Target::fixture);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| p4runtime(&TARGET, bytes));
