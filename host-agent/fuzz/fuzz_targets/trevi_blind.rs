#![no_main]

use ebb_transport::TransportKind;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ebb_fuzz_harness::blind(TransportKind::Trevi, bytes));
