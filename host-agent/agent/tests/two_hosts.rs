//! Two network namespaces joined by a veth, an agent in each. Needs root; says so if it skips.
//!
//! ```text
//!  ebb-{pid}-a: 10.0.0.2, gateway 10.0.0.3 ──veth── ebb-{pid}-b: 10.0.0.3, gateway 10.0.0.2
//! ```

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

const AGENT: &str = env!("CARGO_BIN_EXE_ebb-agent");

fn ip(args: &str) {
    let status = Command::new("ip")
        .args(args.split_whitespace())
        .status()
        .unwrap();
    assert!(status.success(), "ip {args}");
}

/// The two hosts; gone when dropped, with all that runs in them.
struct Hosts {
    name: String,
    dir: PathBuf,
}

impl Hosts {
    /// `None` without root.
    fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // SAFETY: no arguments, cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!("SKIPPED: needs root for network namespaces");
            return None;
        }
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ebb-{}-{count}", std::process::id());
        let dir = std::env::temp_dir().join(&name);
        std::fs::create_dir_all(dir.join("received")).unwrap();
        std::fs::write(
            dir.join("params.json"),
            r#"{"nic": {"rate_bps": 100000000}}"#,
        )
        .unwrap();
        let hosts = Hosts { name, dir };
        let n = &hosts.name;
        for side in ["a", "b"] {
            ip(&format!("netns add {n}-{side}"));
        }
        ip(&format!(
            "-n {n}-a link add eth1 type veth peer name eth1 netns {n}-b"
        ));
        for (side, own, peer) in [("a", "10.0.0.2", "10.0.0.3"), ("b", "10.0.0.3", "10.0.0.2")] {
            ip(&format!("-n {n}-{side} address add {own}/32 dev eth1"));
            ip(&format!("-n {n}-{side} link set eth1 up"));
            ip(&format!("-n {n}-{side} link set lo up"));
            ip(&format!(
                "-n {n}-{side} route add default via {peer} dev eth1 onlink"
            ));
        }
        Some(hosts)
    }

    fn agent(&self, side: &str, args: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{}-{side}", self.name), AGENT]);
        command.args(args.split_whitespace());
        command
            .args(["--interface", "eth1", "--params"])
            .arg(self.dir.join("params.json"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a receiver and waits until it listens.
    fn receive(&self, args: &str) -> Receiving {
        let mut child = self
            .agent("b", &format!("recv --port 7000 {args}"))
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains(r#""event":"ready""#), "{line}");
        Receiving { child, lines }
    }

    fn send(&self, args: &str) -> Output {
        let args = format!("send {args} 10.0.0.3:7000");
        self.agent("a", &args)
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap()
    }

    /// Waits for the temporary file, which appears with the first bytes.
    fn wait_for_bytes(&self) {
        let patience = Instant::now() + Duration::from_secs(30);
        while self.received().is_empty() {
            assert!(Instant::now() < patience, "nothing arrives");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn received(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.join("received")).unwrap();
        entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for side in ["a", "b"] {
            ip(&format!("netns delete {}-{side}", self.name));
        }
        std::fs::remove_dir_all(&self.dir).unwrap();
    }
}

struct Receiving {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Receiving {
    /// Waits for the end; returns the records and whether the exit code was 0.
    fn end(mut self) -> (Vec<Value>, bool) {
        let mut text = String::new();
        self.lines.read_to_string(&mut text).unwrap();
        let good = self.child.wait().unwrap().success();
        (
            text.lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect(),
            good,
        )
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: no pointers; the child has not been waited for, so its id is still its own.
        assert_eq!(
            unsafe { libc::kill(self.child.id() as libc::pid_t, signal) },
            0
        );
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn record(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim())
        .unwrap_or_else(|_| panic!("`{text}` {}", String::from_utf8_lossy(&output.stderr)))
}

fn write_random(path: &Path, bytes: usize) -> Vec<u8> {
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

#[test]
fn a_file_arrives_over_every_scheme() {
    let Some(hosts) = Hosts::new() else { return };
    let file = hosts.dir.join("file.bin");
    let content = write_random(&file, 1_000_000);
    for scheme in ["ndp", "scdp", "reno", "reno-ecn", "dctcp", "hull"] {
        let dir = hosts.dir.join("received");
        let receiving = hosts.receive(&format!(
            "--scheme {scheme} --count 1 --dir {}",
            dir.display()
        ));
        let output = hosts.send(&format!("--scheme {scheme} {}", file.display()));
        let sent = record(&output);
        assert!(output.status.success(), "{scheme}: {sent}");
        assert_eq!(sent["status"], "finished");
        let (records, good) = receiving.end();
        assert!(good, "{scheme}: {records:?}");
        assert_eq!(records[0]["sha256_ok"], true);
        assert_eq!(records[0]["object_bytes"], 1_000_000);
        assert_eq!(hosts.received(), ["file.bin"]);
        assert!(
            std::fs::read(dir.join("file.bin")).unwrap() == content,
            "{scheme}"
        );
        std::fs::remove_file(dir.join("file.bin")).unwrap();
        // The kernel stayed out of it: it would have reset the connection or sent ICMP.
        assert_eq!(sent["scheme"], scheme);
    }
}

/// The frames go to the group's MAC address, and the pulls come back by unicast.
#[test]
fn an_object_arrives_at_a_group() {
    let Some(hosts) = Hosts::new() else { return };
    let receiving = hosts.receive("--scheme scdp --count 1");
    let args = "send --group 239.0.0.1 --scheme scdp --generate 1000000 10.0.0.3:7000";
    let output = hosts.agent("a", args).output().unwrap();
    let sent = record(&output);
    assert!(output.status.success(), "{sent}");
    assert_eq!(sent["peer"], "239.0.0.1:7000");
    assert_eq!(sent["receivers"], 1);
    assert_eq!(sent["receivers_finished"], 1);
    let (records, good) = receiving.end();
    assert!(good, "{records:?}");
    assert_eq!(records[0]["sha256_ok"], true);
    let args = "send --group 239.0.0.1 --scheme ndp --generate 1 10.0.0.3:7000";
    let output = hosts.agent("a", args).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("no one-to-many flows"), "{text}");
}

#[test]
fn a_stopped_receiver_fails_the_sender_and_leaves_no_file() {
    let Some(hosts) = Hosts::new() else { return };
    for scheme in ["ndp", "scdp"] {
        let dir = hosts.dir.join("received");
        let receiving = hosts.receive(&format!("--scheme {scheme} --dir {}", dir.display()));
        let sender = hosts
            .agent(
                "a",
                &format!("send --scheme {scheme} --generate 20000000 10.0.0.3:7000"),
            )
            .spawn()
            .unwrap();
        hosts.wait_for_bytes();
        receiving.signal(libc::SIGTERM);
        let (records, _) = receiving.end();
        assert_eq!(records[0]["status"], "failed");
        assert!(hosts.received().is_empty(), "{:?}", hosts.received());
        let output = sender.wait_with_output().unwrap();
        let sent = record(&output);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            sent["reason"].as_str().unwrap().contains("aborted"),
            "{sent}"
        );
    }
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_fails_the_flow() {
    let Some(hosts) = Hosts::new() else { return };
    let file = hosts.dir.join("file.bin");
    let dir = hosts.dir.join("received");
    for scheme in ["ndp", "scdp", "dctcp"] {
        write_random(&file, 4_000_000);
        let receiving = hosts.receive(&format!(
            "--scheme {scheme} --count 1 --dir {}",
            dir.display()
        ));
        let args = format!("send --scheme {scheme} {} 10.0.0.3:7000", file.display());
        let sender = hosts.agent("a", &args).spawn().unwrap();
        hosts.wait_for_bytes();
        let open = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
        open.set_len(1000).unwrap();
        let output = sender.wait_with_output().unwrap();
        let reason = record(&output)["reason"].to_string();
        assert!(
            reason.contains("cannot read the object"),
            "{scheme}: {reason}"
        );
        let (records, good) = receiving.end();
        assert!(!good, "{scheme}: {records:?}");
        assert_eq!(records[0]["status"], "failed", "{scheme}: {records:?}");
        assert!(hosts.received().is_empty());
    }
}

#[test]
fn a_killed_receiver_fails_the_sender_and_the_next_one_cleans_up() {
    let Some(hosts) = Hosts::new() else { return };
    let dir = hosts.dir.join("received");
    let args = format!("--scheme ndp --dir {}", dir.display());
    let mut receiving = hosts.receive(&args);
    let sender = hosts
        .agent("a", "send --scheme ndp --generate 20000000 10.0.0.3:7000")
        .spawn()
        .unwrap();
    hosts.wait_for_bytes();
    receiving.child.kill().unwrap();
    receiving.child.wait().unwrap();
    let output = sender.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(record(&output)["status"], "failed");
    let left = hosts.received();
    assert!(
        left.len() == 1 && left[0].starts_with(".ebb-") && left[0].ends_with(".part"),
        "{left:?}"
    );
    let next = hosts.receive(&args);
    assert!(hosts.received().is_empty(), "{:?}", hosts.received());
    drop(next);
}

#[test]
fn a_receiver_outlives_its_link() {
    let Some(hosts) = Hosts::new() else { return };
    let n = &hosts.name;
    for scheme in ["ndp", "dctcp"] {
        let dir = hosts.dir.join("received");
        let args = format!("--scheme {scheme} --count 2 --dir {}", dir.display());
        let receiving = hosts.receive(&args);
        let args = format!("send --scheme {scheme} --generate 20000000 10.0.0.3:7000");
        let sender = hosts.agent("a", &args).spawn().unwrap();
        hosts.wait_for_bytes();
        ip(&format!("-n {n}-b link set eth1 down"));
        let output = sender.wait_with_output().unwrap();
        assert_eq!(record(&output)["status"], "failed");
        std::thread::sleep(Duration::from_millis(1200));
        ip(&format!("-n {n}-b link set eth1 up"));
        ip(&format!(
            "-n {n}-b route replace default via 10.0.0.2 dev eth1 onlink"
        ));
        let output = hosts.send(&format!("--scheme {scheme} --generate 1000"));
        assert!(output.status.success(), "{}", record(&output));
        let (records, _) = receiving.end();
        let ends: Vec<_> = records.iter().map(|r| r["status"].to_string()).collect();
        assert_eq!(ends, [r#""failed""#, r#""finished""#]);
        std::fs::remove_file(dir.join("generated-1000-0.bin")).unwrap();
    }
}

#[test]
fn nobody_has_to_read_the_records() {
    let Some(hosts) = Hosts::new() else { return };
    let mut receiving = hosts.receive("--scheme ndp --count 60");
    // More lines than a pipe of 16 pages holds would take long: a smaller one.
    // SAFETY: no pointers; the descriptor is open.
    let size = unsafe {
        use std::os::fd::AsRawFd;
        libc::fcntl(
            receiving.lines.get_ref().as_raw_fd(),
            libc::F_SETPIPE_SZ,
            4096,
        )
    };
    assert_eq!(size, 4096);
    for _ in 0..12 {
        let output = hosts.send("--scheme ndp --generate 100");
        assert!(output.status.success(), "{}", record(&output));
    }
    receiving.signal(libc::SIGINT);
    let patience = Instant::now() + Duration::from_secs(10);
    while receiving.child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < patience, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_sender_without_receiver_gives_up() {
    let Some(hosts) = Hosts::new() else { return };
    for scheme in ["ndp", "scdp"] {
        let output = hosts.send(&format!("--scheme {scheme} --generate 1000"));
        assert_eq!(output.status.code(), Some(1));
        assert!(
            record(&output)["reason"]
                .as_str()
                .unwrap()
                .contains("silent")
        );
    }
}

#[test]
fn what_cannot_work_is_said_in_one_line() {
    let Some(hosts) = Hosts::new() else { return };
    let mut outputs = Vec::new();
    let first = hosts.receive("--scheme ndp");
    let second = hosts
        .agent("b", "recv --port 7000 --scheme scdp")
        .output()
        .unwrap();
    outputs.push((second, "port 7000 of 10.0.0.3 is in use"));
    drop(first);
    let mut command = hosts.agent("a", "send --scheme ndp --generate 5 10.0.0.3:7000");
    command.args(["--name", "../x"]);
    outputs.push((command.output().unwrap(), "not a single path component"));
    let missing = hosts.send("--scheme ndp /nowhere/x");
    outputs.push((missing, "cannot open /nowhere/x"));
    let mut command = Command::new("ip");
    let netns = format!("{}-a", hosts.name);
    command.args([
        "netns", "exec", &netns, AGENT, "recv", "--port", "7", "--scheme", "ndp",
    ]);
    command.args(["--interface", "h9-eth9"]);
    outputs.push((command.output().unwrap(), "there is no interface `h9-eth9`"));
    for (output, expected) in outputs {
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(expected), "`{text}` lacks `{expected}`");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
