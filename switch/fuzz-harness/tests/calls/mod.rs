//! Calls with side effects, in arguments of calls and operands, against a small evaluator that follows the text of the
//! specification: for random programs, compiled and run as native code and interpreted, every frame must leave as the
//! evaluator says.
//!
//! `EBB_CALLS=0..5000 cargo test -p ebb-switch-fuzz-harness calls::` takes these seeds.

mod evaluate;
mod generate;
mod model;

use std::ops::Range;

use ebb_p4_generator::Dice;
use ebb_pipeline::{EgressInput, EgressVerdict, IngressInput, IngressVerdict, Pipeline};
use ebb_units::Instant;

use evaluate::Machine;
use model::ELEMENTS;

/// Programs of every day.
const PROGRAMS: u32 = 60;
/// Frames for each.
const FRAMES: usize = 8;
/// How many calls the programs of a day make at least; fewer would say that the generator makes none that matter.
const LEAST_CALLS: usize = 2000;

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("EBB_CALLS") else {
        return 0..u64::from(ebb_testkit::cases(PROGRAMS));
    };
    let (first, end) = text.split_once("..").expect("EBB_CALLS is FIRST..END");
    let number = |text: &str| text.parse().expect("EBB_CALLS has numbers");
    number(first)..number(end)
}

/// The frame that leaves when one comes in.
fn passed(pipeline: &mut Pipeline, frame: &[u8]) -> Option<Vec<u8>> {
    let now = Instant::ZERO;
    let outcome = pipeline.ingress(now, frame.to_vec(), &IngressInput::default());
    let IngressVerdict::Unicast { packet, .. } = outcome.verdict else {
        return None;
    };
    match pipeline
        .egress(now, packet, &EgressInput::default())
        .verdict
    {
        EgressVerdict::Transmit(frame) => Some(frame),
        _ => None,
    }
}

/// How many calls a program makes, or what is wrong with what it does.
fn run(seed: u64) -> Result<usize, String> {
    let program = generate::program(seed);
    let json = ebb_p4c::compile_text("calls.p4", &program.to_string())?.json;
    let executors = [Pipeline::load(&json), Pipeline::load_interpreted(&json)];
    let mut machine = Machine::new(&program);
    let mut dice = Dice::new(seed);
    let frames: Vec<Vec<u8>> = (0..FRAMES)
        .map(|_| {
            let small = dice.chance(50);
            let byte = |_| match small {
                true => dice.below(4) as u8,
                false => dice.below(256) as u8,
            };
            (0..program.fields.len() + ELEMENTS + 2).map(byte).collect()
        })
        .collect();
    let expected: Vec<Vec<u8>> = frames.iter().map(|f| machine.frame(f)).collect();
    for (name, executor) in ["native code", "interpreter"].into_iter().zip(executors) {
        let mut pipeline = executor.map_err(|problem| problem.to_string())?;
        for (frame, expected) in frames.iter().zip(&expected) {
            let found = passed(&mut pipeline, frame);
            if found.as_ref() != Some(expected) {
                return Err(format!(
                    "{name}: {frame:02x?} becomes\n{found:02x?}, not\n     {expected:02x?}"
                ));
            }
        }
    }
    Ok(machine.calls)
}

#[test]
fn calls_do_what_the_specification_says() {
    let (mut calls, mut wrong) = (0, Vec::new());
    let seeds = seeds();
    for seed in seeds.clone() {
        match run(seed) {
            Ok(made) => calls += made,
            Err(problem) => {
                let text = generate::program(seed).to_string();
                wrong.push(format!("seed {seed}: {problem}\n{text}"));
            }
        }
    }
    println!("{calls} calls of {} programs", seeds.clone().count());
    assert!(
        wrong.is_empty(),
        "{} wrong, of which the first is\n{}",
        wrong.len(),
        wrong[0]
    );
    let least = LEAST_CALLS * seeds.count() / PROGRAMS as usize;
    assert!(calls >= least, "{calls} calls only");
}
