//! Network namespaces and the interfaces in them.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Output};
use std::thread::{self, JoinHandle};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{unique, wait_until};

/// A network namespace; deleted when dropped, with all interfaces in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// A namespace in which only the loopback interface is up. Interfaces that are made in it have no IPv6, so that
    /// no frame appears that no test has sent.
    pub fn new(what: &str) -> Self {
        let space = Self { name: unique(what) };
        run(&format!("ip netns add {}", space.name));
        let quiet = || std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        let silenced = space.thread(quiet).join().expect("no panic");
        silenced.expect("IPv6 can be switched off");
        space.ip("link set lo up");
        space
    }

    /// Name of the namespace, as `ip netns` takes it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` on it, which must succeed; returns what it prints.
    #[track_caller]
    pub fn ip(&self, arguments: &str) -> String {
        run(&format!("ip -n {} {arguments}", self.name))
    }

    /// Runs `tc` on it, which must succeed; returns what it prints.
    #[track_caller]
    pub fn tc(&self, arguments: &str) -> String {
        run(&format!("tc -n {} {arguments}", self.name))
    }

    /// A program that will run in it. `ip` replaces itself by the program, so signals reach that.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Runs a program with arguments in it, which must succeed.
    #[track_caller]
    pub fn run(&self, line: &str) -> String {
        run(&format!("ip netns exec {} {line}", self.name))
    }

    /// Moves the calling thread into it for good.
    pub fn enter(&self) {
        enter(&self.file());
    }

    /// Runs on a thread of its own in it.
    pub fn thread<T: Send + 'static>(
        &self,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let file = self.file();
        thread::spawn(move || {
            enter(&file);
            run()
        })
    }

    /// Makes a pair of interfaces, one here and one there, both up.
    pub fn add_pair(&self, name: &str, other: &Namespace, other_name: &str) {
        let peer = format!("type veth peer name {other_name} netns {}", other.name);
        self.ip(&format!("link add name {name} {peer}"));
        self.ip(&format!("link set dev {name} up"));
        other.ip(&format!("link set dev {other_name} up"));
    }

    /// Waits until all veths in it are up, which takes a while if the kernel is busy. Frames sent before are dropped.
    pub fn wait_until_up(&self) {
        wait_until("the interfaces are up", || {
            let links = self.ip("-o link show type veth");
            links.lines().all(|link| link.contains("state UP"))
        });
    }

    fn file(&self) -> File {
        File::open(format!("/run/netns/{}", self.name)).expect("the namespace")
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "delete", &self.name])
            .status();
    }
}

fn enter(namespace: &File) {
    let kind = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(namespace.as_fd(), kind).expect("entered");
}

/// Runs a program with arguments, which must succeed; returns what it prints.
#[track_caller]
pub fn run(line: &str) -> String {
    let mut words = line.split_whitespace();
    let program = words.next().expect("a program");
    let output = Command::new(program).args(words).output();
    let Output {
        status,
        stdout,
        stderr,
    } = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let error = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{line}: {error}");
    String::from_utf8_lossy(&stdout).into_owned()
}
