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

use anyhow::{Result, bail};
use clap::Parser;

use options::Arguments;
use run::Mode;
use suite::Pair;
use verdict::{Outcome, Verdict};

/// For the compiler, which recurses as deeply as a program is nested.
const STACK_BYTES: usize = 256 << 20;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.worker {
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
            // Of a single test everything is of interest.
            let verbose = arguments.verbose || pairs.len() == 1;
            tell(&describe(pair, verdict, verbose));
        }
    })?;
    let mut counts: BTreeMap<Outcome, usize> = BTreeMap::new();
    for verdict in &verdicts {
        *counts.entry(verdict.outcome).or_default() += 1;
    }
    tell(&summary(&counts));
    let others = counts.get(&Outcome::OtherArchitecture).unwrap_or(&0);
    if *others == pairs.len() {
        bail!("nothing was run: no program includes v1model.p4");
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
        text += &format!("; {others} more are not for v1model");
    }
    text
}

fn tell(text: &str) {
    // Nobody may be listening any more.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// One test, in this process.
fn work(arguments: Arguments) -> Result<bool> {
    let worker =
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn(move || -> Result<()> {
                let [pair] = &suite::find(&arguments.paths)?[..] else {
                    bail!("--worker takes one program and one .stf file");
                };
                let verdict = judge(pair, &arguments);
                tell(&serde_json::to_string(&verdict)?);
                Ok(())
            })?;
    match worker.join() {
        Ok(result) => result.map(|()| true),
        // The message of the panic is on stderr.
        Err(_) => bail!("the test panicked"),
    }
}

fn judge(pair: &Pair, arguments: &Arguments) -> Verdict {
    let program = match arguments.compiler().program(&pair.program) {
        Ok(program) => program,
        Err(verdict) => return verdict,
    };
    let text = match std::fs::read(&pair.script) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            let problem = format!("cannot read {}: {error}", pair.script.display());
            return Verdict::new(Outcome::BadTest, problem);
        }
    };
    let mode = Mode {
        interpreted: arguments.interpreted,
    };
    match script::parse(&text) {
        Ok(statements) => run::run(&program, &statements, mode),
        Err(error) => Verdict::new(Outcome::BadTest, error.to_string()),
    }
}
