//! The binary on packet tests. One executable: linking takes longer than most of the tests.

mod bmv2;
mod suites;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

/// A file or folder of the tests.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

fn stf(arguments: &[&str], paths: &[PathBuf]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ebb-stf"))
        .args(arguments)
        .args(paths)
        .output()
        .expect("it starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn main() -> ExitCode {
    ebb_testkit::run_trials([suites::trials(), bmv2::trials()])
}
