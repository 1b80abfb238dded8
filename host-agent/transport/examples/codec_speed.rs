//! Speed of the RaptorQ codec on one processor, for `make bench`: prints one JSON object.
//! Argument: seconds per measurement.
//!
//! The work measured is that of SCDP per block: the symbols that are missing are source symbols,
//! and `OVERHEAD` more repair symbols than are missing have arrived. Time is processor time of this
//! thread, so that other processes do not count.

use std::hint::black_box;

use raptorq::{
    EncodingPacket, ObjectTransmissionInformation, SourceBlockDecoder, SourceBlockEncoder,
};
use serde_json::json;

/// Payload of a full packet with an MTU of 1500 bytes.
const SYMBOL_BYTES: u16 = 1432;
/// SCDP's `overhead_symbols`.
const OVERHEAD: u32 = 2;
/// SCDP's default number of symbols per block, and more and fewer.
const BLOCK_SYMBOLS: [u16; 4] = [25, 100, 400, 1000];
const MISSING: [u32; 2] = [1, 10];

fn main() {
    let seconds: f64 = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0.5);
    let mut rows = Vec::new();
    for block_symbols in BLOCK_SYMBOLS {
        for missing in MISSING {
            rows.push(measure(block_symbols, missing, seconds));
        }
    }
    println!(
        "{}",
        json!({"symbol_bytes": SYMBOL_BYTES, "overhead": OVERHEAD, "rows": rows})
    );
}

fn measure(block_symbols: u16, missing: u32, seconds: f64) -> serde_json::Value {
    let bytes = u64::from(block_symbols) * u64::from(SYMBOL_BYTES);
    let block: Vec<u8> = (0..bytes).map(|i| (i * 31 % 251) as u8).collect();
    let config = ObjectTransmissionInformation::new(bytes, SYMBOL_BYTES, 1, 1, 1);
    let encoder = SourceBlockEncoder::new(0, &config, &block);
    let repair = encoder.repair_packets(0, missing + OVERHEAD);
    // Missing ones are spread over the block.
    let step = u32::from(block_symbols) / missing;
    let is_missing = |esi: u32| esi.is_multiple_of(step) && esi / step < missing;
    let arrived: Vec<EncodingPacket> = encoder
        .source_packets()
        .into_iter()
        .filter(|packet| !is_missing(packet.payload_id().encoding_symbol_id()))
        .chain(repair)
        .collect();
    let decode = time_of(seconds, || {
        let mut decoder = SourceBlockDecoder::new(0, &config, bytes);
        let decoded = decoder.decode(arrived.iter().cloned());
        assert_eq!(decoded.map(|bytes| bytes.len()), Some(block.len()));
    });
    // The crate keeps the encoding plans of the block sizes that it met lately.
    let encoder_time = time_of(seconds / 2.0, || {
        black_box(SourceBlockEncoder::new(0, &config, &block));
    });
    let repair_symbol = time_of(seconds / 4.0, || {
        black_box(encoder.repair_packets(7, 1));
    });
    json!({
        "block_symbols": block_symbols,
        "missing": missing,
        "decode_mb_per_s": bytes as f64 / 1e6 / decode,
        "decode_us": decode * 1e6,
        "encoder_us": encoder_time * 1e6,
        "repair_symbol_us": repair_symbol * 1e6,
    })
}

/// Processor time of one call, in seconds: the mean over at least `seconds`.
fn time_of(seconds: f64, mut work: impl FnMut()) -> f64 {
    work();
    let mut calls = 1u32;
    loop {
        let start = processor_time();
        for _ in 0..calls {
            work();
        }
        let taken = processor_time() - start;
        if taken >= seconds {
            return taken / f64::from(calls);
        }
        calls = calls.saturating_mul(2);
    }
}

/// Processor time of this process, which has one thread, in seconds.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|n| n.parse().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}
