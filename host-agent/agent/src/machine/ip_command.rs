//! `ip` of iproute2, which every emulated host has: addresses, routes and neighbours as JSON.

use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

/// Runs `ip -json` with `args` and returns the array that it prints.
pub fn query(args: &[&str]) -> anyhow::Result<Vec<Value>> {
    let text = run(&[&["-json"], args].concat())?;
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(&text)
        .with_context(|| format!("`ip -json {}` did not print a JSON array", args.join(" ")))
}

/// Runs `ip` with `args` and returns what it prints.
pub fn run(args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("ip")
        .args(args)
        .output()
        .context("cannot run `ip`; install iproute2 (apt install iproute2)")?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("`ip {}` failed: {}", args.join(" "), why.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
