#![no_main]

use std::sync::LazyLock;

use ebb_switch_fuzz_harness::{Loaded, packets};

static PROGRAM: LazyLock<Loaded> = LazyLock::new(Loaded::fabric);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| packets(&PROGRAM, bytes));
