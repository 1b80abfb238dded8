//! Runs p4c's STF tests against the pipeline, without queues and ports.
//!
//! `cargo run -p ebb-pipeline --example stf -- JSON_DIR STF_DIR [NAME...]`: for every NAME.stf with
//! a NAME.json it says pass or fail and why; at the end how many.

mod run;
mod script;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [json_dir, stf_dir, names @ ..] = args.as_slice() else {
        eprintln!("usage: stf JSON_DIR STF_DIR [NAME...]");
        return ExitCode::from(2);
    };
    let names = if names.is_empty() {
        match all_names(stf_dir) {
            Ok(names) => names,
            Err(e) => {
                eprintln!("cannot list {stf_dir}: {e}");
                return ExitCode::from(2);
            }
        }
    } else {
        names.to_vec()
    };
    let (mut passed, mut failed, mut absent) = (0, 0, 0);
    for name in names {
        let json = Path::new(json_dir).join(format!("{name}.json"));
        let stf = Path::new(stf_dir).join(format!("{name}.stf"));
        if !json.exists() {
            absent += 1;
            continue;
        }
        match run::file(&json, &stf) {
            Ok(()) => passed += 1,
            Err(e) => {
                failed += 1;
                println!("FAIL {name}: {e}");
            }
        }
    }
    println!("{passed} passed, {failed} failed, {absent} without JSON");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn all_names(dir: &str) -> std::io::Result<Vec<String>> {
    let mut names: Vec<String> = std::fs::read_dir(dir)?
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter_map(|n| n.strip_suffix(".stf").map(str::to_owned))
        .collect();
    names.sort();
    Ok(names)
}
