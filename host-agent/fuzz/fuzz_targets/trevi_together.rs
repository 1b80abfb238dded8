#![no_main]

use ebb_transport::Scheme;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ebb_fuzz_harness::together(Scheme::Trevi, bytes));
