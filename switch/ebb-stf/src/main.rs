//! `ebb-stf`: packet tests in the STF format of p4c's test data, on our switch (docs/stf.md).
//!
//! ```text
//! suite     finds tests; each runs in a process of its own (`--worker`), several at a time
//! program   P4 to BMv2 JSON
//! script    STF to commands (scan: words and numbers of a line)
//! run       commands, one after the other, on a bench: a switch with a host at each port
//! ```

mod bench;
mod entry;
mod expectation;
mod names;
mod options;
mod port;
mod profile;
mod program;
mod replication;
mod run;
mod scan;
mod script;
mod state;
mod suite;
mod verdict;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use clap::Parser;

use ebb_bmv2_json::Program;
use options::Arguments;
use script::Statement;
use suite::Pair;
use verdict::{Outcome, Verdict};

/// The size of the stack on which a test runs, since the compiler recurses as deeply as a program is nested.
const STACK_BYTES: usize = 256 << 20;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.worker || arguments.print_frames {
        true => work(arguments),
        false => run_all(&arguments),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ebb-stf: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the tests; true if all passed.
fn run_all(arguments: &Arguments) -> Result<bool> {
    let pairs = suite::find(&arguments.paths)?;
    if pairs.is_empty() {
        bail!("no test found: a .p4 or .json with an .stf of the same name beside it");
    }
    let verdicts = suite::run(&pairs, arguments, |pair, verdict| {
        let unusual = !matches!(verdict.outcome, Outcome::Pass | Outcome::OtherArchitecture);
        if arguments.verbose || unusual {
            // A single test is reported in full.
            let verbose = arguments.verbose || pairs.len() == 1;
            print(&describe(pair, verdict, verbose));
        }
    })?;
    let mut counts: BTreeMap<Outcome, usize> = BTreeMap::new();
    for verdict in &verdicts {
        *counts.entry(verdict.outcome).or_default() += 1;
    }
    print(&summary(&counts));
    let others = counts.get(&Outcome::OtherArchitecture).unwrap_or(&0);
    if *others == pairs.len() {
        bail!("nothing was run: no program includes v1model.p4, tna.p4, t2na.p4 or psa.p4");
    }
    let passed = counts.get(&Outcome::Pass).unwrap_or(&0);
    Ok(passed + others == pairs.len())
}

fn describe(pair: &Pair, verdict: &Verdict, verbose: bool) -> String {
    let mut text = format!("{:14} {}", verdict.outcome.name(), pair.program.display());
    match verbose {
        true => {
            let parts = [&verdict.details, &verdict.output, &verdict.traces];
            for detail in parts.into_iter().flatten() {
                for line in detail.trim_end().lines() {
                    text += "\n    ";
                    text += line;
                }
            }
        }
        false => {
            let detail = verdict.details.first().map_or("", |d| d.trim());
            text += ": ";
            text += detail.lines().next().unwrap_or_default();
        }
    }
    text
}

fn summary(counts: &BTreeMap<Outcome, usize>) -> String {
    let count = |outcome| counts.get(&outcome).copied().unwrap_or(0);
    let failed: Vec<String> = Outcome::FAILURES
        .into_iter()
        .filter(|outcome| count(*outcome) > 0)
        .map(|outcome| format!("{} {}", count(outcome), outcome.name()))
        .collect();
    let others = count(Outcome::OtherArchitecture);
    let total = counts.values().sum::<usize>() - others;
    let mut text = format!("{total} tests: {} passed", count(Outcome::Pass));
    if !failed.is_empty() {
        text += &format!(", failed: {}", failed.join(", "));
    }
    if others > 0 {
        text += &format!("; {others} more are for other architectures");
    }
    text
}

fn print(text: &str) {
    // Nobody may be listening any more.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// One test, in this process: its verdict, or the frames that leave.
fn work(arguments: Arguments) -> Result<bool> {
    let worker =
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn(move || -> Result<()> {
                let [pair] = &suite::find(&arguments.paths)?[..] else {
                    bail!("one program and one .stf file are wanted here");
                };
                match arguments.print_frames {
                    true => print_frames(pair, &arguments),
                    false => {
                        print(&serde_json::to_string(&judge(pair, &arguments))?);
                        Ok(())
                    }
                }
            })?;
    match worker.join() {
        Ok(result) => result.map(|()| true),
        // The message of the panic is on stderr.
        Err(_) => bail!("the test panicked"),
    }
}

fn print_frames(pair: &Pair, arguments: &Arguments) -> Result<()> {
    let frames = read(pair, arguments)
        .and_then(|(program, statements)| run::frames(&program, &statements, arguments.mode()))
        .map_err(|verdict| anyhow!("{}", describe(pair, &verdict, true)))?;
    let mut text = String::new();
    for (number, port, frame) in frames.sent {
        text += &format!("{number} {port} {}\n", expectation::hex(&frame));
    }
    for (line, problem) in frames.refused {
        text += &format!("refused {line} {}\n", problem.replace('\n', " "));
    }
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn judge(pair: &Pair, arguments: &Arguments) -> Verdict {
    match read(pair, arguments) {
        Ok((program, statements)) => run::run(&program, &statements, arguments.mode()),
        Err(verdict) => verdict,
    }
}

fn read(pair: &Pair, arguments: &Arguments) -> Result<(Program, Vec<Statement>), Verdict> {
    let program = arguments.compiler().program(&pair.program)?;
    let text = ebb_files::read(&pair.script).map_err(|error| {
        let problem = format!("cannot read {}: {error}", pair.script.display());
        Verdict::new(Outcome::BadTest, problem)
    })?;
    let statements = script::parse(&String::from_utf8_lossy(&text))
        .map_err(|error| Verdict::new(Outcome::BadTest, error.to_string()))?;
    Ok((program, statements))
}
