//! Programs that were made up: our compiler takes every one, and native code, interpreter and plain
//! interpreter do the same with random entries, other state and packets.
//!
//! `EBB_GENERATED=0..2000 cargo test -p ebb-switch-fuzz-harness generated::` takes other seeds than
//! the few fixed ones.

use std::ops::Range;

use ebb_p4_generator::program;
use ebb_switch_fuzz_harness::{Loaded, packets};

/// Seeds of every run: those that have found something (13, 16: labels that fall through to `default`), and a few more.
const SEEDS: [u64; 8] = [0, 1, 2, 3, 13, 16, 30, 205];
/// Bytes of an input for `packets`: a few dozen operations.
const INPUT_BYTES: usize = 1500;

/// The range that `EBB_GENERATED` names.
fn others() -> Option<Range<u64>> {
    let text = std::env::var("EBB_GENERATED").ok()?;
    let (first, end) = text.split_once("..").expect("EBB_GENERATED is FIRST..END");
    let number = |text: &str| text.parse().expect("EBB_GENERATED has numbers");
    Some(number(first)..number(end))
}

/// A linear congruential generator (Knuth's MMIX), of which the upper bits are good.
fn bytes(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..INPUT_BYTES).map(|_| next()).collect()
}

#[test]
fn generated_programs_compile_and_executors_agree() {
    let seeds: Vec<u64> = others().map_or(SEEDS.to_vec(), Iterator::collect);
    let mut wrong = Vec::new();
    for seed in &seeds {
        let run = || {
            let text = program(*seed);
            let loaded = Loaded::compile((&format!("generated-{seed}.p4"), &text));
            packets(&loaded, &bytes(*seed));
        };
        if let Err(problem) = std::panic::catch_unwind(run) {
            let text = problem.downcast_ref::<String>().map(String::as_str);
            wrong.push(format!("seed {seed}: {}", text.unwrap_or("a panic")));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        seeds.len(),
        wrong.join("\n")
    );
}
