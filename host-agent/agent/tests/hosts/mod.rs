//! Two network namespaces joined by a veth, an agent in each.
//!
//! ```text
//!  ebb-{pid}-a: 10.0.0.2, gateway 10.0.0.3 ──veth── ebb-{pid}-b: 10.0.0.3, gateway 10.0.0.2
//! ```

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{AGENT, ip, sandbox, wait_until_up};

/// The two hosts; gone when dropped, with all that runs in them.
pub struct Hosts {
    pub name: String,
    pub dir: PathBuf,
}

impl Hosts {
    pub fn new() -> Self {
        let (name, dir) = sandbox("ebb");
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
        for side in ["a", "b"] {
            wait_until_up(&format!("{n}-{side}"));
        }
        hosts
    }

    pub fn agent(&self, side: &str, args: &str) -> Command {
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
    pub fn receive(&self, args: &str) -> Receiving {
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

    pub fn send(&self, args: &str) -> Output {
        let args = format!("send {args} 10.0.0.3:7000");
        self.agent("a", &args)
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap()
    }

    /// Waits for the temporary file, which appears with the first bytes.
    pub fn wait_for_bytes(&self) {
        let patience = Instant::now() + Duration::from_secs(30);
        while self.received().is_empty() {
            assert!(Instant::now() < patience, "nothing arrives");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn received(&self) -> Vec<String> {
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

pub struct Receiving {
    pub child: Child,
    pub lines: BufReader<std::process::ChildStdout>,
}

impl Receiving {
    /// Waits for the end; returns the records and whether the exit code was 0.
    pub fn end(mut self) -> (Vec<Value>, bool) {
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

    pub fn signal(&self, signal: libc::c_int) {
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
