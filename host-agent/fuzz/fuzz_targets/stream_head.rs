#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ebb_fuzz_harness::stream_head(bytes));
