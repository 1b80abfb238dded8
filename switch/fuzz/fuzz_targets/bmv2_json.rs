#![no_main]

use std::sync::LazyLock;

use ebb_switch_fuzz_harness::{Loaded, PROGRAMS, bmv2_json};

static BASE: LazyLock<Loaded> = LazyLock::new(|| Loaded::compile(PROGRAMS[0]));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bmv2_json(&BASE, bytes));
