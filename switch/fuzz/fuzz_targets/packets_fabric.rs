#![no_main]

use std::sync::LazyLock;

use ebb_switch_fuzz_harness::{Loaded, packets};

static PROGRAM: LazyLock<Loaded> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../build/fabric.json");
    Loaded::read(&std::fs::read(path).expect("build/fabric.json; `make build` makes it"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| packets(&PROGRAM, bytes));
