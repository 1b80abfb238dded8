//! What all tests in network namespaces need. They need root: `ebb_test_needs`.
#![allow(dead_code)] // no test file uses all of it

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

pub const AGENT: &str = env!("CARGO_BIN_EXE_ebb-agent");

/// A program with these arguments, which must succeed.
pub fn run(program: &str, args: &str) {
    let status = Command::new(program)
        .args(args.split_whitespace())
        .status()
        .unwrap();
    assert!(status.success(), "{program} {args}");
}

pub fn ip(args: &str) {
    run("ip", args);
}

/// A name that nobody else has, and a directory of that name.
pub fn sandbox(prefix: &str) -> (String, PathBuf) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{prefix}-{}-{count}", std::process::id());
    let dir = std::env::temp_dir().join(&name);
    std::fs::create_dir_all(&dir).unwrap();
    (name, dir)
}

/// Until its interfaces are up, which a busy kernel takes its time for, what is sent is dropped.
pub fn wait_until_up(namespace: &str) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let args = ["-n", namespace, "-o", "link", "show", "type", "veth"];
        let output = Command::new("ip").args(args).output().unwrap();
        let links = String::from_utf8_lossy(&output.stdout);
        if links.lines().all(|link| link.contains("state UP")) {
            return;
        }
        assert!(Instant::now() < end, "{links}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The only line on stdout.
pub fn record(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim())
        .unwrap_or_else(|_| panic!("`{text}` {}", String::from_utf8_lossy(&output.stderr)))
}

/// A file of bytes that no coding or compression shortens, the same ones every time.
pub fn write_random(path: &Path, bytes: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let content: Vec<u8> = (0..bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect();
    std::fs::write(path, &content).unwrap();
    content
}
