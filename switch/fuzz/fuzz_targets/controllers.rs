#![no_main]

use std::sync::LazyLock;

use ebb_switch_fuzz_harness::{Target, controllers};

static TARGET: LazyLock<Target> = LazyLock::new(Target::fixture);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| controllers(&TARGET, bytes));
