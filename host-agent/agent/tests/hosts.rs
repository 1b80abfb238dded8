//! Hosts in network namespaces of their own, with agents in them.
//!
//! ```text
//!  pair:        a 10.0.0.2, gateway 10.0.0.3 ──veth── b 10.0.0.3, gateway 10.0.0.2
//!
//!  on_bridge:   a 10.0.0.2 ──┐
//!               b 10.0.0.3 ──┼── bridge
//!               c 10.0.0.4 ──┘
//! ```

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{ChildStdout, Command, Output, Stdio};

use ebb_testkit::{Folder, Namespace, Process, Signal, names, wait_until};
use serde_json::Value;

pub const AGENT: &str = env!("CARGO_BIN_EXE_ebb-agent");

/// The hosts a, b and so on, and a folder; all of it goes when dropped.
pub struct Hosts {
    spaces: Vec<Namespace>,
    bridge: Option<Namespace>,
    pub dir: Folder,
}

impl Hosts {
    /// Two hosts on one link.
    pub fn pair() -> Self {
        let hosts = Self::unconnected(2);
        let (a, b) = (hosts.space("a"), hosts.space("b"));
        a.add_pair("eth1", b, "eth1");
        for (space, own, peer) in [(a, "10.0.0.2", "10.0.0.3"), (b, "10.0.0.3", "10.0.0.2")] {
            space.ip(&format!("address add {own}/32 dev eth1"));
            space.ip(&format!("route add default via {peer} dev eth1 onlink"));
        }
        hosts.wait_until_up()
    }

    /// So many hosts in one network.
    pub fn on_bridge(count: usize) -> Self {
        let bridge = Namespace::new("bridge");
        // Without snooping, the bridge sends multicast to all ports.
        bridge.ip("link add name br0 type bridge mcast_snooping 0");
        bridge.ip("link set br0 up");
        let mut hosts = Self::unconnected(count);
        for (number, space) in (2..).zip(&hosts.spaces) {
            bridge.add_pair(&format!("p{number}"), space, "eth1");
            bridge.ip(&format!("link set p{number} master br0"));
            space.ip(&format!("address add 10.0.0.{number}/24 dev eth1"));
        }
        hosts.bridge = Some(bridge);
        hosts.wait_until_up()
    }

    fn unconnected(count: usize) -> Self {
        let names = ('a'..).take(count);
        let hosts = Self {
            spaces: names
                .map(|name| Namespace::new(&name.to_string()))
                .collect(),
            bridge: None,
            dir: Folder::new("agent"),
        };
        hosts.set_params(r#"{"nic": {"rate_bps": 100000000}}"#);
        hosts
    }

    fn wait_until_up(self) -> Self {
        self.spaces.iter().for_each(Namespace::wait_until_up);
        self
    }

    /// Sets the parameters of each [`agent`](Self::agent): at first a rate of 100 Mbit/s.
    pub fn set_params(&self, text: &str) {
        self.dir.write("params.json", text);
    }

    pub fn space(&self, host: &str) -> &Namespace {
        let index = host.as_bytes()[0] - b'a';
        &self.spaces[usize::from(index)]
    }

    /// Isolated hosts of a bridge reach the others, and not each other.
    pub fn isolate(&self, host: &str, isolated: bool) {
        let port = host.as_bytes()[0] - b'a' + 2;
        let state = if isolated { "on" } else { "off" };
        let bridge = self.bridge.as_ref().unwrap();
        bridge.ip(&format!(
            "link set p{port} type bridge_slave isolated {state}"
        ));
    }

    /// A command that uses the daemon of its host if there is one. It runs in the folder.
    pub fn client(&self, host: &str, args: &str) -> Command {
        let mut command = self.space(host).command(AGENT);
        command.args(args.split_whitespace());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.current_dir(&self.dir);
        command
    }

    /// A command that has an engine of its own, with the parameters.
    pub fn agent(&self, host: &str, args: &str) -> Command {
        let mut command = self.client(host, args);
        command.args(["--interface", "eth1", "--params"]);
        command.arg(self.dir.join("params.json"));
        command
    }

    /// Starts a receiver at port 7000 of b, which listens when this returns.
    pub fn receive(&self, args: &str) -> Running {
        Running::ready(self.agent("b", &format!("recv --port 7000 {args}")), 1)
    }

    /// Sends from a to that receiver, and waits for the end.
    pub fn send(&self, args: &str) -> Output {
        let args = format!("send {args} 10.0.0.3:7000");
        self.agent("a", &args).output().unwrap()
    }

    /// Starts to send from a to that receiver.
    pub fn start_send(&self, args: &str) -> Running {
        Running::start(self.agent("a", &format!("send {args} 10.0.0.3:7000")))
    }
}

/// A running agent; killed when dropped.
pub struct Running {
    pub process: Process,
    pub lines: BufReader<ChildStdout>,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let mut process = Process::start(&mut command);
        let lines = process.stdout();
        Running { process, lines }
    }

    /// Waits until it listens for this many transports.
    pub fn ready(command: Command, transports: usize) -> Self {
        let mut running = Running::start(command);
        for _ in 0..transports {
            let line = running.line();
            assert_eq!(line["event"], "ready", "{line}");
        }
        running
    }

    /// The next line on its standard output.
    pub fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| {
            self.process.signal(Signal::KILL);
            panic!("`{line}` {}", self.process.said())
        })
    }

    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits for the end; returns the other lines and whether the exit code was 0.
    pub fn records(mut self) -> (Vec<Value>, bool) {
        let mut text = String::new();
        self.lines.read_to_string(&mut text).unwrap();
        (parse(&text), self.process.wait().success())
    }

    /// Waits for the end; whether the exit code was 0.
    pub fn end(mut self) -> bool {
        self.process.wait().success()
    }

    /// Waits for the end; its exit code, its only other line and what it has said on stderr.
    pub fn outcome(mut self) -> (Option<i32>, Value, String) {
        let line = self.line();
        let (code, said) = self.process.end();
        (code, line, said)
    }
}

/// Reads lines of JSON.
pub fn parse(text: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("`{line}`"));
    text.lines().map(parse).collect()
}

/// The lines on the standard output of a command that was successful.
pub fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text} {}", stderr(output));
    parse(&text)
}

/// The only line on its standard output.
pub fn record(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim()).unwrap_or_else(|_| panic!("`{text}` {}", stderr(output)))
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits for the first bytes of an object: with them a temporary file appears.
pub fn wait_for_bytes(dir: &Path) {
    wait_until("something arrives", || !names(dir).is_empty());
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
