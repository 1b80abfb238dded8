#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ebb_switch_fuzz_harness::p4(bytes));
