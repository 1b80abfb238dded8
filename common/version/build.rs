//! Asks git for the commit in the release profile only, which `cargo install` uses. In the profiles of development a
//! new commit must not recompile anything: there make writes it into a file beside the programs.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = if release { commit() } else { None };
    println!("cargo::rustc-env=EBB_COMMIT={}", commit.unwrap_or_default());
}

/// The commit with + if files differ from it; none: there is no git, or no repository.
fn commit() -> Option<String> {
    // Git appends to this file at every commit, checkout and rebase.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&[
        "describe",
        "--always",
        "--abbrev=40",
        "--exclude=*",
        "--dirty=+",
    ])
}

/// Output of a command of git; none: it failed.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
