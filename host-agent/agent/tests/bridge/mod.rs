//! Network namespaces on one bridge, with agents in them.
//!
//! ```text
//!  ebb-{pid}-{n}-a: 10.0.0.2 ──┐
//!  ebb-{pid}-{n}-b: 10.0.0.3 ──┼── bridge in ebb-{pid}-{n}-br
//!  ebb-{pid}-{n}-c: 10.0.0.4 ──┘
//! ```

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{AGENT, ip, sandbox};

const PATIENCE: Duration = Duration::from_secs(30);

pub struct Hosts {
    name: String,
    pub dir: PathBuf,
}

impl Hosts {
    pub fn new() -> Self {
        let (name, dir) = sandbox("ebb");
        let params = r#"{"nic": {"rate_bps": 100000000}}"#;
        std::fs::write(dir.join("params.json"), params).unwrap();
        let hosts = Hosts { name, dir };
        let n = &hosts.name;
        ip(&format!("netns add {n}-br"));
        let bridge = "link add name br0 type bridge mcast_snooping 0";
        ip(&format!("-n {n}-br {bridge}"));
        ip(&format!("-n {n}-br link set br0 up"));
        for (side, number) in [("a", 2), ("b", 3), ("c", 4)] {
            ip(&format!("netns add {n}-{side}"));
            let peer = format!("type veth peer name p{number} netns {n}-br");
            ip(&format!("-n {n}-{side} link add eth1 {peer}"));
            ip(&format!("-n {n}-br link set p{number} master br0 up"));
            let address = format!("address add 10.0.0.{number}/24 dev eth1");
            ip(&format!("-n {n}-{side} {address}"));
            ip(&format!("-n {n}-{side} link set eth1 up"));
            ip(&format!("-n {n}-{side} link set lo up"));
        }
        hosts
    }

    /// A command that has an engine of its own, at 100 Mbit/s.
    pub fn agent(&self, side: &str, args: &str) -> Command {
        let mut command = self.client(side, args);
        command.arg("--params").arg(self.dir.join("params.json"));
        command
    }

    /// A command that uses the daemon of its host if there is one.
    pub fn client(&self, side: &str, args: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{}-{side}", self.name), AGENT]);
        command.args(args.split_whitespace());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.current_dir(&self.dir);
        command
    }

    /// A directory of this test.
    pub fn make_dir(&self, name: &str) -> PathBuf {
        let dir = self.dir.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for side in ["a", "b", "c", "br"] {
            ip(&format!("netns delete {}-{side}", self.name));
        }
        std::fs::remove_dir_all(&self.dir).unwrap();
    }
}

/// A running agent; killed when dropped.
pub struct Running {
    pub child: Child,
    pub lines: BufReader<ChildStdout>,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Running { child, lines }
    }

    /// Waits until it listens for so many schemes.
    pub fn ready(command: Command, schemes: usize) -> Self {
        let mut running = Running::start(command);
        for _ in 0..schemes {
            let line = running.line();
            assert_eq!(line["event"], "ready", "{line}");
        }
        running
    }

    pub fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("`{line}` {}", self.stderr()))
    }

    fn stderr(&mut self) -> String {
        let _ = self.child.kill();
        let mut text = String::new();
        let _ = self.child.stderr.take().unwrap().read_to_string(&mut text);
        text
    }

    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: no pointers; the child has not been waited for, so its id is still its own.
        let result = unsafe { libc::kill(self.child.id().cast_signed(), signal) };
        assert_eq!(result, 0);
    }

    /// Waits for the end; whether the exit code was 0.
    pub fn end(mut self) -> bool {
        wait_until("it ends", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
